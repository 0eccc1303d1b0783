/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls about many instances: QueryInstances, ListInstanceIds, PurgeInstances, task hubs,
 * SkipGracefulOrchestrationTerminations.
 */
#include "base/clock.h"
#include "server/state.h"
#include "test/lib/asking.h"

#include <stdio.h>

/* ---- QueryInstances ---- */

struct filter_of_list {
    const char *statuses; /* digits */
    int64_t from_s;
    int64_t to_s;
    bool is_to_1970;
    const char *hub;
    int32_t n_max;
    const char *token;
    const char *prefix;
    bool with_payloads;
};

static QueryInstancesResponse *query(struct asker *a, const struct filter_of_list *f)
{
    struct buffer *b = ask_new(a);
    struct pb_mark mark = pb_begin(b, 1, 50);
    for (const char *s = f->statuses; s != NULL && *s != '\0'; s++) {
        pb_put_varint(b, 1, (uint64_t)(*s - '0'));
    }
    if (f->from_s != 0) pb_put_timestamp_parts(b, 2, f->from_s, 0);
    if (f->to_s != 0 || f->is_to_1970) pb_put_timestamp_parts(b, 3, f->to_s, 0);
    put_value(b, 4, f->hub);
    pb_put_plain_int32(b, 5, f->n_max);
    put_value(b, 6, f->token);
    put_value(b, 7, f->prefix);
    pb_put_plain_varint(b, 8, f->with_payloads);
    pb_end(b, mark);
    ASK(a, "QueryInstances", GRPC_OK);
    return ask_decode(a, &query_instances_response__descriptor);
}

static const char *token_of(const QueryInstancesResponse *page)
{
    return page->continuation_token == NULL ? NULL : page->continuation_token->value;
}

TEST(a_query_filters_by_status_prefix_time_and_hub)
{
    struct asker a;
    asker_init(&a, 2);
    START(&a, "a-1", "done", "1");
    START(&a, "a-2", "nobody", "2");
    START(&a, "b-1", "done", "3");
    START(&a, "b-2", "fail", "4");
    (void)AWAIT(&a, "a-1");
    (void)AWAIT(&a, "b-1");
    int64_t now_s = AWAIT(&a, "b-2")->orchestration_state->created_timestamp->seconds;

    EXPECT_EQ(4, query(&a, &(struct filter_of_list){0})->n_orchestration_state);
    QueryInstancesResponse *page = query(&a, &(struct filter_of_list){.statuses = "1"});
    EXPECT_EQ(2, page->n_orchestration_state);
    EXPECT(page->orchestration_state[0]->input == NULL);
    EXPECT(token_of(page) == NULL);
    page = query(&a, &(struct filter_of_list){.statuses = "36", .with_payloads = true});
    EXPECT_EQ(2, page->n_orchestration_state);
    EXPECT_TEXT("a-2", page->orchestration_state[0]->instance_id);
    EXPECT_TEXT("2", page->orchestration_state[0]->input->value);
    EXPECT_TEXT("b-2", page->orchestration_state[1]->instance_id);
    EXPECT(page->orchestration_state[1]->failure_details != NULL);
    page = query(&a, &(struct filter_of_list){.prefix = "b-"});
    EXPECT_EQ(2, page->n_orchestration_state);
    page = query(&a, &(struct filter_of_list){.prefix = "b-", .statuses = "1"});
    EXPECT_EQ(1, page->n_orchestration_state);
    page = query(&a, &(struct filter_of_list){.from_s = now_s - 100, .to_s = now_s + 100});
    EXPECT_EQ(4, page->n_orchestration_state);
    page = query(&a, &(struct filter_of_list){.from_s = now_s + 100});
    EXPECT_EQ(0, page->n_orchestration_state);
    page = query(&a, &(struct filter_of_list){.to_s = now_s - 100});
    EXPECT_EQ(0, page->n_orchestration_state);
    page = query(&a, &(struct filter_of_list){.to_s = -5});
    EXPECT_EQ(0, page->n_orchestration_state);
    page = query(&a, &(struct filter_of_list){.is_to_1970 = true});
    EXPECT_EQ(0, page->n_orchestration_state);
    page = query(&a, &(struct filter_of_list){.hub = "default"});
    EXPECT_EQ(4, page->n_orchestration_state);
    page = query(&a, &(struct filter_of_list){.hub = "other"});
    EXPECT_EQ(0, page->n_orchestration_state);
    a.link = served_link(&a.served, "other");
    EXPECT_EQ(0, query(&a, &(struct filter_of_list){0})->n_orchestration_state);
    asker_release(&a);
}

/* Whoever was there during the whole reading is seen exactly once, whatever comes and goes. */
TEST(pages_show_everything_once_though_instances_come_and_go)
{
    struct asker a;
    char id[20];
    char token[600] = "";
    unsigned seen[40] = {0};
    unsigned pages_n = 0;
    asker_init(&a, 2);
    for (unsigned n = 0; n < 40; n++) {
        (void)snprintf(id, sizeof id, "i-%02u", n);
        START(&a, id, n % 2 == 0 ? "nobody" : "done", "{}");
    }
    bool is_over = false;
    while (!is_over) {
        QueryInstancesResponse *page =
            query(&a, &(struct filter_of_list){.n_max = 7, .token = token, .prefix = "i-"});
        EXPECT(page->n_orchestration_state <= 7);
        for (size_t n = 0; n < page->n_orchestration_state; n++) {
            unsigned number;
            if (sscanf(page->orchestration_state[n]->instance_id, "i-%u", &number) == 1)
                seen[number]++;
        }
        is_over = token_of(page) == NULL;
        if (!is_over) (void)snprintf(token, sizeof token, "%s", token_of(page));
        /* one comes, one that was seen goes, one changes */
        (void)snprintf(id, sizeof id, "new-%u", pages_n);
        START(&a, id, "nobody", NULL);
        (void)snprintf(id, sizeof id, "i-%02u", pages_n * 2);
        STEER(&a, "TerminateInstance", id, NULL, GRPC_OK);
        struct buffer *b = ask_new(&a);
        put_text(b, 1, id);
        ASK(&a, "PurgeInstances", GRPC_OK);
        pages_n++;
        EXPECT(pages_n < 20);
    }
    EXPECT(pages_n >= 6);
    for (unsigned n = 0; n < 40; n++) {
        test_note("instance %u", n);
        if (n % 2 == 1 || n / 2 >= pages_n) EXPECT_EQ(1, seen[n]);
        EXPECT(seen[n] <= 1);
    }
    asker_release(&a);
}

TEST(a_page_has_a_hundred_rows_unless_told_and_a_thousand_at_most)
{
    struct asker a;
    char id[20];
    asker_init(&a, 1);
    for (unsigned n = 0; n < 120; n++) {
        (void)snprintf(id, sizeof id, "i-%u", n);
        START(&a, id, "nobody", NULL);
    }
    EXPECT_EQ(100, query(&a, &(struct filter_of_list){0})->n_orchestration_state);
    EXPECT_EQ(100, query(&a, &(struct filter_of_list){.n_max = -1})->n_orchestration_state);
    EXPECT_EQ(120, query(&a, &(struct filter_of_list){.n_max = 5000})->n_orchestration_state);
    (void)ask_new(&a); /* no query at all */
    ASK(&a, "QueryInstances", GRPC_OK);
    asker_release(&a);
}

/* Most clients refuse messages of more than 4 MB. */
TEST(a_page_ends_before_it_is_too_large_to_receive)
{
    struct asker a;
    char id[20];
    static char large[1000001];
    asker_init(&a, 1);
    memset(large, 'x', sizeof large - 1);
    for (unsigned n = 0; n < 8; n++) {
        (void)snprintf(id, sizeof id, "i-%u", n);
        START(&a, id, "nobody", large);
    }
    char token[600] = "";
    unsigned rows_n = 0;
    unsigned pages_n = 0;
    for (bool is_over = false; !is_over; pages_n++) {
        QueryInstancesResponse *page =
            query(&a, &(struct filter_of_list){.token = token, .with_payloads = true});
        EXPECT(a.answer.message.len < 4000000);
        EXPECT(page->n_orchestration_state > 0);
        rows_n += (unsigned)page->n_orchestration_state;
        is_over = token_of(page) == NULL;
        if (!is_over) (void)snprintf(token, sizeof token, "%s", token_of(page));
    }
    EXPECT_EQ(8, rows_n);
    EXPECT_EQ(3, pages_n);
    asker_release(&a);
}

TEST(a_token_of_somebody_else_is_refused)
{
    static const char *const tokens[] = {"0",
                                         "a",
                                         "zz",
                                         "a00",
                                         "a0000000000000000",
                                         "b0000000000000000x",
                                         "a000000000000000Xx",
                                         "A0000000000000000x"};
    struct asker a;
    asker_init(&a, 1);
    for (unsigned n = 0; n < sizeof tokens / sizeof tokens[0]; n++) {
        test_note("%s", tokens[n]);
        struct buffer *b = ask_new(&a);
        struct pb_mark mark = pb_begin(b, 1, 50);
        put_value(b, 6, tokens[n]);
        pb_end(b, mark);
        ASK(&a, "QueryInstances", GRPC_INVALID_ARGUMENT);
        EXPECT(strstr(a.answer.text, "token") != NULL);
        b = ask_new(&a);
        put_value(b, 5, tokens[n]);
        ASK(&a, "ListInstanceIds", GRPC_INVALID_ARGUMENT);
    }
    asker_release(&a);
}

TEST(a_position_reads_back)
{
    struct buffer b;
    struct bytes id;
    int64_t ms;
    static const int64_t times[] = {0, 1, -1, 1765000000000, INT64_MAX, INT64_MIN};
    buffer_init(&b, mem_process());
    for (unsigned n = 0; n < sizeof times / sizeof times[0]; n++) {
        buffer_clear(&b);
        position_write(&b, times[n], BYTES_LITERAL("x\xc3\xa4:1"));
        EXPECT(position_read(buffer_view(&b), &ms, &id));
        EXPECT_EQ(times[n], ms);
        EXPECT_BYTES(BYTES_LITERAL("x\xc3\xa4:1"), id);
    }
    buffer_release(&b);
}

/* ---- ListInstanceIds ---- */

static ListInstanceIdsResponse *list_ids(struct asker *a, const char *statuses, int32_t n,
                                         const char *token)
{
    struct buffer *b = ask_new(a);
    for (; *statuses != '\0'; statuses++) pb_put_varint(b, 1, (uint64_t)(*statuses - '0'));
    pb_put_plain_int32(b, 4, n);
    put_value(b, 5, token);
    ASK(a, "ListInstanceIds", GRPC_OK);
    return ask_decode(a, &list_instance_ids_response__descriptor);
}

TEST(finished_ids_are_listed_in_the_order_of_their_end)
{
    struct asker a;
    char token[600];
    asker_init(&a, 2);
    START(&a, "m-third", "nobody", NULL);
    START(&a, "a-second", "nobody", NULL);
    START(&a, "z-first", "nobody", NULL);
    START(&a, "b-never", "nobody", NULL);
    static const char *const order[] = {"z-first", "a-second", "m-third"};
    for (unsigned n = 0; n < 3; n++) {
        STEER(&a, "TerminateInstance", order[n], NULL, GRPC_OK);
        /* the order is by milliseconds: let two of them pass */
        int64_t until_ns = clock_mono_ns() + 2000000;
        while (clock_mono_ns() < until_ns) (void)GET(&a, order[n]);
    }
    ListInstanceIdsResponse *page = list_ids(&a, "", 2, "");
    EXPECT_EQ(2, page->n_instance_ids);
    EXPECT_TEXT("z-first", page->instance_ids[0]);
    EXPECT_TEXT("a-second", page->instance_ids[1]);
    (void)snprintf(token, sizeof token, "%s", page->last_instance_key->value);
    page = list_ids(&a, "", 2, token);
    EXPECT_EQ(1, page->n_instance_ids);
    EXPECT_TEXT("m-third", page->instance_ids[0]);
    EXPECT(page->last_instance_key == NULL);
    EXPECT_EQ(3, list_ids(&a, "5", 0, NULL)->n_instance_ids);
    EXPECT_EQ(0, list_ids(&a, "1", 0, NULL)->n_instance_ids);
    asker_release(&a);
}

/* ---- PurgeInstances ---- */

static int32_t purge(struct asker *a, bool recursive)
{
    if (recursive) pb_put_varint(&a->message, 3, 1);
    ASK(a, "PurgeInstances", GRPC_OK);
    PurgeInstancesResponse *got = ask_decode(a, &purge_instances_response__descriptor);
    EXPECT(got->is_complete != NULL);
    EXPECT(got->is_complete->value);
    return got->deleted_instance_count;
}

static int32_t purge_id(struct asker *a, const char *id, bool recursive)
{
    put_text(ask_new(a), 1, id);
    return purge(a, recursive);
}

TEST(a_purge_by_id_counts_what_it_removed)
{
    struct asker a;
    asker_init(&a, 2);
    EXPECT_EQ(0, purge_id(&a, "none", false));
    START(&a, "w", "wait", NULL);
    EXPECT_EQ(0, purge_id(&a, "w", false));
    EXPECT(GET(&a, "w")->exists);
    STEER(&a, "TerminateInstance", "w", NULL, GRPC_OK);
    EXPECT_EQ(1, purge_id(&a, "w", false));
    EXPECT(!GET(&a, "w")->exists);
    EXPECT_EQ(0, purge_id(&a, "w", false));

    START(&a, "p", "parent", "c");
    while (!GET(&a, "c")->exists) continue;
    ask_steer(&a, "TerminateInstance", "p", NULL, true, GRPC_OK, __FILE__, __LINE__);
    (void)AWAIT(&a, "c");
    EXPECT_EQ(2, purge_id(&a, "p", true));
    EXPECT(!GET(&a, "c")->exists);
    (void)ask_new(&a);
    ASK(&a, "PurgeInstances", GRPC_INVALID_ARGUMENT);
    asker_release(&a);
}

static void put_batch(struct buffer *b, uint32_t number, unsigned n, const char *extra)
{
    char id[20];
    struct pb_mark mark = pb_begin(b, number, 20 * n);
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(id, sizeof id, "i-%u", i);
        put_text(b, 1, id);
    }
    put_text(b, 1, extra);
    pb_end(b, mark);
}

TEST(batches_of_ids_are_terminated_and_purged)
{
    struct asker a;
    char id[20];
    asker_init(&a, 2);
    for (unsigned n = 0; n < 150; n++) {
        (void)snprintf(id, sizeof id, "i-%u", n);
        START(&a, id, "nobody", NULL);
    }
    put_batch(ask_new(&a), 4, 150, "");
    EXPECT_EQ(0, purge(&a, false)); /* none has ended */
    struct buffer *b = ask_new(&a);
    put_batch(b, 1, 140, "unknown");
    put_value(b, 2, "\"stop\"");
    ASK(&a, "SkipGracefulOrchestrationTerminations", GRPC_OK);
    SkipGracefulOrchestrationTerminationsResponse *left =
        ask_decode(&a, &skip_graceful_orchestration_terminations_response__descriptor);
    EXPECT_EQ(1, left->n_unterminated_instance_ids);
    EXPECT_TEXT("unknown", left->unterminated_instance_ids[0]);
    EXPECT_TEXT("\"stop\"", GET(&a, "i-139")->orchestration_state->output->value);
    put_batch(ask_new(&a), 4, 150, "unknown");
    EXPECT_EQ(140, purge(&a, false));
    EXPECT(!GET(&a, "i-0")->exists);
    EXPECT(GET(&a, "i-140")->exists);
    put_batch(ask_new(&a), 4, 0, NULL);
    EXPECT_EQ(0, purge(&a, false));
    asker_release(&a);
}

static int32_t purge_where(struct asker *a, const char *statuses, int64_t from_s, int64_t to_s)
{
    struct buffer *b = ask_new(a);
    struct pb_mark mark = pb_begin(b, 2, 50);
    if (from_s != 0) pb_put_timestamp_parts(b, 1, from_s, 0);
    if (to_s != 0) pb_put_timestamp_parts(b, 2, to_s, 0);
    for (; *statuses != '\0'; statuses++) pb_put_varint(b, 3, (uint64_t)(*statuses - '0'));
    struct pb_mark timeout = pb_begin(b, 4, 5);
    pb_put_varint(b, 1, 60);
    pb_end(b, timeout);
    pb_end(b, mark);
    return purge(a, false);
}

TEST(a_purge_by_filter_takes_what_has_ended_and_matches)
{
    struct asker a;
    asker_init(&a, 2);
    START(&a, "d", "done", NULL);
    START(&a, "f", "fail", NULL);
    START(&a, "w", "wait", NULL);
    (void)AWAIT(&a, "d");
    int64_t now_s = AWAIT(&a, "f")->orchestration_state->created_timestamp->seconds;
    EXPECT_EQ(0, purge_where(&a, "", now_s + 100, 0));
    EXPECT_EQ(0, purge_where(&a, "", 0, now_s - 100));
    EXPECT_EQ(0, purge_where(&a, "5", 0, 0));
    EXPECT_EQ(0, purge_where(&a, "0", 0, 0)); /* running ones never */
    EXPECT_EQ(1, purge_where(&a, "3", now_s - 100, now_s + 100));
    EXPECT(!GET(&a, "f")->exists);
    EXPECT_EQ(1, purge_where(&a, "", 0, 0));
    EXPECT(!GET(&a, "d")->exists);
    EXPECT(GET(&a, "w")->exists);
    asker_release(&a);
}

/* ---- task hubs ---- */

TEST(a_deleted_hub_is_empty_and_others_are_not)
{
    struct asker a;
    asker_init(&a, 2);
    struct link *standard = a.link;
    START(&a, "w", "wait", NULL);
    a.link = served_link(&a.served, "other");
    START(&a, "w", "nobody", NULL);
    (void)ask_new(&a);
    ASK(&a, "CreateTaskHub", GRPC_OK);
    EXPECT(GET(&a, "w")->exists);
    pb_put_varint(ask_new(&a), 1, 1); /* recreate */
    ASK(&a, "CreateTaskHub", GRPC_OK);
    EXPECT(!GET(&a, "w")->exists);
    START(&a, "w", "nobody", NULL);
    (void)ask_new(&a);
    ASK(&a, "DeleteTaskHub", GRPC_OK);
    EXPECT(!GET(&a, "w")->exists);
    a.link = standard;
    EXPECT(GET(&a, "w")->exists);
    asker_release(&a);
}

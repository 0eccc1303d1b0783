/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients ask about entities, as the engine is asked it, and how its answers look. The engine
 * is the test: it keeps the last request and answers with the entities of the test.
 */
#include "server/state.h"
#include "test/lib/asking.h"

#include <stdio.h>

static struct {
    bool (*real_post)(void *user, struct request *request);
    unsigned requests_n;
    enum request_kind kind;
    char key[300];
    char prefix[300];
    struct input_signal signal;
    char operation[40];
    char input[40];
    char request_id[40];
    struct request_query query;
    char after_id[40];
    char hub[70];
    struct instance_view entities[3];
    size_t entities_n;
    bool has_more;
} fake;

static void keep(char *out, size_t size, struct bytes value)
{
    (void)snprintf(out, size, "%.*s", (int)value.len, (const char *)value.ptr);
}

static bool fake_post(void *user, struct request *request)
{
    (void)user;
    fake.requests_n++;
    fake.kind = request->kind;
    keep(fake.key, sizeof fake.key, request->key);
    request->status = OK;
    if (request->kind == REQUEST_SIGNAL) {
        fake.signal = request->signal;
        keep(fake.operation, sizeof fake.operation, request->signal.operation);
        keep(fake.input, sizeof fake.input, request->signal.input.value);
        keep(fake.request_id, sizeof fake.request_id, request->signal.request_id);
    } else if (request->kind == REQUEST_QUERY) {
        fake.query = request->query;
        keep(fake.prefix, sizeof fake.prefix, request->query.id_prefix);
        keep(fake.after_id, sizeof fake.after_id, request->query.after_id);
        keep(fake.hub, sizeof fake.hub, request->query.hub);
        request->rows = fake.entities;
        request->rows_n = fake.entities_n;
        request->has_more = fake.has_more;
    } else {
        request->view = fake.entities_n > 0 ? &fake.entities[0] : NULL;
    }
    request->done(request);
    return true;
}

static void fake_open(struct asker *a)
{
    asker_init(a, 1);
    struct desk_engine *engine =
        (struct desk_engine *)(uintptr_t)desk_engine(a->served.service->desk);
    memset(&fake, 0, sizeof fake);
    fake.real_post = engine->post;
    engine->post = fake_post;
}

static void fake_entity(const char *key, const char *state, int64_t updated_ns)
{
    fake.entities[fake.entities_n++] = (struct instance_view){
        .key = bytes_of_text(key),
        .is_entity = true,
        .entity_state = state == NULL ? MAYBE_NONE : maybe_some(bytes_of_text(state)),
        .created_ns = updated_ns,
        .updated_ns = updated_ns,
    };
}

static void signal_to(struct asker *a, const char *id, int64_t scheduled_s, enum grpc_code code,
                      int line)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    put_text(b, 2, "add");
    put_value(b, 3, "5");
    put_text(b, 4, "3f2504e0-4f89-11d3-9a0c-0305e82c3301");
    if (scheduled_s >= 0) pb_put_timestamp_parts(b, 5, scheduled_s, 0);
    ask_expect(a, "SignalEntity", code, __FILE__, line);
}

TEST(a_signal_goes_to_the_entity_with_its_name_in_lower_case)
{
    struct asker a;
    fake_open(&a);
    signal_to(&a, "@Counter@My@Key", -1, GRPC_OK, __LINE__);
    EXPECT_EQ(REQUEST_SIGNAL, fake.kind);
    EXPECT_TEXT("default/@counter@My@Key", fake.key);
    EXPECT_TEXT("add", fake.operation);
    EXPECT_TEXT("5", fake.input);
    EXPECT_TEXT("3f2504e0-4f89-11d3-9a0c-0305e82c3301", fake.request_id);
    EXPECT(!fake.signal.has_scheduled);
    signal_to(&a, "@counter@k", 0, GRPC_OK, __LINE__);
    EXPECT(!fake.signal.has_scheduled);
    signal_to(&a, "@counter@k", 4000000000, GRPC_OK, __LINE__);
    EXPECT(fake.signal.has_scheduled);
    EXPECT_EQ(4000000000000, fake.signal.scheduled_ms);
    signal_to(&a, "@counter@", -1, GRPC_OK, __LINE__); /* a key may be empty */
    asker_release(&a);
}

TEST(what_is_not_the_id_of_an_entity_is_refused)
{
    static const char *const ids[] = {"", "@", "@@", "@@key", "@name", "name@key", "counter"};
    struct asker a;
    char long_id[110];
    fake_open(&a);
    for (unsigned n = 0; n < sizeof ids / sizeof ids[0]; n++) {
        test_note("%s", ids[n]);
        signal_to(&a, ids[n], -1, GRPC_INVALID_ARGUMENT, __LINE__);
        put_text(ask_new(&a), 1, ids[n]);
        ASK(&a, "GetEntity", GRPC_INVALID_ARGUMENT);
    }
    memset(long_id, 'k', sizeof long_id);
    memcpy(long_id, "@name@", 6);
    long_id[101] = '\0';
    signal_to(&a, long_id, -1, GRPC_INVALID_ARGUMENT, __LINE__);
    EXPECT(strstr(a.answer.text, "length") != NULL);
    EXPECT_EQ(0, fake.requests_n);
    long_id[100] = '\0';
    signal_to(&a, long_id, -1, GRPC_OK, __LINE__);
    asker_release(&a);
}

static GetEntityResponse *get_entity(struct asker *a, const char *id, bool with_state)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    pb_put_plain_varint(b, 2, with_state);
    ASK(a, "GetEntity", GRPC_OK);
    return ask_decode(a, &get_entity_response__descriptor);
}

TEST(an_entity_exists_when_it_has_state)
{
    struct asker a;
    fake_open(&a);
    EXPECT(!get_entity(&a, "@c@1", true)->exists);
    fake_entity("default/@c@1", "{\"n\":1}", 1700000000000000000);
    fake.entities[0].locked_by = BYTES_LITERAL("order-1");
    fake.entities[0].backlog_n = 3;
    GetEntityResponse *got = get_entity(&a, "@C@1", true);
    EXPECT_TEXT("default/@c@1", fake.key);
    EXPECT(got->exists);
    EXPECT_TEXT("@c@1", got->entity->instance_id);
    EXPECT_TEXT("{\"n\":1}", got->entity->serialized_state->value);
    EXPECT_TEXT("order-1", got->entity->locked_by->value);
    EXPECT_EQ(3, got->entity->backlog_queue_size);
    EXPECT_EQ(1700000000, got->entity->last_modified_time->seconds);
    got = get_entity(&a, "@c@1", false);
    EXPECT(got->exists);
    EXPECT(got->entity->serialized_state == NULL);
    fake.entities[0].entity_state = MAYBE_NONE;
    EXPECT(!get_entity(&a, "@c@1", true)->exists);
    asker_release(&a);
}

static QueryEntitiesResponse *query(struct asker *a, const char *prefix, int32_t n,
                                    const char *token, bool flags)
{
    struct buffer *b = ask_new(a);
    struct pb_mark mark = pb_begin(b, 1, 50);
    put_value(b, 1, prefix);
    pb_put_timestamp_parts(b, 2, 10, 0);
    pb_put_timestamp_parts(b, 3, 20, 0);
    pb_put_plain_varint(b, 4, flags);
    pb_put_plain_varint(b, 5, flags);
    if (n > 0) {
        struct pb_mark size = pb_begin(b, 6, 4);
        pb_put_int32(b, 1, n);
        pb_end(b, size);
    }
    put_value(b, 7, token);
    pb_end(b, mark);
    ASK(a, "QueryEntities", GRPC_OK);
    return ask_decode(a, &query_entities_response__descriptor);
}

TEST(entities_are_listed_in_pages)
{
    struct asker a;
    char token[300];
    fake_open(&a);
    fake_entity("default/@c@1", "1", 11000000000);
    fake_entity("default/@c@2", "2", 12000000000);
    fake.has_more = true;
    QueryEntitiesResponse *page = query(&a, "@C@", 2, NULL, true);
    EXPECT_EQ(REQUEST_QUERY, fake.kind);
    EXPECT(fake.query.entities);
    EXPECT(fake.query.want_payloads);
    EXPECT(fake.query.want_transient);
    EXPECT_TEXT("@c@", fake.prefix);
    EXPECT_TEXT("default", fake.hub);
    EXPECT_EQ(2, fake.query.limit);
    EXPECT_EQ(10000, fake.query.from_ms);
    EXPECT_EQ(20000, fake.query.to_ms);
    EXPECT(!fake.query.has_after);
    EXPECT_EQ(2, page->n_entities);
    EXPECT_TEXT("@c@2", page->entities[1]->instance_id);
    EXPECT_TEXT("2", page->entities[1]->serialized_state->value);
    EXPECT(page->continuation_token != NULL);
    (void)snprintf(token, sizeof token, "%s", page->continuation_token->value);
    fake.has_more = false;
    page = query(&a, NULL, 0, token, false);
    EXPECT(fake.query.has_after);
    EXPECT_TEXT("@c@2", fake.after_id);
    EXPECT_TEXT("@", fake.prefix);
    EXPECT_EQ(100, fake.query.limit);
    EXPECT(!fake.query.want_payloads);
    EXPECT(!fake.query.want_transient);
    EXPECT(page->continuation_token == NULL);
    EXPECT(page->entities[0]->serialized_state == NULL);
    asker_release(&a);
}

/* The engine leaves nothing to clean. */
TEST(there_is_never_anything_to_clean)
{
    struct asker a;
    fake_open(&a);
    struct buffer *b = ask_new(&a);
    pb_put_varint(b, 2, 1);
    pb_put_varint(b, 3, 1);
    ASK(&a, "CleanEntityStorage", GRPC_OK);
    CleanEntityStorageResponse *got = ask_decode(&a, &clean_entity_storage_response__descriptor);
    EXPECT_EQ(0, got->empty_entities_removed);
    EXPECT_EQ(0, got->orphaned_locks_released);
    EXPECT(got->continuation_token == NULL);
    EXPECT_EQ(0, fake.requests_n);
    asker_release(&a);
}

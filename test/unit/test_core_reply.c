/* SPDX-License-Identifier: Apache-2.0
 *
 * The reply channel in the core (S14): what is to be told goes out in the step that it tells of, or
 * not at all.
 */
#define _GNU_SOURCE /* memmem */
#include "core/replies.h"
#include "test/lib/partition.h"
#include "test/lib/test.h"

#include <stdio.h>

#define URL "http://shop.example/hook"

static void tag(struct buffer *tags, const char *name, const char *value)
{
    struct buffer entry;
    buffer_init(&entry, tags->mem);
    buffer_u8(&entry, 0x0a);
    buffer_bytes(&entry, bytes_of_text(name));
    buffer_u8(&entry, 0x12);
    buffer_bytes(&entry, bytes_of_text(value));
    strings_add(tags, buffer_view(&entry));
    buffer_release(&entry);
}

/* As a client that wants to be told; url NULL: that does not. */
static enum status start(struct kit *k, const char *key, const char *url)
{
    struct buffer tags;
    buffer_init(&tags, &k->mem);
    tag(&tags, "customer", "42");
    if (url != NULL) tag(&tags, REPLY_TO_TAG, url);
    if (url != NULL) tag(&tags, REPLY_CORRELATION_TAG, "c-\"1\"");
    struct input_start input = {
        .key = bytes_of_text(key), .name = BYTES_LITERAL("o"), .tags = buffer_view(&tags)};
    enum status status = kit_start_with(k, input);
    buffer_release(&tags);
    return status;
}

/* "norn/<execution of key>-event", of the present execution. */
static const char *reply_key(struct kit *k, const char *key, const char *event)
{
    struct instance_view view;
    char text[EXECUTION_TEXT_SIZE];
    char *out = arena_alloc(&k->arena, 128);
    EXPECT(kit_view(k, key, &view));
    execution_id_text(view.execution_id, text);
    snprintf(out, 128, "norn/%.*s-%s", (int)sizeof text, text, event);
    return out;
}

/* What will be posted; "none" when nothing will be. */
static const char *posted(struct kit *k, const char *key, const char *event)
{
    struct instance_view view;
    if (!kit_view(k, reply_key(k, key, event), &view) || view.is_purged) return "none";
    EXPECT(bytes_equal(view.name, BYTES_LITERAL(REPLY_NAME)));
    return kit_maybe(k, view.input);
}

static const char *url_of(struct kit *k, const char *key, const char *event)
{
    struct instance_view view;
    EXPECT(kit_view(k, reply_key(k, key, event), &view));
    struct bytes tags = view.tags;
    static const char word[] = REPLY_URL_TAG;
    const uint8_t *at = memmem(tags.ptr, tags.len, word, sizeof word - 1);
    EXPECT(at != NULL);
    at += sizeof word - 1 + 1;
    return kit_bytes(k, bytes_make(at + 1, *at));
}

#define BEGINNING(event, status)                                                                   \
    "{\"event\":\"" event "\",\"id\":\"a\",\"hub\":\"hub\",\"name\":\"o\",\"correlationId\":\"c-"  \
    "\\\"1\\\"\",\"status\":\"" status "\",\"time\":\"2023-11-14T22:13:20.500000000Z\""

TEST(a_start_that_wants_to_be_told_is_told_of)
{
    struct kit *k = kit_new(1, 1);
    EXPECT_STATUS(OK, start(k, "hub/a", URL));
    EXPECT_TEXT(BEGINNING("received", "pending") "}", posted(k, "hub/a", "received"));
    EXPECT_TEXT(URL, url_of(k, "hub/a", "received"));
    EXPECT_TEXT("none", posted(k, "hub/a", "completed"));
    kit_free(k);
}

TEST(one_that_does_not_is_not)
{
    struct kit *k = kit_new(1, 1);
    EXPECT_STATUS(OK, start(k, "hub/a", NULL));
    EXPECT_EQ(1, k->records_n);
    KIT_TURN(k, "o", act_complete(1, "1"));
    EXPECT_EQ(1, k->records_n);
    EXPECT_TEXT("none", posted(k, "hub/a", "received"));
    EXPECT_TEXT("none", posted(k, "hub/a", "completed"));
    kit_free(k);
}

/* The message is in the batch of its cause: a crash right behind it loses neither, and one that
 * lost both would be as if nothing had happened. */
TEST(cause_and_reply_are_one_commit)
{
    struct kit *k = kit_new(3, 1);
    k->is_held = true;
    EXPECT_STATUS(OK, start(k, "hub/a", URL));
    EXPECT_EQ(2, k->records_n); /* created, send */
    for (uint32_t p = 0; p < 3; p++) kit_crash(k, p);
    k->is_held = false;
    kit_tick_by(k, KIT_RESEND_MS);
    EXPECT(strstr(posted(k, "hub/a", "received"), "\"received\"") != NULL);

    const struct effect_work *work = kit_must(kit_take_turn(k, "o"));
    k->is_held = true;
    KIT_ANSWER(k, work, act_complete(1, "[1, 2]"));
    EXPECT_EQ(2, k->records_n); /* turn, send */
    for (uint32_t p = 0; p < 3; p++) kit_crash(k, p);
    k->is_held = false;
    kit_tick_by(k, KIT_RESEND_MS);
    EXPECT(strstr(posted(k, "hub/a", "completed"), "\"output\":[1, 2]}") != NULL);
    kit_free(k);
}

TEST(an_end_is_told_with_what_came_of_it)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/a", URL);
    KIT_TURN(k, "o", act_complete(1, "{\"sum\": 3}"));
    EXPECT_TEXT(BEGINNING("completed", "completed") ",\"output\":{\"sum\": 3}}",
                posted(k, "hub/a", "completed"));
    kit_free(k);

    k = kit_new(1, 1);
    start(k, "hub/a", URL);
    KIT_TURN(k, "o", act_fail(1, "no \"stock\""));
    EXPECT(strstr(posted(k, "hub/a", "failed"), "\"message\":\"no \\\"stock\\\"\"}}") != NULL);
    EXPECT(strstr(posted(k, "hub/a", "failed"), "\"status\":\"failed\"") != NULL);
    kit_free(k);

    k = kit_new(1, 1);
    start(k, "hub/a", URL);
    kit_terminate(k, "hub/a", "\"enough\"", false);
    EXPECT_TEXT(BEGINNING("failed", "terminated") ",\"output\":\"enough\"}",
                posted(k, "hub/a", "failed"));
    kit_free(k);
}

/* Any SDK can say so: the custom status is the word. */
TEST(an_end_that_was_undone_is_told_as_compensated)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/a", URL);
    struct action fail = act_fail(1, "no");
    struct orchestrator_answer answer = {
        .actions = &fail,
        .actions_n = 1,
        .custom_status = maybe_text(REPLY_COMPENSATED),
    };
    EXPECT_STATUS(OK, kit_answer_with(k, kit_must(kit_take_turn(k, "o")), &answer));
    EXPECT(strstr(posted(k, "hub/a", "compensated"), "\"status\":\"failed\"") != NULL);
    EXPECT_TEXT("none", posted(k, "hub/a", "failed"));
    kit_free(k);
}

/* What is not JSON is a string, and what is too long to be sent about is named by its size. */
TEST(an_output_never_breaks_the_note)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/a", URL);
    KIT_TURN(k, "o", act_complete(1, "not {json"));
    EXPECT_TEXT(BEGINNING("completed", "completed") ",\"output\":\"not {json\"}",
                posted(k, "hub/a", "completed"));
    kit_free(k);

    k = kit_new(1, 1);
    start(k, "hub/a", URL);
    KIT_TURN(k, "o", act_complete(1, "1 2"));
    EXPECT_TEXT(BEGINNING("completed", "completed") ",\"output\":\"1 2\"}",
                posted(k, "hub/a", "completed"));
    kit_free(k);

    static char large[70001];
    memset(large, '1', sizeof large - 1);
    k = kit_new(1, 1);
    start(k, "hub/a", URL);
    KIT_TURN(k, "o", act_complete(1, large));
    EXPECT_TEXT(BEGINNING("completed", "completed") ",\"outputSize\":70000}",
                posted(k, "hub/a", "completed"));
    kit_free(k);
}

/* Generations of one orchestration are one thing to who started it. */
TEST(continuing_as_new_is_not_told)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/a", URL);
    size_t before_n = core_instances_n(kit_core(k, "hub/a"));
    KIT_TURN(k, "o", act_continue(1, "2"));
    EXPECT_EQ(before_n, core_instances_n(kit_core(k, "hub/a")));
    KIT_TURN(k, "o", act_complete(1, "2"));
    EXPECT(strstr(posted(k, "hub/a", "completed"), "\"output\":2}") != NULL);
    kit_free(k);
}

/* Begun again, it ends again: another execution, so another reply. */
TEST(every_execution_has_replies_of_its_own)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/a", URL);
    KIT_TURN(k, "o", act_fail(1, "no"));
    const char *first = reply_key(k, "hub/a", "failed");
    kit_rewind(k, "hub/a", "again");
    KIT_TURN(k, "o", act_fail(1, "no"));
    EXPECT(strcmp(first, reply_key(k, "hub/a", "failed")) != 0);
    EXPECT_TEXT("PENDING", kit_status(k, first));
    EXPECT_TEXT("PENDING", kit_status(k, reply_key(k, "hub/a", "failed")));
    kit_free(k);
}

TEST(a_url_that_is_too_long_is_not_posted_to)
{
    static char url[3000];
    memset(url, 'u', sizeof url - 1);
    struct kit *k = kit_new(1, 1);
    EXPECT_STATUS(OK, start(k, "hub/a", url));
    EXPECT_TEXT("none", posted(k, "hub/a", "received"));
    kit_free(k);
}

/* A reply that was heard is of no use to anybody; one that was not stays to be looked at. */
TEST(a_reply_that_was_heard_goes_without_a_trace)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/a", URL);
    KIT_TURN(k, "norn.reply", act_timer(1, kit_now_ms(k) + 1000));
    kit_tick_by(k, 1001);
    KIT_TURN(k, "norn.reply", act_complete(2, NULL));
    EXPECT_TEXT("none", posted(k, "hub/a", "received"));
    KIT_TURN(k, "o", act_complete(1, NULL));
    KIT_TURN(k, "norn.reply", act_fail(1, "nobody there"));
    EXPECT_TEXT("FAILED", kit_status(k, reply_key(k, "hub/a", "completed")));
    kit_free(k);
}

/* Children are their parent's business, whatever tags it gave them. */
TEST(a_child_is_not_told_of)
{
    struct kit *k = kit_new(1, 1);
    struct buffer tags;
    buffer_init(&tags, &k->mem);
    tag(&tags, REPLY_TO_TAG, URL);
    kit_start(k, "hub/p", "parent", NULL);
    struct action child = act_child(1, "o", "a", NULL);
    child.tags = buffer_view(&tags);
    EXPECT_STATUS(OK, kit_answer(k, kit_must(kit_take_turn(k, "parent")), &child, 1));
    KIT_TURN(k, "o", act_complete(1, NULL));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    EXPECT_TEXT("none", posted(k, "hub/a", "received"));
    EXPECT_TEXT("none", posted(k, "hub/a", "completed"));
    buffer_release(&tags);
    kit_free(k);
}

/* Acknowledged is received, although its turn has not come; and admitting it tells nothing more. */
TEST(a_start_that_waits_was_received)
{
    struct kit *k = kit_new(1, 1);
    char key[128];
    char text[EXECUTION_TEXT_SIZE];
    kit_limits(k,
               (struct backlog_options){.active_max = 1, .waiting_max = 10, .size_max = 1 << 20});
    kit_start(k, "hub/first", "o", NULL);
    EXPECT_STATUS(OK, start(k, "hub/a", URL));
    EXPECT_TEXT("none", kit_status(k, "hub/a"));
    execution_id_text(k->execution_id, text);
    snprintf(key, sizeof key, "norn/%.*s-received", (int)sizeof text, text);
    EXPECT_TEXT("PENDING", kit_status(k, key));
    size_t before_n = core_instances_n(kit_core(k, "hub/a"));
    KIT_TURN(k, "o", act_complete(1, NULL));
    EXPECT_EQ(1, kit_admit(k, "hub/a"));
    EXPECT_EQ(before_n + 1, core_instances_n(kit_core(k, "hub/a")));
    EXPECT_TEXT(kit_status(k, key), kit_status(k, reply_key(k, "hub/a", "received")));
    kit_free(k);
}

/* A receiver that does not hear keeps nobody from being started. */
TEST(replies_do_not_count_as_active)
{
    struct kit *k = kit_new(1, 1);
    kit_limits(k,
               (struct backlog_options){.active_max = 2, .waiting_max = 10, .size_max = 1 << 20});
    EXPECT_STATUS(OK, start(k, "hub/a", URL));
    EXPECT_STATUS(OK, start(k, "hub/b", URL));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/b"));
    EXPECT_TEXT("PENDING", kit_status(k, reply_key(k, "hub/a", "received")));
    KIT_TURN(k, "norn.reply", act_timer(1, kit_now_ms(k) + 1000));
    KIT_TURN(k, "o", act_complete(1, NULL));
    EXPECT_STATUS(OK, start(k, "hub/c", URL));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/c"));
    kit_free(k);
}

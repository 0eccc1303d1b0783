/* SPDX-License-Identifier: Apache-2.0
 *
 * Instances that have ended elsewhere: they are what they were, durably, and everything else is
 * refused in words. The kit compares each with its records and its snapshot.
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

static enum status import(struct kit *k, const char *key, struct bytes events)
{
    struct input in = {
        .kind = INPUT_CLIENT_IMPORT,
        .client = {.key = bytes_of_text(key), .data = maybe_some(events)},
    };
    enum status status = kit_step_for(k, in.client.key, &in);
    return status == OK ? k->status : status;
}

/* The events of an instance, until kit_free(). */
static struct bytes events_of(struct kit *k, const char *key)
{
    struct buffer events;
    buffer_init(&events, &k->mem);
    EXPECT(core_history(kit_core(k, key), bytes_of_text(key), &events));
    struct bytes copy = arena_copy(&k->arena, buffer_view(&events));
    buffer_release(&events);
    return copy;
}

/* A step with tags, a timer, a child and an event; then the end that it is given. */
static struct bytes life(struct kit *k, const char *key, const char *child, struct action end)
{
    struct buffer tags;
    buffer_init(&tags, &k->mem);
    strings_add(&tags, BYTES_LITERAL("\x0a\x01k\x12\x01v"));
    struct input_start start = {.key = bytes_of_text(key),
                                .name = BYTES_LITERAL("o"),
                                .input = maybe_text("in"),
                                .tags = buffer_view(&tags)};
    EXPECT_STATUS(OK, kit_start_with(k, start));
    KIT_TURN(k, "o", act_task(1, "t", "x"), act_timer(2, kit_now_ms(k) + 1000),
             act_child(3, "c", child, "y"));
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "r");
    KIT_TURN(k, "c", act_complete(1, "of the child"));
    kit_tick_by(k, 1000);
    kit_raise(k, key, "e", "1");
    KIT_ANSWER(k, kit_must(kit_take_turn(k, "o")), end);
    buffer_release(&tags);
    return events_of(k, key);
}

TEST(an_imported_instance_is_what_it_was)
{
    struct kit *k = kit_new(1, 3);
    struct instance_view was;
    struct instance_view is;
    struct bytes events = life(k, "hub/a", "b", act_complete(4, "done"));
    const char *history = kit_history(k, "hub/a");

    kit_tick_by(k, 5000);
    EXPECT(kit_view(k, "hub/a", &was));
    EXPECT_STATUS(E_EXISTS, import(k, "hub/a", events));
    EXPECT(k->records_n == 0);
    EXPECT_STATUS(OK, import(k, "other/a", events));
    EXPECT(k->records_n == 1);
    EXPECT(kit_take_turn(k, "o") == NULL);
    EXPECT(kit_take_task(k, "t") == NULL);
    for (int n = 0; n < 3; n++) {
        EXPECT(kit_view(k, "hub/a", &was));
        EXPECT(kit_view(k, "other/a", &is));
        EXPECT_TEXT("COMPLETED", kit_status(k, "other/a"));
        EXPECT_TEXT(history, kit_history(k, "other/a"));
        EXPECT(bytes_equal(events, events_of(k, "other/a")));
        EXPECT(memcmp(was.execution_id, is.execution_id, EXECUTION_ID_SIZE) == 0);
        EXPECT(is.created_ns == was.created_ns && is.completed_ns == was.completed_ns);
        EXPECT(is.updated_ns == is.completed_ns);
        if (n == 0) kit_crash(k, 0);
        if (n == 1) EXPECT(kit_evict(k, "other/a"));
    }
    EXPECT_STATUS(OK, kit_purge(k, "other/a"));
    EXPECT_TEXT("none", kit_status(k, "other/a"));
    EXPECT_STATUS(OK, import(k, "other/a", events)); /* over its tombstone */
    kit_crash(k, 0);
    EXPECT_TEXT("COMPLETED", kit_status(k, "other/a"));
    kit_free(k);
}

/* Its ExecutionStarted names the new id, and all else stays. */
TEST(another_id_is_written_into_the_start)
{
    struct kit *k = kit_new(1, 3);
    struct event_started started;
    struct bytes one;
    unsigned starts_n = 0;
    struct bytes events = life(k, "hub/a", "b", act_complete(4, "done"));

    EXPECT_STATUS(OK, import(k, "hub/copy", events));
    struct bytes copied = events_of(k, "hub/copy");
    EXPECT(strings_count(copied) == strings_count(events));
    struct reader r = reader_make(copied);
    while (strings_next(&r, &one)) {
        if (event_started_decode(one, &k->arena, &started) != OK) continue;
        EXPECT(bytes_equal(started.instance_id, BYTES_LITERAL("copy")));
        EXPECT(tags_have(started.tags, BYTES_LITERAL("k")));
        starts_n++;
    }
    EXPECT(starts_n == 1);
    EXPECT_STATUS(OK, import(k, "hub/copy-2", copied));
    kit_free(k);
}

/* One that failed goes on from there when it is rewound, and can begin again. */
TEST(an_imported_failure_can_be_rewound)
{
    struct kit *k = kit_new(1, 3);
    struct bytes events = life(k, "hub/a", "b", act_fail(4, "no"));

    EXPECT_STATUS(OK, import(k, "other/a", events));
    EXPECT_TEXT("FAILED", kit_status(k, "other/a"));
    EXPECT_STATUS(OK, kit_rewind(k, "other/a", "again"));
    KIT_TURN(k, "o", act_complete(4, "now"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "other/a"));
    EXPECT_STATUS(OK, kit_restart(k, "other/a"));
    EXPECT_TEXT("PENDING", kit_status(k, "other/a"));
    kit_free(k);
}

/* Without the n-th event, or with it twice. */
static struct bytes changed(struct kit *k, struct bytes events, uint32_t at, bool is_double)
{
    struct buffer out;
    struct reader r = reader_make(events);
    struct bytes one;
    buffer_init(&out, &k->mem);
    for (uint32_t n = 0; strings_next(&r, &one); n++) {
        if (n != at || is_double) strings_add(&out, one);
        if (n == at && is_double) strings_add(&out, one);
    }
    struct bytes copy = arena_copy(&k->arena, buffer_view(&out));
    buffer_release(&out);
    return copy;
}

TEST(what_is_no_ended_history_is_refused)
{
    struct kit *k = kit_new(1, 3);
    struct bytes events = life(k, "hub/a", "b", act_complete(4, "done"));
    uint32_t n = strings_count(events);

    EXPECT_STATUS(E_INVALID, import(k, "x/a", BYTES_NONE));
    EXPECT_STATUS(E_INVALID, import(k, "x/@a", events));
    EXPECT_STATUS(E_INVALID, import(k, "x/a?b", events));
    EXPECT_STATUS(E_PRECONDITION, import(k, "x/a", changed(k, events, n - 1, false)));
    EXPECT_STATUS(E_INVALID, import(k, "x/a", changed(k, events, n - 1, true)));
    EXPECT_TEXT("events follow after its ExecutionCompleted", k->text);
    EXPECT_STATUS(E_INVALID, import(k, "x/a", changed(k, events, 0, false)));
    EXPECT_TEXT("the history does not begin with OrchestratorStarted", k->text);
    EXPECT_STATUS(E_INVALID, import(k, "x/a", changed(k, events, 1, false)));
    EXPECT_TEXT("the history has no ExecutionStarted", k->text);
    EXPECT_STATUS(E_INVALID, import(k, "x/a", changed(k, events, 1, true)));
    EXPECT_TEXT("the history has a second ExecutionStarted", k->text);
    EXPECT_STATUS(E_INVALID, import(k, "x/a", changed(k, events, 2, true)));
    EXPECT_TEXT("two of its open steps have the same id", k->text);
    EXPECT_STATUS(E_INVALID, import(k, "x/a", bytes_make(events.ptr, events.len - 1)));
    EXPECT_TEXT("none", kit_status(k, "x/a"));
    kit_free(k);
}

/* Whatever the bytes are, nothing breaks: the kit and core_check() look after every step. What is
 * taken can be rewound and purged. */
TEST(damaged_histories_break_nothing)
{
    struct kit *k = kit_new(1, 3);
    struct bytes good = life(k, "hub/a", "b", act_fail(4, "no"));
    unsigned taken_n = 0;
    unsigned refused_n = 0;

    for (size_t at = 0; at < good.len; at++) {
        for (unsigned bit = 0; bit < 8; bit += 3) {
            uint8_t *bad = arena_alloc(&k->arena, good.len);
            memcpy(bad, good.ptr, good.len);
            bad[at] ^= (uint8_t)(1u << bit);
            if (import(k, "x/a", bytes_make(bad, good.len)) != OK) {
                refused_n++;
                continue;
            }
            taken_n++;
            (void)kit_rewind(k, "x/a", "again");
            EXPECT_STATUS(OK, kit_purge_forced(k, "x/a"));
        }
    }
    EXPECT(taken_n > 0 && refused_n > 0);
    kit_crash(k, 0);
    kit_free(k);
}

/* Ids that never grow would be searched for without end. */
TEST(a_hostile_history_is_refused_in_time)
{
    struct kit *k = kit_new(1, 3);
    struct buffer event;
    struct buffer events;
    struct bytes good = life(k, "hub/a", "b", act_complete(4, "done"));
    struct reader r = reader_make(good);
    struct bytes one;

    buffer_init(&event, &k->mem);
    buffer_init(&events, &k->mem);
    for (uint32_t n = 0; strings_next(&r, &one); n++) {
        if (n + 1 == strings_count(good)) {
            for (int32_t id = 60000; id > 10; id--) {
                struct action timer = act_timer(id, 1);
                buffer_clear(&event);
                event_write_timer_created(&event, k->now_ns, &timer);
                strings_add(&events, buffer_view(&event));
            }
        }
        strings_add(&events, one);
    }
    EXPECT_STATUS(E_INVALID, import(k, "x/a", buffer_view(&events)));
    EXPECT_TEXT("too many of its steps have ids that do not grow", k->text);
    buffer_release(&event);
    buffer_release(&events);
    kit_free(k);
}

/* With thousands of the smallest events there are: in memory each is many times its bytes. */
static struct bytes with_small_events(struct kit *k, struct bytes events)
{
    struct buffer out;
    struct reader r = reader_make(events);
    struct bytes one;
    buffer_init(&out, &k->mem);
    for (uint32_t n = 0; strings_next(&r, &one); n++) {
        for (unsigned i = 0; n == 2 && i < 20000; i++) strings_add(&out, BYTES_LITERAL("\x72\x00"));
        strings_add(&out, one);
    }
    struct bytes copy = arena_copy(&k->arena, buffer_view(&out));
    buffer_release(&out);
    return copy;
}

/* Whichever allocation fails: imported completely, or not at all. */
TEST(memory_fails_while_one_is_imported)
{
    struct kit *origin = kit_new(1, 1);
    struct bytes small = life(origin, "hub/b", "c", act_fail(4, "no"));
    struct bytes events[] = {small, with_small_events(origin, small)};
    unsigned refused_n = 0;
    for (int run = 0; run < 4; run++) {
        bool forever = run % 2 == 1;
        bool is_reached = true;
        for (uint64_t n = 1; is_reached; n++) {
            struct kit *k = kit_new(1, 1);
            k->is_thorough = false;
            k->fail_at = n;
            k->fail_forever = forever;
            EXPECT_STATUS(OK, import(k, "hub/copy", events[run / 2]));
            EXPECT_TEXT("FAILED", kit_status(k, "hub/copy"));
            if (k->nomem_n > 0) refused_n++;
            is_reached = k->nomem_n > 0 || k->fail_at == 0 || (forever && k->fail_at == 1);
            k->fail_at = 0;
            kit_free(k);
        }
    }
    EXPECT(refused_n > 0);
    kit_free(origin);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged and foreign bytes from disk: refused in words of a status, never a crash, never a core
 * that breaks its own invariants. The frames of the journal have checksums; this is about what
 * passes them.
 */
#include "test/lib/entity_kit.h"
#include "test/lib/test.h"

/* A life with most kinds of records in it. */
static struct kit *kit_with_life(void)
{
    struct kit *k = kit_new(1, 1);
    kit_policy(k, "t",
               (struct policy){.complete_by_ms = 1000,
                               .first_threshold = 1,
                               .second_threshold = 1,
                               .retry_delay_ms = 10,
                               .retry_delay_max_ms = 10,
                               .last_resort = RESORT_PARK});
    kit_start(k, "hub/a", "o", "in");
    kit_abandon(k, kit_must(kit_take_turn(k, "o")), "no");
    kit_tick_by(k, 1000);
    KIT_TURN(k, "o", act_task(1, "t", "x"), act_timer(2, KIT_START_MS + 2000),
             act_child(3, "c", "b", NULL), act_event(4, "a", "self", NULL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_tick_by(k, 1000);
    kit_task_done(k, task, "late");
    kit_tick_by(k, 10);
    kit_must(kit_take_task(k, "t"));
    kit_tick_by(k, 1000); /* parked */
    kit_resubmit(k, "hub/a", 1);
    KIT_TURN(k, "c", act_fail(1, "c"));
    kit_suspend(k, "hub/a", "s");
    kit_resume(k, "hub/a", "r");
    KIT_TURN(k, "o", act_task(5, "u", NULL), act_fail(6, "a"));
    kit_task_done(k, kit_must(kit_take_task(k, "u")), NULL);
    kit_rewind(k, "hub/a", "again");
    KIT_TURN(k, "c", act_continue(2, "n"));
    KIT_TURN(k, "c", act_complete(1, "ok"));
    KIT_TURN(k, "o", act_complete(7, "done"));
    kit_purge(k, "hub/b");
    return k;
}

/* The same of entities. */
static struct kit *kit_with_entities(void)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/o", "o", NULL);
    kit_signal(k, "hub/@e@1", "op", "in");
    kit_signal_at(k, "hub/@e@1", "later", KIT_START_MS + 1000);
    KIT_TURN(k, "o", act_call(1, "@e@1", "r", "get"), act_lock(2, "cs", "@e@1 @e@2"));
    kit_abandon(k, kit_must(kit_take_entity(k, "e")), "no");
    kit_tick_by(k, 1000);
    KIT_DONE(k, kit_must(kit_take_entity(k, "e")), "s", "a", "b");
    KIT_TURN(k, "o", act_call(3, "@e@2", "q", "get"), act_unlock(4, "cs", "@e@1"));
    kit_signal(k, "hub/@e@2", "wait", NULL);
    KIT_DONE(k, kit_must(kit_take_entity(k, "e")), NULL, "x");
    KIT_DONE(k, kit_must(kit_take_entity(k, "e")), NULL, "y");
    KIT_TURN(k, "o", act_complete(5, NULL));
    KIT_DONE(k, kit_must(kit_take_entity(k, "e")), NULL, "z");
    EXPECT_TEXT("none", kit_entity(k, "hub/@e@1"));
    EXPECT_TEXT("none", kit_entity(k, "hub/@e@2"));
    return k;
}

static struct core *fresh_core(struct kit *k)
{
    struct core_options options = {
        .partitions_n = 1, .epoch = 1, .mem = &k->mem, .resend_ms = 1000};
    struct core *c = NULL;
    EXPECT_STATUS(OK, core_new(&options, &c));
    return c;
}

/* Applies the journal up to `end`, which is known to be good. */
static void apply_prefix(struct core *c, struct bytes journal, size_t end)
{
    struct reader r = reader_make(bytes_make(journal.ptr, end));
    while (reader_left(&r) > 0) {
        struct record record;
        EXPECT_STATUS(OK, record_decode(&r, &record));
        EXPECT_STATUS(OK, core_apply(c, (struct place){.lsn = 1}, &record));
    }
}

/* One damaged record after a good prefix. */
static void try_record(struct kit *k, struct bytes journal, size_t start, struct bytes bytes)
{
    struct reader r = reader_make(bytes);
    struct record record;
    if (record_decode(&r, &record) != OK) return;
    struct core *c = fresh_core(k);
    apply_prefix(c, journal, start);
    uint64_t before = core_digest(c);
    enum status status = core_apply(c, (struct place){.lsn = 1}, &record);
    if (status != OK) {
        EXPECT_STATUS(E_CORRUPT, status);
        EXPECT(before == core_digest(c));
    }
    core_check(c);
    core_free(c);
}

/* Every bit of every record flipped, one at a time: refused, or applied without harm. */
static void flip_every_bit(struct kit *k)
{
    struct bytes journal = buffer_view(&k->partitions[0].journal);
    struct reader r = reader_make(journal);
    while (reader_left(&r) > 0) {
        struct record record;
        uint8_t copy[1024];
        size_t start = (size_t)(r.at - journal.ptr);
        EXPECT_STATUS(OK, record_decode(&r, &record));
        size_t len = (size_t)(r.at - journal.ptr) - start;
        EXPECT(len < sizeof copy);
        memcpy(copy, journal.ptr + start, len);
        for (size_t bit = 0; bit < 8 * len; bit++) {
            test_note("record %s at %zu, bit %zu", record_name(record.kind), start, bit);
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            try_record(k, journal, start, bytes_make(copy, len));
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    kit_free(k);
}

TEST(every_flipped_bit_of_a_record) { flip_every_bit(kit_with_life()); }
TEST(every_flipped_bit_of_a_record_of_entities) { flip_every_bit(kit_with_entities()); }

/* A record that was cut off is refused at every length. */
TEST(every_cut_of_a_record)
{
    struct kit *k = kit_with_life();
    struct reader r = reader_make(buffer_view(&k->partitions[0].journal));
    while (reader_left(&r) > 0) {
        struct record record;
        const uint8_t *start = r.at;
        EXPECT_STATUS(OK, record_decode(&r, &record));
        for (size_t len = 0; len < (size_t)(r.at - start); len++) {
            struct reader cut = reader_make(bytes_make(start, len));
            EXPECT_STATUS(E_CORRUPT, record_decode(&cut, &record));
        }
    }
    kit_free(k);
}

/* Every snapshot of the life, every bit flipped and every length: refused, or loaded without
 * harm. */
static void damage_snapshot(struct kit *k, const char *key)
{
    struct buffer snapshot;
    buffer_init(&snapshot, &k->mem);
    EXPECT(core_snapshot(kit_core(k, key), bytes_of_text(key), &snapshot));
    for (size_t n = 0; n < 9 * snapshot.len; n++) {
        struct core *c = fresh_core(k);
        struct instance_view view;
        size_t len = n < 8 * snapshot.len ? snapshot.len : n - 8 * snapshot.len;
        test_note("damage %zu", n);
        if (n < 8 * snapshot.len) snapshot.ptr[n / 8] ^= (uint8_t)(1u << n % 8);
        enum status status = core_load(c, bytes_make(snapshot.ptr, len), NULL);
        EXPECT(status == OK || status == E_CORRUPT || status == E_VERSION);
        if (len < snapshot.len) EXPECT_STATUS(E_CORRUPT, status);
        core_check(c);
        (void)snapshot_view(bytes_make(snapshot.ptr, len), &k->arena, &view);
        if (n < 8 * snapshot.len) snapshot.ptr[n / 8] ^= (uint8_t)(1u << n % 8);
        core_free(c);
    }
    buffer_release(&snapshot);
    kit_free(k);
}

/* The same of an entity that is locked and has all that one can have. */
TEST(every_damage_of_the_snapshot_of_an_entity)
{
    struct kit *k = kit_new(1, 1);
    kit_signal(k, "hub/@e@1", "op", "in");
    KIT_DONE(k, kit_must(kit_take_entity(k, "e")), "state", "");
    kit_start(k, "hub/o", "o", NULL);
    kit_start(k, "hub/p", "p", NULL);
    KIT_TURN(k, "o", act_lock(1, "cs", "@e@1"));
    KIT_TURN(k, "o", act_call(2, "@e@1", "r", "get"));
    KIT_TURN(k, "p", act_lock(1, "other", "@e@1 @e@2"));
    kit_signal_at(k, "hub/@e@1", "later", KIT_START_MS + 1000);
    damage_snapshot(k, "hub/@e@1");
}

TEST(every_damage_of_a_snapshot)
{
    struct kit *k = kit_new(1, 1);
    kit_policy(k, "t", (struct policy){.last_resort = RESORT_PARK});
    kit_start(k, "hub/a", "o", "in");
    KIT_TURN(k, "o", act_task(1, "u", "x"), act_continue(2, "n"));
    KIT_TURN(k, "o", act_task(1, "t", "x"), act_task(2, "u", "y"),
             act_timer(3, KIT_START_MS + 1000), act_child(4, "c", "b", "z"));
    kit_abandon(k, kit_must(kit_take_task(k, "t")), "no");
    kit_abandon(k, kit_must(kit_take_task(k, "u")), "no");
    kit_raise(k, "hub/a", "e", "1");
    damage_snapshot(k, "hub/a");
}

/* The same for the partition's own state. */
TEST(every_damage_of_the_partition_state)
{
    struct kit *k = kit_new(1, 1);
    struct buffer snapshot;
    k->is_held = true;
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_event(1, "b", "e", "1"), act_event(2, "b", "e", "2"));
    buffer_init(&snapshot, &k->mem);
    core_partition_snapshot(kit_core(k, "hub/a"), &snapshot);
    for (size_t n = 0; n < 9 * snapshot.len; n++) {
        struct core *c = fresh_core(k);
        size_t len = n < 8 * snapshot.len ? snapshot.len : n - 8 * snapshot.len;
        test_note("damage %zu", n);
        if (n < 8 * snapshot.len) snapshot.ptr[n / 8] ^= (uint8_t)(1u << n % 8);
        enum status status = core_partition_load(c, bytes_make(snapshot.ptr, len));
        EXPECT(status == OK || status == E_CORRUPT || status == E_VERSION);
        if (len < snapshot.len) EXPECT(status != OK);
        if (n < 8 * snapshot.len) snapshot.ptr[n / 8] ^= (uint8_t)(1u << n % 8);
        core_free(c);
    }
    buffer_release(&snapshot);
    kit_free(k);
}

/* ---- records that are well-formed and make no sense ---- */

struct bad {
    struct kit *k;
    struct core *c;
    struct buffer event;
    struct buffer events;
    uint64_t seq;
};

static void bad_init(struct bad *b)
{
    b->k = kit_new(1, 1);
    b->c = b->k->partitions[0].shadow;
    buffer_init(&b->event, &b->k->mem);
    buffer_init(&b->events, &b->k->mem);
    kit_start(b->k, "hub/a", "o", NULL);
    KIT_TURN(b->k, "o", act_task(1, "t", NULL));
    kit_start(b->k, "hub/dead", "o", NULL);
    kit_terminate(b->k, "hub/dead", NULL, false);
    b->seq = core_seq(b->c);
}

static void bad_release(struct bad *b)
{
    buffer_release(&b->events);
    buffer_release(&b->event);
    kit_free(b->k);
}

static void add_task(struct bad *b, int32_t id)
{
    struct action task = act_task(id, "t", NULL);
    buffer_clear(&b->event);
    event_write_task_scheduled(&b->event, 0, &task);
    strings_add(&b->events, buffer_view(&b->event));
}

static void add_end(struct bad *b, enum orchestration_status status)
{
    struct event_completed end = {.status = status};
    buffer_clear(&b->event);
    event_write_execution_completed(&b->event, 0, 9, &end);
    strings_add(&b->events, buffer_view(&b->event));
}

static void expect_refused(struct bad *b, const char *key, struct record record)
{
    uint64_t before = core_digest(b->c);
    record.seq = ++b->seq;
    record.key = bytes_of_text(key);
    record.event = buffer_view(&b->event);
    record.events = buffer_view(&b->events);
    EXPECT_STATUS(E_CORRUPT, core_apply(b->c, (struct place){.lsn = 1}, &record));
    EXPECT(before == core_digest(b->c));
    core_check(b->c);
    buffer_clear(&b->event);
    buffer_clear(&b->events);
}

TEST(senseless_turns_are_refused)
{
    struct bad b;
    bad_init(&b);
    add_task(&b, 1); /* open already */
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_TURN});
    add_task(&b, 7);
    add_task(&b, 6);
    add_task(&b, 7); /* twice */
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_TURN});
    add_end(&b, STATUS_COMPLETED);
    add_task(&b, 8); /* after the end */
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_TURN});
    add_end(&b, STATUS_RUNNING);
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_TURN});
    event_write_task_completed(&b.event, 0, 1, MAYBE_NONE);
    strings_add(&b.events, buffer_view(&b.event)); /* no event of a turn */
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_TURN});
    strings_add(&b.events, BYTES_LITERAL("\x62\x02\x0a\xff")); /* a timer without a time */
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_TURN});
    buffer_append(&b.events, "\x7f", 1); /* strings that end too early */
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_TURN});
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_TURN, .consumed_n = 1});
    add_task(&b, 9);
    expect_refused(&b, "hub/dead", (struct record){.kind = RECORD_TURN});
    expect_refused(&b, "hub/none", (struct record){.kind = RECORD_TURN});
    bad_release(&b);
}

TEST(other_senseless_records_are_refused)
{
    struct bad b;
    struct event_started started = {.name = BYTES_LITERAL("o")};
    bad_init(&b);
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_CREATED});
    event_started_write(&b.event, 0, &started);
    expect_refused(&b, "nohub", (struct record){.kind = RECORD_CREATED});
    event_started_write(&b.event, 0, &started); /* not a message */
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_MESSAGE});
    event_write_raised(&b.event, 0, BYTES_LITERAL("e"), MAYBE_NONE);
    expect_refused(&b, "hub/dead", (struct record){.kind = RECORD_MESSAGE});
    event_write_raised(&b.event, 0, BYTES_LITERAL("e"), MAYBE_NONE);
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_CONTINUED});
    event_write_task_completed(&b.event, 0, 1, MAYBE_NONE);
    strings_add(&b.events, buffer_view(&b.event));
    buffer_clear(&b.event);
    event_started_write(&b.event, 0, &started);
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_CONTINUED});
    event_write_rewound(&b.event, 0, MAYBE_NONE);
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_REWOUND}); /* it has not ended */
    event_write_raised(&b.event, 0, BYTES_LITERAL("e"), MAYBE_NONE);
    expect_refused(&b, "hub/dead", (struct record){.kind = RECORD_REWOUND});
    expect_refused(&b, "hub/a",
                   (struct record){.kind = RECORD_TASK_CLOSED, .task_id = 1}); /* execution */
    expect_refused(&b, "hub/a", (struct record){.kind = RECORD_TASK_TRIED, .task_id = 2});
    expect_refused(&b, "hub/none", (struct record){.kind = RECORD_PURGED});
    expect_refused(&b, "", (struct record){.kind = RECORD_SEND, .peer = 1, .message_seq = 1});
    expect_refused(&b, "", (struct record){.kind = RECORD_SEND, .message_seq = 7});
    expect_refused(
        &b, "",
        (struct record){.kind = RECORD_SEND, .message_seq = 1, .target = BYTES_LITERAL("nohub")});
    expect_refused(&b, "", (struct record){.kind = RECORD_RECEIVED, .message_seq = 7});
    bad_release(&b);
}

/* ---- the codec of events and actions ---- */

/* Bytes that are no event, or not that event. */
TEST(events_that_are_none)
{
    struct kit *k = kit_new(1, 1);
    struct event_head head;
    struct event_started started;
    struct event_scheduled scheduled;
    struct event_completed completed;
    struct maybe input = MAYBE_NONE;
    bool recurse = false;
    int64_t at_ms = 0;
    const struct bytes junk = BYTES_LITERAL("\xff");
    const struct bytes raised = BYTES_LITERAL("\x8a\x01\x00");
    EXPECT_STATUS(E_INVALID, event_head_decode(junk, &head));
    EXPECT_STATUS(E_INVALID, event_head_decode(BYTES_LITERAL("\x10\x01"), &head)); /* no time */
    EXPECT_STATUS(OK, event_head_decode(BYTES_LITERAL("\xfa\x3e\x00"), &head));
    EXPECT_EQ(EVENT_UNKNOWN, head.kind); /* of a newer program: kept */
    EXPECT_STATUS(E_INVALID, event_started_decode(junk, &k->arena, &started));
    EXPECT_STATUS(E_INVALID, event_started_decode(raised, &k->arena, &started));
    EXPECT_STATUS(E_INVALID, event_scheduled_decode(junk, &k->arena, &scheduled));
    EXPECT_STATUS(E_INVALID, event_scheduled_decode(raised, &k->arena, &scheduled));
    EXPECT_STATUS(E_INVALID, event_completed_decode(junk, &completed));
    EXPECT_STATUS(E_INVALID, event_completed_decode(raised, &completed));
    EXPECT_STATUS(E_INVALID, event_fire_at_decode(junk, &at_ms));
    EXPECT_STATUS(E_INVALID, event_fire_at_decode(raised, &at_ms));
    EXPECT_STATUS(E_INVALID,
                  event_started_rewrite(&k->records, junk, &k->arena, k->execution_id, NULL));
    EXPECT_STATUS(E_INVALID,
                  event_started_rewrite(&k->records, raised, &k->arena, k->execution_id, NULL));
    event_terminated_decode(raised, &input, &recurse);
    EXPECT(!input.has);
    EXPECT_EQ(0, event_failure_type(junk).len);
    EXPECT_EQ(0, event_failure_type(raised).len);
    uint8_t id[EXECUTION_ID_SIZE];
    EXPECT(!execution_id_parse(BYTES_LITERAL("0123"), id));
    EXPECT(!execution_id_parse(BYTES_LITERAL("0123456789abcdef0123456789abcdeg"), id));
    EXPECT(execution_id_parse(BYTES_LITERAL("0123456789ABCDEF0123456789abcdef"), id));
    kit_free(k);
}

/* Answers that are none are refused as a whole; nothing of them is used. */
TEST(answers_that_are_none)
{
    static const char *const answers[] = {
        "ff",                       /* no protobuf */
        "1001",                     /* action that is a number */
        "1200",                     /* action without a kind */
        "1203120108",               /* cut off */
        "1a0101",                   /* custom status that is no StringValue */
        "120412020801",             /* task whose name is a number */
        "12042a020a01",             /* event whose target is cut off */
        "120a22080a061080a8d6b907", /* timer with a wrong time */
        "12043a020801",             /* terminate whose target is a number */
        "120432021001",             /* completion whose result is a number */
    };
    struct kit *k = kit_new(1, 1);
    for (size_t n = 0; n < sizeof answers / sizeof answers[0]; n++) {
        struct orchestrator_answer answer = {.actions_n = 77};
        test_note("case %zu", n);
        EXPECT_STATUS(E_INVALID,
                      orchestrator_answer_decode(test_hex(answers[n]), &k->arena, &answer));
        EXPECT_EQ(77, answer.actions_n); /* untouched */
    }
    kit_free(k);
}

/* The same for entities. */
TEST(answers_of_entities_that_are_none)
{
    static const char *const answers[] = {
        "ff",           /* no protobuf */
        "0801",         /* result that is a number */
        "1200",         /* action without a kind */
        "1a0101",       /* state that is no StringValue */
        "0a040a020801", /* result whose output is a number */
        "0a0412020801", /* failure that is a number */
        "120412020801", /* signal whose target is a number */
        "12041a021001", /* start whose name is a number */
    };
    struct kit *k = kit_new(1, 1);
    for (size_t n = 0; n < sizeof answers / sizeof answers[0]; n++) {
        const struct entity_answer *answer = NULL;
        test_note("case %zu", n);
        EXPECT_STATUS(E_INVALID, entity_answer_decode(test_hex(answers[n]), &k->arena, &answer));
        EXPECT(answer == NULL); /* untouched */
    }
    kit_free(k);
}

/* An answer as it stands on the wire, field by field. */
TEST(an_answer_of_an_entity_is_read)
{
    struct kit *k = kit_new(1, 1);
    const struct entity_answer *a = NULL;
    EXPECT_STATUS(OK, entity_answer_decode(test_hex("0a070a050a030a0172" /* success "r" */
                                                    "0a0712050a030a0145" /* failure E */
                                                    "120d08011209"       /* signal */
                                                    "0a044065406b12016f" /* @e@k o */
                                                    "120b08021a07"       /* start */
                                                    "0a00120177"
                                                    "2a00" /* w, at 0 */
                                                    "1a030a0173"
                                                    "2a0174"
                                                    "3801"), /* state s, token t */
                                           &k->arena, &a));
    EXPECT_EQ(2, a->results_n);
    EXPECT(!a->results[0].is_failure);
    EXPECT(a->results[1].is_failure);
    EXPECT_EQ(2, a->actions_n);
    EXPECT(a->actions[0].kind == ENTITY_ACTION_SIGNAL);
    EXPECT_TEXT("@e@k", kit_bytes(k, a->actions[0].instance_id));
    EXPECT_TEXT("o", kit_bytes(k, a->actions[0].name));
    EXPECT(a->actions[1].kind == ENTITY_ACTION_START);
    EXPECT_TEXT("w", kit_bytes(k, a->actions[1].name));
    EXPECT(a->actions[1].has_scheduled);
    EXPECT_TEXT("s", kit_maybe(k, a->state));
    EXPECT(a->requires_state);
    EXPECT(!a->failure.has);
    kit_free(k);
}

/* A count near its end would wrap around to 0, which no record has. */
TEST(an_absurd_sequence_number_is_refused)
{
    struct kit *k = kit_new(1, 1);
    struct core *c = fresh_core(k);
    struct buffer snapshot;
    buffer_init(&snapshot, &k->mem);
    buffer_u8(&snapshot, 1);
    buffer_varint(&snapshot, UINT64_MAX);
    buffer_varint(&snapshot, 0);
    buffer_u64(&snapshot, 0);
    buffer_varint(&snapshot, 1);
    for (int n = 0; n < 3; n++) buffer_varint(&snapshot, 0);
    EXPECT_STATUS(E_CORRUPT, core_partition_load(c, buffer_view(&snapshot)));
    core_free(c);
    buffer_release(&snapshot);
    kit_free(k);
}

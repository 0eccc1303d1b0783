/* SPDX-License-Identifier: Apache-2.0
 *
 * Without memory: whichever allocation fails, a step happens completely or not at all. Each
 * scenario is run again and again, with the first, second, third ... allocation failing, once or
 * from then on, until none is left to fail. The kit checks that a step that said E_NOMEM has
 * changed nothing, and repeats it with memory.
 */
#include "test/lib/entity_kit.h"
#include "test/lib/test.h"

#include <stdio.h>

typedef void scenario_fn(struct kit *k);

/* How many runs there were in which a step said E_NOMEM. */
static unsigned fail_every_allocation(scenario_fn *scenario, uint32_t partitions_n, uint64_t stride)
{
    unsigned refused_n = 0;
    for (int forever = 0; forever < 2; forever++) {
        bool is_reached = true;
        for (uint64_t n = 1; is_reached; n += stride) {
            struct kit *k = kit_new(partitions_n, 1);
            test_note("allocation %llu fails%s", (unsigned long long)n,
                      forever ? " and all after it" : "");
            k->is_thorough = false;
            k->fail_at = n;
            k->fail_forever = forever != 0;
            scenario(k);
            if (k->nomem_n > 0) refused_n++;
            is_reached = k->nomem_n > 0 || k->fail_at == 0 || (forever && k->fail_at == 1);
            k->fail_at = 0;
            kit_free(k);
        }
    }
    return refused_n;
}

static void tasks_and_timers(struct kit *k)
{
    kit_start(k, "hub/a", "o", "in");
    KIT_TURN(k, "o", act_task(1, "t", "x"), act_timer(2, KIT_START_MS + 1000));
    kit_return(k, kit_must(kit_take_task(k, "t")));
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "r");
    kit_tick_by(k, 1000);
    kit_raise(k, "hub/a", "e", "1");
    kit_return(k, kit_must(kit_take_turn(k, "o")));
    kit_abandon(k, kit_must(kit_take_turn(k, "o")), "no");
    kit_tick_by(k, 1000);
    KIT_TURN(k, "o", act_complete(3, "done"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    kit_purge(k, "hub/a");
}

/* Start, activity, timer, event, abandon, completion, purge. */
TEST(memory_fails_in_a_simple_life) { EXPECT(fail_every_allocation(tasks_and_timers, 1, 1) > 0); }

static void tree(struct kit *k)
{
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(1, "child", "c", "x"), act_child(2, "child", "d", "y"));
    KIT_TURN(k, "child", act_fail(1, "no"));
    KIT_TURN(k, "parent", act_fail(3, "child failed"));
    kit_rewind(k, "hub/p", "again");
    KIT_TURN(k, "child", act_complete(1, "r"));
    KIT_TURN(k, "child", act_complete(2, "r"));
    kit_terminate(k, "hub/p", "over", true);
    EXPECT_TEXT("TERMINATED", kit_status(k, "hub/p"));
    kit_restart(k, "hub/p");
}

/* A raw map entry each: norn.replyTo, and another. */
static void told(struct kit *k)
{
    static const char tags[] = "\x0a\x0a\x03"
                               "abc\x12\x03"
                               "def\x19\x0a\x0cnorn.replyTo\x12\x09http://ab";
    static char output[60001];
    memset(output, '\x01', sizeof output - 1); /* grows sixfold */
    struct input_start start = {
        .key = BYTES_LITERAL("hub/a"), .name = BYTES_LITERAL("o"), .tags = BYTES_LITERAL(tags)};
    kit_start_with(k, start);
    KIT_TURN(k, "o", act_complete(1, output));
    KIT_TURN(k, "norn.reply", act_complete(1, NULL));
    KIT_TURN(k, "norn.reply", act_complete(1, NULL));
    kit_restart(k, "hub/a");
    kit_terminate(k, "hub/a", output, false);
}

/* Replies, as large as they may be. */
TEST(memory_fails_while_somebody_is_told) { EXPECT(fail_every_allocation(told, 3, 1) > 0); }

/* Children in other partitions, their failure, rewind, recursive terminate, restart. */
TEST(memory_fails_in_a_tree) { EXPECT(fail_every_allocation(tree, 3, 1) > 0); }

static void generations(struct kit *k)
{
    kit_start(k, "hub/a", "o", "1");
    kit_suspend(k, "hub/a", "s");
    kit_resume(k, "hub/a", "r");
    KIT_TURN(k, "o", act_task(1, "t", "x"), act_event(2, "a", "me", "2"), act_continue(3, "2"));
    kit_raise(k, "hub/a", "e", NULL);
    KIT_TURN(k, "o", act_task(1, "t", "x"));
    kit_suspend(k, "hub/a", "s");
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "of the old");
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "of the new", false);
    kit_resume(k, "hub/a", "r");
    KIT_TURN(k, "o", act_continue(2, "3"));
    KIT_TURN(k, "o", act_complete(1, NULL));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
}

/* Continue-as-new with detached tasks, suspend and resume. */
TEST(memory_fails_between_generations) { EXPECT(fail_every_allocation(generations, 1, 1) > 0); }

static void supervised(struct kit *k)
{
    kit_policy(k, "t",
               (struct policy){.complete_by_ms = 100,
                               .first_threshold = 1,
                               .second_threshold = 1,
                               .retry_delay_ms = 10,
                               .retry_delay_max_ms = 10,
                               .last_resort = RESORT_PARK});
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", NULL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_tick_by(k, 100);
    kit_task_done(k, task, "late");
    kit_tick_by(k, 10);
    kit_renew(k, kit_must(kit_take_task(k, "t")), 50);
    kit_tick_by(k, 50);
    kit_resubmit(k, "hub/a", 1);
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "r");
    KIT_TURN(k, "o", act_complete(2, NULL));
}

/* The Supervisor's ladder, alerts and late answers. */
TEST(memory_fails_under_supervision) { EXPECT(fail_every_allocation(supervised, 1, 1) > 0); }

static void entities(struct kit *k)
{
    struct entity_result result = {.output = MAYBE_NONE};
    struct entity_action actions[] = {
        {.kind = ENTITY_ACTION_SIGNAL,
         .instance_id = BYTES_LITERAL("@E@2"),
         .name = BYTES_LITERAL("op")},
        {.kind = ENTITY_ACTION_START, .name = BYTES_LITERAL("started")},
    };
    struct entity_answer answer = {.results = &result,
                                   .results_n = 1,
                                   .actions = actions,
                                   .actions_n = 2,
                                   .state = maybe_text("s")};
    kit_signal(k, "hub/@e@1", "op", "in");
    kit_signal_at(k, "hub/@e@1", "later", kit_now_ms(k) + 500);
    kit_start(k, "hub/o", "o", NULL);
    KIT_TURN(k, "o", act_call(1, "@e@1", "r", "get"), act_signal(2, "@E@3", "q", "op", 0));
    kit_entity_answer(k, kit_must(kit_take_entity(k, "e")), true, &answer);
    kit_abandon(k, kit_must(kit_take_entity(k, "e")), "no");
    kit_tick_by(k, 1000);
    KIT_DONE(k, kit_must(kit_take_entity(k, "e")), NULL, "!x", "y");
    KIT_DONE(k, kit_must(kit_take_entity(k, "e")), NULL, "z");
    KIT_DONE(k, kit_must(kit_take_entity(k, "e")), NULL, "z");
    KIT_TURN(k, "started", act_complete(1, NULL));
    kit_terminate(k, "hub/o", NULL, false);
}

/* Batches, calls, delayed signals, what operations ask for, removal. */
TEST(memory_fails_in_entities) { EXPECT(fail_every_allocation(entities, 3, 1) > 0); }

static void locks(struct kit *k)
{
    char set[40 * 8] = "";
    for (int n = 0; n < 40; n++) {
        char id[12];
        (void)snprintf(id, sizeof id, "@X@%02d ", n);
        strncat(set, id, sizeof set - strlen(set) - 1);
    }
    kit_start(k, "hub/o", "o", NULL);
    kit_start(k, "hub/p", "p", NULL);
    KIT_TURN(k, "o", act_lock(1, "cs", set));
    KIT_TURN(k, "p", act_lock(1, "cs", "@x@03 @x@07"));
    KIT_TURN(k, "o", act_call(2, "@x@03", "r", "op"), act_unlock(3, "cs", "@x@39"));
    kit_signal(k, "hub/@x@03", "wait", NULL);
    KIT_DONE(k, kit_must(kit_take_entity(k, "x")), "s", "r");
    KIT_TURN(k, "o", act_fail(4, "no"));
    kit_rewind(k, "hub/o", NULL);
    kit_terminate(k, "hub/p", NULL, false);
    KIT_DONE(k, kit_must(kit_take_entity(k, "x")), NULL, "r");
    KIT_TURN(k, "o", act_continue(5, NULL));
    KIT_TURN(k, "o", act_lock(1, "cs", set), act_complete(2, NULL));
    EXPECT_TEXT("none", kit_entity(k, "hub/@x@03"));
}

/* A section of many, its release, its rewind, its end before it is granted. */
TEST(memory_fails_in_critical_sections) { EXPECT(fail_every_allocation(locks, 4, 23) > 0); }

/* ---- sizes: what a step copies is reserved, however large it is ---- */

static char large[200001];

static const char *large_text(size_t size)
{
    memset(large, 'x', size);
    large[size] = '\0';
    return large;
}

static void large_payloads(struct kit *k)
{
    const char *text = large_text(40000);
    kit_start(k, "hub/a", "o", text);
    KIT_TURN(k, "o", act_task(1, "t", text), act_child(2, "c", "b", text),
             act_event(3, "a", "e", text));
    kit_task_done(k, kit_must(kit_take_task(k, "t")), text);
    KIT_TURN(k, "c", act_complete(1, text));
    kit_raise(k, "hub/a", "e", text);
    KIT_TURN(k, "o", act_complete(4, text));
    kit_restart(k, "hub/a");
    kit_terminate(k, "hub/a", text, true);
}

TEST(memory_fails_with_large_payloads) { EXPECT(fail_every_allocation(large_payloads, 2, 5) > 0); }

/* Tasks that are still open move to the next generation with their inputs: together they are more
 * than any of the steps before needed. */
static void large_generation(struct kit *k)
{
    uint64_t fail_at = k->fail_at;
    k->fail_at = 0;
    k->is_without_past = true;
    kit_start(k, "hub/a", "o", NULL);
    for (int32_t n = 0; n < 24; n++) {
        KIT_TURN(k, "o", act_task(n, "t", large_text(20000)));
        kit_raise(k, "hub/a", "e", NULL);
    }
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    k->fail_at = fail_at; /* only in the step that copies all this */
    KIT_ANSWER(k, turn, act_continue(40, "small"));
}

TEST(memory_fails_in_a_large_generation)
{
    EXPECT(fail_every_allocation(large_generation, 1, 1) > 0);
}

/* Every child is told the reason: many times a large one. */
static void large_reason_for_many(struct kit *k)
{
    struct action children[20];
    char ids[20][16];
    kit_start(k, "hub/a", "o", NULL);
    for (int32_t n = 0; n < 20; n++) {
        (void)snprintf(ids[n], sizeof ids[n], "c%d", n);
        children[n] = act_child(n, "c", ids[n], NULL);
    }
    uint64_t fail_at = k->fail_at;
    k->fail_at = 0;
    kit_answer(k, kit_must(kit_take_turn(k, "o")), children, 20);
    k->is_held = true;
    k->fail_at = fail_at; /* only in the step that tells them */
    kit_terminate(k, "hub/a", large_text(30000), true);
}

TEST(memory_fails_when_many_are_told)
{
    EXPECT(fail_every_allocation(large_reason_for_many, 2, 1) > 0);
}

/* Many small actions in one answer, each with a queue or a message of its own. */
static void many_actions(struct kit *k)
{
    static struct action actions[900];
    static char names[300][16];
    uint64_t fail_at = k->fail_at;
    k->fail_at = 0;
    kit_start(k, "hub/a", "o", NULL);
    for (int32_t n = 0; n < 300; n++) {
        (void)snprintf(names[n], sizeof names[n], "t%d", n);
        actions[3 * n] = act_task(3 * n, names[n], NULL);
        actions[3 * n + 1] = act_child(3 * n + 1, "c", names[n], NULL);
        actions[3 * n + 2] = act_timer(3 * n + 2, 0);
    }
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    k->is_held = true;
    k->fail_at = fail_at;
    kit_answer(k, turn, actions, 900);
}

TEST(memory_fails_with_many_actions) { EXPECT(fail_every_allocation(many_actions, 1, 199) > 0); }

/* As many timers as a tick takes, in instances with long names, each of which needs memory of its
 * own. */
static void many_timers(struct kit *k)
{
    char key[128];
    char name[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int n = 0; n < 300; n++) {
        (void)snprintf(key, sizeof key, "hub/%090d", n);
        name[0] = (char)('a' + n % 26);
        name[1] = (char)('a' + n / 26);
        kit_start(k, key, name, large_text((size_t)n * 3)); /* so that no two arenas are alike */
        KIT_TURN(k, name, act_timer(1, KIT_START_MS + 1000));
    }
    uint64_t fail_at = k->fail_at;
    k->fail_at = 1; /* from here on, or the beginning would be all that is tested */
    kit_tick_by(k, 1001);
    k->fail_at = fail_at;
    EXPECT_EQ(300, core_stats(kit_core(k, "hub/a"))->timers_fired);
}

TEST(memory_fails_when_many_timers_fire)
{
    for (int forever = 0; forever < 2; forever++) {
        struct kit *k = kit_new(1, 1);
        k->is_thorough = false;
        k->fail_forever = forever != 0;
        many_timers(k);
        k->fail_at = 0;
        kit_free(k);
    }
}

/* A step reserves for what it does, not for all that the instance is: near the limit a large
 * history can still be sent messages, suspended and terminated. */
TEST(small_steps_of_a_large_instance_need_little)
{
    struct kit *k = kit_new(1, 1);
    k->is_thorough = false;
    k->is_without_past = true;
    kit_start(k, "hub/a", "o", NULL);
    kit_start(k, "hub/b", "from", NULL);
    for (int32_t n = 0; n < 40; n++) {
        kit_raise(k, "hub/a", "e", large_text(100000));
        kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    }
    k->room = 1000000;
    KIT_TURN(k, "from", act_event(1, "a", "e", NULL), act_event(2, "a", "e", NULL));
    KIT_TURN(k, "o", act_task(1, "t", NULL));
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "r");
    kit_suspend(k, "hub/a", NULL);
    kit_terminate(k, "hub/a", "x", true);
    kit_restart(k, "hub/a");
    EXPECT_EQ(0, k->nomem_n);
    EXPECT_TEXT("PENDING", kit_status(k, "hub/a"));
    kit_free(k);
}

/* ---- recovery and loading ---- */

/* A record that finds no memory is not damaged: E_NOMEM, nothing changed, and applied when there is
 * some. */
TEST(memory_fails_in_recovery)
{
    struct kit *k = kit_new(1, 1);
    struct buffer tags;
    buffer_init(&tags, &k->mem);
    strings_add(&tags, BYTES_LITERAL("\x0a\x01k\x12\x01v"));
    struct input_start start = {
        .key = BYTES_LITERAL("hub/tagged"), .name = BYTES_LITERAL("x"), .tags = buffer_view(&tags)};
    kit_start_with(k, start);
    generations(k);
    supervised(k);
    entities(k);
    struct action task = act_task(1, "t", large_text(200000));
    struct orchestrator_answer answer = {.actions = &task,
                                         .actions_n = 1,
                                         .custom_status = maybe_text(large),
                                         .trace = maybe_text(large)};
    kit_answer_with(k, kit_must(kit_take_turn(k, "x")), &answer);
    for (int forever = 0; forever < 2; forever++) {
        uint64_t fail_at = 1;
        bool is_reached = true;
        while (is_reached) {
            struct mem mem;
            struct core *c = NULL;
            mem_init(&mem, SIZE_MAX);
            struct core_options options = {.partitions_n = 1, .epoch = 1, .mem = &mem};
            EXPECT_STATUS(OK, core_new(&options, &c));
            test_note("allocation %llu", (unsigned long long)fail_at);
            struct reader r = reader_make(buffer_view(&k->partitions[0].journal));
            mem.fail_at = fail_at;
            mem.fail_forever = forever != 0;
            is_reached = false;
            while (reader_left(&r) > 0) {
                struct record record;
                EXPECT_STATUS(OK, record_decode(&r, &record));
                enum status status = core_apply(c, (struct place){.lsn = 1}, &record);
                if (status != OK) {
                    EXPECT_STATUS(E_NOMEM, status);
                    mem.fail_at = 0;
                    is_reached = true;
                    core_check(c);
                    EXPECT_STATUS(OK, core_apply(c, (struct place){.lsn = 1}, &record));
                }
            }
            if (mem.fail_at == 0 || mem.fail_forever) is_reached = is_reached || mem.fail_at <= 1;
            mem.fail_at = 0;
            core_check(c);
            EXPECT(core_digest(c) == core_digest(k->partitions[0].live));
            core_free(c);
            mem_release(&mem);
            fail_at++;
        }
    }
    buffer_release(&tags);
    kit_free(k);
}

/* The same for a snapshot, and for the partition's own state with many small letters. */
TEST(memory_fails_in_loading)
{
    struct kit *k = kit_new(1, 1);
    struct buffer snapshot;
    struct buffer partition;
    static struct action actions[400];
    k->is_held = true;
    k->is_thorough = false;
    buffer_init(&snapshot, &k->mem);
    buffer_init(&partition, &k->mem);
    kit_start(k, "h/a", "o", NULL);
    for (int32_t n = 0; n < 200; n++) actions[n] = act_task(n, "t", NULL);
    for (int32_t n = 200; n < 400; n++) actions[n] = act_event(n, "a", "e", NULL);
    actions[150] = act_continue(1000, NULL);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), actions, 400);
    actions[150] = act_timer(150, 0);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), actions, 400);
    EXPECT(core_snapshot(kit_core(k, "h/a"), BYTES_LITERAL("h/a"), &snapshot));
    core_partition_snapshot(kit_core(k, "h/a"), &partition);
    uint64_t digest = core_digest(kit_core(k, "h/a"));
    for (uint64_t fail_at = 1; fail_at < 60; fail_at++) {
        struct mem mem;
        struct core *c = NULL;
        mem_init(&mem, SIZE_MAX);
        struct core_options options = {.partitions_n = 1, .epoch = 1, .mem = &mem};
        EXPECT_STATUS(OK, core_new(&options, &c));
        test_note("allocation %llu", (unsigned long long)fail_at);
        mem.fail_at = fail_at;
        mem.fail_forever = true;
        enum status status = core_load(c, buffer_view(&snapshot), NULL);
        if (status != OK) {
            EXPECT_STATUS(E_NOMEM, status);
            EXPECT_EQ(0, core_instances_n(c));
            mem.fail_at = 0;
            EXPECT_STATUS(OK, core_load(c, buffer_view(&snapshot), NULL));
            mem.fail_at = fail_at;
        }
        status = core_partition_load(c, buffer_view(&partition));
        if (status != OK) {
            EXPECT_STATUS(E_NOMEM, status);
            mem.fail_at = 0;
            EXPECT_STATUS(OK, core_partition_load(c, buffer_view(&partition)));
        }
        mem.fail_at = 0;
        core_check(c);
        EXPECT(core_digest(c) == digest);
        core_free(c);
        mem_release(&mem);
    }
    buffer_release(&partition);
    buffer_release(&snapshot);
    kit_free(k);
}

/* A core that cannot be made leaves nothing behind. */
TEST(memory_fails_in_core_new)
{
    for (uint64_t n = 1; n <= 2; n++) {
        struct mem mem;
        struct core *c = NULL;
        mem_init(&mem, SIZE_MAX);
        struct core_options options = {.partitions_n = 4, .epoch = 1, .mem = &mem};
        mem.fail_at = n;
        EXPECT_STATUS(E_NOMEM, core_new(&options, &c));
        mem_release(&mem);
    }
}

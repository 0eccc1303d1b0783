/* SPDX-License-Identifier: Apache-2.0
 *
 * Work over the library's link to a real server: every kind of it and every action, abandoned, too
 * much of it, with a long history.
 */
#include "test/e2e/link_kit.h"

static enum status on_events(void *user, struct bytes events)
{
    *(uint32_t *)user += count(events, EVENT_TASK_COMPLETED);
    return OK;
}

/* One task, one result: the whole way there and back. */
TEST(a_turn_and_a_task_are_done)
{
    struct hand *hand = &world.hand;
    struct seen seen = {0};
    uint32_t completed_n = 0;

    world_begin(NULL, NULL);
    start_flow(world.link, "a");
    struct link_work *work = hand_take(hand, WORK_TURN);
    EXPECT_BYTES(TEXT("a"), work->id);
    EXPECT_BYTES(TEXT("flow"), work->name);
    EXPECT(work->has_past);
    EXPECT_EQ(0, work->history_n);
    EXPECT_EQ(1, count(work->fresh, EVENT_EXECUTION_STARTED));
    work->answer.custom_status = SOME("\"busy\"");
    answer_one(hand, work, task_action(1, "\"you\""));

    work = hand_take(hand, WORK_TASK);
    EXPECT_BYTES(TEXT("a"), work->id);
    EXPECT_BYTES(TEXT("greet"), work->name);
    EXPECT_BYTES(TEXT("\"you\""), work->input.value);
    EXPECT_EQ(1, work->task_id);
    EXPECT_STATUS(OK, link_renew(work, 1000));
    work->result = SOME("\"hello you\"");
    answer(hand, work);

    work = hand_take(hand, WORK_TURN);
    EXPECT_EQ(3, work->history_n);
    EXPECT_EQ(3, work->base);
    EXPECT(!work->is_past_filtered);
    EXPECT_EQ(1, count(work->past, EVENT_TASK_SCHEDULED));
    EXPECT_EQ(1, count(work->fresh, EVENT_TASK_COMPLETED));
    EXPECT_STATUS(OK, link_get(world.link, TEXT("a"), 0, on_view, &seen, why));
    EXPECT_TEXT("\"busy\"", seen.custom);
    EXPECT_EQ(STATUS_RUNNING, seen.status);
    answer_one(hand, work, complete_action(2, "\"done\""));
    expect_output(world.link, "a", "\"done\"");
    EXPECT_STATUS(OK, link_history(world.link, TEXT("a"), on_events, &completed_n, why));
    EXPECT_EQ(1, completed_n);
    world_end();
}

/* Events, children, timers, failures and new executions travel as any other action. */
TEST(every_action_arrives)
{
    struct hand *hand = &world.hand;
    struct seen seen = {0};
    struct mem mem;
    struct buffer failure;

    world_begin(NULL, NULL);
    start_flow(world.link, "a");
    struct link_work *work = hand_take(hand, WORK_TURN);
    struct action *actions = actions_of(work, 3);
    actions[0] = (struct action){
        .kind = ACTION_CREATE_CHILD, .id = 1, .name = TEXT("child"), .instance_id = TEXT("kid")};
    actions[1] = (struct action){.kind = ACTION_CREATE_TIMER, .id = 2, .fire_at_s = 1};
    actions[2] = (struct action){.kind = ACTION_SEND_EVENT,
                                 .id = 3,
                                 .name = TEXT("ping"),
                                 .instance_id = TEXT("a"),
                                 .input = SOME("7")};
    answer(hand, work);

    bool is_failed = false;
    uint32_t raised_n = 0;
    uint32_t fired_n = 0;
    mem_init(&mem, SIZE_MAX);
    buffer_init(&failure, &mem);
    failure_write(&failure, "Broken", TEXT("no luck"), false);
    while (!is_failed || raised_n == 0 || fired_n == 0) {
        work = hand_take(hand, WORK_TURN);
        if (bytes_equal(work->id, TEXT("kid"))) {
            EXPECT_BYTES(TEXT("child"), work->name);
            answer_one(hand, work,
                       (struct action){.kind = ACTION_COMPLETE,
                                       .id = 1,
                                       .status = STATUS_FAILED,
                                       .failure = maybe_some(buffer_view(&failure))});
            continue;
        }
        is_failed = is_failed || count(work->fresh, EVENT_CHILD_FAILED) > 0;
        raised_n += count(work->fresh, EVENT_EVENT_RAISED);
        fired_n += count(work->fresh, EVENT_TIMER_FIRED);
        if (!is_failed || raised_n == 0 || fired_n == 0) {
            (void)actions_of(work, 0);
            answer(hand, work);
        }
    }
    EXPECT_EQ(1, raised_n);
    EXPECT_EQ(1, fired_n);
    EXPECT_STATUS(OK, link_get(world.link, TEXT("kid"), 0, on_view, &seen, why));
    EXPECT_EQ(STATUS_FAILED, seen.status);
    EXPECT_TEXT("no luck", seen.failure);
    answer_one(hand, work,
               (struct action){.kind = ACTION_COMPLETE,
                               .id = 4,
                               .status = STATUS_CONTINUED_AS_NEW,
                               .input = SOME("\"again\"")});
    work = hand_take(hand, WORK_TURN);
    EXPECT_EQ(0, work->history_n);
    EXPECT_STATUS(OK, link_raise(world.link, TEXT("a"), TEXT("e"), SOME("1"), why));
    answer_one(hand, work, complete_action(1, "\"end\""));
    expect_output(world.link, "a", "\"end\"");
    buffer_release(&failure);
    mem_release(&mem);
    world_end();
}

/* An operation reaches the entity, and its state comes back. */
TEST(an_entity_is_served)
{
    struct hand *hand = &world.hand;
    struct seen seen = {0};
    struct bytes id = TEXT("@counter@a");

    world_begin(NULL, NULL);
    EXPECT_STATUS(OK, link_raise(world.link, TEXT("@Counter@a"), TEXT("add"), SOME("5"), why));
    struct link_work *work = hand_take(hand, WORK_ENTITY);
    EXPECT_BYTES(id, work->id);
    EXPECT_BYTES(TEXT("counter"), work->name);
    EXPECT_EQ(1, count(work->fresh, EVENT_ENTITY_SIGNALED));
    EXPECT(!work->state.has);
    struct entity_result *results = arena_alloc_zero(&work->arena, sizeof *results);
    struct entity_action *started = arena_alloc_zero(&work->arena, sizeof *started);
    results[0].output = SOME("5");
    *started = (struct entity_action){
        .kind = ENTITY_ACTION_START, .name = TEXT("flow"), .instance_id = TEXT("from-entity")};
    work->entity = (struct entity_answer){.results = results,
                                          .results_n = 1,
                                          .actions = started,
                                          .actions_n = 1,
                                          .state = SOME("{\"n\":5}")};
    answer(hand, work);
    work = hand_take(hand, WORK_TURN);
    EXPECT_BYTES(TEXT("from-entity"), work->id);
    EXPECT_STATUS(OK, link_get(world.link, id, 0, on_view, &seen, why));
    EXPECT_TEXT("{\"n\":5}", seen.state);
    answer_one(hand, work, complete_action(1, "1"));
    world_end();
}

/* What the protocol does not tell its workers, ours are told: how often it was tried before, and
 * that the history has parts which are not for workers. */
TEST(attempts_and_rewinding_are_told)
{
    struct hand *hand = &world.hand;
    struct mem mem;
    struct buffer failure;

    world_begin(NULL, NULL);
    start_flow(world.link, "a");
    answer_one(hand, hand_take(hand, WORK_TURN), task_action(1, "1"));
    struct link_work *work = hand_take(hand, WORK_TASK);
    EXPECT_EQ(0, work->failures);
    link_abandon(work, false, "");
    link_flush(hand->port);
    work = hand_take(hand, WORK_TASK);
    EXPECT_EQ(1, work->failures);
    mem_init(&mem, SIZE_MAX);
    buffer_init(&failure, &mem);
    failure_write(&failure, "Broken", TEXT("no luck"), false);
    work->failure = maybe_some(buffer_view(&failure));
    answer(hand, work);
    work = hand_take(hand, WORK_TURN);
    answer_one(hand, work,
               (struct action){.kind = ACTION_COMPLETE,
                               .id = 2,
                               .status = STATUS_FAILED,
                               .failure = maybe_some(buffer_view(&failure))});
    EXPECT_STATUS(OK, link_get(world.link, TEXT("a"), 20000, NULL, NULL, why));
    EXPECT_STATUS(OK, link_control(world.link, TEXT("a"), LINK_REWIND, MAYBE_NONE, why));
    work = hand_take(hand, WORK_TURN);
    EXPECT(work->is_past_filtered || work->history_n == 0 ||
           count(work->fresh, EVENT_EXECUTION_REWOUND) > 0);
    answer_one(hand, work, task_action(1, "2"));
    work = hand_take(hand, WORK_TASK);
    work->result = SOME("1");
    answer(hand, work);
    work = hand_take(hand, WORK_TURN);
    EXPECT(work->is_past_filtered);
    answer_one(hand, work, complete_action(2, "1"));
    expect_output(world.link, "a", "1");
    buffer_release(&failure);
    mem_release(&mem);
    world_end();
}

/* Given back, it comes again: to this worker, or to the next one. */
TEST(abandoned_work_comes_again)
{
    struct hand *hand = &world.hand;

    world_begin(NULL, NULL);
    start_flow(world.link, "a");
    struct link_work *work = hand_take(hand, WORK_TURN);
    link_abandon(work, false, "not today");
    link_flush(hand->port);
    work = hand_take(hand, WORK_TURN);
    link_abandon(work, false, "nor now");
    hand_detach(hand);
    hand_attach(hand, world.link, 4, 4);
    work = hand_take(hand, WORK_TURN);
    EXPECT_BYTES(TEXT("a"), work->id);
    answer_one(hand, work, complete_action(1, "1"));
    expect_output(world.link, "a", "1");
    world_end();
}

/* No more is out at once than there is credit, whatever the server sends. */
TEST(credit_bounds_what_is_out)
{
    struct hand *hand = &world.hand;
    char id[16];

    world_begin(NULL, NULL);
    hand_detach(hand);
    hand_attach(hand, world.link, 1, 3);
    for (int n = 0; n < 3; n++) {
        (void)snprintf(id, sizeof id, "i%d", n);
        start_flow(world.link, id);
    }
    struct link_work *first = hand_take(hand, WORK_TURN);
    EXPECT(hand_take_within(hand, NS_PER_S / 2) == NULL);
    link_credit(hand->port, WORK_TURN, 1);
    struct link_work *second = hand_take(hand, WORK_TURN);
    EXPECT(hand_take_within(hand, NS_PER_S / 2) == NULL);
    first->is_credit_kept = true;
    answer_one(hand, first, complete_action(1, "1"));
    EXPECT(hand_take_within(hand, NS_PER_S / 2) == NULL);
    answer_one(hand, second, complete_action(1, "1"));
    answer_one(hand, hand_take(hand, WORK_TURN), complete_action(1, "1"));
    world_end();
}

/* A long history is fetched before the turn is delivered: the worker sees no difference. */
TEST(a_long_history_is_fetched)
{
    struct hand *hand = &world.hand;

    world_begin("--work-history-size-max", "4KiB");
    start_flow(world.link, "a");
    struct link_work *work = hand_take(hand, WORK_TURN);
    struct action *actions = actions_of(work, 300);
    for (int32_t n = 0; n < 300; n++) {
        actions[n] = (struct action){
            .kind = ACTION_CREATE_TIMER, .id = n + 1, .fire_at_s = n == 0 ? 1 : INT64_C(1) << 33};
    }
    answer(hand, work);
    work = hand_take(hand, WORK_TURN);
    EXPECT_EQ(1, count(work->fresh, EVENT_TIMER_FIRED));
    EXPECT_EQ(300, count(work->past, EVENT_TIMER_CREATED));
    EXPECT_EQ(302, work->base);
    EXPECT(!work->is_past_filtered);
    EXPECT_BYTES(TEXT("flow"), work->name);
    answer_one(hand, work, complete_action(400, "1"));
    expect_output(world.link, "a", "1");
    world_end();
}

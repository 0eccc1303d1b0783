/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's half of the protocol against the server's: what one writes, the other reads back
 * as it was. And bytes that a broken server might send.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "lib/link_remote.h"
#include "lib/memory.h"
#include "server/work_item.h"
#include "server/work_wish.h"
#include "test/lib/test.h"
#include "wire/message.h"
#include "wire/pb.h"

#include <stdio.h>

#define TEXT(s) bytes_of_text(s)
#define SOME(s) maybe_some(TEXT(s))

static struct mem mem;
static struct arena arena;

static void open_memory(void)
{
    mem_init(&mem, SIZE_MAX);
    arena_init(&arena, &mem, 512);
}

static void close_memory(void)
{
    arena_release(&arena);
    mem_release(&mem);
}

static struct remote_work *work_open(enum work_kind kind)
{
    static struct remote_work work;

    work = (struct remote_work){.token = TEXT("token")};
    link_work_init(&work.work);
    work.work.kind = kind;
    work.work.id = TEXT("id");
    buffer_init(&work.message, &work.work.mem);
    buffer_init(&work.past, &work.work.mem);
    return &work;
}

static void work_close(struct remote_work *work)
{
    buffer_release(&work->message);
    buffer_release(&work->past);
    link_work_release(&work->work);
}

static struct bytes strings_of(const char *a, const char *b)
{
    struct buffer packed;

    buffer_init(&packed, &mem);
    strings_add(&packed, TEXT(a));
    strings_add(&packed, TEXT(b));
    struct bytes copy = arena_copy(&arena, buffer_view(&packed));
    buffer_release(&packed);
    return copy;
}

static void expect_maybe(struct maybe expected, struct maybe got)
{
    EXPECT_EQ(expected.has, got.has);
    EXPECT_BYTES(expected.value, got.value);
}

static void expect_action(const struct action *expected, const struct action *got)
{
    EXPECT_EQ(expected->kind, got->kind);
    EXPECT_EQ(expected->id, got->id);
    EXPECT_BYTES(expected->name, got->name);
    EXPECT_BYTES(expected->instance_id, got->instance_id);
    EXPECT_BYTES(expected->tags, got->tags);
    EXPECT_BYTES(expected->carryover, got->carryover);
    EXPECT_BYTES(expected->entity_body, got->entity_body);
    EXPECT_EQ(expected->entity_event, got->entity_event);
    EXPECT_EQ(expected->fire_at_s, got->fire_at_s);
    EXPECT_EQ(expected->fire_at_ns, got->fire_at_ns);
    EXPECT_EQ(expected->status, got->status);
    EXPECT_EQ(expected->recurse, got->recurse);
    expect_maybe(expected->version, got->version);
    expect_maybe(expected->input, got->input);
    expect_maybe(expected->trace, got->trace);
    expect_maybe(expected->failure, got->failure);
    expect_maybe(expected->new_version, got->new_version);
}

/* A field that is written under a wrong number would be lost without a word. */
TEST(every_action_is_read_back)
{
    open_memory();
    struct remote_work *work = work_open(WORK_TURN);
    struct maybe raw = maybe_some(test_hex("0a0161"));
    struct action actions[] = {
        {.kind = ACTION_SCHEDULE_TASK,
         .id = 1,
         .name = TEXT("n"),
         .version = SOME("2"),
         .input = SOME(""),
         .tags = strings_of("\n\001a", "\n\001b"),
         .trace = raw},
        {.kind = ACTION_CREATE_CHILD,
         .id = 2,
         .name = TEXT("n"),
         .version = SOME("2"),
         .input = SOME("in"),
         .instance_id = TEXT("kid"),
         .tags = strings_of("\n\001a", "\n\001b"),
         .trace = raw},
        {.kind = ACTION_CREATE_TIMER, .id = 3, .fire_at_s = 1234567, .fire_at_ns = 89},
        {.kind = ACTION_SEND_EVENT,
         .id = 4,
         .name = TEXT("n"),
         .instance_id = TEXT("to"),
         .input = SOME("in")},
        {.kind = ACTION_COMPLETE,
         .id = -1,
         .status = STATUS_CONTINUED_AS_NEW,
         .input = SOME("r"),
         .failure = raw,
         .new_version = SOME("3"),
         .carryover = strings_of("e1", "e2")},
        {.kind = ACTION_TERMINATE,
         .id = 5,
         .instance_id = TEXT("to"),
         .input = SOME("why"),
         .recurse = true},
        {.kind = ACTION_SEND_ENTITY_MESSAGE,
         .id = 6,
         .entity_event = EVENT_ENTITY_SIGNALED,
         .entity_body = TEXT("body")},
        {.kind = ACTION_SEND_ENTITY_MESSAGE,
         .id = 7,
         .entity_event = EVENT_ENTITY_CALLED,
         .entity_body = TEXT("body")},
        {.kind = ACTION_SEND_ENTITY_MESSAGE,
         .id = 8,
         .entity_event = EVENT_ENTITY_LOCK_REQUESTED,
         .entity_body = TEXT("body")},
        {.kind = ACTION_SEND_ENTITY_MESSAGE,
         .id = 0,
         .entity_event = EVENT_ENTITY_UNLOCK_SENT,
         .entity_body = TEXT("body")},
    };
    work->work.answer = (struct orchestrator_answer){.actions = actions,
                                                     .actions_n = sizeof actions / sizeof *actions,
                                                     .custom_status = SOME("s"),
                                                     .trace = maybe_some(test_hex("0a030a0161"))};
    struct orchestrator_answer got;
    remote_write_answer(work);
    struct bytes message = buffer_view(&work->message);
    EXPECT_STATUS(OK, orchestrator_answer_decode(message, &arena, &got));
    EXPECT_EQ(work->work.answer.actions_n, got.actions_n);
    for (uint32_t n = 0; n < got.actions_n; n++) {
        test_note("action %u", n);
        expect_action(&actions[n], &got.actions[n]);
    }
    expect_maybe(SOME("s"), got.custom_status);
    expect_maybe(maybe_some(test_hex("0a030a0161")), got.trace);
    work_close(work);
    close_memory();
}

/* The server finds by the token what is answered; the id is for people. */
TEST(a_turns_answer_names_its_work)
{
    OrchestratorResponse *response;

    open_memory();
    struct remote_work *work = work_open(WORK_TURN);
    remote_write_answer(work);
    EXPECT(strstr(work->path, "CompleteOrchestratorTask") != NULL);
    EXPECT_STATUS(OK,
                  message_decode(&orchestrator_response__descriptor, buffer_view(&work->message),
                                 &arena, (ProtobufCMessage **)&response));
    EXPECT_TEXT("token", response->completion_token);
    EXPECT_TEXT("id", response->instance_id);
    work_close(work);
    close_memory();
}

/* More than a server takes in one message: each part is below it, names the work and its place, and
 * all of them one behind the other are the answer. */
TEST(a_large_answer_is_sent_in_parts)
{
    enum { N = 40 };
    static uint8_t input[(size_t)1 << 20];
    struct action actions[N];
    struct orchestrator_answer got;

    open_memory();
    memset(input, 'x', sizeof input);
    struct remote_work *work = work_open(WORK_TURN);
    for (int32_t n = 0; n < N; n++) {
        actions[n] = (struct action){.kind = ACTION_SCHEDULE_TASK,
                                     .id = n,
                                     .name = TEXT("n"),
                                     .input = maybe_some(bytes_make(input, sizeof input))};
    }
    work->work.answer = (struct orchestrator_answer){
        .actions = actions, .actions_n = N, .custom_status = SOME("s")};
    remote_write_answer(work);
    EXPECT_EQ(4, work->parts_n);
    EXPECT_EQ(work->message.len, work->part_ends[3]);
    for (uint32_t n = 0; n < work->parts_n; n++) {
        OrchestratorResponse *response;
        size_t from = n > 0 ? work->part_ends[n - 1] : 0;
        struct bytes part = bytes_make(work->message.ptr + from, work->part_ends[n] - from);
        EXPECT(part.len < (size_t)16 << 20);
        EXPECT_STATUS(OK, message_decode(&orchestrator_response__descriptor, part, &arena,
                                         (ProtobufCMessage **)&response));
        EXPECT_TEXT("token", response->completion_token);
        EXPECT_EQ(n < 3, response->is_partial);
        EXPECT_EQ(n, response->chunk_index->value);
    }
    EXPECT_STATUS(OK, orchestrator_answer_decode(buffer_view(&work->message), &arena, &got));
    EXPECT_EQ(N, got.actions_n);
    for (uint32_t n = 0; n < got.actions_n; n++) expect_action(&actions[n], &got.actions[n]);
    expect_maybe(SOME("s"), got.custom_status);
    work_close(work);

    work = work_open(WORK_TURN);
    work->work.answer = (struct orchestrator_answer){.actions = actions, .actions_n = 10};
    remote_write_answer(work);
    EXPECT_EQ(1, work->parts_n);
    work_close(work);
    close_memory();
}

TEST(an_activitys_answer_is_read_back)
{
    ActivityResponse *response;

    open_memory();
    struct remote_work *work = work_open(WORK_TASK);
    work->work.task_id = 7;
    work->work.result = SOME("");
    remote_write_answer(work);
    EXPECT_STATUS(OK, message_decode(&activity_response__descriptor, buffer_view(&work->message),
                                     &arena, (ProtobufCMessage **)&response));
    EXPECT_TEXT("id", response->instance_id);
    EXPECT_TEXT("token", response->completion_token);
    EXPECT_EQ(7, response->task_id);
    EXPECT(response->result != NULL);
    EXPECT(response->failure_details == NULL);
    struct buffer failure;
    buffer_init(&failure, &mem);
    failure_write(&failure, "Type", TEXT("text"), true);
    work->work.failure = maybe_some(buffer_view(&failure));
    buffer_clear(&work->message);
    remote_write_answer(work);
    EXPECT_STATUS(OK, message_decode(&activity_response__descriptor, buffer_view(&work->message),
                                     &arena, (ProtobufCMessage **)&response));
    EXPECT(response->result == NULL);
    EXPECT_TEXT("Type", response->failure_details->error_type);
    buffer_release(&failure);
    work_close(work);
    close_memory();
}

TEST(an_entitys_answer_is_read_back)
{
    const struct entity_answer *got;

    open_memory();
    struct remote_work *work = work_open(WORK_ENTITY);
    struct bytes raw = test_hex("0a0161");
    struct entity_result results[] = {{.output = SOME("o")}, {.is_failure = true, .failure = raw}};
    struct entity_action actions[] = {
        {.kind = ENTITY_ACTION_SIGNAL,
         .instance_id = TEXT("@a@b"),
         .name = TEXT("op"),
         .input = SOME("i"),
         .has_scheduled = true,
         .scheduled_ms = 5001,
         .trace = maybe_some(raw)},
        {.kind = ENTITY_ACTION_START,
         .instance_id = TEXT("x"),
         .name = TEXT("flow"),
         .version = SOME("2"),
         .input = SOME("i"),
         .has_scheduled = true,
         .scheduled_ms = 5001,
         .trace = maybe_some(raw)},
    };
    work->work.entity = (struct entity_answer){.results = results,
                                               .results_n = 2,
                                               .actions = actions,
                                               .actions_n = 2,
                                               .state = SOME(""),
                                               .failure = maybe_some(raw),
                                               .requires_state = true};
    remote_write_answer(work);
    EXPECT_STATUS(OK, entity_answer_decode(buffer_view(&work->message), &arena, &got));
    EXPECT_EQ(2, got->results_n);
    EXPECT_EQ(2, got->actions_n);
    expect_maybe(SOME("o"), got->results[0].output);
    EXPECT(got->results[1].is_failure);
    EXPECT_BYTES(raw, got->results[1].failure);
    for (size_t n = 0; n < 2; n++) {
        EXPECT_EQ(actions[n].kind, got->actions[n].kind);
        EXPECT_BYTES(actions[n].instance_id, got->actions[n].instance_id);
        EXPECT_BYTES(actions[n].name, got->actions[n].name);
        expect_maybe(actions[n].version, got->actions[n].version);
        expect_maybe(actions[n].input, got->actions[n].input);
        expect_maybe(actions[n].trace, got->actions[n].trace);
        EXPECT_EQ(5001, got->actions[n].scheduled_ms);
    }
    expect_maybe(SOME(""), got->state);
    expect_maybe(maybe_some(raw), got->failure);
    EXPECT(got->requires_state);
    work_close(work);
    close_memory();
}

/* What a worker wishes for is what the server understands; a kind without names gets nothing. */
TEST(a_wish_is_read_back)
{
    struct bytes versions[] = {TEXT("1"), BYTES_NONE};
    struct link_name turns[] = {{.name = TEXT("a"), .versions = versions, .versions_n = 2},
                                {.name = TEXT("b")}};
    struct link_name tasks[] = {{.name = TEXT("t")}};
    struct link_worker worker = {
        .names = {turns, tasks, NULL},
        .names_n = {2, 1, 0},
        .credits = {1000, 16, 0},
        .credits_max = {4096, 4096, 0},
    };
    struct buffer message;
    struct work_wish wish;

    open_memory();
    buffer_init(&message, &mem);
    remote_write_wish(&message, &worker);
    EXPECT_STATUS(OK, message_check(&get_work_items_request__descriptor, buffer_view(&message)));
    EXPECT_STATUS(OK, work_wish_read(buffer_view(&message), &arena, &wish));
    EXPECT(wish.has_filters);
    EXPECT(wish.can_stream);
    EXPECT(wish.is_own);
    EXPECT_EQ(1000, wish.limit[WORK_TURN]);
    EXPECT_EQ(256, wish.limit[WORK_TASK]); /* not all that it may ever be */
    EXPECT_EQ(2, wish.filters_n[WORK_TURN]);
    EXPECT_EQ(1, wish.filters_n[WORK_TASK]);
    EXPECT_EQ(0, wish.filters_n[WORK_ENTITY]);
    EXPECT_BYTES(TEXT("a"), wish.filters[WORK_TURN][0].name);
    EXPECT_EQ(2, wish.filters[WORK_TURN][0].versions_n);
    EXPECT_EQ(0, wish.filters[WORK_TURN][0].versions[1].len);
    EXPECT_EQ(0, wish.filters[WORK_TURN][1].versions_n);
    EXPECT_BYTES(TEXT("t"), wish.filters[WORK_TASK][0].name);
    buffer_release(&message);
    close_memory();
}

/* ---- work items ---- */

static void put_event(struct buffer *packed, struct buffer *event)
{
    strings_add(packed, buffer_view(event));
    buffer_clear(event);
}

/* A turn with one past event of each kind that matters, as the server sends it; in the arena. */
static struct bytes turn_item(void)
{
    struct buffer past;
    struct buffer fresh;
    struct buffer event;
    struct event_started started = {
        .name = TEXT("flow"), .version = SOME("7"), .instance_id = TEXT("id")};
    const uint64_t mac_key[2] = {1, 2};
    struct work_recipe recipe = {.mac_key = mac_key,
                                 .message_size_max = 1 << 20,
                                 .history_size_max = 1 << 20,
                                 .is_own = true};

    buffer_init(&past, &mem);
    buffer_init(&fresh, &mem);
    buffer_init(&event, &mem);
    event_write_orchestrator_started(&event, 5);
    put_event(&past, &event);
    event_started_write(&event, 5, &started);
    put_event(&past, &event);
    event_write_orchestrator_started(&event, 6);
    put_event(&fresh, &event);
    event_write_raised(&event, 6, TEXT("go"), SOME("1"));
    put_event(&fresh, &event);
    struct effect_work work = {
        .ref = {.kind = WORK_TURN, .key = TEXT("default/id"), .execution_id = {1, 2, 3}},
        .has_past = true,
        .past = buffer_view(&past),
        .fresh = buffer_view(&fresh),
        .history_n = 3, /* one was not for workers */
    };
    struct parcel *parcel = work_item_pack(&recipe, NULL, &work);
    EXPECT(parcel != NULL);
    struct bytes item = arena_copy(&arena, buffer_view(&parcel->message));
    parcel_free(parcel);
    buffer_release(&past);
    buffer_release(&fresh);
    buffer_release(&event);
    return item;
}

TEST(a_turn_is_read_as_the_server_sent_it)
{
    const uint8_t execution[EXECUTION_ID_SIZE] = {1, 2, 3};
    bool is_streamed;

    open_memory();
    struct bytes item = turn_item();
    struct remote_work *work = work_open(WORK_TASK);
    work->token = BYTES_NONE;
    EXPECT_STATUS(OK, remote_read_item(item, work, &is_streamed));
    EXPECT(!is_streamed);
    EXPECT_EQ(WORK_TURN, work->work.kind);
    EXPECT_BYTES(TEXT("id"), work->work.id);
    EXPECT_BYTES(TEXT("flow"), work->work.name);
    expect_maybe(SOME("7"), work->work.version);
    EXPECT(memcmp(execution, work->work.execution_id, sizeof execution) == 0);
    EXPECT_EQ(2, strings_count(work->work.past));
    EXPECT_EQ(2, strings_count(work->work.fresh));
    EXPECT_EQ(2, work->work.base);
    EXPECT(work->work.is_past_filtered);
    EXPECT(work->token.len > 0);
    EXPECT_STATUS(OK,
                  message_check(&abandon_orchestration_task_request__descriptor, work->give_up));
    work_close(work);
    close_memory();
}

/* A server may be broken: its bytes are refused or read, never trusted. */
TEST(broken_items_do_no_harm)
{
    struct rng rng;
    uint8_t bytes[1024];
    bool is_streamed;

    open_memory();
    struct bytes item = turn_item();
    EXPECT(item.len <= sizeof bytes);
    rng_init(&rng, 1);
    for (uint32_t n = 0; n < 5000; n++) {
        test_note("n %u", n);
        memcpy(bytes, item.ptr, item.len);
        size_t len = n < item.len ? n : item.len;
        if (n >= item.len) bytes[rng_below(&rng, item.len)] = (uint8_t)rng_u64(&rng);
        struct remote_work *work = work_open(WORK_TASK);
        struct bytes broken = arena_copy(&arena, bytes_make(bytes, len));
        enum status status = remote_read_item(broken, work, &is_streamed);
        EXPECT(status == OK || status == E_INVALID || status == E_NOT_FOUND);
        work_close(work);
        arena_release(&arena);
        item = turn_item();
    }
    close_memory();
}

/* ---- steps ---- */

static struct bytes step_message(void)
{
    struct buffer b;

    buffer_init(&b, &mem);
    pb_put_int32(&b, 1, 7);
    pb_put_bytes(&b, 2, TEXT("Ship"));
    pb_put_varint(&b, 3, NORN__V1__STEP_STATE__WAITING);
    pb_put_varint(&b, 4, 8);
    pb_put_timestamp_parts(&b, 5, 9, 10000000);
    pb_put_varint(&b, 6, 11);
    pb_put_timestamp_parts(&b, 7, 12, 13000000);
    pb_put_varint(&b, 99, 14); /* of a newer server */
    struct bytes copy = arena_copy(&arena, buffer_view(&b));
    buffer_release(&b);
    return copy;
}

TEST(a_step_is_read_as_the_server_sent_it)
{
    struct task_view step;

    open_memory();
    EXPECT_STATUS(OK, remote_read_step(step_message(), &step));
    EXPECT_EQ(7, step.task_id);
    EXPECT_BYTES(TEXT("Ship"), step.name);
    EXPECT_EQ(TASK_WAITING, step.process);
    EXPECT_EQ(8, step.locked_by);
    EXPECT_EQ(9010, step.complete_by_ms);
    EXPECT_EQ(11, step.failures);
    EXPECT_EQ(12013, step.retry_at_ms);
    EXPECT_STATUS(OK, remote_read_step(BYTES_NONE, &step)); /* all as it is without a word */
    EXPECT_EQ(TASK_PENDING, step.process);
    EXPECT_EQ(0, step.retry_at_ms);
    EXPECT_STATUS(E_INVALID, remote_read_step(test_hex("1804"), &step)); /* no such state */
    EXPECT_STATUS(E_INVALID, remote_read_step(test_hex("2a01ff"), &step));
    close_memory();
}

/* Whatever a broken server says, it is an answer or a refusal. */
TEST(broken_steps_do_no_harm)
{
    struct task_view step;
    struct rng rng;

    open_memory();
    rng_init(&rng, 5);
    struct bytes whole = step_message();
    for (int n = 0; n < 5000; n++) {
        uint8_t bytes[100];
        EXPECT(whole.len <= sizeof bytes);
        memcpy(bytes, whole.ptr, whole.len);
        bytes[rng_below(&rng, whole.len)] = (uint8_t)rng_below(&rng, 256);
        struct bytes broken = bytes_make(bytes, rng_below(&rng, whole.len + 1));
        enum status status = remote_read_step(broken, &step);
        EXPECT(status == OK || status == E_INVALID);
    }
    close_memory();
}

/* Every code has its status, and only those that pass by themselves are asked again. */
TEST(codes_become_statuses)
{
    EXPECT_STATUS(OK, remote_status(GRPC_OK));
    EXPECT_STATUS(E_INVALID, remote_status(GRPC_INVALID_ARGUMENT));
    EXPECT_STATUS(E_NOT_FOUND, remote_status(GRPC_NOT_FOUND));
    EXPECT_STATUS(E_EXISTS, remote_status(GRPC_ALREADY_EXISTS));
    EXPECT_STATUS(E_PRECONDITION, remote_status(GRPC_FAILED_PRECONDITION));
    EXPECT_STATUS(E_LIMIT, remote_status(GRPC_RESOURCE_EXHAUSTED));
    EXPECT_STATUS(E_TIMEOUT, remote_status(GRPC_DEADLINE_EXCEEDED));
    EXPECT_STATUS(E_UNSUPPORTED, remote_status(GRPC_UNIMPLEMENTED));
    EXPECT_STATUS(E_CORRUPT, remote_status(GRPC_DATA_LOSS));
    EXPECT_STATUS(E_UNAVAILABLE, remote_status(GRPC_UNAVAILABLE));
    EXPECT_STATUS(E_UNAVAILABLE, remote_status(GRPC_ABORTED));
    EXPECT_STATUS(E_IO, remote_status((enum grpc_code)99));
}

/* 50 ms, doubled, at most 5 s; half of it is left to chance, so that a crowd does not come back
 * as one. */
TEST(the_back_off_grows_and_is_spread)
{
    static struct remote r;
    bool is_spread = false;

    rng_init(&r.rng, 1);
    int64_t first = remote_backoff_ns(&r, 3);
    for (uint32_t n = 0; n < 100; n++) {
        int64_t most_ms = n < 7 ? 50 << n : 5000;
        int64_t ns = remote_backoff_ns(&r, n);
        EXPECT(ns <= most_ms * 1000000);
        EXPECT(ns > most_ms * 500000 - 1000000);
        is_spread = is_spread || remote_backoff_ns(&r, 3) != first;
    }
    EXPECT(is_spread);
}

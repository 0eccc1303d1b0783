/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol, byte for byte. Part A was captured from a JavaScript SDK talking to a server:
 * request bodies with their gRPC prefix. Part B is what a server sends, serialised by that SDK's
 * own generated code. What we decode must say what was meant, and what we encode must be the same
 * bytes.
 */
#include "base/arena.h"
#include "base/mem.h"
#include "test/lib/test.h"
#include "wire/message.h"

#define EXECUTION_ID "0123456789abcdef0123456789abcdef"
#define SECONDS 1700000000 /* of every timestamp, and this half second: */
#define NANOS 500000000
#define GRPC_PREFIX_SIZE 5

/* ---- part A: client and worker to server ---- */

typedef void check_fn(const ProtobufCMessage *message);

/* Decodes the body of a captured request, has its fields checked, and encodes it again. */
static void expect_request(const ProtobufCMessageDescriptor *type, const char *hex, check_fn *check)
{
    const struct bytes frame = test_hex(hex);
    const struct bytes body =
        bytes_make(frame.ptr + GRPC_PREFIX_SIZE, frame.len - GRPC_PREFIX_SIZE);
    struct arena arena;
    struct buffer b;
    ProtobufCMessage *message;

    EXPECT(frame.len >= GRPC_PREFIX_SIZE);
    EXPECT_EQ(0, frame.ptr[0]); /* not compressed */
    EXPECT_EQ(body.len, frame.ptr[1] << 24 | frame.ptr[2] << 16 | frame.ptr[3] << 8 | frame.ptr[4]);

    arena_init(&arena, mem_process(), 512);
    buffer_init(&b, mem_process());
    EXPECT_STATUS(OK, message_decode(type, body, &arena, &message));
    check(message);
    EXPECT_STATUS(OK, message_encode(message, &b));
    EXPECT_BYTES(body, buffer_view(&b));
    buffer_release(&b);
    arena_release(&arena);
}

static void check_nothing(const ProtobufCMessage *message)
{
    EXPECT_EQ(0, message->n_unknown_fields);
}

/* Hello carries nothing. */
TEST(hello) { expect_request(&google__protobuf__empty__descriptor, "0000000000", check_nothing); }

static void check_get_work_items(const ProtobufCMessage *message)
{
    const GetWorkItemsRequest *m = (const GetWorkItemsRequest *)message;

    EXPECT_EQ(0, m->max_concurrent_orchestration_work_items);
    EXPECT_EQ(0, m->max_concurrent_activity_work_items);
    EXPECT_EQ(0, m->max_concurrent_entity_work_items);
    EXPECT_EQ(0, m->n_capabilities);
    EXPECT(m->work_item_filters == NULL);
}

/* A worker without any settings sends none: no limits, no capabilities, no filters. */
TEST(get_work_items)
{
    expect_request(&get_work_items_request__descriptor, "0000000000", check_get_work_items);
}

static void check_start_instance(const ProtobufCMessage *message)
{
    const CreateInstanceRequest *m = (const CreateInstanceRequest *)message;

    EXPECT_TEXT("inst-1", m->instance_id);
    EXPECT_TEXT("E1_HelloSequence", m->name);
    EXPECT(m->version == NULL);
    EXPECT(m->input != NULL);
    EXPECT_TEXT("", m->input->value);
    EXPECT(m->scheduled_start_timestamp != NULL);
    EXPECT_EQ(0, m->scheduled_start_timestamp->seconds);
    EXPECT_EQ(0, m->scheduled_start_timestamp->nanos);
    EXPECT(m->orchestration_id_reuse_policy == NULL);
    EXPECT_EQ(0, m->n_tags);
}

/* Input present and empty, start time present and 1970: both stay present. */
TEST(start_instance)
{
    expect_request(&create_instance_request__descriptor,
                   "000000001e0a06696e73742d31121045315f48656c6c6f53657175656e636522002a00",
                   check_start_instance);
}

static void check_wait_for_completion(const ProtobufCMessage *message)
{
    const GetInstanceRequest *m = (const GetInstanceRequest *)message;

    EXPECT_TEXT("inst-1", m->instance_id);
    EXPECT(m->get_inputs_and_outputs);
}

TEST(wait_for_instance_completion)
{
    expect_request(&get_instance_request__descriptor, "000000000a0a06696e73742d311001",
                   check_wait_for_completion);
}

/* The single action of an answer; checks what the answers have in common. */
static const OrchestratorAction *only_action(const ProtobufCMessage *message, const char *token)
{
    const OrchestratorResponse *m = (const OrchestratorResponse *)message;

    EXPECT_TEXT("inst-1", m->instance_id);
    EXPECT_TEXT(token, m->completion_token);
    EXPECT(m->custom_status == NULL);
    EXPECT_EQ(1, m->n_actions);
    return m->actions[0];
}

static void expect_schedule_task(const OrchestratorAction *action, int id, const char *input)
{
    EXPECT_EQ(id, action->id);
    EXPECT_EQ(ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_SCHEDULE_TASK,
              action->orchestrator_action_type_case);
    EXPECT_TEXT("hello", action->schedule_task->name);
    EXPECT(action->schedule_task->version == NULL);
    EXPECT(action->schedule_task->input != NULL);
    EXPECT_TEXT(input, action->schedule_task->input->value);
}

static void check_first_turn(const ProtobufCMessage *message)
{
    expect_schedule_task(only_action(message, "tok-0"), 1, "\"Tokyo\"");
}

TEST(complete_orchestrator_task_1)
{
    expect_request(&orchestrator_response__descriptor,
                   "00000000270a06696e73742d311216080112120a0568656c6c6f1a090a0722546f6b796f22"
                   "2205746f6b2d30",
                   check_first_turn);
}

static void check_activity(const ProtobufCMessage *message)
{
    const ActivityResponse *m = (const ActivityResponse *)message;

    EXPECT_TEXT("inst-1", m->instance_id);
    EXPECT_EQ(1, m->task_id);
    EXPECT(m->result != NULL);
    EXPECT_TEXT("\"Hello Tokyo!\"", m->result->value);
    EXPECT(m->failure_details == NULL);
    EXPECT_TEXT("act-1", m->completion_token);
}

TEST(complete_activity_task_1)
{
    expect_request(
        &activity_response__descriptor,
        "00000000230a06696e73742d3110011a100a0e2248656c6c6f20546f6b796f21222a056163742d31",
        check_activity);
}

static void check_second_turn(const ProtobufCMessage *message)
{
    expect_schedule_task(only_action(message, "tok-3"), 2, "\"Seattle\"");
}

/* On replay only the new action is returned. */
TEST(complete_orchestrator_task_2)
{
    expect_request(&orchestrator_response__descriptor,
                   "00000000290a06696e73742d311218080212140a0568656c6c6f1a0b0a092253656174746c6522"
                   "2205746f6b2d33",
                   check_second_turn);
}

static void check_last_turn(const ProtobufCMessage *message)
{
    const OrchestratorAction *action = only_action(message, "tok-9");

    EXPECT_EQ(4, action->id);
    EXPECT_EQ(ORCHESTRATOR_ACTION__ORCHESTRATOR_ACTION_TYPE_COMPLETE_ORCHESTRATION,
              action->orchestrator_action_type_case);
    const CompleteOrchestrationAction *complete = action->complete_orchestration;
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED, complete->orchestration_status);
    EXPECT(complete->result != NULL);
    EXPECT_TEXT("[\"Hello Tokyo!\",\"Hello Seattle!\",\"Hello London!\"]", complete->result->value);
    EXPECT_EQ(0, complete->n_carryover_events);
}

TEST(complete_orchestrator_task_4)
{
    expect_request(&orchestrator_response__descriptor,
                   "000000004c0a06696e73742d31123b08043237080112330a315b2248656c6c6f20546f6b796f21"
                   "222c2248656c6c6f2053656174746c6521222c2248656c6c6f204c6f6e646f6e21225d2205746f"
                   "6b2d39",
                   check_last_turn);
}

static void check_raise_event(const ProtobufCMessage *message)
{
    const RaiseEventRequest *m = (const RaiseEventRequest *)message;

    EXPECT_TEXT("inst-1", m->instance_id);
    EXPECT_TEXT("ev", m->name);
    EXPECT(m->input != NULL);
    EXPECT_TEXT("{\"a\":1}", m->input->value);
}

TEST(raise_event)
{
    expect_request(&raise_event_request__descriptor,
                   "00000000170a06696e73742d31120265761a090a077b2261223a317d", check_raise_event);
}

static void check_terminate(const ProtobufCMessage *message)
{
    const TerminateRequest *m = (const TerminateRequest *)message;

    EXPECT_TEXT("inst-1", m->instance_id);
    EXPECT(m->output != NULL);
    EXPECT_TEXT("null", m->output->value);
    EXPECT(!m->recursive);
}

/* The output is the JSON text null, not an absent one. */
TEST(terminate_instance)
{
    expect_request(&terminate_request__descriptor, "00000000100a06696e73742d3112060a046e756c6c",
                   check_terminate);
}

static void check_suspend(const ProtobufCMessage *message)
{
    const SuspendRequest *m = (const SuspendRequest *)message;

    EXPECT_TEXT("inst-1", m->instance_id);
    EXPECT(m->reason == NULL);
}

TEST(suspend_instance)
{
    expect_request(&suspend_request__descriptor, "00000000080a06696e73742d31", check_suspend);
}

static void check_purge(const ProtobufCMessage *message)
{
    const PurgeInstancesRequest *m = (const PurgeInstancesRequest *)message;

    EXPECT_EQ(PURGE_INSTANCES_REQUEST__REQUEST_INSTANCE_ID, m->request_case);
    EXPECT_TEXT("inst-1", m->instance_id);
    EXPECT(!m->recursive);
}

TEST(purge_instances)
{
    expect_request(&purge_instances_request__descriptor, "00000000080a06696e73742d31", check_purge);
}

static void check_stream_history(const ProtobufCMessage *message)
{
    const StreamInstanceHistoryRequest *m = (const StreamInstanceHistoryRequest *)message;

    EXPECT_TEXT("x", m->instance_id);
    EXPECT(m->execution_id == NULL);
    EXPECT(!m->for_work_item_processing);
}

TEST(stream_instance_history)
{
    expect_request(&stream_instance_history_request__descriptor, "00000000030a0178",
                   check_stream_history);
}

static void check_list_ids(const ProtobufCMessage *message)
{
    const ListInstanceIdsRequest *m = (const ListInstanceIdsRequest *)message;

    EXPECT_EQ(100, m->page_size);
    EXPECT_EQ(0, m->n_runtime_status);
    EXPECT(m->last_instance_key == NULL);
}

TEST(list_instance_ids)
{
    expect_request(&list_instance_ids_request__descriptor, "00000000022064", check_list_ids);
}

/* ---- part B: server to client and worker ---- */

/* Encodes what a test built; then decodes the vector and encodes it again. Both must be it. */
static void expect_answer(const ProtobufCMessage *built, const char *hex)
{
    const struct bytes expected = test_hex(hex);
    struct arena arena;
    struct buffer b;
    ProtobufCMessage *decoded;

    arena_init(&arena, mem_process(), 512);
    buffer_init(&b, mem_process());
    EXPECT_STATUS(OK, message_encode(built, &b));
    EXPECT_BYTES(expected, buffer_view(&b));

    buffer_clear(&b);
    EXPECT_STATUS(OK, message_decode(built->descriptor, expected, &arena, &decoded));
    EXPECT_STATUS(OK, message_encode(decoded, &b));
    EXPECT_BYTES(expected, buffer_view(&b));
    buffer_release(&b);
    arena_release(&arena);
}

static Google__Protobuf__StringValue string_value(const char *text)
{
    Google__Protobuf__StringValue m = GOOGLE__PROTOBUF__STRING_VALUE__INIT;

    m.value = (char *)text;
    return m;
}

static Google__Protobuf__Timestamp timestamp(int64_t seconds, int32_t nanos)
{
    Google__Protobuf__Timestamp m = GOOGLE__PROTOBUF__TIMESTAMP__INIT;

    m.seconds = seconds;
    m.nanos = nanos;
    return m;
}

static OrchestrationInstance instance(Google__Protobuf__StringValue *execution_id)
{
    OrchestrationInstance m = ORCHESTRATION_INSTANCE__INIT;

    m.instance_id = "inst-1";
    m.execution_id = execution_id;
    return m;
}

static HistoryEvent event(int32_t id, Google__Protobuf__Timestamp *time)
{
    HistoryEvent m = HISTORY_EVENT__INIT;

    m.event_id = id;
    m.timestamp = time;
    return m;
}

/* The id -1 takes ten bytes; an event without fields is still there. */
TEST(event_orchestrator_started)
{
    Google__Protobuf__Timestamp time = timestamp(SECONDS, NANOS);
    OrchestratorStartedEvent started = ORCHESTRATOR_STARTED_EVENT__INIT;
    HistoryEvent m = event(-1, &time);

    m.event_type_case = HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED;
    m.orchestrator_started = &started;
    expect_answer(&m.base, "08ffffffffffffffffff01120c0880e2cfaa061080cab5ee017200");
}

/* The ExecutionStarted of the vectors; what it points to lives as long as the arguments. */
static ExecutionStartedEvent execution_started(OrchestrationInstance *of)
{
    ExecutionStartedEvent m = EXECUTION_STARTED_EVENT__INIT;

    m.name = "E1_HelloSequence";
    m.orchestration_instance = of;
    return m;
}

TEST(event_execution_started)
{
    Google__Protobuf__Timestamp time = timestamp(SECONDS, NANOS);
    Google__Protobuf__StringValue execution_id = string_value(EXECUTION_ID);
    OrchestrationInstance of = instance(&execution_id);
    ExecutionStartedEvent started = execution_started(&of);
    HistoryEvent m = event(-1, &time);

    m.event_type_case = HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED;
    m.execution_started = &started;
    expect_answer(&m.base,
                  "08ffffffffffffffffff01120c0880e2cfaa061080cab5ee011a400a1045315f48656c6c6f5365"
                  "7175656e6365222c0a06696e73742d3112220a20303132333435363738396162636465663031323"
                  "3343536373839616263646566");
}

TEST(event_task_scheduled)
{
    Google__Protobuf__Timestamp time = timestamp(SECONDS, NANOS);
    Google__Protobuf__StringValue input = string_value("\"Tokyo\"");
    TaskScheduledEvent scheduled = TASK_SCHEDULED_EVENT__INIT;
    HistoryEvent m = event(1, &time);

    scheduled.name = "hello";
    scheduled.input = &input;
    m.event_type_case = HISTORY_EVENT__EVENT_TYPE_TASK_SCHEDULED;
    m.task_scheduled = &scheduled;
    expect_answer(&m.base,
                  "0801120c0880e2cfaa061080cab5ee0132120a0568656c6c6f1a090a0722546f6b796f22");
}

TEST(event_task_completed)
{
    Google__Protobuf__Timestamp time = timestamp(SECONDS, NANOS);
    Google__Protobuf__StringValue result = string_value("\"Hello Tokyo!\"");
    TaskCompletedEvent completed = TASK_COMPLETED_EVENT__INIT;
    HistoryEvent m = event(-1, &time);

    completed.task_scheduled_id = 1;
    completed.result = &result;
    m.event_type_case = HISTORY_EVENT__EVENT_TYPE_TASK_COMPLETED;
    m.task_completed = &completed;
    expect_answer(&m.base, "08ffffffffffffffffff01120c0880e2cfaa061080cab5ee013a14080112100a0e2248"
                           "656c6c6f20546f6b796f2122");
}

TEST(event_timer_fired)
{
    Google__Protobuf__Timestamp time = timestamp(SECONDS, NANOS);
    Google__Protobuf__Timestamp due = timestamp(SECONDS + 1, 0);
    TimerFiredEvent fired = TIMER_FIRED_EVENT__INIT;
    HistoryEvent m = event(-1, &time);

    fired.fire_at = &due;
    fired.timer_id = 2;
    m.event_type_case = HISTORY_EVENT__EVENT_TYPE_TIMER_FIRED;
    m.timer_fired = &fired;
    expect_answer(&m.base,
                  "08ffffffffffffffffff01120c0880e2cfaa061080cab5ee016a0a0a060881e2cfaa061002");
}

/* The first dispatch: no past, and the two events that begin every orchestration. */
TEST(work_item_orchestrator_request)
{
    Google__Protobuf__Timestamp time = timestamp(SECONDS, NANOS);
    Google__Protobuf__StringValue execution_id = string_value(EXECUTION_ID);
    OrchestrationInstance of = instance(&execution_id);
    OrchestratorStartedEvent turn = ORCHESTRATOR_STARTED_EVENT__INIT;
    ExecutionStartedEvent started = execution_started(&of);
    HistoryEvent turn_event = event(-1, &time);
    HistoryEvent started_event = event(-1, &time);
    HistoryEvent *events[] = {&turn_event, &started_event};
    OrchestratorRequest request = ORCHESTRATOR_REQUEST__INIT;
    WorkItem m = WORK_ITEM__INIT;

    turn_event.event_type_case = HISTORY_EVENT__EVENT_TYPE_ORCHESTRATOR_STARTED;
    turn_event.orchestrator_started = &turn;
    started_event.event_type_case = HISTORY_EVENT__EVENT_TYPE_EXECUTION_STARTED;
    started_event.execution_started = &started;
    request.instance_id = "inst-1";
    request.execution_id = &execution_id;
    request.n_new_events = 2;
    request.new_events = events;
    m.request_case = WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST;
    m.orchestrator_request = &request;
    m.completion_token = "tok-0";
    expect_answer(&m.base,
                  "0aa6010a06696e73742d3112220a20303132333435363738396162636465663031323334353637"
                  "3839616263646566221b08ffffffffffffffffff01120c0880e2cfaa061080cab5ee017200225b"
                  "08ffffffffffffffffff01120c0880e2cfaa061080cab5ee011a400a1045315f48656c6c6f5365"
                  "7175656e6365222c0a06696e73742d3112220a2030313233343536373839616263646566303132"
                  "333435363738396162636465665205746f6b2d30");
}

TEST(work_item_activity_request)
{
    Google__Protobuf__StringValue execution_id = string_value(EXECUTION_ID);
    Google__Protobuf__StringValue input = string_value("\"Tokyo\"");
    OrchestrationInstance of = instance(&execution_id);
    ActivityRequest request = ACTIVITY_REQUEST__INIT;
    WorkItem m = WORK_ITEM__INIT;

    request.name = "hello";
    request.input = &input;
    request.orchestration_instance = &of;
    request.task_id = 1;
    m.request_case = WORK_ITEM__REQUEST_ACTIVITY_REQUEST;
    m.activity_request = &request;
    m.completion_token = "act-1";
    expect_answer(&m.base,
                  "12420a0568656c6c6f1a090a0722546f6b796f22222c0a06696e73742d3112220a203031323334"
                  "353637383961626364656630313233343536373839616263646566280152056163742d31");
}

TEST(work_item_health_ping)
{
    HealthPing ping = HEALTH_PING__INIT;
    WorkItem m = WORK_ITEM__INIT;

    m.request_case = WORK_ITEM__REQUEST_HEALTH_PING;
    m.health_ping = &ping;
    expect_answer(&m.base, "2200");
}

/* One signal to an entity that has no state yet. */
TEST(work_item_entity_request)
{
    Google__Protobuf__Timestamp time = timestamp(SECONDS, NANOS);
    Google__Protobuf__StringValue input = string_value("1");
    EntityOperationSignaledEvent signaled = ENTITY_OPERATION_SIGNALED_EVENT__INIT;
    HistoryEvent signal_event = event(-1, &time);
    HistoryEvent *operations[] = {&signal_event};
    EntityRequest request = ENTITY_REQUEST__INIT;
    WorkItem m = WORK_ITEM__INIT;

    signaled.request_id = "11111111-2222-3333-4444-555555555555";
    signaled.operation = "add";
    signaled.input = &input;
    signal_event.event_type_case = HISTORY_EVENT__EVENT_TYPE_ENTITY_OPERATION_SIGNALED;
    signal_event.entity_operation_signaled = &signaled;
    request.instance_id = "@counter@k1";
    request.execution_id = EXECUTION_ID;
    request.n_operation_requests = 1;
    request.operation_requests = operations;
    m.request_case = WORK_ITEM__REQUEST_ENTITY_REQUEST_V2;
    m.entity_request_v2 = &request;
    m.completion_token = "ent-1";
    expect_answer(&m.base,
                  "2a7d0a0b40636f756e746572406b31122030313233343536373839616263646566303132333435"
                  "36373839616263646566224c08ffffffffffffffffff01120c0880e2cfaa061080cab5ee01ba01"
                  "300a2431313131313131312d323232322d333333332d343434342d353535353535353535353535"
                  "120361646422030a01315205656e742d31");
}

TEST(get_instance_completed)
{
    Google__Protobuf__Timestamp created = timestamp(SECONDS, 0);
    Google__Protobuf__Timestamp updated = timestamp(SECONDS + 2, 0);
    Google__Protobuf__StringValue output = string_value("[\"a\"]");
    OrchestrationState state = ORCHESTRATION_STATE__INIT;
    GetInstanceResponse m = GET_INSTANCE_RESPONSE__INIT;

    state.instance_id = "inst-1";
    state.name = "E1_HelloSequence";
    state.orchestration_status = ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED;
    state.created_timestamp = &created;
    state.last_updated_timestamp = &updated;
    state.output = &output;
    m.exists = true;
    m.orchestration_state = &state;
    expect_answer(&m.base, "080112350a06696e73742d31121045315f48656c6c6f53657175656e63652001320608"
                           "80e2cfaa063a060882e2cfaa064a070a055b2261225d");
}

/* Not found is the message without any field. */
TEST(get_instance_not_found)
{
    GetInstanceResponse m = GET_INSTANCE_RESPONSE__INIT;

    expect_answer(&m.base, "");
}

/* ---- the schema as a whole ---- */

#define TYPES_MAX 256

struct types {
    const ProtobufCMessageDescriptor *seen[TYPES_MAX];
    size_t n;
};

/* The type and all that its fields refer to. */
static void types_visit(struct types *types, const ProtobufCMessageDescriptor *type)
{
    for (size_t i = 0; i < types->n; i++) {
        if (types->seen[i] == type) return;
    }
    EXPECT(types->n < TYPES_MAX);
    types->seen[types->n++] = type;
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE) {
            types_visit(types, (const ProtobufCMessageDescriptor *)type->fields[i].descriptor);
        }
    }
}

static void types_visit_service(struct types *types)
{
    const ProtobufCServiceDescriptor *service = &task_hub_sidecar_service__descriptor;

    for (unsigned i = 0; i < service->n_methods; i++) {
        types_visit(types, service->methods[i].input);
        types_visit(types, service->methods[i].output);
    }
}

/* The service is whole: 29 calls under a name without package, and 118 messages of the protocol
 * reachable from them (nested ones, which are map entries, and Google's own not counted). */
TEST(service_is_complete)
{
    const ProtobufCServiceDescriptor *service = &task_hub_sidecar_service__descriptor;
    struct types types = {.n = 0};
    size_t messages_n = 0;

    EXPECT_TEXT("TaskHubSidecarService", service->name);
    EXPECT_EQ(29, service->n_methods);
    types_visit_service(&types);
    for (size_t i = 0; i < types.n; i++) {
        if (strchr(types.seen[i]->name, '.') == NULL) messages_n++;
    }
    EXPECT_EQ(118, messages_n);
}

/* Every type decodes from nothing and encodes to nothing, and message_check() has a bit for each of
 * its fields. */
TEST(every_type_has_an_empty_form)
{
    struct types types = {.n = 0};

    types_visit_service(&types);
    for (size_t i = 0; i < types.n; i++) {
        struct arena arena;
        struct buffer b;
        ProtobufCMessage *message;

        test_note("%s", types.seen[i]->name);
        EXPECT(types.seen[i]->n_fields <= 64);
        arena_init(&arena, mem_process(), 512);
        buffer_init(&b, mem_process());
        EXPECT_STATUS(OK, message_decode(types.seen[i], BYTES_NONE, &arena, &message));
        EXPECT_STATUS(OK, message_encode(message, &b));
        EXPECT_EQ(0, b.len);
        buffer_release(&b);
        arena_release(&arena);
    }
}

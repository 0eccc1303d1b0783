/* SPDX-License-Identifier: Apache-2.0
 *
 * StreamInstanceHistory: all of a history, in chunks and parts, at the pace of its reader.
 */
#include "server/state.h"
#include "test/lib/asking.h"

#include <stdio.h>

static void ask_history(struct asker *a, const char *id, const char *execution, bool is_for_work)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    put_value(b, 2, execution);
    pb_put_plain_varint(b, 3, is_for_work);
}

/* The kinds of the events in all chunks, e.g. "14 3 17"; each chunk has at most 100. */
static void kinds_of(struct bytes chunks, char *out, size_t size)
{
    struct pb_reader r = pb_reader_make(chunks);
    struct pb_field field;
    struct event_head head;
    size_t at = 0;
    out[0] = '\0';
    while (pb_next(&r, &field)) {
        EXPECT_EQ(1, field.number);
        EXPECT_STATUS(OK, event_head_decode(field.bytes, &head));
        EXPECT(head.time_ns > 0);
        int n = snprintf(out + at, size - at, "%s%d", at > 0 ? " " : "", (int)head.kind);
        if (n > 0 && (size_t)n < size - at) at += (size_t)n;
    }
    EXPECT(!r.failed);
}

static size_t events_n(struct bytes chunks)
{
    struct pb_reader r = pb_reader_make(chunks);
    struct pb_field field;
    size_t n = 0;
    while (pb_next(&r, &field)) n++;
    return n;
}

TEST(a_history_is_what_happened)
{
    struct asker a;
    char kinds[200];
    asker_init(&a, 2);
    START(&a, "d", "done", "1");
    const OrchestrationState *state = AWAIT(&a, "d")->orchestration_state;
    ask_history(&a, "d", NULL, false);
    ASK(&a, "StreamInstanceHistory", GRPC_OK);
    kinds_of(buffer_view(&a.answer.message), kinds, sizeof kinds);
    EXPECT_TEXT("14 3 4", kinds); /* OrchestratorStarted, ExecutionStarted, ExecutionCompleted */
    ask_history(&a, "d", state->execution_id->value, false);
    ASK(&a, "StreamInstanceHistory", GRPC_OK);
    ask_history(&a, "d", "", false);
    ASK(&a, "StreamInstanceHistory", GRPC_OK);
    EXPECT_EQ(3, events_n(buffer_view(&a.answer.message)));
    ask_history(&a, "d", "00000000000000000000000000000000", false);
    ASK(&a, "StreamInstanceHistory", GRPC_NOT_FOUND);
    ask_history(&a, "none", NULL, false);
    ASK(&a, "StreamInstanceHistory", GRPC_NOT_FOUND);
    EXPECT(strstr(a.answer.text, "no such instance") != NULL);
    ask_history(&a, "d", NULL, true);
    ASK(&a, "StreamInstanceHistory", GRPC_FAILED_PRECONDITION); /* nobody works on it */
    /* one that has not begun has no history yet */
    START(&a, "p", "nobody", NULL);
    ask_history(&a, "p", NULL, false);
    ASK(&a, "StreamInstanceHistory", GRPC_OK);
    EXPECT_EQ(0, a.answer.messages_n);
    asker_release(&a);
}

/* Events of a kilobyte: hundreds of chunks, several parts, and a reader that stops in between. */
TEST(a_long_history_is_streamed_at_the_pace_of_its_reader)
{
    struct asker a;
    static char large[60001];
    asker_init(&a, 1);
    memset(large, 'x', sizeof large - 1);
    START(&a, "w", "wait", "1");
    for (unsigned n = 0; n < 200; n++) {
        struct buffer *b = ask_new(&a);
        put_text(b, 1, "w");
        put_text(b, 2, "e");
        put_value(b, 3, large);
        ASK(&a, "RaiseEvent", GRPC_OK);
    }
    EXPECT(ask_look(&a, "WaitForInstanceStart", "w", false)->exists);
    /* all of them are in the history when the last turn is over */
    size_t raised_n = 0;
    while (raised_n < 200) {
        ask_history(&a, "w", NULL, false);
        ASK(&a, "StreamInstanceHistory", GRPC_OK);
        raised_n = a.answer.message.len / sizeof large;
    }
    EXPECT(a.answer.messages_n >= 200 * sizeof large / (256 << 10));
    size_t whole_n = events_n(buffer_view(&a.answer.message));

    struct link *slow = served_link(&a.served, NULL);
    struct answer answer;
    answer_init(&answer);
    ask_history(&a, "w", NULL, false);
    served_begin(slow, "StreamInstanceHistory", buffer_view(&a.message), 0, &answer);
    served_turn(&a.served);
    slow->is_deaf = true;
    /* others go on, and what waits for the slow one is bounded */
    for (unsigned n = 0; n < 100; n++) EXPECT(GET(&a, "w")->exists);
    EXPECT(!answer.is_over);
    EXPECT(a.served.mem.used < (size_t)2 << 20);
    slow->is_deaf = false;
    served_await(&answer);
    EXPECT_EQ(GRPC_OK, answer.code);
    EXPECT_EQ(whole_n, events_n(buffer_view(&answer.message)));
    answer_release(&answer);

    /* and one that goes away in the middle leaves nothing */
    answer_init(&answer);
    ask_history(&a, "w", NULL, false);
    served_begin(slow, "StreamInstanceHistory", buffer_view(&a.message), 0, &answer);
    served_turn(&a.served);
    slow->is_deaf = true;
    (void)ask_new(&a);
    for (unsigned n = 0; n < 50; n++) ASK(&a, "Hello", GRPC_OK);
    served_unlink(slow);
    while (desk_errands_n(a.served.service->desk) > 0) ASK(&a, "Hello", GRPC_OK);
    EXPECT(list_is_empty(&a.served.service->histories));
    answer_release(&answer);
    asker_release(&a);
}

/* ---- against an engine that answers as the test wants ---- */

struct part {
    enum status status;
    unsigned events_n;
    enum event_kind kind; /* of those after the first two */
    bool has_more;
    bool is_plain; /* the first two are like the others */
};

static struct {
    bool (*real_post)(void *user, struct request *request);
    struct part parts[4];
    unsigned part;
    uint32_t skip_n[4];
    char execution[4][40];
    struct request *held; /* not answered yet */
    bool is_holding;
} fake;

static void write_event(struct buffer *packed, enum event_kind kind)
{
    struct buffer event;
    buffer_init(&event, mem_process());
    if (kind == EVENT_EXECUTION_STARTED) {
        struct event_started started = {.name = BYTES_LITERAL("x"),
                                        .instance_id = BYTES_LITERAL("x")};
        memset(started.execution_id, 0xab, sizeof started.execution_id);
        event_started_write(&event, 1000, &started);
    } else if (kind == EVENT_ORCHESTRATOR_STARTED) {
        event_write_orchestrator_started(&event, 1000);
    } else if (kind == EVENT_EVENT_RAISED) {
        event_write_raised(&event, 1000, BYTES_LITERAL("e"), MAYBE_NONE);
    } else {
        pb_put_timestamp(&event, 2, 1000);
        pb_put_bytes(&event, (uint32_t)kind, BYTES_NONE);
    }
    strings_add(packed, buffer_view(&event));
    buffer_release(&event);
}

static void answer_part(struct request *request)
{
    const struct part *part = &fake.parts[fake.part++];
    struct buffer events;
    buffer_init(&events, mem_process());
    for (unsigned n = 0; n < part->events_n; n++) {
        bool is_first = request->history.skip_n == 0 && !part->is_plain;
        write_event(&events, is_first && n == 0   ? EVENT_ORCHESTRATOR_STARTED
                             : is_first && n == 1 ? EVENT_EXECUTION_STARTED
                                                  : part->kind);
    }
    request->status = part->status;
    request->events = buffer_view(&events);
    request->has_more = part->has_more;
    request->done(request);
    buffer_release(&events);
}

static bool fake_post(void *user, struct request *request)
{
    if (request->kind != REQUEST_HISTORY) return fake.real_post(user, request);
    EXPECT(fake.part < 4);
    fake.skip_n[fake.part] = request->history.skip_n;
    struct maybe execution = request->history.execution_id;
    (void)snprintf(fake.execution[fake.part], sizeof fake.execution[0], "%.*s",
                   execution.has ? (int)execution.value.len : 0, (const char *)execution.value.ptr);
    if (fake.is_holding)
        fake.held = request;
    else
        answer_part(request);
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

TEST(parts_fit_together_and_belong_to_one_execution)
{
    struct asker a;
    fake_open(&a);
    fake.parts[0] = (struct part){OK, 150, EVENT_EVENT_RAISED, true, false};
    fake.parts[1] = (struct part){OK, 101, EVENT_EVENT_RAISED, true, false};
    fake.parts[2] = (struct part){OK, 1, EVENT_EVENT_RAISED, false, false};
    ask_history(&a, "x", NULL, false);
    ASK(&a, "StreamInstanceHistory", GRPC_OK);
    EXPECT_EQ(252, events_n(buffer_view(&a.answer.message)));
    EXPECT_EQ(5, a.answer.messages_n); /* 100 + 50, 100 + 1, 1 */
    EXPECT_EQ(0, fake.skip_n[0]);
    EXPECT_EQ(150, fake.skip_n[1]);
    EXPECT_EQ(251, fake.skip_n[2]);
    EXPECT_TEXT("", fake.execution[0]);
    EXPECT_TEXT("abababababababababababababababab", fake.execution[1]);
    EXPECT_TEXT("abababababababababababababababab", fake.execution[2]);
    asker_release(&a);
}

TEST(an_instance_that_begins_again_in_between_aborts_its_old_history)
{
    struct asker a;
    fake_open(&a);
    fake.parts[0] = (struct part){OK, 3, EVENT_EVENT_RAISED, true, false};
    fake.parts[1] = (struct part){.status = E_NOT_FOUND};
    ask_history(&a, "x", NULL, false);
    ASK(&a, "StreamInstanceHistory", GRPC_ABORTED);
    fake.parts[2] = (struct part){.status = E_IO};
    ASK(&a, "StreamInstanceHistory", GRPC_INTERNAL);
    asker_release(&a);
}

/* One SDK's suite compares the whole list. */
TEST(orchestrator_completed_is_not_shown)
{
    struct asker a;
    char kinds[200];
    fake_open(&a);
    fake.parts[0] = (struct part){OK, 4, EVENT_ORCHESTRATOR_COMPLETED, false, false};
    ask_history(&a, "x", NULL, false);
    ASK(&a, "StreamInstanceHistory", GRPC_OK);
    kinds_of(buffer_view(&a.answer.message), kinds, sizeof kinds);
    EXPECT_TEXT("14 3", kinds);
    asker_release(&a);
}

TEST(a_call_that_ends_while_the_engine_reads_is_forgotten)
{
    struct asker a;
    struct answer answer;
    fake_open(&a);
    fake.parts[0] = (struct part){OK, 4, EVENT_EVENT_RAISED, true, false};
    fake.is_holding = true;
    ask_history(&a, "x", NULL, false);
    answer_init(&answer);
    served_begin(a.link, "StreamInstanceHistory", buffer_view(&a.message), 0, &answer);
    served_turn(&a.served);
    client_cancel(answer.call);
    served_turn(&a.served);
    EXPECT(fake.held != NULL);
    answer_part(fake.held);
    served_turn(&a.served);
    EXPECT_EQ(0, desk_errands_n(a.served.service->desk));
    EXPECT_EQ(1, fake.part); /* the next part was not asked for */
    /* drained: the call ends at once, the errand when it comes back */
    fake.part = 0;
    served_begin(a.link, "StreamInstanceHistory", buffer_view(&a.message), 0, &answer);
    served_turn(&a.served);
    service_drain(a.served.service);
    served_await(&answer);
    EXPECT_EQ(GRPC_UNAVAILABLE, answer.code);
    EXPECT(!service_is_quiet(a.served.service));
    answer_part(fake.held);
    served_turn(&a.served);
    EXPECT(service_is_quiet(a.served.service));
    answer_release(&answer);
    asker_release(&a);
}

/* ---- for a worker ---- */

/* The worker that holds a turn gets the past of that turn: exactly, whatever came since. */
TEST(a_worker_gets_exactly_the_past_of_its_turn)
{
    struct asker a;
    struct answer work;
    fake_open(&a);
    struct link *worker = served_link(&a.served, NULL);
    answer_init(&work);
    served_begin(worker, "GetWorkItems", BYTES_NONE, 0, &work);
    START(&a, "s", "streamed", NULL);
    while (work.messages_n == 0) (void)GET(&a, "s");
    ProtobufCMessage *message = NULL;
    EXPECT_STATUS(
        OK, message_decode(&work_item__descriptor, buffer_view(&work.last), &a.arena, &message));
    const WorkItem *item = (const WorkItem *)message;
    EXPECT(item->orchestrator_request != NULL);
    struct buffer *b = ask_new(&a);
    put_text(b, 1, "s");
    put_text(b, 4, item->completion_token);
    ASK(&a, "CompleteOrchestratorTask", GRPC_OK);
    b = ask_new(&a);
    put_text(b, 1, "s");
    put_text(b, 2, "e");
    ASK(&a, "RaiseEvent", GRPC_OK);
    while (work.messages_n < 2) (void)GET(&a, "s");
    EXPECT_STATUS(
        OK, message_decode(&work_item__descriptor, buffer_view(&work.last), &a.arena, &message));
    item = (const WorkItem *)message;
    EXPECT_EQ(2, item->orchestrator_request->n_past_events);

    /* two events of the six are its past; nothing of it is left out */
    fake.parts[0] = (struct part){OK, 6, EVENT_ORCHESTRATOR_COMPLETED, true, true};
    ask_history(&a, "s", item->orchestrator_request->execution_id->value, true);
    ASK(&a, "StreamInstanceHistory", GRPC_OK);
    EXPECT_EQ(2, events_n(buffer_view(&a.answer.message)));
    EXPECT_EQ(1, fake.part);
    EXPECT_TEXT(item->orchestrator_request->execution_id->value, fake.execution[0]);
    /* fewer than promised: its turn is over */
    fake.parts[1] = (struct part){OK, 1, EVENT_EVENT_RAISED, false, false};
    ASK(&a, "StreamInstanceHistory", GRPC_ABORTED);
    answer_release(&work);
    asker_release(&a);
}

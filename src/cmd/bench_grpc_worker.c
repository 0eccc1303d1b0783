/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_grpc.h: a worker that does what the SDKs do, as cheaply as can be. Replaying its
 * program means counting: as many tasks as have completed are behind it.
 */
#include "cmd/bench_grpc.h"

#include "base/clock.h"
#include "base/mem.h"
#include "wire/pb.h"

#include <stdio.h>

/* WorkItem */
#define ITEM_ORCHESTRATOR 1
#define ITEM_ACTIVITY 2
#define ITEM_HEALTH_PING 4
#define ITEM_TOKEN 10

#define STATUS_COMPLETED_NUMBER 1

/* Of a service that takes its time. */
struct bench_answer {
    struct list node;
    int64_t due_ns;
    size_t len;
    uint8_t message[];
};

struct item {
    struct bytes orchestrator;
    struct bytes activity;
    struct bytes token;
    bool is_turn;
    bool is_task;
    bool is_ping;
};

static bool read_item(struct bytes message, struct item *item)
{
    struct pb_field field;
    struct pb_reader reader = pb_reader_make(message);
    *item = (struct item){0};
    while (pb_next(&reader, &field)) {
        if (field.number == ITEM_ORCHESTRATOR) {
            item->orchestrator = field.bytes;
            item->is_turn = true;
        } else if (field.number == ITEM_ACTIVITY) {
            item->activity = field.bytes;
            item->is_task = true;
        } else if (field.number == ITEM_HEALTH_PING) {
            item->is_ping = true;
        } else if (field.number == ITEM_TOKEN) {
            item->token = field.bytes;
        }
    }
    return !reader.failed;
}

/* ---- sending answers ---- */

static void note_error(struct bench_worker *worker, const char *text)
{
    worker->errors++;
    snprintf(worker->text, sizeof worker->text, "%s", text);
}

static void turn_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct bench_worker *worker = user;
    (void)call;
    if (code == GRPC_OK)
        worker->turns++;
    else if (code != GRPC_CANCELLED)
        note_error(worker, text);
}

static void last_turn_end(void *user, struct client_call *call, enum grpc_code code,
                          const char *text)
{
    struct bench_worker *worker = user;
    if (code == GRPC_OK) worker->ended++;
    turn_end(user, call, code, text);
}

static void task_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct bench_worker *worker = user;
    (void)call;
    if (code == GRPC_OK)
        worker->tasks++;
    else if (code != GRPC_CANCELLED)
        note_error(worker, text);
}

static void send_answer(struct bench_worker *worker, const char *path, client_end_fn *on_end)
{
    struct client_request request = {
        .path = path,
        .message = buffer_view(&worker->message),
        .on_end = on_end,
        .user = worker,
    };
    int64_t now_ns = client_sockets_now_ns(worker->sockets);
    enum status status =
        worker->message.failed ? E_NOMEM : client_begin(worker->client, now_ns, &request, NULL);
    if (status != OK) note_error(worker, status_text(status));
}

/* ---- a turn ---- */

struct replay {
    struct bytes instance_id;
    uint32_t steps;
    uint32_t scheduled;
    uint32_t completed;
};

static void read_started(struct bytes event, struct replay *replay)
{
    struct pb_field field;
    struct bytes input = BYTES_NONE;
    struct pb_reader reader = pb_reader_make(event);
    while (pb_next(&reader, &field)) {
        if (field.number == 3 && !pb_get_string_value(&field, &input)) return;
    }
    replay->steps = 0;
    for (size_t n = 0; n < input.len && n < 6; n++) {
        if (input.ptr[n] < '0' || input.ptr[n] > '9') return;
        replay->steps = replay->steps * 10 + (uint32_t)(input.ptr[n] - '0');
    }
}

static void replay_event(struct bytes event, struct replay *replay)
{
    struct pb_field field;
    struct pb_reader reader = pb_reader_make(event);
    while (pb_next(&reader, &field)) {
        if (field.number == 3) read_started(field.bytes, replay);
        if (field.number == 6) replay->scheduled++;
        if (field.number == 7) replay->completed++;
    }
}

static bool replay_turn(struct bytes request, struct replay *replay)
{
    struct pb_field field;
    struct pb_reader reader = pb_reader_make(request);
    *replay = (struct replay){0};
    while (pb_next(&reader, &field)) {
        if (field.number == 1) replay->instance_id = field.bytes;
        if (field.number == 3 || field.number == 4) replay_event(field.bytes, replay);
    }
    return !reader.failed;
}

static void do_turn(struct bench_worker *worker, const struct item *item)
{
    struct replay replay;
    struct buffer *out = &worker->message;
    bool is_read = replay_turn(item->orchestrator, &replay);
    bool is_last = false;
    if (worker->service_ns > 0) {
        replay.steps = 1;
    } else if (worker->ends_at_once) {
        replay.steps = 0;
        replay.scheduled = replay.completed = 0;
    } else if (replay.steps == 0) {
        is_read = false;
    }
    if (!is_read) {
        note_error(worker, "a work item that is not of this benchmark");
        return;
    }
    buffer_clear(out);
    pb_put_bytes(out, 1, replay.instance_id);
    if (replay.completed == replay.scheduled) {
        struct pb_mark action = pb_begin(out, 2, 40);
        pb_put_varint(out, 1, replay.completed + 1);
        if (replay.completed < replay.steps) {
            struct pb_mark schedule = pb_begin(out, 2, 30);
            pb_put_bytes(out, 1, BYTES_LITERAL(BENCH_STEP));
            pb_put_string_value(out, 3, BYTES_LITERAL("\"ping\""), true);
            pb_end(out, schedule);
        } else {
            is_last = true;
            struct pb_mark complete = pb_begin(out, 6, 20);
            pb_put_varint(out, 1, STATUS_COMPLETED_NUMBER);
            pb_put_string_value(out, 2, BYTES_LITERAL("\"done\""), true);
            pb_end(out, complete);
        }
        pb_end(out, action);
    }
    pb_put_bytes(out, 4, item->token);
    send_answer(worker, "/TaskHubSidecarService/CompleteOrchestratorTask",
                is_last ? last_turn_end : turn_end);
}

/* ---- an activity ---- */

/* All take the same time, so what comes last is due last. */
static void answer_later(struct bench_worker *worker)
{
    struct bytes message = buffer_view(&worker->message);
    struct bench_answer *answer =
        worker->message.failed ? NULL : mem_take_zero(mem_process(), sizeof *answer + message.len);
    if (answer == NULL) {
        note_error(worker, status_text(E_NOMEM));
        return;
    }
    answer->due_ns = client_sockets_now_ns(worker->sockets) + worker->service_ns;
    answer->len = message.len;
    memcpy(answer->message, message.ptr, message.len);
    list_push_back(&worker->answers, &answer->node);
}

static void answer_free(struct bench_answer *answer)
{
    list_remove(&answer->node);
    mem_give(mem_process(), answer, sizeof *answer + answer->len);
}

int bench_worker_serve(struct bench_worker *worker, int most_ms)
{
    struct list *node;
    while ((node = list_first(&worker->answers)) != NULL) {
        struct bench_answer *answer = container_of(node, struct bench_answer, node);
        int64_t wait_ns = answer->due_ns - client_sockets_now_ns(worker->sockets);
        if (wait_ns > 0) {
            int64_t wait_ms = (wait_ns + NS_PER_MS - 1) / NS_PER_MS;
            return wait_ms < most_ms ? (int)wait_ms : most_ms;
        }
        buffer_clear(&worker->message);
        buffer_append(&worker->message, answer->message, answer->len);
        send_answer(worker, "/TaskHubSidecarService/CompleteActivityTask", task_end);
        answer_free(answer);
    }
    return most_ms;
}

static void do_task(struct bench_worker *worker, const struct item *item)
{
    struct pb_field field;
    struct bytes instance_id = BYTES_NONE;
    uint64_t task_id = 0;
    struct pb_reader reader = pb_reader_make(item->activity);
    while (pb_next(&reader, &field)) {
        if (field.number == 5) task_id = field.value;
        if (field.number != 4) continue;
        struct pb_field inner;
        struct pb_reader instance = pb_sub(&field);
        while (pb_next(&instance, &inner)) {
            if (inner.number == 1) instance_id = inner.bytes;
        }
    }
    struct buffer *out = &worker->message;
    buffer_clear(out);
    pb_put_bytes(out, 1, instance_id);
    pb_put_plain_varint(out, 2, task_id);
    pb_put_string_value(out, 3, BYTES_LITERAL("\"pong\""), true);
    pb_put_bytes(out, 5, item->token);
    if (worker->service_ns > 0)
        answer_later(worker);
    else
        send_answer(worker, "/TaskHubSidecarService/CompleteActivityTask", task_end);
}

/* ---- the stream ---- */

static void stream_message(void *user, struct client_call *call, struct bytes message)
{
    struct bench_worker *worker = user;
    struct item item;
    (void)call;
    if (!read_item(message, &item) || (!item.is_turn && !item.is_task && !item.is_ping))
        note_error(worker, "a work item that cannot be read");
    else if (item.is_turn)
        do_turn(worker, &item);
    else if (item.is_task)
        do_task(worker, &item);
}

static void stream_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct bench_worker *worker = user;
    char sentence[CLIENT_TEXT_SIZE];
    (void)call;
    worker->stream = NULL;
    snprintf(sentence, sizeof sentence, "the stream of work items ended: %s %.900s",
             grpc_code_name(code), text);
    note_error(worker, sentence);
}

bool bench_worker_open(struct bench_worker *worker, struct client_sockets *sockets,
                       const char *address, const char *hub)
{
    char text[CLIENT_SOCKET_TEXT_SIZE] = "";
    struct client_options options;
    *worker = (struct bench_worker){.sockets = sockets};
    list_init(&worker->answers);
    buffer_init(&worker->message, mem_process());
    client_options_init(&options, mem_process());
    options.hub = bytes_of_text(hub);
    options.calls_n_max = 100000;
    enum status status =
        client_sockets_connect(sockets, &options, address, 5000, &worker->client, text);
    struct client_request request = {
        .path = "/TaskHubSidecarService/GetWorkItems",
        .on_message = stream_message,
        .on_end = stream_end,
        .user = worker,
    };
    if (status == OK) {
        status =
            client_begin(worker->client, client_sockets_now_ns(sockets), &request, &worker->stream);
    }
    if (status == OK) return true;
    fprintf(stderr, "norn bench grpc: no worker: %s %s\n", status_text(status), text);
    return false;
}

void bench_worker_close(struct bench_worker *worker)
{
    if (worker->client == NULL) return;
    if (worker->stream != NULL) client_cancel(worker->stream);
    client_sockets_turn(worker->sockets, 0); /* the cancellation leaves */
    client_sockets_disconnect(worker->sockets, worker->client);
    struct list *node;
    while ((node = list_first(&worker->answers)) != NULL) {
        answer_free(container_of(node, struct bench_answer, node));
    }
    buffer_release(&worker->message);
    worker->client = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See caller.h.
 */
#include "test/lib/caller.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <stdio.h>
#include <stdlib.h>

/* Nothing a test asks takes longer, even on a busy machine under the sanitizers. */
#define PATIENCE_MS 60000
#define SERVICE "/TaskHubSidecarService/"

/* ---- reading ---- */

static void read_instance(const struct pb_field *field, struct item *out)
{
    struct pb_reader r = pb_sub(field);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1) out->id = f.bytes;
        if (f.number == 2) (void)pb_get_string_value(&f, &out->execution_id);
    }
}

static bool read_turn(struct item *out)
{
    struct pb_reader r = pb_reader_make(out->body);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1) out->id = f.bytes;
        if (f.number == 2) (void)pb_get_string_value(&f, &out->execution_id);
        if (f.number == 3) out->past_n++;
        if (f.number == 4) out->fresh_n++;
        if (f.number == 6) out->is_streamed = pb_bool(&f);
    }
    return !r.failed && out->id.len > 0 && out->fresh_n > 0;
}

static bool read_task(struct item *out)
{
    struct pb_reader r = pb_reader_make(out->body);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1) out->name = f.bytes;
        if (f.number == 3) (void)pb_get_string_value(&f, &out->input);
        if (f.number == 4) read_instance(&f, out);
        if (f.number == 5) out->task_id = pb_int32(&f);
    }
    return !r.failed && out->id.len > 0;
}

static bool read_entity(struct item *out)
{
    struct pb_reader r = pb_reader_make(out->body);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1) out->id = f.bytes;
    }
    return !r.failed && out->id.len > 0;
}

bool item_read(struct bytes message, struct item *out)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    uint32_t kind = 0;

    *out = (struct item){0};
    while (pb_next(&r, &f)) {
        if (f.number == 10) out->token = f.bytes;
        if (f.number > 5) continue;
        kind = f.number;
        out->body = f.bytes;
    }
    if (r.failed) return false;
    if (kind == 4) out->is_ping = true;
    if (kind == 1) out->kind = WORK_TURN;
    if (kind == 2) out->kind = WORK_TASK;
    if (kind == 5) out->kind = WORK_ENTITY;
    switch (kind) {
    case 1: return read_turn(out);
    case 2: return read_task(out);
    case 4: return true;
    case 5: return read_entity(out);
    default: return false;
    }
}

static void read_failure(const struct pb_field *field, struct seen *out)
{
    struct pb_reader r = pb_sub(field);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 2) out->failure = f.bytes;
    }
}

bool seen_read_state(struct bytes state, struct seen *out)
{
    struct pb_reader r = pb_reader_make(state);
    struct pb_field f;

    *out = (struct seen){.exists = true};
    while (pb_next(&r, &f)) {
        if (f.number == 1) out->id = f.bytes;
        if (f.number == 4) out->status = pb_int32(&f);
        if (f.number == 9) (void)pb_get_string_value(&f, &out->output);
        if (f.number == 10) (void)pb_get_string_value(&f, &out->custom_status);
        if (f.number == 11) read_failure(&f, out);
    }
    return !r.failed;
}

bool seen_read(struct bytes response, struct seen *out)
{
    struct pb_reader r = pb_reader_make(response);
    struct pb_field f;
    bool exists = false;
    bool is_readable = true;

    *out = (struct seen){0};
    while (pb_next(&r, &f)) {
        if (f.number == 1) exists = pb_bool(&f);
        if (f.number == 2) is_readable = seen_read_state(f.bytes, out);
    }
    return !r.failed && is_readable && exists == out->exists;
}

/* ---- asking ---- */

bool caller_open(struct caller *c, struct client_sockets *sockets, const char *address,
                 const char *hub)
{
    struct client_options options;
    char text[CLIENT_SOCKET_TEXT_SIZE];

    *c = (struct caller){.sockets = sockets};
    client_options_init(&options, mem_process());
    options.hub = bytes_of_text(hub);
    options.calls_n_max = 100000;
    if (client_sockets_connect(sockets, &options, address, 10000, &c->client, text) != OK) {
        c->client = NULL;
        return false;
    }
    buffer_init(&c->message, mem_process());
    buffer_init(&c->answer, mem_process());
    return true;
}

void caller_close(struct caller *c)
{
    if (c->client == NULL) return;
    client_sockets_disconnect(c->sockets, c->client);
    buffer_release(&c->message);
    buffer_release(&c->answer);
    c->client = NULL;
}

enum grpc_code caller_ask_within(struct caller *c, const char *rpc, struct bytes message,
                                 int64_t timeout_ms)
{
    char path[96];
    enum grpc_code code = GRPC_UNAVAILABLE;

    (void)snprintf(path, sizeof path, SERVICE "%s", rpc);
    struct client_request request = {.path = path, .message = message, .timeout_ms = timeout_ms};
    buffer_clear(&c->answer);
    c->text[0] = '\0';
    if (client_sockets_ask(c->sockets, c->client, &request, &c->answer, &code, c->text) != OK)
        return GRPC_UNAVAILABLE;
    return code;
}

enum grpc_code caller_ask(struct caller *c, const char *rpc, struct bytes message)
{
    return caller_ask_within(c, rpc, message, PATIENCE_MS);
}

enum grpc_code caller_start(struct caller *c, const char *id, const char *name, struct bytes input)
{
    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, bytes_of_text(id));
    pb_put_bytes(&c->message, 2, bytes_of_text(name));
    pb_put_string_value(&c->message, 4, input, true);
    return caller_ask(c, "StartInstance", buffer_view(&c->message));
}

enum grpc_code caller_raise(struct caller *c, const char *id, const char *name, const char *input)
{
    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, bytes_of_text(id));
    pb_put_bytes(&c->message, 2, bytes_of_text(name));
    pb_put_string_value(&c->message, 3, bytes_of_text(input), true);
    return caller_ask(c, "RaiseEvent", buffer_view(&c->message));
}

static enum grpc_code look(struct caller *c, const char *rpc, const char *id, int64_t timeout_ms,
                           struct seen *out)
{
    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, bytes_of_text(id));
    pb_put_varint(&c->message, 2, 1);
    enum grpc_code code = caller_ask_within(c, rpc, buffer_view(&c->message), timeout_ms);
    *out = (struct seen){0};
    if (code == GRPC_OK) EXPECT(seen_read(buffer_view(&c->answer), out));
    return code;
}

enum grpc_code caller_get(struct caller *c, const char *id, struct seen *out)
{
    return look(c, "GetInstance", id, PATIENCE_MS, out);
}

enum grpc_code caller_wait(struct caller *c, const char *id, int64_t timeout_ms, struct seen *out)
{
    return look(c, "WaitForInstanceCompletion", id, timeout_ms, out);
}

/* ---- workers that only take ---- */

static void basket_message(void *user, struct client_call *call, struct bytes message)
{
    struct basket *b = user;
    struct item item;

    (void)call;
    EXPECT(item_read(message, &item));
    if (item.is_ping) {
        b->pings_n++;
        return;
    }
    struct taken *t = malloc(sizeof *t + message.len);
    assert(t != NULL);
    memcpy(t + 1, message.ptr, message.len);
    t->message = bytes_make(t + 1, message.len);
    (void)item_read(t->message, &t->item);
    t->next = NULL;
    if (b->last != NULL)
        b->last->next = t;
    else
        b->first = t;
    b->last = t;
    b->taken_n++;
}

static void basket_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct basket *b = user;

    (void)call;
    (void)text;
    b->stream = NULL;
    b->code = code;
}

void basket_open(struct basket *b, struct caller *c, struct bytes request)
{
    *b = (struct basket){.caller = c};
    struct client_request call = {
        .path = SERVICE "GetWorkItems",
        .message = request,
        .on_message = basket_message,
        .on_end = basket_end,
        .user = b,
    };
    EXPECT_STATUS(OK,
                  client_begin(c->client, client_sockets_now_ns(c->sockets), &call, &b->stream));
    client_sockets_turn(c->sockets, 0);
}

void basket_close(struct basket *b)
{
    if (b->stream != NULL) client_cancel(b->stream);
    b->stream = NULL;
    while (b->first != NULL) {
        struct taken *next = b->first->next;
        free(b->first);
        b->first = next;
    }
    b->last = NULL;
}

struct taken *basket_await(struct basket *b, uint32_t n, int64_t timeout_ms)
{
    int64_t end_ns = clock_mono_ns() + timeout_ms * NS_PER_MS;
    struct taken *t = b->first;

    assert(n > 0);
    while (b->taken_n < n && clock_mono_ns() < end_ns) client_sockets_turn(b->caller->sockets, 5);
    if (b->taken_n < n) return NULL;
    for (t = b->first; n > 1; n--) t = t->next;
    return t;
}

/* ---- answers ---- */

void put_task_action(struct buffer *response, int32_t id, const char *name, struct bytes input)
{
    struct pb_mark action = pb_begin(response, 2, input.len + 64);
    pb_put_int32(response, 1, id);
    struct pb_mark task = pb_begin(response, 2, input.len + 40);
    pb_put_bytes(response, 1, bytes_of_text(name));
    pb_put_string_value(response, 3, input, true);
    pb_end(response, task);
    pb_end(response, action);
}

void put_end_action(struct buffer *response, int32_t id, int status, struct bytes result)
{
    struct pb_mark action = pb_begin(response, 2, result.len + 64);
    pb_put_int32(response, 1, id);
    struct pb_mark end = pb_begin(response, 6, result.len + 40);
    pb_put_varint(response, 1, (uint64_t)status);
    pb_put_string_value(response, 2, result, true);
    pb_end(response, end);
    pb_end(response, action);
}

enum grpc_code caller_end_turn(struct caller *c, const struct item *item, struct bytes result)
{
    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, item->id);
    put_end_action(&c->message, 1000000, STATUS_COMPLETED, result);
    pb_put_bytes(&c->message, 4, item->token);
    return caller_ask(c, "CompleteOrchestratorTask", buffer_view(&c->message));
}

enum grpc_code caller_order_task(struct caller *c, const struct item *item, int32_t id,
                                 const char *name, struct bytes input)
{
    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, item->id);
    put_task_action(&c->message, id, name, input);
    pb_put_bytes(&c->message, 4, item->token);
    return caller_ask(c, "CompleteOrchestratorTask", buffer_view(&c->message));
}

enum grpc_code caller_end_task(struct caller *c, const struct item *item, struct bytes result)
{
    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, item->id);
    pb_put_plain_int32(&c->message, 2, item->task_id);
    pb_put_string_value(&c->message, 3, result, true);
    pb_put_bytes(&c->message, 5, item->token);
    return caller_ask(c, "CompleteActivityTask", buffer_view(&c->message));
}

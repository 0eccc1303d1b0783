/* SPDX-License-Identifier: Apache-2.0
 *
 * See flow_worker.h.
 */
#include "test/torture/flow_worker.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "wire/pb.h"

#include <stdio.h>
#include <stdlib.h>

#define CONNECT_AGAIN_NS (30 * NS_PER_MS)

struct held {
    struct held *next;
    int64_t due_ns;
    struct item item;
    uint8_t message[];
};

static void drop_held(struct flow_worker *w)
{
    while (w->held != NULL) {
        struct held *next = w->held->next;
        free(w->held);
        w->held = next;
    }
}

/* ---- answers ---- */

static void answer_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct flow_worker *w = user;

    (void)call;
    if (code == GRPC_OK) w->acknowledged_n++;
    if (code == GRPC_OK || code == GRPC_UNAVAILABLE || code == GRPC_CANCELLED) return;
    (void)snprintf(w->odd, sizeof w->odd, "an answer was refused: %s %.900s", grpc_code_name(code),
                   text);
}

static void answer(struct flow_worker *w, const struct item *item)
{
    static const char *const paths[WORK_KINDS_N] = {
        [WORK_TURN] = "/TaskHubSidecarService/CompleteOrchestratorTask",
        [WORK_TASK] = "/TaskHubSidecarService/CompleteActivityTask",
        [WORK_ENTITY] = "/TaskHubSidecarService/CompleteEntityTask",
    };

    buffer_clear(&w->answer);
    if (!flow_answer(item, !w->manner.is_tokenless, &w->answer))
        (void)snprintf(w->odd, sizeof w->odd, "work of an orchestration that is not ours");
    struct client_request request = {
        .path = paths[item->kind],
        .message = buffer_view(&w->answer),
        .on_end = answer_end,
        .user = w,
    };
    w->answered_n++;
    (void)client_begin(w->caller.client, client_sockets_now_ns(w->sockets), &request, NULL);
}

/* ---- the stream ---- */

static void take(struct flow_worker *w, struct bytes message)
{
    struct item item;

    if (!item_read(message, &item)) {
        (void)snprintf(w->odd, sizeof w->odd, "a work item that cannot be read");
        return;
    }
    if (item.is_ping || w->is_dead) return;
    w->items_n++;
    if (rng_chance(w->rng, w->manner.crash_per_mille)) {
        w->is_dead = true;
        w->crashes_n++;
        return;
    }
    if (w->manner.delay_ms_max == 0) {
        answer(w, &item);
        return;
    }
    struct held *held = malloc(sizeof *held + message.len);
    assert(held != NULL);
    memcpy(held->message, message.ptr, message.len);
    (void)item_read(bytes_make(held->message, message.len), &held->item);
    held->due_ns =
        clock_mono_ns() + (int64_t)rng_below(w->rng, w->manner.delay_ms_max + 1) * NS_PER_MS;
    held->next = w->held;
    w->held = held;
}

static void stream_message(void *user, struct client_call *call, struct bytes message)
{
    (void)call;
    take(user, message);
}

static void stream_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct flow_worker *w = user;

    (void)call;
    w->stream = NULL;
    w->is_dead = true;
    if (code == GRPC_UNAVAILABLE || code == GRPC_CANCELLED) return;
    (void)snprintf(w->odd, sizeof w->odd, "the stream ended: %s %.900s", grpc_code_name(code),
                   text);
}

/* No filters but for the tokenless: an answer for an entity has nothing but its token to go by. */
static void write_wish(struct flow_worker *w)
{
    struct buffer *out = &w->answer;

    buffer_clear(out);
    for (uint32_t kind = 1; kind <= 3; kind++) pb_put_plain_varint(out, kind, w->manner.limit);
    if (!w->manner.is_tokenless) return;
    struct pb_mark filters = pb_begin(out, 11, 100);
    for (enum flow flow = 0; flow < FLOWS_N; flow++) {
        struct pb_mark filter = pb_begin(out, 1, 20);
        pb_put_bytes(out, 1, bytes_of_text(flow_name(flow)));
        pb_end(out, filter);
    }
    struct pb_mark filter = pb_begin(out, 2, 20);
    pb_put_bytes(out, 1, BYTES_LITERAL("step"));
    pb_end(out, filter);
    pb_end(out, filters);
}

static void connect_again(struct flow_worker *w, const char *address)
{
    int64_t now_ns = clock_mono_ns();

    if (address == NULL || now_ns < w->connect_ns) return;
    w->connect_ns = now_ns + CONNECT_AGAIN_NS;
    if (!caller_open(&w->caller, w->sockets, address, "")) return;
    write_wish(w);
    struct client_request request = {
        .path = "/TaskHubSidecarService/GetWorkItems",
        .message = buffer_view(&w->answer),
        .on_message = stream_message,
        .on_end = stream_end,
        .user = w,
    };
    w->is_dead = client_begin(w->caller.client, client_sockets_now_ns(w->sockets), &request,
                              &w->stream) != OK;
}

void flow_worker_tick(struct flow_worker *w, const char *address)
{
    int64_t now_ns = clock_mono_ns();

    if (w->is_dead && w->caller.client != NULL) {
        if (w->stream != NULL) client_cancel(w->stream); /* no callback of its end */
        w->stream = NULL;
        caller_close(&w->caller);
        if (!w->manner.keeps_work) drop_held(w);
    }
    if (w->caller.client == NULL) connect_again(w, address);
    if (w->caller.client == NULL) return;
    for (struct held **at = &w->held; *at != NULL;) {
        struct held *held = *at;
        if (held->due_ns > now_ns) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        answer(w, &held->item);
        free(held);
    }
}

void flow_worker_open(struct flow_worker *w, struct client_sockets *sockets, struct rng *rng,
                      const struct flow_manner *manner)
{
    *w = (struct flow_worker){.manner = *manner, .sockets = sockets, .rng = rng};
    buffer_init(&w->answer, mem_process());
}

void flow_worker_close(struct flow_worker *w)
{
    if (w->stream != NULL) client_cancel(w->stream);
    w->stream = NULL;
    caller_close(&w->caller);
    drop_held(w);
    buffer_release(&w->answer);
}

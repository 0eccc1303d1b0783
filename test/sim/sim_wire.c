/* SPDX-License-Identifier: Apache-2.0
 *
 * See sim_wire.h.
 */
#include "test/sim/sim_wire.h"

#include "base/assert.h"
#include "base/mem.h"
#include "test/sim/sim_link.h"
#include "test/sim/sim_message.h"
#include "test/sim/sim_network.h"

struct wire {
    struct world *w;
    struct bytes hub;
    struct link *link; /* NULL: not connected */
};

struct wire *wire_new(struct world *w, struct bytes hub)
{
    struct wire *wire = mem_take_zero(mem_process(), sizeof *wire);

    assert(wire != NULL);
    *wire = (struct wire){.w = w, .hub = hub};
    return wire;
}

void wire_free(struct wire *wire)
{
    if (wire == NULL) return;
    if (wire->link != NULL) link_close(wire->link);
    mem_give(mem_process(), wire, sizeof *wire);
}

/* A list over several shards is merged by the engine, which is not part of the simulation. */
bool wire_has_rpc(const struct wire *wire, const struct call *call)
{
    enum request_kind kind = call->request.kind;

    if (kind == REQUEST_QUERY) return wire->w->options.shards_n == 1;
    return kind != REQUEST_RESUBMIT;
}

/* ---- answers ---- */

static enum status status_of(enum grpc_code code)
{
    switch (code) {
    case GRPC_OK: return OK;
    case GRPC_INVALID_ARGUMENT: return E_INVALID;
    case GRPC_NOT_FOUND: return E_NOT_FOUND;
    case GRPC_ALREADY_EXISTS: return E_EXISTS;
    case GRPC_FAILED_PRECONDITION: return E_PRECONDITION;
    case GRPC_ABORTED: return E_STALE;
    case GRPC_RESOURCE_EXHAUSTED: return E_LIMIT;
    case GRPC_UNIMPLEMENTED: return E_UNSUPPORTED;
    case GRPC_INTERNAL: return E_IO;
    case GRPC_CANCELLED:
    case GRPC_UNKNOWN:
    case GRPC_DEADLINE_EXCEEDED:
    case GRPC_PERMISSION_DENIED:
    case GRPC_OUT_OF_RANGE:
    case GRPC_UNAVAILABLE:
    case GRPC_DATA_LOSS:
    case GRPC_UNAUTHENTICATED: return E_UNAVAILABLE;
    }
    return E_UNAVAILABLE;
}

static void read_answer(struct call *call)
{
    struct message_answer read;
    struct answer *a = &call->answer;
    struct arena *arena = &call->parcel->arena;
    struct bytes got = arena_copy(arena, buffer_view(&call->got));

    if (!message_read_answer(&call->request, call->wire->hub, got, arena, &read)) {
        sim_fail(call->w, "W4 answer", "the answer to request %d of %.*s cannot be read",
                 (int)call->request.kind, (int)call->request.key.len,
                 (const char *)call->request.key.ptr);
    }
    a->has_view = read.has_view;
    a->view = read.view;
    a->events = read.events;
    a->rows = read.rows;
    a->rows_n = read.rows_n;
    a->token = read.token;
    a->has_more = read.token.len > 0;
    a->purged_n = read.purged_n;
}

static void on_message(void *user, struct client_call *remote, struct bytes message)
{
    struct call *call = user;

    (void)remote;
    buffer_append_bytes(&call->got, message);
}

static void on_end(void *user, struct client_call *remote, enum grpc_code code, const char *text)
{
    struct call *call = user;
    enum status status = status_of(code);

    (void)remote;
    call->remote = NULL;
    call->answer = (struct answer){.outcome = OUTCOME_ANSWER, .status = status, .text = ""};
    bool can_read = call->w->options.fault_rate[FAULT_KIND_ARCHIVE_READ_FAIL] == 0;
    if (status == E_UNSUPPORTED || code == GRPC_UNKNOWN || (status == E_IO && can_read) ||
        (code != GRPC_OK && text[0] == '\0')) {
        sim_fail(call->w, "W4 answer", "request %d of %.*s: code %d, %s", (int)call->request.kind,
                 (int)call->request.key.len, (const char *)call->request.key.ptr, (int)code, text);
    }
    if (status == E_UNAVAILABLE)
        call->answer.outcome = OUTCOME_UNKNOWN;
    else if (status == OK)
        read_answer(call);
    call_return(call, 0);
}

/* ---- sending ---- */

static void on_lost(void *user) { ((struct wire *)user)->link = NULL; }

static void refuse(struct call *call)
{
    call->answer = (struct answer){.outcome = OUTCOME_REFUSED, .text = ""};
    call_return(call, chance_span(&call->w->rng, call->w->options.network_us) * 1000);
}

static bool connect_now(struct wire *wire)
{
    if (wire->link != NULL && link_is_closing(wire->link)) {
        struct link *old = wire->link;
        wire->link = NULL;
        link_close(old);
    }
    if (wire->link == NULL) wire->link = link_open(wire->w, wire->hub, on_lost, wire);
    return wire->link != NULL;
}

void wire_send(struct wire *wire, struct call *call, int64_t patience_ns)
{
    struct world *w = wire->w;
    struct buffer message;

    call->wire = wire;
    if (!connect_now(wire)) {
        refuse(call);
        return;
    }
    buffer_init(&message, mem_process());
    struct client_request request = {
        .path = message_write_request(&message, &call->request),
        .message = buffer_view(&message),
        .on_message = on_message,
        .on_end = on_end,
        .user = call,
    };
    assert(request.path != NULL);
    if (rng_chance(&w->rng, 300)) request.timeout_ms = patience_ns / NS_PER_MS;
    if (fault_hits(w, FAULT_KIND_CALL_DEADLINE)) request.timeout_ms = rng_between(&w->rng, 1, 100);
    enum status status = link_begin(wire->link, &request, &call->remote);
    buffer_release(&message);
    if (status != OK) refuse(call);
}

void wire_cancel(struct call *call)
{
    struct client_call *remote = call->remote;

    call->remote = NULL;
    link_cancel(call->wire->link, remote);
    call->answer = (struct answer){.outcome = OUTCOME_UNKNOWN, .text = ""};
    call_return(call, 0);
}

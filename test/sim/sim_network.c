/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on their way. A call is freed when it has arrived for the last time: as an answer, as a
 * loss, or in a process that ended.
 */
#include "test/sim/sim_network.h"

#include "base/assert.h"
#include "base/mem.h"
#include "test/sim/sim_check.h"
#include "test/sim/sim_feed.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_wire.h"

#include <string.h>

/* ---- calls ---- */

static void call_set_port(struct call *call, struct port *port)
{
    if (call->port != NULL) call->port->calls_n--;
    call->port = port;
    if (port != NULL) port->calls_n++;
}

struct call *call_make(struct world *w, enum request_kind kind)
{
    struct call *call = mem_take_zero(mem_process(), sizeof *call);
    struct parcel *parcel = mem_take_zero(mem_process(), sizeof *parcel);

    assert(call != NULL);
    assert(parcel != NULL);
    parcel->refs = 1;
    arena_init(&parcel->arena, mem_process(), 512);
    call->w = w;
    call->parcel = parcel;
    call->request.kind = kind;
    moment_init(&call->moment, NULL);
    buffer_init(&call->got, mem_process());
    list_push_back(&w->calls, &call->of_world);
    return call;
}

static struct call *call_double(const struct call *call)
{
    struct call *copy = mem_take(mem_process(), sizeof *copy);

    assert(copy != NULL);
    *copy = *call;
    copy->port = NULL;
    call_set_port(copy, call->port);
    copy->parcel->refs++;
    list_node_init(&copy->of_world);
    list_push_back(&call->w->calls, &copy->of_world);
    moment_init(&copy->moment, call->moment.fn);
    return copy;
}

static void call_free(struct call *call)
{
    moment_cancel(call->w, &call->moment);
    assert(!call->is_inside);
    call_set_port(call, NULL);
    list_remove(&call->of_world);
    assert(call->remote == NULL);
    buffer_release(&call->got);
    if (--call->parcel->refs == 0) {
        arena_release(&call->parcel->arena);
        mem_give(mem_process(), call->parcel, sizeof *call->parcel);
    }
    mem_give(mem_process(), call, sizeof *call);
}

struct bytes call_copy(struct call *call, struct bytes b)
{
    struct bytes copy = arena_copy(&call->parcel->arena, b);

    assert(copy.len == b.len);
    return copy;
}

void call_set_key(struct call *call, struct bytes key) { call->request.key = call_copy(call, key); }

/* ---- ports ---- */

static void port_finish(struct port *port, const struct answer *answer)
{
    assert(port->is_waiting);
    port->is_waiting = false;
    port->exchange++;
    moment_cancel(port->w, &port->patience);
    struct answer told = *answer;
    told.was_doubled = port->was_doubled;
    port->on_answer(port, &told);
}

/* Nobody waits any more: what goes over gRPC is cancelled there, as clients do. */
static void port_give_up(struct port *port)
{
    struct list *calls = &port->w->calls;

    if (port->wire == NULL) return;
    for (struct list *at = list_first(calls); at != NULL; at = list_next(calls, at)) {
        struct call *call = container_of(at, struct call, of_world);
        if (call->port != port || call->remote == NULL) continue;
        wire_cancel(call);
        return;
    }
}

static void on_patience(struct moment *m)
{
    struct port *port = container_of(m, struct port, patience);

    port_give_up(port);
    port_finish(port, &(struct answer){.outcome = OUTCOME_UNKNOWN, .text = ""});
}

void port_init(struct port *port, struct world *w, port_answer_fn *on_answer)
{
    *port = (struct port){.w = w, .on_answer = on_answer};
    moment_init(&port->patience, on_patience);
}

void port_cancel(struct port *port)
{
    struct list *calls = &port->w->calls;

    port->is_waiting = false;
    port->exchange++;
    moment_cancel(port->w, &port->patience);
    for (struct list *at = list_first(calls); at != NULL && port->calls_n > 0;
         at = list_next(calls, at)) {
        struct call *call = container_of(at, struct call, of_world);
        if (call->port == port) call_set_port(call, NULL);
    }
    assert(port->calls_n == 0);
}

/* The end of a call: its answer reaches the port, if that still waits for it. */
static void call_end(struct call *call)
{
    struct port *port = call->port;

    if (port != NULL && port->is_waiting && port->exchange == call->exchange) {
        port_finish(port, &call->answer);
    }
    call_free(call);
}

static void on_returned(struct moment *m) { call_end(container_of(m, struct call, moment)); }

void call_return(struct call *call, int64_t delay_ns)
{
    moment_init(&call->moment, on_returned);
    moment_after(call->w, &call->moment, delay_ns);
}

/* ---- at the host ---- */

static struct bytes keep(struct call *call, struct bytes b) { return call_copy(call, b); }

static struct maybe keep_maybe(struct call *call, struct maybe m)
{
    if (m.has) m.value = keep(call, m.value);
    return m;
}

static struct instance_view keep_view(struct call *call, const struct instance_view *view)
{
    struct instance_view copy = *view;

    copy.key = keep(call, view->key);
    copy.name = keep(call, view->name);
    copy.version = keep_maybe(call, view->version);
    copy.input = keep_maybe(call, view->input);
    copy.output = keep_maybe(call, view->output);
    copy.failure = keep_maybe(call, view->failure);
    copy.custom_status = keep_maybe(call, view->custom_status);
    copy.parent_id = keep(call, view->parent_id);
    copy.tags = keep(call, view->tags);
    return copy;
}

/* The host's answer is borrowed: what travels is a copy. */
static void keep_answer(struct call *call)
{
    const struct request *r = &call->request;
    struct answer *a = &call->answer;

    *a = (struct answer){.outcome = OUTCOME_ANSWER,
                         .status = r->status,
                         .has_more = r->has_more,
                         .purged_n = r->purged_n};
    a->text = arena_text(&call->parcel->arena, bytes_of_text(r->text));
    if (call->port == NULL) return;
    a->has_view = r->view != NULL;
    if (r->view != NULL) a->view = keep_view(call, r->view);
    a->events = keep(call, r->events);
    if (r->kind == REQUEST_SOURCE) { /* a double may overwrite it */
        uint64_t *positions = arena_alloc(&call->parcel->arena, PARTITIONS_MAX * sizeof *positions);
        assert(positions != NULL);
        memcpy(positions, r->source.positions, PARTITIONS_MAX * sizeof *positions);
        a->positions = positions;
    }
    if (r->rows_n == 0) return;
    struct instance_view *rows =
        arena_alloc(&call->parcel->arena, r->rows_n * sizeof(struct instance_view));
    assert(rows != NULL);
    for (size_t i = 0; i < r->rows_n; i++) rows[i] = keep_view(call, &r->rows[i]);
    a->rows = rows;
    a->rows_n = r->rows_n;
}

static int64_t way_ns(struct world *w)
{
    return chance_span(&w->rng, w->options.network_us) * 1000;
}

static void on_done(struct request *request)
{
    struct call *call = container_of(request, struct call, request);
    struct node *n = call->to;
    struct world *w = call->w;

    assert(call->is_inside);
    call->is_inside = false;
    list_remove(&call->node);
    /* Whatever a dying process still says, nobody hears it. */
    bool is_heard = n->is_up && !n->is_ending;
    if (is_heard) {
        check_answer(n, request);
        feeds_check_answer(n, request);
    }
    if (call->seen != NULL) call->seen(call);
    if (!is_heard) {
        call->answer = (struct answer){.outcome = OUTCOME_UNKNOWN, .text = ""};
        moment_init(&call->moment, on_returned); /* the connection is reset */
        moment_after(w, &call->moment, call->is_private ? 0 : way_ns(w));
        return;
    }
    keep_answer(call);
    moment_init(&call->moment, on_returned);
    if (call->is_private) {
        moment_after(w, &call->moment, 0);
    } else if (node_is_cut(n) || fault_hits(w, FAULT_KIND_REPLY_LOST)) {
        call_set_port(call, NULL);
        moment_after(w, &call->moment, 0);
    } else {
        moment_after(w, &call->moment, way_ns(w));
    }
}

static bool call_enter(struct call *call)
{
    struct node *n = call->to;

    if (!n->is_up || n->is_ending) return false;
    call->request.done = on_done;
    list_node_init(&call->request.node);
    call->is_inside = true;
    list_push_back(&n->calls, &call->node);
    if (!host_post(n->host, &call->request)) {
        call->is_inside = false;
        list_remove(&call->node);
        return false;
    }
    node_wake(n);
    return true;
}

static void on_arrived(struct moment *m)
{
    struct call *call = container_of(m, struct call, moment);

    if (node_is_cut(call->to)) {
        call_set_port(call, NULL);
        call_end(call);
        return;
    }
    if (call_enter(call)) return;
    call->answer = (struct answer){.outcome = OUTCOME_REFUSED, .text = ""};
    moment_init(&call->moment, on_returned);
    moment_after(call->w, &call->moment, way_ns(call->w));
}

/* ---- on the way ---- */

static void depart(struct call *call, int64_t delay_ns)
{
    struct world *w = call->w;
    int64_t span_ns = delay_ns + way_ns(w);

    if (fault_hits(w, FAULT_KIND_REQUEST_LOST)) {
        call_set_port(call, NULL);
        call_end(call);
        return;
    }
    if (fault_hits(w, FAULT_KIND_REQUEST_DELAYED)) {
        span_ns += rng_between(&w->rng, 1, 20000) * NS_PER_MS;
    } else if (fault_hits(w, FAULT_KIND_REQUEST_REORDERED)) {
        span_ns += way_ns(w) * 8;
    }
    moment_init(&call->moment, on_arrived);
    moment_after(w, &call->moment, span_ns);
}

void network_send(struct call *call, struct node *to, int64_t delay_ns)
{
    call->to = to;
    if (fault_hits(call->w, FAULT_KIND_REQUEST_DUPLICATED)) {
        if (call->port != NULL) call->port->was_doubled = true;
        depart(call_double(call), delay_ns);
    }
    depart(call, delay_ns);
}

void port_send(struct port *port, struct call *call, struct node *to, int64_t patience_ns)
{
    assert(!port->is_waiting);
    port->is_waiting = true;
    port->was_doubled = false;
    call_set_port(call, port);
    call->exchange = port->exchange;
    if (port->wire != NULL && wire_has_rpc(port->wire, call)) {
        if (fault_hits(port->w, FAULT_KIND_CALL_CANCELLED)) {
            patience_ns = rng_between(&port->w->rng, 1, 500) * NS_PER_MS;
        }
        moment_after(port->w, &port->patience, patience_ns);
        wire_send(port->wire, call, patience_ns);
        return;
    }
    moment_after(port->w, &port->patience, patience_ns);
    network_send(call, to, 0);
}

bool network_post(struct call *call, struct node *to)
{
    call->to = to;
    call->is_private = true;
    if (call_enter(call)) return true;
    call_free(call);
    return false;
}

void network_node_gone(struct node *n)
{
    if (!list_is_empty(&n->calls)) {
        sim_fail(n->w, "S1 answer", "host_close() left a request of shard %u unanswered", n->shard);
    }
}

void network_free(struct world *w)
{
    struct list *at = NULL;

    while ((at = list_first(&w->calls)) != NULL) call_free(container_of(at, struct call, of_world));
}

/* ---- between shards ---- */

static void message_fill(struct call *call, uint32_t to, uint32_t from, const struct effect *effect)
{
    struct request *r = &call->request;

    r->message.from = from;
    r->message.to = to;
    if (effect->kind == EFFECT_ACK) {
        r->message.seq = effect->ack.seq;
        return;
    }
    call_set_key(call, effect->send.target);
    r->message.seq = effect->send.seq;
    r->message.kind = effect->send.kind;
    r->message.execution = call_copy(call, effect->send.execution);
    r->message.event = call_copy(call, effect->send.event);
}

bool network_message(void *user, uint32_t to_partition, const struct effect *effect,
                     uint32_t from_partition)
{
    struct node *n = user;
    struct world *w = n->w;
    struct node *to = w->nodes[to_partition % w->options.shards_n];

    assert(to != n);
    assert(effect->kind == EFFECT_SEND || effect->kind == EFFECT_ACK);
    if (n->is_ending || fault_hits(w, FAULT_KIND_MESSAGE_LOST)) return true;
    if (rng_below(&w->rng, 256) == 0) return false; /* its queue is full */
    struct call *call = call_make(w, effect->kind == EFFECT_ACK ? REQUEST_ACK : REQUEST_MESSAGE);
    message_fill(call, to_partition, from_partition, effect);
    call->to = to;
    call->moment.fn = on_arrived;
    if (fault_hits(w, FAULT_KIND_MESSAGE_DUPLICATED)) {
        struct call *twin = call_double(call);
        moment_after(w, &twin->moment, way_ns(w));
    }
    int64_t span_ns = way_ns(w);
    if (fault_hits(w, FAULT_KIND_MESSAGE_REORDERED)) span_ns += way_ns(w) * 8;
    moment_after(w, &call->moment, span_ns);
    return true;
}

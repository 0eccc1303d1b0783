/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's port: one work stream, opened again whenever it ends, and the pieces of work that came
 * by it.
 *
 *      WorkItem ──> HELD ──credit──> OUT ──link_answer, link_abandon──> BACK ──> SENT ──> gone
 *        │ long history ^            ^ │                                 ^ lost    │
 *        └─> FETCHING ──┘            │ └ link_fetch: FETCHING ┐          └─────────┘
 *                                    └────────────────────────┘
 *
 * The server counts by itself what is unanswered on a stream; HELD is for what is beyond the
 * credit of the moment, or came by a new stream while the work of an old one was still out. The
 * server gives work of a lost stream to somebody else after a while, but takes an answer before:
 * so answers outlive their stream.
 */
#include "lib/link_remote.h"

#include "base/clock.h"
#include "lib/memory.h"

#include <sched.h>

/* A spare piece of work does not keep more than this. */
#define SPARE_SIZE_MAX ((size_t)64 << 10)

static struct remote_work *work_at(struct list *node)
{
    return remote_work_of(container_of(node, struct link_work, node));
}

static struct remote_port *port_of(const struct remote_work *work)
{
    return remote_port_of(work->work.port);
}

static void work_move(struct remote_work *work, struct list *to, enum remote_work_state state)
{
    struct list *node = &work->work.node;

    if (list_is_linked(node)) list_remove(node);
    list_push_back(to, node);
    work->state = state;
}

/* ---- from any thread ---- */

enum status remote_attach(struct link *link, const struct link_worker *worker,
                          struct link_port **out)
{
    struct remote_port *port = memory_new(sizeof *port, offsetof(struct remote_port, own));
    struct remote_call call = {.ask = ASK_ATTACH, .port = port};

    if (port == NULL) return E_NOMEM;
    port->port = (struct link_port){.link = link, .worker = worker};
    port->remote = remote_of(link);
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        atomic_init(&port->credits[kind], worker->credits[kind]);
        list_init(&port->held[kind]);
    }
    list_init(&port->fetching);
    list_init(&port->back);
    list_init(&port->sent);
    list_init(&port->spare);
    enum status status = remote_ask(port->remote, &call);
    if (status != OK) {
        memory_free(port, sizeof *port, offsetof(struct remote_port, own));
        return status;
    }
    *out = &port->port;
    return OK;
}

void remote_credit(struct link_port *port, enum work_kind kind, uint32_t n)
{
    (void)atomic_fetch_add(&remote_port_of(port)->credits[kind], n);
    remote_ring(remote_port_of(port)->remote);
}

/* The queue may be full of calls, which pass. */
static void ask_surely(struct remote *r, struct remote_call *call)
{
    while (remote_ask(r, call) == E_LIMIT) (void)sched_yield();
}

void remote_detach(struct link_port *port)
{
    struct remote_call call = {.ask = ASK_DETACH, .port = remote_port_of(port)};

    ask_surely(remote_of(port->link), &call);
}

void remote_free_port(struct link_port *port)
{
    struct remote_port *own = remote_port_of(port);
    struct remote_call call = {.ask = ASK_FREE, .port = own};

    ask_surely(own->remote, &call);
    memory_free(own, sizeof *own, offsetof(struct remote_port, own));
}

static void hand_over(struct remote_work *work)
{
    bool is_taken = queue_push_quietly(&port_of(work)->remote->works, &work->work.node);

    assert(is_taken);
}

/* Sends the ready-made message that gives it back. */
static void give_up(struct remote_work *work)
{
    buffer_release(&work->message);
    work->path = remote_give_up_path(work->work.kind);
}

void remote_answer_work(struct link_work *work)
{
    struct remote_work *own = remote_work_of(work);

    buffer_clear(&own->message);
    remote_write_answer(own);
    if (own->message.failed) give_up(own); /* somebody else may have memory for it */
    hand_over(own);
}

void remote_abandon(struct link_work *work, bool is_unsent, const char *reason)
{
    (void)is_unsent; /* the protocol knows neither */
    (void)reason;
    give_up(remote_work_of(work));
    hand_over(remote_work_of(work));
}

void remote_fetch(struct link_work *work)
{
    remote_work_of(work)->wants_past = true;
    hand_over(remote_work_of(work));
    remote_ring(port_of(remote_work_of(work))->remote);
}

/* The server holds the lease as long as the connection lives. */
void remote_flush(struct link_port *port) { remote_ring(remote_port_of(port)->remote); }

/* ---- pieces of work ---- */

static struct remote_work *work_new(struct remote_port *port)
{
    struct list *node = list_pop_front(&port->spare);
    struct remote_work *work;

    if (node != NULL) {
        work = work_at(node);
        port->spare_n--;
        link_work_reset(&work->work);
    } else {
        work = memory_new(sizeof *work, offsetof(struct remote_work, own));
        if (work == NULL) return NULL;
        link_work_init(&work->work);
        buffer_init(&work->message, &work->work.mem);
        buffer_init(&work->past, &work->work.mem);
    }
    work->work.port = &port->port;
    work->token = work->give_up = BYTES_NONE;
    work->was_out = work->wants_past = false;
    work->due_ns = 0;
    assert(work->io == NULL);
    port->works_n++;
    return work;
}

static void work_destroy(struct remote_work *work)
{
    buffer_release(&work->message);
    buffer_release(&work->past);
    link_work_release(&work->work);
    memory_free(work, sizeof *work, offsetof(struct remote_work, own));
}

static void work_free(struct remote_work *work)
{
    struct remote_port *port = port_of(work);

    assert(work->io == NULL);
    if (list_is_linked(&work->work.node)) list_remove(&work->work.node);
    port->works_n--;
    buffer_release(&work->past);
    if (port->spare_n == REMOTE_SPARE_N_MAX || work->work.arena.size > SPARE_SIZE_MAX ||
        work->message.size > SPARE_SIZE_MAX) {
        work_destroy(work);
        return;
    }
    list_push_back(&port->spare, &work->work.node);
    port->spare_n++;
}

/* Nobody has it, and it is to be done by somebody else. */
static void work_return(struct remote_work *work)
{
    give_up(work);
    work_move(work, &port_of(work)->back, WORK_IS_BACK);
}

static void deliver(struct remote_work *work)
{
    struct remote_port *port = port_of(work);
    const struct link_worker *worker = port->port.worker;

    if (list_is_linked(&work->work.node)) list_remove(&work->work.node);
    if (!work->was_out) port->out_n[work->work.kind]++;
    work->was_out = true;
    work->state = WORK_IS_OUT;
    port->has_delivered = true;
    worker->deliver(worker->user, &work->work);
}

static void deliver_held(struct remote_port *port)
{
    struct list *node;

    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        while (port->out_n[kind] < atomic_load(&port->credits[kind]) &&
               (node = list_first(&port->held[kind])) != NULL) {
            deliver(work_at(node));
        }
    }
}

static void hold(struct remote_work *work)
{
    struct remote_port *port = port_of(work);
    enum work_kind kind = work->work.kind;

    work_move(work, &port->held[kind], WORK_IS_HELD);
    if (port->out_n[kind] < atomic_load(&port->credits[kind])) {
        deliver(work_at(list_first(&port->held[kind])));
    }
}

/* ---- past events ---- */

static void fetched(struct remote_work *work, enum status status)
{
    if (status == OK) status = remote_read_past(buffer_view(&work->past), work);
    if (work->past.failed) status = E_NOMEM;
    buffer_release(&work->past);
    if (work->was_out) {
        work->work.status = status;
        deliver(work);
    } else if (status != OK) {
        work_return(work);
    } else {
        hold(work);
    }
}

static void on_past(void *user, struct client_call *io, struct bytes message)
{
    struct remote_work *work = user;

    (void)io;
    buffer_append_bytes(&work->past, message);
}

static void on_past_end(void *user, struct client_call *io, enum grpc_code code, const char *text)
{
    struct remote_work *work = user;
    enum status status = remote_status(code);

    (void)io;
    (void)text;
    work->io = NULL;
    /* nobody holds such a turn any more */
    fetched(work, status == E_PRECONDITION ? E_NOT_FOUND : status);
}

static void fetch(struct remote_work *work)
{
    struct remote_port *port = port_of(work);
    struct remote *r = port->remote;
    enum status status = E_UNAVAILABLE;

    work->wants_past = false;
    work_move(work, &port->fetching, WORK_IS_FETCHING);
    buffer_clear(&work->message);
    remote_write_fetch(&work->message, &work->work);
    if (work->message.failed) status = E_NOMEM;
    if (r->client != NULL && !work->message.failed) {
        struct client_request request = {
            .path = "/TaskHubSidecarService/StreamInstanceHistory",
            .message = buffer_view(&work->message),
            .on_message = on_past,
            .on_end = on_past_end,
            .user = work,
        };
        status = client_begin(r->client, client_sockets_now_ns(r->sockets), &request, &work->io);
        if (status != OK) work->io = NULL;
    }
    if (status != OK) fetched(work, status == E_CLOSED ? E_UNAVAILABLE : status);
}

/* ---- the work stream ---- */

/* What nobody has begun goes back; what is out may still be answered. */
static void stream_lost(struct remote_port *port)
{
    struct remote *r = port->remote;
    struct list *node;

    port->io = NULL;
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        while ((node = list_first(&port->held[kind])) != NULL) work_return(work_at(node));
    }
    port->stream_due_ns = r->now_ns + remote_backoff_ns(r, port->stream_failed_n);
    port->stream_failed_n++;
}

static void on_item(void *user, struct client_call *io, struct bytes message)
{
    struct remote_port *port = user;
    struct remote_work *work = work_new(port);
    bool is_streamed;

    enum status status = work == NULL ? E_NOMEM : remote_read_item(message, work, &is_streamed);
    port->stream_failed_n = 0;
    if (status == OK && is_streamed) {
        fetch(work);
    } else if (status == OK) {
        hold(work);
    } else if (status == E_INVALID && work->give_up.len > 0) {
        work_return(work);
    } else {
        if (work != NULL) work_free(work);
        if (status != E_NOMEM) return; /* a health ping */
        /* The server thinks that we have it: only the end of the stream tells it otherwise. */
        client_cancel(io);
        stream_lost(port);
    }
}

static void on_stream_end(void *user, struct client_call *io, enum grpc_code code, const char *text)
{
    (void)io;
    (void)code;
    (void)text;
    stream_lost(user);
}

static void open_stream(struct remote_port *port)
{
    struct remote *r = port->remote;
    struct buffer wish;
    enum status status = E_NOMEM;

    buffer_init(&wish, &r->mem);
    remote_write_wish(&wish, port->port.worker);
    if (!wish.failed) {
        struct client_request request = {
            .path = "/TaskHubSidecarService/GetWorkItems",
            .message = buffer_view(&wish),
            .on_message = on_item,
            .on_end = on_stream_end,
            .user = port,
        };
        status = client_begin(r->client, client_sockets_now_ns(r->sockets), &request, &port->io);
    }
    buffer_release(&wish);
    if (status != OK) stream_lost(port);
}

/* ---- answers ---- */

static void on_answer_end(void *user, struct client_call *io, enum grpc_code code, const char *text)
{
    struct remote_work *work = user;
    struct remote_port *port = port_of(work);
    enum status status = remote_status(code);

    (void)io;
    (void)text;
    work->io = NULL;
    bool was_given_up = work->message.len == 0;
    if (status == E_UNAVAILABLE) {
        work->due_ns = port->remote->now_ns + REMOTE_RETRY_NS;
        work_move(work, &port->back, WORK_IS_BACK);
    } else if (status != OK && !was_given_up) {
        work_return(work); /* refused: perhaps the server still thinks that we have it */
    } else if (!was_given_up && ++work->part < work->parts_n) {
        work->due_ns = 0;
        work_move(work, &port->back, WORK_IS_BACK);
    } else {
        work_free(work);
    }
}

static struct bytes part_of(const struct remote_work *work)
{
    size_t from = work->part > 0 ? work->part_ends[work->part - 1] : 0;

    assert(work->part < work->parts_n);
    return bytes_make(work->message.ptr + from, work->part_ends[work->part] - from);
}

/* False: no more now. */
static bool send_answer(struct remote_port *port, struct remote_work *work)
{
    struct remote *r = port->remote;
    struct client_request request = {
        .path = work->path,
        .message = work->message.len > 0 ? part_of(work) : work->give_up,
        .on_end = on_answer_end,
        .user = work,
    };
    enum status status =
        client_begin(r->client, client_sockets_now_ns(r->sockets), &request, &work->io);
    if (status == OK) {
        work_move(work, &port->sent, WORK_IS_SENT);
        return true;
    }
    work->io = NULL;
    work->due_ns = r->now_ns + REMOTE_RETRY_NS;
    return false;
}

static int64_t send_answers(struct remote_port *port)
{
    struct remote *r = port->remote;
    int64_t due_ns = INT64_MAX;
    struct list *next;

    for (struct list *node = list_first(&port->back); node != NULL; node = next) {
        struct remote_work *work = work_at(node);
        next = list_next(&port->back, node);
        bool is_due = work->due_ns <= r->now_ns;
        if (is_due && send_answer(port, work)) continue;
        due_ns = remote_earlier(due_ns, work->due_ns);
        if (is_due) break;
    }
    return due_ns;
}

/* ---- the loop ---- */

void port_work_back(struct remote_work *work)
{
    struct remote_port *port = port_of(work);
    enum work_kind kind = work->work.kind;

    assert(work->state == WORK_IS_OUT);
    if (work->wants_past) {
        if (!port->is_detached) {
            fetch(work);
            return;
        }
        work->wants_past = false;
        work->work.status = E_UNAVAILABLE;
        deliver(work);
        return;
    }
    assert(port->out_n[kind] > 0);
    port->out_n[kind]--;
    if (work->work.is_credit_kept) (void)atomic_fetch_sub(&port->credits[kind], 1);
    work_move(work, &port->back, WORK_IS_BACK);
}

static void detach(struct remote_port *port)
{
    struct list *node;

    port->is_detached = true;
    if (port->io != NULL) {
        client_cancel(port->io);
        stream_lost(port);
    }
    while ((node = list_first(&port->fetching)) != NULL) {
        struct remote_work *work = work_at(node);
        client_cancel(work->io);
        work->io = NULL;
        fetched(work, E_UNAVAILABLE);
    }
    port_tell(port);
}

/* The server gives it to somebody else. */
static void drop_all(struct remote_port *port)
{
    struct list *lists[] = {&port->back, &port->sent};
    struct list *node;

    for (size_t n = 0; n < 2; n++) {
        while ((node = list_first(lists[n])) != NULL) {
            struct remote_work *work = work_at(node);
            if (work->io != NULL) client_cancel(work->io);
            work->io = NULL;
            work_free(work);
        }
    }
    assert(port->works_n == 0);
}

static void leave(struct remote_port *port)
{
    struct remote_call *call = port->leave;
    struct list *node;

    assert(port->works_n == 0);
    while ((node = list_pop_front(&port->spare)) != NULL) work_destroy(work_at(node));
    list_remove(&port->node);
    remote_answer(call, OK);
}

void port_ask(struct remote_call *call)
{
    struct remote_port *port = call->port;
    struct remote *r = port->remote;

    switch (call->ask) {
    case ASK_ATTACH:
        list_push_back(&r->ports, &port->node);
        remote_answer(call, OK);
        return;
    case ASK_DETACH:
        detach(port);
        remote_answer(call, OK);
        return;
    case ASK_FREE:
        assert(port->is_detached);
        port->leave = call;
        port->leave_by_ns = r->now_ns + REMOTE_PATIENCE_NS;
        return;
    case ASK_CALL: break;
    }
    unreachable("not a port's");
}

int64_t port_turn(struct remote_port *port)
{
    struct remote *r = port->remote;
    int64_t due_ns = INT64_MAX;
    bool is_open = r->client != NULL && !client_is_closing(r->client);

    deliver_held(port);
    if (is_open && port->io == NULL && !port->is_detached) {
        if (port->stream_due_ns <= r->now_ns) open_stream(port);
        if (port->io == NULL) due_ns = port->stream_due_ns;
    }
    if (is_open) due_ns = remote_earlier(due_ns, send_answers(port));
    port_tell(port);
    if (port->leave == NULL) return due_ns;
    if (r->client == NULL && port->leave_by_ns <= r->now_ns) drop_all(port);
    if (port->works_n == 0) {
        leave(port);
        return INT64_MAX;
    }
    return r->client == NULL ? port->leave_by_ns : due_ns;
}

void port_tell(struct remote_port *port)
{
    const struct link_worker *worker = port->port.worker;

    if (!port->has_delivered) return;
    port->has_delivered = false;
    worker->delivered(worker->user);
}

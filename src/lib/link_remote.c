/* SPDX-License-Identifier: Apache-2.0
 *
 * A server as the engine: the loop that owns the connection.
 *
 *      nobody ──connect──> connected ──lost, or the server says goodbye──┐
 *        ^  back-off 50 ms to 5 s                                        │
 *        └───────────────────────────────────────────────────────────────┘
 *
 * A call that could not be begun waits for the next connection. One that was under way when the
 * connection went is asked again when asking twice does no harm; otherwise its asker is told
 * E_UNAVAILABLE, because nobody knows whether it was done. Answers of workers are repeated until
 * the server took them: it drops what is out of date.
 */
#include "lib/link_remote.h"

#include "base/clock.h"
#include "base/random.h"
#include "lib/memory.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CONNECT_TIMEOUT_MS 1000
#define BACKOFF_FIRST_NS (50 * NS_PER_MS)
#define BACKOFF_MAX_NS (5 * NS_PER_S)
/* A peer that takes no new calls may finish the old ones for so long. */
#define GOODBYE_NS NS_PER_S
/* A connection that lasted so long was a good one: the back-off begins anew. */
#define STABLE_NS NS_PER_S
#define TURN_MS_MAX 60000
/* Calls under way of all kinds. */
#define IO_N_MAX 100000u

/* ---- from any thread ---- */

void remote_ring(struct remote *r)
{
    uint64_t one = 1;

    if (atomic_exchange(&r->is_rung, true)) return;
    ssize_t size = write(r->bell, &one, sizeof one);
    assert(size == (ssize_t)sizeof one);
}

enum status remote_ask(struct remote *r, struct remote_call *call)
{
    struct list answered;

    list_init(&answered);
    list_node_init(&call->node);
    queue_init(&call->done, 1);
    call->remote = r;
    if (!queue_push(&r->asks, &call->node)) {
        queue_release(&call->done);
        return E_LIMIT;
    }
    remote_ring(r);
    while (queue_take_all(&call->done, &answered, -1) == 0) continue;
    queue_release(&call->done);
    return call->status;
}

/* ---- the loop ---- */

int64_t remote_backoff_ns(struct remote *r, uint32_t failed_n)
{
    int64_t ns = failed_n >= 8 ? BACKOFF_MAX_NS : BACKOFF_FIRST_NS << failed_n;

    if (ns > BACKOFF_MAX_NS) ns = BACKOFF_MAX_NS;
    return ns - (int64_t)rng_below(&r->rng, (uint64_t)ns / 2);
}

enum status remote_status(enum grpc_code code)
{
    switch (code) {
    case GRPC_OK: return OK;
    case GRPC_INVALID_ARGUMENT:
    case GRPC_OUT_OF_RANGE: return E_INVALID;
    case GRPC_DEADLINE_EXCEEDED: return E_TIMEOUT;
    case GRPC_NOT_FOUND: return E_NOT_FOUND;
    case GRPC_ALREADY_EXISTS: return E_EXISTS;
    case GRPC_RESOURCE_EXHAUSTED: return E_LIMIT;
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED:
    case GRPC_FAILED_PRECONDITION: return E_PRECONDITION;
    case GRPC_UNIMPLEMENTED: return E_UNSUPPORTED;
    case GRPC_DATA_LOSS: return E_CORRUPT;
    case GRPC_UNKNOWN:
    case GRPC_INTERNAL: return E_IO;
    case GRPC_CANCELLED:
    case GRPC_ABORTED: /* something moved meanwhile */
    case GRPC_UNAVAILABLE: return E_UNAVAILABLE;
    }
    return E_IO; /* a code that the protocol does not have yet */
}

void remote_answer(struct remote_call *call, enum status status)
{
    call->status = status;
    if (list_is_linked(&call->node)) list_remove(&call->node);
    bool is_taken = queue_push(&call->done, &call->node);
    assert(is_taken); /* and from here on it may be gone */
}

static void call_finish(struct remote_call *call, enum status status, const char *text)
{
    assert(call->ask == ASK_CALL);
    assert(call->io == NULL);
    call->remote->calls_n--;
    if (status != OK) (void)snprintf(call->why, LINK_WHY_SIZE, "%s", text);
    remote_answer(call, status);
}

static void on_call_message(void *user, struct client_call *io, struct bytes message)
{
    struct remote_call *call = user;

    (void)io;
    buffer_append_bytes(&call->answer, message);
}

static void on_call_end(void *user, struct client_call *io, enum grpc_code code, const char *text)
{
    struct remote_call *call = user;
    struct remote *r = call->remote;
    enum status status = remote_status(code);

    (void)io;
    call->io = NULL;
    /* a deadline of more than a day is told in pieces */
    bool is_early = status == E_TIMEOUT && call->deadline_ns > r->now_ns;
    if ((status == E_UNAVAILABLE && call->is_repeatable) || is_early) {
        buffer_clear(&call->answer);
        call->due_ns = is_early ? 0 : r->now_ns + REMOTE_RETRY_NS;
        list_remove(&call->node);
        list_push_back(&r->calls, &call->node); /* it waits again, as long as it may */
        return;
    }
    call_finish(call, status, text);
}

/* False: this connection takes no more calls. */
static bool call_begin(struct remote *r, struct remote_call *call)
{
    int64_t left_ms = 0;

    if (call->deadline_ns != INT64_MAX) {
        left_ms = (call->deadline_ns - r->now_ns + NS_PER_MS - 1) / NS_PER_MS;
    }
    struct client_request request = {
        .path = call->path,
        .message = buffer_view(&call->request),
        .timeout_ms = left_ms,
        .on_message = on_call_message,
        .on_end = on_call_end,
        .user = call,
    };
    enum status status =
        client_begin(r->client, client_sockets_now_ns(r->sockets), &request, &call->io);
    if (status == OK) {
        call->begun_n++;
        call->patience_ns = INT64_MAX; /* counts anew when it loses its connection */
        list_remove(&call->node);
        list_push_back(&r->begun, &call->node);
        return true;
    }
    call->io = NULL;
    if (status == E_CLOSED) return false;
    call_finish(call, status, status_text(status));
    return true;
}

static void call_ask(struct remote *r, struct remote_call *call)
{
    if (r->calls_n >= REMOTE_CALLS_N_MAX) {
        remote_answer(call, E_LIMIT);
        return;
    }
    call->patience_ns = r->now_ns + REMOTE_PATIENCE_NS;
    list_push_back(&r->calls, &call->node);
    r->calls_n++;
}

static void take_works(struct remote *r)
{
    struct list works;
    struct list *node;

    list_init(&works);
    (void)queue_take_all(&r->works, &works, 0);
    while ((node = list_pop_front(&works)) != NULL) {
        port_work_back(remote_work_of(container_of(node, struct link_work, node)));
    }
}

static void take_asks(struct remote *r)
{
    struct list asks;
    struct list *node;

    list_init(&asks);
    (void)queue_take_all(&r->asks, &asks, 0);
    while ((node = list_pop_front(&asks)) != NULL) {
        struct remote_call *call = container_of(node, struct remote_call, node);
        if (call->ask == ASK_CALL) {
            call_ask(r, call);
        } else {
            take_works(r); /* what was answered or fetched before */
            port_ask(call);
        }
    }
}

/* What became of a call that is not under way. When it must be looked at again. */
static int64_t call_turn(struct remote *r, struct remote_call *call, bool *is_open)
{
    if (call->patience_ns == INT64_MAX) { /* it had a connection, and lost it */
        call->patience_ns =
            r->now_ns + (call->is_wait ? REMOTE_WAIT_PATIENCE_NS : REMOTE_PATIENCE_NS);
    }
    if (call->deadline_ns <= r->now_ns) {
        bool is_lost = r->client == NULL; /* nobody knows whether it has ended */
        call_finish(call, is_lost ? E_UNAVAILABLE : E_TIMEOUT, is_lost ? r->lost_why : "");
        return INT64_MAX;
    }
    if (call->patience_ns <= r->now_ns) {
        call_finish(call, E_UNAVAILABLE, r->lost_why);
        return INT64_MAX;
    }
    if (*is_open && call->due_ns <= r->now_ns) {
        *is_open = call_begin(r, call);
        if (*is_open) return INT64_MAX;
    }
    int64_t due_ns = *is_open ? call->due_ns : INT64_MAX;
    return remote_earlier(due_ns, remote_earlier(call->deadline_ns, call->patience_ns));
}

static int64_t calls_turn(struct remote *r)
{
    int64_t due_ns = INT64_MAX;
    bool is_open = r->client != NULL;
    struct list *next;

    for (struct list *node = list_first(&r->calls); node != NULL; node = next) {
        struct remote_call *call = container_of(node, struct remote_call, node);
        next = list_next(&r->calls, node);
        due_ns = remote_earlier(due_ns, call_turn(r, call, &is_open));
    }
    return due_ns;
}

/* The link is closed under somebody who waits. */
static void calls_drop(struct remote *r)
{
    struct list *node;

    while ((node = list_first(&r->begun)) != NULL) {
        struct remote_call *call = container_of(node, struct remote_call, node);
        client_cancel(call->io);
        call->io = NULL;
        call_finish(call, E_CLOSED, "");
    }
    while ((node = list_first(&r->calls)) != NULL) {
        call_finish(container_of(node, struct remote_call, node), E_CLOSED, "");
    }
}

static int64_t ports_turn(struct remote *r)
{
    int64_t due_ns = INT64_MAX;
    struct list *next;

    for (struct list *node = list_first(&r->ports); node != NULL; node = next) {
        next = list_next(&r->ports, node);
        due_ns = remote_earlier(due_ns, port_turn(container_of(node, struct remote_port, node)));
    }
    return due_ns;
}

/* ---- the connection ---- */

static void connect_now(struct remote *r)
{
    struct client_options options;

    client_options_init(&options, &r->mem);
    options.hub = bytes_of_text(r->hub);
    options.calls_n_max = IO_N_MAX;
    enum status status = client_sockets_connect(r->sockets, &options, r->address,
                                                CONNECT_TIMEOUT_MS, &r->client, r->lost_why);
    r->now_ns = clock_mono_ns();
    if (status == OK) {
        atomic_store(&r->is_connected, true);
        r->connected_ns = r->now_ns;
        r->goodbye_ns = 0;
        return;
    }
    r->client = NULL;
    if (r->lost_why[0] == '\0') {
        (void)snprintf(r->lost_why, sizeof r->lost_why, "%s", status_text(status));
    }
    r->connect_at_ns = r->now_ns + remote_backoff_ns(r, r->connect_failed_n);
    r->connect_failed_n++;
}

/* Its calls end with CANCELLED, which is asked again like UNAVAILABLE. */
static void disconnect(struct remote *r, const char *why)
{
    struct client *client = r->client;

    (void)snprintf(r->lost_why, sizeof r->lost_why, "%s", why);
    atomic_store(&r->is_connected, false);
    r->client = NULL;
    client_sockets_disconnect(r->sockets, client);
    if (r->now_ns - r->connected_ns > STABLE_NS) r->connect_failed_n = 0;
    r->connect_at_ns = r->now_ns + remote_backoff_ns(r, r->connect_failed_n);
    r->connect_failed_n++;
}

/* Whether the connection is still good; connects again when it is time. When to look again. */
static int64_t connection_turn(struct remote *r)
{
    if (r->client != NULL) {
        if (client_is_over(r->client)) {
            disconnect(r, "the connection to the server is lost");
        } else if (client_is_closing(r->client)) {
            if (r->goodbye_ns == 0) r->goodbye_ns = r->now_ns;
            int64_t end_ns = r->goodbye_ns + GOODBYE_NS;
            if (client_calls_n(r->client) > 0 && r->now_ns < end_ns) return end_ns;
            disconnect(r, "the server is shutting down");
        } else {
            return INT64_MAX;
        }
    }
    if (r->connect_at_ns <= r->now_ns) connect_now(r);
    return r->client != NULL ? INT64_MAX : r->connect_at_ns;
}

static void hush(struct remote *r)
{
    uint64_t n;

    /* Whoever has set is_rung may write only later: then this reads nothing, and the next turn
     * does. So it is not left out when is_rung is false. */
    (void)!read(r->bell, &n, sizeof n);
    atomic_store(&r->is_rung, false); /* what is put into a queue from now on rings again */
}

static void *loop(void *user)
{
    struct remote *r = user;

    while (!atomic_load(&r->is_closing)) {
        hush(r);
        r->now_ns = clock_mono_ns();
        take_asks(r);
        take_works(r);
        int64_t due_ns = connection_turn(r);
        due_ns = remote_earlier(due_ns, calls_turn(r));
        due_ns = remote_earlier(due_ns, ports_turn(r));
        int64_t wait_ms = due_ns <= r->now_ns ? 0 : (due_ns - r->now_ns) / NS_PER_MS + 1;
        client_sockets_turn(r->sockets, wait_ms > TURN_MS_MAX ? TURN_MS_MAX : wait_ms);
        r->now_ns = clock_mono_ns();
        for (struct list *n = list_first(&r->ports); n != NULL; n = list_next(&r->ports, n)) {
            port_tell(container_of(n, struct remote_port, node));
        }
    }
    calls_drop(r);
    return NULL;
}

/* ---- from birth to death ---- */

static void release(struct remote *r)
{
    client_sockets_close(r->sockets);
    mem_release(&r->mem);
    queue_release(&r->asks);
    queue_release(&r->works);
    if (r->bell >= 0) close(r->bell);
    memory_free(r, sizeof *r, offsetof(struct remote, own));
}

static void close_link(struct link *link)
{
    struct remote *r = remote_of(link);

    atomic_store(&r->is_closing, true);
    remote_ring(r);
    int failed = pthread_join(r->thread, NULL);
    assert(failed == 0);
    assert(list_is_empty(&r->ports));
    release(r);
}

static const struct link_ops remote_ops = {
    .name = "remote",
    .close = close_link,
    .start = remote_start,
    .start_many = link_start_each,
    .get = remote_get,
    .wait_many = link_wait_each,
    .raise = remote_raise,
    .control = remote_control,
    .history = remote_history,
    .steps = remote_steps,
    .list = remote_list,
    .attach = remote_attach,
    .credit = remote_credit,
    .detach = remote_detach,
    .free_port = remote_free_port,
    .answer = remote_answer_work,
    .abandon = remote_abandon,
    .fetch = remote_fetch,
    .renew = remote_renew,
    .flush = remote_flush,
};

static bool is_address(const char *address)
{
    const char *colon = strrchr(address, ':');

    return colon != NULL && colon != address && colon[1] != '\0' &&
           strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
           strlen(address) < REMOTE_ADDRESS_SIZE;
}

static enum status prepare(struct remote *r, const char *address, struct bytes hub)
{
    uint64_t seed;

    r->link.ops = &remote_ops;
    r->link.has_event_bases = true;
    (void)snprintf(r->address, sizeof r->address, "%s", address);
    if (hub.len > 0) memcpy(r->hub, hub.ptr, hub.len);
    random_fill(&seed, sizeof seed);
    rng_init(&r->rng, seed);
    memory_init(&r->mem);
    queue_init(&r->asks, REMOTE_CALLS_N_MAX);
    queue_init(&r->works, SIZE_MAX);
    list_init(&r->calls);
    list_init(&r->begun);
    list_init(&r->ports);
    r->now_ns = clock_mono_ns();
    r->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (r->bell < 0) return E_IO;
    enum status status = client_sockets_open(&r->mem, 1, &r->sockets);
    if (status == OK) client_sockets_watch(r->sockets, r->bell);
    return status;
}

enum status link_remote_open(const char *address, struct bytes hub, struct link **out)
{
    if (!is_address(address) || hub.len > LIMIT_HUB_SIZE) return E_INVALID;
    struct remote *r = memory_new(sizeof *r, offsetof(struct remote, own));
    if (r == NULL) return E_NOMEM;
    enum status status = prepare(r, address, hub);
    if (status == OK && pthread_create(&r->thread, NULL, loop, r) != 0) status = E_NOMEM;
    if (status != OK) {
        release(r);
        return status;
    }
    *out = &r->link;
    return OK;
}

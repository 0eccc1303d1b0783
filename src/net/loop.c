/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop over libuv. One turn:
 *
 *      timers ── flush ── wait for sockets and the bell, read, accept ── due timers ── flush
 *
 * A socket that may have something to send is put on the list of dirty ones, and each is written
 * once a turn: everything its connection has, gathered in one buffer that all sockets share, in one
 * system call. Only what the kernel does not take is copied to the socket's own buffer.
 *
 * Time-outs are looked at after the reading, never before: a process that was stopped for a minute
 * must see what has come meanwhile before it calls its peers silent.
 *
 * libuv keeps its own small memory with malloc: handles are ours, its tables are not counted.
 */
#include "net/loop.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/date.h"
#include "net/listen.h"
#include "net/pool.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <uv.h>

#define READ_SIZE (64 * 1024)
#define PULL_SIZE (128 * 1024)
#define PULLS_PER_TURN 8            /* then the other sockets have their turn */
#define OUT_KEPT_SIZE (1024 * 1024) /* of the shared buffer */
#define POOL_SIZE (1024 * 1024)
#define LISTENERS_N_MAX 16
#define LISTEN_BACKLOG 1024
#define USER_TIMEOUT_MS 30000 /* TCP: unacknowledged bytes end the connection */
#define SIGNALS_N 4
#define LINGER_MS 1000
#define TLS_TELL_NS (60 * NS_PER_S)
#define LINGER_SIZE (4 * 1024 * 1024)

/* Something that is due at a time: a connection's time-out, or a timer of the loop's user. */
struct due {
    struct heap_node node;
    struct peer *peer; /* or NULL: then it is a timer */
};

struct loop_timer {
    struct due due;
    struct loop *loop;
    loop_timer_fn *fn;
    void *user;
};

struct peer {
    uv_tcp_t tcp; /* its data is this */
    struct loop *loop;
    struct conn *conn; /* NULL when it is over: lingering or closed */
    struct list link;  /* loop->peers */
    struct list dirty; /* loop->dirty */
    struct due due;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct buffer unwritten; /* what uv_write() works on */
    size_t unwritten_told;   /* of it, not yet told by conn_sent() */
    bool is_writing;
    bool is_reading;
    bool is_input_over;    /* the peer has ended its side */
    bool is_closed;        /* libuv has its handle and will give it back */
    size_t discarded_size; /* while it lingers */
};

struct listener {
    uv_tcp_t tcp; /* its data is this */
    struct loop *loop;
    bool is_stuck; /* a newcomer could not be taken: libuv tells of no other before it is */
};

struct loop {
    struct loop_options options;
    uv_loop_t uv;
    uv_async_t bell;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t again; /* keeps the loop from waiting when something is left for the next turn */
    uv_timer_t timer;
    uv_signal_t signals[SIGNALS_N];
    struct listener listeners[LISTENERS_N_MAX];
    size_t listeners_n;
    char address[LISTEN_ADDRESS_SIZE];

    struct pool pool;
    struct net_counters counters;
    struct list peers;
    struct list dirty;
    struct heap dues;
    uint64_t order;
    uint32_t peers_n;
    uint32_t closing_n; /* peers whose handle libuv still has */
    int64_t now_ns;
    char date[DATE_SIZE]; /* see conn.h */
    int64_t date_until_ns;
    size_t unfinished_size; /* see conn.h */
    uint64_t tls_told_n;    /* of counters.tls_refused */
    int64_t tls_told_ns;
    int64_t timer_ns; /* what the uv timer is set to; INT64_MAX = nothing */
    struct buffer out;
    uint8_t *in;
    unsigned stop_signals_n;
    bool is_draining;
    void (*drained)(void *user);
};

/* ---- time ---- */

int64_t loop_now_ns(const struct loop *l) { return l->now_ns; }

/* And keeps the date right that answers carry. */
static void look_at_clock(struct loop *l)
{
    l->now_ns = clock_mono_ns();
    if (l->now_ns < l->date_until_ns) return;
    int64_t wall_ns = clock_wall_ns();
    date_format(wall_ns / NS_PER_S, l->date);
    l->date_until_ns = l->now_ns + NS_PER_S - wall_ns % NS_PER_S;
}

static void due_set(struct loop *l, struct due *due, int64_t at_ns)
{
    if (due->node.is_linked) heap_remove(&l->dues, &due->node);
    if (at_ns == INT64_MAX) return;
    due->node.key = at_ns;
    due->node.order = ++l->order;
    heap_push(&l->dues, &due->node);
}

/* Only makes the loop turn; what is due is done after the reading. */
static void on_timer(uv_timer_t *timer) { ((struct loop *)timer->data)->timer_ns = INT64_MAX; }

static void set_uv_timer(struct loop *l)
{
    const struct heap_node *first = heap_min(&l->dues);
    int64_t at_ns = first == NULL ? INT64_MAX : first->key;

    if (at_ns >= l->timer_ns && l->timer_ns != INT64_MAX && l->timer_ns > l->now_ns) return;
    if (at_ns == INT64_MAX) {
        uv_timer_stop(&l->timer);
        l->timer_ns = INT64_MAX;
        return;
    }
    int64_t after_ns = at_ns > l->now_ns ? at_ns - l->now_ns : 0;
    uv_update_time(&l->uv);
    uv_timer_start(&l->timer, on_timer, (uint64_t)((after_ns + NS_PER_MS - 1) / NS_PER_MS), 0);
    l->timer_ns = at_ns;
}

enum status loop_timer_new(struct loop *l, loop_timer_fn *fn, void *user, struct loop_timer **out)
{
    struct loop_timer *t = mem_take_zero(l->options.mem, sizeof *t);

    if (t == NULL) return E_NOMEM;
    t->loop = l;
    t->fn = fn;
    t->user = user;
    heap_node_init(&t->due.node);
    *out = t;
    return OK;
}

void loop_timer_set(struct loop_timer *t, int64_t after_ms)
{
    int64_t after_ns;

    if (__builtin_mul_overflow(after_ms, NS_PER_MS, &after_ns)) after_ns = INT64_MAX / 2;
    due_set(t->loop, &t->due,
            clock_mono_ns() + (after_ns < INT64_MAX / 2 ? after_ns : INT64_MAX / 2));
}

void loop_timer_clear(struct loop_timer *t) { due_set(t->loop, &t->due, INT64_MAX); }

void loop_timer_free(struct loop_timer *t)
{
    if (t == NULL) return;
    loop_timer_clear(t);
    mem_give(t->loop->options.mem, t, sizeof *t);
}

/* ---- the end of a peer ---- */

static void start_reading(struct peer *p);

static void stop_reading(struct peer *p)
{
    uv_read_stop((uv_stream_t *)&p->tcp);
    p->is_reading = false;
}

static void check_drained(struct loop *l)
{
    if (!l->is_draining || l->peers_n > 0 || l->drained == NULL) return;
    void (*drained)(void *user) = l->drained;
    l->drained = NULL;
    drained(l->options.user);
}

static void on_peer_closed(uv_handle_t *handle)
{
    struct peer *p = handle->data;
    struct loop *l = p->loop;

    buffer_release(&p->unwritten);
    mem_give(l->options.mem, p, sizeof *p);
    l->closing_n--;
}

static void drop_conn(struct peer *p)
{
    struct conn *conn = p->conn;

    if (conn == NULL) return;
    p->conn = NULL;
    conn_on_wake(conn, NULL, NULL);
    if (list_is_linked(&p->dirty)) list_remove(&p->dirty);
    conn_free(conn, p->loop->now_ns);
}

static void close_peer(struct peer *p)
{
    struct loop *l = p->loop;

    if (p->is_closed) return;
    p->is_closed = true;
    drop_conn(p);
    due_set(l, &p->due, INT64_MAX);
    list_remove(&p->link);
    l->peers_n--;
    l->closing_n++;
    uv_close((uv_handle_t *)&p->tcp, on_peer_closed);
}

/* Closing while the peer still sends would make its kernel throw away our last words: we end our
 * side, and read and forget for a moment until the peer has ended its own. */
static void linger(struct peer *p)
{
    if (p->is_input_over) {
        close_peer(p);
        return;
    }
    drop_conn(p);
    p->shutdown.data = p;
    if (uv_shutdown(&p->shutdown, (uv_stream_t *)&p->tcp, NULL) != 0) {
        close_peer(p);
        return;
    }
    if (!p->is_reading) start_reading(p);
    due_set(p->loop, &p->due, p->loop->now_ns + LINGER_MS * NS_PER_MS);
}

/* ---- writing ---- */

static void make_dirty(struct peer *p)
{
    if (p->conn != NULL && !list_is_linked(&p->dirty)) list_push_back(&p->loop->dirty, &p->dirty);
}

static void on_wake(void *user, struct conn *c)
{
    (void)c;
    make_dirty(user);
}

/* libuv tells when all is written; what it has left tells how far it is. */
static void tell_sent(struct peer *p)
{
    if (!p->is_writing || p->conn == NULL) return;
    size_t left = uv_stream_get_write_queue_size((uv_stream_t *)&p->tcp);
    if (left >= p->unwritten_told) return;
    conn_sent(p->conn, p->loop->now_ns, p->unwritten_told - left);
    p->unwritten_told = left;
}

static void on_written(uv_write_t *write, int error)
{
    struct peer *p = write->data;

    p->is_writing = false;
    if (p->conn == NULL) return;
    look_at_clock(p->loop);
    if (error != 0) {
        close_peer(p);
        return;
    }
    conn_sent(p->conn, p->loop->now_ns, p->unwritten_told);
    p->unwritten_told = 0;
    if (p->unwritten.size > PULL_SIZE)
        buffer_release(&p->unwritten);
    else
        buffer_clear(&p->unwritten);
    make_dirty(p);
}

/* False: the peer is gone. */
static bool write_later(struct peer *p, struct bytes rest)
{
    buffer_append_bytes(&p->unwritten, rest);
    if (p->unwritten.failed) return false;
    uv_buf_t buf = uv_buf_init((char *)p->unwritten.ptr, (unsigned)p->unwritten.len);
    p->write.data = p;
    if (uv_write(&p->write, (uv_stream_t *)&p->tcp, &buf, 1, on_written) != 0) return false;
    p->is_writing = true;
    p->unwritten_told = rest.len;
    return true;
}

static bool write_now(struct peer *p, struct bytes bytes)
{
    struct loop *l = p->loop;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes.ptr, (unsigned)bytes.len);
    int written = uv_try_write((uv_stream_t *)&p->tcp, &buf, 1);

    if (written == UV_EAGAIN) written = 0;
    if (written < 0) return false;
    conn_sent(p->conn, l->now_ns, (size_t)written);
    if ((size_t)written == bytes.len) return true;
    return write_later(p, bytes_make(bytes.ptr + written, bytes.len - (size_t)written));
}

/* True when there is still something to write that the kernel would take. */
static bool flush_peer(struct peer *p)
{
    struct loop *l = p->loop;

    if (conn_is_dead(p->conn)) {
        close_peer(p);
        return false;
    }
    for (int i = 0; i < PULLS_PER_TURN && !p->is_writing; i++) {
        buffer_clear(&l->out);
        bool is_something = conn_pull(p->conn, l->now_ns, &l->out, PULL_SIZE);
        if (l->out.failed || (is_something && !write_now(p, buffer_view(&l->out)))) {
            close_peer(p);
            return false;
        }
        if (!is_something) {
            if (conn_is_over(p->conn)) linger(p);
            return false;
        }
    }
    return !p->is_writing;
}

/* After everything that may have changed what the connection waits for. */
static void settle(struct peer *p)
{
    struct loop *l = p->loop;

    if (p->conn == NULL) return;
    tell_sent(p);
    int64_t next_ns = conn_tick(p->conn, l->now_ns);
    /* A later time is left until the present one comes: most requests move it only a little. */
    if (!p->due.node.is_linked || next_ns < p->due.node.key || p->due.node.key <= l->now_ns)
        due_set(l, &p->due, next_ns);
    bool wants_read = conn_wants_read(p->conn);
    if (wants_read && !p->is_reading) start_reading(p);
    if (!wants_read && p->is_reading) stop_reading(p);
}

static void on_again(uv_idle_t *idle) { (void)idle; }

static void flush(struct loop *l)
{
    struct list work;
    struct list *node;

    list_init(&work);
    list_splice_back(&work, &l->dirty);
    while ((node = list_pop_front(&work)) != NULL) {
        struct peer *p = container_of(node, struct peer, dirty);
        bool has_more = flush_peer(p);
        settle(p);
        if (has_more) make_dirty(p);
    }
    if (l->out.size > OUT_KEPT_SIZE) buffer_release(&l->out);
    if (list_is_empty(&l->dirty))
        uv_idle_stop(&l->again);
    else
        uv_idle_start(&l->again, on_again);
    check_drained(l);
}

static void run_dues(struct loop *l)
{
    struct heap_node *node;

    while ((node = heap_min(&l->dues)) != NULL && node->key <= l->now_ns) {
        struct due *due = container_of(node, struct due, node);
        heap_remove(&l->dues, node);
        if (due->peer != NULL && due->peer->conn != NULL) {
            settle(due->peer);
        } else if (due->peer != NULL) {
            close_peer(due->peer);
        } else {
            struct loop_timer *t = container_of(due, struct loop_timer, due);
            t->fn(t->user);
        }
    }
}

static void tell_turned(const struct loop *l)
{
    if (l->options.turned != NULL) l->options.turned(l->options.user);
}

/* Before the waiting: what the timers and the last turn have left. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct loop *l = prepare->data;

    look_at_clock(l);
    flush(l);
    tell_turned(l);
    set_uv_timer(l);
}

/* A client that is set to TLS tries again and again: its owner needs one line, not thousands. */
static void tell_tls(struct loop *l)
{
    uint64_t n = l->counters.tls_refused;

    if (n == l->tls_told_n) return;
    if (l->tls_told_n > 0 && l->now_ns - l->tls_told_ns < TLS_TELL_NS) return;
    log_warn("a client speaks TLS, and this server does not yet: connect without it (%llu such "
             "connections so far)",
             (unsigned long long)n);
    l->tls_told_n = n;
    l->tls_told_ns = l->now_ns;
}

static void unstick_listeners(struct loop *l);

static void on_check(uv_check_t *check)
{
    struct loop *l = check->data;

    look_at_clock(l);
    run_dues(l);
    unstick_listeners(l);
    tell_turned(l); /* they can begin while we write */
    flush(l);
    tell_tls(l);
}

/* ---- reading ---- */

static void on_room(uv_handle_t *handle, size_t wish, uv_buf_t *buf)
{
    struct peer *p = handle->data;

    (void)wish;
    *buf = uv_buf_init((char *)p->loop->in, READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct peer *p = stream->data;

    if (p->is_closed || n == 0) return;
    look_at_clock(p->loop);
    const int64_t now_ns = p->loop->now_ns;
    if (n < 0) {
        p->is_reading = false; /* libuv has stopped it */
        p->is_input_over = n == UV_EOF && p->conn != NULL && conn_end_input(p->conn, now_ns);
        if (!p->is_input_over) close_peer(p);
        return;
    }
    if (p->conn == NULL) {
        p->discarded_size += (size_t)n;
        if (p->discarded_size > LINGER_SIZE) close_peer(p);
        return;
    }
    (void)conn_feed(p->conn, now_ns, bytes_make(buf->base, (size_t)n));
    /* libuv would read on, up to 32 times. */
    if (!conn_wants_read(p->conn)) stop_reading(p);
    make_dirty(p);
}

static void start_reading(struct peer *p)
{
    p->is_reading = uv_read_start((uv_stream_t *)&p->tcp, on_room, on_read) == 0;
}

/* ---- accepting ---- */

static void set_socket_options(struct peer *p)
{
    uv_os_fd_t fd;
    unsigned timeout_ms = USER_TIMEOUT_MS;

    uv_tcp_nodelay(&p->tcp, 1);
    if (uv_fileno((uv_handle_t *)&p->tcp, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

/* Its address into text, of LISTEN_ADDRESS_SIZE; whether it is on this machine. */
static bool look_at_peer(const struct peer *p, char *text)
{
    struct sockaddr_storage address;
    int size = sizeof address;

    text[0] = '\0';
    if (uv_tcp_getpeername(&p->tcp, (struct sockaddr *)&address, &size) != 0) return false;
    listen_text(&address, text);
    return listen_is_local(&address);
}

/* The handle is open: from here on it can only be given back by closing it. */
static struct peer *peer_new(struct loop *l)
{
    struct peer *p = mem_take_zero(l->options.mem, sizeof *p);

    if (p == NULL) return NULL;
    if (uv_tcp_init(&l->uv, &p->tcp) != 0) {
        mem_give(l->options.mem, p, sizeof *p);
        return NULL;
    }
    p->tcp.data = p;
    p->loop = l;
    p->due.peer = p;
    heap_node_init(&p->due.node);
    buffer_init(&p->unwritten, l->options.mem);
    return p;
}

static bool open_conn(struct peer *p)
{
    struct loop *l = p->loop;
    char address[LISTEN_ADDRESS_SIZE];
    bool is_local = look_at_peer(p, address);
    const struct conn_options options = {.mem = l->options.mem,
                                         .limits = l->options.limits,
                                         .counters = &l->counters,
                                         .grpc = l->options.grpc,
                                         .http = l->options.http,
                                         .pool = &l->pool,
                                         .unfinished_size = &l->unfinished_size,
                                         .date = l->date,
                                         .is_trusted = is_local,
                                         .peer = address};

    if (l->peers_n >= l->options.connections_n_max || l->is_draining) return false;
    return conn_new(&options, l->now_ns, &p->conn) == OK;
}

static void on_connection(uv_stream_t *server, int error)
{
    struct listener *listener = server->data;
    struct loop *l = listener->loop;

    look_at_clock(l);
    listener->is_stuck = false;
    if (error != 0) {
        l->counters.connections_refused++;
        return;
    }
    struct peer *p = peer_new(l);
    if (p == NULL) {
        listener->is_stuck = true; /* tried again when something has changed */
        return;
    }
    if (uv_accept(server, (uv_stream_t *)&p->tcp) != 0 || !open_conn(p)) {
        l->counters.connections_refused++;
        l->closing_n++;
        uv_close((uv_handle_t *)&p->tcp, on_peer_closed);
        return;
    }
    set_socket_options(p);
    conn_on_wake(p->conn, on_wake, p);
    list_push_back(&l->peers, &p->link);
    l->peers_n++;
    start_reading(p);
    make_dirty(p);
}

static void unstick_listeners(struct loop *l)
{
    for (size_t i = 0; i < l->listeners_n; i++) {
        struct listener *listener = &l->listeners[i];
        if (listener->is_stuck) on_connection((uv_stream_t *)&listener->tcp, 0);
    }
}

/* ---- listening ---- */

/* A handle that libuv keeps until the loop is freed, used or not. NULL: no more, E_LIMIT. */
static struct listener *listener_new(struct loop *l)
{
    if (l->listeners_n == LISTENERS_N_MAX || l->is_draining) return NULL;
    struct listener *listener = &l->listeners[l->listeners_n];
    if (uv_tcp_init(&l->uv, &listener->tcp) != 0) return NULL;
    l->listeners_n++;
    listener->loop = l;
    listener->tcp.data = listener;
    return listener;
}

/* The port it really has; the first listener's address is what we tell. */
static unsigned note_address(struct loop *l, struct listener *listener)
{
    struct sockaddr_storage address = {0};
    int size = sizeof address;

    if (uv_tcp_getsockname(&listener->tcp, (struct sockaddr *)&address, &size) != 0) return 0;
    if (l->address[0] == 0) listen_text(&address, l->address);
    return listen_port(&address);
}

static int listen_at(struct loop *l, struct sockaddr_storage *address)
{
    struct listener *listener = listener_new(l);
    unsigned flags = address->ss_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0;

    if (listener == NULL) return UV_ENOMEM;
    int error = uv_tcp_bind(&listener->tcp, (const struct sockaddr *)address, flags);
    if (error == 0) error = uv_listen((uv_stream_t *)&listener->tcp, LISTEN_BACKLOG, on_connection);
    if (error != 0) return error;
    listen_set_port(address, note_address(l, listener));
    return 0;
}

enum status loop_listen(struct loop *l, const char *address, char *text)
{
    struct sockaddr_storage addresses[LISTEN_ADDRESSES_N_MAX];
    size_t n = 0;
    size_t open_n = 0;
    int error = 0;

    enum status status = listen_resolve(address, addresses, &n, text);
    if (status != OK) return status;
    for (size_t i = 0; i < n; i++) {
        /* "localhost" is two addresses: both on the same port. */
        if (i > 0) listen_set_port(&addresses[i], listen_port(&addresses[0]));
        int one = listen_at(l, &addresses[i]);
        /* A machine without IPv6 still has a localhost. */
        bool is_missing = one == UV_EADDRNOTAVAIL || one == UV_EAFNOSUPPORT;
        if (one == 0)
            open_n++;
        else if (error == 0 || !is_missing)
            error = one;
        if (one != 0 && !is_missing) break;
    }
    bool is_missing = error == UV_EADDRNOTAVAIL || error == UV_EAFNOSUPPORT;
    if (error == 0 || (is_missing && open_n > 0)) return OK;
    snprintf(text, LISTEN_TEXT_SIZE, "cannot listen on %.100s: %s", address, uv_strerror(error));
    return error == UV_EADDRINUSE ? E_BUSY : E_IO;
}

enum status loop_listen_fd(struct loop *l, int fd)
{
    struct listener *listener = listener_new(l);

    if (listener == NULL) return E_NOMEM;
    if (uv_tcp_open(&listener->tcp, fd) != 0) return E_IO;
    if (uv_listen((uv_stream_t *)&listener->tcp, LISTEN_BACKLOG, on_connection) != 0) return E_IO;
    (void)note_address(l, listener);
    return OK;
}

const char *loop_address(const struct loop *l) { return l->address; }

/* ---- signals ---- */

static void on_signal(uv_signal_t *handle, int number)
{
    struct loop *l = handle->data;
    const struct loop_options *options = &l->options;

    look_at_clock(l);
    if (number == SIGHUP)
        options->reload_signal(options->user);
    else if (number == SIGUSR1)
        options->dump_signal(options->user);
    else
        options->stop_signal(options->user, number, ++l->stop_signals_n);
}

static bool watch_signals(struct loop *l)
{
    const struct loop_options *options = &l->options;
    const struct {
        int number;
        bool is_wanted;
    } signals[SIGNALS_N] = {{SIGTERM, options->stop_signal != NULL},
                            {SIGINT, options->stop_signal != NULL},
                            {SIGHUP, options->reload_signal != NULL},
                            {SIGUSR1, options->dump_signal != NULL}};

    for (size_t i = 0; i < SIGNALS_N; i++) {
        if (uv_signal_init(&l->uv, &l->signals[i]) != 0) return false;
        l->signals[i].data = l;
        if (!signals[i].is_wanted) continue;
        if (uv_signal_start(&l->signals[i], on_signal, signals[i].number) != 0) return false;
    }
    return true;
}

/* ---- the loop ---- */

static void on_bell(uv_async_t *bell)
{
    struct loop *l = bell->data;

    look_at_clock(l);
    if (l->options.bell != NULL) l->options.bell(l->options.user);
}

static bool init_handles(struct loop *l)
{
    l->bell.data = l->prepare.data = l->check.data = l->again.data = l->timer.data = l;
    return uv_async_init(&l->uv, &l->bell, on_bell) == 0 &&
           uv_prepare_init(&l->uv, &l->prepare) == 0 && uv_check_init(&l->uv, &l->check) == 0 &&
           uv_idle_init(&l->uv, &l->again) == 0 && uv_timer_init(&l->uv, &l->timer) == 0 &&
           uv_prepare_start(&l->prepare, on_prepare) == 0 &&
           uv_check_start(&l->check, on_check) == 0 && watch_signals(l);
}

static void close_handle(uv_handle_t *handle, void *user)
{
    (void)user;
    if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

enum status loop_new(const struct loop_options *options, struct loop **out)
{
    struct loop *l = mem_take_zero(options->mem, sizeof *l);
    uint8_t *in = mem_take(options->mem, READ_SIZE);

    if (l == NULL || in == NULL || uv_loop_init(&l->uv) != 0) {
        mem_give(options->mem, in, READ_SIZE);
        mem_give(options->mem, l, sizeof *l);
        return E_NOMEM;
    }
    /* A peer that is gone is an error of the write, not a signal to the process. */
    (void)signal(SIGPIPE, SIG_IGN);
    l->options = *options;
    l->in = in;
    l->timer_ns = INT64_MAX;
    pool_init(&l->pool, options->mem, POOL_SIZE);
    buffer_init(&l->out, options->mem);
    list_init(&l->peers);
    list_init(&l->dirty);
    heap_init(&l->dues);
    look_at_clock(l);
    if (!init_handles(l)) {
        loop_free(l);
        return E_IO;
    }
    *out = l;
    return OK;
}

void loop_free(struct loop *l)
{
    if (l == NULL) return;
    struct mem *mem = l->options.mem;
    struct list *node;

    look_at_clock(l);
    l->drained = NULL;
    while ((node = list_first(&l->peers)) != NULL)
        close_peer(container_of(node, struct peer, link));
    uv_walk(&l->uv, close_handle, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT); /* ends when every handle is closed */
    assert(l->closing_n == 0);
    int error = uv_loop_close(&l->uv);
    assert(error == 0);
    pool_release(&l->pool);
    buffer_release(&l->out);
    mem_give(mem, l->in, READ_SIZE);
    mem_give(mem, l, sizeof *l);
}

void loop_run(struct loop *l) { (void)uv_run(&l->uv, UV_RUN_DEFAULT); }

void loop_stop(struct loop *l) { uv_stop(&l->uv); }

void loop_ring(struct loop *l) { (void)uv_async_send(&l->bell); }

void loop_drain(struct loop *l, void (*drained)(void *user))
{
    l->is_draining = true;
    l->drained = drained;
    look_at_clock(l);
    for (size_t i = 0; i < l->listeners_n; i++) {
        uv_handle_t *handle = (uv_handle_t *)&l->listeners[i].tcp;
        if (!uv_is_closing(handle)) uv_close(handle, NULL);
        l->listeners[i].is_stuck = false;
    }
    struct list *node = list_first(&l->peers);
    while (node != NULL) {
        struct peer *p = container_of(node, struct peer, link);
        node = list_next(&l->peers, node);
        if (p->conn == NULL) continue;
        conn_drain(p->conn, l->now_ns);
        make_dirty(p);
    }
    uv_idle_start(&l->again, on_again); /* a turn follows, in which `drained` may be called */
}

uint32_t loop_connections_n(const struct loop *l) { return l->peers_n; }

const struct net_counters *loop_counters(const struct loop *l) { return &l->counters; }

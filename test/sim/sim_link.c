/* SPDX-License-Identifier: Apache-2.0
 *
 * See sim_link.h. Everything happens in moments of the link's own: nothing is fed or pulled from
 * inside a callback of the other end.
 */
#include "test/sim/sim_link.h"

#include "base/assert.h"
#include "base/mem.h"
#include "net/conn.h"
#include "test/sim/sim_front.h"

#define PIPE_SIZE ((size_t)64 << 10) /* what the kernels of both machines keep */
#define SOON_NS INT64_C(1000)
#define TOLD_MS_MAX 5000
#define UNACKED_NS (900 * NS_PER_S) /* TCP gives up: what was sent is not acknowledged */

struct pipe {
    struct buffer bytes;
    size_t at; /* what was delivered is before it */
    struct moment moment;
    int64_t stalled_until_ns;
};

struct link {
    struct world *w;
    struct list of_world;
    struct list of_front;
    struct client *client; /* NULL: that end is gone */
    struct conn *conn;     /* likewise */
    link_lost_fn *lost;
    void *user;
    struct pipe up;
    struct pipe down;
    struct moment client_io;
    struct moment server_io;
    struct moment client_told; /* that the other end is gone, or the way is broken */
    struct moment server_told;
    bool is_broken;   /* nothing passes any more */
    bool has_ended;   /* the server has said all: the client's end follows when it has read that */
    bool is_inside;   /* the client's callbacks run */
    bool is_unwanted; /* link_close() came from inside of one */
};

int64_t link_now_ns(const struct world *w) { return w->now_ns + NS_PER_S; }

static int64_t way_ns(struct world *w)
{
    return chance_span(&w->rng, w->options.network_us) * 1000;
}

/* ---- pipes ---- */

static size_t pipe_len(const struct pipe *p) { return p->bytes.len - p->at; }
static size_t pipe_room(const struct pipe *p)
{
    return pipe_len(p) >= PIPE_SIZE ? 0 : PIPE_SIZE - pipe_len(p);
}

static void pipe_take(struct pipe *p, size_t size)
{
    p->at += size;
    if (p->at < p->bytes.len) return;
    buffer_clear(&p->bytes);
    p->at = 0;
}

/* Something is in it, or was taken out and more is left. */
static void pipe_run(struct link *l, struct pipe *p, bool is_first)
{
    struct world *w = l->w;

    if (l->is_broken || moment_is_set(&p->moment)) return;
    /* pieces of one flight come close together */
    moment_after(w, &p->moment, is_first ? way_ns(w) : rng_between(&w->rng, 1, 20) * 1000);
}

/* The next piece; its size is 0 when nothing passes now. */
static struct bytes pipe_piece(struct link *l, struct pipe *p)
{
    struct world *w = l->w;
    size_t size = 1 + (size_t)rng_below(&w->rng, w->options.piece_size_max);

    if (p->stalled_until_ns <= w->now_ns && fault_hits(w, FAULT_KIND_LINK_STALLED)) {
        p->stalled_until_ns = w->now_ns + rng_between(&w->rng, 1, 20000) * NS_PER_MS;
    }
    if (p->stalled_until_ns > w->now_ns) {
        moment_after(w, &p->moment, p->stalled_until_ns - w->now_ns);
        return BYTES_NONE;
    }
    if (size > pipe_len(p)) size = pipe_len(p);
    return bytes_make(p->bytes.ptr + p->at, size);
}

/* ---- ends ---- */

static void link_settle(struct link *l)
{
    struct world *w = l->w;

    if (l->client != NULL || l->conn != NULL || l->is_inside) return;
    struct moment *moments[] = {&l->up.moment, &l->down.moment, &l->client_io,
                                &l->server_io, &l->client_told, &l->server_told};
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) moment_cancel(w, moments[i]);
    buffer_release(&l->up.bytes);
    buffer_release(&l->down.bytes);
    list_remove(&l->of_world);
    mem_give(mem_process(), l, sizeof *l);
}

/* One end is gone or broken: when the other one hears of it. */
static void tell(struct link *l, struct moment *m)
{
    struct world *w = l->w;

    if (moment_is_set(m) || fault_hits(w, FAULT_KIND_LINK_HALF_OPEN)) return;
    int64_t late_ms = fault_hits(w, FAULT_KIND_LINK_TOLD_LATE) ? TOLD_MS_MAX : 0;
    moment_after(w, m, way_ns(w) + rng_between(&w->rng, 0, late_ms) * NS_PER_MS);
}

/* An end that has never heard of it writes to a broken connection. */
static void write_in_vain(struct link *l, struct moment *m)
{
    if (l->is_broken && !moment_is_set(m)) moment_after(l->w, m, UNACKED_NS);
}

/* Its calls end, and it is freed. */
static void client_gone(struct link *l, const char *why)
{
    struct client *client = l->client;

    assert(!l->is_inside);
    l->is_inside = true;
    client_lose(client, why);
    link_lost_fn *lost = l->lost; /* a callback may have closed it */
    l->client = NULL;
    client_free(client);
    l->lost = NULL;
    if (lost != NULL) lost(l->user);
    l->is_inside = false;
    moment_cancel(l->w, &l->client_io);
    moment_cancel(l->w, &l->down.moment);
    if (l->conn != NULL && !l->is_broken) tell(l, &l->server_told);
    link_settle(l);
}

static void server_gone(struct link *l)
{
    struct conn *conn = l->conn;

    front_set_now(l->w->front);
    l->conn = NULL;
    front_forget(l->w->front, &l->of_front);
    moment_cancel(l->w, &l->server_io);
    moment_cancel(l->w, &l->up.moment);
    conn_free(conn, link_now_ns(l->w));
    front_touch(l->w->front);
}

/* All was sent: the client reads it, and then the end. */
static void server_closes(struct link *l)
{
    server_gone(l);
    l->has_ended = true;
    if (l->client != NULL) pipe_run(l, &l->down, true);
    link_settle(l);
}

void link_server_gone(struct link *l)
{
    server_gone(l);
    if (l->client != NULL && !l->is_broken) {
        l->is_broken = true; /* what was on its way may be lost, too */
        moment_cancel(l->w, &l->down.moment);
        tell(l, &l->client_told);
    }
    link_settle(l);
}

static void on_client_told(struct moment *m)
{
    struct link *l = container_of(m, struct link, client_told);

    if (l->client != NULL) client_gone(l, "connection reset by peer");
}

static void on_server_told(struct moment *m)
{
    struct link *l = container_of(m, struct link, server_told);

    if (l->conn == NULL) return;
    server_gone(l);
    link_settle(l);
}

static void link_break(struct link *l)
{
    l->is_broken = true;
    moment_cancel(l->w, &l->up.moment);
    moment_cancel(l->w, &l->down.moment);
    tell(l, &l->client_told);
    tell(l, &l->server_told);
}

/* ---- the client's end ---- */

static void wake_client(struct link *l)
{
    if (l->client == NULL) return;
    if (moment_is_set(&l->client_io) && l->client_io.node.key <= l->w->now_ns + SOON_NS) return;
    moment_after(l->w, &l->client_io, SOON_NS);
}

static void on_client_io(struct moment *m)
{
    struct link *l = container_of(m, struct link, client_io);
    struct world *w = l->w;
    int64_t now_ns = link_now_ns(w);

    if (l->is_unwanted) {
        client_gone(l, "closed");
        return;
    }
    l->is_inside = true;
    int64_t next_ns = client_tick(l->client, now_ns);
    while (pipe_room(&l->up) > 0 && client_pull(l->client, &l->up.bytes, pipe_room(&l->up))) {
        pipe_run(l, &l->up, true);
        write_in_vain(l, &l->client_told);
    }
    l->is_inside = false;
    if (l->is_unwanted || client_is_over(l->client)) {
        client_gone(l, "over");
        return;
    }
    if (next_ns != INT64_MAX && !moment_is_set(m)) {
        moment_after(w, m, next_ns > now_ns ? next_ns - now_ns : SOON_NS);
    }
}

static void on_down(struct moment *m)
{
    struct link *l = container_of(m, struct link, down.moment);

    if (l->client == NULL) return;
    if (pipe_len(&l->down) == 0) {
        if (l->has_ended) client_gone(l, "closed by the server");
        return;
    }
    if (fault_hits(l->w, FAULT_KIND_LINK_RESET)) {
        link_break(l);
        return;
    }
    struct bytes piece = pipe_piece(l, &l->down);
    if (piece.len == 0) return;
    l->is_inside = true;
    (void)client_feed(l->client, link_now_ns(l->w), piece);
    l->is_inside = false;
    pipe_take(&l->down, piece.len);
    if (l->conn != NULL) link_wake_server(l); /* there is room again */
    wake_client(l);
    if (pipe_len(&l->down) > 0 || l->has_ended) pipe_run(l, &l->down, false);
}

enum status link_begin(struct link *l, const struct client_request *request,
                       struct client_call **out)
{
    if (l->client == NULL || l->is_unwanted) return E_CLOSED;
    wake_client(l);
    return client_begin(l->client, link_now_ns(l->w), request, out);
}

void link_cancel(struct link *l, struct client_call *call)
{
    client_cancel(call);
    if (l != NULL) wake_client(l);
}

bool link_is_closing(const struct link *l)
{
    return l->client == NULL || l->is_unwanted || client_is_closing(l->client);
}

void link_close(struct link *l)
{
    l->lost = NULL;
    if (l->client == NULL) return;
    if (!l->is_inside) {
        client_gone(l, "closed");
        return;
    }
    l->is_unwanted = true;
    moment_after(l->w, &l->client_io, 0);
}

/* ---- the server's end ---- */

void link_wake_server(struct link *l)
{
    if (moment_is_set(&l->server_io) && l->server_io.node.key <= l->w->now_ns + SOON_NS) return;
    moment_after(l->w, &l->server_io, SOON_NS);
}

static void on_wake(void *user, struct conn *conn)
{
    struct link *l = user;

    (void)conn;
    if (l->conn != NULL) link_wake_server(l);
}

static void on_server_io(struct moment *m)
{
    struct link *l = container_of(m, struct link, server_io);
    struct world *w = l->w;
    int64_t now_ns = link_now_ns(w);
    bool is_empty = false;

    front_set_now(w->front);
    int64_t next_ns = conn_tick(l->conn, now_ns);
    if (conn_is_dead(l->conn)) {
        link_server_gone(l);
        return;
    }
    while (pipe_room(&l->down) > 0 && !is_empty) {
        size_t before = l->down.bytes.len;
        is_empty = !conn_pull(l->conn, now_ns, &l->down.bytes, pipe_room(&l->down));
        if (!is_empty) conn_sent(l->conn, now_ns, l->down.bytes.len - before);
    }
    front_touch(w->front);
    if (pipe_len(&l->down) > 0 && l->client != NULL) pipe_run(l, &l->down, true);
    if (pipe_len(&l->down) > 0) write_in_vain(l, &l->server_told);
    if (is_empty && conn_is_over(l->conn)) {
        server_closes(l);
        return;
    }
    if (pipe_len(&l->up) > 0 && conn_wants_read(l->conn)) pipe_run(l, &l->up, true);
    next_ns = conn_tick(l->conn, now_ns);
    if (next_ns != INT64_MAX && !moment_is_set(m)) {
        moment_after(w, m, next_ns > now_ns ? next_ns - now_ns : SOON_NS);
    }
}

static void on_up(struct moment *m)
{
    struct link *l = container_of(m, struct link, up.moment);

    if (l->conn == NULL || pipe_len(&l->up) == 0 || !conn_wants_read(l->conn)) return;
    if (fault_hits(l->w, FAULT_KIND_LINK_RESET)) {
        link_break(l);
        return;
    }
    struct bytes piece = pipe_piece(l, &l->up);
    if (piece.len == 0) return;
    front_set_now(l->w->front);
    (void)conn_feed(l->conn, link_now_ns(l->w), piece);
    pipe_take(&l->up, piece.len);
    link_wake_server(l);
    wake_client(l);
    if (pipe_len(&l->up) > 0) pipe_run(l, &l->up, false);
}

struct conn *link_conn(struct link *l) { return l->conn; }
struct link *link_of_front(struct list *node) { return container_of(node, struct link, of_front); }

/* ---- all of them ---- */

static void pipe_init(struct pipe *p, moment_fn *fn)
{
    buffer_init(&p->bytes, mem_process());
    moment_init(&p->moment, fn);
}

struct link *link_open(struct world *w, struct bytes hub, link_lost_fn *lost, void *user)
{
    struct client_options options;

    if (!front_is_listening(w->front)) return NULL;
    struct link *l = mem_take_zero(mem_process(), sizeof *l);
    assert(l != NULL);
    l->w = w;
    l->lost = lost;
    l->user = user;
    pipe_init(&l->up, on_up);
    pipe_init(&l->down, on_down);
    moment_init(&l->client_io, on_client_io);
    moment_init(&l->server_io, on_server_io);
    moment_init(&l->client_told, on_client_told);
    moment_init(&l->server_told, on_server_told);
    client_options_init(&options, mem_process());
    options.authority = BYTES_LITERAL("sim");
    options.hub = hub;
    options.ping_ms = w->options.ping_ms;
    enum status status = client_new(&options, link_now_ns(w), &l->client);
    assert(status == OK);
    l->conn = front_accept(w->front, &l->of_front);
    conn_on_wake(l->conn, on_wake, l);
    list_push_back(&w->links, &l->of_world);
    wake_client(l);
    link_wake_server(l);
    return l;
}

void links_deafen_one(struct world *w, int64_t span_ns)
{
    uint64_t n = 0;

    for (struct list *at = list_first(&w->links); at != NULL; at = list_next(&w->links, at)) n++;
    if (n == 0) return;
    uint64_t chosen = rng_below(&w->rng, n);
    struct list *at = list_first(&w->links);
    while (chosen-- > 0) at = list_next(&w->links, at);
    container_of(at, struct link, of_world)->down.stalled_until_ns = w->now_ns + span_ns;
}

void links_heal(struct world *w)
{
    for (struct list *at = list_first(&w->links); at != NULL; at = list_next(&w->links, at)) {
        struct link *l = container_of(at, struct link, of_world);
        struct pipe *pipes[] = {&l->up, &l->down};
        for (int i = 0; i < 2; i++) {
            pipes[i]->stalled_until_ns = 0;
            if (moment_is_set(&pipes[i]->moment)) moment_after(w, &pipes[i]->moment, NS_PER_MS);
        }
    }
}

static struct link *link_with_client(struct world *w)
{
    for (struct list *at = list_first(&w->links); at != NULL; at = list_next(&w->links, at)) {
        struct link *l = container_of(at, struct link, of_world);
        if (l->client != NULL) return l;
    }
    return NULL;
}

void links_free(struct world *w)
{
    struct link *l = NULL;

    while ((l = link_with_client(w)) != NULL) client_gone(l, "the end");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection: finds out the protocol, then passes everything on; and watches that what was
 * pulled leaves.
 */
#include "net/conn.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/h1.h"
#include "net/h2.h"
#include "net/state.h"

#include <stdio.h>

#define MAGIC_SIZE NGHTTP2_CLIENT_MAGIC_LEN
#define FAREWELL_MS 1000 /* how long the last bytes may take */

struct conn {
    struct conn_options options;
    char peer[PEER_SIZE]; /* of the options */
    struct h1 *h1;        /* one of them, once the protocol is known */
    struct h2 *h2;
    uint8_t first[MAGIC_SIZE];
    size_t first_n;
    bool is_dead; /* nothing more, not even what waits */
    bool is_draining;
    int64_t born_ns;
    size_t own_unfinished_size;
    size_t unsent;       /* pulled, but not gone */
    int64_t progress_ns; /* since when nothing went, while unsent > 0 */
    conn_wake_fn *wake;
    void *wake_user;
};

void conn_limits_init(struct conn_limits *limits)
{
    *limits = (struct conn_limits){
        .message_size_max = 16 * 1024 * 1024,
        .calls_n_max = 100,
        .stream_queue_size = 256 * 1024,
        .conn_queue_size = 1024 * 1024,
        .answers_size_max = 128 * 1024 * 1024,
        .stream_window = 64 * 1024,
        .conn_window = 1024 * 1024,
        .preface_ms = 5 * 1000,
        .header_ms = 10 * 1000,
        .body_ms = 10 * 1000,
        .body_per_s = 1024,
        .unfinished_size_max = 64 * 1024 * 1024,
        .unfinished_size_total = 256 * 1024 * 1024,
        .idle_ms = 5 * 60 * 1000,
        .ping_ms = 30 * 1000,
        .ping_answer_ms = 20 * 1000,
        .stall_ms = 30 * 1000,
        .resets_burst = 1000,
        .resets_per_s = 100,
    };
}

enum status conn_new(const struct conn_options *options, int64_t now_ns, struct conn **out)
{
    struct conn *c = mem_take_zero(options->mem, sizeof *c);

    if (c == NULL) return E_NOMEM;
    assert(options->limits->body_per_s > 0);
    c->options = *options;
    (void)snprintf(c->peer, sizeof c->peer, "%s", options->peer == NULL ? "" : options->peer);
    c->options.peer = c->peer;
    c->born_ns = now_ns;
    if (c->options.unfinished_size == NULL) c->options.unfinished_size = &c->own_unfinished_size;
    c->options.counters->connections++;
    *out = c;
    return OK;
}

void conn_free(struct conn *c, int64_t now_ns)
{
    c->wake = NULL;
    if (c->h1 != NULL) h1_free(c->h1, now_ns);
    if (c->h2 != NULL) h2_free(c->h2, now_ns);
    mem_give(c->options.mem, c, sizeof *c);
}

void conn_on_wake(struct conn *c, conn_wake_fn *wake, void *user)
{
    c->wake = wake;
    c->wake_user = user;
}

void conn_wake(struct conn *c)
{
    if (c->wake != NULL) c->wake(c->wake_user, c);
}

/* ---- bytes ---- */

static void die(struct conn *c, uint64_t *counter)
{
    if (!c->is_dead) (*counter)++;
    c->is_dead = true;
    conn_wake(c);
}

/* The start of a handshake. It is answered as any other nonsense, with 400: libraries know what a
 * plain "HTTP/1.1" means that comes instead of theirs. */
static bool is_tls(struct bytes first)
{
    return first.len >= 2 && first.ptr[0] == 0x16 && first.ptr[1] == 0x03;
}

/* Knows the protocol as soon as a byte differs from the greeting of HTTP/2, or it is complete. */
static void sniff(struct conn *c, int64_t now_ns, struct bytes *bytes)
{
    if (c->first_n == 0 && is_tls(*bytes)) c->options.counters->tls_refused++;
    while (c->first_n < MAGIC_SIZE && bytes->len > 0) {
        uint8_t byte = bytes->ptr[0];
        bool is_magic = byte == (uint8_t)NGHTTP2_CLIENT_MAGIC[c->first_n];
        if (!is_magic) break;
        c->first[c->first_n++] = byte;
        *bytes = bytes_make(bytes->ptr + 1, bytes->len - 1);
    }
    if (bytes->len == 0 && c->first_n < MAGIC_SIZE) return;

    enum status status = c->first_n == MAGIC_SIZE ? h2_new(&c->options, c, now_ns, &c->h2)
                                                  : h1_new(&c->options, c, now_ns, &c->h1);
    if (status != OK) die(c, &c->options.counters->out_of_memory);
    if (c->is_draining) conn_drain(c, now_ns);
}

static enum status pass_on(struct conn *c, int64_t now_ns, struct bytes bytes)
{
    if (bytes.len == 0) return OK;
    return c->h2 != NULL ? h2_feed(c->h2, now_ns, bytes) : h1_feed(c->h1, now_ns, bytes);
}

enum status conn_feed(struct conn *c, int64_t now_ns, struct bytes bytes)
{
    c->options.counters->bytes_in += bytes.len;
    if (c->is_dead) return E_CLOSED;
    if (c->h1 == NULL && c->h2 == NULL) {
        sniff(c, now_ns, &bytes);
        if (c->is_dead) return E_CLOSED;
        if (c->h1 == NULL && c->h2 == NULL) return OK;
        enum status status = pass_on(c, now_ns, bytes_make(c->first, c->first_n));
        if (status != OK) return status;
    }
    return pass_on(c, now_ns, bytes);
}

/* Only HTTP/1.1 has a half-closed peer that is well: over HTTP/2 it could not even acknowledge. */
bool conn_end_input(struct conn *c, int64_t now_ns)
{
    if (c->is_dead || c->h1 == NULL) return false;
    h1_end_input(c->h1, now_ns);
    conn_wake(c);
    return true;
}

bool conn_pull(struct conn *c, int64_t now_ns, struct buffer *out, size_t size_max)
{
    size_t start = out->len;

    if (c->is_dead) return false;
    if (c->h2 != NULL) (void)h2_pull(c->h2, now_ns, out, size_max);
    if (c->h1 != NULL) (void)h1_pull(c->h1, out);
    size_t size = out->len - start;
    if (size == 0) return false;
    if (c->unsent == 0) c->progress_ns = now_ns;
    c->unsent += size;
    c->options.counters->bytes_out += size;
    return true;
}

void conn_sent(struct conn *c, int64_t now_ns, size_t size)
{
    assert(size <= c->unsent);
    c->unsent -= size;
    if (size > 0) c->progress_ns = now_ns;
}

bool conn_wants_read(const struct conn *c)
{
    if (c->is_dead) return false;
    if (c->h2 != NULL) return h2_wants_read(c->h2);
    return c->h1 == NULL || h1_wants_read(c->h1);
}

bool conn_is_over(const struct conn *c)
{
    if (c->is_dead) return true;
    if (c->h2 != NULL) return h2_is_over(c->h2);
    if (c->h1 != NULL) return h1_is_over(c->h1);
    return c->is_draining;
}

bool conn_is_dead(const struct conn *c) { return c->is_dead; }

/* ---- time ---- */

int64_t conn_body_due_ns(const struct conn_limits *limits, int64_t due_ns, int64_t now_ns,
                         size_t size)
{
    int64_t latest_ns = now_ns + limits->body_ms * NS_PER_MS;
    int64_t paid_ms = (int64_t)(size * 1000 / limits->body_per_s);

    due_ns += paid_ms * NS_PER_MS;
    return due_ns < latest_ns ? due_ns : latest_ns;
}

static bool is_ending(const struct conn *c)
{
    if (c->h2 != NULL && h2_is_ending(c->h2)) return true;
    if (c->h1 != NULL && h1_is_ending(c->h1)) return true;
    return conn_is_over(c);
}

/* What was pulled must leave. Nobody who was told to go is waited for as long as for others, even
 * when there is more to tell. */
static int64_t tick_unsent(struct conn *c, int64_t now_ns)
{
    if (c->unsent == 0) return INT64_MAX;
    int64_t limit_ms = c->options.limits->stall_ms;
    if (is_ending(c) && limit_ms > FAREWELL_MS) limit_ms = FAREWELL_MS;
    int64_t due_ns = c->progress_ns + limit_ms * NS_PER_MS;
    if (due_ns > now_ns) return due_ns;
    die(c, &c->options.counters->stalled);
    return INT64_MAX;
}

int64_t conn_tick(struct conn *c, int64_t now_ns)
{
    int64_t next_ns;

    if (c->is_dead) return INT64_MAX;
    if (c->h2 != NULL) {
        next_ns = h2_tick(c->h2, now_ns);
    } else if (c->h1 != NULL) {
        next_ns = h1_tick(c->h1, now_ns);
    } else {
        next_ns = c->born_ns + c->options.limits->preface_ms * NS_PER_MS;
        if (next_ns <= now_ns) die(c, &c->options.counters->slow_request);
    }
    if (c->is_dead) return INT64_MAX;
    int64_t unsent_ns = tick_unsent(c, now_ns);
    return unsent_ns < next_ns ? unsent_ns : next_ns;
}

void conn_drain(struct conn *c, int64_t now_ns)
{
    c->is_draining = true;
    if (c->h2 != NULL) h2_drain(c->h2, now_ns);
    if (c->h1 != NULL) h1_drain(c->h1);
    conn_wake(c);
}

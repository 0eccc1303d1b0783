/* SPDX-License-Identifier: Apache-2.0
 *
 * All work streams together: what the network and the desk tell, and what time brings.
 */
#include "base/log.h"
#include "base/random.h"
#include "core/limits.h"
#include "server/work.h"
#include "wire/pb.h"

#include <stdio.h>

enum status workers_init(struct workers *w, struct service *s)
{
    uint64_t seed[2];

    random_fill(seed, sizeof seed);
    *w = (struct workers){.mem = s->mem, .retry_ns = INT64_MAX};
    list_init(&w->streams);
    list_init(&w->quiet);
    list_init(&w->orphans);
    list_init(&w->untaken);
    list_init(&w->unpacked);
    list_init(&w->stuck);
    map_init(&w->leases, s->mem, seed[0], seed[1]);
    pool_init(&w->pool, s->mem, LEASES_WAITING_SIZE);
    return OK;
}

void workers_stop(struct workers *w)
{
    w->is_stopped = true;
    untaken_drop(w);
}

void workers_release(struct workers *w)
{
    struct list *node;

    assert(w->is_stopped);
    untaken_drop(w);
    while ((node = list_pop_front(&w->unpacked)) != NULL) {
        parcel_free(container_of(node, struct parcel, node));
    }
    while ((node = list_first(&w->streams)) != NULL) {
        struct work_stream *stream = container_of(node, struct work_stream, node);
        assert(stream->call == NULL);
        work_stream_free(stream);
    }
    while ((node = list_pop_front(&w->orphans)) != NULL) {
        struct lease *lease = container_of(node, struct lease, of_owner);
        if (lease->chunks != NULL) {
            buffer_release(&lease->chunks->bytes);
            mem_give(w->mem, lease->chunks, sizeof *lease->chunks);
        }
        pool_give(&w->pool, lease);
    }
    map_release(&w->leases);
    pool_release(&w->pool);
}

/* ---- what is told ---- */

void workers_parcel(struct service *s, struct parcel *parcel)
{
    /* At the end nothing is given back: the engine is about to close, or closed already, and offers
     * it again after a restart. */
    if (s->is_draining || s->workers.is_stopped) {
        parcel_free(parcel);
        return;
    }
    stream_parcel(container_of(parcel->worker, struct work_shard, worker), parcel);
}

static struct work_stream *stream_of(const struct grpc_call *call)
{
    return container_of((struct call_user *)grpc_user(call), struct work_stream, user);
}

void workers_writable(struct service *s, struct grpc_call *call)
{
    (void)s;
    stream_top_up(stream_of(call));
}

void workers_closed(struct service *s, struct grpc_call *call)
{
    struct work_stream *stream = stream_of(call);

    (void)s;
    grpc_finish(call, GRPC_CANCELLED, NULL);
    stream_close(stream);
}

void workers_drain(struct service *s)
{
    struct list *node;

    while ((node = list_pop_front(&s->workers.unpacked)) != NULL) {
        parcel_free(container_of(node, struct parcel, node));
    }
    while ((node = list_first(&s->workers.quiet)) != NULL) {
        struct work_stream *stream = container_of(node, struct work_stream, quiet);
        grpc_finish(stream->call, GRPC_UNAVAILABLE, "the server is shutting down: connect again");
        stream_close(stream);
    }
}

bool workers_are_quiet(const struct service *s) { return list_is_empty(&s->workers.streams); }

bool workers_history_n(const struct service *s, struct bytes key, uint64_t *history_n)
{
    const struct lease *lease = lease_find(&s->workers, WORK_TURN, key, 0);

    if (lease == NULL) return false;
    *history_n = lease->history_n;
    return true;
}

void service_each_worker(const struct service *s, service_worker_fn *fn, void *user)
{
    const struct list *streams = &s->workers.streams;

    for (struct list *n = list_first(streams); n != NULL; n = list_next(streams, n)) {
        const struct work_stream *stream = container_of(n, struct work_stream, node);
        if (stream->call == NULL) continue;
        struct service_worker worker = {
            .id = stream->shards[0].id,
            .worker = &stream->shards[0].worker,
            .opened_ns = stream->opened_ns,
        };
        memcpy(worker.in_flight, stream->in_flight, sizeof worker.in_flight);
        fn(user, &worker);
    }
}

/* ---- answers that are too large to be read ---- */

/* The lease that the first bytes of an answer are for: 1 instanceId, 2 taskId. The token stands
 * behind the large part. NULL when they do not tell. */
static struct lease *lease_of_start(struct service *s, struct bytes hub, enum work_kind kind,
                                    struct bytes start)
{
    uint8_t key[LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE];
    struct pb_reader r = pb_reader_make(start);
    struct bytes id = BYTES_NONE;
    int32_t task_id = 0;
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1 && f.wire == PB_LEN) id = f.bytes;
        if (f.number == 2 && f.wire == PB_VARINT) task_id = pb_int32(&f);
    }
    if (id.len == 0 || hub.len > LIMIT_HUB_SIZE || id.len > LIMIT_ID_SIZE) return NULL;
    memcpy(key, hub.ptr, hub.len);
    key[hub.len] = '/';
    memcpy(key + hub.len + 1, id.ptr, id.len);
    return lease_find(&s->workers, kind, bytes_make(key, hub.len + 1 + id.len), task_id);
}

void workers_oversize(struct service *s, const struct grpc_call *call, uint64_t size,
                      struct bytes start)
{
    struct bytes path = grpc_path(call);
    struct bytes hub = grpc_header(call, "taskhub");
    struct lease *lease = NULL;

    if (hub.len == 0) hub = BYTES_LITERAL("default");
    if (bytes_equal(path, BYTES_LITERAL("/TaskHubSidecarService/CompleteOrchestratorTask"))) {
        lease = lease_of_start(s, hub, WORK_TURN, start);
    } else if (bytes_equal(path, BYTES_LITERAL("/TaskHubSidecarService/CompleteActivityTask"))) {
        lease = lease_of_start(s, hub, WORK_TASK, start);
    } else if (!bytes_equal(path, BYTES_LITERAL("/TaskHubSidecarService/CompleteEntityTask"))) {
        return; /* its caller is told; nothing waits for it */
    }
    if (lease == NULL) {
        log_warn("an answer of %llu bytes was refused for its size, and does not tell in its first "
                 "bytes whose it is: that work waits until its worker disconnects",
                 (unsigned long long)size);
        return;
    }
    char reason[160];
    (void)snprintf(reason, sizeof reason,
                   "the answer of %llu bytes is larger than the limit of %zu",
                   (unsigned long long)size, s->options.message_size_max);
    lease_give_back(s, lease, GIVE_PARKED, reason);
}

/* ---- time ---- */

static void retry(struct service *s)
{
    struct workers *w = &s->workers;
    struct list stuck;
    struct list *node;

    w->retry_ns = INT64_MAX;
    untaken_retry(s);
    unpacked_retry(s);
    list_init(&stuck);
    list_splice_back(&stuck, &w->stuck);
    while ((node = list_pop_front(&stuck)) != NULL) {
        stream_ask(container_of(node, struct work_stream, stuck));
    }
}

/* In the order in which their streams ended. */
static void give_back_orphans(struct service *s)
{
    struct workers *w = &s->workers;

    if (s->is_draining) return; /* see workers_drain() */
    for (uint32_t n = 0; n < WORK_LOST_N_MAX; n++) {
        struct list *node = list_first(&w->orphans);
        if (node == NULL) return;
        struct lease *lease = container_of(node, struct lease, of_owner);
        if (lease->due_ns > s->now_ns) return;
        lease_give_back(s, lease, GIVE_LOST, "the worker's stream ended");
        if (list_first(&w->orphans) == node) return; /* no memory: a later tick */
    }
}

static int64_t ping_at_ns(const struct service *s)
{
    const struct list *node = list_first(&s->workers.quiet);

    if (node == NULL || s->options.ping_ms <= 0) return INT64_MAX;
    const struct work_stream *stream = container_of(node, struct work_stream, quiet);
    return stream->sent_ns + s->options.ping_ms * 1000000;
}

static int64_t orphan_at_ns(const struct service *s)
{
    const struct list *node = list_first(&s->workers.orphans);

    if (node == NULL || s->is_draining) return INT64_MAX;
    return container_of(node, struct lease, of_owner)->due_ns;
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t workers_tick(struct service *s)
{
    struct workers *w = &s->workers;

    if (w->retry_ns <= s->now_ns) retry(s);
    give_back_orphans(s);
    while (ping_at_ns(s) <= s->now_ns) {
        stream_ping(container_of(list_first(&w->quiet), struct work_stream, quiet));
    }
    int64_t next_ns = earlier(ping_at_ns(s), orphan_at_ns(s));
    return earlier(next_ns, w->retry_ns);
}

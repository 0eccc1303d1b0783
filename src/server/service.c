/* SPDX-License-Identifier: Apache-2.0
 *
 * The service as the network sees it: finds the handler of a call, and tells those that are under
 * way when their peer has room again or is gone.
 */
#include "base/random.h"
#include "server/state.h"

#include <stdio.h>

#define PATH_PREFIX "/TaskHubSidecarService/"
#define OWN_PATH_PREFIX "/norn.v1.Supervision/"
#define RETRY_NS ((int64_t)10 * 1000 * 1000) /* what the engine did not take is tried again */

struct rpc {
    const char *path;
    const char *name;
    rpc_fn *handler;
};

static const struct rpc rpcs[] = {
#define X(name, handler) {PATH_PREFIX #name, #name, handler},
    RPCS(X)
#undef X
#define X(name, handler) {OWN_PATH_PREFIX #name, #name, handler},
        OWN_RPCS(X)
#undef X
};
_Static_assert(sizeof rpcs / sizeof rpcs[0] == RPCS_N, "the number of RPCs is written down once");

const char *service_rpc_name(unsigned n) { return n < RPCS_N ? rpcs[n].name : ""; }

/* ---- which RPC ---- */

#define SLOTS_N (sizeof((struct service *)0)->rpc_slots)
_Static_assert((SLOTS_N & (SLOTS_N - 1)) == 0, "a hash is masked to a slot");
_Static_assert(RPCS_N < SLOTS_N, "a search ends at a free slot");

static size_t slot_of(struct bytes path) { return (size_t)bytes_hash(path) & (SLOTS_N - 1); }

static void rpcs_init(struct service *s)
{
    for (unsigned n = 0; n < RPCS_N; n++) {
        size_t slot = slot_of(bytes_of_text(rpcs[n].path));
        while (s->rpc_slots[slot] != 0) slot = (slot + 1) & (SLOTS_N - 1);
        s->rpc_slots[slot] = (uint8_t)(n + 1);
    }
}

/* Its number, or -1. */
static int rpc_find(const struct service *s, struct bytes path)
{
    for (size_t slot = slot_of(path); s->rpc_slots[slot] != 0; slot = (slot + 1) & (SLOTS_N - 1)) {
        int n = s->rpc_slots[slot] - 1;
        if (bytes_equal(path, bytes_of_text(rpcs[n].path))) return n;
    }
    return -1;
}

/* ---- what the network tells ---- */

/* Answers to work that was given before the end began, and word of it. They are taken to the last:
 * what is refused here was done for nothing. */
static bool is_of_worker(rpc_fn *handler)
{
    return handler == rpc_complete_activity || handler == rpc_complete_orchestrator ||
           handler == rpc_complete_entity || handler == rpc_abandon_activity ||
           handler == rpc_abandon_orchestrator || handler == rpc_abandon_entity ||
           handler == rpc_renew_task;
}

static void on_call(void *user, struct grpc_call *call, struct bytes message)
{
    struct service *s = user;
    struct bytes path = grpc_path(call);
    int n = rpc_find(s, path);

    s->stats.calls++;
    if (n < 0) {
        call_fail(s, call, GRPC_UNIMPLEMENTED,
                  "there is no method %.*s: this is " PATH_PREFIX "<Rpc>",
                  (int)(path.len < 200 ? path.len : 200), (const char *)path.ptr);
        return;
    }
    s->stats.calls_by_rpc[n]++;
    if (s->is_draining && !is_of_worker(rpcs[n].handler)) {
        call_fail(s, call, GRPC_UNAVAILABLE, "the server is shutting down: try again");
        return;
    }
    rpcs[n].handler(s, call, message);
}

static void on_oversize(void *user, const struct grpc_call *call, uint64_t size, struct bytes start)
{
    workers_oversize(user, call, size, start);
}

static void on_writable(void *user, struct grpc_call *call)
{
    struct service *s = user;
    const struct call_user *used = grpc_user(call);

    if (used == NULL) return;
    switch (used->kind) {
    case CALL_WAIT: return; /* one small answer */
    case CALL_HISTORY: history_writable(s, call); return;
    case CALL_WORK: workers_writable(s, call); return;
    }
    unreachable("no such kind of call");
}

static void on_closed(void *user, struct grpc_call *call)
{
    struct service *s = user;
    const struct call_user *used = grpc_user(call);

    if (used == NULL) return; /* its errand comes back soon and finishes it */
    switch (used->kind) {
    case CALL_WAIT: wait_closed(s, call); return;
    case CALL_HISTORY: history_closed(s, call); return;
    case CALL_WORK: workers_closed(s, call); return;
    }
    unreachable("no such kind of call");
}

static void on_parcel(void *user, struct parcel *parcel) { workers_parcel(user, parcel); }

/* ---- from birth to death ---- */

void service_options_init(struct service_options *options)
{
    *options = (struct service_options){
        .errands_n_max = 100000,
        .message_size_max = (size_t)16 << 20,
        .history_size_max = (size_t)1 << 20,
        .ping_ms = 30000,
        .grace_ms = 5000,
        .workers_n_max = 10000,
        .in_flight_n_max = 10000,
    };
}

static void ids_init(struct rng *rng, uint64_t seed)
{
    if (seed != 0)
        rng_init(rng, seed);
    else
        random_fill(rng->state, sizeof rng->state); /* ids of two processes must not meet */
}

enum status service_new(const struct service_options *options, int64_t now_ns, struct service **out)
{
    struct service *s = mem_take_zero(options->mem, sizeof *s);

    if (s == NULL) return E_NOMEM;
    s->options = *options;
    s->mem = options->mem;
    s->now_ns = now_ns;
    s->grpc = (struct grpc_service){
        .user = s,
        .call = on_call,
        .oversize = on_oversize,
        .writable = on_writable,
        .closed = on_closed,
    };
    rpcs_init(s);
    ids_init(&s->rng, options->seed);
    buffer_init(&s->scratch, s->mem);
    list_init(&s->waiting);
    list_init(&s->uncancelled);
    list_init(&s->histories);
    list_init(&s->batches);
    struct desk_options desk = {
        .mem = s->mem,
        .engine = options->engine,
        .errands_n_max = options->errands_n_max,
        .parcel = on_parcel,
        .user = s,
    };
    enum status status = desk_new(&desk, &s->desk);
    if (status == OK) status = workers_init(&s->workers, s);
    if (status != OK) {
        if (s->desk != NULL) desk_free(s->desk);
        mem_give(s->mem, s, sizeof *s);
        return status;
    }
    *out = s;
    return OK;
}

void service_free(struct service *s)
{
    workers_stop(&s->workers);
    service_bell(s); /* what the engine answered while it was closed */
    assert(list_is_empty(&s->waiting));
    assert(list_is_empty(&s->uncancelled));
    assert(list_is_empty(&s->histories));
    assert(list_is_empty(&s->batches));
    workers_release(&s->workers);
    desk_free(s->desk);
    buffer_release(&s->scratch);
    mem_give(s->mem, s, sizeof *s);
}

const struct grpc_service *service_grpc(const struct service *s) { return &s->grpc; }
void service_set_now(struct service *s, int64_t now_ns) { s->now_ns = now_ns; }

void service_bell(struct service *s) { desk_collect(s->desk); }

int64_t service_tick(struct service *s)
{
    int64_t next_ns = workers_tick(s);
    bool is_all_taken = waits_retry(s);

    is_all_taken = batches_retry(s) && is_all_taken;
    if (!is_all_taken && s->now_ns + RETRY_NS < next_ns) next_ns = s->now_ns + RETRY_NS;
    return next_ns;
}

void service_drain(struct service *s)
{
    s->is_draining = true;
    waits_drain(s);
    histories_drain(s);
    workers_drain(s);
}

bool service_is_quiet(const struct service *s)
{
    return desk_errands_n(s->desk) == 0 && list_is_empty(&s->histories) &&
           list_is_empty(&s->batches) && workers_are_quiet(s);
}

void service_stats(const struct service *s, struct service_stats *out) { *out = s->stats; }

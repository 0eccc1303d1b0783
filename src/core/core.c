/* SPDX-License-Identifier: Apache-2.0
 *
 * The step: one input in, records and effects out. Memory for the whole step is reserved before
 * anything changes, so that a step happens completely or not at all.
 */
#include "core/core.h"

#include "base/mem.h"
#include "core/limits.h"
#include "core/state.h"

#define TEMPORARY_CHUNK_SIZE 4096
#define SCRATCH_KEPT_SIZE ((size_t)64 << 10) /* of each area for one step: few need more */

const char *input_name(enum input_kind kind)
{
    switch (kind) {
#define X(name, file)                                                                              \
    case INPUT_##name: return #name;
        INPUTS(X)
#undef X
    }
    return "unknown";
}

enum status core_new(const struct core_options *options, struct core **out)
{
    assert(options->mem != NULL);
    assert(options->partition < options->partitions_n);
    assert(options->resend_ms >= 0);
    assert(options->horizon_ms >= 0);
    struct core *c = mem_take_zero(options->mem, sizeof *c);
    if (c == NULL) return E_NOMEM;
    size_t peers_size = options->partitions_n * sizeof *c->peers;
    c->peers = mem_take_zero(options->mem, peers_size);
    if (c->peers == NULL) {
        mem_give(options->mem, c, sizeof *c);
        return E_NOMEM;
    }
    c->options = *options;
    if (c->options.parked_n_max == 0) c->options.parked_n_max = LIMIT_PARKED_N;
    c->mem = options->mem;
    map_init(&c->instances, c->mem, options->map_seed[0], options->map_seed[1]);
    map_init(&c->open, c->mem, options->map_seed[0], options->map_seed[1]);
    map_init(&c->queues, c->mem, options->map_seed[0], options->map_seed[1]);
    map_init(&c->sources, c->mem, options->map_seed[0], options->map_seed[1]);
    list_init(&c->all_sources);
    c->backlog = options->backlog;
    c->waiting_lsn = UINT64_MAX;
    list_init(&c->all);
    list_init(&c->all_queues);
    list_init(&c->dirty);
    list_init(&c->finished);
    list_init(&c->idle);
    list_init(&c->parked);
    heap_init(&c->due);
    buffer_init(&c->scratch, c->mem);
    buffer_init(&c->scratch2, c->mem);
    buffer_init(&c->events, c->mem);
    arena_init(&c->temporary, c->mem, TEMPORARY_CHUNK_SIZE);
    *out = c;
    return OK;
}

void core_free(struct core *c)
{
    assert(c->out == NULL); /* not from inside a step */
    while (!list_is_empty(&c->all)) {
        instance_drop(container_of(list_first(&c->all), struct instance, all));
    }
    assert(c->instances_n == 0);
    assert(c->open.n == 0); /* an instance takes all that hangs on it along */
    assert(c->due.n == 0);
    assert(c->finished_n == 0);
    assert(list_is_empty(&c->dirty));
    assert(list_is_empty(&c->idle));
    assert(list_is_empty(&c->parked));
    assert(c->parked_n == 0);
    queues_release(c);
    outbox_release(c);
    sources_release(c);
    if (c->backlog != NULL) backlog_drop(c->backlog, c->options.partition);
    map_release(&c->sources);
    map_release(&c->instances);
    map_release(&c->open);
    map_release(&c->queues);
    buffer_release(&c->scratch);
    buffer_release(&c->scratch2);
    buffer_release(&c->events);
    arena_release(&c->temporary);
    struct mem *mem = c->mem;
    mem_give(mem, c->peers, c->options.partitions_n * sizeof *c->peers);
    mem_give(mem, c, sizeof *c);
}

/* ---- between steps ---- */

static size_t buffer_rest(struct buffer *b)
{
    if (b->size > SCRATCH_KEPT_SIZE) buffer_release(b);
    return b->size;
}

size_t core_rest(struct core *c)
{
    assert(c->out == NULL);
    assert(c->in == NULL);
    if (c->temporary.size > SCRATCH_KEPT_SIZE) {
        arena_release(&c->temporary);
        arena_init(&c->temporary, c->mem, TEMPORARY_CHUNK_SIZE); /* its chunks are small again */
    }
    return buffer_rest(&c->scratch) + buffer_rest(&c->scratch2) + buffer_rest(&c->events) +
           c->temporary.size;
}

/* ---- the step ---- */

static void dispatch(struct core *c, const struct input *in)
{
    switch (in->kind) {
    case INPUT_CLIENT_START: on_client_start(c, in); break;
    case INPUT_CLIENT_RAISE: on_client_raise(c, in); break;
    case INPUT_CLIENT_TERMINATE: on_client_terminate(c, in); break;
    case INPUT_CLIENT_SUSPEND: on_client_suspend(c, in); break;
    case INPUT_CLIENT_RESUME: on_client_resume(c, in); break;
    case INPUT_CLIENT_REWIND: on_client_rewind(c, in); break;
    case INPUT_CLIENT_RESTART: on_client_restart(c, in); break;
    case INPUT_CLIENT_PURGE: on_client_purge(c, in); break;
    case INPUT_CLIENT_RESUBMIT: on_client_resubmit(c, in); break;
    case INPUT_CLIENT_SIGNAL: on_client_signal(c, in); break;
    case INPUT_CLIENT_IMPORT: on_client_import(c, in); break;
    case INPUT_WORKER_TAKE: on_worker_take(c, in); break;
    case INPUT_WORKER_TURN_DONE: on_worker_turn_done(c, in); break;
    case INPUT_WORKER_TASK_DONE: on_worker_task_done(c, in); break;
    case INPUT_WORKER_ENTITY_DONE: on_worker_entity_done(c, in); break;
    case INPUT_WORKER_ABANDON: on_worker_abandon(c, in); break;
    case INPUT_WORKER_RENEW: on_worker_renew(c, in); break;
    case INPUT_CLOCK_TICK: on_clock_tick(c, in); break;
    case INPUT_PARTITION_MESSAGE: on_partition_message(c, in); break;
    case INPUT_PARTITION_ACK: on_partition_ack(c, in); break;
    case INPUT_BACKLOG_ADMIT: on_backlog_admit(c, in); break;
    case INPUT_BACKLOG_CARRY: on_backlog_carry(c, in); break;
    case INPUT_SOURCE_POSITION: on_source_position(c, in); break;
    }
    assert(c->now_ns == in->now_ns); /* a step has one time */
}

enum status core_step(struct core *c, const struct input *in, struct output *out)
{
    assert(in->now_ns >= c->now_ns); /* the host orders inputs before we see them */
    assert(in->lsn >= c->lsn);
    assert(in->lsn > 0); /* 0 means clean: see dirty_lsn */
    assert(!c->is_recovering);
    assert(c->out == NULL); /* steps do not nest */
    assert(c->in == NULL);
    assert(out->records->mem == c->mem); /* or what is reserved would not be for them */
    assert(out->arena->mem == c->mem);
    if (!reserve_step(c, in, out)) return E_NOMEM;
    uint64_t seq = c->seq;
    uint32_t records_n = out->records_n;
    c->now_ns = in->now_ns;
    c->lsn = in->lsn;
    c->in = in;
    c->out = out;
    c->ids_made = 0;
    arena_reset(&c->temporary);
    dispatch(c, in);
    assert(!out->records->failed);
    assert(c->seq - seq == out->records_n - records_n); /* what was applied was written */
    c->in = NULL;
    c->out = NULL;
    return OK;
}

/* ---- recovery ---- */

void core_set_epoch(struct core *c, uint32_t epoch)
{
    assert(epoch >= c->options.epoch);
    assert(c->out == NULL);
    c->options.epoch = epoch;
}

enum status core_apply_waiting(struct core *c, struct place place, const struct record *record)
{
    assert(c->out == NULL);
    c->lsn = place.lsn;
    c->place = place;
    c->is_recovering = true;
    if (record->kind != RECORD_QUEUED && record->kind != RECORD_ADMITTED) return OK;
    if (c->backlog == NULL) return E_CORRUPT; /* nobody has put anything off */
    if (record->kind == RECORD_ADMITTED) {
        admitted_apply(c, record);
        return OK;
    }
    if (!reserve_apply(c, record)) return E_NOMEM;
    arena_reset(&c->temporary);
    if (!record_is_valid(c, NULL, record)) return E_CORRUPT;
    apply(c, record);
    return OK;
}

enum status core_apply(struct core *c, struct place place, const struct record *record)
{
    assert(c->out == NULL);
    assert(c->in == NULL);
    if (record->kind == RECORD_QUEUED) return core_apply_waiting(c, place, record);
    if (record->kind == RECORD_ADMITTED && c->backlog == NULL) return E_CORRUPT;
    c->lsn = place.lsn;
    c->place = place;
    c->is_recovering = true;
    const struct instance *i = NULL;
    if (record->kind >= RECORD_PARTITION_FIRST) {
        if (record->seq <= c->partition_seq) return OK;
    } else {
        i = instance_find(c, record->key);
        if (i != NULL && record->seq <= i->seq) {
            if (record->kind == RECORD_ADMITTED) admitted_apply(c, record);
            return OK;
        }
    }
    /* before the check: without memory a good record would look damaged */
    if (!reserve_apply(c, record)) return E_NOMEM;
    arena_reset(&c->temporary);
    if (!record_is_valid(c, i, record)) return E_CORRUPT;
    apply(c, record);
    assert(c->seq >= record->seq);
    (void)core_rest(c); /* or all partitions together would keep much more than a host does */
    return OK;
}

void core_resume(struct core *c, int64_t now_ns, struct output *out)
{
    assert(c->out == NULL);
    assert(out != NULL);
    if (now_ns > c->now_ns) c->now_ns = now_ns;
    c->is_recovering = false;
    c->out = out;
    arena_reset(&c->temporary);
    queues_announce(c);
    outbox_resend(c, true);
    assert(c->in == NULL); /* it only says again what was decided before */
    c->out = NULL;
}

/* ---- the partition's own state ---- */

/* Version 2 has sources, and what waits in the journal. */
#define PARTITION_VERSION 2

void core_partition_snapshot(struct core *c, struct buffer *out)
{
    assert(c->out == NULL);             /* between steps, or half of one would be archived */
    assert(c->partition_seq <= c->seq); /* or core_partition_load() would refuse it */
    assert(c->seq <= RECORD_SEQ_MAX);
    buffer_u8(out, PARTITION_VERSION);
    buffer_varint(out, c->seq);
    buffer_varint(out, c->partition_seq);
    buffer_u64(out, (uint64_t)c->now_ns);
    outbox_snapshot(c, out);
    uint64_t waiting_lsn = UINT64_MAX;
    if (c->backlog != NULL) waiting_lsn = backlog_partition_lsn(c->backlog, c->options.partition);
    buffer_varint(out, waiting_lsn == UINT64_MAX ? 0 : waiting_lsn);
    sources_snapshot(c, out);
    c->partition_dirty_lsn = 0;
    c->snapshot_seq = c->seq;
}

bool core_partition_is_dirty(const struct core *c)
{
    assert(c->snapshot_seq <= c->seq);
    return c->snapshot_seq != c->seq;
}

enum status core_partition_load(struct core *c, struct bytes snapshot)
{
    assert(c->letters_n == 0); /* once, before all records */
    assert(c->sources.n == 0);
    assert(c->out == NULL);
    struct reader r = reader_make(snapshot);
    uint8_t version = reader_u8(&r);
    if (version > PARTITION_VERSION) return E_VERSION;
    c->is_recovering = true;
    c->seq = reader_varint(&r);
    c->snapshot_seq = c->seq;
    c->partition_seq = reader_varint(&r);
    c->now_ns = (int64_t)reader_u64(&r);
    if (r.failed || c->seq > RECORD_SEQ_MAX || c->partition_seq > c->seq) return E_CORRUPT;
    /* a letter is larger in memory than in the snapshot */
    if (!reserve_load(c, 32 * snapshot.len)) return E_NOMEM;
    enum status status = outbox_load(c, &r);
    if (status == OK && version >= 2) {
        uint64_t waiting_lsn = reader_varint(&r);
        c->waiting_lsn = waiting_lsn == 0 ? UINT64_MAX : waiting_lsn;
        status = sources_load(c, &r);
    }
    if (status == OK && !reader_is_done(&r)) status = E_CORRUPT;
    return status;
}

uint64_t core_waiting_lsn(const struct core *c) { return c->waiting_lsn; }

uint64_t core_seq(const struct core *c) { return c->seq; }

int64_t core_wake_at_ms(const struct core *c)
{
    const struct heap_node *first = heap_min(&c->due);
    int64_t wake_ms = outbox_wake_ms(c);
    return first != NULL && first->key < wake_ms ? first->key : wake_ms;
}

const struct core_stats *core_stats(const struct core *c) { return &c->stats; }

int64_t core_now_ns(const struct core *c) { return c->now_ns; }

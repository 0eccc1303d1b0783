/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace: one number over every step of every core and every durable frame. Two runs of a seed
 * must give the same one, whatever the compiler and its options.
 *
 * core_step() is wrapped by the linker (--wrap=core_step), so that production code needs no hook:
 * this is also the place where a step's allocations are made to fail.
 */
#include "test/sim/sim_trace.h"

#include "base/mem.h"
#include "core/core.h"
#include "test/sim/sim_node.h"

enum status __real_core_step(struct core *c, const struct input *in, struct output *out);
enum status __wrap_core_step(struct core *c, const struct input *in, struct output *out);

static void mix(struct trace *t, uint64_t value)
{
    t->hash ^= value;
    t->hash *= UINT64_C(0x9e3779b97f4a7c15);
    t->hash ^= t->hash >> 29;
}

static struct bytes input_key(const struct input *in)
{
    switch (in->kind) {
    case INPUT_CLIENT_START: return in->start.key;
    case INPUT_CLIENT_RAISE:
    case INPUT_CLIENT_TERMINATE:
    case INPUT_CLIENT_SUSPEND:
    case INPUT_CLIENT_RESUME:
    case INPUT_CLIENT_REWIND:
    case INPUT_CLIENT_RESTART:
    case INPUT_CLIENT_PURGE:
    case INPUT_CLIENT_RESUBMIT:
    case INPUT_CLIENT_IMPORT: return in->client.key;
    case INPUT_CLIENT_SIGNAL: return in->signal.key;
    case INPUT_WORKER_TAKE: return in->take.queue;
    case INPUT_WORKER_TURN_DONE:
    case INPUT_WORKER_ENTITY_DONE:
    case INPUT_WORKER_TASK_DONE: return in->done.has_ref ? in->done.ref.key : in->done.key;
    case INPUT_WORKER_ABANDON:
    case INPUT_WORKER_RENEW: return in->lease.ref.key;
    case INPUT_CLOCK_TICK: return BYTES_NONE;
    case INPUT_PARTITION_MESSAGE: return in->message.target;
    case INPUT_BACKLOG_ADMIT:
    case INPUT_BACKLOG_CARRY: return in->record;
    case INPUT_SOURCE_POSITION: return in->position.source;
    case INPUT_PARTITION_ACK: return BYTES_NONE;
    }
    return BYTES_NONE;
}

void trace_frame(struct world *w, uint32_t shard, uint64_t lsn, uint64_t payload_hash)
{
    w->trace.frames_n++;
    mix(&w->trace, lsn << 1 | shard);
    mix(&w->trace, payload_hash);
}

enum status __wrap_core_step(struct core *c, const struct input *in, struct output *out)
{
    struct world *w = sim_current;
    struct trace *t = &w->trace;

    uint32_t records_n = out->records_n;

    mix(t, (uint64_t)in->kind);
    mix(t, (uint64_t)in->now_ns);
    mix(t, bytes_hash(input_key(in)));

    struct bytes key = input_key(in);
    sim_say(w, SIM_LOG_FULL, "step", "%s %.*s", input_name(in->kind), (int)key.len,
            key.len == 0 ? "" : (const char *)key.ptr);
    struct mem *mem = node_running_mem(w);
    if (mem != NULL && fault_hits(w, FAULT_KIND_NO_MEMORY)) {
        mem->fail_at = 1 + rng_below(&w->rng, 16);
        mem->fail_forever = rng_chance(&w->rng, 500);
    }
    enum status status = __real_core_step(c, in, out);
    if (mem != NULL) mem->fail_at = 0;
    /* A tick that finds nothing due is the passing of time, not an event. */
    if (in->kind == INPUT_CLOCK_TICK && out->records_n == records_n) return status;
    t->steps_n++;
    t->input_n[in->kind]++;
    return status;
}

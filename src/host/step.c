/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the cores, and what becomes of their effects. Three kinds never leave the process and
 * are used at once: READY goes to the dispatcher, REPLY completes the request that is being
 * stepped, STATUS completes the requests that waited for it; the answers then wait in the batch.
 * All others wait in the batch as they are, and so does STATUS while somebody watches the feed.
 */
#include "host/state.h"

#define TICKS_N_MAX 64u /* of one partition in one turn; the next turn goes on */
#define TICK_RETRY_NS (100 * NS_PER_MS)

static void take_reply(struct host *h, const struct effect *effect, struct request *request)
{
    assert(request != NULL);
    assert(effect->reply.request == h->steps_n);
    request->status = effect->reply.status;
    request->is_stale = effect->reply.is_stale;
    size_t len = strnlen(effect->reply.text, sizeof request->text - 1);
    memcpy(request->text, effect->reply.text, len);
    request->text[len] = '\0';
    memcpy(request->execution_id, effect->reply.execution_id, EXECUTION_ID_SIZE);
}

/* True when it was used up. */
static bool use_at_once(struct host *h, uint32_t index, struct effect *effect,
                        struct request *request)
{
    switch (effect->kind) {
    case EFFECT_READY:
        if (!dispatcher_ready(&h->dispatcher, index, effect->ready.kind, effect->ready.queue)) {
            host_fatal(h, E_NOMEM, "there is no memory to remember a queue of work");
        }
        return true;
    case EFFECT_REPLY: take_reply(h, effect, request); return true;
    case EFFECT_STATUS:
        requests_notify(h, index, effect->status.key);
        return !feed_wants(h, index, effect);
    case EFFECT_WORK:
    case EFFECT_SEND:
    case EFFECT_ACK:
    case EFFECT_ALERT: return false;
    }
    unreachable("no such effect");
}

void host_collect(struct host *h, uint32_t index, struct request *request)
{
    struct batch *b = h->open;
    struct effect *effect = b->out.first;
    uint32_t replies_n = 0;

    b->out.first = NULL;
    b->out.last = &b->out.first;
    while (effect != NULL) {
        struct effect *next = effect->next;
        if (effect->kind == EFFECT_REPLY) replies_n++;
        if (!use_at_once(h, index, effect, request)) batch_add_effect(b, index, effect);
        effect = next;
    }
    assert(replies_n == (request == NULL ? 0 : 1)); /* every request is answered, once */
}

enum status host_step(struct host *h, uint32_t index, struct input *in, struct request *request)
{
    struct batch *b = h->open;

    assert(!h->is_dead);
    if (!batch_section(b, host_partition(h, index))) return E_NOMEM;
    in->now_ns = h->now_ns;
    in->lsn = b->lsn;
    in->random[0] = rng_u64(&h->rng);
    in->random[1] = rng_u64(&h->rng);
    in->request = request == NULL ? 0 : ++h->steps_n;
    if (request != NULL) request->number = in->request;

    enum status status = core_step(h->cores[index], in, &b->out);
    if (status != OK) {
        assert(status == E_NOMEM);
        assert(b->out.first == NULL);
        return status;
    }
    host_collect(h, index, request);
    if (h->options.check_every_step) core_check(h->cores[index]);
    return OK;
}

/* ---- work for workers ---- */

/* True when the take found work. E_NOMEM leaves everything as it was. */
static enum status take(struct host *h, const struct dispatch *dispatch, bool *got)
{
    struct input in = {
        .kind = INPUT_WORKER_TAKE,
        .take = {.kind = dispatch->kind,
                 .queue = dispatch->queue_key,
                 .worker = dispatch->worker->id,
                 .want_history = dispatch->worker->wants_history},
    };
    size_t effects_n = h->open->effects_n;
    enum status status = host_step(h, dispatch->partition, &in, NULL);
    *got = h->open->effects_n > effects_n;
    return status;
}

void host_dispatch(struct host *h)
{
    struct dispatch dispatch;
    bool got;

    if (h->is_stopping) return;
    while (!host_is_full(h) && dispatcher_next(&h->dispatcher, &dispatch)) {
        if (take(h, &dispatch, &got) != OK) return; /* offered again in the next turn */
        dispatcher_taken(&h->dispatcher, &dispatch, got);
    }
}

/* ---- time ---- */

static void tick_core(struct host *h, uint32_t index)
{
    struct core *c = h->cores[index];
    struct batch *b = h->open;

    for (uint32_t n = 0; n < TICKS_N_MAX && !host_is_full(h); n++) {
        if (core_wake_at_ms(c) > h->now_ns / NS_PER_MS) return;
        struct input in = {.kind = INPUT_CLOCK_TICK};
        b->out.has_more = false;
        if (host_step(h, index, &in, NULL) != OK) {
            h->tick_retry_ns = h->now_ns + TICK_RETRY_NS;
            return;
        }
        if (!b->out.has_more) return;
    }
}

void host_tick(struct host *h)
{
    if (h->now_ns < h->tick_retry_ns) return;
    for (uint32_t index = 0; index < h->cores_n; index++) tick_core(h, index);
}

bool host_tell_time(struct host *h)
{
    for (uint32_t index = 0; index < h->cores_n; index++) {
        if (core_now_ns(h->cores[index]) == h->now_ns) continue;
        struct input in = {.kind = INPUT_CLOCK_TICK};
        if (host_step(h, index, &in, NULL) != OK) return false;
    }
    return true;
}

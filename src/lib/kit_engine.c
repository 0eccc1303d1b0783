/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the core, and what they want done. See kit.h.
 *
 * What happens first when several things could is always the same: messages, then announced work in
 * the order of its announcement, then answers whose time has come, then the clock.
 */
#include "lib/kit.h"

#include "base/clock.h"
#include "lib/memory.h"

#include <stdio.h>

#define EFFECTS_ARENA_SIZE 4096
#define SEED 17
/* Nothing leaves memory, and every message arrives: neither ever matters. */
#define HORIZON_MS 60000
#define RESEND_MS 60000

/* A message or acknowledgement; its bytes behind it. */
struct parcel {
    struct list node;
    size_t size;
    struct input input;
};

struct ready {
    struct list node;
    size_t size;
    enum work_kind kind;
    struct bytes queue;
};

/* ---- life ---- */

static void release_lists(struct norn_test *t)
{
    struct list *node;

    while ((node = list_pop_front(&t->parcels)) != NULL) {
        struct parcel *parcel = container_of(node, struct parcel, node);
        mem_give(&t->mem, parcel, parcel->size);
    }
    while ((node = list_pop_front(&t->ready)) != NULL) {
        struct ready *ready = container_of(node, struct ready, node);
        mem_give(&t->mem, ready, ready->size);
    }
    while ((node = list_pop_front(&t->late)) != NULL) {
        kit_work_free(t, container_of(node, struct kit_work, node));
    }
}

enum status kit_engine_open(struct norn_test *t)
{
    struct core_options options = {
        .partitions_n = 1,
        .epoch = 1,
        .mem = &t->core_mem,
        .map_seed = {SEED, SEED},
        .resend_ms = RESEND_MS,
        .horizon_ms = HORIZON_MS,
        .policy = policies_find,
        .policy_user = &t->policies,
    };

    memory_init(&t->core_mem);
    arena_init(&t->effects, &t->core_mem, EFFECTS_ARENA_SIZE);
    buffer_init(&t->records, &t->core_mem);
    list_init(&t->parcels);
    list_init(&t->ready);
    list_init(&t->late);
    rng_init(&t->rng, SEED);
    t->lsn = 0;
    t->now_ms = KIT_START_MS;
    return core_new(&options, &t->core);
}

void kit_engine_close(struct norn_test *t)
{
    release_lists(t);
    if (t->work != NULL) kit_work_free(t, t->work);
    t->work = NULL;
    if (t->core != NULL) core_free(t->core);
    t->core = NULL;
    buffer_release(&t->records);
    arena_release(&t->effects);
    mem_release(&t->core_mem);
}

/* ---- effects ---- */

static struct bytes put(uint8_t **at, struct bytes value)
{
    uint8_t *start = *at;

    if (value.len == 0) return BYTES_NONE;
    memcpy(start, value.ptr, value.len);
    *at += value.len;
    return bytes_make(start, value.len);
}

static bool keep_parcel(struct norn_test *t, const struct effect *e)
{
    bool is_ack = e->kind == EFFECT_ACK;
    size_t size = sizeof(struct parcel);

    if (!is_ack) size += e->send.target.len + e->send.execution.len + e->send.event.len;
    struct parcel *parcel = mem_take_zero(&t->mem, size);
    if (parcel == NULL) return false;
    uint8_t *at = (uint8_t *)(parcel + 1);
    parcel->size = size;
    if (is_ack) {
        parcel->input.kind = INPUT_PARTITION_ACK;
        parcel->input.ack.seq = e->ack.seq;
    } else {
        parcel->input.kind = INPUT_PARTITION_MESSAGE;
        parcel->input.message.seq = e->send.seq;
        parcel->input.message.kind = e->send.kind;
        parcel->input.message.target = put(&at, e->send.target);
        parcel->input.message.execution = put(&at, e->send.execution);
        parcel->input.message.event = put(&at, e->send.event);
    }
    list_push_back(&t->parcels, &parcel->node);
    return true;
}

static bool keep_ready(struct norn_test *t, const struct effect *e)
{
    size_t size = sizeof(struct ready) + e->ready.queue.len;
    struct ready *ready = mem_take_zero(&t->mem, size);

    if (ready == NULL) return false;
    uint8_t *at = (uint8_t *)(ready + 1);
    ready->size = size;
    ready->kind = e->ready.kind;
    ready->queue = put(&at, e->ready.queue);
    list_push_back(&t->ready, &ready->node);
    return true;
}

static bool take_effect(struct norn_test *t, const struct effect *e)
{
    switch (e->kind) {
    case EFFECT_REPLY:
        t->has_reply = true;
        t->reply = e->reply.status;
        (void)snprintf(t->reply_text, sizeof t->reply_text, "%s", e->reply.text);
        return true;
    case EFFECT_READY: return keep_ready(t, e);
    case EFFECT_WORK: t->work = kit_work_new(t, &e->work); return t->work != NULL;
    case EFFECT_SEND:
    case EFFECT_ACK: return keep_parcel(t, e);
    case EFFECT_STATUS:
    case EFFECT_ALERT: return true; /* whoever wants to know looks */
    }
    unreachable("no such effect");
}

enum status kit_step(struct norn_test *t, struct input *in)
{
    struct output out;

    in->now_ns = t->now_ms * NS_PER_MS;
    in->lsn = ++t->lsn;
    in->random[0] = rng_u64(&t->rng);
    in->random[1] = rng_u64(&t->rng);
    in->request = 1;
    t->has_reply = false;
    t->reply = OK;
    t->reply_text[0] = '\0';
    arena_reset(&t->effects);
    buffer_clear(&t->records);
    output_init(&out, &t->records, &t->effects);
    enum status status = core_step(t->core, in, &out);
    t->has_more = out.has_more;
    for (const struct effect *e = out.first; status == OK && e != NULL; e = e->next) {
        if (!take_effect(t, e)) status = E_NOMEM;
    }
    return status;
}

/* ---- going on ---- */

static enum status deliver(struct norn_test *t)
{
    struct parcel *parcel = container_of(list_pop_front(&t->parcels), struct parcel, node);
    struct input in = parcel->input;

    enum status status = kit_step(t, &in);
    mem_give(&t->mem, parcel, parcel->size);
    return status;
}

static enum status take_and_run(struct norn_test *t)
{
    struct ready *ready = container_of(list_pop_front(&t->ready), struct ready, node);
    struct input in = {.kind = INPUT_WORKER_TAKE};

    in.take.kind = ready->kind;
    in.take.queue = ready->queue;
    in.take.worker = 1;
    enum status status = kit_step(t, &in);
    mem_give(&t->mem, ready, ready->size);
    struct kit_work *work = t->work;
    t->work = NULL;
    if (work == NULL) return status; /* what was announced is not wanted any more */
    if (status == OK) return kit_work_run(t, work);
    kit_work_free(t, work);
    return status;
}

static struct kit_work *first_late(const struct norn_test *t)
{
    struct list *node = list_first(&t->late);

    return node == NULL ? NULL : container_of(node, struct kit_work, node);
}

static enum status tick(struct norn_test *t)
{
    struct input in = {.kind = INPUT_CLOCK_TICK};

    return kit_step(t, &in);
}

/* One thing. False: there is none. */
static bool go_on(struct norn_test *t, enum status *status)
{
    struct kit_work *late = first_late(t);

    if (!list_is_empty(&t->parcels)) {
        *status = deliver(t);
    } else if (!list_is_empty(&t->ready)) {
        *status = take_and_run(t);
    } else if (late != NULL && late->answer_at_ms <= t->now_ms) {
        list_remove(&late->node);
        *status = kit_work_answer(t, late);
    } else if (core_wake_at_ms(t->core) <= t->now_ms) {
        *status = tick(t);
    } else {
        return false;
    }
    return true;
}

enum status kit_settle(struct norn_test *t)
{
    enum status status = OK;

    if (t->is_settling) return OK;
    t->is_settling = true;
    while (status == OK && go_on(t, &status)) {
        if (status != OK || ++t->steps_n < KIT_STEPS_MAX) continue;
        kit_say(t, "it does not come to rest: %u steps at once", KIT_STEPS_MAX);
        status = E_LIMIT;
    }
    t->is_settling = false;
    return status;
}

/* When something happens next, and at which time it counts as due: a timer fires in the
 * millisecond after its time, and who moves the clock to that time means to see it fire. */
static int64_t next_ms(const struct norn_test *t, int64_t *due_ms)
{
    int64_t wake_ms = core_wake_at_ms(t->core);
    const struct kit_work *late = first_late(t);

    *due_ms = wake_ms - (wake_ms < INT64_MAX);
    if (late == NULL || late->answer_at_ms >= wake_ms) return wake_ms;
    *due_ms = late->answer_at_ms;
    return late->answer_at_ms;
}

enum status kit_go_to(struct norn_test *t, int64_t at_ms, bool (*is_over)(void *user), void *user)
{
    enum status status = kit_settle(t);

    if (at_ms > KIT_END_MS) at_ms = KIT_END_MS;
    while (status == OK) {
        if (is_over != NULL && is_over(user)) return OK;
        int64_t due_ms;
        int64_t next = next_ms(t, &due_ms);
        if (due_ms > at_ms) break;
        if (next > t->now_ms) {
            t->now_ms = next;
            t->steps_n = 0;
        }
        status = kit_settle(t);
    }
    if (status == OK && at_ms > t->now_ms) t->now_ms = at_ms;
    return status;
}

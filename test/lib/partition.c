/* SPDX-License-Identifier: Apache-2.0
 *
 * The kit behind partition.h.
 */
#include "test/lib/partition.h"

#include "base/text.h"

#include "base/assert.h"
#include "base/clock.h"
#include "test/lib/history_text.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- life ---- */

static const struct policy *policy_by_name(void *user, struct bytes name)
{
    const struct kit *k = user;
    for (uint32_t n = 0; n < k->policies_n; n++) {
        if (bytes_equal(k->policies[n].name, name)) return &k->policies[n].policy;
    }
    return &policy_default;
}

static struct backlog *backlog_make(struct kit *k, struct mem *mem)
{
    struct backlog *b = NULL;
    if (!k->has_limits) return NULL;
    struct backlog_options options = k->limits;
    options.mem = mem;
    options.partitions_n = k->partitions_n;
    options.seed[0] = rng_u64(&k->rng); /* another process has another */
    enum status status = backlog_new(&options, &b);
    assert(status == OK);
    return b;
}

static struct core *core_make(struct kit *k, uint32_t partition, struct mem *mem,
                              struct backlog *backlog)
{
    struct core_options options = {
        .partition = partition,
        .partitions_n = k->partitions_n,
        .epoch = k->partitions[partition].epoch,
        .mem = mem,
        .map_seed = {17, 42},
        .policy = policy_by_name,
        .policy_user = k,
        .jitter_percent = k->jitter_percent,
        .resend_ms = KIT_RESEND_MS,
        .horizon_ms = KIT_HORIZON_MS,
        .parked_n_max = k->parked_n_max,
        .backlog = backlog,
    };
    struct core *c = NULL;
    enum status status = core_new(&options, &c);
    assert(status == OK);
    return c;
}

struct kit *kit_new(uint32_t partitions_n, uint64_t seed)
{
    assert(partitions_n > 0);
    assert(partitions_n <= KIT_PARTITIONS_MAX);
    struct kit *k = mem_take_zero(mem_process(), sizeof *k);
    assert(k != NULL);
    mem_init(&k->mem, SIZE_MAX);
    mem_init(&k->live_mem, SIZE_MAX);
    arena_init(&k->arena, &k->mem, 4096);
    arena_init(&k->output, &k->live_mem, 4096);
    buffer_init(&k->records, &k->live_mem);
    buffer_init(&k->statuses, &k->mem);
    buffer_init(&k->alerts, &k->mem);
    rng_init(&k->rng, seed);
    k->partitions_n = partitions_n;
    k->now_ns = KIT_START_MS * NS_PER_MS;
    k->is_thorough = true;
    k->worker = 1;
    for (uint32_t p = 0; p < partitions_n; p++) {
        k->partitions[p].epoch = 1;
        buffer_init(&k->partitions[p].journal, &k->mem);
        buffer_init(&k->partitions[p].places, &k->mem);
        k->partitions[p].live = core_make(k, p, &k->live_mem, NULL);
        k->partitions[p].shadow = core_make(k, p, &k->mem, NULL);
    }
    return k;
}

static void cores_free(struct kit_partition *part)
{
    core_free(part->live);
    core_free(part->shadow);
    if (part->live_backlog != NULL) backlog_free(part->live_backlog);
    if (part->shadow_backlog != NULL) backlog_free(part->shadow_backlog);
}

void kit_limits(struct kit *k, struct backlog_options limits)
{
    k->has_limits = true;
    k->limits = limits;
    for (uint32_t p = 0; p < k->partitions_n; p++) {
        struct kit_partition *part = &k->partitions[p];
        assert(part->journal.len == 0);
        cores_free(part);
        part->live_backlog = backlog_make(k, &k->live_mem);
        part->shadow_backlog = backlog_make(k, &k->mem);
        part->live = core_make(k, p, &k->live_mem, part->live_backlog);
        part->shadow = core_make(k, p, &k->mem, part->shadow_backlog);
    }
}

void kit_free(struct kit *k)
{
    for (uint32_t p = 0; p < k->partitions_n; p++) {
        cores_free(&k->partitions[p]);
        buffer_release(&k->partitions[p].journal);
        buffer_release(&k->partitions[p].places);
    }
    buffer_release(&k->alerts);
    buffer_release(&k->statuses);
    buffer_release(&k->records);
    arena_release(&k->output);
    arena_release(&k->arena);
    mem_release(&k->live_mem);
    mem_release(&k->mem);
    mem_give(mem_process(), k, sizeof *k);
}

/* Keeps bytes until kit_free(); never NULL, so that an empty text is one. */
static struct bytes keep(struct kit *k, struct bytes value)
{
    char *copy = arena_text(&k->arena, value);
    assert(copy != NULL);
    return bytes_make(copy, value.len);
}

static void *keep_object(struct kit *k, size_t size)
{
    void *object = arena_alloc_zero(&k->arena, size);
    assert(object != NULL);
    return object;
}

void kit_policy(struct kit *k, const char *name, struct policy policy)
{
    assert(k->policies_n < KIT_POLICIES_MAX);
    k->policies[k->policies_n].name = keep(k, bytes_of_text(name));
    k->policies[k->policies_n++].policy = policy;
}

uint32_t kit_partition_of(const struct kit *k, struct bytes key)
{
    return (uint32_t)(bytes_hash(key) % k->partitions_n);
}

struct core *kit_core(struct kit *k, const char *key)
{
    return k->partitions[kit_partition_of(k, bytes_of_text(key))].live;
}

/* ---- the promises of every step ---- */

/* The records of a step, whose places are remembered. */
static void apply_step(struct core *c, uint64_t lsn, struct bytes records, struct buffer *places,
                       uint32_t *n)
{
    struct reader r = reader_make(records);
    while (reader_left(&r) > 0) {
        struct record record;
        const uint8_t *at = r.at;
        enum status status = record_decode(&r, &record);
        assert(status == OK);
        struct place place = {lsn, (uint32_t)(at - records.ptr), (uint32_t)(r.at - at)};
        status = core_apply(c, place, &record);
        assert(status == OK);
        buffer_append(places, &place, sizeof place);
        (*n)++;
    }
}

/* All there were, as recovery does it; only_waiting: only what they say of starts that wait, from
 * this frame on. */
static void apply_journal(struct core *c, const struct kit_partition *part, bool only_waiting,
                          uint64_t from_lsn)
{
    struct reader r = reader_make(buffer_view(&part->journal));
    const uint8_t *at = part->places.ptr;
    for (; reader_left(&r) > 0; at += sizeof(struct place)) {
        struct record record;
        struct place place;
        memcpy(&place, at, sizeof place);
        enum status status = record_decode(&r, &record);
        assert(status == OK);
        if (!only_waiting) status = core_apply(c, place, &record);
        if (only_waiting && place.lsn >= from_lsn) status = core_apply_waiting(c, place, &record);
        assert(status == OK);
    }
}

static void check_encoding(struct kit *k, struct bytes records)
{
    struct reader r = reader_make(records);
    struct buffer again;
    buffer_init(&again, &k->mem);
    while (reader_left(&r) > 0) {
        const uint8_t *start = r.at;
        struct record record;
        enum status status = record_decode(&r, &record);
        assert(status == OK);
        buffer_clear(&again);
        record_encode(&again, &record);
        assert(bytes_equal(buffer_view(&again), bytes_make(start, (size_t)(r.at - start))));
    }
    buffer_release(&again);
}

static void expect_same_view(const struct instance_view *a, const struct instance_view *b)
{
    assert(bytes_equal(a->key, b->key));
    assert(memcmp(a->execution_id, b->execution_id, EXECUTION_ID_SIZE) == 0);
    assert(a->seq == b->seq);
    assert(a->status == b->status);
    assert(a->is_terminal == b->is_terminal);
    assert(bytes_equal(a->name, b->name));
    assert(a->version.has == b->version.has);
    assert(bytes_equal(a->version.value, b->version.value));
    assert(a->input.has == b->input.has);
    assert(bytes_equal(a->input.value, b->input.value));
    assert(a->output.has == b->output.has);
    assert(bytes_equal(a->output.value, b->output.value));
    assert(a->failure.has == b->failure.has);
    assert(bytes_equal(a->failure.value, b->failure.value));
    assert(a->custom_status.has == b->custom_status.has);
    assert(bytes_equal(a->custom_status.value, b->custom_status.value));
    assert(bytes_equal(a->parent_id, b->parent_id));
    assert(bytes_equal(a->tags, b->tags));
    assert(a->created_ns == b->created_ns);
    assert(a->completed_ns == b->completed_ns);
    assert(a->scheduled_ms == b->scheduled_ms);
    assert(a->history_n == b->history_n);
    assert(a->inbox_n == b->inbox_n);
    assert(a->is_entity == b->is_entity);
    assert(a->entity_state.has == b->entity_state.has);
    assert(bytes_equal(a->entity_state.value, b->entity_state.value));
    assert(bytes_equal(a->locked_by, b->locked_by));
    assert(a->backlog_n == b->backlog_n);
}

struct round_trip {
    struct kit *k;
    struct core *from;
    struct core *third;
    uint32_t from_p;
    bool has_tombstones;
};

static enum status round_trip_one(void *user, const struct instance_view *view)
{
    struct round_trip *trip = user;
    struct buffer first;
    struct buffer second;
    struct instance_view other;
    struct arena arena;

    if (view->is_purged) {
        trip->has_tombstones = true;
        return OK;
    }
    buffer_init(&first, &trip->k->mem);
    buffer_init(&second, &trip->k->mem);
    arena_init(&arena, &trip->k->mem, 512);
    assert(core_snapshot(trip->from, view->key, &first));
    enum status status = core_load(trip->third, buffer_view(&first), NULL);
    assert(status == OK);
    assert(core_snapshot(trip->third, view->key, &second));
    assert(bytes_equal(buffer_view(&first), buffer_view(&second)));
    status = snapshot_view(buffer_view(&first), &arena, &other);
    assert(status == OK);
    expect_same_view(view, &other);
    assert(core_view(trip->third, view->key, &other));
    expect_same_view(view, &other);
    /* what was due already may be queued after a load, what is not due yet may not differ */
    bool is_limited = trip->k->parked_n_max != 0 && view->is_parked;
    if (!is_limited && view->wake_ms > kit_now_ms(trip->k)) assert(view->wake_ms == other.wake_ms);
    if (other.wake_ms > kit_now_ms(trip->k)) assert(view->wake_ms == other.wake_ms);
    arena_release(&arena);
    buffer_release(&second);
    buffer_release(&first);
    return OK;
}

/* Through snapshots into a third core. The live one's partition snapshot would mark it clean, so
 * the shadow's is taken: it is the same. */
static void check_snapshots(struct kit *k, uint32_t p)
{
    struct kit_partition *part = &k->partitions[p];
    struct round_trip trip = {.k = k, .from = part->live, .from_p = p};
    struct backlog *backlog = backlog_make(k, &k->mem);
    struct buffer partition;

    trip.third = core_make(k, p, &k->mem, backlog);

    buffer_init(&partition, &k->mem);
    core_partition_snapshot(part->shadow, &partition);
    enum status status = core_partition_load(trip.third, buffer_view(&partition));
    assert(status == OK);
    buffer_release(&partition);
    if (backlog != NULL) apply_journal(trip.third, part, true, core_waiting_lsn(trip.third));
    if (backlog != NULL) backlog_sort(backlog);
    status = core_each(part->live, round_trip_one, &trip);
    assert(status == OK);
    core_check(trip.third);
    if (!trip.has_tombstones) assert(core_digest(trip.third) == core_digest(part->live));
    core_free(trip.third);
    if (backlog != NULL) backlog_free(backlog);
}

static void check_step(struct kit *k, uint32_t p, uint32_t records_n)
{
    struct kit_partition *part = &k->partitions[p];
    uint32_t n = 0;
    core_check(part->live);
    check_encoding(k, buffer_view(&k->records));
    apply_step(part->shadow, k->lsn, buffer_view(&k->records), &part->places, &n);
    assert(n == records_n);
    core_check(part->shadow);
    assert(core_digest(part->live) == core_digest(part->shadow));
    buffer_append_bytes(&part->journal, buffer_view(&k->records));
    assert(!part->journal.failed);
    if (k->is_thorough) check_snapshots(k, p);
}

/* ---- effects ---- */

static const struct effect_work *keep_work(struct kit *k, const struct effect_work *work)
{
    struct effect_work *copy = keep_object(k, sizeof *copy);
    *copy = *work;
    copy->ref.key = keep(k, work->ref.key);
    copy->name = keep(k, work->name);
    copy->version.value = keep(k, work->version.value);
    copy->past = keep(k, work->past);
    copy->fresh = keep(k, work->fresh);
    copy->trace.value = keep(k, work->trace.value);
    copy->scheduled = keep(k, work->scheduled);
    copy->state.value = keep(k, work->state.value);
    return copy;
}

static void parcel_add(struct kit *k, const struct kit_parcel *parcel)
{
    struct kit_parcel **at = &k->parcels;
    while (*at != NULL) at = &(*at)->next;
    *at = keep_object(k, sizeof *parcel);
    **at = *parcel;
}

static void on_send(struct kit *k, uint32_t from, const struct effect *e)
{
    struct kit_parcel parcel = {.to = e->send.to, .input = {.kind = INPUT_PARTITION_MESSAGE}};
    parcel.input.message.from = from;
    parcel.input.message.seq = e->send.seq;
    parcel.input.message.kind = e->send.kind;
    parcel.input.message.target = keep(k, e->send.target);
    parcel.input.message.execution = keep(k, e->send.execution);
    parcel.input.message.event = keep(k, e->send.event);
    parcel_add(k, &parcel);
}

static void on_ready(struct kit *k, uint32_t partition, const struct effect *e)
{
    struct kit_ready **at = &k->ready;
    while (*at != NULL) at = &(*at)->next;
    *at = keep_object(k, sizeof **at);
    **at = (struct kit_ready){
        .partition = partition, .kind = e->ready.kind, .queue = keep(k, e->ready.queue)};
}

static void on_reply(struct kit *k, const struct effect *e)
{
    assert(!k->has_reply); /* one request, one reply */
    k->has_reply = true;
    k->status = e->reply.status;
    k->is_stale = e->reply.is_stale;
    k->text = (const char *)keep(k, bytes_of_text(e->reply.text)).ptr;
    memcpy(k->execution_id, e->reply.execution_id, EXECUTION_ID_SIZE);
}

static void line_add(struct buffer *out, struct bytes key, const char *text)
{
    buffer_append_bytes(out, key);
    buffer_u8(out, ' ');
    buffer_append_bytes(out, bytes_of_text(text));
    buffer_u8(out, '\n');
}

static void on_effect(struct kit *k, uint32_t p, const struct effect *e)
{
    struct kit_parcel ack = {.input = {.kind = INPUT_PARTITION_ACK}};
    switch (e->kind) {
    case EFFECT_REPLY: on_reply(k, e); break;
    case EFFECT_READY: on_ready(k, p, e); break;
    case EFFECT_WORK: k->work = keep_work(k, &e->work); break;
    case EFFECT_SEND: on_send(k, p, e); break;
    case EFFECT_ACK:
        ack.to = e->ack.to;
        ack.input.ack.from = p;
        ack.input.ack.seq = e->ack.seq;
        parcel_add(k, &ack);
        break;
    case EFFECT_STATUS:
        line_add(&k->statuses, e->status.key, orchestration_status_name(e->status.status));
        break;
    case EFFECT_ALERT: line_add(&k->alerts, e->alert.key, e->alert.text); break;
    }
}

/* ---- the step ---- */

/* With the failures of memory that the test asked for. */
static enum status try_step(struct kit *k, struct core *c, const struct input *in,
                            struct output *out)
{
    uint64_t before = k->fail_at == 0 ? 0 : core_digest(c);
    k->live_mem.fail_at = k->fail_at;
    k->live_mem.fail_forever = k->fail_forever;
    if (k->room != 0) k->live_mem.limit = k->live_mem.used + k->room;
    enum status status = core_step(c, in, out);
    k->live_mem.limit = SIZE_MAX;
    k->fail_at = k->live_mem.fail_at;
    k->live_mem.fail_at = 0;
    if (status == OK) return OK;
    assert(status == E_NOMEM);
    assert(out->first == NULL);
    assert(out->records_n == 0);
    assert(out->records->len == 0);
    assert(!out->records->failed);
    assert(core_digest(c) == before);
    core_check(c);
    k->nomem_n++;
    k->fail_at = 0;
    return status;
}

enum status kit_step(struct kit *k, uint32_t p, struct input *in)
{
    struct output out;
    assert(p < k->partitions_n);
    in->now_ns = k->now_ns;
    in->lsn = ++k->lsn;
    in->random[0] = rng_u64(&k->rng);
    in->random[1] = rng_u64(&k->rng);
    arena_reset(&k->output);
    buffer_clear(&k->records);
    output_init(&out, &k->records, &k->output);
    if (try_step(k, k->partitions[p].live, in, &out) != OK) {
        enum status status = try_step(k, k->partitions[p].live, in, &out);
        assert(status == OK);
    }
    check_step(k, p, out.records_n);
    k->records_n = out.records_n;
    k->has_reply = false;
    k->work = NULL;
    k->has_more = out.has_more;
    for (const struct effect *e = out.first; e != NULL; e = e->next) on_effect(k, p, e);
    if (in->request != 0 && in->kind != INPUT_WORKER_TAKE) assert(k->has_reply);
    return k->has_reply ? k->status : OK;
}

enum status kit_step_for(struct kit *k, struct bytes key, struct input *in)
{
    in->request = 1;
    enum status status = kit_step(k, kit_partition_of(k, key), in);
    const char *text = k->text;
    if (!k->is_held) kit_deliver(k);
    k->text = text;
    return status;
}

/* ---- clients ---- */

struct maybe maybe_text(const char *text)
{
    return text == NULL ? MAYBE_NONE : maybe_some(bytes_of_text(text));
}

enum status kit_start_with(struct kit *k, struct input_start start)
{
    struct input in = {.kind = INPUT_CLIENT_START, .start = start};
    return kit_step_for(k, start.key, &in);
}

enum status kit_start(struct kit *k, const char *key, const char *name, const char *input)
{
    struct input_start start = {
        .key = bytes_of_text(key), .name = bytes_of_text(name), .input = maybe_text(input)};
    return kit_start_with(k, start);
}

static enum status control(struct kit *k, enum input_kind kind, const char *key, const char *data)
{
    struct input in = {.kind = kind};
    in.client.key = bytes_of_text(key);
    in.client.data = maybe_text(data);
    return kit_step_for(k, in.client.key, &in);
}

enum status kit_raise(struct kit *k, const char *key, const char *name, const char *data)
{
    struct input in = {.kind = INPUT_CLIENT_RAISE};
    in.client.key = bytes_of_text(key);
    in.client.name = bytes_of_text(name);
    in.client.data = maybe_text(data);
    return kit_step_for(k, in.client.key, &in);
}

enum status kit_terminate(struct kit *k, const char *key, const char *output, bool recurse)
{
    struct input in = {.kind = INPUT_CLIENT_TERMINATE};
    in.client.key = bytes_of_text(key);
    in.client.data = maybe_text(output);
    in.client.recurse = recurse;
    return kit_step_for(k, in.client.key, &in);
}

enum status kit_suspend(struct kit *k, const char *key, const char *reason)
{
    return control(k, INPUT_CLIENT_SUSPEND, key, reason);
}

enum status kit_resume(struct kit *k, const char *key, const char *reason)
{
    return control(k, INPUT_CLIENT_RESUME, key, reason);
}

enum status kit_rewind(struct kit *k, const char *key, const char *reason)
{
    return control(k, INPUT_CLIENT_REWIND, key, reason);
}

enum status kit_restart(struct kit *k, const char *key)
{
    return control(k, INPUT_CLIENT_RESTART, key, NULL);
}

enum status kit_purge(struct kit *k, const char *key)
{
    return control(k, INPUT_CLIENT_PURGE, key, NULL);
}

enum status kit_purge_forced(struct kit *k, const char *key)
{
    struct input in = {.kind = INPUT_CLIENT_PURGE};
    in.client.key = bytes_of_text(key);
    in.client.is_forced = true;
    return kit_step_for(k, in.client.key, &in);
}

enum status kit_resubmit(struct kit *k, const char *key, int32_t task_id)
{
    struct input in = {.kind = INPUT_CLIENT_RESUBMIT};
    in.client.key = bytes_of_text(key);
    in.client.task_id = task_id;
    return kit_step_for(k, in.client.key, &in);
}

/* ---- workers ---- */

static bool is_of_name(struct bytes queue, const char *name)
{
    struct reader r = reader_make(queue);
    (void)reader_u8(&r);
    (void)reader_bytes(&r); /* hub */
    return bytes_equal(reader_bytes(&r), bytes_of_text(name));
}

/* READY announces one piece of work, which may be gone when it is asked for. */
const struct effect_work *kit_take(struct kit *k, enum work_kind kind, const char *name)
{
    struct kit_ready **at = &k->ready;
    while (*at != NULL) {
        const struct kit_ready *ready = *at;
        if (ready->kind != kind || !is_of_name(ready->queue, name)) {
            at = &(*at)->next;
            continue;
        }
        *at = ready->next;
        struct input in = {.kind = INPUT_WORKER_TAKE};
        in.take.kind = kind;
        in.take.queue = ready->queue;
        in.take.worker = k->worker;
        in.take.want_history = !k->is_without_past;
        kit_step(k, ready->partition, &in);
        if (k->work != NULL) return k->work;
    }
    return NULL;
}

const struct effect_work *kit_take_turn(struct kit *k, const char *name)
{
    return kit_take(k, WORK_TURN, name);
}

const struct effect_work *kit_take_task(struct kit *k, const char *name)
{
    return kit_take(k, WORK_TASK, name);
}

const struct effect_work *kit_must(const struct effect_work *work)
{
    assert(work != NULL); /* the test expects that there is work */
    return work;
}

enum status kit_answer_with(struct kit *k, const struct effect_work *work,
                            const struct orchestrator_answer *answer)
{
    struct input in = {.kind = INPUT_WORKER_TURN_DONE};
    in.done.has_ref = true;
    in.done.ref = work->ref;
    in.done.answer = answer;
    return kit_step_for(k, work->ref.key, &in);
}

static struct orchestrator_answer answer_of(struct kit *k, const struct action *actions, uint32_t n)
{
    struct orchestrator_answer answer = {.actions_n = n};
    if (n == 0) return answer;
    answer.actions = keep_object(k, n * sizeof *actions);
    memcpy(answer.actions, actions, n * sizeof *actions);
    return answer;
}

enum status kit_answer(struct kit *k, const struct effect_work *work, const struct action *actions,
                       uint32_t actions_n)
{
    struct orchestrator_answer answer = answer_of(k, actions, actions_n);
    return kit_answer_with(k, work, &answer);
}

enum status kit_answer_plain(struct kit *k, const char *key, const struct action *actions,
                             uint32_t actions_n)
{
    struct orchestrator_answer answer = answer_of(k, actions, actions_n);
    struct input in = {.kind = INPUT_WORKER_TURN_DONE};
    in.done.key = bytes_of_text(key);
    in.done.answer = &answer;
    return kit_step_for(k, in.done.key, &in);
}

enum status kit_task_done(struct kit *k, const struct effect_work *work, const char *result)
{
    struct input in = {.kind = INPUT_WORKER_TASK_DONE};
    in.done.has_ref = true;
    in.done.ref = work->ref;
    in.done.result = maybe_text(result);
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_task_failed(struct kit *k, const struct effect_work *work, const char *message,
                            bool is_final)
{
    struct buffer failure;
    struct input in = {.kind = INPUT_WORKER_TASK_DONE};
    buffer_init(&failure, &k->mem);
    failure_write(&failure, "TestError", bytes_of_text(message), is_final);
    in.done.has_ref = true;
    in.done.ref = work->ref;
    in.done.failure = maybe_some(buffer_view(&failure));
    enum status status = kit_step_for(k, work->ref.key, &in);
    buffer_release(&failure);
    return status;
}

enum status kit_task_done_plain(struct kit *k, const char *key, int32_t task_id, const char *result)
{
    struct input in = {.kind = INPUT_WORKER_TASK_DONE};
    in.done.key = bytes_of_text(key);
    in.done.task_id = task_id;
    in.done.result = maybe_text(result);
    return kit_step_for(k, in.done.key, &in);
}

enum status kit_abandon(struct kit *k, const struct effect_work *work, const char *reason)
{
    struct input in = {.kind = INPUT_WORKER_ABANDON};
    in.lease.ref = work->ref;
    in.lease.is_lost = reason == NULL;
    in.lease.reason = maybe_text(reason).value;
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_return(struct kit *k, const struct effect_work *work)
{
    struct input in = {.kind = INPUT_WORKER_ABANDON};
    in.lease.ref = work->ref;
    in.lease.is_unsent = true;
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_park(struct kit *k, const struct effect_work *work, const char *reason)
{
    struct input in = {.kind = INPUT_WORKER_ABANDON};
    in.lease.ref = work->ref;
    in.lease.is_parked = true;
    in.lease.reason = bytes_of_text(reason);
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_renew(struct kit *k, const struct effect_work *work, int64_t extend_ms)
{
    struct input in = {.kind = INPUT_WORKER_RENEW};
    in.lease.ref = work->ref;
    in.lease.extend_ms = extend_ms;
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_renew_limit(struct kit *k, const struct effect_work *work, int64_t extend_ms)
{
    struct input in = {.kind = INPUT_WORKER_RENEW};
    in.lease.ref = work->ref;
    in.lease.extend_ms = extend_ms;
    in.lease.is_limit = true;
    return kit_step_for(k, work->ref.key, &in);
}

/* ---- actions ---- */

struct action act_task(int32_t id, const char *name, const char *input)
{
    return (struct action){.kind = ACTION_SCHEDULE_TASK,
                           .id = id,
                           .name = bytes_of_text(name),
                           .input = maybe_text(input)};
}

struct action act_timer(int32_t id, int64_t fire_at_ms)
{
    int64_t ms = fire_at_ms % 1000;
    if (ms < 0) ms += 1000;
    return (struct action){.kind = ACTION_CREATE_TIMER,
                           .id = id,
                           .fire_at_s = (fire_at_ms - ms) / 1000,
                           .fire_at_ns = (int32_t)(ms * NS_PER_MS)};
}

struct action act_child(int32_t id, const char *name, const char *instance_id, const char *input)
{
    return (struct action){.kind = ACTION_CREATE_CHILD,
                           .id = id,
                           .name = bytes_of_text(name),
                           .instance_id = maybe_text(instance_id).value,
                           .input = maybe_text(input)};
}

struct action act_event(int32_t id, const char *target, const char *name, const char *input)
{
    return (struct action){.kind = ACTION_SEND_EVENT,
                           .id = id,
                           .name = bytes_of_text(name),
                           .instance_id = bytes_of_text(target),
                           .input = maybe_text(input)};
}

struct action act_complete(int32_t id, const char *result)
{
    return (struct action){
        .kind = ACTION_COMPLETE, .id = id, .status = STATUS_COMPLETED, .input = maybe_text(result)};
}

/* The bytes of TaskFailureDetails {1 errorType: "E", 2 errorMessage: message} in static memory,
 * which is enough for one answer. */
struct action act_fail(int32_t id, const char *message)
{
    static uint8_t details[128];
    size_t len = strlen(message);
    assert(len < 100);
    memcpy(details, "\x0a\x01\x45\x12", 4);
    details[4] = (uint8_t)len;
    memcpy(details + 5, message, len);
    return (struct action){.kind = ACTION_COMPLETE,
                           .id = id,
                           .status = STATUS_FAILED,
                           .failure = maybe_some(bytes_make(details, 5 + len))};
}

struct action act_continue(int32_t id, const char *input)
{
    return (struct action){.kind = ACTION_COMPLETE,
                           .id = id,
                           .status = STATUS_CONTINUED_AS_NEW,
                           .input = maybe_text(input)};
}

struct action act_terminate(int32_t id, const char *target, const char *reason, bool recurse)
{
    return (struct action){.kind = ACTION_TERMINATE,
                           .id = id,
                           .instance_id = bytes_of_text(target),
                           .input = maybe_text(reason),
                           .recurse = recurse};
}

/* ---- time ---- */

int64_t kit_now_ms(const struct kit *k) { return k->now_ns / NS_PER_MS; }

void kit_tick_once(struct kit *k, int64_t now_ns)
{
    bool has_more = false;
    assert(now_ns >= k->now_ns);
    k->now_ns = now_ns;
    for (uint32_t p = 0; p < k->partitions_n; p++) {
        struct input in = {.kind = INPUT_CLOCK_TICK};
        kit_step(k, p, &in);
        has_more = has_more || k->has_more;
    }
    k->has_more = has_more;
}

static void tick_all(struct kit *k, int64_t now_ms)
{
    int64_t now_ns = now_ms > kit_now_ms(k) ? now_ms * NS_PER_MS : k->now_ns;
    do {
        kit_tick_once(k, now_ns);
    } while (k->has_more);
    if (!k->is_held) kit_deliver(k);
}

static int64_t wake_ms(const struct kit *k)
{
    int64_t least = INT64_MAX;
    for (uint32_t p = 0; p < k->partitions_n; p++) {
        int64_t wake = core_wake_at_ms(k->partitions[p].live);
        if (wake < least) least = wake;
    }
    return least;
}

void kit_tick_to(struct kit *k, int64_t now_ms)
{
    for (int64_t next = wake_ms(k); next < now_ms; next = wake_ms(k)) {
        tick_all(k, next);
        assert(wake_ms(k) > kit_now_ms(k)); /* what was due is done */
    }
    tick_all(k, now_ms);
}

void kit_tick_by(struct kit *k, int64_t ms) { kit_tick_to(k, kit_now_ms(k) + ms); }

/* ---- network ---- */

static struct kit_parcel **parcel_at(struct kit *k, uint32_t n)
{
    struct kit_parcel **at = &k->parcels;
    while (n-- > 0) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    assert(*at != NULL);
    return at;
}

void kit_drop_at(struct kit *k, uint32_t n)
{
    struct kit_parcel **at = parcel_at(k, n);
    *at = (*at)->next;
}

void kit_duplicate_at(struct kit *k, uint32_t n)
{
    struct kit_parcel copy = **parcel_at(k, n);
    copy.next = NULL;
    parcel_add(k, &copy);
}

void kit_deliver_at(struct kit *k, uint32_t n)
{
    struct kit_parcel parcel = **parcel_at(k, n);
    kit_drop_at(k, n);
    kit_step(k, parcel.to, &parcel.input);
}

void kit_deliver(struct kit *k)
{
    while (k->parcels != NULL) kit_deliver_at(k, 0);
}

uint32_t kit_parcels_n(const struct kit *k)
{
    uint32_t n = 0;
    for (const struct kit_parcel *p = k->parcels; p != NULL; p = p->next) n++;
    return n;
}

/* ---- crashes ---- */

static void forget_ready(struct kit *k, uint32_t partition)
{
    struct kit_ready **at = &k->ready;
    while (*at != NULL) {
        if ((*at)->partition == partition)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

static void release_effects(struct kit *k, uint32_t p, const struct output *out)
{
    for (const struct effect *e = out->first; e != NULL; e = e->next) on_effect(k, p, e);
}

void kit_crash(struct kit *k, uint32_t p)
{
    struct kit_partition *part = &k->partitions[p];
    struct output out;

    core_free(part->live);
    if (part->live_backlog != NULL) backlog_free(part->live_backlog);
    forget_ready(k, p);
    part->live_backlog = backlog_make(k, &k->live_mem);
    part->live = core_make(k, p, &k->live_mem, part->live_backlog);
    apply_journal(part->live, part, false, 0);
    if (part->live_backlog != NULL) backlog_sort(part->live_backlog);
    core_set_epoch(part->live, ++part->epoch);
    arena_reset(&k->output);
    buffer_clear(&k->records);
    output_init(&out, &k->records, &k->output);
    core_resume(part->live, k->now_ns, &out);
    assert(out.records_n == 0); /* to come back is no decision */
    core_check(part->live);
    assert(core_digest(part->live) == core_digest(part->shadow));
    release_effects(k, p, &out);
    if (!k->is_held) kit_deliver(k);
}

/* ---- what waits ---- */

struct bytes kit_waiting_record(struct kit *k, uint32_t partition, const struct queued *waiting)
{
    const struct kit_partition *part = &k->partitions[partition];
    struct reader r = reader_make(buffer_view(&part->journal));
    const uint8_t *at = part->places.ptr;
    for (; reader_left(&r) > 0; at += sizeof(struct place)) {
        struct record record;
        struct place place;
        const uint8_t *start = r.at;
        memcpy(&place, at, sizeof place);
        enum status status = record_decode(&r, &record);
        assert(status == OK);
        if (place.lsn != waiting->lsn || place.offset != waiting->offset) continue;
        assert(place.size == waiting->size);
        return keep(k, bytes_make(start, place.size));
    }
    return BYTES_NONE;
}

void kit_bring(struct kit *k, enum input_kind kind, const struct queued *waiting)
{
    struct input in = {.kind = kind};
    in.record = kit_waiting_record(k, waiting->partition, waiting);
    assert(in.record.len > 0);
    enum status status = kit_step(k, waiting->partition, &in);
    assert(status == OK);
    if (!k->is_held) kit_deliver(k);
}

uint32_t kit_admit(struct kit *k, const char *key)
{
    uint32_t p = kit_partition_of(k, bytes_of_text(key));
    struct queued picked[64];
    size_t n = backlog_pick(k->partitions[p].live_backlog, k->now_ns, UINT64_MAX, picked, 64);
    for (size_t i = 0; i < n; i++) kit_bring(k, INPUT_BACKLOG_ADMIT, &picked[i]);
    return (uint32_t)n;
}

#define EVICT_MAX 1024

static void load_back(struct kit *k, uint32_t p, struct bytes snapshot)
{
    struct output out;
    arena_reset(&k->output);
    buffer_clear(&k->records);
    output_init(&out, &k->records, &k->output);
    enum status status = core_load(k->partitions[p].live, snapshot, &out);
    assert(status == OK);
    release_effects(k, p, &out);
}

bool kit_evict(struct kit *k, const char *text)
{
    struct bytes key = bytes_of_text(text);
    struct core *c = kit_core(k, text);
    struct bytes keys[EVICT_MAX];
    struct buffer snapshot;
    struct instance_view view;

    /* the others are taken, but not evicted */
    size_t n = core_archive_pick(c, UINT64_MAX, 0, 0, keys, EVICT_MAX);
    assert(n < EVICT_MAX);
    assert(core_view(c, key, &view));
    buffer_init(&snapshot, &k->mem);
    assert(core_snapshot(c, key, &snapshot));
    bool has_left = core_archived(c, key, view.seq, false, true);
    if (has_left) {
        load_back(k, kit_partition_of(k, key), buffer_view(&snapshot));
        core_check(c);
    }
    buffer_release(&snapshot);
    assert(core_digest(c) == core_digest(k->partitions[kit_partition_of(k, key)].shadow));
    return has_left;
}

/* ---- looking ---- */

static const char *text_of(struct kit *k, struct buffer *b)
{
    const char *text = (const char *)keep(k, buffer_view(b)).ptr;
    assert(!b->failed);
    buffer_release(b);
    return text;
}

bool kit_view(struct kit *k, const char *key, struct instance_view *out)
{
    return core_view(kit_core(k, key), bytes_of_text(key), out) && !out->is_purged;
}

const char *kit_status(struct kit *k, const char *key)
{
    struct instance_view view;
    return kit_view(k, key, &view) ? orchestration_status_name(view.status) : "none";
}

const char *kit_why(struct kit *k, const char *key)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    bool is_there = core_why(kit_core(k, key), bytes_of_text(key), &text);
    assert(is_there == (text.len > 0));
    return text_of(k, &text);
}

const char *kit_bytes(struct kit *k, struct bytes value)
{
    return (const char *)keep(k, value).ptr;
}

const char *kit_maybe(struct kit *k, struct maybe value)
{
    return value.has ? kit_bytes(k, value.value) : "(none)";
}

static const char *events_text(struct kit *k, struct bytes packed)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    history_text(&text, packed);
    return text_of(k, &text);
}

const char *kit_history(struct kit *k, const char *key)
{
    struct buffer events;
    buffer_init(&events, &k->mem);
    core_history(kit_core(k, key), bytes_of_text(key), &events);
    const char *text = events_text(k, buffer_view(&events));
    buffer_release(&events);
    return text;
}

const char *kit_fresh(struct kit *k, const struct effect_work *work)
{
    return events_text(k, work->fresh);
}

const char *kit_past(struct kit *k, const struct effect_work *work)
{
    return events_text(k, work->past);
}

static enum status task_line(void *user, const struct task_view *view)
{
    static const char *const names[] = {"PENDING", "PROCESSING", "WAITING", "ERROR"};
    char line[128];
    int n = snprintf(line, sizeof line, "%d %.*s %s %u\n", view->task_id, (int)view->name.len,
                     (const char *)view->name.ptr, names[view->process], view->failures);
    assert(n > 0);
    assert((size_t)n < sizeof line);
    buffer_append(user, line, (size_t)n);
    return OK;
}

const char *kit_tasks(struct kit *k, const char *key)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    enum status status = core_tasks(kit_core(k, key), bytes_of_text(key), task_line, &text);
    assert(status == OK);
    return text_of(k, &text);
}

static enum status parked_line(void *user, const struct parked_view *view)
{
    buffer_append_bytes(user, view->key);
    buffer_format(user, " %d ", view->task_id);
    buffer_append_bytes(user, view->name);
    buffer_format(user, " %lld ", (long long)(view->since_ms - KIT_START_MS));
    buffer_append_bytes(user, view->text);
    buffer_append(user, "\n", 1);
    return OK;
}

const char *kit_parked(struct kit *k, uint32_t partition)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    enum status status = core_parked(k->partitions[partition].live, parked_line, &text);
    assert(status == OK);
    return text_of(k, &text);
}

static enum status wait_line(void *user, const struct wait_view *view)
{
    static const char *const names[] = {"timer", "child", "entity"};
    buffer_format(user, "%s %d ", names[view->kind], view->id);
    buffer_append_bytes(user, view->instance);
    if (view->kind == WAIT_TIMER)
        buffer_format(user, "%lld", (long long)(view->fire_at_ms - KIT_START_MS));
    buffer_append(user, "\n", 1);
    return OK;
}

const char *kit_waits(struct kit *k, const char *key)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    enum status status = core_waits(kit_core(k, key), bytes_of_text(key), wait_line, &text);
    assert(status == OK);
    return text_of(k, &text);
}

const char *kit_last_error(struct kit *k, const char *key)
{
    return kit_bytes(k, core_last_error(kit_core(k, key), bytes_of_text(key)));
}

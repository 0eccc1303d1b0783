/* SPDX-License-Identifier: Apache-2.0
 *
 * See partition.h: life, steps and their effects, time, the network, crashes.
 */
#include "test/lib/partition_parts.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/text.h"

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

struct backlog *kit_backlog_make(struct kit *k, struct mem *mem)
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

struct core *kit_core_make(struct kit *k, uint32_t partition, struct mem *mem,
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
        k->partitions[p].live = kit_core_make(k, p, &k->live_mem, NULL);
        k->partitions[p].shadow = kit_core_make(k, p, &k->mem, NULL);
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
        part->live_backlog = kit_backlog_make(k, &k->live_mem);
        part->shadow_backlog = kit_backlog_make(k, &k->mem);
        part->live = kit_core_make(k, p, &k->live_mem, part->live_backlog);
        part->shadow = kit_core_make(k, p, &k->mem, part->shadow_backlog);
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
struct bytes kit_keep(struct kit *k, struct bytes value)
{
    char *copy = arena_text(&k->arena, value);
    assert(copy != NULL);
    return bytes_make(copy, value.len);
}

void *kit_keep_object(struct kit *k, size_t size)
{
    void *object = arena_alloc_zero(&k->arena, size);
    assert(object != NULL);
    return object;
}

void kit_policy(struct kit *k, const char *name, struct policy policy)
{
    assert(k->policies_n < KIT_POLICIES_MAX);
    k->policies[k->policies_n].name = kit_keep(k, bytes_of_text(name));
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

/* ---- effects ---- */

static const struct effect_work *keep_work(struct kit *k, const struct effect_work *work)
{
    struct effect_work *copy = kit_keep_object(k, sizeof *copy);
    *copy = *work;
    copy->ref.key = kit_keep(k, work->ref.key);
    copy->name = kit_keep(k, work->name);
    copy->version.value = kit_keep(k, work->version.value);
    copy->past = kit_keep(k, work->past);
    copy->fresh = kit_keep(k, work->fresh);
    copy->trace.value = kit_keep(k, work->trace.value);
    copy->scheduled = kit_keep(k, work->scheduled);
    copy->state.value = kit_keep(k, work->state.value);
    return copy;
}

static void parcel_add(struct kit *k, const struct kit_parcel *parcel)
{
    struct kit_parcel **at = &k->parcels;
    while (*at != NULL) at = &(*at)->next;
    *at = kit_keep_object(k, sizeof *parcel);
    **at = *parcel;
}

static void on_send(struct kit *k, uint32_t from, const struct effect *e)
{
    struct kit_parcel parcel = {.to = e->send.to, .input = {.kind = INPUT_PARTITION_MESSAGE}};
    parcel.input.message.from = from;
    parcel.input.message.seq = e->send.seq;
    parcel.input.message.kind = e->send.kind;
    parcel.input.message.target = kit_keep(k, e->send.target);
    parcel.input.message.execution = kit_keep(k, e->send.execution);
    parcel.input.message.event = kit_keep(k, e->send.event);
    parcel_add(k, &parcel);
}

static void on_ready(struct kit *k, uint32_t partition, const struct effect *e)
{
    struct kit_ready **at = &k->ready;
    while (*at != NULL) at = &(*at)->next;
    *at = kit_keep_object(k, sizeof **at);
    **at = (struct kit_ready){
        .partition = partition, .kind = e->ready.kind, .queue = kit_keep(k, e->ready.queue)};
}

static void on_reply(struct kit *k, const struct effect *e)
{
    assert(!k->has_reply); /* one request, one reply */
    k->has_reply = true;
    k->status = e->reply.status;
    k->is_stale = e->reply.is_stale;
    k->text = (const char *)kit_keep(k, bytes_of_text(e->reply.text)).ptr;
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
    kit_check_step(k, p, out.records_n);
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
    part->live_backlog = kit_backlog_make(k, &k->live_mem);
    part->live = kit_core_make(k, p, &k->live_mem, part->live_backlog);
    kit_apply_journal(part->live, part, false, 0);
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
        return kit_keep(k, bytes_make(start, place.size));
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

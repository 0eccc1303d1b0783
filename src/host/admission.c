/* SPDX-License-Identifier: Apache-2.0
 *
 * See admission.h.
 */
#include "host/admission.h"

#include "base/log.h"
#include "base/planted.h"
#include "host/state.h"

#define JOB_SIZE_MAX ((size_t)8 << 20) /* of records in one job; at least one */
#define ARENA_CHUNK_SIZE ((size_t)64 << 10)
#define RETRY_NS (100 * NS_PER_MS)
#define SINGLE_NS (100 * NS_PER_MS) /* between two, when even the reserve is used up */
#define HOLD_LOGGED_NS (60 * NS_PER_S)
#define MARK_SPACING ((uint64_t)1 << 20)

static void run(struct job *job);
static void done(struct job *job);

enum status admission_init(struct host *h)
{
    struct admission *a = &h->admission;

    a->job = (struct job){.run = run, .done = done};
    a->spacing = MARK_SPACING;
    enum status status = frames_init(&a->frames, h->journal);
    if (status != OK) return status;
    arena_init(&a->arena, &a->frames.mem, ARENA_CHUNK_SIZE);
    return OK;
}

void admission_release(struct host *h)
{
    struct admission *a = &h->admission;

    if (a->arena.mem != NULL) arena_release(&a->arena);
    frames_release(&a->frames);
}

/* ---- what the journal keeps for it ---- */

void admission_frame(struct host *h, uint64_t lsn, size_t size)
{
    struct admission *a = &h->admission;
    uint64_t before = a->bytes;

    a->bytes += size;
    if (a->marks_n > 0 && before - a->marks[a->marks_n - 1].bytes < a->spacing) return;
    /* Those before the oldest that waits are not needed; the last of them is. */
    uint64_t oldest = backlog_lsn(h->backlog);
    uint32_t old_n = 0;
    while (old_n + 1 < a->marks_n && a->marks[old_n + 1].lsn <= oldest) old_n++;
    if (old_n > 0) {
        a->marks_n -= old_n;
        memmove(a->marks, a->marks + old_n, a->marks_n * sizeof *a->marks);
    }
    if (a->marks_n == PIN_MARKS_N) {
        for (uint32_t n = 0; n < PIN_MARKS_N / 2; n++) a->marks[n] = a->marks[2 * n];
        a->marks_n = PIN_MARKS_N / 2;
        a->spacing *= 2;
    }
    a->marks[a->marks_n++] = (struct pin_mark){lsn, before};
}

/* Bytes of the frames before this one, about. */
static uint64_t bytes_before(const struct admission *a, uint64_t lsn)
{
    uint64_t bytes = 0;

    for (uint32_t n = 0; n < a->marks_n && a->marks[n].lsn <= lsn; n++) bytes = a->marks[n].bytes;
    return bytes;
}

uint64_t admission_pinned(const struct host *h)
{
    const struct admission *a = &h->admission;
    uint64_t oldest = backlog_lsn(h->backlog);

    if (oldest > h->lsn_applied) return 0; /* none, or what the archive waits for is older */
    uint64_t upto = h->lsn_applied == h->lsn_durable ? a->bytes : bytes_before(a, h->lsn_applied);
    uint64_t from = bytes_before(a, oldest);
    return upto > from ? upto - from : 0;
}

/* What is carried forward is written again: so the journal may be twice as large as what waits in
 * it before that is done, and each byte is written again for each byte that others wrote. */
static bool is_pinning(const struct host *h)
{
    uint64_t allowed = 2 * backlog_size(h->backlog);

    if (allowed < h->options.carry_size_min) allowed = h->options.carry_size_min;
    return admission_pinned(h) > allowed;
}

/* ---- the job, in its lane ---- */

static void run(struct job *base)
{
    struct admission *a = container_of(base, struct admission, job);
    size_t size = 0;
    uint32_t n = 0;

    a->status = OK;
    for (; n < a->picked_n && (n == 0 || size < a->size_max); n++) {
        struct bytes record;
        a->status = frames_get(&a->frames, &a->picked[n], &record);
        if (a->status == OK) a->records[n] = arena_copy(&a->arena, record);
        if (a->status == OK && a->records[n].len != record.len) a->status = E_NOMEM;
        if (a->status != OK) break;
        size += record.len;
    }
    a->picked_n = n;
    frames_rest(&a->frames);
}

static void done(struct job *base)
{
    container_of(base, struct admission, job)->state = ADMISSION_READ;
}

/* Bytes of records that may come in at once; at least one does. */
static size_t room(const struct host *h)
{
    size_t hot = host_hot_bytes(h);
    size_t hot_max = h->is_holding ? host_hot_reserve_max(h) : h->options.hot_bytes_max;
    size_t left = hot < hot_max ? hot_max - hot : 0;

    return left < JOB_SIZE_MAX ? left : JOB_SIZE_MAX;
}

static void submit(struct host *h, uint32_t n, bool is_carrying)
{
    struct admission *a = &h->admission;

    a->picked_n = n;
    a->used_n = 0;
    a->is_carrying = is_carrying;
    a->size_max = is_carrying ? JOB_SIZE_MAX : room(h);
    a->state = ADMISSION_READING;
    h->env->ops->submit(h->env, LANE_BACKLOG, &a->job);
}

/* ---- turns ---- */

static void say_full(struct host *h)
{
    if (backlog_n(h->backlog) == 0) return;
    if (h->hold_logged_ns != 0 && h->now_ns - h->hold_logged_ns < HOLD_LOGGED_NS) return;
    h->hold_logged_ns = h->now_ns;
    log_warn("the memory for instances is used up (store.hot_memory_max): starts wait, but for a "
             "few of names that a worker serves");
}

void admission_begin(struct host *h)
{
    h->scratch_size = 0;
    for (uint32_t i = 0; i < h->cores_n; i++) h->scratch_size += core_rest(h->cores[i]);
    size_t hot = host_hot_bytes(h);
    size_t hot_max = h->options.hot_bytes_max;
    bool is_behind = archiver_lag(h) > h->options.archive_lag_max;

    if (hot > hot_max || is_behind) h->is_holding = true;
    if (hot < hot_max / 8 * 7 && !is_behind) h->is_holding = false;
    enum backlog_hold hold = BACKLOG_FREE;
    h->hold_reason = HOLD_REASON_NONE;
    if (is_behind) {
        hold = BACKLOG_ALL; /* it catches up by itself */
        h->hold_reason = HOLD_REASON_ARCHIVE;
    } else if (h->is_holding) {
        hold = hot < host_hot_reserve_max(h) ? BACKLOG_SERVED : BACKLOG_SINGLE;
        h->hold_reason = HOLD_REASON_MEMORY;
        say_full(h);
    }
    h->admission.is_single = hold == BACKLOG_SINGLE;
    backlog_hold(h->backlog, hold);
}

const char *admission_held_by(const struct host *h)
{
    if (h->hold_reason == HOLD_REASON_MEMORY) return "store.hot_memory_max";
    return h->hold_reason == HOLD_REASON_ARCHIVE ? "store.archive_lag_max" : NULL;
}

void admission_finish(struct host *h)
{
    struct admission *a = &h->admission;

    if (a->state != ADMISSION_READ || h->now_ns < a->retry_ns) return;
    if (a->status != OK && a->status != E_NOMEM) {
        host_fatal(h, a->status, "a start that waits cannot be read back from the journal");
        return;
    }
    /* While stopping nothing new begins: they wait on. */
    while (a->used_n < a->picked_n && !h->is_stopping) {
        if (host_is_full(h) || h->is_dead) return;
        struct input in = {
            .kind = a->is_carrying ? INPUT_BACKLOG_CARRY : INPUT_BACKLOG_ADMIT,
            .record = a->records[a->used_n],
        };
        uint32_t index = host_index(h, a->picked[a->used_n].partition);
        if (host_step(h, index, &in, NULL) != OK) {
            a->retry_ns = h->now_ns + RETRY_NS;
            return;
        }
        if (a->is_carrying) a->carried_n++;
        a->used_n++;
    }
    if (a->status == E_NOMEM) a->retry_ns = h->now_ns + RETRY_NS;
    arena_reset(&a->arena);
    a->state = ADMISSION_IDLE;
}

void admission_turn(struct host *h)
{
    struct admission *a = &h->admission;

    if (a->state != ADMISSION_IDLE || h->is_stopping || backlog_n(h->backlog) == 0) return;
    if (h->now_ns < a->retry_ns) return;
    size_t n = 0;
    bool is_carrying = is_pinning(h) && !a->is_carrying; /* in turns with admission */
    a->is_carrying = false;
    if (is_carrying) {
        /* Up to the middle of what is pinned, or it would be carried too often. */
        uint64_t oldest = backlog_lsn(h->backlog);
        uint64_t upto = oldest + (h->lsn_applied - oldest) / 2;
        n = backlog_oldest(h->backlog, upto, a->picked, ADMIT_N);
    } else {
        if (a->is_single && h->now_ns < a->single_ns) return;
        n = backlog_pick(h->backlog, h->now_ns, h->lsn_durable, a->picked, ADMIT_N);
        if (a->is_single && n > 0) a->single_ns = h->now_ns + SINGLE_NS;
    }
    if (n > 0) submit(h, (uint32_t)n, is_carrying);
}

int64_t admission_wake_ns(const struct host *h)
{
    const struct admission *a = &h->admission;

    if (h->is_stopping || a->state == ADMISSION_READING) return INT64_MAX;
    if (a->state == ADMISSION_READ) return host_is_full(h) ? INT64_MAX : a->retry_ns;
    if (backlog_n(h->backlog) == 0) return INT64_MAX;
    int64_t at_ns = backlog_wake_ns(h->backlog, h->now_ns);
    if (a->retry_ns > h->now_ns && a->retry_ns < at_ns) at_ns = a->retry_ns;
    if (a->is_single && a->single_ns > h->now_ns && a->single_ns < at_ns) at_ns = a->single_ns;
    return at_ns;
}

bool admission_is_quiet(const struct host *h) { return h->admission.state != ADMISSION_READING; }

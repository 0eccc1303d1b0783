/* SPDX-License-Identifier: Apache-2.0
 *
 * See stream_world.h.
 */
#include "test/lib/stream_world.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdio.h>

#define DISK_SIZE ((uint64_t)256 << 20)
#define START_NS (INT64_C(1700000000) * NS_PER_S)

static struct stream_world *of(struct env *env)
{
    return container_of(env, struct stream_world, env);
}

static int64_t now_ns(struct env *env) { return of(env)->wall_ns; }

static void fill_random(struct env *env, void *ptr, size_t len)
{
    rng_fill(&of(env)->rng, ptr, len);
}

static void submit(struct env *env, enum env_lane lane, struct job *job)
{
    list_node_init(&job->node);
    list_push_back(&of(env)->lanes[lane], &job->node);
}

static void fatal(struct env *env, enum status status, const char *what)
{
    (void)status;
    (void)what;
    of(env)->is_fatal = true;
}

static const struct env_ops ops = {
    .wall_ns = now_ns,
    .mono_ns = now_ns,
    .random = fill_random,
    .submit = submit,
    .fatal = fatal,
};

void stream_world_init(struct stream_world *w, uint64_t seed)
{
    *w = (struct stream_world){.env = {.ops = &ops}, .wall_ns = START_NS};
    mem_init(&w->mem, SIZE_MAX);
    rng_init(&w->rng, seed);
    for (int i = 0; i < LANES_N; i++) list_init(&w->lanes[i]);
    enum status status = store_fault_disk_new(&w->mem, DISK_SIZE, &w->disk);
    assert(status == OK);
    streams_options_init(&w->options);
    w->options.mem = &w->mem;
    w->options.flush_size = 2000;
    w->options.chunks_size_max = 400000;
    w->options.snapshot_every_size = 6000;
    w->options.segment_size = 3000;
    w->options.batch_size_max = 4000;
    w->options.disk_free_min = 1;
}

static void forget_jobs(struct stream_world *w)
{
    for (int i = 0; i < LANES_N; i++) {
        while (list_pop_front(&w->lanes[i]) != NULL) continue;
    }
}

void stream_world_release(struct stream_world *w)
{
    if (w->s != NULL) {
        forget_jobs(w);
        streams_close(w->s);
    }
    w->disk->ops->release(w->disk);
    mem_release(&w->mem);
}

enum status stream_world_open(struct stream_world *w)
{
    struct journal *journal;
    struct journal_file_options options = {
        .directory = "journal",
        .segment_size = 16384,
        .mem = &w->mem,
    };

    assert(w->s == NULL);
    w->is_fatal = false;
    enum status status = journal_file_open(w->disk, &options, &journal);
    if (status != OK) return status;
    return streams_open(&w->env, w->disk, journal, &w->options, w->damage, &w->s);
}

void stream_world_crash(struct stream_world *w, bool is_power)
{
    forget_jobs(w);
    if (w->s != NULL) streams_close(w->s);
    w->s = NULL;
    if (is_power)
        store_fault_restart(w->disk);
    else
        store_fault_resume(w->disk);
}

bool stream_world_step(struct stream_world *w)
{
    int filled[LANES_N];
    uint64_t n = 0;

    if (w->s == NULL || w->is_fatal) return false;
    for (int i = 0; i < LANES_N; i++) {
        if (!list_is_empty(&w->lanes[i])) filled[n++] = i;
    }
    if (n > 0 && rng_chance(&w->rng, 500)) {
        struct list *node = list_pop_front(&w->lanes[filled[rng_below(&w->rng, n)]]);
        struct job *job = container_of(node, struct job, node);
        job->run(job);
        job->done(job);
        return true;
    }
    int64_t wait_ns = streams_turn(w->s);
    return n > 0 || wait_ns == 0;
}

static bool has_jobs(const struct stream_world *w)
{
    for (int i = 0; i < LANES_N; i++) {
        if (!list_is_empty(&w->lanes[i])) return true;
    }
    return false;
}

void stream_world_run(struct stream_world *w)
{
    /* A turn may find that nothing is to be done before what it did shows. */
    for (int idle_n = 0; idle_n < 3 && w->s != NULL && !w->is_fatal;) {
        idle_n = stream_world_step(w) || has_jobs(w) ? 0 : idle_n + 1;
    }
}

void stream_world_advance(struct stream_world *w, int64_t ms)
{
    w->wall_ns += ms * NS_PER_MS;
    stream_world_run(w);
}

/* ---- calls ---- */

static void on_done(struct stream_request *request)
{
    static uint64_t answers_n;
    struct stream_call *call = container_of(request, struct stream_call, request);

    call->is_done = true;
    call->order = ++answers_n;
}

void stream_call_init(struct stream_call *call, enum stream_request_kind kind, const char *stream)
{
    call->is_done = false;
    stream_request_init(&call->request, kind, (size_t)16 << 20);
    call->request.done = on_done;
    call->request.stream = bytes_of_text(stream);
}

void stream_call_release(struct stream_call *call) { stream_request_release(&call->request); }

bool stream_call_post(struct stream_world *w, struct stream_call *call)
{
    call->is_done = false;
    return streams_post(w->s, &call->request);
}

enum status stream_call_run(struct stream_world *w, struct stream_call *call)
{
    if (w->s == NULL || !stream_call_post(w, call)) return E_UNAVAILABLE;
    for (int idle_n = 0; !call->is_done && idle_n < 100 && !w->is_fatal;) {
        idle_n = stream_world_step(w) || has_jobs(w) ? 0 : idle_n + 1;
        /* What could not be written is tried again after some time. */
        if (idle_n > 3) w->wall_ns += 50 * NS_PER_MS;
    }
    if (!call->is_done) {
        /* It is on somebody's stack: the process must not keep it. */
        forget_jobs(w);
        streams_close(w->s);
        w->s = NULL;
    }
    assert(call->is_done);
    return call->request.status;
}

enum status stream_world_set(struct stream_world *w, const char *stream, uint32_t partitions_n)
{
    struct stream_call call;

    stream_call_init(&call, STREAM_REQUEST_SET, stream);
    call.request.set.settings.partitions_n = partitions_n;
    call.request.set.mask = STREAM_SET_PARTITIONS;
    enum status status = stream_call_run(w, &call);
    stream_call_release(&call);
    return status;
}

enum status stream_world_append(struct stream_world *w, const char *stream, const char *key,
                                const char *value, int64_t partition, uint64_t *offset)
{
    struct stream_call call;
    struct stream_append item = {
        .has_key = key != NULL,
        .key = key == NULL ? BYTES_NONE : bytes_of_text(key),
        .value = bytes_of_text(value),
        .partition = partition,
    };

    stream_call_init(&call, STREAM_REQUEST_APPEND, stream);
    call.request.append.items = &item;
    call.request.append.n = 1;
    enum status status = stream_call_run(w, &call);
    if (offset != NULL) *offset = item.at_offset;
    stream_call_release(&call);
    return status;
}

enum status stream_world_read(struct stream_world *w, const char *stream, uint32_t partition,
                              uint64_t from, char *text, size_t size)
{
    enum status status = OK;
    size_t at = 0;

    text[0] = '\0';
    for (bool is_end = false; !is_end && status == OK;) {
        struct stream_call call;
        struct stream_message message;
        stream_call_init(&call, STREAM_REQUEST_READ, stream);
        call.request.read.partition = partition;
        call.request.read.offset = from;
        status = stream_call_run(w, &call);
        struct reader reader = reader_make(buffer_view(&call.request.answer));
        while (status == OK && stream_answer_next(&reader, &message)) {
            int n = snprintf(text + at, size - at, "%llu=%.*s ", (unsigned long long)message.offset,
                             (int)message.value.len, (const char *)message.value.ptr);
            at += n > 0 && (size_t)n < size - at ? (size_t)n : 0;
        }
        from = call.request.next;
        is_end = call.request.items_n == 0;
        stream_call_release(&call);
    }
    return status;
}

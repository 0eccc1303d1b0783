/* SPDX-License-Identifier: Apache-2.0
 *
 * See threads.h.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "stream/threads.h"

#include "base/assert.h"
#include "base/mem.h"
#include "host/env_threads.h"

#include <pthread.h>
#include <stdatomic.h>

#define JOURNAL_SEGMENT_SIZE ((uint64_t)16 << 20)

struct streams_threads {
    struct streams_threads_options options;
    struct mem mem; /* of the streams' thread */
    struct io *io;
    struct env_threads *env;
    struct streams *streams;
    pthread_t thread;
    bool is_running; /* it is to be joined */
    bool is_stopped;
    atomic_bool is_over;
};

static int64_t turn(void *user)
{
    struct streams_threads *t = user;
    int64_t wait_ns = streams_turn(t->streams);

    t->options.turned(t->options.user);
    return wait_ns;
}

static void stop(void *user) { streams_stop(((struct streams_threads *)user)->streams); }

static bool is_quiet(void *user)
{
    return streams_is_quiet(((struct streams_threads *)user)->streams);
}

static void *thread_main(void *user)
{
    struct streams_threads *t = user;
    struct env_turns turns = {.user = t, .turn = turn, .stop = stop, .is_quiet = is_quiet};

    env_threads_run_turns(t->env, &turns);
    atomic_store(&t->is_over, true);
    t->options.turned(t->options.user);
    return NULL;
}

static enum status open_streams(struct streams_threads *t, char *damage)
{
    struct journal *journal;
    struct streams_options options = t->options.streams;
    struct journal_file_options journal_options = {
        .directory = "journal",
        .segment_size = JOURNAL_SEGMENT_SIZE,
        .mem = &t->mem,
    };

    uint64_t asked_size = t->options.journal_segment_size;
    if (asked_size != 0 && asked_size < JOURNAL_SEGMENT_SIZE) {
        journal_options.segment_size = asked_size;
    }
    enum status status = io_posix_open(t->options.directory, &t->io);
    if (status == OK) status = journal_file_open(t->io, &journal_options, &journal);
    if (status != OK) return status;
    options.mem = &t->mem;
    options.wake = env_threads_wake;
    options.wake_user = t->env;
    return streams_open(env_threads_env(t->env), t->io, journal, &options, damage, &t->streams);
}

static void discard(struct streams_threads *t)
{
    struct mem *mem = t->options.mem;

    if (t->streams != NULL) streams_close(t->streams);
    if (t->env != NULL) env_threads_free(t->env);
    if (t->io != NULL) t->io->ops->release(t->io);
    mem_release(&t->mem);
    mem_give(mem, t, sizeof *t);
}

enum status streams_threads_open(const struct streams_threads_options *options, char *damage,
                                 struct streams_threads **out)
{
    struct streams_threads *t = mem_take_zero(options->mem, sizeof *t);

    damage[0] = '\0';
    if (t == NULL) return E_NOMEM;
    t->options = *options;
    mem_init(&t->mem, SIZE_MAX);
    enum status status = env_threads_new(options->mem, "streams", &t->env);
    if (status == OK) status = open_streams(t, damage);
    /* Its user may look for it in the first turn. */
    if (status == OK) *out = t;
    if (status == OK && pthread_create(&t->thread, NULL, thread_main, t) != 0) status = E_NOMEM;
    if (status != OK) {
        *out = NULL;
        discard(t);
        return status;
    }
    (void)pthread_setname_np(t->thread, "streams");
    t->is_running = true;
    return OK;
}

struct streams *streams_threads_streams(struct streams_threads *t) { return t->streams; }

void streams_threads_stop(struct streams_threads *t)
{
    if (t->is_stopped) return;
    t->is_stopped = true;
    env_threads_stop(t->env);
}

bool streams_threads_is_over(const struct streams_threads *t) { return atomic_load(&t->is_over); }

void streams_threads_join(struct streams_threads *t)
{
    streams_threads_stop(t);
    if (t->is_running) {
        int failed = pthread_join(t->thread, NULL);
        assert(failed == 0);
    }
    t->is_running = false;
    streams_refuse_posted(t->streams);
}

void streams_threads_close(struct streams_threads *t)
{
    streams_threads_join(t);
    discard(t);
}

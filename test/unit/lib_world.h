/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine in a fresh directory with a client and a worker, for tests of the library. The worker's
 * lines are kept, so that a test can look for one. With $NORN in the environment the engine is a
 * server in a process of its own, and everything has to be the same.
 */
#ifndef TEST_UNIT_LIB_WORLD_H
#define TEST_UNIT_LIB_WORLD_H

#include "test/lib/server_process.h"
#include "test/lib/test.h"

#include <norn.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_MS 20000

struct world {
    struct server_process server;
    norn_engine *engine;
    norn_client *client;
    norn_worker *worker;
    struct norn_worker_options options;
    const struct norn_policy *policies; /* of an engine in this process */
    size_t policies_n;
    pthread_mutex_t mutex;
    char lines[8000];
    char directory[300];
};

static inline void world_log(void *user, const char *line)
{
    struct world *w = user;
    pthread_mutex_lock(&w->mutex);
    size_t len = strlen(w->lines);
    snprintf(w->lines + len, sizeof w->lines - len, "%s\n", line);
    pthread_mutex_unlock(&w->mutex);
}

static inline bool world_has_line(struct world *w, const char *part)
{
    pthread_mutex_lock(&w->mutex);
    bool has = strstr(w->lines, part) != NULL;
    pthread_mutex_unlock(&w->mutex);
    return has;
}

#define EXPECT_NORN(expected, got)                                                                 \
    do {                                                                                           \
        norn_status got_status = (got);                                                            \
        if (got_status != (expected))                                                              \
            test_fail(__FILE__, __LINE__, "expected %s, got %s", norn_status_text(expected),       \
                      norn_status_text(got_status));                                               \
    } while (0)

static inline void world_open_engine(struct world *w)
{
    struct norn_engine_options engine = NORN_ENGINE_OPTIONS;
    struct norn_client_options client = NORN_CLIENT_OPTIONS;
    engine.directory = w->directory;
    engine.policies = w->policies;
    engine.policies_n = w->policies_n;
    if (getenv("NORN") != NULL) {
        snprintf(w->server.directory, sizeof w->server.directory, "%s", w->directory);
        server_process_start(&w->server);
        client.address = w->server.address;
    } else {
        EXPECT_NORN(NORN_OK, norn_engine_open(&engine, &w->engine, NULL));
        client.engine = w->engine;
    }
    EXPECT_NORN(NORN_OK, norn_client_open(&client, &w->client));
}

static inline void world_open_worker(struct world *w)
{
    w->options.log = world_log;
    w->options.user = w;
    EXPECT_NORN(NORN_OK, norn_worker_open(w->client, &w->options, &w->worker));
}

/* Register functions, then world_start(). */
static inline void world_open_with(struct world *w, const struct norn_policy *policies, size_t n)
{
    *w = (struct world){.options = NORN_WORKER_OPTIONS, .policies = policies, .policies_n = n};
    pthread_mutex_init(&w->mutex, NULL);
    snprintf(w->directory, sizeof w->directory, "%s/data", test_directory());
    world_open_engine(w);
    world_open_worker(w);
}

static inline void world_open(struct world *w) { world_open_with(w, NULL, 0); }

static inline void world_start(struct world *w)
{
    EXPECT_NORN(NORN_OK, norn_worker_start(w->worker));
}

static inline void world_close_worker(struct world *w)
{
    norn_worker_close(w->worker);
    w->worker = NULL;
}

static inline void world_close(struct world *w)
{
    norn_worker_close(w->worker);
    norn_client_close(w->client);
    norn_engine_close(w->engine);
    server_process_kill(&w->server);
    pthread_mutex_destroy(&w->mutex);
}

static inline void world_begin(struct world *w, const char *name, const char *id, const char *input)
{
    struct norn_start_options start = NORN_START_OPTIONS;
    start.id = id;
    EXPECT_NORN(NORN_OK, norn_start(w->client, name, norn_text(input), &start, NULL));
}

/* Waits until it has ended; to be freed. */
static inline struct norn_info *world_wait(struct world *w, const char *id)
{
    struct norn_info *info = NULL;
    norn_status status = norn_get(w->client, id, WAIT_MS, &info);
    if (status != NORN_OK)
        test_fail(__FILE__, __LINE__, "waiting for %s: %s\n%s", id, norn_status_text(status),
                  w->lines);
    return info;
}

/* Starts it, waits, and compares what it answers. */
static inline void world_expect_output(struct world *w, const char *id, const char *output)
{
    struct norn_info *info = world_wait(w, id);
    if (info->state != NORN_COMPLETED)
        test_fail(__FILE__, __LINE__, "%s: state %d, %s: %s\n%s", id, (int)info->state,
                  info->failure.type, info->failure.message, w->lines);
    EXPECT_TEXT(output, info->output.ptr != NULL ? (const char *)info->output.ptr : "(none)");
    norn_info_free(info);
}

static inline void world_expect_failure(struct world *w, const char *id, const char *type,
                                        const char *message)
{
    struct norn_info *info = world_wait(w, id);
    if (info->state != NORN_FAILED)
        test_fail(__FILE__, __LINE__, "%s: state %d, output %s", id, (int)info->state,
                  info->output.ptr != NULL ? (const char *)info->output.ptr : "(none)");
    EXPECT_TEXT(type, info->failure.type);
    if (message != NULL) EXPECT_TEXT(message, info->failure.message);
    norn_info_free(info);
}

/* Lets the engine do something. */
static inline void world_pause(void)
{
    struct timespec time = {.tv_nsec = 5000000};
    nanosleep(&time, NULL);
}

/* A copy of the text a b in the memory of ctx. */
static inline struct norn_bytes joined(norn_context *ctx, const char *a, struct norn_bytes b)
{
    size_t len = strlen(a);
    char *text = norn_alloc(ctx, len + b.len + 1);
    if (text == NULL) return NORN_NONE;
    memcpy(text, a, len);
    if (b.len > 0) memcpy(text + len, b.ptr, b.len);
    return (struct norn_bytes){text, len + b.len};
}

#endif

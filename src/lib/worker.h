/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker: the user's functions, and the threads on which they run.
 *
 *      link ──deliver()──> turns (one thread)      orchestrators
 *                      └─> pool  (some threads)    activities and entities
 *      watch: reports an orchestrator that keeps its thread, and lets held back answers go
 */
#ifndef LIB_WORKER_H
#define LIB_WORKER_H

#include "lib/client.h"
#include "lib/pool.h"
#include "lib/turns.h"

struct watch {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool is_running;
    bool is_ending;
};

struct norn_worker {
    struct mem mem; /* its own, of the thread that opens and closes it */
    struct norn_client *client;
    struct journal_lines lines;
    uint32_t threads_n;
    size_t stack_size;
    uint32_t hot_max;
    struct registry registry;
    struct link_worker link_worker;
    struct link_port *port;
    struct turns turns;
    struct pool pool;
    struct watch watch;
    bool is_started;
};

/* Reports turns of more than a second, each once. E_UNAVAILABLE. */
enum status watch_start(struct norn_worker *worker);
void watch_stop(struct norn_worker *worker);

#endif

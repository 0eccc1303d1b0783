/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_ingest.h: workers that complete each instance in its first turn, or after one step.
 */
#include "cmd/bench_ingest.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/bench.h"

#include <stdio.h>
#include <time.h>

#define TURN_MS 20

static void publish(struct ingest_crowd *crowd, const struct bench_worker *workers)
{
    uint64_t completed = 0;
    uint64_t errors = 0;
    for (uint32_t n = 0; n < crowd->workers_n; n++) {
        completed += workers[n].ended;
        errors += workers[n].errors;
    }
    crowd->completed = completed;
    crowd->errors = errors;
}

static void *crowd_main(void *user)
{
    struct ingest_crowd *crowd = user;
    static struct bench_worker workers[INGEST_WORKERS_MAX];
    struct client_sockets *sockets = NULL;
    struct timespec cpu;
    bool is_open = client_sockets_open(mem_process(), crowd->workers_n, &sockets) == OK;
    for (uint32_t n = 0; n < crowd->workers_n && is_open; n++) {
        is_open = bench_worker_open(&workers[n], sockets, crowd->address, crowd->hub);
        workers[n].ends_at_once = true;
        workers[n].service_ns = crowd->service_ns;
    }
    crowd->state = is_open ? 1 : -1;
    while (is_open && !crowd->is_stopping) {
        int wait_ms = TURN_MS;
        for (uint32_t n = 0; n < crowd->workers_n; n++) {
            wait_ms = bench_worker_serve(&workers[n], wait_ms);
        }
        client_sockets_turn(sockets, wait_ms);
        publish(crowd, workers);
    }
    for (uint32_t n = 0; n < crowd->workers_n; n++) {
        if (workers[n].errors > 0) memcpy(crowd->text, workers[n].text, sizeof crowd->text);
        bench_worker_close(&workers[n]);
    }
    client_sockets_close(sockets);
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0)
        crowd->cpu_ns = cpu.tv_sec * NS_PER_S + cpu.tv_nsec;
    return NULL;
}

bool ingest_crowd_start(struct ingest_crowd *crowd, const char *address, const char *hub,
                        uint32_t workers_n, int64_t service_ns)
{
    *crowd = (struct ingest_crowd){.hub = hub, .workers_n = workers_n, .service_ns = service_ns};
    if (workers_n == 0) return true;
    snprintf(crowd->address, sizeof crowd->address, "%s", address);
    if (pthread_create(&crowd->thread, NULL, crowd_main, crowd) != 0) {
        crowd->workers_n = 0;
        return false;
    }
    while (crowd->state == 0) bench_sleep_ms(1);
    return crowd->state > 0;
}

void ingest_crowd_stop(struct ingest_crowd *crowd)
{
    if (crowd->workers_n == 0) return;
    crowd->is_stopping = true;
    (void)pthread_join(crowd->thread, NULL);
}

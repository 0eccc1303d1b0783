/* SPDX-License-Identifier: Apache-2.0
 *
 * A node: one shard's machine. The disk, the archive and the clock are the machine's and survive;
 * host, memory and jobs are the process's and die with it.
 *
 *      down ──restart──> recovering ──> up ──crash──> down
 *                            └─────────crash────────────^
 */
#ifndef TEST_SIM_SIM_NODE_H
#define TEST_SIM_SIM_NODE_H

#include "base/mem.h"
#include "host/host.h"
#include "store/store_mem.h"
#include "test/sim/sim_disk.h"
#include "test/sim/sim_shadow.h"
#include "test/sim/sim_world.h"

struct node;

/* Jobs of one lane: one after the other. See sim_env.c. */
struct lane {
    struct node *node;
    enum env_lane kind;
    struct list jobs; /* waiting; the first one is under way */
    bool is_run;      /* the first one has run, done() is to come */
    struct moment moment;
};

struct node {
    struct world *w;
    uint32_t shard;
    char name[16];

    /* the machine */
    struct disk *disk;
    struct mem store_memory;
    struct store_mem *archive_store;
    struct shadow *shadow;
    int64_t wall_base_ns; /* wall clock at since_ns */
    int64_t since_ns;
    int64_t drift_ppm;
    int64_t cut_until_ns;
    struct moment restart;
    struct moment disk_emptied;

    /* the process */
    bool is_up;
    bool is_ending;       /* a fatal failure: gone at the end of this turn */
    uint32_t incarnation; /* counts the processes */
    bool kill_in_commit;
    struct env env;
    struct rng env_rng;
    struct mem mem;         /* of the host and its cores */
    struct mem journal_mem; /* of the lane that writes the journal */
    struct host *host;
    struct archive *archive; /* the host's */
    struct lane lanes[LANES_N];
    struct moment turn;
    int64_t paused_until_ns;
    struct list calls;            /* requests inside the host */
    uint32_t messages_n;          /* to other shards, on their way */
    int64_t turns_idle_ns;        /* what the last turn answered */
    struct host_stats dead_stats; /* of processes that ended: evicted and loaded summed */
};

struct node *node_new(struct world *w, uint32_t shard);
void node_free(struct node *n);
/* The first process, now. */
void node_start(struct node *n);
/* The process ends without anybody being told; no restart. */
void node_stop(struct node *n);
uint32_t node_shard(const struct node *n);

/* The host has something to do. */
void node_wake(struct node *n);
/* The process is gone now; another one comes soon. Not from inside a turn. */
void node_crash(struct node *n, const char *why);
void node_kill_in_commit(struct node *n);
void node_pause(struct node *n, int64_t span_ns);
void node_cut(struct node *n, int64_t span_ns);
void node_fill_disk(struct node *n, int64_t span_ns);
void node_step_clock(struct node *n, int64_t by_ns);
void node_set_drift(struct node *n, int64_t ppm);
void node_heal(struct node *n);

bool node_is_cut(const struct node *n);
/* Nothing under way and nothing to do: memory, journal and archive stand still. */
bool node_is_quiet(struct node *n);
/* The final comparison with the fold of all frames. */
void node_check_end(struct node *n);
/* Memory of the host that takes a turn right now; NULL outside turns. */
struct mem *node_running_mem(struct world *w);
struct node *node_of_key(struct world *w, struct bytes key);

/* ---- sim_env.c ---- */
void env_init(struct node *n);
/* Forgets all jobs. */
void env_drop_jobs(struct node *n);
bool env_is_idle(const struct node *n);

/* ---- sim_store.c: what the host is given instead of the bare store ---- */
struct journal *sim_journal_new(struct node *n, struct journal *inner);
struct archive *sim_archive_new(struct node *n, struct archive *inner);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated world: one virtual time line, one source of chance, and the table of what can go
 * wrong.
 *
 * Everything that happens is a moment in one heap, ordered by (time, order of scheduling); a run is
 * the popping of moments until nothing is left to do. Whoever wants something later embeds a struct
 * moment. All chance comes from rngs that are seeded by the seed alone, so the same seed gives the
 * same run on every machine and in every build.
 */
#ifndef TEST_SIM_SIM_WORLD_H
#define TEST_SIM_SIM_WORLD_H

#include "base/bytes.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"

#define SHARDS_MAX 2
#define PARTITIONS_MAX 8
#define HUBS_MAX 2
#define CLIENTS_MAX 12
#define WORKERS_MAX 6

#define SIM_EXIT_OK 0
#define SIM_EXIT_USAGE 2
#define SIM_EXIT_BUDGET 3
#define SIM_EXIT_CRASH 127
#define SIM_EXIT_LIVENESS 128
#define SIM_EXIT_SAFETY 129

/* kind, name in the log, the largest rate per million occasions (or its weight among the blows
 * of the nemesis, marked *), what happens */
#define SIM_FAULTS(X)                                                                              \
    X(TORN_WRITE, "torn_write", 500000, "crash: an unsynced sector is on the disk")                \
    X(DROPPED_WRITE, "dropped_write", 500000, "crash: an unsynced sector is as before")            \
    X(GARBAGE_SECTOR, "garbage_sector", 200000, "crash: an unsynced sector is neither")            \
    X(NAME_LOST, "name_lost", 500000, "crash: an unsynced name is as before")                      \
    X(SYNC_EIO, "sync_eio", 300, "datasync fails and the pages are dropped")                       \
    X(WRITE_EIO, "write_eio", 300, "a write fails, nothing written")                               \
    X(SHORT_WRITE, "short_write", 300, "a write fails half way")                                   \
    X(READ_EIO, "read_eio", 50000, "a read during recovery fails")                                 \
    X(SLOW_IO, "slow_io", 5000, "a journal job takes up to 10 s")                                  \
    X(DISK_FULL, "disk_full", 100, "* nothing can be allocated for a while")                       \
    X(KILL, "kill", 100, "* the process of one shard is gone")                                     \
    X(KILL_ALL, "kill_all", 40, "* power loss: all shards at once")                                \
    X(KILL_IN_COMMIT, "kill_in_commit", 300, "* gone at the nth disk operation of a commit")       \
    X(KILL_IN_RECOVERY, "kill_in_recovery", 300000, "gone at the nth disk operation of a restart") \
    X(PAUSE, "pause", 60, "* the process stands still for a while")                                \
    X(NO_MEMORY, "no_memory", 2000, "an allocation inside a step fails")                           \
    X(TINY_MEMORY, "tiny_memory", 1, "the budget for hot instances is tiny (drawn, not rated)")    \
    X(ARCHIVE_FAIL, "archive_fail", 20000, "an archive transaction fails")                         \
    X(ARCHIVE_READ_FAIL, "archive_read_fail", 5000, "a read of the archive fails")                 \
    X(ARCHIVE_FULL, "archive_full", 20000, "an archive transaction finds no space")                \
    X(ARCHIVE_SLOW, "archive_slow", 20000, "an archive job takes up to 60 s")                      \
    X(REQUEST_LOST, "request_lost", 30000, "a request never arrives")                              \
    X(REPLY_LOST, "reply_lost", 30000, "an answer never arrives")                                  \
    X(REQUEST_DELAYED, "request_delayed", 50000, "a request takes up to 20 s")                     \
    X(REQUEST_DUPLICATED, "request_duplicated", 20000, "a request arrives twice")                  \
    X(REQUEST_REORDERED, "request_reordered", 50000, "a request is overtaken")                     \
    X(NETWORK_CUT, "network_cut", 60, "* nothing passes to or from one shard for a while")         \
    X(WORKER_CRASH, "worker_crash", 100, "* a worker is gone with all it held")                    \
    X(STREAM_CUT, "stream_cut", 100, "* a worker's stream breaks, the worker lives")               \
    X(WORKER_SLOW, "worker_slow", 10000, "a worker takes minutes")                                 \
    X(WORKER_ABANDON, "worker_abandon", 10000, "a worker gives a piece of work back")              \
    X(ANSWER_LATE, "answer_late", 20000, "a worker answers again, differently, later")             \
    X(ANSWER_TWICE, "answer_twice", 20000, "a worker sends the same answer twice")                 \
    X(ANSWER_FORGED, "answer_forged", 10000, "an answer with a reference nobody gave out")         \
    X(ANSWER_GARBAGE, "answer_garbage", 300, "an answer with nonsense in it")                      \
    X(CLOCK_BACK, "clock_back", 40, "* the wall clock is set back")                                \
    X(CLOCK_FORWARD, "clock_forward", 40, "* the wall clock is set forward")                       \
    X(CLOCK_DRIFT, "clock_drift", 40, "* the wall clock runs at another speed")                    \
    X(MESSAGE_LOST, "message_lost", 50000, "a message between shards is lost")                     \
    X(MESSAGE_DUPLICATED, "message_duplicated", 30000, "a message between shards comes twice")     \
    X(MESSAGE_REORDERED, "message_reordered", 50000, "a message between shards is overtaken")      \
    X(LINK_RESET, "link_reset", 1000, "a connection breaks at some byte")                          \
    X(LINK_TOLD_LATE, "link_told_late", 500000, "an end of it hears that up to 5 s later")         \
    X(LINK_HALF_OPEN, "link_half_open", 300000, "an end of it never hears that")                   \
    X(LINK_STALLED, "link_stalled", 500, "nothing passes one way of a connection for a while")     \
    X(READER_DEAF, "reader_deaf", 100, "* a gRPC client reads nothing for a while")                \
    X(CALL_CANCELLED, "call_cancelled", 30000, "a gRPC client gives a call up after a moment")     \
    X(CALL_DEADLINE, "call_deadline", 30000, "a gRPC call has hardly any time")                    \
    X(SERVER_DRAIN, "server_drain", 40, "* the server is stopped as by its operator")              \
    X(RECEIVER_DEAF, "receiver_deaf", 500000, "nobody hears a reply")

enum sim_fault {
#define X(kind, name, rate, text) FAULT_KIND_##kind,
    SIM_FAULTS(X)
#undef X
        SIM_FAULTS_N,
};
const char *sim_fault_name(enum sim_fault kind);

/* Everything that is derived from the seed, printed before the run. */
struct sim_options {
    uint64_t seed;
    int64_t load_ms; /* of phase 1 */
    uint32_t shards_n;
    uint32_t partitions_n;
    uint32_t hubs_n;
    uint32_t clients_n;
    uint32_t workers_n;
    uint32_t subjects_max; /* instances per client */
    int64_t think_ms;      /* between two operations of a client, mean */
    int64_t blow_ms;       /* between two blows of the nemesis, mean; 0 = none */
    uint32_t
        disturb_rate; /* per mille of a client's operations that terminate, purge, rewind ... */
    uint64_t segment_size;
    uint64_t hot_bytes_max;
    uint64_t batch_bytes_max;
    int64_t idle_evict_ms;
    int64_t archive_every_ms;
    uint64_t archive_batch_n;
    int64_t horizon_ms;
    int64_t resend_ms;
    int64_t commit_us;    /* of one journal job, mean */
    int64_t network_us;   /* of one way, mean */
    int64_t work_us;      /* of one piece of work, mean */
    int64_t timer_ms_max; /* of the long timers */
    uint32_t hot_workers; /* per mille of the workers that keep executions in memory */
    bool check_every_step;
    /* Of starts that wait; few seeds have small ones. */
    uint32_t active_max;
    uint32_t active_max_by_name;
    uint32_t rate_by_name;
    uint64_t backlog_n_max;
    uint64_t carry_size_min;
    uint64_t backlog_hash_mask;
    /* Of gRPC. */
    uint32_t wire_share;     /* per mille of clients and workers; 0 = there is no front */
    uint64_t piece_size_max; /* of what a connection brings at once */
    int64_t ping_ms;         /* on idle connections and streams */
    int64_t grace_ms;        /* until work of a lost stream is offered again */
    uint64_t queue_size;     /* of answers waiting for one call */
    uint64_t history_size_max;
    uint64_t errands_n_max;
    /* Of feeds, moves and replies. */
    uint32_t feeds_n;
    uint32_t feed_messages_max;
    int64_t feed_ms;                   /* between two messages, mean */
    int64_t import_ms;                 /* between two moves, mean; 0 = none */
    uint32_t reply_share;              /* per mille of the starts that ask for replies */
    uint32_t fault_rate[SIM_FAULTS_N]; /* 0 = off */
};
/* is_calm: no faults at all, for a first look. */
void sim_options_draw(struct sim_options *out, uint64_t seed, int64_t load_ms, bool is_calm);
void sim_options_print(const struct sim_options *options);

struct moment;
typedef void moment_fn(struct moment *moment);
struct moment {
    struct heap_node node;
    moment_fn *fn;
};

enum sim_log { SIM_LOG_NONE, SIM_LOG_SHORT, SIM_LOG_FULL };

/* Running hash of all that happened; see sim_trace.c. */
struct trace {
    uint64_t hash;
    uint64_t steps_n;     /* core steps: engine events */
    uint64_t frames_n;    /* durable frames */
    uint64_t input_n[32]; /* steps by kind of input */
};

struct node;
struct fleet;
struct front;
struct crowd;
struct nemesis;
struct ledger;
struct feeds;
struct mover;
struct receiver;

struct world {
    struct sim_options options;
    enum sim_log log;
    struct rng rng;
    struct heap moments;
    int64_t now_ns; /* virtual, since the start of the run */
    uint64_t order;
    uint64_t moments_n;
    bool is_healed; /* phase 2: no more faults, no more load */
    uint64_t faults_n[SIM_FAULTS_N];
    uint64_t crashes_n;
    uint64_t checks_n; /* full comparisons of a recovered node with the fold of all its frames */
    struct trace trace;
    struct node *nodes[SHARDS_MAX];
    struct list calls;    /* on their way, see sim_network.h */
    struct node *running; /* whose host takes a turn right now, or NULL */
    struct front *front;  /* NULL: everybody posts to the hosts */
    struct list links;    /* connections, see sim_link.h */
    bool has_nameless;    /* some gRPC workers echo no tokens */
    struct fleet *fleet;
    struct crowd *crowd;
    struct nemesis *nemesis;
    struct ledger *ledger; /* of the signals to entities */
    struct feeds *feeds;
    struct mover *mover;
    struct receiver *receiver; /* of replies */
};

struct world *world_new(const struct sim_options *options, enum sim_log log);
void world_free(struct world *w);
/* Runs both phases and the final checks. Does not return when a check fails. */
void world_run(struct world *w);

void moment_init(struct moment *m, moment_fn *fn);
/* (Re)schedules: at now + delay. */
void moment_after(struct world *w, struct moment *m, int64_t delay_ns);
void moment_cancel(struct world *w, struct moment *m);
static inline bool moment_is_set(const struct moment *m) { return m->node.is_linked; }

/* Whether this fault happens on this occasion; counts it. Never in phase 2. */
bool fault_hits(struct world *w, enum sim_fault kind);
void fault_count(struct world *w, enum sim_fault kind);

/* About mean, mostly less, sometimes many times as much; at least 1. */
int64_t chance_span(struct rng *rng, int64_t mean);

/* The one way a run ends badly: prints the line that repeats it and ends the process with the
 * code for safety, or for liveness when the name of the invariant begins with L. */
_Noreturn __attribute__((format(printf, 3, 4))) void sim_fail(struct world *w,
                                                              const char *invariant,
                                                              const char *format, ...);
/* One line of the log; columns: virtual seconds, who, what. */
__attribute__((format(printf, 4, 5))) void sim_say(struct world *w, enum sim_log level,
                                                   const char *who, const char *format, ...);
/* The world that runs now, for the assertion context and the wrapped core_step(). */
extern struct world *sim_current;

/* The planted bug of this run, NULL for none; see base/planted.h. */
#ifdef NORN_PLANTED_BUGS
extern const char *planted_name;
#endif

#endif

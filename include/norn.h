/* SPDX-License-Identifier: Apache-2.0
 *
 * Norn: orchestrations as ordinary C functions that survive crashes.
 *
 * The model
 *
 *      An orchestrator is a C function that calls activities, sleeps, waits for events and calls
 *      other orchestrators. Each of those calls is written down before it is made, and its result
 *      before it is given back. When the process dies, the function is run again from its
 *      beginning: what it had already done answers at once from the record (replay), and it goes on
 *      where it was.
 *      Activities are where the real work is; each runs at least once.
 *
 *      norn_engine    the engine inside this process: a directory, no sockets, no other service
 *      norn_client    starts and steers instances, of an engine or of a server
 *      norn_worker    runs your functions for an engine or a server
 *      norn_context   what an orchestrator function sees
 *      norn_task      something an orchestrator has begun and can wait for
 *
 *      The same functions work with an embedded engine and as a worker of `norn server`: only the
 *      options of norn_client_open() differ.
 *
 * Caveats
 *
 *      An orchestrator must do the same things in the same order whenever it is run: no clock, no
 *      randomness, no files, no threads, no static variables that change. Use norn_now(),
 *      norn_random() and norn_uuid(). A difference is found at replay and fails the instance with a
 *      sentence that says what was expected and what came. Compared are the kind and the order of
 *      what it does, and for whom: names, entities, instances that events go to. Inputs, lengths of
 *      timers, names of events waited for and ids of children are not. The way out of a difference:
 *      put the old code back, under a version of its own, and NORN_REWIND the instance.
 *      Its memory is that of norn_alloc(): when the instance is put aside its stack and that memory
 *      are dropped without a word, so it must not hold malloc() memory, locks or files across a
 *      call of norn.
 *      Its stack is small (64 KiB unless said otherwise); the worker's log says when three quarters
 *      of it have been used. One that needs more ends the process, and again when the instance is
 *      run again: give the worker a larger one.
 *      It must not wait for anything but Norn: all others of its worker wait with it. A turn that
 *      does is reported in the worker's log.
 *      An activity can run more than once. Use norn_here()->idempotency_key. One that ends the
 *      process is counted as lost when the directory is opened again, so that a crash loop ends as
 *      norn_policy says; an orchestrator that does is parked after 20 times.
 *      After fork() the threads of engine, client and worker are the parent's alone: calls with
 *      them in the child wait for ever. Open after fork().
 *
 * Rules of this header
 *
 *      Functions that can fail answer a norn_status; what they give is in the last arguments and is
 *      written only with NORN_OK. Arguments are borrowed until the function returns, unless it says
 *      otherwise. Option structs begin with their size: use the initialisers (NORN_..._OPTIONS), so
 *      that they can grow. NULL options are the defaults. Texts are UTF-8 and end with NUL; so are
 *      payloads, by convention JSON: one that is not UTF-8 is NORN_E_INVALID, or the failure
 *      "ResultNotUtf8" of the function that gave it. A payload that Norn gives to you is followed
 *      by a NUL that its length does not count, and is absent when it was sent without. Inputs and
 *      results are borrowed until the function ends, and may be given on, also as its output. Times
 *      are milliseconds: points since 1970 UTC, or durations.
 *
 * Limits
 *
 *      An id that you choose has 1 to 100 bytes, without control characters and / \ # ?, and does
 *      not begin with @; those of children have up to 256. Names have 1 to 256 bytes; those of
 *      events are compared without regard to case, those of entities are in lower case. A payload
 *      has up to 16 MiB less 4 KiB: beyond it NORN_E_LIMIT, or the failure "ResultTooLarge" of who
 *      gave it. An instance keeps 10,000 events, or 32 MiB, that nobody has waited for; a turn has
 *      100,000 decisions, of a server's worker 64 MiB with their inputs; a history 200,000 events,
 *      or 128 MiB: endless ones continue as new.
 */
#ifndef NORN_H
#define NORN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NORN_API __attribute__((visibility("default")))
#define NORN_PRINTF(format_at, rest_at) __attribute__((format(printf, format_at, rest_at)))
#else
#define NORN_API
#define NORN_PRINTF(format_at, rest_at)
#endif

#define NORN_VERSION_MAJOR 0
#define NORN_VERSION_MINOR 1
#define NORN_VERSION_PATCH 0

/* ---- statuses ---- */

typedef enum norn_status {
    NORN_OK = 0,
    NORN_E_INVALID = 1,      /* the arguments are not valid */
    NORN_E_NOT_FOUND = 2,    /* there is no such instance, entity or function */
    NORN_E_EXISTS = 3,       /* the instance exists already */
    NORN_E_PRECONDITION = 4, /* its present state does not allow it */
    NORN_E_LIMIT = 5,        /* a limit is reached */
    NORN_E_NOMEM = 6,
    NORN_E_NOSPACE = 7, /* the disk is full */
    NORN_E_IO = 8,
    NORN_E_CORRUPT = 9,  /* stored data is damaged */
    NORN_E_VERSION = 10, /* the data was written by a newer version */
    NORN_E_BUSY = 11,    /* another process has the directory */
    NORN_E_CLOSED = 12,
    NORN_E_UNAVAILABLE = 13, /* cannot be reached, or cannot answer now: try again */
    NORN_E_TIMEOUT = 14,
    NORN_E_UNSUPPORTED = 15,
    NORN_E_FAILED = 16,    /* an activity, child or entity failed: see norn_here() */
    NORN_E_CANCELLED = 17, /* the task was cancelled */
} norn_status;

/* Its name and what it means: "NORN_E_BUSY: another process has the directory"; static. */
NORN_API const char *norn_status_text(norn_status status);

/* ---- values ---- */

struct norn_bytes {
    const void *ptr; /* NULL = absent, which is not the same as empty */
    size_t len;
};
#ifdef __cplusplus
#define NORN_NONE (norn_bytes{0, 0})
#else
#define NORN_NONE ((struct norn_bytes){0, 0})
#endif

/* The bytes of a text that ends with NUL; NULL = absent. Borrowed. */
static inline struct norn_bytes norn_text(const char *text)
{
    struct norn_bytes bytes = {text, 0};
    if (text != 0)
        while (text[bytes.len] != '\0') bytes.len++;
    return bytes;
}

typedef struct norn_engine norn_engine;
typedef struct norn_client norn_client;
typedef struct norn_worker norn_worker;
typedef struct norn_context norn_context;
typedef struct norn_task norn_task;

/* Why something failed. type: "Declined", "TaskFailed", ... Texts never NULL. */
struct norn_failure {
    const char *type;
    const char *message;
    bool is_final; /* no retry policy repeats it */
};

/* ---- engine: any thread ---- */

enum norn_last_resort {
    NORN_RESORT_FAIL = 0, /* the call fails; the orchestrator decides what then */
    NORN_RESORT_PARK = 1, /* the step waits for an operator: NORN_RESUBMIT */
};

/* What the engine does about an activity that fails, is late or whose worker is lost, beside what
 * the orchestrator's own norn_retry does. Counted are failures of one call. */
struct norn_policy {
    size_t size;
    const char *activity;       /* its name; NULL = all that have no policy of their own */
    int64_t complete_by_ms;     /* so long a worker may have it without a heartbeat; 0 = no end */
    bool retries_failures;      /* also failures that the activity itself reports, unless final */
    uint32_t first_threshold;   /* failures up to this one: again after a delay that doubles */
    int64_t retry_delay_ms;     /* the first one */
    int64_t retry_delay_max_ms; /* the longest one */
    uint32_t second_threshold;  /* failures up to this one: again after the extended wait */
    int64_t extended_wait_ms;
    enum norn_last_resort last_resort; /* after that */
};
/* What holds where nobody says otherwise: a call whose worker was lost 20 times fails. In an
 * embedded engine its worker is lost when the process ends while it runs. */
#define NORN_POLICY                                                                                \
    {                                                                                              \
        sizeof(struct norn_policy), 0, 0, false, 19, 200, 60000, 19, 0, NORN_RESORT_FAIL           \
    }

struct norn_engine_options {
    size_t size;
    const char *directory; /* made when absent; its parent must exist */
    /* For instances: beyond it idle ones leave, then starts wait. 0 = default, at least 1 MiB. */
    size_t memory_max;
    uint32_t partitions;                /* of a new directory; 0 = default */
    const struct norn_policy *policies; /* policies_n of them, copied; or NULL */
    size_t policies_n;
};
#define NORN_ENGINE_OPTIONS                                                                        \
    {                                                                                              \
        sizeof(struct norn_engine_options), 0, 0, 0, 0, 0                                          \
    }

/* Opens or creates, and recovers. NORN_E_BUSY, NORN_E_VERSION, NORN_E_CORRUPT, NORN_E_IO,
 * NORN_E_NOSPACE, NORN_E_NOMEM, NORN_E_INVALID (also for other partitions than the directory was
 * made with). why: may be NULL; a sentence for people, static until the thread's next call. */
NORN_API norn_status norn_engine_open(const struct norn_engine_options *options,
                                      norn_engine **engine, const char **why);
/* After its clients and workers are closed. What was acknowledged stays. NULL is fine. */
NORN_API void norn_engine_close(norn_engine *engine);

/* ---- client: any thread ---- */

struct norn_client_options {
    size_t size;
    norn_engine *engine; /* in this process, or */
    const char *address; /* of a server, "127.0.0.1:4001" */
    const char *hub;     /* name space; NULL = "default" */
};
#define NORN_CLIENT_OPTIONS                                                                        \
    {                                                                                              \
        sizeof(struct norn_client_options), 0, 0, 0                                                \
    }

/* Exactly one of engine and address is given, otherwise NORN_E_INVALID. The engine outlives it. The
 * address is not contacted yet: a call that cannot reach it waits 5 s, then NORN_E_UNAVAILABLE. */
NORN_API norn_status norn_client_open(const struct norn_client_options *options,
                                      norn_client **client);
/* After its workers. NULL is fine. */
NORN_API void norn_client_close(norn_client *client);
/* What the last call of this thread with this client answered, as a sentence; "" after NORN_OK.
 * Until its next call. */
NORN_API const char *norn_client_error(norn_client *client);

enum norn_reuse {
    NORN_REUSE_ENDED = 0, /* an instance that has ended is replaced, another is NORN_E_EXISTS */
    NORN_REUSE_NEVER = 1, /* NORN_E_EXISTS */
    NORN_REUSE_KEEP = 2,  /* it is left as it is, and NORN_OK */
};

struct norn_start_options {
    size_t size;
    const char *id;      /* NULL = a new one is made */
    const char *version; /* NULL = none */
    int64_t start_at_ms; /* 0 = now; up to the year 2262 */
    enum norn_reuse reuse;
    const char *const *tags; /* pairs of name and value, NULL at the end; or NULL */
};
#define NORN_START_OPTIONS                                                                         \
    {                                                                                              \
        sizeof(struct norn_start_options), 0, 0, 0, NORN_REUSE_ENDED, 0                            \
    }

#define NORN_ID_SIZE 257 /* of the longest, with its NUL */
/* Starts an instance of the orchestrator `name`; durable when it answers. id (NORN_ID_SIZE): may be
 * NULL. NORN_E_EXISTS, NORN_E_LIMIT, NORN_E_INVALID. NORN_E_UNAVAILABLE: it may have happened; to
 * repeat it safely choose the id, and NORN_REUSE_KEEP. */
NORN_API norn_status norn_start(norn_client *client, const char *name, struct norn_bytes input,
                                const struct norn_start_options *options, char *id);

enum norn_state {
    NORN_RUNNING = 0,
    NORN_COMPLETED = 1,
    NORN_FAILED = 3,
    NORN_CANCELED = 4,
    NORN_TERMINATED = 5,
    NORN_PENDING = 6,
    NORN_SUSPENDED = 7,
};

/* Everything belongs to the info: norn_info_free(). */
struct norn_info {
    const char *id;
    const char *name;
    const char *version; /* NULL = none */
    enum norn_state state;
    struct norn_bytes input;
    struct norn_bytes output;
    struct norn_bytes custom_status;
    struct norn_failure failure; /* texts "" unless NORN_FAILED */
    int64_t created_ms;
    int64_t updated_ms;
};

/* What an instance is. wait_ms 0: now. Otherwise when it has ended, for which it waits that long at
 * most (< 0: as long as it takes); NORN_E_TIMEOUT: it has not. NORN_E_NOT_FOUND.
 * NORN_E_UNAVAILABLE: the server cannot be asked. Of an entity, now: id and output, which is its
 * state. info may be NULL. */
NORN_API norn_status norn_get(norn_client *client, const char *id, int64_t wait_ms,
                              struct norn_info **info);
/* Frees it and everything in it. NULL is fine. */
NORN_API void norn_info_free(struct norn_info *info);

/* One of many that are started, and then waited for, together. */
struct norn_job {
    const char *name;
    struct norn_bytes input;
    const struct norn_start_options *options; /* NULL: the defaults */
    char id[NORN_ID_SIZE];                    /* norn_start_many() fills it in */
    norn_status status;                       /* what the last call answers for this one */
};
/* norn_start() for each of n jobs, but the caller waits once for all: with an embedded engine much
 * cheaper than one by one. Those that can be started are, whatever happens to the others; answers
 * the first status that is not NORN_OK. */
NORN_API norn_status norn_start_many(norn_client *client, struct norn_job *jobs, size_t n);
/* Waits until all jobs whose status is NORN_OK have ended; the others are passed over.
 * NORN_E_TIMEOUT after timeout_ms (< 0: none) becomes the status of those that have not. Answers
 * the first status that is not NORN_OK of these. */
NORN_API norn_status norn_wait_many(norn_client *client, struct norn_job *jobs, size_t n,
                                    int64_t timeout_ms);

/* Sends an event to an instance; one that nobody waits for yet is kept. NORN_E_NOT_FOUND,
 * NORN_E_LIMIT. NORN_E_UNAVAILABLE: it may have happened, and come twice when it is repeated. For
 * an entity ("@name@key"): an operation, which makes the entity when there is none. */
NORN_API norn_status norn_raise(norn_client *client, const char *id, const char *event,
                                struct norn_bytes data);

enum norn_verb {
    NORN_TERMINATE, /* data: its output. Its children go on; of an ended one: nothing happens */
    NORN_SUSPEND,   /* data: the reason, as for the others */
    NORN_RESUME,
    /* A failed one goes on from before its failure: what failed last is done again; failures that
     * it had retried or handled stay as they were. Not after its compensations ran. */
    NORN_REWIND,
    NORN_RESTART,  /* an ended one begins again */
    NORN_PURGE,    /* an ended one is forgotten; its children are not */
    NORN_RESUBMIT, /* a parked one is tried again: an operator has mended the cause */
};
/* Steers an instance. NORN_E_NOT_FOUND, NORN_E_PRECONDITION. */
NORN_API norn_status norn_control(norn_client *client, const char *id, enum norn_verb verb,
                                  struct norn_bytes data);

/* One event of a history, as JSON, borrowed during the call. Anything but NORN_OK stops and is
 * answered. */
typedef norn_status norn_history_fn(void *user, struct norn_bytes event);
/* Every event of its present execution, oldest first. NORN_E_NOT_FOUND. */
NORN_API norn_status norn_history(norn_client *client, const char *id, norn_history_fn *fn,
                                  void *user);

enum norn_process {
    NORN_STEP_PENDING = 0,    /* waits for a worker */
    NORN_STEP_PROCESSING = 1, /* a worker has it */
    NORN_STEP_WAITING = 2,    /* failed, and is tried again later */
    NORN_STEP_ERROR = 3,      /* waits for an operator */
};

/* A call of an activity that has not ended. */
struct norn_step {
    const char *name;
    enum norn_process process;
    uint32_t locked_by;     /* number of the worker that has it; 0 = none */
    int64_t complete_by_ms; /* 0 = none */
    uint32_t failures;      /* so far; only grows */
    int64_t retry_at_ms;    /* of one that waits; else 0 */
};
/* One step, borrowed during the call. Anything but NORN_OK stops and is answered. */
typedef norn_status norn_steps_fn(void *user, const struct norn_step *step);
/* The open steps of an instance as the engine's supervisor sees them, 1,000 at most.
 * NORN_E_NOT_FOUND; NORN_E_UNSUPPORTED: the server is not norn. */
NORN_API norn_status norn_steps(norn_client *client, const char *id, norn_steps_fn *fn, void *user);

struct norn_query {
    size_t size;
    uint32_t states;       /* bits 1 << norn_state; 0 = all */
    const char *id_prefix; /* NULL = all */
    const char *name;      /* likewise */
    uint32_t limit;        /* 0 = all */
};
#define NORN_QUERY                                                                                 \
    {                                                                                              \
        sizeof(struct norn_query), 0, 0, 0, 0                                                      \
    }
/* One instance; info is borrowed during the call. Anything but NORN_OK stops and is answered. */
typedef norn_status norn_query_fn(void *user, const struct norn_info *info);
/* The instances that match, oldest first. query NULL: all. */
NORN_API norn_status norn_list(norn_client *client, const struct norn_query *query,
                               norn_query_fn *fn, void *user);

/* ---- worker: one thread opens, registers, starts and closes it ---- */

struct norn_worker_options {
    size_t size;
    uint32_t threads;  /* for activities and entities; 0 = 4 */
    size_t stack_size; /* of orchestrators; 0 = 64 KiB */
    /* Orchestrations kept ready to go on without replay; 0 = 10,000. Each has its stack in use and
     * what it took with norn_alloc(), beside norn_engine_options.memory_max. */
    uint32_t hot_max;
    /* What happens unasked (replay differences, failures that nobody sees): one line each, borrowed
     * during the call, from several threads at once. NULL = stderr. */
    void (*log)(void *user, const char *line);
    void *user;
};
#define NORN_WORKER_OPTIONS                                                                        \
    {                                                                                              \
        sizeof(struct norn_worker_options), 0, 0, 0, 0, 0                                          \
    }

/* A worker of the client's engine or server. The client outlives it. */
NORN_API norn_status norn_worker_open(norn_client *client,
                                      const struct norn_worker_options *options,
                                      norn_worker **worker);

/* The result is copied after it returns: from norn_alloc(), static, or borrowed from Norn (the
 * input, what a call gave). Anything but NORN_OK fails the instance. */
typedef norn_status norn_orchestrator_fn(norn_context *ctx, struct norn_bytes input,
                                         struct norn_bytes *output, void *user);
typedef norn_status norn_activity_fn(norn_context *ctx, struct norn_bytes input,
                                     struct norn_bytes *output, void *user);
typedef norn_status norn_entity_fn(norn_context *ctx, const char *operation,
                                   struct norn_bytes input, struct norn_bytes *output, void *user);

/* Registers an orchestrator, before norn_worker_start(). version NULL: instances without a version,
 * and those of versions that nobody has. A name may have several versions; a running instance keeps
 * its own. user is given to every call. NORN_E_EXISTS. */
NORN_API norn_status norn_orchestrator(norn_worker *worker, const char *name, const char *version,
                                       norn_orchestrator_fn *fn, void *user);
/* Registers an activity. concurrency: how many at once in this worker; 0 = no limit.
 * NORN_E_EXISTS. */
NORN_API norn_status norn_activity_add(norn_worker *worker, const char *name, uint32_t concurrency,
                                       norn_activity_fn *fn, void *user);
/* Registers an entity. Operations of one entity run one after the other. NORN_E_EXISTS. */
NORN_API norn_status norn_entity_add(norn_worker *worker, const char *name, norn_entity_fn *fn,
                                     void *user);
/* Begins to take work. */
NORN_API norn_status norn_worker_start(norn_worker *worker);
/* Takes no more work, waits for activities under way, however long, and gives the rest back. They
 * must return, and not end their thread. Not from a function of the worker's. NULL is fine. */
NORN_API void norn_worker_close(norn_worker *worker);

/* ---- inside an orchestrator: on its own stack only ---- */

struct norn_retry {
    size_t size;
    uint32_t attempts; /* in all; 0 and 1 = one */
    int64_t first_delay_ms;
    double factor;        /* 0 = 1: always the same delay */
    int64_t max_delay_ms; /* 0 = none */
    double jitter;        /* 0 to 1: so much of each delay is left to chance */
    int64_t total_ms;     /* no attempt begins later; 0 = no end */
    const char *const
        *final_types; /* failures of these types are not repeated; NULL at the end; or NULL */
};
#define NORN_RETRY                                                                                 \
    {                                                                                              \
        sizeof(struct norn_retry), 0, 0, 0, 0, 0, 0, 0                                             \
    }

struct norn_call_options {
    size_t size;
    const struct norn_retry *retry; /* NULL = one attempt */
    const char *version;            /* NULL = that of the caller */
    const char *id;                 /* of a child; NULL = made from the caller's */
};
#define NORN_CALL_OPTIONS                                                                          \
    {                                                                                              \
        sizeof(struct norn_call_options), 0, 0, 0                                                  \
    }

/* Calls an activity and waits. NORN_E_FAILED: it failed for good, norn_here()->failure tells why.
 * output: borrowed until the orchestrator ends; may be NULL. */
NORN_API norn_status norn_call(norn_context *ctx, const char *activity, struct norn_bytes input,
                               const struct norn_call_options *options, struct norn_bytes *output);
/* The same for an orchestrator. */
NORN_API norn_status norn_call_child(norn_context *ctx, const char *name, struct norn_bytes input,
                                     const struct norn_call_options *options,
                                     struct norn_bytes *output);
/* The same for an operation of an entity. */
NORN_API norn_status norn_call_entity(norn_context *ctx, const char *id, const char *operation,
                                      struct norn_bytes input, struct norn_bytes *output);
/* Waits for a time of any length, durably. */
NORN_API norn_status norn_sleep(norn_context *ctx, int64_t ms);
/* Waits for the next event of that name. NORN_E_TIMEOUT after timeout_ms (< 0: none). data comes
 * from outside: look at it before you use it, and it is absent when the event was sent without. */
NORN_API norn_status norn_wait_event(norn_context *ctx, const char *name, int64_t timeout_ms,
                                     struct norn_bytes *data);

enum norn_callee { NORN_ACTIVITY, NORN_CHILD };
/* Calls without waiting: for norn_await(), norn_when_all(), norn_when_any(). Tasks live as long as
 * the orchestrator. */
NORN_API norn_status norn_begin_call(norn_context *ctx, enum norn_callee callee, const char *name,
                                     struct norn_bytes input,
                                     const struct norn_call_options *options, norn_task **task);
/* norn_sleep() without waiting: for norn_await() and the others. Below 0: NORN_E_INVALID. */
NORN_API norn_status norn_begin_timer(norn_context *ctx, int64_t ms, norn_task **task);
/* norn_wait_event() without waiting: for norn_await() and the others. */
NORN_API norn_status norn_begin_event(norn_context *ctx, const char *name, norn_task **task);
/* Waits for it. Its status and result; again and again the same. */
NORN_API norn_status norn_await(norn_context *ctx, norn_task *task, struct norn_bytes *output);
/* Waits for all. The first failure in their order, or NORN_OK; then norn_await() has each
 * result. */
NORN_API norn_status norn_when_all(norn_context *ctx, norn_task *const *tasks, size_t n);
/* Waits for the first that ends, by index. */
NORN_API norn_status norn_when_any(norn_context *ctx, norn_task *const *tasks, size_t n,
                                   size_t *index);
/* A timer or wait for an event that is not wanted any more: NORN_E_CANCELLED from now on, unless it
 * has ended: then it keeps its result. Others: NORN_E_UNSUPPORTED. */
NORN_API norn_status norn_cancel(norn_context *ctx, norn_task *task);

/* Sends an event to an instance, or an operation to an entity. Not waited for: when there is no
 * such instance it is dropped. An entity may send to other entities only; to an instance:
 * NORN_E_UNSUPPORTED. */
NORN_API norn_status norn_send_event(norn_context *ctx, const char *id, const char *event,
                                     struct norn_bytes data);
/* Locks entities (their ids, NULL at the end), all or none, and waits. One critical section at a
 * time. NULL instead of a list, or the end of the orchestrator, releases them. NORN_E_PRECONDITION:
 * something is locked already, or nothing is. */
NORN_API norn_status norn_lock(norn_context *ctx, const char *const *entities);

/* Registers how to undo: if the orchestrator fails after this, the activity is called with this
 * input, the last registered first, each with its own retry policy. Registered with the step that
 * comes next, durably. When all of them have worked, the custom status is "compensated" (JSON),
 * which a receiver of replies is told. Nothing is undone by norn_continue_as_new(), which forgets
 * what was registered, nor when the instance is terminated or does not do what its history says. */
NORN_API norn_status norn_compensate(norn_context *ctx, const char *activity,
                                     struct norn_bytes input,
                                     const struct norn_call_options *options);

/* Begins again. To be returned: ends this execution and begins a new one with this input. Events
 * that nobody waited for are kept. */
NORN_API norn_status norn_continue_as_new(norn_context *ctx, struct norn_bytes input);
/* How any function fails. To be returned: NORN_E_FAILED with this type and message, which are
 * copied. is_final: no retry policy repeats it. */
NORN_API norn_status norn_fail(norn_context *ctx, const char *type, const char *message,
                               bool is_final);

/* What clients see as its custom status from now on. Copied. */
NORN_API norn_status norn_set_status(norn_context *ctx, struct norn_bytes custom_status);
/* The orchestrator's clock: the time of its present turn. */
NORN_API int64_t norn_now(norn_context *ctx);
/* Chance that is the same at every replay (not after a rewind); in activities and entities a number
 * of the system's. */
NORN_API uint64_t norn_random(norn_context *ctx);
#define NORN_UUID_SIZE 37
/* A new identifier, likewise. */
NORN_API void norn_uuid(norn_context *ctx, char uuid[NORN_UUID_SIZE]);
/* Writes a line to the worker's log, once, not at replay. */
NORN_API void norn_log(norn_context *ctx, const char *format, ...) NORN_PRINTF(2, 3);
/* Memory, for any function. Zeroed; freed when it ends, or an orchestrator is put aside. NULL
 * without memory, and for more than 1 GiB at once. */
NORN_API void *norn_alloc(norn_context *ctx, size_t size);

/* What runs. Borrowed while it does. */
struct norn_here {
    const char *id; /* of the instance; of an entity "@name@key" */
    const char *name;
    const char *version;         /* NULL = none */
    uint32_t attempt;            /* of an activity: 1 for the first */
    int64_t complete_by_ms;      /* of an activity: 0 = none */
    /* Of an activity: the same at every attempt of this call; another one after a rewind. */
    const char *idempotency_key;
    size_t stack_used_max;       /* of orchestrators of this worker so far, bytes */
    /* Why the last call answered NORN_E_FAILED; its texts stay until the function ends. */
    struct norn_failure failure;
    bool is_replaying; /* what comes next was done before: its results come from the history */
    /* Of an entity: its state. Absent: it does not exist yet. Good until the next change. */
    struct norn_bytes state;
};
/* What runs, for any function, as it is now: ask again after other calls. */
NORN_API const struct norn_here *norn_here(norn_context *ctx);

/* ---- inside an activity or entity: on its thread ---- */

/* Asks for more time: the lease lasts extend_ms from now. NORN_E_CANCELLED: nobody wants the answer
 * any more. */
NORN_API norn_status norn_heartbeat(norn_context *ctx, int64_t extend_ms);

/* The new state of the entity. Copied. Absent: it is deleted. Undone when the operation fails.
 * NORN_E_LIMIT, NORN_E_INVALID: as for every payload; the state stays as it was. */
NORN_API norn_status norn_set_state(norn_context *ctx, struct norn_bytes state);

#ifdef __cplusplus
}
#endif

#endif

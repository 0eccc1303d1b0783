/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of `norn bench ingest` share: starts over HTTP/1.1, sent when a plan says and not
 * when the server is ready for them, because that is how the world sends them.
 *
 *      plan      which request is to be sent when
 *      load      a thread that does it over many connections; measures from the planned time
 *      answer    bytes from a server, as answers
 *      reader    one connection that asks and waits: figures, and every id read back at the end
 *      crowd     a thread of gRPC workers that complete each instance at once, or after one step
 *                of a service of fixed latency
 */
#ifndef CMD_BENCH_INGEST_H
#define CMD_BENCH_INGEST_H

#include "base/mem.h"
#include "cmd/bench_grpc.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#define INGEST_CONNECTIONS_MAX 4096u
#define INGEST_DEPTH_MAX 64u
#define INGEST_BATCH_MAX 10000u
#define INGEST_PHASES_MAX 3u
#define INGEST_STATUSES 600u
/* A run has no more starts than this; what is acknowledged is a bit each. */
#define INGEST_STARTS_MAX (UINT64_C(1) << 26)
#define INGEST_ID_SIZE 64
#define INGEST_TEXT_SIZE 256

/* ---- plan ---- */

struct ingest_phase {
    uint64_t rate; /* requests per second, not 0 */
    int64_t length_ns;
};

struct ingest_plan {
    struct ingest_phase phases[INGEST_PHASES_MAX];
    unsigned phases_n;
};

/* Requests in all. */
uint64_t ingest_plan_count(const struct ingest_plan *plan);
int64_t ingest_plan_length_ns(const struct ingest_plan *plan);
/* When request `index` (below the count) is to be sent, after the start. */
int64_t ingest_plan_due_ns(const struct ingest_plan *plan, uint64_t index);
/* The phase at this time after the start; the last one afterwards. */
unsigned ingest_plan_phase(const struct ingest_plan *plan, int64_t offset_ns);
/* After the start. */
int64_t ingest_plan_phase_start_ns(const struct ingest_plan *plan, unsigned phase);

/* ---- answer ---- */

struct ingest_answer {
    unsigned status;
    size_t size;       /* all of it */
    struct bytes body; /* as it was sent: with the chunks' sizes when it is chunked */
    bool is_chunked;
    bool is_last; /* the server closes the connection behind it */
};

enum ingest_answer_state {
    INGEST_WHOLE,
    INGEST_PARTIAL, /* more must come */
    INGEST_BROKEN,  /* not an answer */
};
/* The answer at the start of bytes; *out is written when it is whole and borrows from them. */
enum ingest_answer_state ingest_answer_read(struct bytes bytes, struct ingest_answer *out);
/* Appends the body without chunk sizes; of a whole answer. */
void ingest_answer_body(const struct ingest_answer *answer, struct buffer *out);

/* ---- the server's address ---- */

struct ingest_target {
    struct sockaddr_storage address;
    socklen_t address_size;
    char text[128]; /* "127.0.0.1:4001" */
};
/* "127.0.0.1:4001" or "http://127.0.0.1:4001". False after a message. */
bool ingest_target_find(struct ingest_target *target, const char *text);
/* A connected socket, or -1 and errno. */
int ingest_connect(const struct ingest_target *target);

/* ---- load ---- */

struct ingest_settings {
    struct ingest_plan plan; /* in requests; for a flat-out run its length only */
    bool is_flat_out;        /* each answer is followed by the next request at once */
    uint32_t connections;
    uint32_t depth;      /* requests under way on one connection */
    uint32_t batch;      /* starts in a request; 0 = PUT, one each */
    uint32_t body_bytes; /* of a PUT; of a line of a batch */
    const char *hub;
    const char *name; /* of the orchestration */
};

/* Of what was to be sent in one phase. */
struct ingest_figures {
    struct histogram latency_us; /* from the planned time to the answer, of 2xx only */
    struct histogram late_us;    /* from the planned time to the sending: the generator's part */
    uint64_t acked;              /* starts answered with 2xx */
    uint64_t acked_in_time;      /* answers that came while the phase lasted */
};

struct ingest_link;
struct ingest_tenth;

struct ingest_load {
    struct ingest_settings settings;
    struct ingest_target target;
    char prefix[INGEST_ID_SIZE - 12]; /* of all ids of this run */
    pthread_t thread;
    struct mem mem;           /* of the thread */
    _Atomic bool is_done;     /* the thread has nothing more to do */
    _Atomic int64_t start_ns; /* 0 = it has not begun */
    /* From here on of the thread until ingest_load_wait(). */
    struct ingest_figures figures[INGEST_PHASES_MAX];
    uint64_t requests; /* sent */
    uint64_t starts;   /* in them */
    uint64_t acked;
    uint64_t errors;
    uint64_t by_status[INGEST_STATUSES]; /* starts that were answered with something else */
    uint64_t disconnected;               /* starts whose connection ended before their answer */
    uint64_t unanswered;                 /* starts that nobody answered in the time after the end */
    uint64_t unsent;                     /* starts for which there was no connection any more */
    char text[INGEST_TEXT_SIZE];         /* of the first error */
    int64_t end_ns;                      /* the last answer */
    int64_t cpu_ns;                      /* of the thread */
    int64_t recovered_ns; /* after the start: end of the last tenth of a second that was slow */
    uint64_t *acked_bits; /* by number of the start */
    struct ingest_tenth *tenths; /* of planned time: how many were slow */
    size_t tenths_size;
    struct ingest_link *links;
    struct ingest_link **ready; /* a ring of links that have room for a request */
    uint32_t ready_at;
    uint32_t ready_n;
    uint32_t open_n;
    int epoll_fd;
    struct buffer request; /* a request with zeros for the id */
    size_t *id_at;         /* where the ids' numbers stand in it */
};

/* Connects and begins. False after a message. */
bool ingest_load_start(struct ingest_load *load, const struct ingest_settings *settings,
                       const struct ingest_target *target);
/* Until the thread has ended; then the figures are complete. */
void ingest_load_wait(struct ingest_load *load);
void ingest_load_free(struct ingest_load *load);
bool ingest_is_acked(const struct ingest_load *load, uint64_t number);
/* The id of start `number`; out has INGEST_ID_SIZE bytes. */
void ingest_id(const struct ingest_load *load, uint64_t number, char *out);

/* ---- reader ---- */

struct ingest_reader {
    const struct ingest_target *target;
    int fd; /* -1: not connected */
    struct buffer in;
    struct buffer body; /* of the last answer */
};

void ingest_reader_init(struct ingest_reader *reader, const struct ingest_target *target,
                        struct mem *mem);
void ingest_reader_release(struct ingest_reader *reader);
/* GET path. Its status and the body in reader->body; 0 when there was no answer. */
unsigned ingest_get(struct ingest_reader *reader, const char *path);
/* The same for many at once: whole requests, then an answer for each. */
bool ingest_send(struct ingest_reader *reader, struct bytes requests);
unsigned ingest_receive(struct ingest_reader *reader);

/* What the server tells about its backlog at /v1/stats or /metrics; -1 = it does not. */
struct ingest_backlog {
    int64_t waiting_n;
    int64_t oldest_age_ms;
};
struct ingest_backlog ingest_ask_backlog(struct ingest_reader *reader);

struct ingest_check {
    uint64_t found;
    uint64_t lost;      /* acknowledged, and not there */
    uint64_t unlisted;  /* there, but not in the list */
    uint64_t completed; /* of those in the list */
    bool is_listed;     /* the server has a list */
};
/* Reads every acknowledged id back: a walk over the list, then each that was not in it by itself.
 * False after a message when the server does not answer. */
bool ingest_check_run(const struct ingest_load *load, struct ingest_reader *reader,
                      struct ingest_check *out);

/* ---- crowd ---- */

#define INGEST_WORKERS_MAX 16u

struct ingest_crowd {
    pthread_t thread;
    const char *hub;
    char address[128];
    uint32_t workers_n; /* 0 = there is none */
    _Atomic bool is_stopping;
    _Atomic int state;           /* 0 = connecting, 1 = working, -1 = failed after a message */
    int64_t service_ns;          /* 0, or what the one step of each instance takes */
    _Atomic uint64_t completed;  /* instances whose completion was acknowledged */
    _Atomic uint64_t errors;     /* completions refused, streams that ended */
    int64_t cpu_ns;              /* after ingest_crowd_stop() */
    char text[CLIENT_TEXT_SIZE]; /* of the last error; after ingest_crowd_stop() */
};

/* The thread uses mem_process() until ingest_crowd_stop(). False after a message. */
bool ingest_crowd_start(struct ingest_crowd *crowd, const char *address, const char *hub,
                        uint32_t workers_n, int64_t service_ns);
void ingest_crowd_stop(struct ingest_crowd *crowd);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP API from inside. Private to rest/.
 *
 * An ask is one exchange: made when the request came, ended by its answer. What a handler asks of
 * the engine are errands of the ask; one that comes back after the answer (the peer went away, the
 * time was over) is only freed. So:
 *
 *      handler ──> ask_errand() ──> ask_post() ──> encode() on the host's thread ──> done()
 *                                                    ask_answer(), ask_problem(), ask_json() <──┘
 *                                                    errand_end()
 *
 * The exchange may be touched until it is answered, whether the peer is gone or not. The ask lives
 * until it is answered and has no errand any more: a done() looks at ask->is_answered when somebody
 * else (a timer, closed(), drain) may have answered.
 *
 * To add routes: a file with a table of struct route that ends with an empty one, its name in
 * ROUTE_TABLES, its operations in openapi/.
 */
#ifndef REST_STATE_H
#define REST_STATE_H

#include "base/arena.h"
#include "base/assert.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/moment.h"
#include "base/rng.h"
#include "base/units.h"
#include "core/core.h"
#include "rest/rest.h"
#include "server/desk.h"
#include "wire/json.h"

struct ask;

/* ---- problems: problem.c ---- */

/* name, code (never changes its meaning), status, title */
#define PROBLEMS(X)                                                                                \
    X(BAD_REQUEST, "bad-request", 400, "the request is not valid")                                 \
    X(BAD_JSON, "bad-json", 400, "the body is not what it should be")                              \
    X(BAD_PARAMETER, "bad-parameter", 400, "a parameter is not what it should be")                 \
    X(FORBIDDEN, "forbidden", 403, "this is not allowed from there")                               \
    X(ROUTE_NOT_FOUND, "route-not-found", 404, "there is nothing at this path")                    \
    X(INSTANCE_NOT_FOUND, "instance-not-found", 404, "no such instance")                           \
    X(ENTITY_NOT_FOUND, "entity-not-found", 404, "no such entity")                                 \
    X(STREAM_NOT_FOUND, "stream-not-found", 404, "no such stream")                                 \
    X(GROUP_NOT_FOUND, "group-not-found", 404, "no such consumer group")                           \
    X(MESSAGE_NOT_FOUND, "message-not-found", 404, "no such message")                              \
    X(METHOD_NOT_ALLOWED, "method-not-allowed", 405, "this method does not apply here")            \
    X(TOO_SLOW, "too-slow", 408, "the request has not come in time")                               \
    X(INSTANCE_EXISTS, "instance-exists", 409, "there is an instance with this id")                \
    X(INSTANCE_DIFFERS, "instance-differs", 409, "there is another instance with this id")         \
    X(WRONG_STATE, "wrong-state", 409, "the present state does not allow it")                      \
    X(LEASE_LOST, "lease-lost", 409, "this belongs to somebody else now, or is done")              \
    X(OFFSET_GONE, "offset-gone", 410, "what was there is not kept any more")                      \
    X(TOO_LARGE, "too-large", 413, "this is too large")                                            \
    X(PATH_TOO_LONG, "path-too-long", 414, "the path is too long")                                 \
    X(NOT_JSON, "not-json", 415, "the body must be JSON")                                          \
    X(BAD_EXPECTATION, "bad-expectation", 417, "this cannot be expected here")                     \
    X(WRONG_HOST, "wrong-host", 421, "this server is not known by that name")                      \
    X(BACKLOG_FULL, "backlog-full", 429, "as many starts wait as may")                             \
    X(INBOX_FULL, "inbox-full", 429, "as many events wait as may")                                 \
    X(HEADERS_TOO_LARGE, "headers-too-large", 431, "the header fields are too large")              \
    X(INTERNAL, "internal", 500, "something is wrong with the server")                             \
    X(UNSUPPORTED, "unsupported", 501, "this is not supported")                                    \
    X(TOO_BUSY, "too-busy", 503, "too much is under way")                                          \
    X(DISK_LOW, "disk-low", 503, "there is little disk left")                                      \
    X(DRAINING, "draining", 503, "the server is shutting down")                                    \
    X(HTTP_VERSION, "http-version", 505, "this version of HTTP is not spoken here")

enum problem {
#define X(name, code, status, title) PROBLEM_##name,
    PROBLEMS(X)
#undef X
};

/* The end of the ask: a problem document. hint: what to do about it; NULL = nothing to add. 429 and
 * 503 get a Retry-After. */
void ask_problem(struct ask *ask, enum problem problem, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* What a status of the engine that is not OK becomes, with its text. E_NOT_FOUND, E_EXISTS, E_LIMIT
 * as `missing`, `exists`, `full` say. */
struct problem_map {
    enum problem missing;
    enum problem exists;
    enum problem full;
};
extern const struct problem_map problems_of_instances;
void ask_problem_of(struct ask *ask, const struct problem_map *map, const struct request *request);
/* 503 too-busy. */
void ask_busy(struct ask *ask);
/* The same for an exchange that has no ask. */
void exchange_busy(struct http_exchange *exchange);
/* http_service.refusal: what the network refuses itself. user: the rest. */
const char *problem_of_refusal(void *user, enum http_refusal why, struct buffer *body);
/* The same as a JSON value, for answers that have one per line. detail is cut at 500 bytes. */
void problem_write(struct json *j, enum problem problem, const char *detail, const char *hint);
enum problem problem_of_status(const struct problem_map *map, const struct request *request);
unsigned problem_http_status(enum problem problem);

/* ---- asks: ask.c ---- */

#define PATH_PARAMETERS_N 3
#define QUERY_PARAMETERS_N 16
#define HEAP_NEVER INT64_MAX

/* For what waits or streams; all on the network's thread. */
struct ask_ops {
    void (*closed)(struct ask *ask); /* the peer is gone: answer (nobody hears it), and clean up */
    void (*writable)(struct ask *ask); /* http_is_full() was true and is false now */
    void (*time)(struct ask *ask);     /* what ask_set_time() said has come */
    void (*drain)(struct ask *ask);    /* the server stops: answer soon */
    /* The peer has ended its side, and waits or is gone: who would take something from others to
     * give it to this one answers with nothing. */
    void (*half_closed)(struct ask *ask);
};
/* half_closed of all that take nothing from anybody. */
void ask_goes_on(struct ask *ask);

typedef void route_fn(struct ask *ask);

enum route_flag {
    ROUTE_PLAIN = 0,
    ROUTE_WHILE_DRAINING = 1, /* also taken while the server stops: answers of work */
    ROUTE_ANY_TYPE = 2,       /* the body may be something else than JSON */
};

struct route {
    const char *method;  /* "GET" answers HEAD too */
    const char *pattern; /* "/v1/instances/{id}/events/{name}" */
    route_fn *handler;
    const char *parameters; /* of the query, besides hub: "limit cursor"; NULL = none */
    unsigned flags;
    const char *operation; /* operationId in the document */
};

struct ask {
    struct list node; /* in rest.asks */
    struct rest *rest;
    struct http_exchange *exchange; /* until it is answered */
    const struct route *route;
    struct bytes hub;                     /* "default", or as the exchange has it */
    struct bytes path[PATH_PARAMETERS_N]; /* decoded; borrowed from the exchange or in the arena */
    struct maybe query[QUERY_PARAMETERS_N]; /* in the order of route->parameters */
    const struct ask_ops *ops;              /* NULL: nothing waits */
    void *user;                             /* of the handler */
    struct heap_node time;                  /* in rest.times */
    uint32_t errands_n;                     /* not ended */
    bool is_answered;
    bool is_begun;      /* the body is streamed */
    bool is_closed;     /* the peer is gone */
    struct arena arena; /* of the network's thread */
    struct buffer text; /* likewise: for one answer */
};

/* For rest.c. NULL without memory. */
struct ask *ask_new(struct rest *r, struct http_exchange *exchange);
void ask_destroy(struct ask *ask);
/* The exchange is somebody else's to answer; the ask is over. */
void ask_hand_over(struct ask *ask);
/* Of the query, by name, as its route lists it; decoded. */
struct maybe ask_parameter(const struct ask *ask, const char *name);
/* Body of the request. */
struct bytes ask_body(const struct ask *ask);
void ask_add_header(struct ask *ask, const char *name, struct bytes value);
/* The end of the ask; is_answered from now on, and it may be gone unless it has errands. */
void ask_answer(struct ask *ask, unsigned status, const char *type, struct bytes body);
/* application/json */
void ask_json(struct ask *ask, unsigned status, struct bytes body);
/* For bodies that are made as they go; http_send(ask->exchange) between. */
void ask_begin(struct ask *ask, unsigned status, const char *type);
void ask_finish(struct ask *ask, bool is_whole);
/* ops->time once, at_ns by rest_now(); HEAP_NEVER = not any more. */
void ask_set_time(struct ask *ask, int64_t at_ns);

/* An errand of this ask: errand->user is the ask, done is errand_answer_json. NULL: the ask was
 * answered too-busy. */
struct errand *ask_errand(struct ask *ask, enum request_kind kind);
/* The ask's hub, or any text, as a copy in the errand's arena, for what the request borrows. Empty
 * without memory. */
struct bytes errand_copy(struct errand *errand, struct bytes text);
static inline struct ask *errand_ask(const struct errand *errand) { return errand->user; }
/* Sets the key (hub '/' id) and posts it. False: the ask was answered too-busy, the errand
 * ended. */
bool ask_post(struct errand *errand, struct bytes id);
/* The same with the key as it is. */
bool ask_post_as_is(struct errand *errand);
/* For errands of another kind (stream_desk.h): the ask stays until unhold. */
void ask_hold(struct ask *ask);
void ask_unhold(struct ask *ask);
/* The end of an errand, in its done(); the ask may be gone afterwards. */
void errand_end(struct errand *errand);
/* The usual done(): the errand's reply as JSON with errand->number as status (0 = 200), or the
 * problem of the request's status. */
void errand_answer_json(struct errand *errand);

/* ---- the API itself: rest.c ---- */

struct node; /* router.c */

struct rest {
    struct front_options options;
    struct mem *mem;
    struct desk *desk;
    struct stream_desk *streams; /* NULL: there is no directory for them */
    struct http_service http;
    int64_t now_ns;
    bool is_draining;
    struct node *root;   /* of the routes */
    struct arena routes; /* their nodes */
    struct list asks;    /* open */
    struct list spare;   /* asks that can be used again */
    unsigned spare_n;
    struct heap times;       /* of asks */
    uint64_t times_order;    /* ties are broken by it */
    struct list uncancelled; /* waits.c */
    struct changes *changes; /* changes.c */
    struct agents *agents;   /* agents.c */
    struct backups *backups; /* backup.c */
    struct rng rng;
    struct front_stats stats;
};

int64_t rest_now(const struct ask *ask);
/* The wall's clock. */
int64_t rest_wall_ns(void);
/* A fresh id of 32 hex digits. */
#define FRESH_ID_SIZE 32
void rest_fresh_id(struct rest *r, char out[FRESH_ID_SIZE]);

/* ---- routes: router.c ---- */

/* A line for each file that has some. */
#define ROUTE_TABLES(X)                                                                            \
    X(routes_instances)                                                                            \
    X(routes_start)                                                                                \
    X(routes_batch)                                                                                \
    X(routes_import)                                                                               \
    X(routes_lists)                                                                                \
    X(routes_history)                                                                              \
    X(routes_purge)                                                                                \
    X(routes_entities)                                                                             \
    X(routes_backup)                                                                               \
    X(routes_stats)                                                                                \
    X(routes_streams)                                                                              \
    X(routes_groups)                                                                               \
    X(routes_queues)                                                                               \
    X(routes_letters)                                                                              \
    X(routes_why)                                                                                  \
    X(routes_alerts)                                                                               \
    X(routes_workers)                                                                              \
    X(routes_sse)                                                                                  \
    X(routes_follow)                                                                               \
    X(routes_agents)                                                                               \
    X(routes_work)
#define X(table) extern const struct route table[];
ROUTE_TABLES(X)
#undef X

/* E_NOMEM. */
enum status router_init(struct rest *r);
/* Finds the route and fills in path and query of the ask; false: answered. */
bool router_find(struct ask *ask);
/* A media type, whatever its parameters and case; type in lower case. */
bool type_is(struct bytes value, const char *type);
/* Percent-decoding: into the arena when there is something to decode. False: a bad escape, a NUL or
 * not UTF-8. is_query: '+' is a space. */
bool percent_decode(struct arena *arena, struct bytes text, bool is_query, struct bytes *out);

/* ---- bodies: body.c ---- */

enum body_type {
    BODY_TEXT,   /* a string, decoded: value.text */
    BODY_BOOL,   /* value.flag */
    BODY_NUMBER, /* a whole one: value.number */
    BODY_ANY,    /* any JSON: value.raw */
    BODY_OBJECT, /* value.raw */
    BODY_ARRAY,  /* value.raw */
};
struct body_field {
    const char *name;
    enum body_type type;
};
struct body_value {
    bool has; /* null counts as absent, except for BODY_ANY */
    bool flag;
    int64_t number;
    struct bytes raw;  /* as it was sent; borrowed from the text */
    struct bytes text; /* borrowed from the text, or in the arena when it had escapes */
};
/* Where and why a text is not what it should be. */
struct body_error {
    enum problem problem;
    size_t offset;
    char detail[300];
};
/* Reads an object: each field at most once, no others. values as many as fields; all are set. */
bool body_parse(struct bytes text, struct arena *arena, const struct body_field *fields,
                size_t fields_n, struct body_value *values, struct body_error *error);
/* The same of an ask's body; false: answered. Without a body all values are absent. */
bool body_read(struct ask *ask, struct bytes text, struct arena *arena,
               const struct body_field *fields, size_t fields_n, struct body_value *values);
/* An object with texts as values, key by key: begin with the raw object; false at the end. What was
 * parsed by body_parse() is well formed; error->detail is set when a value is no text. */
bool body_next_text(struct bytes *rest, struct arena *arena, struct bytes *key, struct bytes *value,
                    struct body_error *error);
/* The next line of a body that has something in it, without its end; false: there is none. */
bool body_next_line(struct bytes *rest, struct bytes *line);
/* NULL when the whole text is one JSON value in UTF-8; else what is wrong, *offset where. *raw:
 * without the space around it. */
const char *json_check(struct bytes text, struct bytes *raw, size_t *offset);

/* ---- writing: write.c, view.c ---- */

/* Tags of our own; "norn." is refused in others. */
#define TAG_PREFIX "norn."
#define TAG_REPLY_TO TAG_PREFIX "replyTo"
#define TAG_CORRELATION TAG_PREFIX "correlationId"

/* A stored payload: as it is when it is JSON, else as a string. */
void write_payload(struct json *j, struct bytes payload);
/* "key":payload, when there is one. */
void write_payload_of(struct json *j, const char *key, struct maybe payload);
void write_text_of(struct json *j, const char *key, struct bytes text);
void write_maybe_of(struct json *j, const char *key, struct maybe text);
/* RFC 3339 with as many digits as needed. */
void write_time(struct json *j, int64_t ns);
void write_time_of(struct json *j, const char *key, int64_t ns);
/* 202 {"id":...} as the answer: what was asked for is durable. */
void write_accepted(struct errand *errand);
/* An instance as the document has it. */
void write_instance(struct json *j, const struct instance_view *view, bool with_payloads);
/* The rows of the answer as the items of a page, and its cursor. On the host's thread. */
typedef void write_row_fn(struct json *j, const struct instance_view *view, bool with_payloads);
void write_rows(struct errand *errand, write_row_fn *write);
/* "running" */
const char *status_word(enum orchestration_status status);
bool status_of_word(struct bytes word, enum orchestration_status *out);
/* raw TaskFailureDetails */
void write_failure(struct json *j, struct bytes details);
/* A history event; see event.c. */
void write_event(struct json *j, struct bytes event);

/* ---- parameters: parameters.c; false: answered ---- */

bool ask_read_bool(struct ask *ask, const char *name, bool *out); /* untouched when absent */
bool ask_read_number(struct ask *ask, const char *name, int64_t min, int64_t max, int64_t *out);
/* A time as RFC 3339 has it, or a duration: so long before wall_ns. */
bool time_or_ago_read(struct bytes text, int64_t wall_ns, int64_t *ns);
bool ask_read_duration_ms(struct ask *ask, const char *name, int64_t max_ms, int64_t *out);
/* Says what is wrong with a value of the query. */
void ask_bad_parameter(struct ask *ask, const char *name, const char *what);
/* Prefer: wait=N, in seconds; 0 = not asked for. */
unsigned ask_prefers_wait(const struct ask *ask);

/* ---- one instance: instances.c ---- */

/* An errand->encode: request.view as JSON, with payloads when errand->flag; notes its version. */
void encode_instance(struct errand *errand);
/* Its done(): as errand_answer_json(), with an ETag, and 304 when the asker has it already. */
void errand_answer_instance(struct errand *errand);

/* ---- waiting for an instance: waits.c ---- */

/* Answers when the instance has ended, or after wait_s with what is known then: `late_status` and
 * the instance. Takes the ask over. */
void wait_for_end(struct ask *ask, struct bytes id, unsigned wait_s, unsigned status,
                  unsigned late_status);
/* Cancels that the engine did not take; false when something is left. */
bool wait_cancels_retry(struct rest *r);

#endif

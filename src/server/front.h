/* SPDX-License-Identifier: Apache-2.0
 *
 * What answers HTTP requests in a server, as the server sees it. It stands above this folder
 * (src/rest), so the program hands it in. Everything on the network's thread.
 */
#ifndef SERVER_FRONT_H
#define SERVER_FRONT_H

#include "net/http.h"
#include "server/feed.h"
#include "server/service.h"
#include "server/vitals.h"

struct engine;

/* What a front gets; all of it outlives the front, but for the engine, which is closed before. */
struct front_options {
    struct mem *mem; /* of the network's thread */
    struct desk_engine desk_engine;
    struct engine *engine;   /* NULL in tests that have none */
    struct service *service; /* the gRPC side */
    struct vitals *vitals;
    struct feed *feed;                /* changes of instances; NULL in tests that have none */
    const struct http_service *pages; /* answers what the front has no route for */
    const char *directory;            /* of the data */
    uint64_t journal_segment_size;    /* of a journal of its own, at most */
    uint64_t disk_free_min;           /* with less, what grows is refused */
    size_t errands_n_max;             /* requests to the engine under way; 503 beyond */
    size_t message_size_max;          /* of a body */
    void (*wake)(void *user);         /* from any thread: bell() is called soon */
    void *wake_user;
    bool is_insecure; /* other machines reach this server: any Host is right */
};

/* As struct stream_stats of the streams, which stand above this folder too. */
struct front_stream_stats {
    bool is_there;
    uint64_t streams_n;
    uint64_t appended_n;
    uint64_t appended_size;
    uint64_t read_n;
    uint64_t delivered_n;
    uint64_t completed_n;
    uint64_t started_n;
    uint64_t frames_n;
    uint64_t letters_n;
    uint64_t waiting_n;
    uint64_t memory_size;
    uint64_t journal_size;
    uint64_t segments_size;
    bool is_disk_low; /* appends are refused */
};

struct front_stats {
    uint64_t requests;
    uint64_t answers[6]; /* by status / 100; [0]: the peer was gone before */
    uint64_t problems;   /* answers that were problem documents */
    uint32_t open_n;     /* requests that are not answered yet, streams among them */
    struct front_stream_stats streams;
};

struct front_ops {
    /* E_NOMEM, E_IO ... (then *out is untouched); what went wrong was logged. */
    enum status (*make)(const struct front_options *options, int64_t now_ns, void **out);
    /* Before the network goes: ends threads of its own, which do not call wake() any more. */
    void (*close)(void *front);
    /* As service_free(): the engine is closed, and no exchange is open any more. */
    void (*free)(void *front);
    const struct http_service *(*http)(const void *front); /* none of its functions is NULL */
    /* Before requests reach it in a turn of the loop, before bell and tick. Monotonic. */
    void (*set_now)(void *front, int64_t now_ns);
    void (*bell)(void *front);
    /* Answers when to call again, as now_ns; INT64_MAX = not before something comes. */
    int64_t (*tick)(void *front);
    /* New requests are refused, those that wait are answered. Over when is_quiet(). */
    void (*drain)(void *front);
    bool (*is_quiet)(const void *front);
    void (*stats)(const void *front, struct front_stats *out);
};

#endif

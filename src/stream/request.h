/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of the streams.
 *
 * A request belongs to who made it. From streams_post() until done() it must stay as it is, with
 * everything it borrows. done() is called exactly once, on the streams' thread, after everything
 * the answer stands on is durable. `answer` is the request's own: its memory changes threads with
 * it, and who made the request ends it with stream_request_release().
 */
#ifndef STREAM_REQUEST_H
#define STREAM_REQUEST_H

#include "base/heap.h"
#include "base/list.h"
#include "base/mem.h"
#include "stream/message.h"
#include "stream/settings.h"
#include "stream/token.h"

/* All may answer E_NOT_FOUND (stream, group, partition, letter), E_INVALID (with text), E_NOMEM,
 * E_UNAVAILABLE (too much under way: try again), E_CLOSED. Those that write also E_NOSPACE. */
#define STREAM_REQUESTS(X)                                                                         \
    X(SET)        /* makes or changes a stream; E_LIMIT */                                         \
    X(DELETE)     /* with everything in it */                                                      \
    X(INFO)       /* answer: stream_info of one stream (`stream` "" = of all, short) */            \
    X(APPEND)     /* all or none; E_LIMIT: too large */                                            \
    X(READ)       /* answer: messages */                                                           \
    X(GROUP_READ) /* the same from where the group stands */                                       \
    X(CHECKPOINT) /* never goes back: a lower one changes nothing */                               \
    X(SEEK)       /* sets the position; E_PRECONDITION for "queue" and "workflow" */               \
    X(GROUP_DELETE)                                                                                \
    X(RECEIVE)  /* answer: deliveries */                                                           \
    X(COMPLETE) /* this and the next three: E_STALE when the lock is lost */                       \
    X(ABANDON)                                                                                     \
    X(RENEW)                                                                                       \
    X(DEAD_LETTER)     /* also E_LIMIT: there are too many */                                      \
    X(LETTERS)         /* answer: letters, see letter.h */                                         \
    X(LETTER)          /* one of them */                                                           \
    X(LETTER_EDIT)     /* E_PRECONDITION: somebody else has just changed it */                     \
    X(LETTER_RESUBMIT) /* the same */                                                              \
    X(LETTER_DISCARD)                                                                              \
    X(CANCEL) /* of one that waits */                                                              \
    X(STATS)  /* answer: stream_stats */                                                           \
    X(BURY)   /* the streams' own: dead letters of a consumer */

enum stream_request_kind {
#define X(kind) STREAM_REQUEST_##kind,
    STREAM_REQUESTS(X)
#undef X
};

struct stream_request;
typedef void stream_request_done_fn(struct stream_request *request);

struct stream_append {
    bool has_key;
    struct bytes key;
    enum stream_value_kind kind;
    struct bytes value;
    int64_t partition; /* < 0: by the key's hash, without key in turn */
    /* the answer */
    uint32_t at_partition;
    uint64_t at_offset;
};

enum stream_from {
    STREAM_FROM_OFFSET, /* READ: not before the first one; E_INVALID beyond the end */
    STREAM_FROM_FIRST,
    STREAM_FROM_NEXT, /* what comes from now on */
    STREAM_FROM_TIME, /* the first one of that time or later */
};

/* Where messages of an answer are to be found: a stretch of one partition. The streams' own. */
struct stream_want {
    uint32_t stream;
    uint32_t partition;
    uint64_t from;
    uint64_t end;
    uint32_t delivery; /* RECEIVE */
    int64_t until_ns;
};

struct stream_request {
    struct list node; /* the streams', while they have the request */
    stream_request_done_fn *done;
    void *user;
    enum stream_request_kind kind;
    struct bytes stream; /* name */

    /* ---- what is asked ---- */
    union {
        struct {
            struct stream_settings settings;
            uint32_t mask; /* of enum stream_setting */
            bool is_new;   /* answer */
        } set;
        struct {
            struct stream_append *items;
            uint32_t n;
        } append;
        struct { /* READ, GROUP_READ, SEEK, CHECKPOINT (offset), GROUP_DELETE */
            struct bytes group;
            uint32_t partition;
            enum stream_from from_kind; /* READ, SEEK */
            uint64_t offset;
            int64_t time_ns;
            uint32_t limit;  /* messages; 0 = 100 */
            int64_t wait_ms; /* until there is one */
            uint32_t of;     /* READ: only what falls to `reader` of so many; 0 or 1 = all */
            uint32_t reader;
            /* GROUP_READ: what was read before is taken for done, and checkpointed once it is so
             * many messages or so much time; 0 and 0: a read changes nothing, and begins at the
             * checkpoint. */
            uint32_t every_n;
            int64_t every_ms;
            bool is_again; /* GROUP_READ: begin at the checkpoint once more */
        } read;
        struct {
            uint32_t limit;
            int64_t wait_ms;
            int64_t lock_ms; /* 0 = the stream's */
        } receive;
        struct { /* COMPLETE, ABANDON, RENEW, DEAD_LETTER */
            struct stream_token token;
            int64_t lock_ms;     /* RENEW; 0 = the stream's */
            struct bytes reason; /* DEAD_LETTER */
            int64_t until_ns;    /* RENEW: answer */
        } lock;
        struct {                       /* LETTER* */
            uint64_t id;               /* LETTERS: those after it */
            bool has_after;            /* LETTERS */
            uint32_t limit;            /* LETTERS; 0 = 100 */
            bool has_key, has_new_key; /* EDIT: the key becomes this one (or none) */
            struct bytes key;
            bool has_value; /* EDIT */
            enum stream_value_kind kind;
            struct bytes value;
            /* the streams' own: the letter that was read before the step */
            uint64_t offset;
        } letter;
        struct { /* compared, never read: it may be gone */
            const struct stream_request *request;
        } cancel;
        struct { /* the streams' own */
            uint32_t number;
            uint32_t partition;
            uint64_t offset;
            bool is_queued; /* a message of the queue that is dying; else of the bound workflow */
            struct bytes reason;
        } bury;
    };

    /* ---- the answer ---- */
    enum status status;
    char text[160];     /* for people; "" when there is nothing to add */
    uint32_t partition; /* RESUBMIT */
    uint64_t offset;    /* RESUBMIT */
    uint64_t position;  /* GROUP_READ, CHECKPOINT, SEEK: the group's now */
    uint64_t next;      /* READ, GROUP_READ: read on there */
    bool has_more;      /* LETTERS */
    uint32_t items_n;   /* of the answer */
    struct mem mem;     /* of all below */
    struct buffer answer;

    /* ---- the streams' own, from post to done ---- */
    struct buffer wants; /* struct stream_want, of those that the answer needs */
    uint32_t want_at;
    bool is_preparing; /* wants are being followed before the step */
    bool is_read;      /* they were */
    bool is_enough;    /* no more fits */
    bool is_waiting;
    size_t size;           /* of an append: counted as in flight */
    int64_t wait_until_ns; /* 0 = not set yet */
    struct list waiting;   /* in a list of its partition or stream */
    struct heap_node due;
    uint32_t number; /* of the stream, once known */
};

/* Zeroed but for these. size_max: of the answer's memory. */
void stream_request_init(struct stream_request *request, enum stream_request_kind kind,
                         size_t size_max);
void stream_request_release(struct stream_request *request);
/* So that it can be posted once more. */
void stream_request_again(struct stream_request *request);

/* Walks the answer of READ and GROUP_READ: false at the end. Bytes are borrowed from the
 * answer. */
bool stream_answer_next(struct reader *at, struct stream_message *out);

/* The same of LETTERS and LETTER. stream: the name of the one it was in. */
bool stream_answer_next_letter(struct reader *at, struct bytes *stream, struct stream_message *out);

/* The same of RECEIVE. */
struct stream_delivery {
    struct stream_token token;
    uint32_t delivery;
    int64_t until_ns;
    struct stream_message message;
};
bool stream_answer_next_delivery(struct reader *at, struct stream_delivery *out);

#endif

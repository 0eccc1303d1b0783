/* SPDX-License-Identifier: Apache-2.0
 *
 * The desk between the network's thread and that of the streams: stream errands go in, and come
 * back with their answer. It also owns the streams: their directory, lanes and thread.
 *
 *      network's thread                          streams' thread
 *      stream_errand_post() ───────────────────> stream_request ... done()
 *      errand->done() <── stream_desk_collect() <── bell <──┘
 *
 * A stream errand belongs to an ask as other errands do: the ask stays until it has ended.
 */
#ifndef REST_STREAM_DESK_H
#define REST_STREAM_DESK_H

#include "rest/state.h"
#include "stream/streams.h"

struct stream_desk;

struct stream_errand {
    struct stream_request request;
    struct list node; /* the desk's */
    struct stream_desk *desk;
    struct ask *ask;    /* NULL = nobody asked */
    struct arena arena; /* of the network's thread: what the request borrows */
    /* On the network's thread. Ends with stream_errand_end(). */
    void (*done)(struct stream_errand *errand);
    void *user;
};

/* Opens directory/streams and recovers; what is wrong was logged. engine may be NULL: then messages
 * of bound streams wait. */
enum status stream_desk_new(const struct front_options *options, struct stream_desk **out);
/* Ends the thread: what is under way is answered, what waits E_CLOSED; nothing new is taken. Not
 * waited for; over when stream_desk_is_over(). */
void stream_desk_stop(struct stream_desk *d);
bool stream_desk_is_over(const struct stream_desk *d);
/* Stops, and waits for it. Errands can still be collected. */
void stream_desk_join(struct stream_desk *d);
void stream_desk_free(struct stream_desk *d);
/* Calls done() of errands that came back. */
void stream_desk_collect(struct stream_desk *d);
/* For backups. */
struct streams *stream_desk_streams(struct stream_desk *d);
size_t stream_desk_errands_n(const struct stream_desk *d);
void stream_desk_stats(struct stream_desk *d, struct front_stream_stats *out);

/* An errand of this ask, or of nobody. NULL: the ask was answered (too busy, or no streams
 * here). */
struct stream_errand *stream_errand_new(struct rest *r, struct ask *ask,
                                        enum stream_request_kind kind);
/* False: the ask was answered too-busy, the errand ended. */
bool stream_errand_post(struct stream_errand *errand);
void stream_errand_end(struct stream_errand *errand);
/* In its arena; empty without memory. */
struct bytes stream_errand_copy(struct stream_errand *errand, struct bytes text);
/* The usual beginning of a done(): true when the status is OK and somebody still wants the answer.
 * Otherwise it was answered with a problem, and the errand ended. */
bool stream_errand_is_good(struct stream_errand *errand);
/* The usual end: the ask's text as JSON. */
void stream_errand_json(struct stream_errand *errand, unsigned status);
/* The request waits for something: when the peer goes, it is cancelled. */
void stream_errand_waits(struct stream_errand *errand);

#endif

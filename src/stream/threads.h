/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams in a process: their directory, lanes and thread.
 */
#ifndef STREAM_THREADS_H
#define STREAM_THREADS_H

#include "stream/streams.h"

struct streams_threads;

struct streams_threads_options {
    struct mem *mem;               /* of the caller's thread: used in open and close only */
    const char *directory;         /* made when absent; its parent must exist */
    uint64_t journal_segment_size; /* reserved on disk; 0, and at most: 16 MiB */
    /* mem and wake are ours. */
    struct streams_options streams;
    /* On the streams' thread: after each turn; and for the last time when it is over. */
    void (*turned)(void *user);
    void *user;
};

/* Recovers, and starts the thread. As streams_open(); damage has STREAMS_DAMAGE_SIZE bytes. */
enum status streams_threads_open(const struct streams_threads_options *options, char *damage,
                                 struct streams_threads **out);
struct streams *streams_threads_streams(struct streams_threads *t);
/* What is under way is finished, what waits is answered E_CLOSED; not waited for. */
void streams_threads_stop(struct streams_threads *t);
/* From any thread: it has stopped. */
bool streams_threads_is_over(const struct streams_threads *t);
/* Stops, and waits for it. What was posted too late is answered E_CLOSED. */
void streams_threads_join(struct streams_threads *t);
void streams_threads_close(struct streams_threads *t);

#endif

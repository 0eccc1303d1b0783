/* SPDX-License-Identifier: Apache-2.0
 *
 * A world for the streams: a disk in memory that forgets what was not synced, a clock that moves
 * when told, and lanes whose jobs run when the seed says so.
 */
#ifndef TEST_LIB_STREAM_WORLD_H
#define TEST_LIB_STREAM_WORLD_H

#include "base/mem.h"
#include "base/rng.h"
#include "store/store_fault.h"
#include "stream/info.h"
#include "stream/letter.h"
#include "stream/streams.h"

struct stream_world {
    struct mem mem;
    struct io *disk;
    struct env env;
    struct list lanes[LANES_N];
    struct rng rng;
    int64_t wall_ns;
    bool is_fatal;
    struct streams *s; /* NULL: not open */
    struct streams_options options;
    char damage[STREAMS_DAMAGE_SIZE];
};

/* With small limits, so that segments, snapshots and trims happen often. Not open yet. */
void stream_world_init(struct stream_world *w, uint64_t seed);
void stream_world_release(struct stream_world *w);
enum status stream_world_open(struct stream_world *w);
/* The process is gone; is_power: and with it what was not synced. Requests under way are answered
 * E_CLOSED. */
void stream_world_crash(struct stream_world *w, bool is_power);
/* One thing: a turn, or a job. False: nothing is left to do now. */
bool stream_world_step(struct stream_world *w);
void stream_world_run(struct stream_world *w);
/* Lets time pass, and does what becomes due. */
void stream_world_advance(struct stream_world *w, int64_t ms);

struct stream_call {
    struct stream_request request;
    bool is_done;
    uint64_t order; /* of its answer among all */
};
void stream_call_init(struct stream_call *call, enum stream_request_kind kind, const char *stream);
void stream_call_release(struct stream_call *call);
/* False: refused. */
bool stream_call_post(struct stream_world *w, struct stream_call *call);
/* Posts and runs until it is answered. When that cannot be, because the store failed, the process
 * is lost (s is NULL then, and crash() comes next) and the answer E_CLOSED. */
enum status stream_call_run(struct stream_world *w, struct stream_call *call);

/* ---- in one line ---- */

enum status stream_world_set(struct stream_world *w, const char *stream, uint32_t partitions_n);
/* key may be NULL. */
enum status stream_world_append(struct stream_world *w, const char *stream, const char *key,
                                const char *value, int64_t partition, uint64_t *offset);
/* "0=a 1=b " of what is there from `from` on; owned by the call, which the caller releases. */
enum status stream_world_read(struct stream_world *w, const char *stream, uint32_t partition,
                              uint64_t from, char *text, size_t size);

#endif

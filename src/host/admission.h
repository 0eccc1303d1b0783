/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings starts that wait in the journal into memory when there is room for them, and carries those
 * forward that would keep old segments of the journal alive. Both are the same work: some are
 * picked, a lane reads their records back, and the cores are stepped with them. One job at a time.
 *
 *      IDLE ──room, or segments get old──> READING ──> READ ──stepped, as batches have room──> IDLE
 *
 * Who asks for one instance that waits does not wait for its turn: the loader brings it in.
 */
#ifndef HOST_ADMISSION_H
#define HOST_ADMISSION_H

#include "base/arena.h"
#include "host/env.h"
#include "host/frames.h"

struct host;

#define ADMIT_N 512u /* per job */

/* Where the journal was when: to know how much of it only the backlog keeps. */
#define PIN_MARKS_N 256u
struct pin_mark {
    uint64_t lsn;
    uint64_t bytes; /* of all frames before this one, since the host was opened */
};

enum admission_state { ADMISSION_IDLE, ADMISSION_READING, ADMISSION_READ };

struct admission {
    enum admission_state state;
    struct job job;
    struct frames frames;
    struct arena arena; /* of frames.mem */
    bool is_carrying;
    struct queued picked[ADMIT_N];
    struct bytes records[ADMIT_N]; /* in the arena */
    uint32_t picked_n;
    uint32_t used_n;
    enum status status;
    size_t size_max;   /* of the records of one job */
    int64_t retry_ns;  /* nothing before: memory was short */
    bool is_single;    /* memory is so full that they come one by one, */
    int64_t single_ns; /* the next one not before */
    uint64_t carried_n;

    uint64_t bytes; /* of all frames so far */
    struct pin_mark marks[PIN_MARKS_N];
    uint32_t marks_n;
    uint64_t spacing; /* bytes between two marks */
};

/* E_NOMEM. */
enum status admission_init(struct host *h);
void admission_release(struct host *h);
/* A frame is in the journal. */
void admission_frame(struct host *h, uint64_t lsn, size_t size);
/* Bytes of the journal that only the backlog keeps. */
uint64_t admission_pinned(const struct host *h);
/* At the beginning of a turn: whether memory lets anything in. */
void admission_begin(struct host *h);
/* The setting that holds starts back; NULL = none does. */
const char *admission_held_by(const struct host *h);
/* Steps with what was read. */
void admission_finish(struct host *h);
/* Picks and submits the next. */
void admission_turn(struct host *h);
/* When admission_turn or admission_finish has something to do by itself; engine time. */
int64_t admission_wake_ns(const struct host *h);
bool admission_is_quiet(const struct host *h);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a journal directory holds, after whatever happened to it. The rule is a strict prefix:
 *
 *   frames are followed from the oldest on, each by LSN, chain, epoch and time, until one does
 *   not hold. Behind that place there is either nothing that was ever acknowledged - then it is
 *   the torn end of the last write, and is cut off - or there is proof of more: a valid later
 *   frame, a later segment, an archive that knows more. Then acknowledged frames are lost, and we
 *   refuse.
 *
 * Only one write is under way at any time, so a torn end never holds a whole frame behind a broken
 * one.
 *
 * Reading and repairing are two functions: recovery_read() changes nothing on disk, whatever it
 * answers.
 */
#ifndef STORE_JOURNAL_RECOVER_H
#define STORE_JOURNAL_RECOVER_H

#include "store/journal.h"
#include "store/journal_segment.h"

struct segment_entry {
    uint64_t first_lsn;
    uint64_t size; /* of the file */
};

/* The segments there are, by first LSN. */
struct segment_list {
    struct mem *mem;
    struct segment_entry *entries;
    size_t n;
    size_t capacity;
};

void segment_list_release(struct segment_list *list);
/* Makes sure that the next add cannot fail. False without memory. */
bool segment_list_reserve(struct segment_list *list);
/* At the end; there must be room. */
void segment_list_add(struct segment_list *list, struct segment_entry entry);
void segment_list_remove_first(struct segment_list *list);

/* Where the journal goes on. */
struct journal_position {
    uint64_t next_lsn;
    uint64_t chain; /* that the next frame carries */
    uint32_t epoch; /* of the last frame */
    int64_t time_ns;
};

struct recovery {
    /* given by the caller */
    struct io *io;
    struct mem *mem;
    const char *directory;
    uint64_t after_lsn;
    journal_replay_fn *fn;
    void *user;
    struct journal_report *report; /* zeroed */

    /* found */
    struct segment_list segments; /* the caller's to release */
    struct journal_position position;
    uint32_t seed;     /* of the last segment that has a header */
    uint64_t at;       /* the end of its last frame */
    uint64_t tail_end; /* behind its last byte that is not zero; at when there is none */
    bool has_unborn;   /* one more file is there, named like a segment and without anything in it */

    const char *stop_reason; /* why the frame at `at` was not taken */
};

/* Validates everything and gives the frames to fn. E_CORRUPT and E_VERSION with report->damage,
 * E_IO, E_NOMEM, or what fn answered. */
enum status recovery_read(struct recovery *r);

/* After recovery_read() answered OK: cuts off the torn end, makes durable what was read, and opens
 * the last segment for appending (active->file is NULL when there is none). */
enum status recovery_repair(struct recovery *r, struct segment *active);

#endif

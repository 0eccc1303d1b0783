/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of the streams, read and verified without changing it: for `norn check`. What the
 * next start would need is judged, no more: segments of streams that are deleted, of messages that
 * are dropped, and what was written behind the snapshot are removed by that start, whatever is in
 * them. Nobody else may be using the directory.
 */
#ifndef STREAM_CHECK_H
#define STREAM_CHECK_H

#include "store/journal.h"

struct io;

enum streams_part {
    STREAMS_SNAPSHOT, /* definitions, positions of groups, queues, dead letters: whole and sound */
    STREAMS_JOURNAL,  /* every frame, and whether its records follow from what was before them */
    STREAMS_SEGMENTS, /* every message that the two above speak of, and none twice or missing */
};

struct streams_report {
    bool has_snapshot;
    uint64_t snapshot_lsn; /* the frames up to it are not needed */
    bool has_journal_read; /* the snapshot was good enough to go on */
    struct journal_report journal;
    bool has_segments_read; /* so was the journal; the counts below are of the last frame */
    uint64_t streams_n;
    uint64_t groups_n; /* with those of queues and bound workflows */
    uint64_t letters_n;
    uint64_t segments_n;
    uint64_t messages_n; /* in segments, each read and checked */
    uint64_t bytes;      /* of them */
    uint64_t obsolete_n; /* files that the next start removes */
};

/* One damage: of which part, and in words which file, which place in it, and what is wrong.
 * Borrowed during the call. */
typedef void streams_damage_fn(void *user, enum streams_part part, const char *what);

/* io: on the directory of the streams. OK: all of it is good, or there is nothing yet. Else fn was
 * told of every damage in the first part that has any; the parts behind it cannot be judged without
 * it. E_CORRUPT, E_VERSION, E_IO, E_NOMEM: the first of them. */
enum status streams_check(struct io *io, struct mem *mem, streams_damage_fn *fn, void *user,
                          struct streams_report *report);

#endif

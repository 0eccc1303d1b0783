/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that is on disk, read and verified, without changing it: for `norn check`. The reports
 * are filled as far as it came, also when it is damaged. Nobody else may be using the directory.
 *
 * A hot SQLite database has a part of its truth in the write-ahead log. It is opened for reading
 * only, so that the log is read and not folded in; SQLite may leave its index of the log (*-shm)
 * beside it, which is no data.
 */
#ifndef STORE_CHECK_H
#define STORE_CHECK_H

#include "store/journal.h"

#define CHECK_DAMAGE_SIZE 320

struct archive_report {
    uint64_t applied_lsn;
    uint64_t rows_n;
    uint64_t segments_n;
    uint64_t blocks_n;              /* each read, checked and unpacked */
    uint64_t bytes;                 /* of the segments */
    char damage[CHECK_DAMAGE_SIZE]; /* for people, when it is refused */
};

/* root: the directory of the io; directory: below it, "shard-0/archive". OK: all of it is good, or
 * there is none yet. E_CORRUPT, E_VERSION, E_IO, E_NOMEM, with report->damage. */
enum status archive_check(struct io *io, const char *root, const char *directory, struct mem *mem,
                          struct archive_report *report);

/* The frames after after_lsn are wanted (the archive's applied_lsn). A torn end is no damage:
 * report->truncated_bytes tells. Statuses as above. */
enum status journal_check(struct io *io, const char *directory, uint64_t after_lsn, struct mem *mem,
                          struct journal_report *report);
/* The same, and fn is given those frames: what it answers, if not OK, is the answer. */
enum status journal_check_frames(struct io *io, const char *directory, uint64_t after_lsn,
                                 struct mem *mem, journal_replay_fn *fn, void *user,
                                 struct journal_report *report);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults on purpose, for tests: an io that fails, tears and forgets, and an archive that fails.
 * Calls are counted; the plan says what happens at the nth.
 */
#ifndef STORE_STORE_FAULT_H
#define STORE_STORE_FAULT_H

#include "store/archive.h"
#include "store/io.h"

/* kind, what it does */
#define STORE_FAULTS(X)                                                                            \
    X(FAULT_NONE, "nothing")                                                                       \
    X(FAULT_FAIL, "the call answers E_IO and does nothing")                                        \
    X(FAULT_NOSPACE, "the call answers E_NOSPACE and does nothing (writes, allocate, create)")     \
    X(FAULT_TEAR, "a write stores only a part, in sectors of 512 bytes, and the process is gone")  \
    X(FAULT_CRASH, "the process is gone before the call")                                          \
    X(FAULT_CRASH_AFTER, "the process is gone after the call")

enum store_fault {
#define X(name, text) name,
    STORE_FAULTS(X)
#undef X
};

/* Which calls count. */
enum store_fault_on {
    FAULT_ON_ANY, /* all but close */
    FAULT_ON_WRITE,
    FAULT_ON_DATASYNC, /* of files and of directories */
    FAULT_ON_RENAME,
    FAULT_ON_ALLOCATE,
};

struct store_fault_plan {
    enum store_fault fault;
    enum store_fault_on on;
    uint64_t at;   /* 1 = the next such call; 0 = never */
    bool for_ever; /* every later such call too */
    uint64_t seed; /* of what is torn and dropped */
};

/* A disk in memory (or rather what a kernel and a disk do together): written data is volatile until
 * datasync, names until sync_directory. A datasync that fails drops some of what was written, and
 * the next one answers OK without it. After "the process is gone" every call answers E_IO until one
 * of the two below; files that are open then can only be closed. */
enum status store_fault_disk_new(struct mem *mem, uint64_t capacity, struct io **out);
void store_fault_plan(struct io *disk, const struct store_fault_plan *plan);
bool store_fault_is_crashed(struct io *disk);
/* The power failed, at any time, planned or not. Decides for each unsynced sector, by the seed,
 * whether it is the old, the new or garbage (where it was written; its other bytes stay), and for
 * each unsynced name whether it is there; the next open sees that. Forgets the plan. */
void store_fault_restart(struct io *disk);
/* Only the process was gone: everything written is still there, and still not durable. */
void store_fault_resume(struct io *disk);
/* How many calls of this kind there have been: bounds an nth-failure loop. */
uint64_t store_fault_calls(struct io *disk, enum store_fault_on on);
/* For torture: contents of a file, to read and to damage. NULL when absent. */
struct buffer *store_fault_file(struct io *disk, const char *path);

/* An archive whose nth apply, get, query ... fails with `status`; closes inner with itself. */
enum status archive_fault_open(struct archive *inner, struct archive **out);
void archive_fault_at(struct archive *a, uint64_t nth_call, enum status status, bool for_ever);

#endif

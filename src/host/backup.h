/* SPDX-License-Identifier: Apache-2.0
 *
 * A backup of a data directory while its engine runs: a directory like it, which `norn restore`,
 * `norn check` and a server understand. It has everything that was acknowledged before
 * backup_make() was called, and some of what came after, as if the power had failed at one moment.
 *
 * It is written to PATH.partial and renamed when everything is synced: what has the name PATH is
 * whole. Who writes it has its lock, which ends with the process: a PATH.partial without lock, with
 * nothing in it but files of ours, is what a crash left, and the next backup to PATH removes it.
 * The calling thread does all the work and waits; it must not be a host's.
 */
#ifndef HOST_BACKUP_H
#define HOST_BACKUP_H

#include "host/engine.h"
#include "host/hold.h"

struct copy;

struct backup {
    struct engine *engine;
    const char *directory; /* of the data */
    const char *path;      /* of the backup: absolute, not there yet, in a directory that is */
    /* What else is in the directory, with a hold of its own; both NULL = nothing. */
    struct hold *beside;
    enum status (*copy_beside)(struct copy *c, uint64_t lsn);
    const atomic_bool *is_cancelled; /* set by any thread: gives up soon */
    /* the answer */
    uint64_t bytes;
    bool has_replaced; /* the rest of one that was interrupted was there, and was removed */
    char text[400];    /* for people, when it failed */
};

/* E_INVALID: the path; E_EXISTS: it is there, or something that is no backup is at its .partial.
 * E_NOSPACE, E_IO, E_CORRUPT, E_NOMEM; E_TIMEOUT: it took so long that the files could not be held;
 * E_BUSY: another is being made; E_CLOSED: cancelled, or the engine stops. Nothing is left of one
 * that failed. */
enum status backup_make(struct backup *b);

#endif

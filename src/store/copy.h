/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies stores to another directory while they are in use, for backups. What is copied must be
 * held still (host/hold.h), but for the journal, which grows: of it exactly the frames up to an LSN
 * are taken. Every file is new and synced, every directory made and synced.
 *
 * All answer OK, E_IO, E_NOSPACE, E_CORRUPT (a frame or the database is damaged), E_NOMEM,
 * E_EXISTS, E_CLOSED (cancelled); `failed` names the file then.
 */
#ifndef STORE_COPY_H
#define STORE_COPY_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdatomic.h>

struct io;
struct mem;

struct copy {
    const char *from_root; /* absolute, or where the process is */
    const char *to_root;
    struct io *from;
    struct io *to;
    struct mem *mem;
    const atomic_bool *is_cancelled; /* looked at between blocks */
    uint64_t bytes;                  /* copied so far */
    char failed[160];                /* path below the root */
};

/* Paths are below both roots. */
enum status copy_directory(struct copy *c, const char *path); /* makes it */
enum status copy_synced(struct copy *c, const char *path);    /* its names are durable */
enum status copy_file(struct copy *c, const char *path);
/* All files whose names end so, or all. */
enum status copy_files(struct copy *c, const char *directory, const char *suffix);
/* The frames up to this one, which are durable. */
enum status copy_journal(struct copy *c, const char *directory, uint64_t upto_lsn);
/* Of archive_sqlite.c. */
enum status copy_archive(struct copy *c, const char *directory);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated disk of one shard: what a kernel and a drive do together. Written data is volatile
 * until datasync, names until sync_directory. It outlives the process that uses it.
 */
#ifndef TEST_SIM_SIM_DISK_H
#define TEST_SIM_SIM_DISK_H

#include "store/io.h"
#include "test/sim/sim_world.h"

#define SECTOR_SIZE 512u

struct disk;

struct disk *disk_new(struct world *w);
void disk_free(struct disk *d);
/* What the store of this shard is opened on; lives as long as the disk. */
struct io *disk_io(struct disk *d);

/* The process is gone before (or in the middle of) the nth operation from now; 0 takes it back.
 * From then on every call answers E_IO, until disk_restart(). */
void disk_gone_at(struct disk *d, uint64_t nth);
void disk_set_gone(struct disk *d);
bool disk_is_gone(const struct disk *d);
/* Decides what of the unsynced is there, and lets a new process use it. */
void disk_restart(struct disk *d);

void disk_set_full(struct disk *d, bool is_full);
bool disk_is_full(const struct disk *d);
/* Reads may fail (READ_EIO) from now on: during recovery only. */
void disk_set_recovering(struct disk *d, bool is_recovering);
/* Faults that were injected since the last restart and forbid any further acknowledgement. */
bool disk_has_failed(const struct disk *d);

#endif

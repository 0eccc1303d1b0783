/* SPDX-License-Identifier: Apache-2.0
 *
 * What an embedded engine's workers run now, in a file that outlives the process. A worker of a
 * server that dies is missed by the server; here engine and worker die together, and who opens the
 * directory next finds in the file what was being run. That counts as a lost worker, once: so an
 * activity or orchestrator that ends the process is not run again for ever, but ends by its policy.
 *
 * The file is a mapping that nobody flushes: it survives the end of the process, and after a loss
 * of power nothing is counted.
 */
#ifndef LIB_RUNNING_H
#define LIB_RUNNING_H

#include "core/input.h"

struct mem;
struct running_slot;

struct running {
    struct mem *mem;
    struct running_slot *slots; /* mapped; NULL: there is no file, and nothing is counted */
    struct running_slot *lost;  /* copies of what was found; lost_n */
    uint32_t lost_n;
};

/* The directory is the caller's alone. Without memory, space or the right to write nothing is
 * counted. */
void running_open(struct running *r, struct mem *mem, const char *directory);
/* Nothing runs any more. */
void running_close(struct running *r);

/* Any thread. r may be NULL. NULL when more run at once than are noted; running_end() takes it. */
struct running_slot *running_begin(struct running *r, const struct work_ref *ref);
void running_end(struct running_slot *slot);

/* Any thread. True once for each piece of work that a process before this one died in. */
bool running_was_lost(struct running *r, const struct work_ref *ref);

/* Why it is given back. */
#define RUNNING_LOST "the process ended while it ran"

#endif

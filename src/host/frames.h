/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of starts that wait, read back from the journal. Used inside a job: it belongs to one
 * lane. The frame that was read last is kept, because those that wait stand mostly one behind the
 * other.
 */
#ifndef HOST_FRAMES_H
#define HOST_FRAMES_H

#include "base/mem.h"
#include "core/backlog.h"
#include "store/journal.h"

struct frames {
    struct mem mem;
    struct journal_reader *reader;
    struct buffer frame;
    uint64_t lsn; /* of what is in it; 0 = nothing */
};

/* E_NOMEM. */
enum status frames_init(struct frames *f, struct journal *journal);
void frames_release(struct frames *f);
/* The bytes of its record, borrowed until the next call. What the reader answers, or E_CORRUPT. */
enum status frames_get(struct frames *f, const struct queued *waiting, struct bytes *out);
/* A large frame is given back. */
void frames_rest(struct frames *f);

#endif

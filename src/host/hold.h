/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds the files of something that runs still, so that another thread can copy them: of a host (or
 * the streams) nothing is archived, moved, trimmed or unlinked while it is held; frames are
 * appended to the journal as always.
 *
 *   owner:  hold_all() ─────────────────────────────────────> lsn ──> hold_go_on() ... hold_end()
 *             ASKED ──> READY ──────> PAUSING ──> STILL ──────────────> HELD ──────────> NONE
 *   held:           files are       steps nothing,  until all
 *                   at rest         all is durable  are still
 *
 * All of them are still at one moment, and the frames up to each one's LSN at that moment belong
 * together: no message between shards was taken by one that the other has not sent, and no start of
 * a bound stream is in the engine and not in the stream. That moment takes as long as a frame; the
 * copying comes after it and stops nobody.
 *
 * A hold ends by itself when what is held stops, or after HOLD_TIME_NS: what was copied then is
 * worth nothing, and hold_end() says so.
 */
#ifndef HOST_HOLD_H
#define HOST_HOLD_H

#include "base/clock.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define HOLD_TIME_NS (600 * NS_PER_S)

enum hold_phase { HOLD_NONE, HOLD_ASKED, HOLD_READY, HOLD_PAUSING, HOLD_STILL, HOLD_HELD };

struct hold {
    pthread_mutex_t mutex; /* of changes of the phase */
    pthread_cond_t changed;
    _Atomic int phase;        /* enum hold_phase */
    uint64_t lsn;             /* from STILL on: the newest durable frame */
    int64_t until_ns;         /* by the clock of what is held; 0 = it has not seen it yet */
    void (*wake)(void *user); /* what is held turns soon; NULL = it does anyhow */
    void *wake_user;
};

void hold_init(struct hold *h, void (*wake)(void *user), void *wake_user);
void hold_release(struct hold *h);

/* ---- the owner, who is one thread ---- */

/* Waits until all of them are still at once. E_BUSY: one has another owner; E_CLOSED: one stops;
 * E_TIMEOUT: it took too long. Then none is held by this call. */
enum status hold_all(struct hold *const *holds, size_t n);
/* They go on; their files stay. */
void hold_go_on(struct hold *const *holds, size_t n);
/* False: it had ended by itself. */
bool hold_end(struct hold *h);

/* ---- what is held, on its thread ---- */

static inline enum hold_phase hold_phase(const struct hold *h)
{
    return (enum hold_phase)atomic_load_explicit(&h->phase, memory_order_acquire);
}
/* Goes from ASKED to READY, or from PAUSING to STILL with this LSN, unless the owner gave up. */
void hold_ready(struct hold *h);
void hold_still(struct hold *h, uint64_t lsn);
/* Ends it when its time is over, or at once when `is_stopping`. */
void hold_watch(struct hold *h, bool is_stopping, int64_t mono_ns);

#endif

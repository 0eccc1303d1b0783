/* SPDX-License-Identifier: Apache-2.0
 *
 * Purges that are made of many: everything that matches a filter, or a tree whose instances are in
 * several shards. Each is a chain of ordinary requests, made and answered like anybody's: look,
 * purge as many at once as one wave has, look on. So the host never does more than one request's
 * work at a time for it, others go on in between, and one frame serves a whole wave.
 *
 * A chain has no thread: each link is made in the done() of the one before, wherever that is. It
 * ends at the first answer that is not its business (closed, full, out of memory) without asking
 * anything more.
 */
#ifndef HOST_PURGER_H
#define HOST_PURGER_H

#include "base/arena.h"
#include "base/mem.h"
#include "host/request.h"

#include <stdatomic.h>

/* Under way at once; beyond: E_UNAVAILABLE. */
#define PURGES_WHERE_MAX 4u
#define PURGES_TREE_MAX 1024u
/* Purges of one wave. */
#define WAVE_WHERE_N 128u
#define WAVE_TREE_N 32u
_Static_assert(PURGES_WHERE_MAX *WAVE_WHERE_N < PURGES_TREE_MAX, "each of a wave may be a tree");

/* Whoever takes the requests: a host for itself, an engine for all its shards. */
struct purger {
    bool (*post)(struct purger *p, struct request *request); /* as host_post() */
    int64_t (*now_ns)(struct purger *p);                     /* never goes back */
    atomic_uint wheres_n;
    atomic_uint trees_n;
};

/* PURGE_WHERE. OK: it is under way, and done() will be called. E_UNAVAILABLE, E_NOMEM: it is still
 * the caller's. */
enum status purge_where(struct purger *p, struct request *request);
/* PURGE with recurse, where the instances of a tree are not all in one shard. First the whole tree
 * is walked: when one of them has not ended, nothing is purged (E_PRECONDITION). Then the deepest
 * go first; unlike within one shard not all at once, so what fails in between leaves the upper part
 * of the tree, and whoever asks again purges the rest. The same statuses. */
enum status purge_tree(struct purger *p, struct request *request);

/* ---- for these two ---- */

/* Purges that are asked for at once. */
struct wave_slot {
    struct request request;
    struct wave *wave;
};
struct wave {
    struct wave_slot *slots;
    uint32_t slots_n;
    uint32_t n;
    atomic_uint pending_n;
    void (*done)(struct wave *wave); /* when all are answered, on any of their threads */
};
/* E_NOMEM. mem outlives it. */
enum status wave_init(struct wave *w, struct mem *mem, uint32_t slots_n);
void wave_release(struct wave *w, struct mem *mem);
/* There must be room. key is borrowed until done(). */
void wave_add(struct wave *w, struct bytes key, bool recurse, bool is_forced);
/* Not empty. done() may be called before this returns: the caller touches nothing afterwards. */
void wave_run(struct wave *w, struct purger *p);
/* Adds up what was purged. The heaviest answer that neither purged nor found nothing to purge, and
 * in `text` (as in a request) what it said; OK when there was none. E_PRECONDITION and E_LIMIT are
 * about one instance only, all others are heavier. */
enum status wave_take(struct wave *w, uint32_t *purged_n, char *text, size_t text_size);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of instances on their way from the hosts' threads to the network's. While nobody watches
 * it costs nothing; while somebody does, a host collects the changes of a batch in a page and hands
 * it over when the batch is told.
 *
 *      host's thread: feed_changed() ──page──> queue ──bell──> network's thread: feed_take()
 *
 * Bounded: what comes faster than it is taken is dropped, and feed_take() says so.
 */
#ifndef SERVER_FEED_H
#define SERVER_FEED_H

#include "base/mem.h"
#include "host/host.h"

struct feed;

/* Changes in the order they were told. Of memory of its own: it changes threads. */
struct feed_page {
    struct list node;
    struct mem mem;
    struct buffer bytes; /* entries, one after the other: feed_next() reads them */
    uint32_t n;
    uint64_t first; /* for the reader: the number of its first entry */
};

/* One entry; borrowed from its page. */
struct feed_entry {
    bool is_alert;
    enum orchestration_status status; /* not of an alert */
    int64_t time_ns;
    struct bytes key;
    struct bytes text; /* of an alert; else the orchestrator's name */
};

/* ring: as that of a desk, on a host's thread. E_NOMEM. */
enum status feed_new(struct mem *mem, void (*ring)(void *user), void *user, struct feed **out);
/* The hosts are closed. */
void feed_free(struct feed *f);

/* For host_options: is_watched, and changed with the feed as its user. */
const atomic_bool *feed_is_watched(const struct feed *f);
host_changed_fn feed_changed;

/* The network's thread from here on. Pages that are under way when it ends are dropped. */
void feed_watch(struct feed *f, bool is_watched);
/* Moves the pages that have come to the end of `to`; *is_lost: there were more, which are gone. */
void feed_take(struct feed *f, struct list *to, bool *is_lost);
void feed_page_free(struct feed_page *page);
/* The next entry of a reader over page->bytes; false at the end. */
bool feed_next(struct reader *r, struct feed_entry *out);

#endif

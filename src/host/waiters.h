/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that wait for an instance to start or to finish, by instance. They leave when it does,
 * whatever its state was when they came: who adds one has looked first, on the same thread.
 */
#ifndef HOST_WAITERS_H
#define HOST_WAITERS_H

#include "base/map.h"
#include "host/filter.h"
#include "host/request.h"

#define WAITERS_MAX 1000000u

struct waiters {
    struct mem *mem;
    struct map keys;  /* of struct waited_key */
    struct list all;  /* the same, oldest first */
    struct list pool; /* the same, unused */
    size_t n;         /* requests */
    /* Addresses of the same requests: tells whether a pointer that may lead nowhere is one of them,
     * without following it. */
    struct filter addresses;
};

void waiters_init(struct waiters *w, struct mem *mem, const uint64_t seed[2]);
/* Must have no requests any more. */
void waiters_release(struct waiters *w);
/* E_NOMEM, E_LIMIT. */
enum status waiters_add(struct waiters *w, struct request *request);
/* Whether anybody waits for the instance. */
bool waiters_has(const struct waiters *w, struct bytes key);
/* Moves those of the instance that waited for no more than this to the end of `to`. */
void waiters_take(struct waiters *w, struct bytes key, bool is_finished, struct list *to);
/* Takes out one request of that key. False: it does not wait here; it is compared, never read. */
bool waiters_remove(struct waiters *w, struct bytes key, const struct request *request);
/* Moves all. */
void waiters_take_all(struct waiters *w, struct list *to);

#endif

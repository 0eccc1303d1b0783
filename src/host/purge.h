/* SPDX-License-Identifier: Apache-2.0
 *
 * Purge with all descendants, within one shard: first the whole tree is walked and brought into
 * memory, then, when every one of them has ended (or by force), all are purged in one batch: all or
 * none. A descendant that is missing is no error. Over several shards: see purger.h.
 */
#ifndef HOST_PURGE_H
#define HOST_PURGE_H

#include "host/request.h"

struct host;

#define PURGE_N_MAX 10000u /* instances of one tree; beyond: E_LIMIT */
#define PURGE_TEXT_RUNNING                                                                         \
    "the instance or one that it started has not ended: terminate it before purging it"
#define PURGE_TEXT_MANY "the instance has more than 10000 descendants: purge them first"
#define PURGE_TEXT_BUSY "the purge could not go on now: ask again for the rest"

/* Begins, or goes on after a load, or ends it. */
void purge_run(struct host *h, struct request *request);
/* The request is answered otherwise. */
void purge_give_up(struct host *h, struct request *request);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Purge with all descendants: first the whole tree is walked and brought into memory, then, when
 * every one of them has ended, all are purged in one batch: all or none. A descendant that is
 * missing is no error.
 */
#ifndef HOST_PURGE_H
#define HOST_PURGE_H

#include "host/request.h"

struct host;

#define PURGE_N_MAX 10000u /* instances of one tree; beyond: E_LIMIT */

/* Begins, or goes on after a load, or ends it. */
void purge_run(struct host *h, struct request *request);
/* The request is answered otherwise. */
void purge_give_up(struct host *h, struct request *request);

#endif

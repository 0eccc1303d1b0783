/* SPDX-License-Identifier: Apache-2.0
 *
 * A list over several shards: each is asked for a page, and the pages are merged.
 */
#ifndef HOST_ENGINE_QUERY_H
#define HOST_ENGINE_QUERY_H

#include "host/engine.h"

/* As engine_post() of a QUERY. False: not even one shard was asked. */
bool engine_query(struct engine *e, struct request *request);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine as the starter of bound streams (stream/starter.h): a message is a START whose source
 * position is durable in the same frame.
 */
#ifndef REST_STREAM_STARTER_H
#define REST_STREAM_STARTER_H

#include "host/engine.h"
#include "stream/starter.h"

struct rest_starter;

/* E_NOMEM. mem is used in new and free only. */
enum status rest_starter_new(struct mem *mem, struct engine *engine, struct rest_starter **out);
/* Nothing is under way any more. */
void rest_starter_free(struct rest_starter *s);
struct stream_starter *rest_starter_interface(struct rest_starter *s);
/* On the streams' thread: what was posted since is to be seen now. */
void rest_starter_turned(struct rest_starter *s);

#endif

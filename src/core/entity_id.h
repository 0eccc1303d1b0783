/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of entities: "@name@key", the name in lower case.
 */
#ifndef CORE_ENTITY_ID_H
#define CORE_ENTITY_ID_H

#include "base/bytes.h"

struct arena;

/* Begins with '@', which no orchestration's does. */
bool id_is_entity(struct bytes id);
/* The name; empty when the id has not the form. Borrowed. */
struct bytes entity_id_name(struct bytes id);
/* NULL when it is valid; else what is wrong, in words that say "length" when that is it. */
const char *entity_id_problem(struct bytes id, size_t size_max);
/* Brings the name to lower case, in place. Whoever makes the key of an entity from somebody's id
 * does this first: the key decides where the entity lives. */
void entity_id_lower(uint8_t *id, size_t len);
bool entity_id_is_lower(struct bytes id);
/* The same as a copy in the arena, of reserved memory, where there is something to change. */
struct bytes entity_id_normal(struct bytes id, struct arena *arena);

#endif

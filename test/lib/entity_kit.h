/* SPDX-License-Identifier: Apache-2.0
 *
 * Words for entities, on top of the kit in partition.h. Messages are made with the wire's writer,
 * not with the core's codec, so that the two check each other.
 */
#ifndef TEST_LIB_ENTITY_KIT_H
#define TEST_LIB_ENTITY_KIT_H

#include "test/lib/partition.h"

/* ---- clients ---- */

enum status kit_signal(struct kit *k, const char *key, const char *operation, const char *input);
enum status kit_signal_at(struct kit *k, const char *key, const char *operation, int64_t at_ms);

/* ---- workers ---- */

const struct effect_work *kit_take_entity(struct kit *k, const char *name);
/* One result for each text; one that begins with '!' is a failure. state NULL: deleted. */
enum status kit_entity_done(struct kit *k, const struct effect_work *work, const char *state,
                            const char *const *results, uint32_t results_n);
#define KIT_DONE(k, work, state, ...)                                                              \
    kit_entity_done(k, work, state, (const char *const[]){__VA_ARGS__},                            \
                    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
/* As it is; has_ref false: as a worker that cannot echo tokens. */
enum status kit_entity_answer(struct kit *k, const struct effect_work *work, bool has_ref,
                              const struct entity_answer *answer);
/* The names of the operations, each followed by a space. */
const char *kit_operations(struct kit *k, const struct effect_work *work);

/* ---- actions; what they point to lives for the next 64 of them ---- */

struct action act_signal(int32_t id, const char *target, const char *request, const char *operation,
                         int64_t at_ms);
struct action act_call(int32_t id, const char *target, const char *request, const char *operation);
/* targets: separated by spaces. */
struct action act_lock(int32_t id, const char *section, const char *targets);
struct action act_unlock(int32_t id, const char *section, const char *target);

/* ---- looking ---- */

/* "state 5, locked by o, backlog 2"; "none" when it is not there. */
const char *kit_entity(struct kit *k, const char *key);

#endif

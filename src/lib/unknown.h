/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of functions that this worker does not have. Perhaps another worker has them; perhaps the
 * name is wrong, and the call would wait for ever without a word: so a line is written, once.
 */
#ifndef LIB_UNKNOWN_H
#define LIB_UNKNOWN_H

#include "core/limits.h"
#include "lib/registry.h"

#define UNKNOWN_N_MAX 16u /* names; who has more of them means it */

/* Zeroed at first. */
struct unknown {
    char told[UNKNOWN_N_MAX][LIMIT_NAME_SIZE + 1];
    size_t n;
};

/* Looks at what an orchestrator has decided. A worker without any function of a kind is not made
 * for that kind: nothing is said. */
void unknown_look(struct unknown *u, const struct registry *registry,
                  const struct journal_lines *lines, const struct orchestrator_answer *answer);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Bugs on purpose: the simulator is worth what it finds, so a special build of it carries known
 * bugs, one of which is switched on by name (test/sim/find_planted_bugs). In every other build
 * planted() is the constant false and the compiler removes the branch.
 */
#ifndef BASE_PLANTED_H
#define BASE_PLANTED_H

#ifdef NORN_PLANTED_BUGS
#include <stdbool.h>
/* Whether the bug of this name is switched on. Defined by the simulator. */
bool planted(const char *name);
#else
#define planted(name) false
#endif

#endif

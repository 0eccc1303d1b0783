/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the user's. Each struct begins with its size, as the header of its program had it: one
 * of an older program is shorter, and what it lacks is as in the initialiser.
 */
#ifndef LIB_OPTIONS_H
#define LIB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* *own is the initialiser. given may be NULL: nothing is asked for. False when given has no size:
 * its initialiser was forgotten, and everything in it would be lost without a word. */
static inline bool options_read(void *own, size_t own_size, const void *given)
{
    size_t size;

    if (given == NULL) return true;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size) return false;
    memcpy(own, given, size < own_size ? size : own_size);
    return true;
}

#define OPTIONS_WITHOUT_SIZE                                                                       \
    "the options have no size: begin with their initialiser, as NORN_START_OPTIONS"

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Random bytes from the system, for ids and keys.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>

/* Aborts when the system has none: nothing safe can be done without. */
void random_fill(void *ptr, size_t len);

#endif

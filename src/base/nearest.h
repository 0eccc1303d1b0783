/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean ...?": of the names there are, the one that is nearest to a word.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include "base/bytes.h"

/* How many letters to change, add or leave out, whatever their case; DISTANCE_FAR when one of them
 * is longer than NEAREST_SIZE_MAX. */
#define NEAREST_SIZE_MAX 64u
#define DISTANCE_FAR UINT32_MAX
unsigned edit_distance(struct bytes a, struct bytes b);

struct nearest {
    struct bytes word; /* borrowed */
    struct bytes best; /* of those offered; empty when none is near enough to be meant */
    unsigned distance;
};

void nearest_init(struct nearest *n, struct bytes word);
/* name is borrowed. */
void nearest_offer(struct nearest *n, struct bytes name);

#endif

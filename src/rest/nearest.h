/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean ...?": of the names there are, the one that is nearest to a word.
 */
#ifndef REST_NEAREST_H
#define REST_NEAREST_H

#include "base/bytes.h"

struct nearest {
    struct bytes word; /* borrowed */
    struct bytes best; /* of those offered; empty when none is near enough to be meant */
    unsigned distance;
};

void nearest_init(struct nearest *n, struct bytes word);
/* name is borrowed. */
void nearest_offer(struct nearest *n, struct bytes name);

#endif

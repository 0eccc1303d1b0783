/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for the core's decoder of entity answers while there is none; the core's own wins.
 */
#include "core/event.h"

__attribute__((weak)) enum status entity_answer_decode(struct bytes result, struct arena *arena,
                                                       const struct entity_answer **out)
{
    (void)result;
    (void)arena;
    (void)out;
    return E_UNSUPPORTED;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings that say something by name, "a: x=1, y=2; b: x=3": how they are taken apart.
 */
#ifndef SERVER_RULE_TEXT_H
#define SERVER_RULE_TEXT_H

#include "base/bytes.h"

/* Without the spaces around it. */
struct bytes rule_trim(struct bytes text);
/* The part before the separator, trimmed, which goes with it; all of it when there is none. */
struct bytes rule_split(struct bytes *text, char separator);
/* Digits, nine at most. */
bool rule_number(struct bytes text, uint32_t *out);

#endif

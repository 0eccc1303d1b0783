/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of the setting ingest.by_name:
 *
 *      ship:active=100,rate=50; bill:active=10
 *
 * Names of orchestrators, each with one or both of two limits. Spaces around names, limits and
 * separators do not count; nothing may be there twice.
 */
#ifndef SERVER_INGEST_RULES_H
#define SERVER_INGEST_RULES_H

#include "core/backlog.h"

#define INGEST_RULES_N_MAX 1000u

/* How many there are. False: the text is none of these. An empty one has none. */
bool ingest_rules_count(struct bytes text, uint64_t *out);
/* All of a text that was counted; the names borrow from it. */
void ingest_rules_read(struct bytes text, struct backlog_rule *out);

#endif

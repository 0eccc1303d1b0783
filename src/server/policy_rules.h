/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of the setting work.policies: what the engine does about steps that fail or are late, by
 * the name of the activity.
 *
 *      ship: complete_by=10m, retries_failures=true, first_threshold=2, retry_delay=1s,
 *      second_threshold=3, extended_wait=1h, last_resort=park; *: complete_by=1d
 *
 * "*" is for all that have none of their own. The words are those of struct norn_policy in
 * include/norn.h, and what is not said is as there, but for a second threshold, which is the first
 * then. Spaces around names, words and separators do
 * not count, nor does the case of a name; nothing may be there twice.
 */
#ifndef SERVER_POLICY_RULES_H
#define SERVER_POLICY_RULES_H

#include "core/core.h"

#define POLICY_RULES_N_MAX 1000u

struct policy_rule {
    struct bytes name;
    struct policy policy;
};

struct policy_rules {
    const struct policy_rule *list;
    size_t n;
    struct policy otherwise; /* of activities that are not in the list */
};

/* How many there are. False: the text is none of these. An empty one has none. */
bool policy_rules_count(struct bytes text, uint64_t *out);
/* All of a text that was counted, into a list with room for them; the names borrow from it. */
void policy_rules_read(struct bytes text, struct policy_rule *list, struct policy_rules *out);
/* A policy_fn; user: struct policy_rules. */
const struct policy *policy_rules_find(void *user, struct bytes name);

#endif

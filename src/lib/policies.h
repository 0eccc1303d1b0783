/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies of an embedded engine by the name of the activity, as its core asks for them. They do
 * not change while the engine is open, so all of its threads may ask.
 */
#ifndef LIB_POLICIES_H
#define LIB_POLICIES_H

#include "base/mem.h"
#include "core/core.h"

#include <norn.h>

#define POLICIES_MAX 10000u
/* What a list of them must be, for those who are told that theirs is not. */
#define POLICIES_RULES                                                                             \
    "no time may be negative, the second threshold not below the first, and a name has one"

struct named_policy;

struct policies {
    struct named_policy *list;
    size_t n;
    size_t room;
    struct policy otherwise; /* of activities without one of their own */
};

/* Copies them. E_INVALID: thresholds that go down, a negative time, or two for one name; E_LIMIT,
 * E_NOMEM. */
enum status policies_init(struct policies *p, struct mem *mem, const struct norn_policy *given,
                          size_t n);
void policies_release(struct policies *p, struct mem *mem);
/* A policy_fn; user: struct policies. */
const struct policy *policies_find(void *user, struct bytes name);

#endif

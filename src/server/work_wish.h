/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker wants: its GetWorkItemsRequest, read.
 */
#ifndef SERVER_WORK_WISH_H
#define SERVER_WORK_WISH_H

#include "core/input.h"
#include "host/dispatcher.h"

/* Names and versions in all filters; E_LIMIT beyond. */
#define WISH_FILTERS_N_MAX 10000u

struct work_wish {
    uint32_t limit[WORK_KINDS_N]; /* pieces at once; 0 = none was given */
    bool can_stream;              /* past events by StreamInstanceHistory */
    bool is_own;                  /* told more than the protocol has: see durable_task.proto */
    bool has_filters;
    const struct worker_filter *filters[WORK_KINDS_N]; /* in the arena, with all they point to */
    size_t filters_n[WORK_KINDS_N];
};

/* message: checked before (call_check). E_LIMIT, E_NOMEM. */
enum status work_wish_read(struct bytes message, struct arena *arena, struct work_wish *out);

#endif

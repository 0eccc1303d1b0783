/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's functions by name. Filled before the worker starts, read by all its threads after.
 */
#ifndef LIB_REGISTRY_H
#define LIB_REGISTRY_H

#include "lib/orchestration.h"

/* Far more than a program has; NORN_E_LIMIT beyond. */
#define REGISTRY_N_MAX 10000u

struct function {
    enum work_kind kind;
    struct orchestrator code; /* name and version of all kinds; fn and user of orchestrators */
    norn_activity_fn *activity;
    norn_entity_fn *entity;
    void *user;
    uint32_t concurrency; /* at once; 0 = no limit */
    /* of the pool, under its mutex */
    uint32_t running_n;
    struct list waiting; /* work that would be too much at once */
    /* of the pool's threads: whether to hold answers back while it runs */
    _Atomic bool is_slow;
};

struct registry {
    struct mem *mem;
    struct arena arena; /* names */
    struct function **functions;
    size_t n;
    size_t size;
    /* What the link is told. */
    struct link_name *names[WORK_KINDS_N];
    size_t names_n[WORK_KINDS_N];
};

void registry_init(struct registry *r, struct mem *mem);
void registry_release(struct registry *r);

/* Copied but for fn and user. E_EXISTS, E_INVALID, E_LIMIT, E_NOMEM. */
enum status registry_add(struct registry *r, const struct function *function);
/* No more are added: makes it searchable, and the names. E_NOMEM. */
enum status registry_close(struct registry *r);
/* Any thread. Of a version that nobody has: the one without version. NULL: there is none. */
struct function *registry_find(const struct registry *r, enum work_kind kind, struct bytes name,
                               struct maybe version);

#endif

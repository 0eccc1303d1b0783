/* SPDX-License-Identifier: Apache-2.0
 *
 * See policies.h. Activities are told apart without regard to case, and so are these.
 */
#include "lib/policies.h"

#include "lib/options.h"

#include <strings.h>

struct named_policy {
    char *name;
    size_t len;
    struct policy policy;
};

static bool is_named(const struct named_policy *named, struct bytes name)
{
    return named->len == name.len &&
           strncasecmp(named->name, (const char *)name.ptr, name.len) == 0;
}

const struct policy *policies_find(void *user, struct bytes name)
{
    const struct policies *p = user;

    for (size_t i = 0; i < p->n; i++) {
        if (is_named(&p->list[i], name)) return &p->list[i].policy;
    }
    return &p->otherwise;
}

/* A time that is as good as for ever can still be added to the clock. */
#define TIME_MS_MAX ((int64_t)100 * 366 * 24 * 3600 * 1000)

static int64_t cut(int64_t ms) { return ms > TIME_MS_MAX ? TIME_MS_MAX : ms; }

/* NULL, or what is wrong with it. */
static const char *policy_problem(const struct norn_policy *p)
{
    if (p->complete_by_ms < 0 || p->retry_delay_ms < 0 || p->retry_delay_max_ms < 0 ||
        p->extended_wait_ms < 0) {
        return "a policy has a negative time";
    }
    if (p->second_threshold < p->first_threshold)
        return "a policy's second_threshold is less than its first_threshold";
    if (p->activity != NULL && p->activity[0] == '\0') return "a policy's activity has no name";
    return NULL;
}

static struct policy policy_of(const struct norn_policy *given)
{
    return (struct policy){
        .complete_by_ms = cut(given->complete_by_ms),
        .first_threshold = given->first_threshold,
        .retry_delay_ms = cut(given->retry_delay_ms),
        .retry_delay_max_ms = cut(given->retry_delay_max_ms),
        .second_threshold = given->second_threshold,
        .extended_ms = cut(given->extended_wait_ms),
        .last_resort = given->last_resort == NORN_RESORT_PARK ? RESORT_PARK : RESORT_FAIL,
        .retries_failures = given->retries_failures,
    };
}

static enum status add(struct policies *p, struct mem *mem, const struct norn_policy *given,
                       const char **why)
{
    *why = policy_problem(given);
    if (*why != NULL) return E_INVALID;
    if (given->activity == NULL) {
        p->otherwise = policy_of(given);
        return OK;
    }
    struct bytes name = bytes_of_text(given->activity);
    *why = "an activity has two policies";
    if (policies_find(p, name) != &p->otherwise) return E_INVALID;
    struct named_policy *named = &p->list[p->n];
    named->name = mem_take(mem, name.len);
    *why = NULL;
    if (named->name == NULL) return E_NOMEM;
    memcpy(named->name, name.ptr, name.len);
    named->len = name.len;
    named->policy = policy_of(given);
    p->n++;
    return OK;
}

/* The list has room for all that are given, whatever became of them. */
enum status policies_init(struct policies *p, struct mem *mem, const struct norn_policy *given,
                          size_t n, const char **why)
{
    const uint8_t *at = (const uint8_t *)given;
    enum status status = OK;

    *p = (struct policies){.otherwise = policy_default};
    *why = "there are more than 10,000 policies";
    if (n > POLICIES_MAX) return E_LIMIT;
    *why = NULL;
    if (n == 0) return OK;
    p->list = mem_take(mem, n * sizeof *p->list);
    if (p->list == NULL) return E_NOMEM;
    p->room = n;
    for (size_t i = 0; i < n && status == OK; i++) {
        struct norn_policy own = NORN_POLICY;
        size_t size;
        if (options_read(&own, sizeof own, at)) {
            status = add(p, mem, &own, why);
        } else {
            *why = OPTIONS_WITHOUT_SIZE;
            status = E_INVALID;
        }
        memcpy(&size, at, sizeof size); /* of who was built with another version of the header */
        at += size;
    }
    if (status != OK) policies_release(p, mem);
    return status;
}

void policies_release(struct policies *p, struct mem *mem)
{
    for (size_t i = 0; i < p->n; i++) mem_give(mem, p->list[i].name, p->list[i].len);
    mem_give(mem, p->list, p->room * sizeof *p->list);
    *p = (struct policies){.otherwise = policy_default};
}

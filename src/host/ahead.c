/* SPDX-License-Identifier: Apache-2.0
 *
 * What the next requests will need is fetched while the present one is being stepped. A request and
 * its answer were last written by another core, and with thousands of instances in flight an
 * instance is in no cache: without this each step would wait for memory a dozen times.
 *
 * In two parts, because the second needs what the first has fetched: before the present request is
 * stepped, and between its step and the dispatch of what it gave. What was found out on the way,
 * the partition and the hash of the key, is kept for when its turn comes.
 */
#include "base/prefetch.h"
#include "host/state.h"

/* What is asked, and the first word of the answer: where the rest of it goes is not looked at. */
#define ASKED_SIZE (offsetof(struct request, text) + 1)

/* Of the two requests behind the next: what the first of them points to, and the second itself,
 * which is in the cache when it has become the first. */
static void fetch_later(const struct host *h, const struct list *next)
{
    const struct list *node = list_next(&h->taken, next);
    if (node == NULL) return;
    const struct request *request = container_of(node, struct request, node);
    __builtin_prefetch(request->key.ptr);
    if (request->kind == REQUEST_TURN_DONE)
        __builtin_prefetch(request->worker_done.answer);
    else if (request->kind == REQUEST_TASK_DONE)
        __builtin_prefetch(request->worker_done.result.value.ptr);
    node = list_next(&h->taken, node);
    if (node != NULL) prefetch(container_of(node, struct request, node), ASKED_SIZE);
}

void ahead_begin(struct host *h)
{
    struct ahead *a = &h->ahead;
    struct list *next = list_first(&h->taken);

    h->present = *a;
    a->request = NULL;
    if (next == NULL) return;
    fetch_later(h, next);
    const struct request *request = container_of(next, struct request, node);
    if (!key_fits(request->key)) return;
    uint32_t partition = partition_of(request->key, h->options.partitions_n);
    if (!host_has_partition(h, partition)) return;
    a->request = request;
    a->index = host_index(h, partition);
    a->hash = core_hash(h->cores[a->index], request->key);
}

void ahead_go_on(struct host *h)
{
    const struct ahead *a = &h->ahead;

    h->present.request = NULL; /* its memory may be another's soon */
    if (a->request == NULL) return;
    core_prefetch(h->cores[a->index], a->hash);
    if (a->request->kind != REQUEST_TURN_DONE) return;
    const struct orchestrator_answer *answer = a->request->worker_done.answer;
    if (answer->actions_n > 0) prefetch(answer->actions, sizeof *answer->actions);
}

bool ahead_index(const struct host *h, const struct request *request, uint32_t *index)
{
    const struct ahead *a = &h->present;

    if (a->request != request) return false;
    *index = a->index;
    core_expect(h->cores[a->index], a->hash, request->key);
    return true;
}

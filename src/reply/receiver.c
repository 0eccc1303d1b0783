/* SPDX-License-Identifier: Apache-2.0
 *
 * See receiver.h.
 */
#include "reply/receiver.h"

#include "base/assert.h"

#include <stdio.h>

void receivers_init(struct receivers *r, struct mem *mem)
{
    *r = (struct receivers){.mem = mem};
    list_init(&r->all);
}

static void forget(struct receivers *r, struct receiver *receiver)
{
    assert(receiver->active_n == 0);
    assert(receiver->waiting_n == 0);
    list_remove(&receiver->node);
    r->all_n--;
    mem_give(r->mem, receiver, sizeof *receiver);
}

void receivers_release(struct receivers *r)
{
    for (struct list *n = list_first(&r->all); n != NULL; n = list_first(&r->all)) {
        forget(r, container_of(n, struct receiver, node));
    }
}

static struct receiver *find(struct receivers *r, const char *name)
{
    for (struct list *n = list_last(&r->all); n != NULL; n = n->prev == &r->all ? NULL : n->prev) {
        struct receiver *receiver = container_of(n, struct receiver, node);
        if (strcmp(receiver->name, name) != 0) continue;
        list_remove(&receiver->node);
        list_push_back(&r->all, &receiver->node);
        return receiver;
    }
    return NULL;
}

static void make_room(struct receivers *r)
{
    for (struct list *n = list_first(&r->all); n != NULL; n = list_next(&r->all, n)) {
        struct receiver *receiver = container_of(n, struct receiver, node);
        if (receiver->active_n > 0 || receiver->waiting_n > 0) continue;
        forget(r, receiver);
        return;
    }
}

static struct receiver *find_or_make(struct receivers *r, const char *name)
{
    char cut[RECEIVER_NAME_SIZE];
    (void)snprintf(cut, sizeof cut, "%s", name);
    struct receiver *receiver = find(r, cut);
    if (receiver != NULL) return receiver;
    if (r->all_n >= RECEIVERS_MAX) make_room(r);
    if (r->all_n >= RECEIVERS_MAX) return NULL;
    receiver = mem_take_zero(r->mem, sizeof *receiver);
    if (receiver == NULL) return NULL;
    memcpy(receiver->name, cut, sizeof cut);
    list_init(&receiver->waiting);
    list_push_back(&r->all, &receiver->node);
    r->all_n++;
    return receiver;
}

static uint32_t active_max(const struct receiver *receiver)
{
    return receiver->has_failed ? 1 : RECEIVER_ACTIVE_MAX;
}

static void begin(struct receivers *r, struct receiver *receiver)
{
    receiver->active_n++;
    r->active_n++;
}

enum receiver_turn receivers_add(struct receivers *r, struct reply_job *job, const char *name)
{
    struct receiver *receiver = find_or_make(r, name);
    if (receiver == NULL) return RECEIVER_LATER;
    bool has_room = receiver->active_n < active_max(receiver);
    if (!has_room && (receiver->has_failed || receiver->waiting_n >= RECEIVER_WAITING_MAX))
        return RECEIVER_LATER;
    job->receiver = receiver;
    if (has_room && receiver->waiting_n == 0 && r->active_n < RECEIVERS_ACTIVE_MAX) {
        begin(r, receiver);
        return RECEIVER_GO;
    }
    receiver->waiting_n++;
    list_push_back(&receiver->waiting, &job->node);
    return RECEIVER_WAIT;
}

void receivers_done(struct receivers *r, struct reply_job *job, bool is_heard, struct list *refused)
{
    struct receiver *receiver = job->receiver;
    assert(receiver->active_n > 0);
    assert(r->active_n > 0);
    receiver->active_n--;
    r->active_n--;
    receiver->has_failed = !is_heard;
    job->receiver = NULL;
    if (is_heard) return;
    receiver->waiting_n = 0;
    list_splice_back(refused, &receiver->waiting);
}

struct reply_job *receivers_next(struct receivers *r)
{
    if (r->active_n >= RECEIVERS_ACTIVE_MAX) return NULL;
    for (struct list *n = list_first(&r->all); n != NULL; n = list_next(&r->all, n)) {
        struct receiver *receiver = container_of(n, struct receiver, node);
        if (receiver->waiting_n == 0 || receiver->active_n >= active_max(receiver)) continue;
        receiver->waiting_n--;
        begin(r, receiver);
        return container_of(list_pop_front(&receiver->waiting), struct reply_job, node);
    }
    return NULL;
}

void receivers_clear(struct receivers *r, struct list *to)
{
    for (struct list *n = list_first(&r->all); n != NULL; n = list_next(&r->all, n)) {
        struct receiver *receiver = container_of(n, struct receiver, node);
        receiver->waiting_n = 0;
        list_splice_back(to, &receiver->waiting);
    }
}

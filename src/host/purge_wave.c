/* SPDX-License-Identifier: Apache-2.0
 *
 * A wave of purges: see purger.h.
 */
#include "host/purger.h"

#include "base/assert.h"

#include <stdio.h>

enum status wave_init(struct wave *w, struct mem *mem, uint32_t slots_n)
{
    assert(slots_n > 0);
    w->slots = mem_take_zero(mem, slots_n * sizeof *w->slots);
    if (w->slots == NULL) return E_NOMEM;
    w->slots_n = slots_n;
    w->n = 0;
    return OK;
}

void wave_release(struct wave *w, struct mem *mem)
{
    mem_give(mem, w->slots, w->slots_n * sizeof *w->slots);
}

/* Whoever is the last, ends it. */
static void count_down(struct wave *w)
{
    if (atomic_fetch_sub(&w->pending_n, 1) == 1) w->done(w);
}

static void slot_done(struct request *request)
{
    count_down(container_of(request, struct wave_slot, request)->wave);
}

void wave_add(struct wave *w, struct bytes key, bool recurse, bool is_forced)
{
    assert(w->n < w->slots_n);
    struct wave_slot *slot = &w->slots[w->n++];
    *slot = (struct wave_slot){.wave = w};
    slot->request.kind = REQUEST_PURGE;
    slot->request.done = slot_done;
    slot->request.key = key;
    slot->request.client.recurse = recurse;
    slot->request.client.is_forced = is_forced;
}

void wave_run(struct wave *w, struct purger *p)
{
    uint32_t n = w->n;

    assert(n > 0);
    atomic_store(&w->pending_n, n + 1); /* one for this loop: nobody ends it before */
    for (uint32_t i = 0; i < n; i++) {
        struct request *request = &w->slots[i].request;
        if (p->post(p, request)) continue;
        request->status = E_UNAVAILABLE;
        slot_done(request);
    }
    count_down(w);
}

/* How much an answer says about the others: that there is nothing to purge, or it must not be, is
 * about that one only. */
static int weight_of(enum status status)
{
    if (status == OK || status == E_NOT_FOUND) return 0;
    return status == E_PRECONDITION || status == E_LIMIT ? 1 : 2;
}

enum status wave_take(struct wave *w, uint32_t *purged_n, char *text, size_t text_size)
{
    enum status status = OK;

    text[0] = '\0';
    for (uint32_t i = 0; i < w->n; i++) {
        const struct request *r = &w->slots[i].request;
        if (r->status == OK) *purged_n += r->purged_n;
        if (weight_of(r->status) <= weight_of(status)) continue;
        status = r->status;
        (void)snprintf(text, text_size, "%s", r->text);
    }
    w->n = 0;
    return status;
}

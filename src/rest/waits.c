/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefer: wait. One WAIT errand, which the engine answers when the instance has ended.
 *
 *      waiting ──answered──> the instance
 *         │ time is over, drain              │ the peer is gone
 *         v                                  v
 *      CANCEL, and GET: what is known now    CANCEL, answered to nobody
 *
 * The engine keeps a WAIT until it has seen the CANCEL; it comes back then and is only freed. A
 * CANCEL that the engine does not take is tried again at the next tick.
 */
#include "rest/state.h"

#include <stdio.h>

struct wait {
    struct errand *errand; /* the engine has it; NULL: it does not matter any more */
    unsigned wait_s;
    unsigned status;
    unsigned late_status;
};

/* ---- answers ---- */

static void answer(struct errand *errand, unsigned status)
{
    struct ask *ask = errand_ask(errand);
    const struct wait *wait = ask->user;
    char applied[24];

    (void)snprintf(applied, sizeof applied, "wait=%u", wait->wait_s);
    ask_add_header(ask, "preference-applied", bytes_of_text(applied));
    errand->number = status;
    errand_answer_instance(errand);
}

static void on_waited(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);
    struct wait *wait = ask->user;

    if (list_is_linked(&errand->of_user)) list_remove(&errand->of_user);
    if (ask->is_answered || wait->errand != errand) {
        errand_end(errand);
        return;
    }
    wait->errand = NULL;
    ask->ops = NULL;
    ask_set_time(ask, HEAP_NEVER);
    answer(errand, wait->status);
}

/* What is known when the time is over. */
static void on_looked(struct errand *errand)
{
    const struct wait *wait = errand_ask(errand)->user;

    answer(errand, wait->late_status);
}

/* ---- giving up ---- */

bool wait_cancels_retry(struct rest *r)
{
    struct list *node;

    while ((node = list_first(&r->uncancelled)) != NULL) {
        if (!errand_cancel(container_of(node, struct errand, of_user))) return false;
        list_remove(node);
    }
    return true;
}

static struct bytes wait_cancel(struct ask *ask)
{
    struct wait *wait = ask->user;
    struct errand *errand = wait->errand;

    wait->errand = NULL;
    ask->ops = NULL;
    ask_set_time(ask, HEAP_NEVER);
    if (!errand_cancel(errand)) list_push_back(&ask->rest->uncancelled, &errand->of_user);
    return errand->request.key; /* lives as long as the errand is with the engine */
}

static void on_closed(struct ask *ask)
{
    (void)wait_cancel(ask);
    ask_answer(ask, 503, NULL, BYTES_NONE); /* nobody reads it */
}

static void on_writable(struct ask *ask) { (void)ask; /* one small answer */ }

static void on_time(struct ask *ask)
{
    struct bytes key = wait_cancel(ask);
    struct errand *errand = ask_errand(ask, REQUEST_GET);

    if (errand == NULL) return;
    errand->flag = true;
    errand->encode = encode_instance;
    errand->done = on_looked;
    (void)ask_post(errand, key_id(key));
}

static const struct ask_ops ops = {
    .closed = on_closed,
    .writable = on_writable,
    .time = on_time,
    .drain = on_time,
    .half_closed = ask_goes_on,
};

void wait_for_end(struct ask *ask, struct bytes id, unsigned wait_s, unsigned status,
                  unsigned late_status)
{
    struct wait *wait = arena_alloc_zero(&ask->arena, sizeof *wait);
    struct errand *errand = wait == NULL ? NULL : ask_errand(ask, REQUEST_WAIT);

    if (errand == NULL) {
        if (wait == NULL) ask_busy(ask);
        return;
    }
    *wait = (struct wait){errand, wait_s, status, late_status};
    errand->request.wait.until_finished = true;
    errand->flag = true;
    errand->encode = encode_instance;
    errand->done = on_waited;
    ask->user = wait;
    if (!ask_post(errand, id)) return;
    ask->ops = &ops;
    ask_set_time(ask, rest_now(ask) + (int64_t)wait_s * 1000 * 1000 * 1000);
    if (ask->is_closed)
        on_closed(ask);
    else if (ask->rest->is_draining)
        on_time(ask);
}

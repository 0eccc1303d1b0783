/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks and their errands: see state.h for who lives how long. Asks are used again with their
 * memory, so that an ordinary request takes none.
 */
#include "rest/state.h"

#define SPARE_N_MAX 1024u
#define SPARE_SIZE_MAX ((size_t)16 << 10)
#define ARENA_CHUNK_SIZE 512

/* ---- from birth to death ---- */

struct ask *ask_new(struct rest *r, struct http_exchange *exchange)
{
    struct list *node = list_pop_front(&r->spare);
    struct ask *ask = node == NULL ? NULL : container_of(node, struct ask, node);

    if (ask != NULL) {
        r->spare_n--;
    } else {
        ask = mem_take_zero(r->mem, sizeof *ask);
        if (ask == NULL) return NULL;
        arena_init(&ask->arena, r->mem, ARENA_CHUNK_SIZE);
        buffer_init(&ask->text, r->mem);
        heap_node_init(&ask->time);
    }
    ask->rest = r;
    ask->exchange = exchange;
    ask->hub = BYTES_LITERAL("default");
    list_push_back(&r->asks, &ask->node);
    r->stats.open_n++;
    return ask;
}

void ask_destroy(struct ask *ask)
{
    arena_release(&ask->arena);
    buffer_release(&ask->text);
    mem_give(ask->rest->mem, ask, sizeof *ask);
}

static void ask_recycle(struct ask *ask)
{
    struct rest *r = ask->rest;

    assert(!ask->time.is_linked);
    list_remove(&ask->node);
    if (r->spare_n >= SPARE_N_MAX || ask->arena.size + ask->text.size > SPARE_SIZE_MAX) {
        ask_destroy(ask);
        return;
    }
    arena_reset(&ask->arena);
    buffer_clear(&ask->text);
    struct arena arena = ask->arena;
    struct buffer text = ask->text;
    *ask = (struct ask){.rest = r, .arena = arena, .text = text};
    heap_node_init(&ask->time);
    list_push_front(&r->spare, &ask->node);
    r->spare_n++;
}

/* Neither its exchange nor an errand needs it any more. */
static void ask_release(struct ask *ask)
{
    if (ask->is_answered && ask->errands_n == 0) ask_recycle(ask);
}

/* ---- the exchange ---- */

struct bytes ask_body(const struct ask *ask) { return http_body(ask->exchange); }

void ask_add_header(struct ask *ask, const char *name, struct bytes value)
{
    assert(!ask->is_answered);
    http_add_header(ask->exchange, name, value);
}

static void ask_count(struct ask *ask, unsigned status)
{
    struct front_stats *stats = &ask->rest->stats;

    stats->answers[ask->is_closed || status >= 600 ? 0 : status / 100]++;
}

/* The exchange is over once the caller has ended it. */
static struct http_exchange *ask_let_go(struct ask *ask)
{
    struct http_exchange *exchange = ask->exchange;

    assert(!ask->is_answered);
    ask->is_answered = true;
    ask->exchange = NULL;
    ask->rest->stats.open_n--;
    ask_set_time(ask, HEAP_NEVER);
    http_set_user(exchange, NULL);
    return exchange;
}

void ask_answer(struct ask *ask, unsigned status, const char *type, struct bytes body)
{
    assert(!ask->is_begun);
    ask_count(ask, status);
    http_answer(ask_let_go(ask), status, type, body);
    ask_release(ask);
}

void ask_json(struct ask *ask, unsigned status, struct bytes body)
{
    ask_answer(ask, status, "application/json", body);
}

void ask_begin(struct ask *ask, unsigned status, const char *type)
{
    assert(!ask->is_answered);
    assert(!ask->is_begun);
    ask->is_begun = true;
    ask_count(ask, status);
    http_begin(ask->exchange, status, type);
}

void ask_finish(struct ask *ask, bool is_whole)
{
    assert(ask->is_begun);
    http_finish(ask_let_go(ask), is_whole);
    ask_release(ask);
}

void ask_hand_over(struct ask *ask)
{
    (void)ask_let_go(ask);
    ask_release(ask);
}

void ask_goes_on(struct ask *ask) { (void)ask; }

void ask_set_time(struct ask *ask, int64_t at_ns)
{
    struct rest *r = ask->rest;

    if (ask->time.is_linked) heap_remove(&r->times, &ask->time);
    if (at_ns == HEAP_NEVER) return;
    assert(!ask->is_answered);
    ask->time.key = at_ns;
    ask->time.order = r->times_order++;
    heap_push(&r->times, &ask->time);
}

int64_t rest_now(const struct ask *ask) { return ask->rest->now_ns; }

/* ---- errands ---- */

struct errand *ask_errand(struct ask *ask, enum request_kind kind)
{
    struct errand *errand = errand_new_asked(ask->rest->desk, kind);

    if (errand == NULL) {
        ask_busy(ask);
        return NULL;
    }
    errand->user = ask;
    errand->done = errand_answer_json;
    ask->errands_n++;
    return errand;
}

struct bytes errand_copy(struct errand *errand, struct bytes text)
{
    return arena_copy(&errand->arena, text);
}

void ask_hold(struct ask *ask) { ask->errands_n++; }

void ask_unhold(struct ask *ask)
{
    assert(ask->errands_n > 0);
    ask->errands_n--;
    ask_release(ask);
}

void errand_end(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);

    errand_free(errand);
    assert(ask->errands_n > 0);
    ask->errands_n--;
    ask_release(ask);
}

bool ask_post_as_is(struct errand *errand)
{
    if (errand_post(errand, -1)) return true;
    if (!errand_ask(errand)->is_answered) ask_busy(errand_ask(errand));
    errand_end(errand);
    return false;
}

bool ask_post(struct errand *errand, struct bytes id)
{
    errand->request.key = key_make(&errand->arena, errand_ask(errand)->hub, id);
    if (errand->request.key.ptr != NULL) return ask_post_as_is(errand);
    ask_busy(errand_ask(errand));
    errand_end(errand);
    return false;
}

void errand_answer_json(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);

    if (ask->is_answered) {
        /* nobody waits */
    } else if (errand->request.status != OK) {
        ask_problem_of(ask, &problems_of_instances, &errand->request);
    } else if (errand->reply.failed) {
        ask_problem(ask, PROBLEM_TOO_BUSY, "ask for less at once, or later",
                    "there was no memory for the answer");
    } else {
        ask_json(ask, errand->number == 0 ? 200 : (unsigned)errand->number,
                 buffer_view(&errand->reply));
    }
    errand_end(errand);
}

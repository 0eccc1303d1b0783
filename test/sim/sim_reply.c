/* SPDX-License-Identifier: Apache-2.0
 *
 * See sim_reply.h. A promise is made by a durable record and named as the engine must name its
 * reply: <execution id>-<event>. Each frame is judged alone: its causes and its letters must be the
 * same set.
 */
#include "test/sim/sim_reply.h"

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/replies.h"
#include "reply/job.h"
#include "test/sim/sim_programs.h"

#include <string.h>

#define GIVE_UP_MS (INT64_C(100) * 365 * 24 * 3600 * 1000) /* never */

struct promise {
    struct map_node node;
    struct list all;
    struct list fresh; /* made in this frame */
    struct bytes id;
    struct bytes key; /* of the instance it tells of */
    struct bytes event;
    struct bytes url;
    uint32_t made_n; /* a rewound execution may end twice under one name */
    uint32_t sent_n;
    uint32_t heard_n;
};

struct receiver {
    struct world *w;
    struct arena arena;
    struct map promises;
    struct list all;
    struct list fresh;
    uint64_t heard_n;
    uint64_t unheard_n; /* promises that were never heard */
};

#define PROMISE_FAIL(r, invariant, id, what)                                                       \
    sim_fail((r)->w, invariant, "reply %.*s: %s", (int)(id).len, (const char *)(id).ptr, what)

bool is_reply(struct bytes key) { return bytes_equal(key_hub(key), BYTES_LITERAL(REPLY_HUB)); }

struct bytes reply_tags(struct arena *arena, struct bytes key)
{
    struct buffer tags;
    struct buffer temporary;
    struct bytes url =
        text_make(arena, "http://receiver/%.*s", (int)key.len, (const char *)key.ptr);

    buffer_init(&tags, mem_process());
    buffer_init(&temporary, mem_process());
    tags_add(&tags, &temporary, BYTES_LITERAL(REPLY_TO_TAG), url);
    tags_add(&tags, &temporary, BYTES_LITERAL(REPLY_CORRELATION_TAG), key);
    struct bytes copy = arena_copy(arena, buffer_view(&tags));
    assert(copy.len > 0);
    buffer_release(&tags);
    buffer_release(&temporary);
    return copy;
}

/* ---- promises ---- */

static struct promise *promise_find(struct receiver *r, struct bytes id)
{
    struct map_node *node = map_find(&r->promises, id);

    return node == NULL ? NULL : container_of(node, struct promise, node);
}

static void promise_make(struct receiver *r, struct bytes key, const uint8_t *execution_id,
                         struct bytes tags, const char *event)
{
    char text[EXECUTION_TEXT_SIZE];
    struct maybe url = tags_find(tags, BYTES_LITERAL(REPLY_TO_TAG));

    if (!url.has) return;
    execution_id_text(execution_id, text);
    struct bytes id = text_make(&r->arena, "%.*s-%s", EXECUTION_TEXT_SIZE, text, event);
    struct promise *p = promise_find(r, id);
    if (p == NULL) {
        p = arena_alloc_zero(&r->arena, sizeof *p);
        assert(p != NULL);
        p->id = id;
        p->node.key = id;
        p->key = arena_copy(&r->arena, key);
        p->event = bytes_of_text(event);
        p->url = arena_copy(&r->arena, url.value);
        map_insert(&r->promises, &p->node);
        list_push_back(&r->all, &p->all);
        list_node_init(&p->fresh);
        r->unheard_n++;
    }
    p->made_n++;
    if (!list_is_linked(&p->fresh)) list_push_back(&r->fresh, &p->fresh);
}

static void see_start(struct receiver *r, const struct record *record)
{
    struct event_started started;
    struct arena arena;

    arena_init(&arena, mem_process(), 512);
    enum status status = event_started_decode(record->event, &arena, &started);
    assert(status == OK); /* it was applied */
    if (!started.has_parent) {
        promise_make(r, record->key, record->execution_id, started.tags, "received");
    }
    arena_release(&arena);
}

static void see_end(struct receiver *r, const struct instance_view *after)
{
    const char *event = after->status == STATUS_COMPLETED ? "completed" : "failed";

    if (after->parent_id.len > 0) return; /* what a child does is its parent's business */
    if (bytes_equal(after->custom_status.value, BYTES_LITERAL(REPLY_COMPENSATED))) {
        event = "compensated";
    }
    promise_make(r, after->key, after->execution_id, after->tags, event);
}

static void see_letter(struct receiver *r, const struct record *record)
{
    struct bytes id = key_id(record->target);
    struct promise *p = promise_find(r, id);

    if (p == NULL || !list_is_linked(&p->fresh)) {
        PROMISE_FAIL(r, "S36 cause", id, "its frame has nothing that it could tell of");
    }
    if (++p->sent_n > p->made_n) PROMISE_FAIL(r, "S36 cause", id, "is sent twice");
}

void receiver_see_record(struct receiver *r, const struct record *record, bool is_start,
                         bool has_ended, const struct instance_view *after)
{
    if (is_start) see_start(r, record);
    /* What ended elsewhere was told from there. */
    if (has_ended && record->kind != RECORD_IMPORTED) see_end(r, after);
    bool is_letter = record->kind == RECORD_SEND && record->message == MESSAGE_START;
    if (is_letter && is_reply(record->target)) see_letter(r, record);
}

void receiver_see_frame_end(struct receiver *r)
{
    struct list *at = NULL;

    while ((at = list_pop_front(&r->fresh)) != NULL) {
        struct promise *p = container_of(at, struct promise, fresh);
        if (p->sent_n != p->made_n) PROMISE_FAIL(r, "S36 told", p->id, "is not in its frame");
    }
}

/* ---- the worker ---- */

static void check_post(struct receiver *r, const struct reply_job *job, const struct promise *p)
{
    struct bytes body = job->body;
    struct arena arena;

    arena_init(&arena, mem_process(), 512);
    struct bytes event =
        text_make(&arena, "\"%.*s\"", (int)p->event.len, (const char *)p->event.ptr);
    struct bytes about = text_make(&arena, "\"%.*s\"", (int)p->key.len, (const char *)p->key.ptr);
    if (!bytes_equal(bytes_of_text(job->url), p->url)) {
        PROMISE_FAIL(r, "S36 post", p->id, "goes to another address");
    }
    if (!text_has(body, event)) PROMISE_FAIL(r, "S36 post", p->id, "tells of another event");
    /* the correlation id */
    if (!text_has(body, about)) PROMISE_FAIL(r, "S36 post", p->id, "tells of another instance");
    arena_release(&arena);
}

/* The request arrives; false when nobody answers it. */
static bool post(struct receiver *r, const struct reply_job *job)
{
    struct bytes id = key_id(job->ref.key);
    struct promise *p = promise_find(r, id);

    if (p == NULL) PROMISE_FAIL(r, "S36 cause", id, "is posted, and what it tells is not durable");
    check_post(r, job, p);
    if (fault_hits(r->w, FAULT_KIND_RECEIVER_DEAF)) return false;
    if (p->heard_n++ == 0) r->unheard_n--;
    r->heard_n++;
    return true;
}

void receiver_turn(struct receiver *r, const struct effect_work *work, int64_t now_ns,
                   struct arena *arena, struct orchestrator_answer *out)
{
    const struct reply_options options = {
        .delay_ms = 100, .delay_ms_max = 5000, .give_up_ms = GIVE_UP_MS};
    struct reply_job *job = job_new(work, NULL);
    struct action *action = arena_alloc(arena, sizeof *action);

    assert(job != NULL);
    assert(action != NULL);
    enum job_end end = JOB_IDLE;
    if (!job->is_waiting) end = job_decide(job, post(r, job), false, now_ns, &options);
    if (end == JOB_OVER) PROMISE_FAIL(r, "S36 told", key_id(work->ref.key), "is given up");
    job_answer(job, end, now_ns, rng_u64(&r->w->rng), &options);
    *action = job->action;
    *out = job->answer;
    out->actions = action;
    job_free(job);
}

/* ---- the receiver ---- */

struct receiver *receiver_new(struct world *w)
{
    struct receiver *r = mem_take_zero(mem_process(), sizeof *r);

    assert(r != NULL);
    r->w = w;
    arena_init(&r->arena, mem_process(), 4096);
    map_init(&r->promises, mem_process(), 7, 8);
    list_init(&r->all);
    list_init(&r->fresh);
    return r;
}

void receiver_check_end(struct receiver *r)
{
    for (struct list *at = list_first(&r->all); at != NULL; at = list_next(&r->all, at)) {
        const struct promise *p = container_of(at, struct promise, all);
        if (p->heard_n == 0) PROMISE_FAIL(r, "L13 reply", p->id, "is never heard");
    }
}

bool receiver_has_heard_all(const struct receiver *r) { return r->unheard_n == 0; }

uint64_t receiver_heard_n(const struct receiver *r) { return r->heard_n; }

void receiver_free(struct receiver *r)
{
    map_release(&r->promises);
    arena_release(&r->arena);
    mem_give(mem_process(), r, sizeof *r);
}

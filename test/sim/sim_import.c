/* SPDX-License-Identifier: Apache-2.0
 *
 * See sim_import.h. One move at a time:
 *
 *      EXPORT ──history──> IMPORT ──taken──> VERIFY ──the same──> (PURGE) ──> the next one
 *         └─ there is none          └─ refused: it had not ended, and must not be there
 */
#include "test/sim/sim_import.h"

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "test/sim/sim_client.h"
#include "test/sim/sim_network.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_programs.h"

#include <string.h>

#define PATIENCE_NS (2 * NS_PER_S)
#define MOVES_MAX 300
#define MOVES_MIN 20 /* so many, if need be in phase 2 */

enum move_step { STEP_EXPORT, STEP_IMPORT, STEP_VERIFY, STEP_PURGE, STEP_OVER };

struct move {
    struct map_node by_key;
    struct list all;
    struct bytes from;
    struct bytes key;
    struct bytes events; /* as they were exported */
    bool has_ended;
    enum move_step step;
    uint32_t loose; /* imports that may still arrive */
    bool is_there;  /* the import was acknowledged, or shown to have happened */
    bool was_purged;
};

struct mover {
    struct world *w;
    struct rng rng;
    struct arena arena;
    struct map moves;
    struct list all;
    uint32_t n;
    struct port port;
    struct moment think;
    struct move *current; /* NULL between two */
    bool is_draining;
    uint64_t imported_n;
};

#define MOVE_FAIL(m, move, what)                                                                   \
    sim_fail((m)->w, "S35 import", "%.*s from %.*s: %s", (int)(move)->key.len,                     \
             (const char *)(move)->key.ptr, (int)(move)->from.len, (const char *)(move)->from.ptr, \
             what)

static void think(struct mover *m, int64_t span_ms)
{
    moment_after(m->w, &m->think, span_ms * NS_PER_MS);
}

/* ---- comparing ---- */

static bool maybe_equal(struct maybe a, struct maybe b)
{
    return a.has == b.has && (!a.has || bytes_equal(a.value, b.value));
}

/* Two starts say the same, but for the id. */
static bool starts_are_equal(struct bytes left, struct bytes right, struct bytes id)
{
    struct event_started a;
    struct event_started b;
    struct event_head head_a;
    struct event_head head_b;
    struct arena arena;

    arena_init(&arena, mem_process(), 1024);
    bool is_read = event_started_decode(left, &arena, &a) == OK &&
                   event_started_decode(right, &arena, &b) == OK &&
                   event_head_decode(left, &head_a) == OK &&
                   event_head_decode(right, &head_b) == OK;
    bool is_equal = is_read && bytes_equal(b.instance_id, id) && bytes_equal(a.name, b.name) &&
                    maybe_equal(a.version, b.version) && maybe_equal(a.input, b.input) &&
                    memcmp(a.execution_id, b.execution_id, EXECUTION_ID_SIZE) == 0 &&
                    a.has_parent == b.has_parent && a.has_scheduled == b.has_scheduled &&
                    a.scheduled_ms == b.scheduled_ms && maybe_equal(a.trace, b.trace) &&
                    bytes_equal(a.tags, b.tags) && head_a.time_ns == head_b.time_ns;
    arena_release(&arena);
    return is_equal;
}

static void compare(struct mover *m, const struct move *move, struct bytes events)
{
    struct reader left = reader_make(move->events);
    struct reader right = reader_make(events);
    struct bytes a;
    struct bytes b;

    while (strings_next(&left, &a)) {
        struct event_head head;
        if (!strings_next(&right, &b)) MOVE_FAIL(m, move, "an event is missing");
        if (event_head_decode(a, &head) == OK && head.kind == EVENT_EXECUTION_STARTED) {
            if (!starts_are_equal(a, b, key_id(move->key))) MOVE_FAIL(m, move, "another start");
        } else if (!bytes_equal(a, b)) {
            MOVE_FAIL(m, move, "another event");
        }
    }
    if (strings_next(&right, &b)) MOVE_FAIL(m, move, "an event too many");
}

static bool ends(struct bytes events)
{
    struct reader r = reader_make(events);
    struct event_head head = {0};
    struct bytes event;

    while (strings_next(&r, &event)) {
        if (event_head_decode(event, &head) != OK) return false;
    }
    return head.kind == EVENT_EXECUTION_COMPLETED;
}

/* ---- one move ---- */

static void move_begin(struct mover *m)
{
    struct bytes from = crowd_draw_key(m->w->crowd, &m->rng);

    if (from.len == 0) {
        if (!m->is_draining) think(m, m->w->options.import_ms);
        return;
    }
    struct move *move = arena_alloc_zero(&m->arena, sizeof *move);
    assert(move != NULL);
    struct bytes hub = crowd_hub((uint32_t)rng_below(&m->rng, m->w->options.hubs_n));
    move->from = arena_copy(&m->arena, from);
    move->key = text_make(&m->arena, "%.*s/import-%u", (int)hub.len, (const char *)hub.ptr, ++m->n);
    move->by_key.key = move->key;
    map_insert(&m->moves, &move->by_key);
    list_push_back(&m->all, &move->all);
    m->current = move;
}

static void move_send(struct mover *m, struct move *move)
{
    static const enum request_kind kinds[] = {
        [STEP_EXPORT] = REQUEST_HISTORY,
        [STEP_IMPORT] = REQUEST_IMPORT,
        [STEP_VERIFY] = REQUEST_HISTORY,
        [STEP_PURGE] = REQUEST_PURGE,
    };
    struct call *call = call_make(m->w, kinds[move->step]);

    call_set_key(call, move->step == STEP_EXPORT ? move->from : move->key);
    if (move->step == STEP_IMPORT) {
        call->request.client.data = maybe_some(move->events);
        move->loose++; /* until its answer says otherwise */
    }
    if (move->step == STEP_PURGE) move->was_purged = true;
    port_send(&m->port, call, node_of_key(m->w, call->request.key), PATIENCE_NS);
}

static void on_exported(struct mover *m, struct move *move, const struct answer *a)
{
    if (a->events.len == 0) { /* it has not begun */
        move->step = STEP_OVER;
        return;
    }
    move->events = arena_copy(&m->arena, a->events);
    assert(move->events.len == a->events.len);
    move->has_ended = ends(a->events);
    move->step = STEP_IMPORT;
}

static void on_imported(struct mover *m, struct move *move, const struct answer *a)
{
    bool was_loose = move->loose > 1 || a->was_doubled;

    if (!a->was_doubled) move->loose--;
    if (a->status == E_PRECONDITION) {
        if (move->has_ended) MOVE_FAIL(m, move, "is refused as one that had not ended");
        move->step = STEP_OVER;
    } else if (a->status == OK || a->status == E_EXISTS) {
        if (!move->has_ended) MOVE_FAIL(m, move, "had not ended, and is taken");
        if (a->status == E_EXISTS && !was_loose) MOVE_FAIL(m, move, "is there before it was sent");
        move->is_there = true;
        move->step = STEP_VERIFY;
    } else if (a->status == E_INVALID) {
        /* nonsense of a worker may be in it */
        if (!crowd_is_tainted(m->w->crowd, move->from)) MOVE_FAIL(m, move, a->text);
        move->step = STEP_OVER;
    }
}

static void on_verified(struct mover *m, struct move *move, const struct answer *a)
{
    compare(m, move, a->events);
    move->step = rng_chance(&m->rng, 250) ? STEP_PURGE : STEP_OVER;
}

static void on_mover_answer(struct port *port, const struct answer *a)
{
    struct mover *m = container_of(port, struct mover, port);
    struct move *move = m->current;
    bool is_answered = a->outcome == OUTCOME_ANSWER;
    bool is_read = is_answered && a->status == OK;

    if (a->outcome == OUTCOME_REFUSED && move->step == STEP_IMPORT && !a->was_doubled)
        move->loose--;
    if (move->step == STEP_EXPORT && is_read) on_exported(m, move, a);
    /* purged, or not started at all */
    else if (move->step == STEP_EXPORT && is_answered && a->status == E_NOT_FOUND)
        move->step = STEP_OVER;
    else if (move->step == STEP_IMPORT && is_answered)
        on_imported(m, move, a);
    else if (move->step == STEP_VERIFY && is_read)
        on_verified(m, move, a);
    else if (move->step == STEP_PURGE && (is_read || (is_answered && a->status == E_NOT_FOUND)))
        move->step = STEP_OVER; /* by this attempt, or by one whose answer was lost */
    if (move->step == STEP_OVER) m->current = NULL;
    think(m, m->current == NULL ? chance_span(&m->rng, m->w->options.import_ms) : 20);
}

static void on_mover_think(struct moment *moment)
{
    struct mover *m = container_of(moment, struct mover, think);
    uint32_t n_max = m->is_draining ? MOVES_MIN : MOVES_MAX;

    if (m->current == NULL && m->n < n_max) move_begin(m);
    if (m->current != NULL) move_send(m, m->current);
}

/* ---- what is durable ---- */

void mover_see_record(struct mover *m, const struct record *record)
{
    if (record->kind != RECORD_IMPORTED) return;
    struct map_node *node = map_find(&m->moves, record->key);
    if (node == NULL) {
        sim_fail(m->w, "S35 import", "%.*s: nobody has sent it", (int)record->key.len,
                 (const char *)record->key.ptr);
    }
    const struct move *move = container_of(node, struct move, by_key);
    if (!move->has_ended) MOVE_FAIL(m, move, "had not ended, and is taken");
    compare(m, move, record->events);
    m->imported_n++;
}

static void check_move(struct mover *m, const struct move *move, struct buffer *events)
{
    struct shadow *shadow = node_of_key(m->w, move->key)->shadow;
    struct instance_view view;
    bool is_there = shadow_view(shadow, move->key, &view);

    if (!move->has_ended && shadow_knows(shadow, move->key))
        MOVE_FAIL(m, move, "had not ended, and is there");
    if (move->is_there && !move->was_purged && !is_there) MOVE_FAIL(m, move, "is lost");
    if (!is_there) return;
    if (!view.is_terminal) MOVE_FAIL(m, move, "runs");
    buffer_clear(events);
    if (!shadow_history(shadow, move->key, events)) MOVE_FAIL(m, move, "has no history");
    compare(m, move, buffer_view(events));
}

void mover_check_end(struct mover *m)
{
    struct buffer events;

    buffer_init(&events, mem_process());
    for (struct list *at = list_first(&m->all); at != NULL; at = list_next(&m->all, at)) {
        check_move(m, container_of(at, struct move, all), &events);
    }
    buffer_release(&events);
}

/* ---- the mover ---- */

struct mover *mover_new(struct world *w)
{
    struct mover *m = mem_take_zero(mem_process(), sizeof *m);

    assert(m != NULL);
    m->w = w;
    rng_init(&m->rng, w->options.seed ^ UINT64_C(0x6d6f766572));
    arena_init(&m->arena, mem_process(), 4096);
    map_init(&m->moves, mem_process(), 9, 10);
    list_init(&m->all);
    port_init(&m->port, w, on_mover_answer);
    moment_init(&m->think, on_mover_think);
    return m;
}

void mover_start(struct mover *m)
{
    if (m->w->options.import_ms > 0) think(m, m->w->options.import_ms);
}

void mover_drain(struct mover *m) { m->is_draining = true; }
bool mover_is_finished(const struct mover *m)
{
    return m->current == NULL && !moment_is_set(&m->think);
}
uint64_t mover_imported_n(const struct mover *m) { return m->imported_n; }

void mover_free(struct mover *m)
{
    port_cancel(&m->port);
    moment_cancel(m->w, &m->think);
    map_release(&m->moves);
    arena_release(&m->arena);
    mem_give(mem_process(), m, sizeof *m);
}

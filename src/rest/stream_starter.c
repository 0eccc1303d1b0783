/* SPDX-License-Identifier: Apache-2.0
 *
 * See stream_starter.h.
 *
 *   START ──OK──────────────────────────────────────────> OK
 *     └─E_EXISTS──> GET ──the same name and input──> POSITION: taken, and nothing is started ──> OK
 *                    └────another one──> E_EXISTS: a dead letter
 *
 * Requests are used again: they are taken on the streams' thread and given back on a host's.
 */
#include "rest/stream_starter.h"

#include "base/mem.h"
#include "base/queue.h"
#include "core/limits.h"

#include <stdatomic.h>
#include <stdio.h>

/* Starts under way; more are tried again by the streams. */
#define STARTS_N_MAX 4096u
#define KEY_SIZE_MAX (LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE)

struct errand_start {
    struct request request;
    struct list spare;
    struct rest_starter *starter;
    struct stream_start *start;
    uint8_t key[KEY_SIZE_MAX];
};

/* One question to all shards. */
struct errand_learn {
    struct rest_starter *starter;
    struct stream_positions *positions;
    atomic_uint left_n;
    atomic_bool is_failed;
    struct list spare;
    struct request requests[]; /* of each shard */
};

struct rest_starter {
    struct stream_starter interface;
    struct mem *mem;       /* of who made it */
    struct mem own;        /* of the streams' thread */
    struct engine *engine; /* closed before this ends: not to be asked then */
    uint32_t shards_n;
    struct queue spare;  /* errand_start, given back */
    struct list free;    /* the same, on the streams' thread */
    struct queue learnt; /* errand_learn, to be freed */
    uint32_t made_n;
    bool is_posted; /* since the last turn */
};

/* ---- starts ---- */

static uint32_t part_of(void *user, struct bytes hub, struct bytes id)
{
    const struct rest_starter *s = user;
    uint8_t key[KEY_SIZE_MAX];
    size_t len = hub.len + 1 + id.len;

    if (len > sizeof key) return 0; /* refused by start() */
    memcpy(key, hub.ptr, hub.len);
    key[hub.len] = '/';
    memcpy(key + hub.len + 1, id.ptr, id.len);
    return partition_of(bytes_make(key, len), s->interface.parts_n);
}

static void give_back(struct errand_start *e, enum status status, const char *text)
{
    struct rest_starter *s = e->starter;
    struct stream_start *start = e->start;

    start->status = status;
    (void)snprintf(start->text, sizeof start->text, "%s",
                   text[0] != '\0' ? text : status_text(status));
    bool is_pushed = queue_push_quietly(&s->spare, &e->spare);
    assert(is_pushed);
    stream_start_done(start);
}

static struct input_position position_of(const struct stream_start *start)
{
    return (struct input_position){
        .source = bytes_of_text(start->source),
        .position = start->position,
        .after = start->after,
    };
}

static void on_position(struct request *request)
{
    give_back(request->user, request->status, request->text);
}

/* On the host's thread, as all that follow. */
static void post_again(struct errand_start *e)
{
    if (!engine_post(e->starter->engine, &e->request)) give_back(e, E_UNAVAILABLE, "");
}

static void on_looked(struct request *request)
{
    struct errand_start *e = request->user;
    const struct stream_start *start = e->start;
    const struct instance_view *view = request->view;

    if (request->status != OK || view == NULL) {
        /* It went meanwhile: then it can be started. */
        give_back(e, E_UNAVAILABLE, "");
        return;
    }
    if (!bytes_equal(view->name, start->workflow) || !view->input.has ||
        !bytes_equal(view->input.value, start->input)) {
        give_back(e, E_EXISTS, "there is another instance with this id");
        return;
    }
    uint32_t partition = part_of(e->starter, start->hub, start->id);
    struct bytes key = request->key;
    e->request = (struct request){
        .kind = REQUEST_POSITION,
        .done = on_position,
        .user = e,
        .key = key,
        .position = {.at = position_of(start), .partition = partition},
    };
    post_again(e);
}

static void on_started(struct request *request)
{
    struct errand_start *e = request->user;

    if (request->status != E_EXISTS) {
        give_back(e, request->status, request->text);
        return;
    }
    struct bytes key = request->key;
    e->request = (struct request){.kind = REQUEST_GET, .done = on_looked, .user = e, .key = key};
    post_again(e);
}

static struct errand_start *take_errand(struct rest_starter *s)
{
    if (list_is_empty(&s->free)) (void)queue_take_all(&s->spare, &s->free, 0);
    struct list *node = list_pop_front(&s->free);
    if (node != NULL) return container_of(node, struct errand_start, spare);
    if (s->made_n >= STARTS_N_MAX) return NULL;
    struct errand_start *e = mem_take_zero(&s->own, sizeof *e);
    if (e == NULL) return NULL;
    e->starter = s;
    list_node_init(&e->spare);
    s->made_n++;
    return e;
}

static bool start(void *user, struct stream_start *start)
{
    struct rest_starter *s = user;
    size_t len = start->hub.len + 1 + start->id.len;
    struct errand_start *e = take_errand(s);

    if (e == NULL) return false;
    e->start = start;
    if (len > sizeof e->key) {
        give_back(e, E_INVALID, "the key is too long for an instance's id");
        return true;
    }
    memcpy(e->key, start->hub.ptr, start->hub.len);
    e->key[start->hub.len] = '/';
    memcpy(e->key + start->hub.len + 1, start->id.ptr, start->id.len);
    e->request = (struct request){
        .kind = REQUEST_START,
        .done = on_started,
        .user = e,
        .key = bytes_make(e->key, len),
        .start =
            {
                .name = start->workflow,
                .input = {start->input, true},
                .reuse = REUSE_NEVER,
                .at = position_of(start),
            },
    };
    if (engine_post_quietly(s->engine, &e->request)) {
        s->is_posted = true;
        return true;
    }
    list_push_back(&s->free, &e->spare);
    return false;
}

/* ---- positions ---- */

static void learn_end(struct errand_learn *e, unsigned n)
{
    struct rest_starter *s = e->starter;
    struct stream_positions *positions = e->positions;

    if (atomic_fetch_sub(&e->left_n, n) != n) return;
    positions->status = atomic_load(&e->is_failed) ? E_UNAVAILABLE : OK;
    bool is_pushed = queue_push_quietly(&s->learnt, &e->spare);
    assert(is_pushed);
    stream_positions_done(positions);
}

static void on_source(struct request *request)
{
    struct errand_learn *e = request->user;

    if (request->status != OK) atomic_store(&e->is_failed, true);
    learn_end(e, 1);
}

static size_t learn_size(const struct rest_starter *s)
{
    return sizeof(struct errand_learn) + s->shards_n * sizeof(struct request);
}

static void free_learnt(struct rest_starter *s)
{
    struct list done;
    struct list *node;

    list_init(&done);
    (void)queue_take_all(&s->learnt, &done, 0);
    while ((node = list_pop_front(&done)) != NULL) {
        mem_give(&s->own, container_of(node, struct errand_learn, spare), learn_size(s));
    }
}

static bool learn(void *user, struct stream_positions *positions)
{
    struct rest_starter *s = user;
    uint32_t shards_n = s->shards_n;

    free_learnt(s);
    struct errand_learn *e = mem_take_zero(&s->own, learn_size(s));
    if (e == NULL) return false;
    e->starter = s;
    e->positions = positions;
    list_node_init(&e->spare);
    /* One more than there are, so that it is not over before all were posted. */
    atomic_store(&e->left_n, shards_n + 1);
    unsigned not_posted_n = 0;
    for (uint32_t shard = 0; shard < shards_n; shard++) {
        e->requests[shard] = (struct request){
            .kind = REQUEST_SOURCE,
            .done = on_source,
            .user = e,
            .source = {.name = bytes_of_text(positions->source), .positions = positions->positions},
        };
        if (engine_post_to(s->engine, shard, &e->requests[shard])) continue;
        atomic_store(&e->is_failed, true);
        not_posted_n++;
    }
    learn_end(e, 1 + not_posted_n);
    return true;
}

/* ---- life ---- */

enum status rest_starter_new(struct mem *mem, struct engine *engine, struct rest_starter **out)
{
    struct rest_starter *s = mem_take_zero(mem, sizeof *s);
    if (s == NULL) return E_NOMEM;
    s->mem = mem;
    s->engine = engine;
    s->shards_n = engine_shards_n(engine);
    mem_init(&s->own, SIZE_MAX);
    queue_init(&s->spare, SIZE_MAX);
    queue_init(&s->learnt, SIZE_MAX);
    list_init(&s->free);
    s->interface = (struct stream_starter){
        .user = s,
        .parts_n = engine_partitions_n(engine),
        .part_of = part_of,
        .start = start,
        .learn = learn,
    };
    *out = s;
    return OK;
}

void rest_starter_free(struct rest_starter *s)
{
    struct list *node;

    (void)queue_take_all(&s->spare, &s->free, 0);
    while ((node = list_pop_front(&s->free)) != NULL) {
        mem_give(&s->own, container_of(node, struct errand_start, spare),
                 sizeof(struct errand_start));
    }
    free_learnt(s);
    queue_release(&s->spare);
    queue_release(&s->learnt);
    mem_release(&s->own);
    mem_give(s->mem, s, sizeof *s);
}

struct stream_starter *rest_starter_interface(struct rest_starter *s) { return &s->interface; }

void rest_starter_turned(struct rest_starter *s)
{
    if (!s->is_posted) return;
    s->is_posted = false;
    engine_wake(s->engine);
}

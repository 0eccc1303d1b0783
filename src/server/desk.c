/* SPDX-License-Identifier: Apache-2.0
 *
 * One queue brings errands and parcels back, in the order in which the engine let them go: what a
 * worker was given before its detachment is seen before that is done. The bell is rung once for any
 * number of them: it costs a system call.
 *
 * Errands are used again with their memory, so that an ordinary call takes none. So are parcels:
 * they are filled on a host's thread and emptied on the network's, which is the dearest thing that
 * can be done with malloc.
 */
#include "server/desk.h"

#include "base/assert.h"

#include <stdatomic.h>

/* What is kept of errands that were freed, and of parcels for each shard: so many, each with memory
 * up to this size. */
#define SPARE_N_MAX 256u
#define SPARE_SIZE_MAX ((size_t)16 << 10)
#define ARENA_CHUNK_SIZE 512

/* Parcels of one shard that can be used again. */
struct parcel_shelf {
    struct queue back; /* from the network's thread: emptied ones */
    struct list spare; /* the host's thread has taken them back */
};

struct desk {
    struct desk_options options;
    struct queue back; /* of desk_item: from the hosts' threads */
    atomic_bool is_rung;
    size_t errands_n;
    struct list spare; /* errands, by of_user */
    size_t spare_n;
    struct parcel_shelf shelves[]; /* by shard */
};

static size_t desk_size(const struct desk_options *options)
{
    return sizeof(struct desk) + options->engine.shards_n * sizeof(struct parcel_shelf);
}

enum status desk_new(const struct desk_options *options, struct desk **out)
{
    struct desk *d = mem_take_zero(options->mem, desk_size(options));

    if (d == NULL) return E_NOMEM;
    d->options = *options;
    queue_init(&d->back, SIZE_MAX); /* bounded by what is under way */
    atomic_init(&d->is_rung, false);
    list_init(&d->spare);
    for (uint32_t n = 0; n < options->engine.shards_n; n++) {
        queue_init(&d->shelves[n].back, SPARE_N_MAX);
        list_init(&d->shelves[n].spare);
    }
    *out = d;
    return OK;
}

static void errand_destroy(struct desk *d, struct errand *errand)
{
    arena_release(&errand->arena);
    buffer_release(&errand->reply);
    mem_release(&errand->mem);
    mem_give(d->options.mem, errand, sizeof *errand);
}

static void parcel_destroy(struct parcel *parcel)
{
    arena_release(&parcel->arena);
    buffer_release(&parcel->message);
    struct mem mem = parcel->mem;
    mem_give(&mem, parcel, sizeof *parcel);
    mem_release(&mem);
}

static void shelf_release(struct parcel_shelf *shelf)
{
    struct list *node;

    (void)queue_take_all(&shelf->back, &shelf->spare, 0);
    while ((node = list_pop_front(&shelf->spare)) != NULL) {
        parcel_destroy(container_of(node, struct parcel, node));
    }
    queue_release(&shelf->back);
}

void desk_free(struct desk *d)
{
    struct list *node;

    assert(d->errands_n == 0);
    while ((node = list_pop_front(&d->spare)) != NULL) {
        errand_destroy(d, container_of(node, struct errand, of_user));
    }
    for (uint32_t n = 0; n < d->options.engine.shards_n; n++) shelf_release(&d->shelves[n]);
    queue_release(&d->back);
    mem_give(d->options.mem, d, desk_size(&d->options));
}

size_t desk_errands_n(const struct desk *d) { return d->errands_n; }
void *desk_user(const struct desk *d) { return d->options.user; }
const struct desk_engine *desk_engine(const struct desk *d) { return &d->options.engine; }

/* ---- errands ---- */

static struct errand *errand_take(struct desk *d)
{
    struct list *node = list_pop_front(&d->spare);

    if (node != NULL) {
        d->spare_n--;
        return container_of(node, struct errand, of_user);
    }
    struct errand *errand = mem_take_zero(d->options.mem, sizeof *errand);
    if (errand == NULL) return NULL;
    mem_init(&errand->mem, SIZE_MAX);
    arena_init(&errand->arena, &errand->mem, ARENA_CHUNK_SIZE);
    buffer_init(&errand->reply, &errand->mem);
    return errand;
}

static struct errand *errand_make(struct desk *d, enum request_kind kind, struct grpc_call *call)
{
    struct errand *errand = errand_take(d);

    if (errand == NULL) return NULL;
    errand->request.kind = kind;
    errand->desk = d;
    errand->call = call;
    d->errands_n++;
    return errand;
}

struct errand *errand_new_asked(struct desk *d, enum request_kind kind)
{
    return d->errands_n >= d->options.errands_n_max ? NULL : errand_make(d, kind, NULL);
}

struct errand *errand_new(struct desk *d, enum request_kind kind, struct grpc_call *call)
{
    if (call != NULL && d->errands_n >= d->options.errands_n_max) return NULL;
    return errand_make(d, kind, call);
}

void errand_free(struct errand *errand)
{
    struct desk *d = errand->desk;

    assert(!list_is_linked(&errand->of_user));
    assert(d->errands_n > 0);
    d->errands_n--;
    if (d->spare_n >= SPARE_N_MAX) {
        errand_destroy(d, errand);
        return;
    }
    if (errand->arena.size > SPARE_SIZE_MAX) {
        arena_release(&errand->arena);
        arena_init(&errand->arena, &errand->mem, ARENA_CHUNK_SIZE); /* small chunks again */
    }
    arena_reset(&errand->arena);
    if (errand->reply.size > SPARE_SIZE_MAX) buffer_release(&errand->reply);
    struct mem mem = errand->mem;
    struct arena arena = errand->arena;
    struct buffer reply = errand->reply;
    *errand = (struct errand){.mem = mem, .arena = arena, .reply = reply};
    buffer_clear(&errand->reply);
    list_push_front(&d->spare, &errand->of_user);
    d->spare_n++;
}

bool errand_cancel(struct errand *errand)
{
    struct errand *cancel = errand_new(errand->desk, REQUEST_CANCEL, NULL);

    if (cancel == NULL) return false;
    cancel->request.cancelled = &errand->request;
    cancel->request.key = arena_copy(&cancel->arena, errand->request.key);
    cancel->done = errand_free;
    if (cancel->request.key.ptr != NULL && errand_post(cancel, -1)) return true;
    errand_free(cancel);
    return false;
}

struct bytes key_make(struct arena *arena, struct bytes hub, struct bytes id)
{
    uint8_t *key = arena_alloc(arena, hub.len + 1 + id.len);

    if (key == NULL) return BYTES_NONE;
    memcpy(key, hub.ptr, hub.len);
    key[hub.len] = '/';
    if (id.len > 0) memcpy(key + hub.len + 1, id.ptr, id.len);
    return bytes_make(key, hub.len + 1 + id.len);
}

bool start_of_view(struct arena *arena, const struct instance_view *view, struct input_start *out)
{
    struct bytes name = arena_copy(arena, view->name);
    struct bytes version = arena_copy(arena, view->version.value);
    struct bytes input = arena_copy(arena, view->input.value);
    struct bytes tags = arena_copy(arena, view->tags);

    if (name.len != view->name.len || version.len != view->version.value.len ||
        input.len != view->input.value.len || tags.len != view->tags.len) {
        return false;
    }
    *out = (struct input_start){
        .name = name,
        .version = {.value = version, .has = view->version.has},
        .input = {.value = input, .has = view->input.has},
        .tags = tags,
        .reuse = REUSE_NEVER,
    };
    return true;
}

/* ---- between the threads ---- */

static void send_back(struct desk *d, struct desk_item *item)
{
    bool is_in = queue_push(&d->back, &item->node);

    assert(is_in);
    if (!atomic_exchange(&d->is_rung, true)) d->options.engine.ring(d->options.engine.user);
}

static void on_request_done(struct request *request)
{
    struct errand *errand = container_of(request, struct errand, request);

    if (errand->encode != NULL) errand->encode(errand);
    request->view = NULL;
    request->rows = NULL;
    request->events = BYTES_NONE;
    send_back(errand->desk, &errand->item);
}

bool errand_post(struct errand *errand, int shard)
{
    const struct desk_engine *engine = &errand->desk->options.engine;

    assert(errand->done != NULL);
    errand->request.done = on_request_done;
    errand->request.status = OK;
    errand->request.text[0] = '\0';
    errand->request.has_more = false;
    return shard < 0 ? engine->post(engine->user, &errand->request)
                     : engine->post_to(engine->user, (uint32_t)shard, &errand->request);
}

void desk_collect(struct desk *d)
{
    struct list items;
    struct list *node;

    list_init(&items);
    /* Before taking: what is pushed from now on rings again. */
    atomic_store(&d->is_rung, false);
    (void)queue_take_all(&d->back, &items, 0);
    while ((node = list_pop_front(&items)) != NULL) {
        struct desk_item *item = container_of(node, struct desk_item, node);
        if (item->is_parcel) {
            d->options.parcel(d->options.user, container_of(item, struct parcel, item));
        } else {
            struct errand *errand = container_of(item, struct errand, item);
            errand->done(errand);
        }
    }
}

/* ---- parcels ---- */

static struct parcel *parcel_take(struct parcel_shelf *shelf)
{
    if (list_is_empty(&shelf->spare)) (void)queue_take_all(&shelf->back, &shelf->spare, 0);
    struct list *node = list_pop_front(&shelf->spare);
    return node == NULL ? NULL : container_of(node, struct parcel, node);
}

struct parcel *parcel_new(struct desk *d, uint32_t partition)
{
    struct mem mem;
    struct parcel_shelf *shelf =
        d == NULL ? NULL : &d->shelves[partition % d->options.engine.shards_n];
    struct parcel *parcel = shelf == NULL ? NULL : parcel_take(shelf);

    if (parcel != NULL) return parcel;
    mem_init(&mem, SIZE_MAX);
    parcel = mem_take_zero(&mem, sizeof *parcel);
    if (parcel == NULL) return NULL;
    parcel->mem = mem;
    parcel->shelf = shelf;
    parcel->item.is_parcel = true;
    arena_init(&parcel->arena, &parcel->mem, ARENA_CHUNK_SIZE);
    buffer_init(&parcel->message, &parcel->mem);
    return parcel;
}

void desk_put(struct desk *d, struct parcel *parcel) { send_back(d, &parcel->item); }

void parcel_free(struct parcel *parcel)
{
    struct parcel_shelf *shelf = parcel->shelf;
    size_t size = parcel->arena.size + parcel->message.size;

    assert(!list_is_linked(&parcel->node));
    if (shelf == NULL || size > SPARE_SIZE_MAX) {
        parcel_destroy(parcel);
        return;
    }
    arena_reset(&parcel->arena);
    buffer_clear(&parcel->message);
    parcel->worker = NULL;
    parcel->ref = (struct work_ref){0};
    parcel->history_n = 0;
    parcel->is_streamed = false;
    parcel->size_full = 0;
    if (!queue_push(&shelf->back, &parcel->node)) parcel_destroy(parcel);
}

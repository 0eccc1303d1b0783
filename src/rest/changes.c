/* SPDX-License-Identifier: Apache-2.0
 *
 * See changes.h. Numbers begin at 1 and are never used again, also not for what was lost: whoever
 * stands before something that was lost finds that its number is older than the oldest there is.
 */
#include "rest/changes.h"

#include "base/map.h"
#include "base/units.h"

#include <stdio.h>

#define KEPT_SIZE_MAX ((size_t)4 << 20)
#define KEPT_N_MAX 65536u
#define LINGER_NS ((int64_t)60 * 1000 * 1000 * 1000)

/* What the readers may take of the thread: SLICE_COST in SLICE_NS, of which it is about a third. A
 * byte that is sent costs 1. */
#define SLICE_COST ((size_t)1 << 20)
#define SLICE_NS ((int64_t)4 * 1000 * 1000)
#define TURN_COST 4096u /* of a reader: a send */
#define ENTRY_COST 64u  /* an entry that is looked at */

/* Texts of BLOCK_N changes, from a multiple of it on. */
#define BLOCK_N 64u
#define BLOCKS_N 16u
#define BLOCK_SIZE_MAX ((size_t)64 << 10) /* then it ends before */
#define HUB_SIZE 256

struct block {
    uint64_t first;
    uint64_t from;               /* texts of older ones are not there */
    struct reader_of_changes at; /* behind the last text */
    struct buffer text;
    uint32_t ends[BLOCK_N]; /* of the texts, by number; those of other hubs are empty */
    char hub[HUB_SIZE];
    size_t hub_len;
};

/* An instance that somebody watches. */
struct watched {
    struct map_node node;
    struct list in_all;
    struct list watchers;
    unsigned watchers_n;
    struct changes *changes;
    size_t size; /* of this and the key behind it */
};

struct changes {
    struct rest *rest;
    struct feed *feed;
    uint64_t epoch;    /* of this process */
    struct list pages; /* of struct feed_page, oldest first */
    uint64_t first;    /* the oldest number there is, or the next one */
    uint64_t next;
    size_t size; /* of all pages' bytes */
    struct list readers;
    struct list due;    /* likewise, those that have something to read */
    unsigned readers_n; /* with the watchers */
    size_t spent;       /* in this slice */
    int64_t slice_ns;   /* when the next may begin */
    struct block blocks[BLOCKS_N];
    struct map watched; /* by key */
    struct list all_watched;
    bool is_watching;
    int64_t left_ns; /* when the last reader left */
};

enum status changes_new(struct rest *r, struct changes **out)
{
    struct changes *c = mem_take_zero(r->mem, sizeof *c);

    if (c == NULL) return E_NOMEM;
    c->rest = r;
    c->feed = r->options.feed;
    c->epoch = (uint64_t)rest_wall_ns() / 1000000;
    c->first = 1;
    c->next = 1;
    list_init(&c->pages);
    list_init(&c->readers);
    list_init(&c->due);
    list_init(&c->all_watched);
    map_init(&c->watched, r->mem, rng_u64(&r->rng), rng_u64(&r->rng));
    for (size_t n = 0; n < BLOCKS_N; n++) buffer_init(&c->blocks[n].text, r->mem);
    *out = c;
    return OK;
}

static void drop_oldest(struct changes *c)
{
    struct feed_page *page = container_of(list_pop_front(&c->pages), struct feed_page, node);

    assert(page->first == c->first);
    assert(c->size >= page->bytes.len);
    c->first += page->n;
    c->size -= page->bytes.len;
    feed_page_free(page);
}

static void drop_texts(struct changes *c)
{
    for (size_t n = 0; n < BLOCKS_N; n++) {
        struct block *b = &c->blocks[n];
        buffer_release(&b->text);
        *b = (struct block){0};
        buffer_init(&b->text, c->rest->mem);
    }
}

static void drop_all(struct changes *c)
{
    while (!list_is_empty(&c->pages)) drop_oldest(c);
    assert(c->first == c->next);
    assert(c->size == 0);
}

/* Something between the last number and the next was lost. */
static void lose(struct changes *c)
{
    drop_all(c);
    c->next++;
    c->first = c->next;
}

void changes_free(struct changes *c)
{
    assert(c->readers_n == 0);
    if (c->feed != NULL) feed_watch(c->feed, false);
    drop_all(c);
    drop_texts(c);
    map_release(&c->watched);
    mem_give(c->rest->mem, c, sizeof *c);
}

/* ---- what comes ---- */

static void keep(struct changes *c, struct feed_page *page)
{
    page->first = c->next;
    c->next += page->n;
    c->size += page->bytes.len;
    list_push_back(&c->pages, &page->node);
    while (c->size > KEPT_SIZE_MAX || c->next - c->first > KEPT_N_MAX) drop_oldest(c);
}

/* Part by part, so that all stand near each other and find the same texts. Readers may leave while
 * they are told. */
static void serve(struct changes *c)
{
    int64_t now_ns = c->rest->now_ns;
    struct list *node;

    if (now_ns < c->slice_ns) return;
    c->spent = 0;
    while (c->spent < SLICE_COST && (node = list_pop_front(&c->due)) != NULL) {
        struct reader_of_changes *reader = container_of(node, struct reader_of_changes, node);
        list_push_back(&c->readers, node);
        c->spent += TURN_COST;
        if (!reader->news(reader)) continue;
        list_remove(node);
        list_push_back(&c->due, node);
    }
    c->slice_ns = now_ns + SLICE_NS * (int64_t)(c->spent / 64) / (int64_t)(SLICE_COST / 64);
}

/* All but one, which may be NULL. They may leave while they are told. */
static void tell_group(struct watched *group, const struct watcher_of_changes *but)
{
    struct list told;
    struct list *node;

    list_init(&told);
    list_splice_back(&told, &group->watchers);
    while ((node = list_pop_front(&told)) != NULL) { /* the group lives as long as one is in it */
        struct watcher_of_changes *watcher = container_of(node, struct watcher_of_changes, node);
        list_push_back(&group->watchers, node);
        if (watcher != but) watcher->news(watcher);
    }
}

static void tell_watchers(struct changes *c, const struct feed_page *page)
{
    struct reader r = reader_make(buffer_view(&page->bytes));
    struct feed_entry entry;

    while (c->watched.n > 0 && feed_next(&r, &entry)) {
        struct map_node *node = map_find(&c->watched, entry.key);
        if (node != NULL) tell_group(container_of(node, struct watched, node), NULL);
    }
}

/* Something was lost: perhaps it was of theirs. */
static void tell_all_watchers(struct changes *c)
{
    struct list told;
    struct list *node;

    list_init(&told);
    list_splice_back(&told, &c->all_watched);
    while ((node = list_pop_front(&told)) != NULL) {
        list_push_back(&c->all_watched, node);
        tell_group(container_of(node, struct watched, in_all), NULL);
    }
}

void changes_collect(struct changes *c)
{
    struct list pages;
    struct list *node;
    bool is_lost;

    if (c->feed == NULL) return;
    list_init(&pages);
    feed_take(c->feed, &pages, &is_lost);
    if (list_is_empty(&pages) && !is_lost) return;
    while ((node = list_pop_front(&pages)) != NULL) {
        struct feed_page *page = container_of(node, struct feed_page, node);
        tell_watchers(c, page);
        if (c->is_watching)
            keep(c, page);
        else
            feed_page_free(page);
    }
    if (is_lost) lose(c);
    if (is_lost) tell_all_watchers(c);
    list_splice_back(&c->due, &c->readers);
    serve(c);
}

int64_t changes_tick(struct changes *c, int64_t now_ns)
{
    serve(c);
    if (!list_is_empty(&c->due)) return c->slice_ns > now_ns ? c->slice_ns : now_ns;
    if (!c->is_watching || c->readers_n > 0) return INT64_MAX;
    if (now_ns < c->left_ns + LINGER_NS) return c->left_ns + LINGER_NS;
    c->is_watching = false;
    feed_watch(c->feed, false);
    lose(c);
    drop_texts(c);
    return INT64_MAX;
}

/* ---- readers ---- */

static void count_in(struct changes *c)
{
    c->readers_n++;
    if (c->feed == NULL || c->is_watching) return;
    c->is_watching = true;
    feed_watch(c->feed, true);
}

static void count_out(struct changes *c)
{
    assert(c->readers_n > 0);
    c->readers_n--;
    c->left_ns = c->rest->now_ns;
}

bool changes_join(struct changes *c, struct reader_of_changes *reader)
{
    if (c->readers_n >= READERS_N_MAX) return false;
    count_in(c);
    list_node_init(&reader->node);
    list_push_back(&c->readers, &reader->node);
    reader->next = c->next;
    reader->page = NULL;
    return true;
}

void changes_leave(struct changes *c, struct reader_of_changes *reader)
{
    list_remove(&reader->node);
    count_out(c);
}

void changes_wake(struct changes *c, struct reader_of_changes *reader)
{
    list_remove(&reader->node);
    list_push_back(&c->due, &reader->node);
}

/* The page that has the number, and where in it. */
static void locate(struct changes *c, struct reader_of_changes *reader)
{
    struct list *node = list_first(&c->pages);
    struct feed_page *page = container_of(node, struct feed_page, node);
    struct feed_entry skipped;

    while (reader->next >= page->first + page->n) {
        node = list_next(&c->pages, node);
        page = container_of(node, struct feed_page, node);
    }
    struct reader r = reader_make(buffer_view(&page->bytes));
    for (uint64_t number = page->first; number < reader->next; number++) {
        (void)feed_next(&r, &skipped);
    }
    reader->page = page;
    reader->page_first = page->first;
    reader->offset = (size_t)(r.at - page->bytes.ptr);
}

enum changes_next changes_read(struct changes *c, struct reader_of_changes *reader,
                               struct feed_entry *entry, uint64_t *number)
{
    if (reader->next < c->first) {
        reader->next = c->next;
        reader->page = NULL;
        return CHANGES_GAP;
    }
    if (reader->next >= c->next) return CHANGES_NONE;
    c->spent += ENTRY_COST;
    if (reader->page == NULL || reader->page_first < c->first) locate(c, reader);
    struct feed_page *page = reader->page;
    if (reader->offset == page->bytes.len) {
        page = container_of(list_next(&c->pages, &page->node), struct feed_page, node);
        reader->page = page;
        reader->page_first = page->first;
        reader->offset = 0;
    }
    struct reader r =
        reader_make(bytes_make(page->bytes.ptr + reader->offset, page->bytes.len - reader->offset));
    bool is_there = feed_next(&r, entry);
    assert(is_there);
    reader->offset = page->bytes.len - reader_left(&r);
    *number = reader->next++;
    return CHANGES_ENTRY;
}

/* ---- texts ---- */

static bool block_fits(const struct changes *c, const struct block *b, uint64_t number,
                       struct bytes hub)
{
    uint64_t end = b->at.next < b->first + BLOCK_N ? b->at.next : UINT64_MAX;

    if (b->first != number / BLOCK_N * BLOCK_N || number < b->from || b->text.failed) return false;
    if (b->text.len >= BLOCK_SIZE_MAX && number >= end) return false; /* it goes no further */
    if (number > end || end < c->first) return false; /* what is between is not wanted, or lost */
    return bytes_equal(bytes_make(b->hub, b->hub_len), hub);
}

static void block_begin(struct changes *c, struct block *b, uint64_t number, struct bytes hub)
{
    uint64_t first = number / BLOCK_N * BLOCK_N;
    const struct block *before = &c->blocks[(first / BLOCK_N + BLOCKS_N - 1) % BLOCKS_N];

    b->first = first;
    b->from = number;
    b->at = (struct reader_of_changes){.next = number};
    if (before->at.next == number) b->at = before->at; /* it knows the page */
    buffer_clear(&b->text);
    for (size_t n = 0; n < BLOCK_N; n++) b->ends[n] = 0;
    memcpy(b->hub, hub.ptr, hub.len);
    b->hub_len = hub.len;
}

/* Adds what has come since. */
static void block_extend(struct changes *c, struct block *b, change_write_fn *write)
{
    struct feed_entry entry;
    uint64_t number;

    while (b->at.next < b->first + BLOCK_N && b->text.len < BLOCK_SIZE_MAX && !b->text.failed) {
        if (changes_read(c, &b->at, &entry, &number) != CHANGES_ENTRY) break;
        if (bytes_equal(key_hub(entry.key), bytes_make(b->hub, b->hub_len)))
            write(c, &b->text, number, &entry);
        b->ends[number - b->first] = (uint32_t)b->text.len;
    }
}

enum changes_next changes_read_texts(struct changes *c, struct reader_of_changes *reader,
                                     struct bytes hub, change_write_fn *write, struct bytes *out)
{
    struct block *b = &c->blocks[reader->next / BLOCK_N % BLOCKS_N];

    *out = BYTES_NONE;
    if (reader->next >= c->first && reader->next >= c->next) return CHANGES_NONE;
    if (reader->next >= c->first && hub.len <= HUB_SIZE) {
        if (!block_fits(c, b, reader->next, hub)) block_begin(c, b, reader->next, hub);
        block_extend(c, b, write);
        if (!b->text.failed && b->at.next > reader->next) {
            uint64_t n = reader->next - b->first;
            size_t from = n == 0 ? 0 : b->ends[n - 1];
            *out = bytes_make(b->text.ptr + from, b->text.len - from);
            c->spent += out->len;
            reader->next = b->at.next;
            return CHANGES_ENTRY;
        }
        b->first = UINT64_MAX;
    }
    reader->next = c->next;
    return CHANGES_GAP;
}

/* ---- watchers ---- */

static struct watched *watched_new(struct changes *c, struct bytes key)
{
    struct watched *group = mem_take_zero(c->rest->mem, sizeof *group + key.len);

    if (group == NULL) return NULL;
    group->size = sizeof *group + key.len;
    group->changes = c;
    memcpy(group + 1, key.ptr, key.len);
    group->node.key = bytes_make(group + 1, key.len);
    list_init(&group->watchers);
    list_node_init(&group->in_all);
    list_push_back(&c->all_watched, &group->in_all);
    map_insert(&c->watched, &group->node);
    return group;
}

bool changes_watch(struct changes *c, struct watcher_of_changes *watcher, struct bytes key)
{
    if (c->readers_n >= READERS_N_MAX) return false;
    struct map_node *node = map_find(&c->watched, key);
    watcher->group = node == NULL ? watched_new(c, key) : container_of(node, struct watched, node);
    if (watcher->group == NULL) return false;
    count_in(c);
    watcher->group->watchers_n++;
    list_node_init(&watcher->node);
    list_push_front(&watcher->group->watchers, &watcher->node);
    return true;
}

bool changes_is_first(const struct watcher_of_changes *watcher)
{
    return list_first(&watcher->group->watchers) == &watcher->node;
}

void changes_tell_others(struct watcher_of_changes *watcher)
{
    tell_group(watcher->group, watcher);
}

static void tell_first(struct watched *group)
{
    struct list *node = list_first(&group->watchers);
    struct watcher_of_changes *first = container_of(node, struct watcher_of_changes, node);

    first->is_first(first);
}

void changes_step_back(struct watcher_of_changes *watcher)
{
    if (watcher->group->watchers_n == 1 || !changes_is_first(watcher)) return;
    list_remove(&watcher->node);
    list_push_back(&watcher->group->watchers, &watcher->node);
    tell_first(watcher->group);
}

void changes_unwatch(struct changes *c, struct watcher_of_changes *watcher)
{
    struct watched *group = watcher->group;
    bool was_first = changes_is_first(watcher);

    list_remove(&watcher->node);
    watcher->group = NULL;
    count_out(c);
    if (--group->watchers_n > 0) {
        if (was_first && !list_is_empty(&group->watchers)) tell_first(group);
        return;
    }
    map_remove(&c->watched, &group->node);
    list_remove(&group->in_all);
    mem_give(c->rest->mem, group, group->size);
}

/* ---- ids ---- */

uint64_t changes_newest(const struct changes *c) { return c->next - 1; }

void changes_id(const struct changes *c, uint64_t number, char out[CHANGES_ID_SIZE])
{
    (void)snprintf(out, CHANGES_ID_SIZE, "%llx-%llu", (unsigned long long)c->epoch,
                   (unsigned long long)number);
}

bool changes_seek(struct changes *c, struct reader_of_changes *reader, struct bytes id)
{
    char prefix[CHANGES_ID_SIZE];
    uint64_t number;

    changes_id(c, 0, prefix);
    size_t len = strlen(prefix) - 1;
    if (!bytes_start_with(id, bytes_make(prefix, len))) return false;
    if (!decimal_parse(bytes_make(id.ptr + len, id.len - len), INT64_MAX, &number)) return false;
    if (number + 1 < c->first || number + 1 > c->next) return false;
    reader->next = number + 1;
    reader->page = NULL;
    return true;
}

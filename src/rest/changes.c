/* SPDX-License-Identifier: Apache-2.0
 *
 * See changes.h. Numbers begin at 1 and are never used again, also not for what was lost: whoever
 * stands before something that was lost finds that its number is older than the oldest there is.
 */
#include "rest/changes.h"

#include "base/units.h"

#include <stdio.h>

#define KEPT_SIZE_MAX ((size_t)4 << 20)
#define KEPT_N_MAX 65536u
#define LINGER_NS ((int64_t)60 * 1000 * 1000 * 1000)

struct changes {
    struct rest *rest;
    struct feed *feed;
    uint64_t epoch;    /* of this process */
    struct list pages; /* of struct feed_page, oldest first */
    uint64_t first;    /* the oldest number there is, or the next one */
    uint64_t next;
    size_t size; /* of all pages' bytes */
    struct list readers;
    unsigned readers_n;
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

/* Readers may leave while they are told. */
static void tell_all(struct changes *c)
{
    struct list told;
    struct list *node;

    list_init(&told);
    list_splice_back(&told, &c->readers);
    while ((node = list_pop_front(&told)) != NULL) {
        list_push_back(&c->readers, node);
        struct reader_of_changes *reader = container_of(node, struct reader_of_changes, node);
        reader->news(reader);
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
        if (c->is_watching)
            keep(c, page);
        else
            feed_page_free(page);
    }
    if (is_lost) lose(c);
    tell_all(c);
}

int64_t changes_tick(struct changes *c, int64_t now_ns)
{
    if (!c->is_watching || c->readers_n > 0) return INT64_MAX;
    if (now_ns < c->left_ns + LINGER_NS) return c->left_ns + LINGER_NS;
    c->is_watching = false;
    feed_watch(c->feed, false);
    lose(c);
    return INT64_MAX;
}

/* ---- readers ---- */

bool changes_join(struct changes *c, struct reader_of_changes *reader)
{
    if (c->readers_n >= READERS_N_MAX) return false;
    c->readers_n++;
    list_node_init(&reader->node);
    list_push_back(&c->readers, &reader->node);
    reader->next = c->next;
    reader->page = NULL;
    if (c->feed != NULL && !c->is_watching) {
        c->is_watching = true;
        feed_watch(c->feed, true);
    }
    return true;
}

void changes_leave(struct changes *c, struct reader_of_changes *reader)
{
    assert(c->readers_n > 0);
    c->readers_n--;
    list_remove(&reader->node);
    c->left_ns = c->rest->now_ns;
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

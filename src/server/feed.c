/* SPDX-License-Identifier: Apache-2.0
 *
 * See feed.h. An entry: one byte (status, or ENTRY_ALERT), time, key, name or text.
 */
#include "server/feed.h"

#include "base/assert.h"
#include "base/queue.h"

#define PAGES_N_MAX 8192u                  /* that wait to be taken */
#define WAITING_SIZE_MAX ((size_t)8 << 20) /* of their bytes */
#define PAGE_SIZE_MAX ((size_t)64 << 10)
#define SHARDS_N_MAX 256u /* more than these have no page of their own between two changes */
#define ENTRY_ALERT 0xffu

struct feed {
    struct mem *mem;
    void (*ring)(void *user);
    void *user;
    atomic_bool is_watched;
    atomic_bool is_lost;
    atomic_size_t waiting_size;
    struct queue pages;
    struct feed_page *open[SHARDS_N_MAX]; /* by shard, each of its host's thread */
};

static struct feed_page *page_new(void)
{
    struct mem mem;

    mem_init(&mem, SIZE_MAX);
    struct feed_page *page = mem_take_zero(&mem, sizeof *page);
    if (page == NULL) return NULL;
    page->mem = mem;
    buffer_init(&page->bytes, &page->mem);
    return page;
}

void feed_page_free(struct feed_page *page)
{
    buffer_release(&page->bytes);
    struct mem mem = page->mem;
    mem_give(&mem, page, sizeof *page);
    mem_release(&mem);
}

enum status feed_new(struct mem *mem, void (*ring)(void *user), void *user, struct feed **out)
{
    struct feed *f = mem_take_zero(mem, sizeof *f);

    if (f == NULL) return E_NOMEM;
    f->mem = mem;
    f->ring = ring;
    f->user = user;
    queue_init(&f->pages, PAGES_N_MAX);
    *out = f;
    return OK;
}

void feed_free(struct feed *f)
{
    struct list pages;
    bool is_lost;
    struct list *node;

    list_init(&pages);
    feed_take(f, &pages, &is_lost);
    while ((node = list_pop_front(&pages)) != NULL) {
        feed_page_free(container_of(node, struct feed_page, node));
    }
    for (size_t n = 0; n < SHARDS_N_MAX; n++) {
        if (f->open[n] != NULL) feed_page_free(f->open[n]);
    }
    queue_release(&f->pages);
    mem_give(f->mem, f, sizeof *f);
}

const atomic_bool *feed_is_watched(const struct feed *f) { return &f->is_watched; }

/* ---- hosts' threads ---- */

static void hand_over(struct feed *f, struct feed_page *page)
{
    size_t size = page->bytes.len;

    if (page->bytes.failed || atomic_load(&f->waiting_size) + size > WAITING_SIZE_MAX) {
        atomic_store(&f->is_lost, true);
        feed_page_free(page);
    } else {
        atomic_fetch_add(&f->waiting_size, size);
        if (!queue_push(&f->pages, &page->node)) {
            atomic_fetch_sub(&f->waiting_size, size);
            atomic_store(&f->is_lost, true);
            feed_page_free(page);
        }
    }
    f->ring(f->user);
}

static void write_entry(struct feed_page *page, const struct host_change *change)
{
    struct buffer *b = &page->bytes;

    buffer_u8(b, change->is_alert ? ENTRY_ALERT : (uint8_t)change->status);
    buffer_signed(b, change->time_ns);
    buffer_bytes(b, change->key);
    buffer_bytes(b, change->is_alert ? bytes_of_text(change->text) : change->name);
    page->n++;
}

void feed_changed(void *user, uint32_t shard, const struct host_change *change)
{
    struct feed *f = user;
    struct feed_page *alone = NULL;
    struct feed_page **page = shard < SHARDS_N_MAX ? &f->open[shard] : &alone;

    if (change != NULL) {
        if (*page == NULL) *page = page_new();
        if (*page == NULL) {
            atomic_store(&f->is_lost, true);
            return;
        }
        write_entry(*page, change);
    }
    if (*page == NULL) return;
    if (change != NULL && page != &alone && (*page)->bytes.len < PAGE_SIZE_MAX) return;
    struct feed_page *full = *page;
    *page = NULL;
    hand_over(f, full);
}

/* ---- the network's thread ---- */

void feed_watch(struct feed *f, bool is_watched) { atomic_store(&f->is_watched, is_watched); }

void feed_take(struct feed *f, struct list *to, bool *is_lost)
{
    struct list pages;

    list_init(&pages);
    (void)queue_take_all(&f->pages, &pages, 0);
    for (struct list *n = list_first(&pages); n != NULL; n = list_next(&pages, n)) {
        size_t size = container_of(n, struct feed_page, node)->bytes.len;
        atomic_fetch_sub(&f->waiting_size, size);
    }
    list_splice_back(to, &pages);
    *is_lost = atomic_exchange(&f->is_lost, false);
}

bool feed_next(struct reader *r, struct feed_entry *out)
{
    if (reader_left(r) == 0) return false;
    uint8_t kind = reader_u8(r);
    *out = (struct feed_entry){.is_alert = kind == ENTRY_ALERT, .time_ns = reader_signed(r)};
    if (!out->is_alert) out->status = (enum orchestration_status)kind;
    out->key = reader_bytes(r);
    out->text = reader_bytes(r);
    assert(!r->failed); /* write_entry() wrote it */
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/feed.h"
#include "test/lib/test.h"

#include <string.h>

static unsigned rings_n;

static void ring(void *user)
{
    (void)user;
    rings_n++;
}

static struct feed *feed_open(void)
{
    struct feed *f = NULL;

    rings_n = 0;
    EXPECT_STATUS(OK, feed_new(mem_process(), ring, NULL, &f));
    return f;
}

/* Takes all; answers the bytes, and how many entries there were. */
static size_t take_all(struct feed *f, unsigned *entries_n, bool *is_lost)
{
    struct list pages;
    struct list *node;
    size_t size = 0;

    list_init(&pages);
    feed_take(f, &pages, is_lost);
    *entries_n = 0;
    while ((node = list_pop_front(&pages)) != NULL) {
        struct feed_page *page = container_of(node, struct feed_page, node);
        size += page->bytes.len;
        *entries_n += page->n;
        feed_page_free(page);
    }
    return size;
}

/* Changes come out as they went in, those of a batch on one page, and the bell is rung for it. */
TEST(changes_of_a_batch_are_one_page)
{
    struct feed *f = feed_open();
    struct list pages;
    bool is_lost = true;
    struct feed_entry entry;
    struct host_change changes[] = {
        {.key = BYTES_LITERAL("h/a"),
         .time_ns = -5,
         .status = STATUS_FAILED,
         .name = BYTES_LITERAL("o")},
        {.key = BYTES_LITERAL("h/b"), .time_ns = 7, .is_alert = true, .text = "look"},
    };
    feed_changed(f, 0, &changes[0]);
    feed_changed(f, 1, &changes[0]); /* another host's */
    feed_changed(f, 0, &changes[1]);
    EXPECT_EQ(0, rings_n);
    feed_changed(f, 0, NULL);
    EXPECT_EQ(1, rings_n);
    list_init(&pages);
    feed_take(f, &pages, &is_lost);
    EXPECT(!is_lost);
    struct feed_page *page = container_of(list_pop_front(&pages), struct feed_page, node);
    EXPECT(list_is_empty(&pages));
    EXPECT_EQ(2, page->n);
    struct reader r = reader_make(buffer_view(&page->bytes));
    EXPECT(feed_next(&r, &entry));
    EXPECT_EQ(STATUS_FAILED, entry.status);
    EXPECT_EQ(-5, entry.time_ns);
    EXPECT_BYTES(BYTES_LITERAL("h/a"), entry.key);
    EXPECT_BYTES(BYTES_LITERAL("o"), entry.text);
    EXPECT(feed_next(&r, &entry));
    EXPECT(entry.is_alert);
    EXPECT_BYTES(BYTES_LITERAL("look"), entry.text);
    EXPECT(!feed_next(&r, &entry));
    feed_page_free(page);
    feed_free(f); /* with the page of shard 1 */
}

/* What nobody takes is bounded, by its size and by its number, and the loss is told once. */
TEST(what_nobody_takes_is_bounded)
{
    static char text[50000];
    struct feed *f = feed_open();
    unsigned entries_n;
    bool is_lost;
    memset(text, 'a', sizeof text - 1);
    struct host_change change = {.key = BYTES_LITERAL("h/a"), .is_alert = true, .text = text};
    for (int n = 0; n < 1000; n++) {
        feed_changed(f, 0, &change);
        feed_changed(f, 0, NULL);
    }
    EXPECT(take_all(f, &entries_n, &is_lost) <= (size_t)8 << 20);
    EXPECT(entries_n > 100);
    EXPECT(is_lost);
    change.text = "";
    for (int n = 0; n < 10000; n++) {
        feed_changed(f, 1000, &change); /* a shard without a page of its own */
    }
    (void)take_all(f, &entries_n, &is_lost);
    EXPECT(entries_n < 10000);
    EXPECT(is_lost);
    feed_changed(f, 1000, &change);
    (void)take_all(f, &entries_n, &is_lost);
    EXPECT_EQ(1, entries_n);
    EXPECT(!is_lost);
    feed_free(f);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Histories in parts, and the children of an instance, from memory and from the archive alike.
 */
#include "test/unit/host_world.h"

/* One answer, copied. */
static struct {
    uint8_t bytes[8000];
    size_t len;
    uint32_t n;
    bool has_more;
    bool has_view;
    enum status status;
} seen;

static void see(struct request *r)
{
    struct reader reader = reader_make(r->events);
    struct bytes one;

    EXPECT(r->events.len <= sizeof seen.bytes);
    if (r->events.len > 0) memcpy(seen.bytes, r->events.ptr, r->events.len);
    seen.len = r->events.len;
    seen.n = 0;
    while (strings_next(&reader, &one)) seen.n++;
    EXPECT(reader_is_done(&reader)); /* whole events only */
    seen.has_more = r->has_more;
    seen.has_view = r->view != NULL;
    seen.status = r->status;
}

static void ask_part(struct world *w, const char *id, uint32_t skip_n, size_t size_max,
                     const char *execution)
{
    struct ask a;

    ask_init(&a, w, REQUEST_HISTORY, id);
    a.request.done = see;
    a.request.history.skip_n = skip_n;
    a.request.history.size_max = size_max;
    if (execution != NULL) {
        a.request.history.execution_id = maybe_some(bytes_of_text(execution));
    }
    ask_run(&a);
}

static char execution_text[EXECUTION_TEXT_SIZE + 1];
static void see_execution(struct request *r)
{
    EXPECT(r->view != NULL);
    execution_id_text(r->view->execution_id, execution_text);
}

/* Reads all of it in parts of this size: the parts are the whole, and each is as full as may be. */
static void expect_parts(struct world *w, size_t size_max, uint32_t whole_n, size_t whole_len,
                         const uint8_t *whole)
{
    uint32_t at_n = 0;
    size_t at = 0;

    do {
        ask_part(w, "a", at_n, size_max, execution_text);
        EXPECT_STATUS(OK, seen.status);
        EXPECT(seen.n > 0);
        EXPECT(seen.len <= size_max || seen.n == 1);
        EXPECT(at + seen.len <= whole_len);
        EXPECT(memcmp(whole + at, seen.bytes, seen.len) == 0);
        at_n += seen.n;
        at += seen.len;
        EXPECT_EQ(at_n < whole_n, seen.has_more);
    } while (seen.has_more && at_n < whole_n);
    EXPECT_EQ(whole_n, at_n);
    EXPECT_EQ(whole_len, at);
}

/* What is streamed in parts is the history, no event more or less, whatever the size of a part. */
TEST(the_parts_are_the_whole)
{
    struct world w;
    struct ask get;
    static uint8_t whole[sizeof seen.bytes];
    const size_t sizes[] = {1, 50, 64, 100, 200, 333, 1000, 100000};
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq5"));
    ask_init(&get, &w, REQUEST_GET, "a");
    get.request.done = see_execution;
    ask_run(&get);
    for (int is_archived = 0; is_archived < 2; is_archived++) {
        test_note("archived: %d", is_archived);
        if (is_archived == 1) world_advance_ms(&w, 2 * w.options.archive_every_ms);
        EXPECT_EQ(is_archived == 0 ? 1 : 0, world_stats(&w).instances_hot);
        ask_part(&w, "a", 0, 0, NULL);
        EXPECT(!seen.has_more);
        uint32_t whole_n = seen.n;
        size_t whole_len = seen.len;
        EXPECT(whole_n > 15);
        memcpy(whole, seen.bytes, whole_len);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            expect_parts(&w, sizes[i], whole_n, whole_len, whole);
        }
        expect_parts(&w, whole_len, whole_n, whole_len, whole);
        expect_parts(&w, whole_len - 1, whole_n, whole_len, whole);
        ask_part(&w, "a", 0, whole_len, execution_text); /* it just fits */
        EXPECT_EQ(whole_n, seen.n);
        ask_part(&w, "a", whole_n, 10, execution_text); /* behind the end there is nothing */
        EXPECT_STATUS(OK, seen.status);
        EXPECT_EQ(0, seen.n);
        EXPECT(!seen.has_more);
        ask_part(&w, "a", UINT32_MAX, 10, NULL);
        EXPECT_EQ(0, seen.n);
        EXPECT(!seen.has_more);
    }
    world_release(&w);
}

/* Parts of two executions do not make one history: who goes on reading after it began again is
 * told. */
TEST(another_execution_is_not_found)
{
    struct world w;
    struct ask get;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    ask_init(&get, &w, REQUEST_GET, "a");
    get.request.done = see_execution;
    ask_run(&get);
    ask_part(&w, "a", 0, 0, execution_text);
    EXPECT_STATUS(OK, seen.status);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    for (int is_archived = 0; is_archived < 2; is_archived++) {
        test_note("archived: %d", is_archived);
        if (is_archived == 1) world_advance_ms(&w, 2 * w.options.archive_every_ms);
        ask_part(&w, "a", 3, 0, execution_text);
        EXPECT_STATUS(E_NOT_FOUND, seen.status);
        EXPECT_EQ(0, seen.n);
        ask_part(&w, "a", 0, 0, "no execution id");
        EXPECT_STATUS(E_NOT_FOUND, seen.status);
        ask_part(&w, "a", 0, 0, NULL);
        EXPECT_STATUS(OK, seen.status);
    }
    ask_part(&w, "nobody", 0, 0, NULL);
    EXPECT_STATUS(E_NOT_FOUND, seen.status);
    world_release(&w);
}

/* Who purges a tree asks for children without reading histories. */
TEST(children_are_told)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "p", "parent"));
    for (int is_archived = 0; is_archived < 2; is_archived++) {
        test_note("archived: %d", is_archived);
        if (is_archived == 1) world_advance_ms(&w, 2 * w.options.archive_every_ms);
        ask_init(&a, &w, REQUEST_CHILDREN, "p");
        a.request.done = see;
        ask_run(&a);
        EXPECT_STATUS(OK, seen.status);
        EXPECT(seen.has_view);
        EXPECT_EQ(1, seen.n);
        EXPECT_EQ(4, seen.len);
        EXPECT(memcmp(seen.bytes, "\x03p-c", 4) == 0);
        ask_init(&a, &w, REQUEST_CHILDREN, "p-c");
        a.request.done = see;
        ask_run(&a);
        EXPECT(seen.has_view);
        EXPECT_EQ(0, seen.n);
    }
    ask_init(&a, &w, REQUEST_CHILDREN, "nobody");
    a.request.done = see;
    ask_run(&a);
    EXPECT_STATUS(OK, seen.status);
    EXPECT(!seen.has_view);
    world_release(&w);
}

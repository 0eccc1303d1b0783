/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists that merge memory and archive, and purges, which take from both.
 */
#include "host/rows.h"
#include "test/unit/host_world.h"

/* ---- lists ---- */

/* One page of hub "h" after the given row ("" = from the beginning). */
static void list_page(struct world *w, struct ask *a, uint32_t limit, int64_t after_ms,
                      const char *after_id)
{
    ask_init(a, w, REQUEST_QUERY, "");
    a->request.query.hub = BYTES_LITERAL("h");
    a->request.query.limit = limit;
    if (after_id[0] != '\0') {
        a->request.query.has_after = true;
        a->request.query.after_ms = after_ms;
        a->request.query.after_id = bytes_of_text(after_id);
    }
}

static const char *list_run(struct ask *a)
{
    ask_run(a);
    EXPECT(a->is_done);
    EXPECT_STATUS(OK, a->request.status);
    return a->rows;
}

static void start_some(struct world *w, int first, int n, const char *name)
{
    char id[16];

    for (int i = first; i < first + n; i++) {
        (void)snprintf(id, sizeof id, "i%02d", i);
        EXPECT_STATUS(OK, world_start(w, id, name));
        world_advance_ms(w, 1);
    }
}

static void archive_all(struct world *w)
{
    world_advance_ms(w, 2 * w->options.idle_evict_ms);
    EXPECT_EQ(0, world_stats(w).instances_hot);
}

/* A client sees what it has just started, whatever is where: some archived, some asleep, some in
 * memory. */
TEST(list_merges_memory_and_archive)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    start_some(&w, 0, 3, "seq1");
    start_some(&w, 3, 2, "wait");
    archive_all(&w);
    start_some(&w, 5, 3, "wait");
    list_page(&w, &a, 100, 0, "");
    EXPECT_TEXT("i00 i01 i02 i03 i04 i05 i06 i07 ", list_run(&a));
    EXPECT(!a.request.has_more);
    EXPECT_EQ(3, world_stats(&w).instances_hot); /* a list loads nothing */

    struct ask raise; /* an archived one comes back, and is still listed once */
    ask_init(&raise, &w, REQUEST_RAISE, "i03");
    raise.request.client.name = BYTES_LITERAL("go");
    ask_run(&raise);
    list_page(&w, &a, 100, 0, "");
    EXPECT_TEXT("i00 i01 i02 i03 i04 i05 i06 i07 ", list_run(&a));
    world_release(&w);
}

/* Page by page, with instances moving between memory and archive between the pages, each appears
 * once. */
TEST(pages_give_each_instance_once)
{
    struct world w;
    struct ask a;
    char all[400] = "", last_id[16] = "";
    int64_t last_ms = 0;
    int pages_n = 0;
    world_init(&w);
    world_open(&w);
    start_some(&w, 0, 6, "seq1");
    archive_all(&w);
    start_some(&w, 6, 7, "wait");
    do {
        list_page(&w, &a, 3, last_ms, last_id);
        (void)list_run(&a);
        size_t len = strlen(a.rows);
        EXPECT(len > 0);
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%.40s", a.rows);
        (void)snprintf(last_id, sizeof last_id, "%.3s", a.rows + len - 4);
        int number = (last_id[1] - '0') * 10 + last_id[2] - '0';
        last_ms = WORLD_START_NS / NS_PER_MS + number + (number >= 6 ? 20000 : 0);
        if (++pages_n == 2) archive_all(&w); /* what was in memory is now in the archive */
    } while (a.request.has_more);
    EXPECT_TEXT("i00 i01 i02 i03 i04 i05 i06 i07 i08 i09 i10 i11 i12 ", all);
    EXPECT(pages_n >= 5);
    world_release(&w);
}

static char seen_id[16];
static int64_t seen_ms;

static void remember_last(struct request *r)
{
    if (r->status == OK && r->rows_n > 0) {
        const struct instance_view *last = &r->rows[r->rows_n - 1];
        struct bytes id = key_id(last->key);
        (void)snprintf(seen_id, sizeof seen_id, "%.*s", (int)id.len, (const char *)id.ptr);
        seen_ms = view_time_ms(last, r->query.by_completion);
    }
    ask_done(r);
}

/* All pages of the list, one after the other. `between` is called before each but the first. */
static void list_all(struct world *w, const struct request_query *query, char *all, size_t size,
                     void (*between)(struct world *w, int page))
{
    struct ask a;
    char after[16];

    seen_id[0] = all[0] = '\0';
    for (int page = 0;; page++) {
        if (page > 0 && between != NULL) between(w, page);
        memcpy(after, seen_id, sizeof after);
        ask_init(&a, w, REQUEST_QUERY, "");
        a.request.query = *query;
        a.request.query.hub = BYTES_LITERAL("h");
        a.request.query.has_after = page > 0;
        a.request.query.after_ms = seen_ms;
        a.request.query.after_id = bytes_of_text(after);
        a.request.done = remember_last;
        (void)list_run(&a);
        size_t len = strlen(all);
        (void)snprintf(all + len, size - len, "%s", a.rows);
        if (!a.request.has_more) return;
    }
}

/* Others start some, and what was in memory goes to the archive, and some of it comes back. */
static void disturb(struct world *w, int page)
{
    struct ask raise;

    start_some(w, 50 + 2 * page, 2, "wait");
    if (page == 1) archive_all(w);
    if (page != 2) return;
    ask_init(&raise, w, REQUEST_RAISE, "i04");
    raise.request.client.name = BYTES_LITERAL("other");
    ask_run(&raise);
}

/* Newest first, page by page: what was there when the list began appears exactly once, and what
 * came later not at all, wherever each of them is meanwhile. */
TEST(pages_go_backwards)
{
    static const char expected[] = "i12 i11 i10 i09 i08 i07 i06 i05 i04 i03 i02 i01 i00 ";

    for (uint32_t limit = 1; limit < 15; limit++) {
        struct world w;
        char all[400];
        struct request_query query = {.newest_first = true, .limit = limit};
        world_init(&w);
        world_open(&w);
        start_some(&w, 0, 3, "seq1");
        start_some(&w, 3, 4, "wait");
        archive_all(&w);
        start_some(&w, 7, 6, "wait");
        test_note("limit %u", limit);
        list_all(&w, &query, all, sizeof all, disturb);
        EXPECT_TEXT(expected, all);
        world_release(&w);
    }
}

/* While the archive is being read for a list, an instance moves there from memory: it was in
 * neither place when each was looked at, and must be listed all the same. */
TEST(list_has_what_leaves_memory_meanwhile)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    start_some(&w, 0, 1, "seq1");
    archive_all(&w);
    EXPECT_STATUS(OK, world_start(&w, "i01", "seq1"));
    EXPECT_EQ(1, world_stats(&w).instances_hot);

    w.is_held[LANE_ARCHIVE] = true;
    world_advance_ms(&w, 2 * w.options.archive_every_ms); /* a round with i01 is under way */
    w.is_held[LANE_READ] = true;
    list_page(&w, &a, 10, 0, "");
    ask_run(&a);
    struct list *node = list_pop_front(&w.lanes[LANE_READ]);
    EXPECT(node != NULL);
    struct job *job = container_of(node, struct job, node);
    job->run(job); /* the archive is read: it has no row of i01 */
    w.is_held[LANE_ARCHIVE] = false;
    world_pump(&w); /* i01 is archived and leaves */
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    EXPECT(!a.is_done);
    job->done(job);
    w.is_held[LANE_READ] = false;
    world_pump(&w);
    EXPECT(a.is_done);
    EXPECT_TEXT("i00 i01 ", a.rows);
    world_release(&w);
}

/* The archive is read before, and memory looked at after an instance has moved: its old row must
 * not count. */
TEST(list_does_not_show_an_old_row)
{
    struct world w;
    struct ask a, raise, wait;
    world_init(&w);
    world_open(&w);
    start_some(&w, 0, 1, "wait");
    archive_all(&w); /* RUNNING, says its row */
    ask_init(&raise, &w, REQUEST_RAISE, "i00");
    raise.request.client.name = BYTES_LITERAL("go");
    ask_run(&raise);
    EXPECT_EQ(1, world_stats(&w).instances_hot); /* and has completed */

    w.is_held[LANE_ARCHIVE] = true;
    world_advance_ms(&w, 2 * w.options.archive_every_ms);
    w.is_held[LANE_READ] = true;
    list_page(&w, &a, 10, 0, "");
    a.request.query.status_mask = 1u << STATUS_RUNNING;
    ask_run(&a);
    struct job *job = container_of(list_pop_front(&w.lanes[LANE_READ]), struct job, node);
    job->run(job); /* reads the old row */
    w.is_held[LANE_ARCHIVE] = false;
    world_pump(&w); /* the new one is written, and the instance leaves */
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    job->done(job);
    w.is_held[LANE_READ] = false;
    world_pump(&w);
    EXPECT(a.is_done);
    EXPECT_TEXT("", a.rows);

    ask_init(&wait, &w, REQUEST_WAIT, "i00");
    wait.request.wait.until_finished = true;
    ask_run(&wait);
    EXPECT(wait.is_done);
    world_release(&w);
}

struct filter_case {
    const char *what;
    struct request_query query;
    const char *expected;
};

/* The same ones, from the end, in pages of 2. */
static void expect_backwards(struct world *w, const struct filter_case *c)
{
    struct request_query query = c->query;
    char all[400];
    char reversed[400] = "";

    query.newest_first = true;
    query.limit = 2;
    list_all(w, &query, all, sizeof all, NULL);
    for (size_t len = strlen(all); len > 0; len -= 4) {
        (void)snprintf(reversed + strlen(reversed), 5, "%.4s", all + len - 4);
    }
    EXPECT_TEXT(c->expected, reversed);
}

static void expect_filters(struct world *w)
{
    int64_t start_ms = WORLD_START_NS / NS_PER_MS;
    const struct filter_case cases[] = {
        {"status", {.status_mask = 1u << STATUS_COMPLETED}, "i00 i01 "},
        {"two statuses",
         {.status_mask = 1u << STATUS_FAILED | 1u << STATUS_RUNNING},
         "i02 i03 i04 i05 x06 "},
        {"terminal", {.terminal_only = true}, "i00 i01 i02 i03 "},
        {"by completion", {.by_completion = true}, "i00 i01 i02 i03 "},
        {"name", {.name = BYTES_LITERAL("fail")}, "i02 i03 "},
        {"no such name", {.name = BYTES_LITERAL("fai")}, ""},
        {"prefix", {.id_prefix = BYTES_LITERAL("i0")}, "i00 i01 i02 i03 i04 i05 "},
        {"other prefix", {.id_prefix = BYTES_LITERAL("x")}, "x06 "},
        {"error", {.error_part = BYTES_LITERAL("o luc")}, "i02 i03 "},
        {"other error", {.error_part = BYTES_LITERAL("luck!")}, ""},
        {"from", {.from_ms = start_ms + 3}, "i03 i04 i05 x06 "},
        {"to", {.to_ms = start_ms + 2}, "i00 i01 "},
        {"from and to", {.from_ms = start_ms + 1, .to_ms = start_ms + 3}, "i01 i02 "},
        {"tag", {.tag = BYTES_LITERAL("colour=red")}, "x06 "},
        {"part of a tag", {.tag = BYTES_LITERAL("colour=re")}, ""},
        {"key of a tag", {.tag = BYTES_LITERAL("colour")}, "x06 "},
        {"part of a key", {.tag = BYTES_LITERAL("colou")}, ""},
        {"value of a tag", {.tag = BYTES_LITERAL("red")}, ""},
        {"no value of a tag", {.tag = BYTES_LITERAL("colour=")}, ""},
        {"everything",
         {.status_mask = 1u << STATUS_RUNNING,
          .name = BYTES_LITERAL("wait"),
          .id_prefix = BYTES_LITERAL("i"),
          .from_ms = start_ms + 5},
         "i05 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ask a;
        test_note("filter: %s, %d in memory", cases[i].what, (int)world_stats(w).instances_hot);
        ask_init(&a, w, REQUEST_QUERY, "");
        a.request.query = cases[i].query;
        a.request.query.hub = BYTES_LITERAL("h");
        a.request.query.limit = 50;
        EXPECT_TEXT(cases[i].expected, list_run(&a));
        expect_backwards(w, &cases[i]);
    }
}

/* A filter means the same whether an instance is in memory or in the archive. */
TEST(filters_mean_the_same_everywhere)
{
    struct world w;
    struct ask start, other;
    struct buffer tag;
    world_init(&w);
    w.options.archive_every_ms = 1000;
    world_open(&w);
    start_some(&w, 0, 2, "seq1");
    start_some(&w, 2, 2, "fail");
    start_some(&w, 4, 2, "wait");
    buffer_init(&tag, &w.tool_mem);
    strings_add(&tag, test_hex("0a06636f6c6f7572"
                               "1203726564")); /* colour: red */
    ask_init(&start, &w, REQUEST_START, "x06");
    start.request.start.name = BYTES_LITERAL("wait");
    start.request.start.tags = buffer_view(&tag);
    ask_run(&start);
    EXPECT_STATUS(OK, start.request.status);
    buffer_release(&tag);
    EXPECT_EQ(7, world_stats(&w).instances_hot);
    expect_filters(&w);
    world_advance_ms(&w, 3000);
    EXPECT_EQ(3, world_stats(&w).instances_hot);
    expect_filters(&w);
    archive_all(&w);
    expect_filters(&w);

    ask_init(&other, &w, REQUEST_QUERY, "");
    other.request.query.hub = BYTES_LITERAL("other");
    other.request.query.limit = 50;
    EXPECT_TEXT("", list_run(&other)); /* hubs do not see each other */
    ask_init(&other, &w, REQUEST_QUERY, "");
    ask_run(&other);
    EXPECT_STATUS(E_INVALID, other.request.status);
    world_release(&w);
}

static struct instance_view seen_view;
static char seen_output[32];

static void see_first_row(struct request *r)
{
    EXPECT_STATUS(OK, r->status);
    EXPECT_EQ(1, r->rows_n);
    seen_view = r->rows[0];
    (void)snprintf(seen_output, sizeof seen_output, "%.*s", (int)seen_view.output.value.len,
                   (const char *)seen_view.output.value.ptr);
}

/* Payloads come only when they are wanted, from memory as from the archive. */
TEST(payloads_when_wanted)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    start_some(&w, 0, 1, "seq1");
    for (int round = 0; round < 2; round++) {
        for (int wanted = 0; wanted < 2; wanted++) {
            test_note("round %d, wanted %d", round, wanted);
            list_page(&w, &a, 1, 0, "");
            a.request.query.want_payloads = wanted == 1;
            a.request.done = see_first_row;
            ask_run(&a);
            EXPECT_EQ(STATUS_COMPLETED, seen_view.status);
            EXPECT(seen_view.is_terminal);
            EXPECT_EQ(WORLD_START_NS, seen_view.created_ns);
            EXPECT_EQ(WORLD_START_NS, seen_view.completed_ns);
            EXPECT(seen_view.output.has == (wanted == 1));
            EXPECT_TEXT(wanted == 1 ? "done" : "", seen_output);
        }
        archive_all(&w);
    }
    world_release(&w);
}

static char seen_failure[64];

static void see_whole_row(struct request *r)
{
    see_first_row(r);
    struct bytes text = BYTES_NONE;
    if (seen_view.failure.has) text = failure_message(seen_view.failure.value);
    (void)snprintf(seen_failure, sizeof seen_failure, "%.*s", (int)text.len,
                   (const char *)text.ptr);
    seen_view.version.has =
        seen_view.version.has && bytes_equal(seen_view.version.value, BYTES_LITERAL("2.0"));
    seen_view.tags.len = seen_view.tags.len == 0 ? 0 : strings_count(seen_view.tags);
}

/* Everything but the payloads is in every row, and the same, wherever the instance is. */
TEST(rows_say_the_same_everywhere)
{
    struct world w;
    struct ask start, a;
    struct buffer tag;
    uint8_t execution_id[EXECUTION_ID_SIZE] = {0};
    int64_t updated_ns = 0;
    world_init(&w);
    w.now_ns += 123456;
    world_open(&w);
    buffer_init(&tag, &w.tool_mem);
    strings_add(&tag, test_hex("0a06636f6c6f7572"
                               "1203726564")); /* colour: red */
    ask_init(&start, &w, REQUEST_START, "i00");
    start.request.start.name = BYTES_LITERAL("fail");
    start.request.start.version = maybe_some(BYTES_LITERAL("2.0"));
    start.request.start.input = maybe_some(BYTES_LITERAL("in"));
    start.request.start.tags = buffer_view(&tag);
    ask_run(&start);
    buffer_release(&tag);
    for (int round = 0; round < 2; round++) {
        test_note("round %d", round);
        list_page(&w, &a, 1, 0, "");
        a.request.done = see_whole_row;
        ask_run(&a);
        EXPECT_EQ(STATUS_FAILED, seen_view.status);
        EXPECT(seen_view.version.has);
        EXPECT_EQ(1, seen_view.tags.len);
        EXPECT_TEXT("no luck", seen_failure);
        EXPECT(!seen_view.input.has);
        EXPECT(!seen_view.output.has);
        EXPECT(!seen_view.custom_status.has);
        EXPECT_EQ(INT64_MAX, seen_view.wake_ms);
        EXPECT_EQ(WORLD_START_NS + 123456, seen_view.created_ns);
        if (round == 0) updated_ns = seen_view.updated_ns;
        EXPECT_EQ(updated_ns, seen_view.updated_ns);
        if (round == 0) memcpy(execution_id, seen_view.execution_id, sizeof execution_id);
        EXPECT(memcmp(execution_id, seen_view.execution_id, sizeof execution_id) == 0);
        archive_all(&w);
    }
    list_page(&w, &a, 1, 0, "");
    a.request.query.want_keys = true;
    a.request.done = see_whole_row;
    ask_run(&a);
    EXPECT(!seen_view.version.has); /* the instance itself was not read */
    EXPECT_EQ(WORLD_START_NS, seen_view.created_ns);
    world_release(&w);
}

/* A sleeper's row says when it wakes, wherever it sleeps. */
TEST(rows_of_sleepers_say_when_they_wake)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    start_some(&w, 0, 1, "nap");
    for (int round = 0; round < 2; round++) {
        test_note("round %d", round);
        list_page(&w, &a, 1, 0, "");
        a.request.done = see_first_row;
        ask_run(&a);
        EXPECT_EQ(WORLD_START_NS / NS_PER_MS + NAP_MS + 1, seen_view.wake_ms);
        archive_all(&w);
    }
    world_release(&w);
}

/* A page is bounded by what must be read for it: large instances make short pages, and still each
 * comes once. */
TEST(large_instances_make_short_pages)
{
    enum { N = 7, SIZE = 12 << 20 };
    struct world w;
    struct ask a;
    static char large[SIZE];
    char all[100] = "", last_id[16] = "";
    int pages_n = 0;
    world_init(&w);
    w.options.check_every_step = false;
    world_open(&w);
    memset(large, 'x', sizeof large);
    for (int i = 0; i < N; i++) {
        struct ask start;
        char id[16];
        (void)snprintf(id, sizeof id, "i%02d", i);
        ask_init(&start, &w, REQUEST_START, id);
        start.request.start.name = BYTES_LITERAL("seq1");
        start.request.start.input = maybe_some(bytes_make(large, sizeof large));
        ask_run(&start);
        EXPECT_STATUS(OK, start.request.status);
    }
    archive_all(&w);
    do {
        list_page(&w, &a, 100, WORLD_START_NS / NS_PER_MS, last_id);
        a.request.query.want_payloads = pages_n == 0;
        (void)list_run(&a);
        size_t len = strlen(a.rows);
        if (len > 0) (void)snprintf(last_id, sizeof last_id, "%.3s", a.rows + len - 4);
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%.60s", a.rows);
        pages_n++;
    } while (a.request.has_more);
    EXPECT_TEXT("i00 i01 i02 i03 i04 i05 i06 ", all);
    EXPECT_EQ(2, pages_n);
    world_release(&w);
}

/* An archive that cannot be read makes a list fail in words, not lie. */
TEST(failing_archive_fails_the_list)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    start_some(&w, 0, 1, "seq1");
    archive_all(&w);
    archive_fault_at(w.archive, 1, E_IO, true);
    list_page(&w, &a, 10, 0, "");
    ask_run(&a);
    EXPECT(a.is_done);
    EXPECT_STATUS(E_IO, a.request.status);
    ask_init(&a, &w, REQUEST_GET, "i00");
    ask_run(&a);
    EXPECT_STATUS(E_IO, a.request.status);
    ask_init(&a, &w, REQUEST_RAISE, "i00");
    a.request.client.name = BYTES_LITERAL("go");
    ask_run(&a);
    EXPECT_STATUS(E_IO, a.request.status);
    archive_fault_at(w.archive, 0, OK, false);
    EXPECT(world_get(&w, "i00").has_view);
    world_release(&w);
}

/* ---- purge ---- */

static struct ask purge(struct world *w, const char *id, bool recurse)
{
    struct ask a;

    ask_init(&a, w, REQUEST_PURGE, id);
    a.request.client.recurse = recurse;
    ask_run(&a);
    EXPECT(a.is_done);
    return a;
}

static void expect_gone(struct world *w, const char *id)
{
    struct ask a;

    EXPECT(!world_get(w, id).has_view);
    ask_init(&a, w, REQUEST_HISTORY, id);
    ask_run(&a);
    EXPECT_STATUS(E_NOT_FOUND, a.request.status);
    list_page(w, &a, 100, 0, "");
    EXPECT(strstr(list_run(&a), id) == NULL);
}

/* After a purge nothing shows the instance, from memory or archive, at once and after everything
 * settled. */
TEST(purged_instance_is_gone_everywhere)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    for (int is_archived = 0; is_archived < 2; is_archived++) {
        test_note("archived: %d", is_archived);
        EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
        if (is_archived == 1) archive_all(&w);
        struct ask p = purge(&w, "a", false);
        EXPECT_STATUS(OK, p.request.status);
        EXPECT_EQ(1, p.request.purged_n);
        expect_gone(&w, "a");
        EXPECT_STATUS(E_NOT_FOUND, purge(&w, "a", false).request.status);
        archive_all(&w);
        EXPECT_EQ(0, world_stats(&w).instances_archived);
        expect_gone(&w, "a");
        world_crash(&w);
        world_open(&w);
        expect_gone(&w, "a");
    }
    world_release(&w);
}

/* What still runs is not purged. */
TEST(running_instance_is_not_purged)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    EXPECT_STATUS(E_PRECONDITION, purge(&w, "a", false).request.status);
    EXPECT_STATUS(E_PRECONDITION, purge(&w, "a", true).request.status);
    EXPECT_STATUS(E_NOT_FOUND, purge(&w, "nobody", true).request.status);
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "a").status);
    world_release(&w);
}

/* A tree goes as a whole, wherever its instances are; a child that is missing is no reason to
 * stop. */
TEST(recursive_purge_takes_the_tree)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "p", "parent"));
    EXPECT_STATUS(OK, world_start(&w, "q", "parent"));
    archive_all(&w);
    EXPECT_STATUS(OK, world_start(&w, "r", "parent"));
    struct ask done = purge(&w, "p", true);
    EXPECT_STATUS(OK, done.request.status);
    EXPECT_EQ(2, done.request.purged_n);
    expect_gone(&w, "p");
    EXPECT(!world_get(&w, "p-c").has_view);

    EXPECT_STATUS(OK, purge(&w, "q-c", false).request.status);
    archive_all(&w);
    done = purge(&w, "q", true);
    EXPECT_STATUS(OK, done.request.status);
    EXPECT_EQ(1, done.request.purged_n);
    done = purge(&w, "r", true);
    EXPECT_EQ(2, done.request.purged_n);
    archive_all(&w);
    EXPECT_EQ(0, world_stats(&w).instances_archived);
    world_release(&w);
}

/* All or none: a descendant that still runs keeps its whole family. */
TEST(recursive_purge_spares_a_tree_that_runs)
{
    struct world w;
    struct ask terminate;
    world_init(&w);
    world_open(&w);
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "p", "parent"));
    world_answer_turns(&w);
    world_answer_turns(&w); /* the child's step is held */
    ask_init(&terminate, &w, REQUEST_TERMINATE, "p");
    ask_run(&terminate);
    EXPECT_STATUS(OK, terminate.request.status);
    EXPECT_STATUS(E_PRECONDITION, purge(&w, "p", true).request.status);
    EXPECT(world_get(&w, "p").has_view);
    EXPECT(world_get(&w, "p-c").has_view);
    w.holds_work = false;
    world_answer(&w);
    EXPECT_EQ(2, purge(&w, "p", true).request.purged_n);
    world_release(&w);
}

/* The id is used again while its removal from the archive is still under way: the new one is not
 * taken for the old one, by neither filter nor archive, now or after a restart. */
TEST(start_while_the_purge_is_being_archived)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    archive_all(&w);
    EXPECT_STATUS(OK, purge(&w, "a", false).request.status);
    w.is_held[LANE_ARCHIVE] = true;
    world_advance_ms(&w, 2 * w.options.archive_every_ms); /* the removal is under way */
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    w.is_held[LANE_ARCHIVE] = false;
    world_pump(&w);
    host_check(w.host);
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "a").status);
    archive_all(&w);
    EXPECT_EQ(1, world_stats(&w).instances_archived);
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "a").status);
    EXPECT_STATUS(E_EXISTS, world_start(&w, "a", "seq1"));
    world_crash(&w);
    world_open(&w);
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "a").status);
    world_release(&w);
}

/* The other way round: purged while its row is being written. */
TEST(purge_while_it_is_being_archived)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    w.is_held[LANE_ARCHIVE] = true;
    world_advance_ms(&w, 2 * w.options.archive_every_ms);
    EXPECT_STATUS(OK, purge(&w, "a", false).request.status);
    w.is_held[LANE_ARCHIVE] = false;
    world_pump(&w);
    expect_gone(&w, "a");
    archive_all(&w);
    EXPECT_EQ(0, world_stats(&w).instances_archived);
    expect_gone(&w, "a");
    world_release(&w);
}

/* The archive has removed it already, and the journal still has records of it without its
 * beginning, because another instance keeps the journal from being forgotten: recovery passes over
 * them. */
TEST(records_of_a_removed_instance_are_passed_over)
{
    struct world w;
    struct ask raise;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    archive_all(&w);
    EXPECT_STATUS(OK, world_start(&w, "b", "wait")); /* not archived before it is idle for longer */
    ask_init(&raise, &w, REQUEST_RAISE, "a");
    raise.request.client.name = BYTES_LITERAL("go");
    ask_run(&raise);
    EXPECT_STATUS(OK, purge(&w, "a", false).request.status);
    world_advance_ms(&w, 2 * w.options.archive_every_ms);
    EXPECT_EQ(0, world_stats(&w).instances_archived);
    EXPECT(world_stats(&w).lsn_applied < world_stats(&w).lsn_durable);
    world_crash(&w);
    world_open(&w);
    EXPECT(world_stats(&w).recovered_frames > 0);
    expect_gone(&w, "a");
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "b").status);
    world_release(&w);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts that wait in the journal, through the host: they come in when there is room, nobody who
 * asks for one notices that it waits, none is lost by a crash, and the journal keeps what it must
 * and no more.
 */
#include "test/unit/host_world.h"

static void small_world(struct world *w)
{
    world_init(w);
    w->options.active_max = 8;
    w->options.active_max_by_name = 4;
}

static void start_n(struct world *w, const char *prefix, const char *name, int n)
{
    for (int i = 0; i < n; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "%s%d", prefix, i);
        EXPECT_STATUS(OK, world_start(w, id, name));
    }
}

static enum orchestration_status status_of(struct world *w, const char *prefix, int i)
{
    char id[32];
    (void)snprintf(id, sizeof id, "%s%d", prefix, i);
    struct ask got = world_get(w, id);
    EXPECT(got.has_view);
    return got.status;
}

static void expect_all_completed(struct world *w, const char *prefix, int n)
{
    for (int i = 0; i < n; i++) EXPECT_EQ(STATUS_COMPLETED, status_of(w, prefix, i));
}

static enum status ask_client(struct world *w, enum request_kind kind, const char *id)
{
    struct ask ask;
    ask_init(&ask, w, kind, id);
    ask.request.client.name = BYTES_LITERAL("go");
    ask.request.client.is_forced = true;
    ask_run(&ask);
    EXPECT(ask.is_done);
    return ask.request.status;
}

/* More than may be active: all are acknowledged, and all are done in the end. */
TEST(what_waits_is_admitted_when_there_is_room)
{
    struct world w;
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "seq1", 100);
    EXPECT_EQ(96, world_stats(&w).backlog);
    EXPECT_EQ(4, world_stats(&w).active);
    EXPECT_EQ(4, world_stats(&w).instances_hot);
    EXPECT_EQ(STATUS_PENDING, status_of(&w, "a", 50));
    w.holds_work = false;
    world_answer(&w);
    EXPECT_EQ(0, world_stats(&w).backlog);
    EXPECT_EQ(96, world_stats(&w).admitted);
    expect_all_completed(&w, "a", 100);
    world_release(&w);
}

/* I8: a worker that hangs makes only its own workflow wait. The other goes on at once, and the
 * queue of the first never holds more than its limit. */
TEST(a_worker_that_hangs_stops_only_its_own)
{
    struct world w;
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "slow", "seq1", 50);
    struct list hanging;
    list_init(&hanging);
    list_splice_back(&hanging, &w.errands); /* nobody answers these */
    w.holds_work = false;
    for (int i = 0; i < 50; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "fast%d", i);
        EXPECT_STATUS(OK, world_start(&w, id, "seq2"));
        EXPECT_EQ(STATUS_COMPLETED, status_of(&w, "fast", i));
        EXPECT(world_stats(&w).gauges.ready[WORK_TURN] <= 4);
        EXPECT(world_stats(&w).active <= 4);
    }
    EXPECT_EQ(46, world_stats(&w).backlog);
    list_splice_back(&w.errands, &hanging);
    world_answer(&w); /* it is back */
    expect_all_completed(&w, "slow", 50);
    world_release(&w);
}

/* A crash at any time keeps all that was acknowledged, and admits each once. */
TEST(no_crash_loses_what_waits)
{
    struct world w;
    small_world(&w);
    w.options.archive_every_ms = 10;
    world_open(&w);
    for (int round = 0; round < 6; round++) {
        w.holds_work = true;
        char prefix[8];
        (void)snprintf(prefix, sizeof prefix, "r%d-", round);
        start_n(&w, prefix, "seq1", 30);
        w.holds_work = round % 2 == 0;
        if (round % 2 == 1) world_answer(&w);
        world_advance_ms(&w, 20);
        host_check(w.host);
        world_crash(&w);
        world_open(&w);
        host_check(w.host);
    }
    w.holds_work = false;
    world_answer(&w);
    world_advance_ms(&w, 5000);
    for (int round = 0; round < 6; round++) {
        char prefix[8];
        (void)snprintf(prefix, sizeof prefix, "r%d-", round);
        expect_all_completed(&w, prefix, 30);
    }
    EXPECT_EQ(0, world_stats(&w).backlog);
    world_release(&w);
}

static char reason[200];
static void keep_reason(struct request *r)
{
    struct bytes text = r->why == NULL ? BYTES_NONE : r->why->reason;
    (void)snprintf(reason, sizeof reason, "%.*s", (int)text.len, (const char *)text.ptr);
    ask_done(r);
}

/* Who asks for an instance that waits finds it, and changes it as if it did not wait. */
TEST(what_waits_can_be_asked_for)
{
    struct world w;
    struct ask ask;
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "seq1", 4);
    EXPECT_STATUS(OK, world_start(&w, "raised", "seq1"));
    EXPECT_STATUS(OK, world_start(&w, "ended", "seq1"));
    EXPECT_STATUS(OK, world_start(&w, "purged", "seq1"));
    EXPECT_STATUS(OK, world_start(&w, "twice", "seq1"));
    EXPECT_STATUS(OK, world_start(&w, "paused", "seq1"));
    EXPECT_STATUS(OK, world_start(&w, "left", "seq1"));
    EXPECT_EQ(6, world_stats(&w).backlog);

    EXPECT_STATUS(OK, ask_client(&w, REQUEST_RAISE, "raised"));
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_TERMINATE, "ended"));
    EXPECT_EQ(STATUS_TERMINATED, world_get(&w, "ended").status);
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_PURGE, "purged"));
    EXPECT(!world_get(&w, "purged").has_view);
    EXPECT_STATUS(E_EXISTS, world_start(&w, "twice", "seq1"));
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_SUSPEND, "paused"));
    EXPECT_EQ(STATUS_SUSPENDED, world_get(&w, "paused").status);
    EXPECT_EQ(2, world_stats(&w).backlog);

    ask_init(&ask, &w, REQUEST_HISTORY, "left");
    ask_run(&ask);
    EXPECT_STATUS(OK, ask.request.status);
    EXPECT_EQ(0, ask.request.events.len);
    ask_init(&ask, &w, REQUEST_CHILDREN, "left");
    ask_run(&ask);
    EXPECT_STATUS(OK, ask.request.status);
    EXPECT(ask.has_view);
    ask_init(&ask, &w, REQUEST_WHY, "left");
    ask.request.done = keep_reason;
    ask_run(&ask);
    EXPECT(strstr(reason, "waits to be admitted") != NULL);
    EXPECT_EQ(2, world_stats(&w).backlog); /* to look is not to admit */
    EXPECT(!world_get(&w, "never").has_view);
    w.holds_work = false;
    world_answer(&w);
    world_release(&w);
}

/* A WAIT on one that waits is answered when it has ended, and can be cancelled. */
TEST(a_wait_lasts_until_it_has_ended)
{
    struct world w;
    struct ask wait, other, cancel;
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "seq1", 6);
    ask_init(&wait, &w, REQUEST_WAIT, "a5");
    wait.request.wait.until_finished = true;
    ask_run(&wait);
    ask_init(&other, &w, REQUEST_WAIT, "a4");
    ask_run(&other);
    EXPECT(!wait.is_done);
    ask_init(&cancel, &w, REQUEST_CANCEL, "a4");
    cancel.request.cancelled = &other.request;
    ask_run(&cancel);
    EXPECT_STATUS(OK, cancel.request.status);
    EXPECT_STATUS(E_TIMEOUT, other.request.status);
    w.holds_work = false;
    world_answer(&w);
    EXPECT(wait.is_done);
    EXPECT_EQ(STATUS_COMPLETED, wait.status);
    world_release(&w);
}

/* A start and the request for it in one turn: its record is not durable when it is asked for. */
TEST(what_is_not_durable_yet_can_be_asked_for)
{
    struct world w;
    struct ask start, end, get;
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "seq1", 4);
    w.is_held[LANE_COMMIT] = true;
    ask_init(&start, &w, REQUEST_START, "b");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_post(&start);
    ask_init(&get, &w, REQUEST_GET, "b");
    ask_post(&get);
    ask_init(&end, &w, REQUEST_TERMINATE, "b");
    ask_run(&end);
    EXPECT(!start.is_done);
    EXPECT(!end.is_done);
    EXPECT(!get.is_done);
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT_STATUS(OK, start.request.status);
    EXPECT_STATUS(OK, end.request.status);
    EXPECT(get.has_view);
    EXPECT_EQ(STATUS_TERMINATED, world_get(&w, "b").status);
    w.holds_work = false;
    world_answer(&w);
    world_release(&w);
}

/* Keys that share a hash are not taken for each other, by whoever asks. */
TEST(a_shared_hash_confuses_nobody)
{
    struct world w;
    small_world(&w);
    w.options.backlog_hash_mask = 1;
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "seq1", 40);
    for (int i = 0; i < 40; i++) EXPECT_EQ(STATUS_PENDING, status_of(&w, "a", i));
    EXPECT(!world_get(&w, "nobody").has_view);
    EXPECT_STATUS(E_NOT_FOUND, ask_client(&w, REQUEST_RAISE, "nobody"));
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_WHY, "nobody"));
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_WHY, "a39"));
    EXPECT_STATUS(E_EXISTS, world_start(&w, "a20", "seq1"));
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_TERMINATE, "a30"));
    world_crash(&w);
    world_open(&w);
    EXPECT_STATUS(E_EXISTS, world_start(&w, "a10", "seq1"));
    w.holds_work = false;
    world_answer(&w);
    world_advance_ms(&w, 5000);
    for (int i = 0; i < 40; i++) {
        EXPECT_EQ(i == 30 ? STATUS_TERMINATED : STATUS_COMPLETED, status_of(&w, "a", i));
    }
    world_release(&w);
}

/* Others come and go until the archive is far ahead of the first starts that wait. */
static void run_past(struct world *w)
{
    struct list hanging;
    struct list *node;

    w->options.archive_every_ms = 10;
    w->options.archive_lag_max = 100000;
    w->options.check_every_step = false;
    world_open(w);
    w->holds_work = true;
    start_n(w, "slow", "seq1", 8);
    list_init(&hanging);
    list_splice_back(&hanging, &w->errands);
    w->holds_work = false;
    for (int i = 0; i < 2000; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "fast%d", i);
        EXPECT_STATUS(OK, world_start(w, id, "seq3"));
        if (i % 10 == 0) world_advance_ms(w, 10);
    }
    EXPECT_EQ(4, world_stats(w).backlog);
    host_check(w->host);
    while ((node = list_pop_front(&hanging)) != NULL) list_push_back(&w->errands, node);
}

/* Of frames that the archive has, recovery still reads what waits in them. */
TEST(the_archive_may_be_ahead_of_what_waits)
{
    struct world w;
    small_world(&w);
    run_past(&w);
    EXPECT_EQ(0, world_stats(&w).carried);
    EXPECT(world_stats(&w).lsn_applied > 1000);
    world_crash(&w);
    world_open(&w);
    world_advance_ms(&w, 5000);
    expect_all_completed(&w, "slow", 8);
    expect_all_completed(&w, "fast", 100);
    world_release(&w);
}

/* The journal is not kept for ever: old starts are carried forward. */
TEST(an_old_start_does_not_keep_the_journal)
{
    struct world w;
    small_world(&w);
    w.options.carry_size_min = 20000;
    run_past(&w);
    EXPECT(world_stats(&w).carried > 0);
    EXPECT(world_stats(&w).journal_bytes < 1000000);
    world_crash(&w);
    world_open(&w);
    world_advance_ms(&w, 5000);
    expect_all_completed(&w, "slow", 8);
    world_release(&w);
}

/* At the limit of the backlog the client hears it; what is acknowledged stays. */
TEST(a_full_backlog_is_an_answer)
{
    struct world w;
    struct ask start;
    small_world(&w);
    w.options.backlog_n_max = 10;
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "seq1", 14);
    ask_init(&start, &w, REQUEST_START, "more");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&start);
    EXPECT_STATUS(E_LIMIT, start.request.status);
    EXPECT(strstr(start.request.text, "backlog is full") != NULL);
    w.holds_work = false;
    world_answer(&w);
    expect_all_completed(&w, "a", 14);
    world_release(&w);
}

/* Little space: what grows is refused in words, what shrinks goes on; and it ends by itself. */
TEST(low_disk_refuses_what_grows)
{
    struct world w;
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "wait", 6);
    w.disk_free = 100;
    w.holds_work = false;
    world_answer(&w);
    world_advance_ms(&w, 10);
    EXPECT_STATUS(E_NOSPACE, world_start(&w, "more", "seq1"));
    EXPECT_STATUS(E_NOSPACE, ask_client(&w, REQUEST_RAISE, "a0"));
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_TERMINATE, "a0"));
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_PURGE, "a0"));
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_TERMINATE, "a5"));
    w.disk_free = UINT64_MAX;
    world_advance_ms(&w, 3000);
    EXPECT_STATUS(OK, world_start(&w, "more", "seq1"));
    world_release(&w);
}

/* A journal that is held by what stays in memory may be what fills the disk: then that is archived
 * too, long before the lag would ask for it, and the journal can shrink. */
TEST(low_disk_lets_the_journal_shrink)
{
    struct world w;
    world_init(&w);
    w.options.archive_lag_max = 1 << 20;
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "wait", 2);
    for (int i = 0; i < 400; i++) EXPECT_STATUS(OK, ask_client(&w, REQUEST_RAISE, "a0"));
    world_advance_ms(&w, 5000);
    uint64_t held = world_stats(&w).lsn_applied;
    EXPECT(held < 10);
    w.disk_free = 100;
    EXPECT_STATUS(OK, ask_client(&w, REQUEST_TERMINATE, "a1"));
    world_advance_ms(&w, 5000);
    EXPECT(world_stats(&w).lsn_applied > held + 100);
    w.disk_free = UINT64_MAX;
    world_release(&w);
}

/* A host that stops does not wait for its backlog, and goes on with it later. */
TEST(a_stop_leaves_what_waits)
{
    struct world w;
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "seq1", 20);
    host_stop(w.host);
    world_advance_ms(&w, 1000);
    EXPECT(host_is_quiet(w.host));
    world_crash(&w);
    world_open(&w);
    EXPECT_EQ(16, world_stats(&w).backlog);
    w.holds_work = false;
    world_answer(&w);
    world_advance_ms(&w, 1000);
    expect_all_completed(&w, "a", 20);
    world_release(&w);
}

static void list_page(struct ask *a, struct world *w, const char *after_id, int64_t after_ms)
{
    ask_init(a, w, REQUEST_QUERY, "list");
    a->request.query.hub = BYTES_LITERAL("h");
    a->request.query.limit = 3;
    a->request.query.has_after = after_id[0] != '\0';
    a->request.query.after_id = bytes_of_text(after_id);
    a->request.query.after_ms = after_ms;
    ask_run(a);
    EXPECT_STATUS(OK, a->request.status);
}

/* Last row of a page: where the next begins. */
static struct {
    char id[16];
    int64_t ms;
} last_row;

static void remember_last(struct request *r)
{
    if (r->rows_n > 0) {
        const struct instance_view *view = &r->rows[r->rows_n - 1];
        struct bytes id = key_id(view->key);
        (void)snprintf(last_row.id, sizeof last_row.id, "%.*s", (int)id.len, (const char *)id.ptr);
        last_row.ms = view->created_ns / NS_PER_MS;
    }
    ask_done(r);
}

/* The same, newest first: what waits is most of the first pages. */
TEST(lists_show_what_waits_newest_first)
{
    struct world w;
    struct ask page;
    char all[4200] = "";
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    for (int i = 0; i < 12; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "i%02d", i);
        EXPECT_STATUS(OK, world_start(&w, id, i % 2 == 0 ? "seq1" : "seq2"));
        if (i % 3 == 0) world_advance_ms(&w, 1); /* some share their millisecond */
    }
    EXPECT_EQ(4, world_stats(&w).backlog);
    last_row.id[0] = '\0';
    for (int n = 0; n < 20; n++) {
        char after[16];
        memcpy(after, last_row.id, sizeof after);
        ask_init(&page, &w, REQUEST_QUERY, "list");
        page.request.done = remember_last;
        page.request.query.hub = BYTES_LITERAL("h");
        page.request.query.limit = 2;
        page.request.query.newest_first = true;
        page.request.query.has_after = after[0] != '\0';
        page.request.query.after_id = bytes_of_text(after);
        page.request.query.after_ms = last_row.ms;
        ask_run(&page);
        EXPECT_STATUS(OK, page.request.status);
        size_t all_len = strlen(all);
        snprintf(all + all_len, sizeof all - all_len, "%s", page.rows);
        if (!page.request.has_more) break;
        if (n == 0) { /* two are admitted meanwhile, one starts */
            EXPECT_STATUS(OK, ask_client(&w, REQUEST_SUSPEND, "i08"));
            EXPECT_STATUS(OK, ask_client(&w, REQUEST_SUSPEND, "i09"));
            EXPECT_STATUS(OK, world_start(&w, "new", "seq1"));
        }
    }
    EXPECT_TEXT("i11 i10 i09 i08 i07 i06 i05 i04 i03 i02 i01 i00 ", all);
    w.holds_work = false;
    world_answer(&w);
    world_release(&w);
}

/* What a walk has seen. */
static struct {
    uint32_t n;
    bool is_unordered;
    char id[16];
    int64_t ms;
} walked;

static void walk_rows(struct request *r)
{
    for (size_t i = 0; i < r->rows_n; i++) {
        int64_t ms = r->rows[i].created_ns / NS_PER_MS;
        struct bytes id = key_id(r->rows[i].key);
        int order = bytes_compare(id, bytes_of_text(walked.id));
        if (ms != walked.ms) order = ms < walked.ms ? -1 : 1;
        bool is_right = r->query.newest_first ? order < 0 : order > 0;
        walked.is_unordered = walked.is_unordered || (walked.n > 0 && !is_right);
        walked.n++;
        walked.ms = ms;
        (void)snprintf(walked.id, sizeof walked.id, "%.*s", (int)id.len, (const char *)id.ptr);
    }
    container_of(r, struct ask, request)->is_done = true;
}

static uint32_t walk_all(struct world *w, bool newest_first, struct bytes name, struct bytes prefix)
{
    struct ask page = {0};

    memset(&walked, 0, sizeof walked);
    do {
        char after[16];
        memcpy(after, walked.id, sizeof after);
        ask_init(&page, w, REQUEST_QUERY, "list");
        page.request.done = walk_rows;
        page.request.query.hub = BYTES_LITERAL("h");
        page.request.query.limit = 999;
        page.request.query.name = name;
        page.request.query.id_prefix = prefix;
        page.request.query.newest_first = newest_first;
        page.request.query.has_after = walked.n > 0;
        page.request.query.after_id = bytes_of_text(after);
        page.request.query.after_ms = walked.ms;
        ask_run(&page);
        EXPECT_STATUS(OK, page.request.status);
    } while (page.request.has_more);
    EXPECT(!walked.is_unordered);
    return walked.n;
}

/* More wait than are read for one page: it ends where the next of them might come in between. */
TEST(lists_of_very_many_that_wait)
{
    enum { N = 5000 };
    struct world w;
    small_world(&w);
    w.options.backlog_n_max = 10 * N;
    world_open(&w);
    w.holds_work = true;
    for (int i = 0; i < N; i++) {
        char id[16];
        /* The order of ids is another one. One of each millisecond is an x; the first is active. */
        (void)snprintf(id, sizeof id, "%c%04d", i % 40 == 1 ? 'x' : 'i', i * 7919 % N);
        EXPECT_STATUS(OK, world_start(&w, id, i % 5 == 0 ? "seq1" : "seq2"));
        if (i % 40 == 0) world_advance_ms(&w, 1);
    }
    EXPECT(world_stats(&w).backlog > N - 100);
    for (int is_newest = 0; is_newest < 2; is_newest++) {
        EXPECT_EQ(N, walk_all(&w, is_newest, BYTES_NONE, BYTES_NONE));
        EXPECT_EQ(N / 5, walk_all(&w, is_newest, BYTES_LITERAL("seq1"), BYTES_NONE));
        EXPECT_EQ(N / 40, walk_all(&w, is_newest, BYTES_NONE, BYTES_LITERAL("x")));
        /* Alone in what is looked for, about where the first part of those that wait ends. */
        for (int i = (is_newest ? N - 2048 : 2048) / 40 * 40 - 119; i < N - 1500; i += 40) {
            char id[16];
            (void)snprintf(id, sizeof id, "x%04d", i * 7919 % N);
            if (i < 2300 || is_newest)
                EXPECT_EQ(1, walk_all(&w, is_newest, BYTES_NONE, bytes_of_text(id)));
        }
    }
    w.holds_work = false;
    world_release(&w);
}

/* What waits stands in lists, in its place, once, whatever is admitted between two pages. */
TEST(lists_show_what_waits)
{
    struct world w;
    struct ask page;
    char all[4200] = "";
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    for (int i = 0; i < 12; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "i%02d", i);
        EXPECT_STATUS(OK, world_start(&w, id, i % 2 == 0 ? "seq1" : "seq2"));
        if (i % 3 == 0) world_advance_ms(&w, 1); /* some share their millisecond */
    }
    EXPECT_EQ(4, world_stats(&w).backlog);
    last_row.id[0] = '\0';
    for (int n = 0; n < 10; n++) {
        ask_init(&page, &w, REQUEST_QUERY, "list");
        page.request.done = remember_last;
        page.request.query.hub = BYTES_LITERAL("h");
        page.request.query.limit = 3;
        char after[16];
        memcpy(after, last_row.id, sizeof after);
        page.request.query.has_after = after[0] != '\0';
        page.request.query.after_id = bytes_of_text(after);
        page.request.query.after_ms = last_row.ms;
        ask_run(&page);
        EXPECT_STATUS(OK, page.request.status);
        size_t all_len = strlen(all);
        snprintf(all + all_len, sizeof all - all_len, "%s", page.rows);
        if (!page.request.has_more) break;
        if (n == 1) { /* two are admitted meanwhile */
            EXPECT_STATUS(OK, ask_client(&w, REQUEST_SUSPEND, "i10"));
            EXPECT_STATUS(OK, ask_client(&w, REQUEST_SUSPEND, "i11"));
        }
    }
    EXPECT_TEXT("i00 i01 i02 i03 i04 i05 i06 i07 i08 i09 i10 i11 ", all);
    /* filters see them as what they are */
    ask_init(&page, &w, REQUEST_QUERY, "list");
    page.request.query.hub = BYTES_LITERAL("h");
    page.request.query.limit = 100;
    page.request.query.status_mask = 1u << STATUS_COMPLETED;
    ask_run(&page);
    EXPECT_TEXT("", page.rows);
    ask_init(&page, &w, REQUEST_QUERY, "list");
    page.request.query.hub = BYTES_LITERAL("other");
    page.request.query.limit = 100;
    ask_run(&page);
    EXPECT_TEXT("", page.rows);
    list_page(&page, &w, "", 0);
    EXPECT_TEXT("i00 i01 i02 ", page.rows);
    w.holds_work = false;
    world_answer(&w);
    world_release(&w);
}

/* I5: positions of a source are durable with what they start, and can be asked for. */
TEST(positions_of_a_source)
{
    struct world w;
    struct ask ask;
    uint64_t positions[4] = {9, 9, 9, 9};
    small_world(&w);
    world_open(&w);
    uint32_t p = partition_of(BYTES_LITERAL("h/a"), 4);
    ask_init(&ask, &w, REQUEST_START, "a");
    ask.request.start.name = BYTES_LITERAL("seq1");
    ask.request.start.at = (struct input_position){BYTES_LITERAL("s"), 5, 0};
    ask_run(&ask);
    EXPECT_STATUS(OK, ask.request.status);
    ask_init(&ask, &w, REQUEST_POSITION, "");
    ask.request.position.at = (struct input_position){BYTES_LITERAL("s"), 6, 5};
    ask.request.position.partition = p;
    ask_run(&ask);
    EXPECT_STATUS(OK, ask.request.status);
    ask_init(&ask, &w, REQUEST_POSITION, "");
    ask.request.position.at = (struct input_position){BYTES_LITERAL("s"), 9, 8};
    ask.request.position.partition = p;
    ask_run(&ask);
    EXPECT_STATUS(E_STALE, ask.request.status);
    world_advance_ms(&w, 2000); /* archived */
    world_crash(&w);
    world_open(&w);
    ask_init(&ask, &w, REQUEST_SOURCE, "");
    ask.request.source.name = BYTES_LITERAL("s");
    ask.request.source.positions = positions;
    ask_run(&ask);
    for (uint32_t i = 0; i < 4; i++) EXPECT_EQ(i == p ? 6 : 0, positions[i]);
    world_release(&w);
}

static char first_name[16];
static void keep_first_name(struct request *r)
{
    struct bytes name = r->backlog.n == 0 ? BYTES_NONE : r->backlog.names[0].name;
    (void)snprintf(first_name, sizeof first_name, "%.*s", (int)name.len, (const char *)name.ptr);
    ask_done(r);
}

/* An operator sees whose starts wait. */
TEST(the_backlog_by_name)
{
    struct world w;
    struct ask ask;
    struct backlog_name_view names[3];
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "seq1", 5);
    start_n(&w, "b", "seq2", 9);
    ask_init(&ask, &w, REQUEST_BACKLOG, "");
    ask.request.done = keep_first_name;
    ask.request.backlog.names = names;
    ask.request.backlog.n_max = 3;
    ask_run(&ask);
    EXPECT_STATUS(OK, ask.request.status);
    EXPECT_EQ(2, ask.request.backlog.n);
    EXPECT_TEXT("seq2", first_name);
    EXPECT_EQ(5, names[0].waiting_n);
    EXPECT_EQ(4, names[0].active_n);
    EXPECT_EQ(1, names[1].waiting_n);
    w.holds_work = false;
    world_answer(&w);
    world_release(&w);
}

static uint8_t large[1 << 20];

static void start_large(struct world *w, const char *prefix, const char *name, int n)
{
    memset(large, 'a', sizeof large);
    for (int i = 0; i < n; i++) {
        struct ask ask;
        char id[32];
        (void)snprintf(id, sizeof id, "%s%d", prefix, i);
        ask_init(&ask, w, REQUEST_START, id);
        ask.request.start.name = bytes_of_text(name);
        ask.request.start.input = maybe_some(bytes_make(large, sizeof large));
        ask_run(&ask);
        EXPECT(ask.is_done);
        EXPECT_STATUS(OK, ask.request.status);
    }
}

/* What a step needs for a moment is not counted as memory of instances, and not kept: or a few
 * large inputs would stop every start for good. */
TEST(large_inputs_leave_room_behind)
{
    struct world w;
    world_init(&w);
    w.options.check_every_step = false;
    w.options.hot_bytes_max = 2 << 20;
    w.options.archive_every_ms = 10;
    world_open(&w);
    w.holds_work = true;
    start_large(&w, "big", "seq1", 20);
    EXPECT(world_stats(&w).backlog > 0);
    w.holds_work = false;
    world_answer(&w);
    world_advance_ms(&w, 5000);
    EXPECT_EQ(0, world_stats(&w).backlog);
    start_n(&w, "small", "seq1", 10);
    world_advance_ms(&w, 5000);
    expect_all_completed(&w, "big", 20);
    expect_all_completed(&w, "small", 10);
    world_advance_ms(&w, w.options.idle_evict_ms + 5000); /* nothing is left */
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    world_release(&w);
}

static enum status start_again(struct world *w, const char *id, enum reuse reuse)
{
    struct ask ask;
    ask_init(&ask, w, REQUEST_START, id);
    ask.request.start.name = BYTES_LITERAL("seq1");
    ask.request.start.reuse = reuse;
    ask.request.start.reuse_mask = 1u << STATUS_PENDING;
    ask_run(&ask);
    EXPECT(ask.is_done);
    return ask.request.status;
}

static enum status purge_gently(struct world *w, const char *id, bool recurse)
{
    struct ask ask;
    ask_init(&ask, w, REQUEST_PURGE, id);
    ask.request.client.recurse = recurse;
    ask_run(&ask);
    EXPECT(ask.is_done);
    return ask.request.status;
}

/* A crowd that repeats its starts, or asks for what a pending instance cannot do, hears so and lets
 * nothing in past the limits. */
TEST(to_ask_again_is_not_to_admit)
{
    struct world w;
    small_world(&w);
    world_open(&w);
    w.holds_work = true;
    start_n(&w, "a", "seq1", 20);
    EXPECT_EQ(16, world_stats(&w).backlog);
    for (int round = 0; round < 2; round++) {
        for (int i = 4; i < 20; i++) {
            char id[32];
            (void)snprintf(id, sizeof id, "a%d", i);
            EXPECT_STATUS(E_EXISTS, start_again(&w, id, REUSE_DEFAULT));
            EXPECT_STATUS(E_EXISTS, start_again(&w, id, REUSE_NEVER));
            EXPECT_STATUS(OK, start_again(&w, id, REUSE_IGNORE));
            EXPECT_STATUS(E_PRECONDITION, ask_client(&w, REQUEST_REWIND, id));
            EXPECT_STATUS(E_PRECONDITION, ask_client(&w, REQUEST_RESTART, id));
            EXPECT_STATUS(E_PRECONDITION, ask_client(&w, REQUEST_RESUBMIT, id));
            EXPECT_STATUS(OK, ask_client(&w, REQUEST_RESUME, id));
            EXPECT_STATUS(E_PRECONDITION, purge_gently(&w, id, false));
            EXPECT_STATUS(E_PRECONDITION, purge_gently(&w, id, true));
        }
        EXPECT_EQ(16, world_stats(&w).backlog);
        EXPECT_EQ(4, world_stats(&w).active);
        if (round == 0) {
            world_crash(&w);
            world_open(&w);
        }
    }
    EXPECT_STATUS(OK, start_again(&w, "a19", REUSE_TERMINATE)); /* replaced, as if it were there */
    EXPECT_EQ(15, world_stats(&w).backlog);
    EXPECT_EQ(5, world_stats(&w).active);
    host_check(w.host);
    w.holds_work = false;
    world_answer(&w);
    world_advance_ms(&w, 5000);
    expect_all_completed(&w, "a", 20);
    world_release(&w);
}

/* The worker takes orchestrations of one name only. */
static void serve_only(struct world *w, const struct worker_filter *filter)
{
    struct ask ask;
    for (int n = 0; n < 2; n++) {
        ask_init(&ask, w, n == 0 ? REQUEST_WORKER_DETACH : REQUEST_WORKER_ATTACH, "worker");
        ask.request.worker.worker = &w->worker;
        ask_run(&ask);
        EXPECT_STATUS(OK, ask.request.status);
        w->worker.has_filters = true;
        w->worker.turn_filters = filter;
        w->worker.turn_filters_n = 1;
        w->worker.task_filters = NULL;
    }
}

static const char *why_of(struct world *w, const char *id)
{
    struct ask ask;
    ask_init(&ask, w, REQUEST_WHY, id);
    ask.request.done = keep_reason;
    ask_run(&ask);
    return reason;
}

/* Work that nobody does fills the memory; what somebody does goes on all the same. */
TEST(work_that_nobody_does_stops_only_itself)
{
    struct world w;
    const struct worker_filter filter = {.name = BYTES_LITERAL("seq0")};
    world_init(&w);
    w.options.check_every_step = false;
    w.options.hot_bytes_max = 4 << 20;
    w.options.archive_every_ms = 10;
    world_open(&w);
    serve_only(&w, &filter);
    start_large(&w, "nobody", "seq1", 12);
    EXPECT(world_stats(&w).backlog > 0);
    EXPECT_TEXT("store.hot_memory_max", world_stats(&w).held_by);
    EXPECT(strstr(why_of(&w, "nobody11"), "store.hot_memory_max") != NULL);
    EXPECT(strstr(why_of(&w, "nobody11"), "no connected worker") != NULL);
    uint64_t waiting_n = world_stats(&w).backlog;
    start_n(&w, "quick", "seq0", 50);
    world_advance_ms(&w, 1000);
    EXPECT_EQ(waiting_n, world_stats(&w).backlog);
    expect_all_completed(&w, "quick", 50);
    EXPECT_STATUS(E_LIMIT, ask_client(&w, REQUEST_RAISE, "nobody11"));

    /* Also when even the reserve is used up, and they are large: one by one. */
    start_large(&w, "heavy", "seq0", 5);
    world_advance_ms(&w, 20000);
    expect_all_completed(&w, "heavy", 5);
    EXPECT_EQ(waiting_n, world_stats(&w).backlog);
    world_release(&w);
}

/* However small the memory is: what was acknowledged is done in the end, if somebody does it. */
TEST(too_little_memory_is_slow_and_no_end)
{
    struct world w;
    world_init(&w);
    w.options.hot_bytes_max = 1;
    world_open(&w);
    start_n(&w, "a", "seq1", 20);
    world_crash(&w);
    world_open(&w);
    world_advance_ms(&w, 10000);
    EXPECT_EQ(0, world_stats(&w).backlog);
    expect_all_completed(&w, "a", 20);
    world_release(&w);
}

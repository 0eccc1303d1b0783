/* SPDX-License-Identifier: Apache-2.0
 *
 * What every journal must do, run over each of them: the file journal on a real disk and on the
 * disk in memory, the journal in memory, and the tracing one around it. A behaviour that only one
 * of them can show (damage, crashes) is elsewhere: test/torture/test_log_torture.c.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "store/io.h"
#include "store/journal.h"
#include "store/store_fault.h"
#include "store/store_mem.h"
#include "test/lib/test.h"

#include <stdio.h>

/* Small, so that a few frames need several segments. */
#define SEGMENT_SIZE 4096
#define FRAMES_MAX 400

/* Where a journal lives while it is closed. */
struct place {
    struct mem mem; /* of the journal and of store_mem; the disk in memory has its own */
    struct io *io;
    struct store_mem *store;
    struct buffer lines; /* of the trace */
};

struct backend {
    const char *name;
    void (*prepare)(struct place *p);
    enum status (*open)(struct place *p, struct journal **out);
};

/* ---- the backends ---- */

static void prepare_posix(struct place *p)
{
    EXPECT_STATUS(OK, io_posix_open(test_directory(), &p->io));
}

static void prepare_disk(struct place *p)
{
    EXPECT_STATUS(OK, store_fault_disk_new(mem_process(), (uint64_t)64 << 20, &p->io));
}

static void prepare_mem(struct place *p) { EXPECT_STATUS(OK, store_mem_new(&p->mem, &p->store)); }

static enum status open_file(struct place *p, struct journal **out)
{
    struct journal_file_options options = {
        .directory = "journal", .segment_size = SEGMENT_SIZE, .mem = &p->mem};
    return journal_file_open(p->io, &options, out);
}

static enum status open_mem(struct place *p, struct journal **out)
{
    return journal_mem_open(p->store, out);
}

static void keep_line(void *user, const char *line)
{
    struct place *p = user;
    buffer_append(&p->lines, line, strlen(line));
    buffer_u8(&p->lines, '\n');
}

static enum status open_trace(struct place *p, struct journal **out)
{
    struct journal *inner;
    enum status status = journal_mem_open(p->store, &inner);
    return status != OK ? status : journal_trace_open(inner, keep_line, p, out);
}

static const struct backend backends[] = {
    {"file on a real disk", prepare_posix, open_file},
    {"file on the disk in memory", prepare_disk, open_file},
    {"in memory", prepare_mem, open_mem},
    {"trace of the one in memory", prepare_mem, open_trace},
};

static void place_init(struct place *p, const struct backend *backend)
{
    *p = (struct place){0};
    mem_init(&p->mem, SIZE_MAX);
    buffer_init(&p->lines, mem_process());
    backend->prepare(p);
}

static void place_release(struct place *p)
{
    if (p->io != NULL) p->io->ops->release(p->io);
    if (p->store != NULL) store_mem_free(p->store);
    buffer_release(&p->lines);
    mem_release(&p->mem);
}

static const struct backend *backend_now;

static void each_backend(void (*body)(struct place *p))
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        struct place p;
        backend_now = &backends[i];
        test_note("journal: %s", backends[i].name);
        place_init(&p, backend_now);
        body(&p);
        place_release(&p);
    }
}

/* ---- frames that can be recognised ---- */

static uint8_t scratch[64 << 10];

/* The payload of a frame follows from its LSN and size; valid until the next call. */
static struct bytes payload_of(uint64_t lsn, size_t size)
{
    EXPECT(size <= sizeof scratch);
    for (size_t i = 0; i < size; i++) scratch[i] = (uint8_t)(lsn * 31 + i * 7);
    return bytes_make(scratch, size);
}

static size_t size_of(uint64_t lsn) { return (size_t)(lsn * lsn * 13 % 700); }

static struct journal_frame frame_of(uint64_t lsn)
{
    return (struct journal_frame){.lsn = lsn,
                                  .epoch = (uint32_t)(1 + lsn / 10),
                                  .time_ns = (int64_t)(1000 + lsn * 5),
                                  .payload = payload_of(lsn, size_of(lsn))};
}

struct seen {
    uint64_t next_lsn;
    uint64_t n;
    enum status answer; /* given at stop_at */
    uint64_t stop_at;
};

static enum status see(void *user, const struct journal_frame *frame)
{
    struct seen *seen = user;
    EXPECT_EQ(seen->next_lsn, frame->lsn);
    struct journal_frame expected = frame_of(frame->lsn);
    EXPECT_EQ(expected.epoch, frame->epoch);
    EXPECT_EQ(expected.time_ns, frame->time_ns);
    EXPECT_BYTES(expected.payload, frame->payload);
    seen->next_lsn++;
    seen->n++;
    return frame->lsn == seen->stop_at ? seen->answer : OK;
}

static struct journal *open_only(struct place *p)
{
    struct journal *j;
    EXPECT_STATUS(OK, backend_now->open(p, &j));
    return j;
}

/* Opens and expects exactly the frames after_lsn+1 .. last_lsn. */
static struct journal *open_expecting(struct place *p, uint64_t after_lsn, uint64_t last_lsn)
{
    struct journal *j = open_only(p);
    struct seen seen = {.next_lsn = after_lsn + 1};
    struct journal_report report;
    EXPECT_STATUS(OK, journal_replay(j, after_lsn, see, &seen, &report));
    EXPECT_EQ(last_lsn - after_lsn, seen.n);
    EXPECT_EQ(seen.n, report.frames_n);
    EXPECT_EQ(last_lsn, report.last_lsn);
    EXPECT_EQ(last_lsn, j->last_lsn);
    EXPECT_EQ(0, report.truncated_bytes);
    EXPECT_TEXT("", report.damage);
    return j;
}

static void append_upto(struct journal *j, uint64_t last_lsn)
{
    while (j->last_lsn < last_lsn) {
        struct journal_frame frame = frame_of(j->last_lsn + 1);
        EXPECT_STATUS(OK, journal_append(j, &frame));
    }
}

/* ---- the suite ---- */

static void an_empty_journal_is_empty_body(struct place *p)
{
    struct journal *j = open_only(p);
    struct seen seen = {.next_lsn = 1};
    struct journal_report report;
    EXPECT_STATUS(OK, journal_replay(j, 0, see, &seen, &report));
    EXPECT_EQ(0, report.frames_n);
    EXPECT_EQ(0, report.first_lsn);
    EXPECT_EQ(0, report.last_lsn);
    EXPECT_STATUS(OK, journal_trim(j, 0));
    journal_close(j);
    journal_close(open_expecting(p, 0, 0));
}

/* The first start of a server, and a second one before anything was asked of it. */
TEST(an_empty_journal_is_empty) { each_backend(an_empty_journal_is_empty_body); }

static void frames_come_back_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    append_upto(j, 60);
    journal_close(j);
    journal_close(open_expecting(p, 0, 60));
    journal_close(open_expecting(p, 0, 60));
}

/* What was acknowledged is there after the next start, unchanged and in order, and stays there. */
TEST(frames_come_back_as_they_were) { each_backend(frames_come_back_body); }

static void goes_on_body(struct place *p)
{
    uint64_t last = 0;
    for (uint64_t life = 1; life <= 12; life++) {
        struct journal *j = open_expecting(p, 0, last);
        last += life * 3 % 7;
        append_upto(j, last);
        journal_close(j);
    }
    journal_close(open_expecting(p, 0, last));
}

/* LSNs go on without gap over restarts: an end that is misjudged by a byte would show here. */
TEST(appending_goes_on_after_each_restart) { each_backend(goes_on_body); }

static void after_lsn_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    append_upto(j, 30);
    journal_close(j);
    for (uint64_t after = 0; after <= 30; after++) {
        struct journal *again = open_only(p);
        struct seen seen = {.next_lsn = after + 1};
        struct journal_report report;
        EXPECT_STATUS(OK, journal_replay(again, after, see, &seen, &report));
        EXPECT_EQ(30 - after, seen.n);
        EXPECT_EQ(1, report.first_lsn);
        EXPECT_EQ(30, report.last_lsn);
        EXPECT_EQ(frame_of(30).epoch, report.last_epoch);
        EXPECT_EQ(frame_of(30).time_ns, report.last_time_ns);
        journal_close(again);
    }
}

/* The archive has what is before after_lsn; giving it again would apply it twice. */
TEST(replay_begins_after_what_is_archived) { each_backend(after_lsn_body); }

static enum status expect_size(void *user, const struct journal_frame *frame)
{
    const size_t *sizes = user;
    EXPECT_BYTES(payload_of(frame->lsn, sizes[frame->lsn - 1]), frame->payload);
    return OK;
}

static void all_sizes_body(struct place *p)
{
    static size_t sizes[] = {0,    1,    7,    8,     9,     15,       16, SEGMENT_SIZE - 64 - 48,
                             4095, 4096, 4097, 40000, 60000, 64 << 10, 3,  0};
    size_t n = sizeof sizes / sizeof sizes[0];
    struct journal *j = open_expecting(p, 0, 0);
    for (uint64_t lsn = 1; lsn <= n; lsn++) {
        struct journal_frame frame = {
            .lsn = lsn, .epoch = 1, .time_ns = 1, .payload = payload_of(lsn, sizes[lsn - 1])};
        EXPECT_STATUS(OK, journal_append(j, &frame));
    }
    journal_close(j);

    j = open_only(p);
    struct journal_report report;
    EXPECT_STATUS(OK, journal_replay(j, 0, expect_size, sizes, &report));
    EXPECT_EQ(n, report.frames_n);
    journal_close(j);
}

/* Empty frames, odd lengths, one that fills a segment to the byte, and many times a segment. */
TEST(frames_of_all_sizes_come_back) { each_backend(all_sizes_body); }

static void trim_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    append_upto(j, 100);
    uint64_t bytes_before;
    uint64_t bytes_after;
    bool has_spare;
    journal_usage(j, &bytes_before, &has_spare);
    EXPECT(has_spare);
    EXPECT_STATUS(OK, journal_trim(j, 50));
    journal_usage(j, &bytes_after, &has_spare);
    EXPECT(has_spare);
    EXPECT(bytes_after < bytes_before);
    append_upto(j, 110);
    EXPECT_STATUS(OK, journal_trim(j, 20)); /* older than an earlier one: nothing to do */
    journal_close(j);
    j = open_expecting(p, 50, 110);
    append_upto(j, 120);
    journal_close(j);
    journal_close(open_expecting(p, 50, 120));
}

/* Trimming gives space back and takes nothing that is still needed. */
TEST(trim_keeps_what_is_needed) { each_backend(trim_body); }

static void expect_payload(uint64_t lsn, struct bytes payload)
{
    EXPECT_BYTES(payload_of(lsn, size_of(lsn)), payload);
}

static void reader_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    struct journal_reader *r = NULL;
    struct mem mem;
    struct buffer payload;
    mem_init(&mem, SIZE_MAX);
    buffer_init(&payload, &mem);
    EXPECT_STATUS(OK, journal_open_reader(j, &mem, &r));
    EXPECT_STATUS(E_NOT_FOUND, journal_reader_read(r, 1, &payload));
    append_upto(j, 60);
    for (int round = 0; round < 2; round++) { /* forward, then here and there */
        for (uint64_t n = 1; n <= 60; n++) {
            uint64_t lsn = round == 0 ? n : n * 37 % 60 + 1;
            buffer_clear(&payload);
            EXPECT_STATUS(OK, journal_reader_read(r, lsn, &payload));
            expect_payload(lsn, buffer_view(&payload));
        }
    }
    /* what came after it was opened, and after segments it knew were trimmed */
    append_upto(j, 100);
    EXPECT_STATUS(OK, journal_trim(j, 50));
    buffer_clear(&payload);
    EXPECT_STATUS(OK, journal_reader_read(r, 100, &payload));
    expect_payload(100, buffer_view(&payload));
    buffer_clear(&payload);
    EXPECT_STATUS(OK, journal_reader_read(r, 51, &payload));
    expect_payload(51, buffer_view(&payload));
    EXPECT_STATUS(E_NOT_FOUND, journal_reader_read(r, 101, &payload));
    EXPECT_STATUS(E_NOT_FOUND, journal_reader_read(r, 1, &payload));
    expect_payload(51, buffer_view(&payload)); /* a failure leaves what was there */
    EXPECT(journal_space(j) > 0);
    journal_reader_close(r);
    buffer_release(&payload);
    mem_release(&mem);
    journal_close(j);
}

/* Single frames can be read beside the one who appends, in any order, as long as they are there. */
TEST(a_reader_finds_every_frame) { each_backend(reader_body); }

static void trim_all_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    append_upto(j, 100);
    EXPECT_STATUS(OK, journal_trim(j, 100));
    journal_close(j);

    j = open_expecting(p, 100, 100);
    EXPECT_EQ(frame_of(100).epoch, j->last_epoch);
    EXPECT_EQ(frame_of(100).time_ns, j->last_time_ns);
    append_upto(j, 101);
    EXPECT_STATUS(OK, journal_trim(j, 101));
    journal_close(j);
    journal_close(open_expecting(p, 101, 101));
}

/* An idle server archives everything; LSN, epoch and time must go on from where they were, or
 * fencing and the clock would begin again. */
TEST(a_journal_trimmed_to_its_end_remembers_where_it_was) { each_backend(trim_all_body); }

static void gap_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    append_upto(j, 100);
    EXPECT_STATUS(OK, journal_trim(j, 90));
    journal_close(j);

    j = open_only(p);
    struct seen seen = {.next_lsn = 11};
    struct journal_report report;
    EXPECT_STATUS(E_CORRUPT, journal_replay(j, 10, see, &seen, &report));
    EXPECT(report.damage[0] != 0);
    EXPECT_EQ(0, seen.n);
    struct journal_frame frame = frame_of(101);
    EXPECT_STATUS(E_IO, journal_append(j, &frame));
    EXPECT_STATUS(E_IO, journal_trim(j, 100));
    journal_close(j);
}

/* An archive that is older than the journal's beginning (restored from a backup) would miss
 * frames. */
TEST(a_gap_behind_the_archive_is_refused) { each_backend(gap_body); }

static void short_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    append_upto(j, 7);
    journal_close(j);

    j = open_only(p);
    struct seen seen = {.next_lsn = 9};
    struct journal_report report;
    EXPECT_STATUS(E_CORRUPT, journal_replay(j, 8, see, &seen, &report));
    EXPECT(report.damage[0] != 0);
    journal_close(j);
}

/* A journal that ends before what the archive has applied has lost acknowledged frames. */
TEST(an_end_before_the_archive_is_refused) { each_backend(short_body); }

static void epoch_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    append_upto(j, 15); /* epoch 2 */
    struct journal_frame frame = frame_of(16);
    frame.epoch = 1;
    EXPECT_STATUS(E_STALE, journal_append(j, &frame));
    EXPECT_EQ(15, j->last_lsn);
    append_upto(j, 20);
    journal_close(j);

    j = open_expecting(p, 0, 20);
    frame = frame_of(21);
    frame.epoch = 2; /* frame 20 has 3 */
    EXPECT_STATUS(E_STALE, journal_append(j, &frame));
    append_upto(j, 21);
    journal_close(j);
}

/* Who was fenced off must not write, also when the new owner wrote in an earlier process. */
TEST(a_lower_epoch_is_refused_and_harmless) { each_backend(epoch_body); }

static void limit_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    struct journal_frame frame = frame_of(1);
    frame.payload.len = JOURNAL_FRAME_SIZE_MAX + 1; /* refused before it is read */
    EXPECT_STATUS(E_LIMIT, journal_append(j, &frame));
    append_upto(j, 1);
    journal_close(j);
    journal_close(open_expecting(p, 0, 1));
}

/* Everything has a limit and an answer when it is reached. */
TEST(a_frame_beyond_the_limit_is_refused_and_harmless) { each_backend(limit_body); }

static void callback_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    append_upto(j, 10);
    journal_close(j);

    j = open_only(p);
    struct seen seen = {.next_lsn = 1, .stop_at = 4, .answer = E_UNSUPPORTED};
    struct journal_report report;
    EXPECT_STATUS(E_UNSUPPORTED, journal_replay(j, 0, see, &seen, &report));
    EXPECT_EQ(4, seen.n);
    struct journal_frame frame = frame_of(11);
    EXPECT_STATUS(E_IO, journal_append(j, &frame));
    journal_close(j);
    journal_close(open_expecting(p, 0, 10));
}

/* A host that cannot apply a frame must not go on as if it had. */
TEST(a_callback_can_stop_the_replay) { each_backend(callback_body); }

static void memory_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    uint64_t refused = 0;
    for (uint64_t lsn = 1; lsn <= 60; lsn++) {
        struct journal_frame frame = frame_of(lsn);
        p->mem.fail_at = 1;
        enum status status = journal_append(j, &frame);
        p->mem.fail_at = 0;
        if (status == OK) continue; /* needed no memory */
        EXPECT_STATUS(E_NOMEM, status);
        refused++;
        EXPECT_EQ(lsn - 1, j->last_lsn);
        EXPECT_STATUS(OK, journal_append(j, &frame));
    }
    EXPECT(refused > 0);
    journal_close(j);
    journal_close(open_expecting(p, 0, 60));
}

/* Without memory an append does nothing, and the same one succeeds later. */
TEST(an_append_without_memory_can_be_repeated) { each_backend(memory_body); }

static void reopen_memory_body(struct place *p)
{
    struct journal *j = open_expecting(p, 0, 0);
    append_upto(j, 60);
    journal_close(j);
    bool is_done = false;
    for (uint64_t n = 1; !is_done; n++) {
        EXPECT(n < 1000);
        p->mem.fail_at = n;
        enum status status = backend_now->open(p, &j);
        if (status == OK) {
            struct seen seen = {.next_lsn = 1};
            struct journal_report report;
            status = journal_replay(j, 0, see, &seen, &report);
            journal_close(j);
        }
        is_done = p->mem.fail_at != 0; /* there were fewer than n takes */
        p->mem.fail_at = 0;
        EXPECT_STATUS(is_done ? OK : E_NOMEM, status);
    }
    journal_close(open_expecting(p, 0, 60));
}

/* Recovery without memory says so, leaks nothing and spoils nothing. */
TEST(a_replay_without_memory_can_be_repeated) { each_backend(reopen_memory_body); }

/* Any order of appending, trimming and restarting, against a model that is two numbers. */
static void random_body(struct place *p)
{
    struct rng rng;
    rng_init(&rng, 20);
    uint64_t trimmed = 0;
    uint64_t last = 0;
    struct journal *j = open_expecting(p, 0, 0);
    for (int i = 0; i < 150; i++) {
        uint64_t choice = rng_below(&rng, 10);
        if (choice < 6 && last < FRAMES_MAX) {
            last += rng_below(&rng, 8);
            append_upto(j, last);
        } else if (choice < 8) {
            trimmed += rng_below(&rng, last - trimmed + 1);
            EXPECT_STATUS(OK, journal_trim(j, trimmed));
        } else {
            journal_close(j);
            j = open_expecting(p, trimmed, last);
        }
    }
    journal_close(j);
    journal_close(open_expecting(p, trimmed, last));
}

TEST(any_order_of_calls_keeps_the_frames) { each_backend(random_body); }

/* The trace is for people and for golden tests: its lines are as stable as an interface. */
TEST(the_trace_has_a_line_for_each_call)
{
    struct place p;
    backend_now = &backends[3];
    place_init(&p, backend_now);
    struct journal *j = open_expecting(&p, 0, 0);
    append_upto(j, 2);
    struct journal_frame frame = frame_of(3);
    p.mem.fail_at = 1;
    EXPECT_STATUS(E_NOMEM, journal_append(j, &frame));
    EXPECT_STATUS(OK, journal_trim(j, 1));
    journal_close(j);
    buffer_u8(&p.lines, 0);
    EXPECT_TEXT("replay after=0 -> OK frames=0 last=0 cut=0\n"
                "append lsn=1 epoch=1 time=1005 size=13 -> OK\n"
                "append lsn=2 epoch=1 time=1010 size=52 -> OK\n"
                "append lsn=3 epoch=1 time=1015 size=117 -> E_NOMEM\n"
                "trim upto=1 -> OK\n"
                "close\n",
                (const char *)p.lines.ptr);
    place_release(&p);
}

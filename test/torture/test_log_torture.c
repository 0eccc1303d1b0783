/* SPDX-License-Identifier: Apache-2.0
 *
 * The file journal, hurt in every place: each byte cut, each bit flipped, each segment lost, and
 * each call on the disk failed, torn and interrupted. The rules that must hold whatever happens:
 *
 *   - what was acknowledged is there, or the journal is refused with the place of the damage;
 *   - at most one frame more is there, the one whose append was not answered;
 *   - no frame is given that was never written; a refused journal is left as it was;
 *   - a fault of the disk alone, without damage to synced data, never leads to a refusal.
 */
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/io.h"
#include "store/journal.h"
#include "store/journal_frame.h"
#include "store/journal_recover.h"
#include "store/journal_segment.h"
#include "store/store_fault.h"
#include "test/lib/test.h"

#include <stdio.h>

#define SEGMENT_SIZE 704
#define DISK_SIZE ((uint64_t)1 << 20)
#define LSN_MAX 64
#define PAYLOAD_MAX 512

/* ---- frames that can be recognised ---- */

/* Which life of the process wrote the frame with this LSN last. */
struct history {
    uint8_t life_of[LSN_MAX];
    uint8_t life;
    uint64_t attempted; /* the last LSN given to append */
    uint64_t acked;     /* the last LSN that append answered OK, or that a replay gave */
    uint64_t trimmed;   /* the last LSN given to trim */
};

static size_t payload_size(uint64_t lsn) { return (size_t)(lsn * 37 % 150); }

static struct bytes payload_of(uint64_t lsn, uint8_t life)
{
    static uint8_t bytes[PAYLOAD_MAX];
    size_t size = payload_size(lsn);
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(lsn * 29 + i * 11 + life * 101U + 1);
    return bytes_make(bytes, size);
}

static struct journal_frame frame_of(const struct history *h, uint64_t lsn)
{
    uint8_t life = h->life_of[lsn];
    return (struct journal_frame){.lsn = lsn,
                                  .epoch = 1 + life,
                                  .time_ns = (int64_t)(lsn * 1000 + life),
                                  .payload = payload_of(lsn, life)};
}

struct replayed {
    const struct history *history;
    uint64_t next_lsn;
};

/* The oracle: frame after frame exactly what was written. */
static enum status check_frame(void *user, const struct journal_frame *frame)
{
    struct replayed *r = user;
    EXPECT_EQ(r->next_lsn, frame->lsn);
    EXPECT(frame->lsn <= r->history->attempted);
    struct journal_frame expected = frame_of(r->history, frame->lsn);
    EXPECT_EQ(expected.epoch, frame->epoch);
    EXPECT_EQ(expected.time_ns, frame->time_ns);
    EXPECT_BYTES(expected.payload, frame->payload);
    r->next_lsn++;
    return OK;
}

static enum status open_journal(struct io *disk, struct journal **out)
{
    struct journal_file_options options = {
        .directory = "journal", .segment_size = SEGMENT_SIZE, .mem = mem_process()};
    return journal_file_open(disk, &options, out);
}

static struct io *new_disk(uint64_t capacity)
{
    struct io *disk;
    EXPECT_STATUS(OK, store_fault_disk_new(mem_process(), capacity, &disk));
    return disk;
}

static enum status append(struct journal *j, struct history *h)
{
    uint64_t lsn = j->last_lsn + 1;
    EXPECT(lsn < LSN_MAX);
    h->attempted = lsn;
    h->life_of[lsn] = h->life;
    struct journal_frame frame = frame_of(h, lsn);
    enum status status = journal_append(j, &frame);
    if (status == OK) h->acked = lsn;
    return status;
}

/* ---- a small log, and copies of it to spoil ---- */

#define LOG_FRAMES 16
#define LOG_SEGMENTS_MAX 6

struct log {
    struct history history;
    size_t segments_n;
    struct {
        char path[SEGMENT_PATH_SIZE];
        uint64_t first_lsn;
        uint64_t end; /* of the last frame */
        struct buffer bytes;
    } segments[LOG_SEGMENTS_MAX];
    struct {
        size_t segment;
        uint64_t begin;
        uint64_t end;         /* of the payload: what follows up to a multiple of 8 is padding */
    } frames[LOG_FRAMES + 1]; /* by LSN */
};

/* Where each frame must be, worked out from the sizes alone. */
static void log_lay_out(struct log *log)
{
    uint64_t at = SEGMENT_SIZE;
    for (uint64_t lsn = 1; lsn <= LOG_FRAMES; lsn++) {
        uint64_t size = frame_size(payload_size(lsn));
        if (at + size > SEGMENT_SIZE) {
            EXPECT(log->segments_n < LOG_SEGMENTS_MAX);
            log->segments[log->segments_n].first_lsn = lsn;
            segment_path("journal", lsn, log->segments[log->segments_n].path);
            log->segments_n++;
            at = SEGMENT_HEADER_SIZE;
        }
        log->frames[lsn].segment = log->segments_n - 1;
        log->frames[lsn].begin = at;
        log->frames[lsn].end = at + FRAME_HEADER_SIZE + payload_size(lsn);
        at += size;
        log->segments[log->segments_n - 1].end = at;
    }
}

/* life: makes two logs with the same LSNs differ. */
static void log_init(struct log *log, uint8_t life)
{
    log_set_level((enum log_level)(LOG_ERROR + 1)); /* journals are cut on purpose */
    *log = (struct log){.history = {.life = life}};
    log_lay_out(log);
    EXPECT(log->segments_n >= 3);

    struct io *disk = new_disk(DISK_SIZE);
    struct journal *j;
    struct replayed r = {&log->history, 1};
    struct journal_report report;
    EXPECT_STATUS(OK, open_journal(disk, &j));
    EXPECT_STATUS(OK, journal_replay(j, 0, check_frame, &r, &report));
    while (j->last_lsn < LOG_FRAMES) EXPECT_STATUS(OK, append(j, &log->history));
    journal_close(j);
    for (size_t i = 0; i < log->segments_n; i++) {
        struct buffer *file = store_fault_file(disk, log->segments[i].path);
        EXPECT(file != NULL);
        EXPECT_EQ(SEGMENT_SIZE, file->len);
        buffer_init(&log->segments[i].bytes, mem_process());
        buffer_append_bytes(&log->segments[i].bytes, buffer_view(file));
    }
    disk->ops->release(disk);
}

static void log_release(struct log *log)
{
    for (size_t i = 0; i < log->segments_n; i++) buffer_release(&log->segments[i].bytes);
}

static void put_file(struct io *disk, const char *path, struct bytes contents)
{
    struct io_file *file;
    EXPECT_STATUS(OK, disk->ops->open(disk, path, IO_CREATE, &file));
    EXPECT_STATUS(OK, disk->ops->write(disk, file, 0, contents.ptr, contents.len));
    EXPECT_STATUS(OK, disk->ops->datasync(disk, file));
    disk->ops->close(disk, file);
}

/* A disk with the first `n` segments of the log. */
static struct io *disk_with(const struct log *log, size_t n)
{
    struct io *disk = new_disk(DISK_SIZE);
    EXPECT_STATUS(OK, disk->ops->make_directory(disk, "journal"));
    for (size_t i = 0; i < n; i++) {
        put_file(disk, log->segments[i].path, buffer_view(&log->segments[i].bytes));
    }
    EXPECT_STATUS(OK, disk->ops->sync_directory(disk, "journal"));
    EXPECT_STATUS(OK, disk->ops->sync_directory(disk, "."));
    return disk;
}

static struct buffer *segment_of(struct io *disk, const struct log *log, size_t i)
{
    struct buffer *file = store_fault_file(disk, log->segments[i].path);
    EXPECT(file != NULL);
    return file;
}

/* ---- what may come of it ---- */

/* Exactly frames 1..n come back; one more can be appended; both are there again, twice. */
static void expect_prefix(struct io *disk, const struct log *log, uint64_t n)
{
    struct history h = log->history;
    h.life++;
    for (int round = 0; round < 3; round++) {
        struct journal *j;
        struct journal_report report;
        struct replayed r = {&h, 1};
        EXPECT_STATUS(OK, open_journal(disk, &j));
        enum status status = journal_replay(j, 0, check_frame, &r, &report);
        EXPECT_TEXT("", report.damage);
        EXPECT_STATUS(OK, status);
        EXPECT_EQ(n, report.frames_n);
        EXPECT_EQ(n, report.last_lsn);
        if (round > 0) EXPECT_EQ(0, report.truncated_bytes);
        if (round < 2) {
            EXPECT_STATUS(OK, append(j, &h));
            n++;
        }
        journal_close(j);
    }
    disk->ops->release(disk);
}

/* A digest of every byte and name in the journal's directory. */
static enum status digest_file(void *user, const char *name)
{
    struct buffer *names = user;
    buffer_append(names, name, strlen(name) + 1);
    return OK;
}

static uint64_t digest(struct io *disk)
{
    struct buffer all;
    buffer_init(&all, mem_process());
    EXPECT_STATUS(OK, disk->ops->list(disk, "journal", digest_file, &all));
    struct buffer names;
    buffer_init(&names, mem_process());
    buffer_append_bytes(&names, buffer_view(&all));
    for (size_t at = 0; at < names.len; at += strlen((char *)names.ptr + at) + 1) {
        char path[SEGMENT_PATH_SIZE];
        (void)snprintf(path, sizeof path, "journal/%s", (char *)names.ptr + at);
        buffer_append_bytes(&all, buffer_view(store_fault_file(disk, path)));
    }
    uint64_t hash = bytes_hash(buffer_view(&all));
    buffer_release(&names);
    buffer_release(&all);
    return hash;
}

/* Refused, with a text that has `what` in it, and nothing was changed. */
static void expect_refused(struct io *disk, const struct log *log, uint64_t after_lsn,
                           enum status expected, const char *what)
{
    uint64_t before = digest(disk);
    struct journal *j;
    struct journal_report report;
    struct replayed r = {&log->history, after_lsn + 1};
    EXPECT_STATUS(OK, open_journal(disk, &j));
    EXPECT_STATUS(expected, journal_replay(j, after_lsn, check_frame, &r, &report));
    if (strstr(report.damage, what) == NULL) {
        test_fail(__FILE__, __LINE__, "'%s' is not in: %s", what, report.damage);
    }
    EXPECT(strlen(report.damage) + 1 < sizeof report.damage); /* the advice at its end is there */
    struct journal_frame frame = frame_of(&log->history, 1);
    EXPECT_STATUS(E_IO, journal_append(j, &frame));
    journal_close(j);
    EXPECT(before == digest(disk));
    disk->ops->release(disk);
}

/* ---- cutting ---- */

static enum status ignore_frame(void *user, const struct journal_frame *frame)
{
    (void)user;
    (void)frame;
    return OK;
}

/* Reading tells how much of a file somebody took away. */
static void expect_missing(struct io *disk, uint64_t missing)
{
    struct journal_report report = {0};
    struct mem mem;

    mem_init(&mem, SIZE_MAX);
    struct recovery r = {
        .io = disk, .mem = &mem, .directory = "journal", .fn = ignore_frame, .report = &report};
    EXPECT_STATUS(OK, recovery_read(&r));
    EXPECT_EQ(missing, report.missing_bytes);
    segment_list_release(&r.segments);
    mem_release(&mem);
}

/* The log ends in the middle of anything: what was whole before the cut is there, all of it, only
 * it. */
TEST(a_log_cut_at_every_byte_opens_with_the_right_prefix)
{
    struct log log;
    log_init(&log, 0);
    for (size_t i = 0; i < log.segments_n; i++) {
        for (uint64_t cut = 0; cut <= SEGMENT_SIZE; cut++) {
            struct io *disk = disk_with(&log, i + 1);
            segment_of(disk, &log, i)->len = (size_t)cut;
            uint64_t whole = 0;
            for (uint64_t lsn = 1; lsn <= LOG_FRAMES; lsn++) {
                /* padding counts: an append leaves it there */
                uint64_t end = (log.frames[lsn].end + 7) / 8 * 8;
                if (log.frames[lsn].segment < i) whole = lsn;
                if (log.frames[lsn].segment == i && end <= cut) whole = lsn;
            }
            test_note("segment %zu cut at %llu", i, (unsigned long long)cut);
            if (cut >= SEGMENT_HEADER_SIZE) expect_missing(disk, SEGMENT_SIZE - cut);
            expect_prefix(disk, &log, whole);
        }
    }
    log_release(&log);
}

/* The same cut with segments behind it has lost frames: refused, unless only zeros were cut off. */
TEST(a_cut_in_the_middle_is_refused)
{
    struct log log;
    log_init(&log, 0);
    for (size_t i = 0; i + 1 < log.segments_n; i++) {
        for (uint64_t cut = 0; cut <= SEGMENT_SIZE; cut++) {
            struct io *disk = disk_with(&log, log.segments_n);
            segment_of(disk, &log, i)->len = (size_t)cut;
            test_note("segment %zu cut at %llu", i, (unsigned long long)cut);
            if (cut >= log.segments[i].end)
                expect_prefix(disk, &log, LOG_FRAMES);
            else
                expect_refused(disk, &log, 0, E_CORRUPT, log.segments[i].path);
        }
    }
    log_release(&log);
}

/* ---- flipping ---- */

enum where { IN_FRAME, IN_SEGMENT_HEADER, IN_NOTHING };

/* What byte `at` of segment i belongs to; *lsn for IN_FRAME. */
static enum where where_is(const struct log *log, size_t i, uint64_t at, uint64_t *lsn)
{
    if (at < SEGMENT_HEADER_SIZE) return IN_SEGMENT_HEADER;
    for (*lsn = 1; *lsn <= LOG_FRAMES; (*lsn)++) {
        if (log->frames[*lsn].segment == i && at >= log->frames[*lsn].begin &&
            at < log->frames[*lsn].end) {
            return IN_FRAME;
        }
    }
    return IN_NOTHING;
}

/* One wrong bit: in the last frame it is the torn end; in any other frame or header it is refused;
 * in padding and in the zeros it does not matter. Nothing is ever invented. */
TEST(a_log_with_any_bit_flipped_is_a_prefix_or_refused)
{
    struct log log;
    log_init(&log, 0);
    for (size_t i = 0; i < log.segments_n; i++) {
        for (uint64_t bit = 0; bit < SEGMENT_SIZE * 8; bit++) {
            struct io *disk = disk_with(&log, log.segments_n);
            segment_of(disk, &log, i)->ptr[bit / 8] ^= (uint8_t)(1U << bit % 8);
            test_note("segment %zu, byte %llu, bit %llu", i, (unsigned long long)(bit / 8),
                      (unsigned long long)(bit % 8));
            uint64_t lsn = 0;
            enum where where = where_is(&log, i, bit / 8, &lsn);
            if (where == IN_NOTHING)
                expect_prefix(disk, &log, LOG_FRAMES);
            else if (where == IN_FRAME && lsn == LOG_FRAMES)
                expect_prefix(disk, &log, lsn - 1);
            else
                expect_refused(disk, &log, 0, E_CORRUPT, log.segments[i].path);
        }
    }
    log_release(&log);
}

/* ---- the end of the file ---- */

/* One byte of a torn tail, left in place, once hid everything appended behind it. */
TEST(a_tail_with_a_few_bytes_more_or_less_is_mended)
{
    struct log log;
    log_init(&log, 0);
    size_t last = log.segments_n - 1;
    for (size_t n = 1; n <= 64; n++) {
        test_note("%zu bytes", n);
        struct io *disk = disk_with(&log, log.segments_n);
        struct buffer *file = segment_of(disk, &log, last);
        for (size_t i = 0; i < n; i++) buffer_u8(file, (uint8_t)(0xa5 + i)); /* behind the file */
        expect_prefix(disk, &log, LOG_FRAMES);

        disk = disk_with(&log, log.segments_n);
        file = segment_of(disk, &log, last);
        memset(file->ptr + log.segments[last].end, 0xa5, n); /* behind the last frame */
        expect_prefix(disk, &log, LOG_FRAMES);

        disk = disk_with(&log, log.segments_n);
        file = segment_of(disk, &log, last);
        file->len = (size_t)log.segments[last].end - n; /* into the last frame */
        EXPECT(n <= frame_size(payload_size(LOG_FRAMES)));
        expect_prefix(disk, &log, LOG_FRAMES - 1);
    }
    log_release(&log);
}

/* The torn end is gone, durably, before anything is appended: whatever is written next, no remains
 * of an older write are ever behind it. */
TEST(a_torn_tail_is_gone_before_the_first_append)
{
    struct log log;
    log_init(&log, 0);
    struct io *disk = disk_with(&log, log.segments_n);
    size_t last = log.segments_n - 1;
    uint64_t end = log.segments[last].end;
    memset(segment_of(disk, &log, last)->ptr + end + 40, 0xa5, 30);

    struct journal *j;
    struct journal_report report;
    struct replayed r = {&log.history, 1};
    EXPECT_STATUS(OK, open_journal(disk, &j));
    EXPECT_STATUS(OK, journal_replay(j, 0, check_frame, &r, &report));
    EXPECT_EQ(72, report.truncated_bytes); /* in whole words */
    journal_close(j);
    store_fault_restart(disk);
    const struct buffer *file = segment_of(disk, &log, last);
    for (uint64_t i = end; i < SEGMENT_SIZE; i++) EXPECT_EQ(0, file->ptr[i]);
    expect_prefix(disk, &log, LOG_FRAMES);
    log_release(&log);
}

/* A client may put the image of a frame into its input. When the write that carries it tears, the
 * image must not be taken for a later frame: that would be a refusal at the will of a client. */
TEST(the_image_of_a_frame_in_a_payload_is_not_a_frame)
{
    struct log log;
    log_init(&log, 0);
    struct io *disk = disk_with(&log, log.segments_n);
    size_t last = log.segments_n - 1;
    uint8_t *torn = segment_of(disk, &log, last)->ptr + log.segments[last].end;
    EXPECT(log.segments[last].end + 96 <= SEGMENT_SIZE);
    struct journal_frame image = {.lsn = LOG_FRAMES + 5, .epoch = 9, .time_ns = INT64_MAX};
    frame_encode_header(&image, 0, 0, torn + 48); /* the 48 bytes before it were not written */
    expect_prefix(disk, &log, LOG_FRAMES);
    log_release(&log);
}

/* ---- whole segments ---- */

TEST(a_missing_segment_is_refused)
{
    struct log log;
    log_init(&log, 0);
    for (size_t i = 0; i < log.segments_n; i++) {
        struct io *disk = disk_with(&log, log.segments_n);
        EXPECT_STATUS(OK, disk->ops->unlink(disk, log.segments[i].path));
        test_note("segment %zu deleted", i);
        bool is_last = i + 1 == log.segments_n;
        if (is_last) {
            /* Nothing but the archive can know. */
            expect_prefix(disk, &log, log.segments[i].first_lsn - 1);
            disk = disk_with(&log, i);
            expect_refused(disk, &log, log.segments[i].first_lsn, E_CORRUPT, "archived");
        } else {
            expect_refused(disk, &log, 0, E_CORRUPT, "frame");
        }
    }
    struct io *disk = disk_with(&log, 0);
    expect_refused(disk, &log, 1, E_CORRUPT, "archived");
    log_release(&log);
}

TEST(a_zeroed_segment_is_refused)
{
    struct log log;
    log_init(&log, 0);
    for (size_t i = 0; i < log.segments_n; i++) {
        struct io *disk = disk_with(&log, log.segments_n);
        memset(segment_of(disk, &log, i)->ptr, 0, SEGMENT_SIZE);
        test_note("segment %zu zeroed", i);
        if (i + 1 < log.segments_n) {
            expect_refused(disk, &log, 0, E_CORRUPT, log.segments[i].path);
        } else {
            expect_prefix(disk, &log, log.segments[i].first_lsn - 1);
        }
        disk = disk_with(&log, log.segments_n);
        memset(segment_of(disk, &log, i)->ptr, 0, SEGMENT_HEADER_SIZE);
        test_note("header of segment %zu zeroed", i);
        expect_refused(disk, &log, 0, E_CORRUPT, log.segments[i].path);
    }
    log_release(&log);
}

TEST(exchanged_segments_are_refused)
{
    struct log log;
    log_init(&log, 0);
    for (size_t i = 0; i < log.segments_n; i++) {
        for (size_t k = i + 1; k < log.segments_n; k++) {
            struct io *disk = disk_with(&log, log.segments_n);
            test_note("segments %zu and %zu exchanged", i, k);
            memcpy(segment_of(disk, &log, i)->ptr, log.segments[k].bytes.ptr, SEGMENT_SIZE);
            memcpy(segment_of(disk, &log, k)->ptr, log.segments[i].bytes.ptr, SEGMENT_SIZE);
            expect_refused(disk, &log, 0, E_CORRUPT, log.segments[i].path);
        }
    }
    log_release(&log);
}

/* Same names, same LSNs, all checksums right, and yet not this journal. */
TEST(a_segment_of_another_journal_is_refused)
{
    struct log log;
    struct log other;
    log_init(&log, 0);
    log_init(&other, 7);
    for (size_t i = 1; i < log.segments_n; i++) {
        struct io *disk = disk_with(&log, log.segments_n);
        test_note("segment %zu", i);
        memcpy(segment_of(disk, &log, i)->ptr, other.segments[i].bytes.ptr, SEGMENT_SIZE);
        expect_refused(disk, &log, 0, E_CORRUPT, "does not continue");
    }
    size_t last = log.segments_n - 1;
    struct io *disk = disk_with(&log, log.segments_n);
    struct segment_header header; /* without a frame in it, only the chain can tell */
    EXPECT_EQ(SEGMENT_VALID, segment_decode_header(log.segments[last].bytes.ptr, &header));
    header.chain++;
    memset(segment_of(disk, &log, last)->ptr, 0, SEGMENT_SIZE);
    segment_encode_header(&header, segment_of(disk, &log, last)->ptr);
    expect_refused(disk, &log, 0, E_CORRUPT, "does not continue");
    log_release(&log);
    log_release(&other);
}

/* A crash while the first segment or a spare is made leaves halves; they are not damage. */
TEST(halves_of_a_first_start_are_empty)
{
    struct log log;
    log_init(&log, 0);
    for (size_t size = 0; size <= 128; size += 8) {
        struct io *disk = disk_with(&log, 0);
        put_file(disk, "journal/spare", bytes_make(log.segments[0].bytes.ptr, size));
        test_note("spare of %zu bytes", size);
        expect_prefix(disk, &log, 0);
    }
    struct io *disk = disk_with(&log, 0);
    put_file(disk, log.segments[0].path, BYTES_LITERAL(""));
    put_file(disk, "journal/notes.txt", BYTES_LITERAL("somebody's"));
    expect_prefix(disk, &log, 0);
    log_release(&log);
}

/* ---- sealed, and wrong all the same ---- */

/* Seals the header of a frame again after a change, as its writer would have. */
static void seal_frame(uint8_t *frame, const struct log *log, size_t segment)
{
    struct segment_header header;
    EXPECT_EQ(SEGMENT_VALID, segment_decode_header(log->segments[segment].bytes.ptr, &header));
    size_t at = FRAME_HEADER_SIZE - 4;
    store_u32(frame + at, crc32c(segment_seed(&header), frame, at));
}

/* Epoch, time, LSN and chain are checked although every checksum holds: a fenced writer's are
 * right. */
TEST(frames_out_of_order_are_refused)
{
    static const struct {
        size_t offset;
        uint64_t value;
        const char *what;
    } changes[] = {
        {32, 0, "epoch"}, {16, 1, "older"}, {8, 9, "expected"}, {24, 1, "does not continue"}};
    struct log log;
    log_init(&log, 3);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct io *disk = disk_with(&log, log.segments_n);
        uint8_t *frame = segment_of(disk, &log, 0)->ptr + log.frames[2].begin;
        if (changes[i].offset == 32)
            store_u32(frame + 32, (uint32_t)changes[i].value);
        else
            store_u64(frame + changes[i].offset, changes[i].value);
        seal_frame(frame, &log, 0);
        expect_refused(disk, &log, 0, E_CORRUPT, changes[i].what);
    }
    log_release(&log);
}

/* An older program must leave a newer directory alone, wherever the newer part begins. */
TEST(a_newer_format_is_refused_as_newer)
{
    struct log log;
    log_init(&log, 0);
    size_t last = log.segments_n - 1;
    struct io *disk = disk_with(&log, log.segments_n);
    uint8_t *frame = segment_of(disk, &log, last)->ptr + log.frames[LOG_FRAMES].begin;
    frame[4] = 2;
    seal_frame(frame, &log, last);
    expect_refused(disk, &log, 0, E_VERSION, "newer program");

    disk = disk_with(&log, log.segments_n);
    uint8_t *header = segment_of(disk, &log, last)->ptr;
    store_u32(header + 8, 2);
    store_u32(header + 60, crc32c(0, header, 60));
    expect_refused(disk, &log, 0, E_VERSION, "newer program");
    log_release(&log);
}

/* ---- faults of the disk ---- */

#define WORK_FIRST 18  /* LSNs written under the fault */
#define WORK_SECOND 24 /* and after it */

/* A journal that failed answers nothing but E_IO. */
static void expect_dead(struct journal *j, struct history *h)
{
    struct history before = *h;
    EXPECT(j->is_failed);
    EXPECT_STATUS(E_IO, append(j, h));
    EXPECT_STATUS(E_IO, journal_trim(j, j->last_lsn));
    *h = before;
}

/* Appends once; a full disk gets its space back and must then take the very same frame. */
static enum status append_or_wait(struct io *disk, struct journal *j, struct history *h)
{
    enum status status = append(j, h);
    if (status != E_NOSPACE) return status;
    EXPECT(!j->is_failed);
    store_fault_plan(disk, &(struct store_fault_plan){0});
    status = append(j, h);
    EXPECT_STATUS(OK, status);
    return status;
}

static enum status work_open(struct io *disk, struct history *h, struct journal **out)
{
    enum status status = open_journal(disk, out);
    if (status != OK) return status;
    struct replayed r = {h, h->trimmed + 1};
    struct journal_report report;
    status = journal_replay(*out, h->trimmed, check_frame, &r, &report);
    if (status != OK) {
        /* No fault of the disk may look like damage, or a person would restore a backup. */
        if (status == E_CORRUPT) test_fail(__FILE__, __LINE__, "refused: %s", report.damage);
        journal_close(*out);
        return status;
    }
    EXPECT((*out)->last_lsn >= h->acked);
    EXPECT((*out)->last_lsn <= h->attempted);
    h->acked = (*out)->last_lsn; /* the host acts upon what it was given */
    return OK;
}

/* One life of the process: recover, append up to `upto`, trim now and then. Ends early on a
 * fault. */
static enum status work(struct io *disk, struct history *h, uint64_t upto)
{
    struct journal *j;
    h->life++;
    enum status status = work_open(disk, h, &j);
    if (status != OK) return status;
    while (status == OK && j->last_lsn < upto) {
        status = append_or_wait(disk, j, h);
        if (status == OK && j->last_lsn % 6 == 0) {
            h->trimmed = j->last_lsn - 2;
            (void)journal_trim(j, h->trimmed); /* may fail; that costs space and nothing else */
        }
    }
    if (status != OK) expect_dead(j, h);
    journal_close(j);
    return status;
}

enum ending {
    POWER_FAILS,
    PROCESS_DIES,
    PROCESS_DIES_THEN_POWER_FAILS,
    PROCESS_DIES_THEN_POWER_FAILS_LATER,
    ENDINGS_N,
};

static void end_life(struct io *disk, struct history *h, enum ending ending)
{
    if (ending == POWER_FAILS) {
        store_fault_restart(disk);
        return;
    }
    store_fault_resume(disk);
    if (ending == PROCESS_DIES) return;
    /* What a replay gave must stay, also when the machine fails right after it; and so must what
     * was appended to a segment that the process before had begun. */
    struct journal *j;
    h->life++;
    EXPECT_STATUS(OK, work_open(disk, h, &j));
    if (ending == PROCESS_DIES_THEN_POWER_FAILS_LATER) EXPECT_STATUS(OK, append(j, h));
    journal_close(j);
    store_fault_restart(disk);
}

/* Works under the plan, ends as told, and proves that everything acknowledged is there and that the
 * journal can be used. */
static void torture(const struct store_fault_plan *plan, enum ending ending)
{
    struct io *disk = new_disk(DISK_SIZE);
    struct history h = {0};
    store_fault_plan(disk, plan);
    (void)work(disk, &h, WORK_FIRST);
    end_life(disk, &h, ending);
    EXPECT_STATUS(OK, work(disk, &h, WORK_SECOND));
    EXPECT_EQ(WORK_SECOND, h.acked);
    store_fault_restart(disk);
    EXPECT_STATUS(OK, work(disk, &h, WORK_SECOND));
    EXPECT_EQ(WORK_SECOND, h.acked);
    disk->ops->release(disk);
}

/* How many calls of this kind a life without faults makes. */
static uint64_t calls_of_work(enum store_fault_on on)
{
    struct io *disk = new_disk(DISK_SIZE);
    struct history h = {0};
    EXPECT_STATUS(OK, work(disk, &h, WORK_FIRST));
    uint64_t n = store_fault_calls(disk, on);
    EXPECT(n > 0);
    disk->ops->release(disk);
    return n;
}

static void torture_each_call(enum store_fault fault, enum store_fault_on on)
{
    uint64_t n = calls_of_work(on);
    for (uint64_t at = 1; at <= n; at++) {
        for (int variant = 0; variant < 2 * ENDINGS_N; variant++) {
            struct store_fault_plan plan = {.fault = fault,
                                            .on = on,
                                            .at = at,
                                            .for_ever = variant >= ENDINGS_N,
                                            .seed = at * 16 + (uint64_t)variant};
            test_note("fault %d on %d, call %llu, variant %d", (int)fault, (int)on,
                      (unsigned long long)at, variant);
            torture(&plan, (enum ending)(variant % ENDINGS_N));
        }
    }
}

/* Each call fails, once and for ever: no later acknowledgement, and nothing acknowledged is
 * lost. */
TEST(each_call_fails)
{
    torture_each_call(FAULT_FAIL, FAULT_ON_ANY);
    torture_each_call(FAULT_FAIL, FAULT_ON_WRITE);
    torture_each_call(FAULT_FAIL, FAULT_ON_DATASYNC);
    torture_each_call(FAULT_FAIL, FAULT_ON_RENAME);
    torture_each_call(FAULT_FAIL, FAULT_ON_ALLOCATE);
}

/* Each call finds the disk full: appending waits and goes on. */
TEST(each_call_finds_the_disk_full)
{
    torture_each_call(FAULT_NOSPACE, FAULT_ON_ANY);
    torture_each_call(FAULT_NOSPACE, FAULT_ON_WRITE);
    torture_each_call(FAULT_NOSPACE, FAULT_ON_RENAME);
    torture_each_call(FAULT_NOSPACE, FAULT_ON_ALLOCATE);
}

/* The process or the machine is gone before and after each call. */
TEST(each_call_is_the_last)
{
    torture_each_call(FAULT_CRASH, FAULT_ON_ANY);
    torture_each_call(FAULT_CRASH_AFTER, FAULT_ON_ANY);
}

/* Each write is stored in part. Many seeds: what is stored is chosen anew for each. */
TEST(each_write_is_torn)
{
    uint64_t n = calls_of_work(FAULT_ON_WRITE);
    for (uint64_t at = 1; at <= n; at++) {
        for (uint64_t seed = 0; seed < 20; seed++) {
            test_note("tear write %llu, seed %llu", (unsigned long long)at,
                      (unsigned long long)seed);
            torture(
                &(struct store_fault_plan){
                    .fault = FAULT_TEAR, .on = FAULT_ON_WRITE, .at = at, .seed = seed},
                (enum ending)(seed % ENDINGS_N));
        }
    }
}

/* A life that ends at each call of the recovery from a torn write; the third one must find
 * everything. Answers false when the second life made fewer calls. */
static bool torture_recovery(uint64_t first, uint64_t second, enum store_fault fault)
{
    struct io *disk = new_disk(DISK_SIZE);
    struct history h = {0};
    store_fault_plan(disk, &(struct store_fault_plan){.fault = FAULT_TEAR,
                                                      .on = FAULT_ON_WRITE,
                                                      .at = first,
                                                      .seed = first * 100 + second});
    EXPECT_STATUS(E_IO, work(disk, &h, WORK_FIRST));
    store_fault_restart(disk);
    store_fault_plan(
        disk, &(struct store_fault_plan){.fault = fault, .at = second, .seed = first + second});
    (void)work(disk, &h, h.attempted + 1);
    bool is_reached = store_fault_is_crashed(disk);
    store_fault_restart(disk);
    EXPECT_STATUS(OK, work(disk, &h, WORK_SECOND));
    store_fault_restart(disk);
    EXPECT_STATUS(OK, work(disk, &h, WORK_SECOND));
    EXPECT_EQ(WORK_SECOND, h.acked);
    disk->ops->release(disk);
    return is_reached;
}

TEST(a_crash_during_the_recovery_from_a_crash)
{
    static const enum store_fault faults[] = {FAULT_CRASH, FAULT_CRASH_AFTER, FAULT_TEAR};
    uint64_t n = calls_of_work(FAULT_ON_WRITE);
    for (uint64_t first = 1; first <= n; first++) {
        for (size_t f = 0; f < 3; f++) {
            uint64_t second = 1;
            do {
                test_note("tear write %llu, then fault %d at call %llu", (unsigned long long)first,
                          (int)faults[f], (unsigned long long)second);
            } while (torture_recovery(first, second++, faults[f]));
            EXPECT(second > 10);
        }
    }
}

/* ---- a disk that is really full ---- */

/* The spare is missing before an append is refused, so that a host can stop taking work in time;
 * and with space again, by whatever way, the same append succeeds. */
TEST(a_full_disk_shows_before_it_hurts)
{
    struct io *disk = new_disk(SEGMENT_SIZE * 4);
    struct history h = {.life = 1};
    static const uint8_t filler[SEGMENT_SIZE];
    struct journal *j;
    EXPECT_STATUS(OK, disk->ops->make_directory(disk, "journal"));
    put_file(disk, "filler", bytes_make(filler, sizeof filler));
    EXPECT_STATUS(OK, work_open(disk, &h, &j));

    enum status status = OK;
    bool has_spare = true;
    uint64_t bytes;
    int appended_without_spare = 0;
    while (status == OK) {
        status = append(j, &h);
        if (status == OK && !has_spare) appended_without_spare++;
        journal_usage(j, &bytes, &has_spare);
    }
    EXPECT_STATUS(E_NOSPACE, status);
    EXPECT(!has_spare);
    EXPECT(appended_without_spare > 1);
    EXPECT_STATUS(E_NOSPACE, append(j, &h));

    EXPECT_STATUS(OK, disk->ops->unlink(disk, "filler"));
    EXPECT_STATUS(OK, disk->ops->sync_directory(disk, "."));
    EXPECT_STATUS(OK, append(j, &h));
    while (append(j, &h) == OK) continue;
    EXPECT_STATUS(OK, journal_trim(j, j->last_lsn)); /* what the archiver does when it catches up */
    journal_usage(j, &bytes, &has_spare);
    EXPECT(has_spare);
    EXPECT_STATUS(OK, append(j, &h));
    h.trimmed = h.acked - 1;
    journal_close(j);
    store_fault_restart(disk);
    EXPECT_STATUS(OK, work_open(disk, &h, &j));
    journal_close(j);
    disk->ops->release(disk);
}

/* ---- the tests tested ---- */

/* The disk really forgets and tears: without a sync, what was written is lost for some seed, kept
 * for some and spoiled for some. A disk that keeps everything would let every test above pass. */
TEST(the_disk_forgets_what_was_not_synced)
{
    int lost = 0;
    int kept = 0;
    int spoiled = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct io *disk = new_disk(DISK_SIZE);
        put_file(disk, "f", BYTES_LITERAL("old"));
        EXPECT_STATUS(OK, disk->ops->sync_directory(disk, "."));
        struct io_file *file;
        EXPECT_STATUS(OK, disk->ops->open(disk, "f", IO_WRITE, &file));
        EXPECT_STATUS(OK, disk->ops->write(disk, file, 0, "new", 3));
        disk->ops->close(disk, file);
        store_fault_plan(disk, &(struct store_fault_plan){.seed = seed});
        store_fault_restart(disk);
        struct bytes contents = buffer_view(store_fault_file(disk, "f"));
        if (bytes_equal(contents, BYTES_LITERAL("old")))
            lost++;
        else if (bytes_equal(contents, BYTES_LITERAL("new")))
            kept++;
        else
            spoiled++;
        disk->ops->release(disk);
    }
    EXPECT(lost > 10);
    EXPECT(kept > 10);
    EXPECT(spoiled > 5);
}

/* A sync that failed and is simply repeated answers OK and has lost data: the reason never to do
 * it. */
TEST(the_disk_drops_what_a_failed_sync_could_not_write)
{
    int dropped = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct io *disk = new_disk(DISK_SIZE);
        struct io_file *file;
        EXPECT_STATUS(OK, disk->ops->open(disk, "f", IO_CREATE, &file));
        EXPECT_STATUS(OK, disk->ops->write(disk, file, 0, "new", 3));
        store_fault_plan(disk,
                         &(struct store_fault_plan){
                             .fault = FAULT_FAIL, .on = FAULT_ON_DATASYNC, .at = 1, .seed = seed});
        EXPECT_STATUS(E_IO, disk->ops->datasync(disk, file));
        EXPECT_STATUS(OK, disk->ops->datasync(disk, file));
        struct bytes contents = buffer_view(store_fault_file(disk, "f"));
        if (!bytes_equal(contents, BYTES_LITERAL("new"))) dropped++;
        disk->ops->close(disk, file);
        disk->ops->release(disk);
    }
    EXPECT(dropped > 5);
    EXPECT(dropped < 45);
}

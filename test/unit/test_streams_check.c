/* SPDX-License-Identifier: Apache-2.0
 *
 * What `norn check` says of the directory of the streams: nothing of one that a crash left, and of
 * one that was damaged in which file and where. The simulator of streams checks before every
 * recovery too (test_streams_sim).
 */
#include "base/log.h"
#include "stream/check.h"
#include "stream/record.h"
#include "stream/segment.h"
#include "test/lib/stream_world.h"
#include "test/lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#define MESSAGES_N 200
#define FILES_MAX 64
#define PARCELS 3 /* the third stream that is made */

static struct stream_world w;

/* What was told. */
static struct {
    uint32_t n;
    enum streams_part part; /* of the first */
    char text[STREAMS_DAMAGE_SIZE];
} damage;
static struct streams_report report;

static void on_damage(void *user, enum streams_part part, const char *what)
{
    (void)user;
    if (damage.n++ > 0) return;
    damage.part = part;
    (void)snprintf(damage.text, sizeof damage.text, "%s", what);
}

static enum status check(void)
{
    damage.n = 0;
    damage.text[0] = '\0';
    enum status status = streams_check(w.disk, &w.mem, on_damage, NULL, &report);
    EXPECT((status == OK) == (damage.n == 0));
    test_note("%s", damage.text);
    return status;
}

/* ---- the files ---- */

struct file {
    char path[STREAM_PATH_SIZE];
    uint32_t stream;
    uint32_t partition;
    uint64_t first;
    bool is_closed; /* another one of its partition comes behind it */
};

static struct file files[FILES_MAX];
static uint32_t files_n;

static enum status on_name(void *user, const char *name)
{
    struct file *file = &files[files_n];

    (void)user;
    if (!stream_segment_parse(name, &file->stream, &file->partition, &file->first)) return OK;
    EXPECT(files_n + 1 < FILES_MAX);
    stream_segment_path(file->path, file->stream, file->partition, file->first);
    files_n++;
    return OK;
}

static struct buffer *contents(const char *path)
{
    struct buffer *file = store_fault_file(w.disk, path);

    EXPECT(file != NULL);
    return file;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

/* Those that the next start needs: without its contents the directory would not be good. */
static void list_files(void)
{
    uint32_t needed_n = 0;

    files_n = 0;
    EXPECT_STATUS(OK, w.disk->ops->list(w.disk, STREAM_SEGMENT_DIRECTORY, on_name, NULL));
    qsort(files, files_n, sizeof files[0], by_path);
    for (uint32_t i = 0; i < files_n; i++) {
        struct buffer *file = contents(files[i].path);
        size_t len = file->len;
        file->len = 0;
        bool is_needed = check() != OK;
        file->len = len;
        if (is_needed) files[needed_n++] = files[i];
    }
    files_n = needed_n;
    for (uint32_t i = 0; i + 1 < files_n; i++) {
        files[i].is_closed =
            files[i + 1].stream == files[i].stream && files[i + 1].partition == files[i].partition;
    }
}

/* The nth one of parcels with another behind it. */
static const struct file *closed_file(uint32_t n)
{
    for (uint32_t i = 0; i < files_n; i++) {
        if (files[i].stream == PARCELS && files[i].is_closed && n-- == 0) return &files[i];
    }
    test_fail(__FILE__, __LINE__, "so many segments are not there");
}

/* ---- a directory with something of everything ---- */

static void append_many(const char *stream)
{
    char value[100];

    for (int i = 0; i < MESSAGES_N; i++) {
        (void)snprintf(value, sizeof value, "message %d of %s, of some length", i, stream);
        EXPECT_STATUS(OK, stream_world_append(&w, stream, NULL, value, -1, NULL));
    }
}

static void make_letter(void)
{
    struct stream_call call;
    struct stream_delivery delivery;

    stream_call_init(&call, STREAM_REQUEST_RECEIVE, "orders");
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    struct reader at = reader_make(buffer_view(&call.request.answer));
    EXPECT(stream_answer_next_delivery(&at, &delivery));
    struct stream_token token = delivery.token;
    stream_call_release(&call);
    stream_call_init(&call, STREAM_REQUEST_DEAD_LETTER, "orders");
    call.request.lock.token = token;
    call.request.lock.reason = BYTES_LITERAL("it smells");
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    stream_call_release(&call);
}

static void fill(void)
{
    struct stream_call call;

    stream_world_init(&w, 5);
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT_STATUS(OK, stream_world_set(&w, "orders", 2));
    EXPECT_STATUS(OK, stream_world_set(&w, "gone", 1));
    EXPECT_STATUS(OK, stream_world_set(&w, "parcels", 1));
    append_many("orders");
    make_letter();
    append_many("gone");
    append_many("parcels");
    stream_call_init(&call, STREAM_REQUEST_CHECKPOINT, "parcels");
    call.request.read.group = BYTES_LITERAL("billing");
    call.request.read.offset = 7;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    stream_call_release(&call);
    stream_call_init(&call, STREAM_REQUEST_DELETE, "gone");
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    stream_call_release(&call);
    stream_world_run(&w);
    stream_world_crash(&w, true);
    list_files();
}

static void done(void)
{
    test_note("%s", "");
    stream_world_release(&w);
}

/* ---- what is good ---- */

/* It says what is there, and does not complain of what a crash leaves. */
TEST(a_directory_that_was_in_use_is_good)
{
    fill();
    EXPECT_STATUS(OK, check());
    EXPECT(report.has_snapshot);
    EXPECT(report.snapshot_lsn > 0);
    EXPECT(report.journal.last_lsn > report.snapshot_lsn);
    EXPECT_EQ(2, report.streams_n);
    EXPECT_EQ(1, report.groups_n);
    EXPECT_EQ(1, report.letters_n);
    EXPECT(report.segments_n > 4);
    EXPECT(report.messages_n > MESSAGES_N);
    EXPECT(report.messages_n <= 2 * MESSAGES_N + 1);
    /* The next start removes these. */
    char path[STREAM_PATH_SIZE];
    struct io_file *file;
    uint64_t obsolete_n = report.obsolete_n;
    stream_segment_path(path, 77, 0, 0);
    EXPECT_STATUS(OK, w.disk->ops->open(w.disk, path, IO_CREATE, &file));
    w.disk->ops->close(w.disk, file);
    EXPECT_STATUS(OK, check());
    EXPECT_EQ(obsolete_n + 1, report.obsolete_n);
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT(store_fault_file(w.disk, path) == NULL);
    done();
}

TEST(a_directory_without_anything_is_good)
{
    stream_world_init(&w, 5);
    EXPECT_STATUS(OK, w.disk->ops->make_directory(w.disk, "journal"));
    EXPECT_STATUS(OK, check());
    EXPECT(!report.has_snapshot);
    EXPECT_EQ(0, report.streams_n);
    done();
}

/* ---- what is not ---- */

/* Every byte of a closed segment is under a checksum or compared; of the last one of a partition
 * what was written behind the snapshot does not matter, because the frames have it. */
TEST(a_flipped_bit_in_a_segment_is_found_with_its_place)
{
    uint32_t closed_n = 0;

    fill();
    EXPECT_STATUS(OK, check());
    for (uint32_t i = 0; i < files_n; i++) {
        struct buffer *file = contents(files[i].path);
        uint32_t found_n = 0;
        for (size_t at = 0; at < file->len; at += at < 60 ? 1 : 13) {
            file->ptr[at] ^= 0x10;
            enum status status = check();
            file->ptr[at] ^= 0x10;
            if (status == OK) {
                EXPECT(!files[i].is_closed);
                continue;
            }
            EXPECT_EQ(STREAMS_SEGMENTS, damage.part);
            EXPECT_EQ(1, damage.n);
            EXPECT(strstr(damage.text, files[i].path) != NULL);
            const char *offset = strstr(damage.text, "at offset ");
            EXPECT(offset != NULL);
            uint64_t place = strtoull(offset + strlen("at offset "), NULL, 10);
            EXPECT(place <= at);
            EXPECT(at - place < (place == 0 ? STREAM_SEGMENT_HEADER_SIZE : 120));
            found_n++;
        }
        EXPECT(found_n > 0 || !files[i].is_closed);
        closed_n += files[i].is_closed;
    }
    EXPECT(closed_n > 2);
    EXPECT_STATUS(OK, check());
    done();
}

TEST(a_segment_that_was_cut_or_goes_on_is_found)
{
    fill();
    const struct file *file = closed_file(0);
    struct buffer *data = contents(file->path);
    size_t len = data->len;
    data->len -= 1;
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT(strstr(damage.text, "damaged at offset") != NULL); /* within its last message */
    EXPECT(strstr(damage.text, file->path) != NULL);
    data->len = STREAM_SEGMENT_HEADER_SIZE;
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT(strstr(damage.text, "cut off at offset 48") != NULL);
    data->len = 0;
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT(strstr(damage.text, "header") != NULL);
    data->len = len;
    buffer_u8(data, 0);
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT(strstr(damage.text, "goes on at offset") != NULL);
    data->len = len;
    EXPECT_STATUS(OK, check());
    done();
}

/* The first one, one in the middle, and two at once: all that is missing is told. */
TEST(segments_that_are_missing_are_found)
{
    fill();
    EXPECT_STATUS(OK, w.disk->ops->unlink(w.disk, closed_file(1)->path));
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT_EQ(1, damage.n);
    EXPECT_STATUS(OK, w.disk->ops->unlink(w.disk, closed_file(0)->path));
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT_EQ(1, damage.n); /* one hole, at the front now */
    EXPECT(strstr(damage.text, "a file is missing: messages 0 to ") != NULL);
    for (uint32_t i = 0; i < files_n; i++) (void)w.disk->ops->unlink(w.disk, files[i].path);
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT(damage.n >= 3); /* two partitions of orders, one of parcels */
    done();
}

/* A segment of another place, under the name of one that is missing. */
TEST(a_segment_under_a_wrong_name_is_found)
{
    fill();
    struct buffer *to = contents(closed_file(0)->path);
    const struct buffer *from = contents(closed_file(1)->path);
    buffer_clear(to);
    buffer_append(to, from->ptr, from->len);
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT(strstr(damage.text, "its header, at offset 0") != NULL);
    done();
}

/* Definitions and positions are in the snapshot: nothing of it may have changed. */
TEST(a_damaged_snapshot_is_found)
{
    fill();
    struct buffer *file = contents("snapshot");
    for (size_t at = 0; at < file->len; at++) {
        file->ptr[at] ^= 0x01;
        enum status status = check();
        EXPECT(status == E_CORRUPT || status == E_VERSION);
        EXPECT_EQ(STREAMS_SNAPSHOT, damage.part);
        EXPECT(!report.has_journal_read);
        file->ptr[at] ^= 0x01;
    }
    file->len -= 1;
    EXPECT_STATUS(E_CORRUPT, check());
    /* Without it the frames that it stands for are missing. */
    EXPECT_STATUS(OK, w.disk->ops->unlink(w.disk, "snapshot"));
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT_EQ(STREAMS_JOURNAL, damage.part);
    done();
}

static enum status ignore_frame(void *user, const struct journal_frame *frame)
{
    (void)user;
    (void)frame;
    return OK;
}

static void append_frame(const struct stream_record *record)
{
    struct journal_file_options options = {
        .directory = "journal", .segment_size = 16384, .mem = &w.mem};
    struct journal_report frames;
    struct journal *journal;
    struct buffer payload;

    EXPECT_STATUS(OK, journal_file_open(w.disk, &options, &journal));
    EXPECT_STATUS(OK, check());
    struct journal_frame frame = {
        .lsn = report.journal.last_lsn + 1,
        .epoch = report.journal.last_epoch,
        .time_ns = report.journal.last_time_ns,
    };
    buffer_init(&payload, &w.mem);
    stream_record_write(&payload, record);
    frame.payload = buffer_view(&payload);
    EXPECT_STATUS(OK, journal_replay(journal, frame.lsn - 1, ignore_frame, NULL, &frames));
    EXPECT_STATUS(OK, journal_append(journal, &frame));
    journal_close(journal);
    buffer_release(&payload);
}

/* A frame may be whole and yet speak of what never was: a group of a stream that is gone. */
TEST(records_that_do_not_follow_are_found)
{
    struct stream_record record = {
        .kind = STREAM_RECORD_CHECKPOINT, .stream = 2, .name = BYTES_LITERAL("billing")};

    fill();
    append_frame(&record);
    EXPECT_STATUS(E_CORRUPT, check());
    EXPECT_EQ(STREAMS_JOURNAL, damage.part);
    char frame[32];
    (void)snprintf(frame, sizeof frame, "frame %llu,", (unsigned long long)report.journal.last_lsn);
    EXPECT(strstr(damage.text, frame) != NULL);
    EXPECT(!report.has_segments_read);
    done();
}

/* Without memory it says so, and nothing is lost on the way. */
TEST(a_check_without_memory_says_so)
{
    fill();
    struct mem small;
    for (size_t limit = 1000; limit < 4000000; limit *= 2) {
        mem_init(&small, limit);
        damage.n = 0;
        enum status status = streams_check(w.disk, &small, on_damage, NULL, &report);
        EXPECT(status == OK || status == E_NOMEM);
        EXPECT_EQ(0, small.used);
        mem_release(&small);
    }
    done();
}

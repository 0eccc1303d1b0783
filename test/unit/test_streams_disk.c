/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams on a disk that others fill: appends end while there still is room for what is to be
 * written of them, and there always is a way back.
 */
#include "base/clock.h"
#include "base/log.h"
#include "test/lib/stream_world.h"
#include "test/lib/test.h"

#include <stdio.h>

#define FILLER "filler"
#define VALUE_SIZE 900

static struct stream_world w;

static uint64_t space(void)
{
    uint64_t free_bytes = 0;

    EXPECT_STATUS(OK, w.disk->ops->space(w.disk, &free_bytes));
    return free_bytes;
}

/* Somebody else writes until so much is left. */
static void leave(uint64_t left)
{
    struct io_file *filler;
    uint64_t size;

    enum status status = w.disk->ops->open(w.disk, FILLER, IO_CREATE, &filler);
    if (status == E_EXISTS) status = w.disk->ops->open(w.disk, FILLER, IO_WRITE, &filler);
    EXPECT_STATUS(OK, status);
    EXPECT_STATUS(OK, w.disk->ops->size(w.disk, filler, &size));
    size += space();
    EXPECT_STATUS(OK, w.disk->ops->truncate(w.disk, filler, 0));
    EXPECT_STATUS(OK, w.disk->ops->allocate(w.disk, filler, size - left));
    w.disk->ops->close(w.disk, filler);
    EXPECT_EQ(left, space());
}

static enum status append(const char *stream)
{
    static char value[VALUE_SIZE + 1];

    memset(value, 'x', VALUE_SIZE);
    return stream_world_append(&w, stream, NULL, value, -1, NULL);
}

static enum status delete (const char *stream) {
    struct stream_call call;

    stream_call_init(&call, STREAM_REQUEST_DELETE, stream);
    enum status status = stream_call_run(&w, &call);
    stream_call_release(&call);
    return status;
}

static uint64_t end_of(const char *stream)
{
    struct stream_call call;
    struct stream_info info;
    struct stream_partition_info partition = {0};

    stream_call_init(&call, STREAM_REQUEST_INFO, stream);
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    struct reader at = reader_make(buffer_view(&call.request.answer));
    EXPECT(stream_info_next(&at, &info));
    EXPECT(stream_info_next_partition(&info, &partition));
    stream_call_release(&call);
    return partition.next;
}

static bool is_disk_low(void)
{
    struct stream_stats stats;

    streams_stats(w.s, &stats);
    return stats.is_disk_low;
}

static void begin(uint64_t seed)
{
    log_set_level((enum log_level)(LOG_ERROR + 1)); /* disks are full on purpose */
    stream_world_init(&w, seed);
}

/* The free space is looked at with every frame, and what is in memory counts as written. */
TEST(appends_end_before_the_disk_does)
{
    begin(1);
    w.options.disk_free_min = 200000;
    w.options.flush_size = 390000;
    w.options.snapshot_every_size = 1000000;
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    leave(600000);
    enum status status = OK;
    uint64_t n = 0;
    while ((status = append("s")) == OK) n++;
    EXPECT_STATUS(E_NOSPACE, status);
    EXPECT(n > 100);
    EXPECT(is_disk_low());
    /* All that is in memory finds its room. */
    stream_world_crash(&w, false);
    w.options.flush_size = 2000;
    EXPECT_STATUS(OK, stream_world_open(&w));
    stream_world_advance(&w, 10000);
    test_note("%llu bytes are free", (unsigned long long)space());
    EXPECT(space() >= 200000 - 2 * 16384); /* the journal's next segment may just have come */

    /* The way back: without an append that would look at the disk. */
    leave(5000000);
    stream_world_advance(&w, 1000);
    EXPECT(!is_disk_low());
    EXPECT_STATUS(OK, append("s"));
    EXPECT_EQ(n + 1, end_of("s"));
    stream_world_release(&w);
}

/* Nothing is let through to find out whether there is a spare segment again. */
TEST(a_disk_without_room_for_a_spare_segment_takes_no_appends)
{
    begin(2);
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    leave(0);
    while (append("s") == OK) continue;
    uint64_t end = end_of("s");
    for (int i = 0; i < 100; i++) {
        EXPECT_STATUS(E_NOSPACE, append("s"));
        stream_world_advance(&w, 1000);
    }
    EXPECT_EQ(end, end_of("s"));
    EXPECT_STATUS(OK, delete ("s"));
    stream_world_release(&w);
}

/* What the mover has set aside cannot be written; deleting a stream makes room all the same. */
TEST(deleting_a_stream_frees_a_full_disk)
{
    begin(3);
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT_STATUS(OK, stream_world_set(&w, "old", 1));
    EXPECT_STATUS(OK, stream_world_set(&w, "new", 1));
    for (int i = 0; i < 100; i++) EXPECT_STATUS(OK, append("old"));
    stream_world_crash(&w, false);
    w.options.flush_size = 200000;
    w.options.snapshot_every_size = 1000000;
    EXPECT_STATUS(OK, stream_world_open(&w));
    for (int i = 0; i < 60; i++) EXPECT_STATUS(OK, append("new"));
    EXPECT_STATUS(OK, append("old"));
    stream_world_run(&w);
    leave(0);
    stream_world_crash(&w, false);
    w.options.flush_size = 2000;
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT(is_disk_low());
    EXPECT_STATUS(E_NOSPACE, append("new"));
    EXPECT_STATUS(OK, delete ("old"));
    for (int i = 0; i < 3; i++) {
        stream_world_advance(&w, 3000);
        /* This disk keeps what has no name until the directory is synced. */
        EXPECT_STATUS(OK, w.disk->ops->sync_directory(w.disk, "segments"));
    }
    EXPECT(space() > 50 * VALUE_SIZE);
    stream_world_advance(&w, 3000);
    EXPECT(!is_disk_low());
    EXPECT_STATUS(OK, append("new"));
    stream_world_crash(&w, true);
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT_EQ(61, end_of("new"));
    stream_world_release(&w);
}

/* More in the journal than may be in memory, and no room to write it. */
TEST(a_full_disk_can_be_opened)
{
    static char text[100000];

    begin(4);
    w.options.flush_size = 60000;
    w.options.snapshot_every_size = 1000000;
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    EXPECT_STATUS(OK, stream_world_set(&w, "t", 1));
    for (int i = 0; i < 20; i++) EXPECT_STATUS(OK, append("s"));
    for (int i = 0; i < 10; i++) EXPECT_STATUS(OK, append("t"));
    stream_world_run(&w);
    leave(0);
    stream_world_crash(&w, false);
    w.options.flush_size = 2000;
    for (int i = 0; i < 3; i++) {
        EXPECT_STATUS(OK, stream_world_open(&w));
        EXPECT(is_disk_low());
        EXPECT_EQ(20, end_of("s"));
        EXPECT_STATUS(OK, stream_world_read(&w, "t", 0, 0, text, sizeof text));
        EXPECT(strlen(text) > 10 * (size_t)VALUE_SIZE);
        EXPECT_STATUS(E_NOSPACE, append("s"));
        stream_world_advance(&w, 3000);
        stream_world_crash(&w, false);
    }
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT_STATUS(OK, w.disk->ops->unlink(w.disk, FILLER));
    EXPECT_STATUS(OK, w.disk->ops->sync_directory(w.disk, "."));
    stream_world_advance(&w, 3000);
    EXPECT_STATUS(OK, append("s"));
    stream_world_advance(&w, 3000);
    stream_world_crash(&w, true);
    EXPECT_STATUS(OK, stream_world_open(&w));
    EXPECT_EQ(21, end_of("s"));
    EXPECT_EQ(10, end_of("t"));
    EXPECT_STATUS(OK, stream_world_read(&w, "s", 0, 0, text, sizeof text));
    EXPECT(strlen(text) > 21 * (size_t)VALUE_SIZE);
    stream_world_release(&w);
}

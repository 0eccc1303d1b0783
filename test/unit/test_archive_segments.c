/* SPDX-License-Identifier: Apache-2.0
 *
 * Blob segments on a disk in memory that fails and forgets on demand.
 */
#include "test/lib/test.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/archive_segments.h"
#include "store/io.h"
#include "store/store_fault.h"

#define DIRECTORY "blobs"
#define PATH_1 DIRECTORY "/00000001.blobs"
#define BLOBS_MAX 64
#define BLOB_LARGE ((size_t)1300000)

/* A disk, a writer and a reader on it, and what was written. */
struct fixture {
    struct mem mem;
    struct io *disk;
    struct blob_writer writer;
    struct blob_reader reader;
    struct blob_place places[BLOBS_MAX];
    struct buffer blobs[BLOBS_MAX];
    size_t blobs_n;
};

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){0};
    log_setup(LOG_ERROR + 1, LOG_TEXT); /* damage is made on purpose here */
    mem_init(&f->mem, SIZE_MAX);
    EXPECT_STATUS(OK, store_fault_disk_new(mem_process(), (uint64_t)64 << 20, &f->disk));
    EXPECT_STATUS(OK, f->disk->ops->make_directory(f->disk, DIRECTORY));
    EXPECT_STATUS(OK, f->disk->ops->sync_directory(f->disk, "."));
    EXPECT_STATUS(OK, blob_writer_init(&f->writer, f->disk, DIRECTORY, &f->mem));
    EXPECT_STATUS(OK, blob_reader_init(&f->reader, f->disk, DIRECTORY, &f->mem));
}

static void fixture_release(struct fixture *f)
{
    for (size_t i = 0; i < f->blobs_n; i++) buffer_release(&f->blobs[i]);
    blob_reader_release(&f->reader);
    blob_writer_release(&f->writer);
    mem_release(&f->mem);
    f->disk->ops->release(f->disk);
}

/* As after a restart: nothing of what the writer and the reader remembered. */
static void fixture_restart(struct fixture *f)
{
    blob_reader_release(&f->reader);
    blob_writer_release(&f->writer);
    EXPECT_STATUS(OK, blob_writer_init(&f->writer, f->disk, DIRECTORY, &f->mem));
    EXPECT_STATUS(OK, blob_reader_init(&f->reader, f->disk, DIRECTORY, &f->mem));
}

/* Half of the bytes are random, half are repeated, so that it compresses like a history does. */
static void fill(struct buffer *b, uint64_t seed, size_t len)
{
    struct rng rng;

    rng_init(&rng, seed);
    buffer_init(b, mem_process());
    while (b->len < len) {
        buffer_append(b, "name=ChargePayment;", 19);
        buffer_u64(b, rng_u64(&rng));
        buffer_u64(b, rng_u64(&rng));
    }
    EXPECT(!b->failed);
    b->len = len;
}

static enum status add(struct fixture *f, size_t len)
{
    size_t n = f->blobs_n;

    assert(n < BLOBS_MAX);
    fill(&f->blobs[n], n + 1, len);
    enum status status =
        blob_writer_add(&f->writer, n + 1, buffer_view(&f->blobs[n]), &f->places[n]);
    if (status == OK) {
        f->blobs_n++;
    } else {
        buffer_release(&f->blobs[n]);
    }
    return status;
}

static void forget_blob(struct fixture *f)
{
    assert(f->blobs_n > 0);
    buffer_release(&f->blobs[--f->blobs_n]);
}

static void expect_all(struct fixture *f)
{
    for (size_t i = 0; i < f->blobs_n; i++) {
        struct bytes got;
        test_note("blob %zu", i);
        EXPECT_STATUS(OK, blob_reader_get(&f->reader, &f->places[i], &got));
        EXPECT(bytes_equal(buffer_view(&f->blobs[i]), got));
    }
}

/* The name of a file is how a segment is found again; nothing else in the directory may be taken
 * for one (it would be unlinked as a stray). */
TEST(segment_names_are_recognised)
{
    char path[BLOB_PATH_SIZE];

    blob_segment_path(path, "archive", 12);
    EXPECT_TEXT("archive/00000012.blobs", path);
    EXPECT_EQ(12, blob_segment_number("00000012.blobs"));
    EXPECT_EQ(123456789, blob_segment_number("123456789.blobs"));
    EXPECT_EQ(0, blob_segment_number("archive.db"));
    EXPECT_EQ(0, blob_segment_number("00000012.blobs.old"));
    EXPECT_EQ(0, blob_segment_number("x00000012.blobs"));
    EXPECT_EQ(0, blob_segment_number("99999999999999999999999.blobs"));
    EXPECT_EQ(0, blob_segment_number(".blobs"));
    EXPECT_EQ(0, blob_segment_number(""));
}

/* A blob comes back as it was, whatever its size: empty, small ones that share a block, one that
 * just fits, one that fills a block, and one far larger than a block; before and after restart. */
TEST(blobs_of_every_size_come_back)
{
    static const size_t sizes[] = {
        0,          1,    100, 1500, BLOB_BLOCK_SIZE - 1, BLOB_BLOCK_SIZE, BLOB_BLOCK_SIZE + 1, 7,
        BLOB_LARGE, 1500, 0,   3000};
    struct fixture f;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        EXPECT_STATUS(OK, add(&f, sizes[i]));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    EXPECT_EQ(0, f.places[0].segment);
    EXPECT_EQ(f.places[1].block, f.places[3].block); /* they do share */
    expect_all(&f);
    expect_all(&f);
    fixture_restart(&f);
    expect_all(&f);
    fixture_release(&f);
}

/* More blocks than the cache has places: what was pushed out is read again. */
TEST(cache_is_smaller_than_the_segment)
{
    struct fixture f;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    for (int i = 0; i < BLOB_BLOCKS_CACHED * 3; i++)
        EXPECT_STATUS(OK, add(&f, BLOB_BLOCK_SIZE - 10));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    expect_all(&f);
    expect_all(&f);
    fixture_release(&f);
}

/* More segments than files kept open; and a large blob is not kept in memory for ever. */
TEST(reader_bounds_files_and_memory)
{
    struct fixture f;

    fixture_init(&f);
    for (uint64_t number = 1; number <= BLOB_FILES_OPEN + 4; number++) {
        EXPECT_STATUS(OK, blob_writer_create(&f.writer, number));
        EXPECT_STATUS(OK, add(&f, number == 2 ? BLOB_LARGE : 2000));
        EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    }
    expect_all(&f);
    expect_all(&f);
    EXPECT(f.mem.used < BLOB_LARGE);
    fixture_release(&f);
}

/* Who moves living blobs walks the file: every blob must be met once, in order, with its owner. */
TEST(walk_meets_every_owner)
{
    struct fixture f;
    uint64_t at = BLOB_SEGMENT_HEAD_SIZE;
    uint64_t owner = 0;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    for (int i = 0; i < 30; i++) EXPECT_STATUS(OK, add(&f, 1500));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    while (at < f.writer.end) {
        struct blob_block block;
        EXPECT_STATUS(OK, blob_reader_block(&f.reader, 1, at, &block));
        struct reader table = reader_make(block.table);
        for (uint32_t i = 0; i < block.blobs_n; i++) {
            EXPECT_EQ(++owner, reader_varint(&table));
            EXPECT_EQ(1500, reader_varint(&table));
        }
        EXPECT(reader_is_done(&table));
        at = block.next;
    }
    EXPECT_EQ(30, owner);
    EXPECT_EQ(f.writer.end, at);
    fixture_release(&f);
}

/* A batch that failed leaves no bytes behind, else each retry would make a full disk fuller. */
TEST(rewind_gives_the_space_back)
{
    struct fixture f;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    EXPECT_STATUS(OK, add(&f, 5000));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    blob_writer_mark(&f.writer);
    uint64_t end = f.writer.end;
    for (int i = 0; i < 3; i++) {
        EXPECT_STATUS(OK, add(&f, BLOB_BLOCK_SIZE));
        EXPECT_STATUS(OK, add(&f, 100)); /* still being collected */
        forget_blob(&f);
        forget_blob(&f);
        blob_writer_rewind(&f.writer);
        EXPECT_EQ(end, f.writer.end);
        EXPECT_EQ(end, store_fault_file(f.disk, PATH_1)->len);
    }
    EXPECT_STATUS(OK, add(&f, 3000));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    EXPECT_EQ(end, f.places[1].block);
    expect_all(&f);
    fixture_release(&f);
}

/* A crash leaves anything behind the last byte that is referred to, down to a single byte. It is
 * cut off, what is appended then is found, and so it is after the next restart too. */
TEST(torn_tail_is_cut_off)
{
    for (size_t extra = 0; extra <= 64; extra++) {
        struct fixture f;
        test_note("%zu bytes too many", extra);
        fixture_init(&f);
        EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
        EXPECT_STATUS(OK, add(&f, 2000));
        EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
        uint64_t end = f.writer.end;
        struct buffer *file = store_fault_file(f.disk, PATH_1);
        for (size_t i = 0; i < extra; i++) buffer_u8(file, 0xee);

        fixture_restart(&f);
        EXPECT_STATUS(OK, blob_writer_resume(&f.writer, 1, end));
        EXPECT_EQ(end, store_fault_file(f.disk, PATH_1)->len);
        EXPECT_STATUS(OK, add(&f, 1000));
        EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
        expect_all(&f);
        end = f.writer.end;
        fixture_restart(&f);
        EXPECT_STATUS(OK, blob_writer_resume(&f.writer, 1, end));
        expect_all(&f);
        fixture_release(&f);
    }
}

/* What was synced is there after the process is gone, even with every unsynced sector torn. */
TEST(synced_blobs_survive_power_loss)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fixture f;
        test_note("seed %d", (int)seed);
        fixture_init(&f);
        EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
        EXPECT_STATUS(OK, add(&f, 4000));
        EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
        uint64_t end = f.writer.end;
        blob_writer_mark(&f.writer);
        EXPECT_STATUS(OK, add(&f, 30000)); /* written, not synced */
        forget_blob(&f);
        store_fault_plan(f.disk,
                         &(struct store_fault_plan){
                             .fault = FAULT_CRASH, .on = FAULT_ON_ANY, .at = 1, .seed = seed});
        EXPECT_STATUS(E_IO, blob_writer_sync(&f.writer));
        store_fault_restart(f.disk);
        fixture_restart(&f);
        EXPECT_STATUS(OK, blob_writer_resume(&f.writer, 1, end));
        expect_all(&f);
        fixture_release(&f);
    }
}

/* A segment that is not what the rows say must not be written to: it may be the only evidence. */
TEST(resume_refuses_what_it_does_not_know)
{
    struct fixture f;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    EXPECT_STATUS(OK, add(&f, 2000));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    uint64_t end = f.writer.end;
    fixture_restart(&f);
    EXPECT_STATUS(E_CORRUPT, blob_writer_resume(&f.writer, 1, end + 1));
    EXPECT_STATUS(E_CORRUPT, blob_writer_resume(&f.writer, 2, end));
    EXPECT_STATUS(E_CORRUPT, blob_segment_check(f.disk, DIRECTORY, 1, end + 1));
    EXPECT_STATUS(OK, blob_segment_check(f.disk, DIRECTORY, 1, end));
    EXPECT_STATUS(OK, f.disk->ops->rename(f.disk, PATH_1, DIRECTORY "/00000002.blobs"));
    EXPECT_STATUS(E_CORRUPT, blob_writer_resume(&f.writer, 2, end)); /* its head says 1 */
    EXPECT_EQ(end, store_fault_file(f.disk, DIRECTORY "/00000002.blobs")->len);
    fixture_release(&f);
}

/* Any flipped bit is noticed: no wrong history is ever given out, and nothing crashes on it. */
TEST(every_flipped_bit_is_noticed)
{
    struct fixture f;
    struct bytes got;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    EXPECT_STATUS(OK, add(&f, 200));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    struct buffer *file = store_fault_file(f.disk, PATH_1);
    for (size_t bit = 0; bit < file->len * 8; bit++) {
        test_note("bit %zu", bit);
        uint8_t mask = (uint8_t)(1u << (bit % 8));
        file->ptr[bit / 8] ^= mask;
        fixture_restart(&f);
        EXPECT_STATUS(E_CORRUPT, blob_reader_get(&f.reader, &f.places[0], &got));
        file->ptr[bit / 8] ^= mask;
    }
    fixture_restart(&f);
    expect_all(&f);
    fixture_release(&f);
}

/* The same for a file cut at every byte. */
TEST(every_cut_is_noticed)
{
    struct fixture f;
    struct bytes got;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    EXPECT_STATUS(OK, add(&f, 200));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    struct buffer *file = store_fault_file(f.disk, PATH_1);
    for (size_t len = file->len; len-- > 0;) {
        file->len = len;
        fixture_restart(&f);
        EXPECT_STATUS(E_CORRUPT, blob_reader_get(&f.reader, &f.places[0], &got));
    }
    fixture_release(&f);
}

/* A row that is damaged refers to anywhere; that is a status, not a crash. */
TEST(wrong_places_are_refused)
{
    struct fixture f;
    struct bytes got;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    EXPECT_STATUS(OK, add(&f, 200));
    EXPECT_STATUS(OK, add(&f, 200));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    struct blob_place right = f.places[1];
    for (uint64_t block = 0; block < f.writer.end + 100; block++) {
        if (block == right.block) continue;
        struct blob_place wrong = {1, block, right.offset, right.length};
        EXPECT_STATUS(E_CORRUPT, blob_reader_get(&f.reader, &wrong, &got));
    }
    struct blob_place too_long = {1, right.block, right.offset, right.length + 1};
    EXPECT_STATUS(E_CORRUPT, blob_reader_get(&f.reader, &too_long, &got));
    struct blob_place huge = {1, right.block, UINT32_MAX, UINT32_MAX};
    EXPECT_STATUS(E_CORRUPT, blob_reader_get(&f.reader, &huge, &got));
    struct blob_place nowhere = {0, right.block, 0, 1};
    EXPECT_STATUS(E_CORRUPT, blob_reader_get(&f.reader, &nowhere, &got));
    struct blob_place missing = {9, right.block, 0, 1};
    EXPECT_STATUS(E_CORRUPT, blob_reader_get(&f.reader, &missing, &got));
    EXPECT_STATUS(OK, blob_reader_get(&f.reader, &right, &got));
    fixture_release(&f);
}

/* A full disk at any write: the batch is given up, and works when there is space again. */
TEST(full_disk_can_be_tried_again)
{
    for (uint64_t nth = 1; nth <= 4; nth++) {
        struct fixture f;
        test_note("write %d", (int)nth);
        fixture_init(&f);
        EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
        store_fault_plan(f.disk, &(struct store_fault_plan){
                                     .fault = FAULT_NOSPACE, .on = FAULT_ON_WRITE, .at = nth});
        enum status status = OK;
        for (int i = 0; i < 4 && status == OK; i++) status = add(&f, BLOB_BLOCK_SIZE + 1);
        EXPECT_STATUS(E_NOSPACE, status);
        while (f.blobs_n > 0) forget_blob(&f);
        blob_writer_rewind(&f.writer);
        for (int i = 0; i < 4; i++) EXPECT_STATUS(OK, add(&f, BLOB_BLOCK_SIZE + 1));
        EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
        expect_all(&f);
        fixture_release(&f);
    }
}

/* A failed creation leaves the writer on the old segment, and can be tried again. */
TEST(failed_creation_changes_nothing)
{
    struct fixture f;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    for (uint64_t nth = 1; nth <= 3; nth++) {
        store_fault_plan(
            f.disk, &(struct store_fault_plan){.fault = FAULT_FAIL, .on = FAULT_ON_ANY, .at = nth});
        EXPECT_STATUS(E_IO, blob_writer_create(&f.writer, 2));
        EXPECT_EQ(1, f.writer.number);
    }
    EXPECT_STATUS(OK, add(&f, 100));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 2));
    EXPECT_STATUS(OK, add(&f, 100));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    EXPECT_EQ(2, f.places[1].segment);
    expect_all(&f);
    fixture_release(&f);
}

/* The kernel may have dropped what a failed sync was about: that is E_IO whatever the cause was. */
TEST(failed_sync_is_final)
{
    struct fixture f;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    EXPECT_STATUS(OK, add(&f, 100));
    store_fault_plan(
        f.disk, &(struct store_fault_plan){.fault = FAULT_FAIL, .on = FAULT_ON_DATASYNC, .at = 1});
    EXPECT_STATUS(E_IO, blob_writer_sync(&f.writer));
    fixture_release(&f);
}

/* Without memory at any point: E_NOMEM, and after a rewind it works. */
TEST(every_missing_allocation_is_survived)
{
    bool is_done = false;

    for (uint64_t nth = 1; !is_done; nth++) {
        struct fixture f;
        test_note("allocation %d", (int)nth);
        EXPECT(nth < 100);
        fixture_init(&f);
        EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
        f.mem.fail_at = nth;
        enum status status = add(&f, 3000);
        if (status == OK) status = add(&f, BLOB_BLOCK_SIZE * 2);
        if (status == OK) status = blob_writer_sync(&f.writer);
        struct bytes got;
        bool is_written = status == OK;
        for (size_t i = 0; i < f.blobs_n && status == OK; i++)
            status = blob_reader_get(&f.reader, &f.places[i], &got);
        is_done = f.mem.fail_at != 0;
        EXPECT_STATUS(is_done ? OK : E_NOMEM, status);
        f.mem.fail_at = 0;
        if (!is_written) {
            while (f.blobs_n > 0) forget_blob(&f);
            blob_writer_rewind(&f.writer);
            EXPECT_STATUS(OK, add(&f, 3000));
            EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
        }
        expect_all(&f);
        fixture_release(&f);
    }
}

/* A file that is going to be unlinked is not kept open (its space would stay taken), nor cached. */
TEST(forgotten_segment_is_closed)
{
    struct fixture f;
    struct bytes got;

    fixture_init(&f);
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 1));
    EXPECT_STATUS(OK, add(&f, 100));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    EXPECT_STATUS(OK, blob_writer_create(&f.writer, 2));
    EXPECT_STATUS(OK, add(&f, 100));
    EXPECT_STATUS(OK, blob_writer_sync(&f.writer));
    expect_all(&f);
    blob_reader_forget(&f.reader, 1);
    EXPECT_STATUS(OK, f.disk->ops->unlink(f.disk, PATH_1));
    EXPECT_STATUS(E_CORRUPT, blob_reader_get(&f.reader, &f.places[0], &got));
    EXPECT_STATUS(OK, blob_reader_get(&f.reader, &f.places[1], &got));
    fixture_release(&f);
}

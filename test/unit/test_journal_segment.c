/* SPDX-License-Identifier: Apache-2.0 */
#include "store/journal_segment.h"

#include "base/crc32c.h"
#include "base/mem.h"
#include "store/io.h"
#include "store/journal_frame.h"
#include "store/store_fault.h"
#include "test/lib/test.h"

#define SIZE 4096

static const struct segment_header example = {
    .first_lsn = 0x1f, .chain = 0x0102030405060708, .epoch_before = 9, .time_before_ns = 77};

static struct io *new_disk(uint64_t capacity)
{
    struct io *io;
    EXPECT_STATUS(OK, store_fault_disk_new(mem_process(), capacity, &io));
    EXPECT_STATUS(OK, io->ops->make_directory(io, "j"));
    EXPECT_STATUS(OK, io->ops->sync_directory(io, "."));
    return io;
}

/* The directory listing is the list of segments: a name must mean one LSN and sort like it. */
TEST(names_are_the_first_lsn_in_16_hex_digits)
{
    char path[SEGMENT_PATH_SIZE];
    segment_path("journal", 0x1f, path);
    EXPECT_TEXT("journal/000000000000001f.log", path);
    segment_path("a/b", JOURNAL_LSN_MAX, path);
    EXPECT_TEXT("a/b/7fffffffffffffff.log", path);

    uint64_t lsn = 0;
    EXPECT(segment_parse_name("000000000000001f.log", &lsn));
    EXPECT_EQ(0x1f, lsn);
    EXPECT(segment_parse_name("7fffffffffffffff.log", &lsn));
    EXPECT(lsn == JOURNAL_LSN_MAX);
}

/* What an editor, a file manager or a person left in the directory is not taken for a segment. */
TEST(other_names_are_not_segments)
{
    static const char *const names[] = {"spare",
                                        "",
                                        "000000000000001F.log",
                                        "0000000000000000.log",
                                        "ffffffffffffffff.log",
                                        "00000000000001f.log",
                                        "0000000000000001f.log",
                                        "000000000000001f.lo",
                                        "000000000000001f.log~",
                                        "000000000000001g.log",
                                        "-00000000000001f.log",
                                        "000000000000001f.tmp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint64_t lsn;
        test_note("%s", names[i]);
        EXPECT(!segment_parse_name(names[i], &lsn));
    }
}

/* On disk for ever, as the frame. */
TEST(the_layout_is_fixed)
{
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    segment_encode_header(&example, bytes);
    EXPECT_BYTES(test_hex("4e4f524e53454700" /* NORNSEG */
                          "01000000"         /* version */
                          "09000000"         /* epoch before */
                          "1f00000000000000" /* first LSN */
                          "0807060504030201" /* chain */
                          "4d00000000000000" /* time before */
                          "0000000000000000000000000000000000000000"),
                 bytes_make(bytes, 60));
    EXPECT_EQ(crc32c_portable(0, bytes, 60), load_u32(bytes + 60));

    struct segment_header header;
    EXPECT_EQ(SEGMENT_VALID, segment_decode_header(bytes, &header));
    EXPECT(header.first_lsn == example.first_lsn);
    EXPECT(header.chain == example.chain);
    EXPECT(header.epoch_before == example.epoch_before);
    EXPECT(header.time_before_ns == example.time_before_ns);
}

TEST(every_flipped_bit_of_a_header_is_noticed)
{
    for (size_t bit = 0; bit < SEGMENT_HEADER_SIZE * 8; bit++) {
        uint8_t bytes[SEGMENT_HEADER_SIZE];
        struct segment_header header;
        segment_encode_header(&example, bytes);
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        test_note("bit %zu", bit);
        EXPECT_EQ(SEGMENT_DAMAGED, segment_decode_header(bytes, &header));
    }
}

/* "Use the newer program" is another answer than "restore a backup". */
TEST(a_newer_version_is_told_apart_from_damage)
{
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    struct segment_header header;
    segment_encode_header(&example, bytes);
    store_u32(bytes + 8, 2);
    store_u32(bytes + 60, crc32c(0, bytes, 60));
    EXPECT_EQ(SEGMENT_NEWER, segment_decode_header(bytes, &header));
}

/* A spare that cannot be had leaves nothing behind: otherwise a full disk would fill up with
 * halves. */
TEST(a_spare_without_space_leaves_nothing)
{
    struct io *io = new_disk(SIZE - 1);
    struct segment spare;
    EXPECT_STATUS(E_NOSPACE, segment_make_spare(io, "j", SIZE, &spare));
    EXPECT(store_fault_file(io, "j/spare") == NULL);
    io->ops->release(io);
}

/* A spare of an earlier process may be half made; it is replaced. */
TEST(a_spare_replaces_an_older_one)
{
    struct io *io = new_disk(SIZE * 4);
    struct io_file *file;
    EXPECT_STATUS(OK, io->ops->open(io, "j/spare", IO_CREATE, &file));
    EXPECT_STATUS(OK, io->ops->write(io, file, 0, "old", 3));
    io->ops->close(io, file);

    struct segment spare;
    EXPECT_STATUS(OK, segment_make_spare(io, "j", SIZE, &spare));
    struct buffer *contents = store_fault_file(io, "j/spare");
    EXPECT_EQ(SIZE, contents->len);
    EXPECT_EQ(0, contents->ptr[0]);
    segment_close(io, &spare);
    io->ops->release(io);
}

/* The name appears only after the header is durable: whatever crashes, no segment is without
 * header. */
TEST(a_promoted_segment_has_its_header_whatever_crashes)
{
    for (uint64_t n = 1;; n++) {
        struct io *io = new_disk(SIZE * 4);
        struct segment spare;
        EXPECT_STATUS(OK, segment_make_spare(io, "j", SIZE, &spare));
        test_note("crash at call %llu", (unsigned long long)n);
        store_fault_plan(io, &(struct store_fault_plan){.fault = FAULT_CRASH, .at = n, .seed = n});
        enum status status = segment_promote(io, "j", &spare, &example);
        segment_close(io, &spare);
        store_fault_restart(io);

        struct buffer *contents = store_fault_file(io, "j/000000000000001f.log");
        struct segment_header header;
        if (contents != NULL) {
            EXPECT_EQ(SIZE, contents->len);
            EXPECT_EQ(SEGMENT_VALID, segment_decode_header(contents->ptr, &header));
        }
        if (status == OK) EXPECT(contents != NULL);
        io->ops->release(io);
        if (status == OK) break;
        EXPECT_STATUS(E_IO, status);
        EXPECT(n < 20);
    }
}

/* After E_NOSPACE the spare is still one, and the next attempt succeeds. */
TEST(a_promotion_without_space_can_be_repeated)
{
    static const enum store_fault_on kinds[] = {FAULT_ON_WRITE, FAULT_ON_RENAME};
    for (size_t i = 0; i < 2; i++) {
        struct io *io = new_disk(SIZE * 4);
        struct segment spare;
        EXPECT_STATUS(OK, segment_make_spare(io, "j", SIZE, &spare));
        store_fault_plan(
            io, &(struct store_fault_plan){.fault = FAULT_NOSPACE, .on = kinds[i], .at = 1});
        EXPECT_STATUS(E_NOSPACE, segment_promote(io, "j", &spare, &example));
        EXPECT(store_fault_file(io, "j/spare") != NULL);
        EXPECT_STATUS(OK, segment_promote(io, "j", &spare, &example));
        EXPECT(store_fault_file(io, "j/spare") == NULL);
        segment_close(io, &spare);
        io->ops->release(io);
    }
}

/* A full disk may have stored a whole frame and yet refused it. When the next one goes to another
 * segment, the refused one must not be found by recovery: its LSN is given to somebody else. */
TEST(a_refused_frame_is_gone_when_the_segment_is_sealed)
{
    struct io *io = new_disk(SIZE * 4);
    struct segment segment;
    struct buffer frame;
    struct journal_frame refused = {.lsn = 0x1f, .epoch = 9, .time_ns = 77};
    EXPECT_STATUS(OK, segment_make_spare(io, "j", SIZE, &segment));
    EXPECT_STATUS(OK, segment_promote(io, "j", &segment, &example));
    buffer_init(&frame, mem_process());
    EXPECT(buffer_reserve(&frame, FRAME_HEADER_SIZE));
    frame_encode_header(&refused, example.chain, segment.seed, frame.ptr);
    frame.len = FRAME_HEADER_SIZE;
    store_fault_plan(
        io, &(struct store_fault_plan){.fault = FAULT_NOSPACE, .on = FAULT_ON_WRITE, .at = 1});
    EXPECT_STATUS(E_NOSPACE, segment_append(io, &segment, &frame));
    uint8_t *stored = store_fault_file(io, "j/000000000000001f.log")->ptr + SEGMENT_HEADER_SIZE;
    memcpy(stored, frame.ptr, FRAME_HEADER_SIZE);

    struct frame_header header;
    EXPECT_EQ(FRAME_VALID, frame_decode_header(stored, segment.seed, &header));
    EXPECT_STATUS(OK, segment_seal(io, &segment));
    EXPECT_EQ(FRAME_ABSENT, frame_decode_header(stored, segment.seed, &header));
    uint64_t calls = store_fault_calls(io, FAULT_ON_ANY);
    EXPECT_STATUS(OK, segment_seal(io, &segment)); /* once is enough */
    EXPECT_EQ(calls, store_fault_calls(io, FAULT_ON_ANY));
    buffer_release(&frame);
    segment_close(io, &segment);
    io->ops->release(io);
}

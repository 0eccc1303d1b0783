/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a journal directory of one or two segments. Opening must not crash; every frame it
 * gives must be in the input with both of its checksums right; and a journal that was accepted must
 * take one more frame and then give all of them again.
 *
 * Input: flags (bit 0: there is a second segment; bit 1: replay from the start), two bytes with the
 * length of the first segment, its bytes, the bytes of the second. Random bytes never have the
 * right checksums, so most mutations are sealed again before they are tried.
 */
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "store/io.h"
#include "store/journal.h"
#include "store/journal_frame.h"
#include "store/journal_segment.h"
#include "store/store_fault.h"

#define PREFIX_SIZE 3
#define SEGMENT_SIZE 4096
#define DISK_SIZE ((uint64_t)8 << 20)

/* Of the frame on disk; a change of the format must be made here too, on purpose. */
enum { AT_LSN = 8, AT_CHAIN = 24, AT_PAYLOAD_LEN = 36, AT_PAYLOAD_CRC = 40, AT_HEADER_CRC = 44 };
enum { SEGMENT_AT_FIRST_LSN = 16, SEGMENT_AT_CHAIN = 24, SEGMENT_AT_CRC = 60 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);

struct directory {
    struct bytes segments[2];
    size_t segments_n;
    uint64_t frames_n;     /* given by the replay */
    uint64_t appended_lsn; /* 0: none yet */
};

static const uint8_t appended_payload[] = "appended after recovery";

static struct directory split(const uint8_t *data, size_t size)
{
    size_t left = size - PREFIX_SIZE;
    size_t first = (size_t)(data[1] | data[2] << 8);
    if (first > left || (data[0] & 1) == 0) first = left;
    struct directory directory = {.segments = {bytes_make(data + PREFIX_SIZE, first)},
                                  .segments_n = 1};
    if ((data[0] & 1) != 0) {
        directory.segments[1] = bytes_make(data + PREFIX_SIZE + first, left - first);
        directory.segments_n = 2;
    }
    return directory;
}

/* ---- an independent look for a frame ---- */

static uint32_t seed_of(struct bytes segment)
{
    uint64_t chain = load_u64(segment.ptr + SEGMENT_AT_CHAIN);
    return (uint32_t)(chain ^ chain >> 32);
}

static bool is_at(struct bytes segment, size_t at, const struct journal_frame *frame)
{
    const uint8_t *header = segment.ptr + at;
    if (load_u64(header + AT_LSN) != frame->lsn) return false;
    if (load_u32(header + AT_PAYLOAD_LEN) != frame->payload.len) return false;
    if (segment.len - at - FRAME_HEADER_SIZE < frame->payload.len) return false;
    struct bytes payload = bytes_make(header + FRAME_HEADER_SIZE, frame->payload.len);
    if (!bytes_equal(payload, frame->payload)) return false;
    if (load_u32(header + AT_PAYLOAD_CRC) != crc32c_portable(0, payload.ptr, payload.len)) {
        return false;
    }
    return load_u32(header + AT_HEADER_CRC) ==
           crc32c_portable(seed_of(segment), header, AT_HEADER_CRC);
}

static bool is_in(struct bytes segment, const struct journal_frame *frame)
{
    if (segment.len < SEGMENT_HEADER_SIZE) return false;
    for (size_t at = SEGMENT_HEADER_SIZE; at + FRAME_HEADER_SIZE <= segment.len; at += 8) {
        if (is_at(segment, at, frame)) return true;
    }
    return false;
}

static enum status check_frame(void *user, const struct journal_frame *frame)
{
    struct directory *directory = user;
    directory->frames_n++;
    if (frame->lsn == directory->appended_lsn) {
        assert(bytes_equal(frame->payload, bytes_make(appended_payload, sizeof appended_payload)));
        return OK;
    }
    bool is_found = false;
    for (size_t i = 0; i < directory->segments_n; i++) {
        is_found = is_found || is_in(directory->segments[i], frame);
    }
    assert(is_found);
    return OK;
}

/* ---- one run ---- */

static uint64_t first_lsn_of(struct bytes segment)
{
    if (segment.len < SEGMENT_HEADER_SIZE) return 0;
    return load_u64(segment.ptr + SEGMENT_AT_FIRST_LSN);
}

static void put_segment(struct io *disk, uint64_t lsn, struct bytes contents)
{
    char path[SEGMENT_PATH_SIZE];
    struct io_file *file;
    segment_path("journal", lsn, path);
    assert(disk->ops->open(disk, path, IO_CREATE, &file) == OK);
    if (contents.len > 0) {
        assert(disk->ops->write(disk, file, 0, contents.ptr, contents.len) == OK);
    }
    disk->ops->close(disk, file);
}

/* Names the segments as their headers want it, so that the names are no obstacle. Answers the LSN
 * before the first. */
static uint64_t fill_disk(struct io *disk, const struct directory *directory)
{
    uint64_t first = first_lsn_of(directory->segments[0]);
    if (first == 0 || first > JOURNAL_LSN_MAX) first = 1;
    assert(disk->ops->make_directory(disk, "journal") == OK);
    put_segment(disk, first, directory->segments[0]);
    if (directory->segments_n == 2) {
        uint64_t second = first_lsn_of(directory->segments[1]);
        if (second <= first || second > JOURNAL_LSN_MAX) second = first + 1;
        put_segment(disk, second, directory->segments[1]);
    }
    return first - 1;
}

static struct journal *open_journal(struct io *disk)
{
    struct journal_file_options options = {
        .directory = "journal", .segment_size = SEGMENT_SIZE, .mem = mem_process()};
    struct journal *j;
    assert(journal_file_open(disk, &options, &j) == OK);
    return j;
}

static bool append_one(struct journal *j, struct directory *directory)
{
    struct journal_frame frame = {
        .lsn = j->last_lsn + 1,
        .epoch = j->last_epoch,
        .time_ns = j->last_time_ns,
        .payload = bytes_make(appended_payload, sizeof appended_payload),
    };
    if (frame.lsn > JOURNAL_LSN_MAX) return false; /* the end of all numbers */
    directory->appended_lsn = frame.lsn;
    assert(journal_append(j, &frame) == OK);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < PREFIX_SIZE) return 0;
    struct directory directory = split(data, size);
    struct io *disk;
    struct journal_report report;
    assert(store_fault_disk_new(mem_process(), DISK_SIZE, &disk) == OK);
    uint64_t after_lsn = fill_disk(disk, &directory);
    if ((data[0] & 2) != 0) after_lsn = 0;

    struct journal *j = open_journal(disk);
    enum status status = journal_replay(j, after_lsn, check_frame, &directory, &report);
    assert(status == OK || status == E_CORRUPT || status == E_VERSION);
    assert(status == OK || report.damage[0] != 0);
    uint64_t frames_n = directory.frames_n;
    bool is_appended = status == OK && append_one(j, &directory);
    journal_close(j);
    if (is_appended) {
        directory.frames_n = 0;
        j = open_journal(disk);
        assert(journal_replay(j, after_lsn, check_frame, &directory, &report) == OK);
        assert(directory.frames_n == frames_n + 1);
        journal_close(j);
    }
    disk->ops->release(disk);
    return 0;
}

/* ---- mutations that get past the checksums ---- */

static void seal_segment(uint8_t *segment, size_t size, bool with_order)
{
    if (size < SEGMENT_HEADER_SIZE) return;
    store_u32(segment + SEGMENT_AT_CRC, crc32c(0, segment, SEGMENT_AT_CRC));
    uint32_t seed = seed_of(bytes_make(segment, size));
    uint64_t chain = load_u64(segment + SEGMENT_AT_CHAIN);
    uint64_t lsn = load_u64(segment + SEGMENT_AT_FIRST_LSN);
    size_t at = SEGMENT_HEADER_SIZE;
    while (size - at >= FRAME_HEADER_SIZE && memcmp(segment + at, "NFRM", 4) == 0) {
        uint8_t *header = segment + at;
        size_t left = size - at - FRAME_HEADER_SIZE;
        size_t len = load_u32(header + AT_PAYLOAD_LEN);
        if (len > left) return;
        if (with_order) {
            store_u64(header + AT_LSN, lsn++);
            store_u64(header + AT_CHAIN, chain);
        }
        store_u32(header + AT_PAYLOAD_CRC, crc32c(0, header + FRAME_HEADER_SIZE, len));
        store_u32(header + AT_HEADER_CRC, crc32c(seed, header, AT_HEADER_CRC));
        chain = frame_chain_after(header);
        size_t step = (size_t)frame_size(len);
        if (step > size - at) return;
        at += step;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned int seed)
{
    size = LLVMFuzzerMutate(data, size, size_max);
    if (size < PREFIX_SIZE || seed % 8 == 0) return size;
    struct directory directory = split(data, size);
    for (size_t i = 0; i < directory.segments_n; i++) {
        if (seed >> 4 & 1U << i) continue;
        size_t offset = (size_t)(directory.segments[i].ptr - data);
        seal_segment(data + offset, directory.segments[i].len, (seed >> 8 & 3) != 0);
    }
    return size;
}

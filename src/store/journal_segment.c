/* SPDX-License-Identifier: Apache-2.0
 *
 * Segment files; layout and life are in the header.
 */
#include "store/journal_segment.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/planted.h"
#include "store/io.h"
#include "store/journal_frame.h"

#include <stdio.h>

enum segment_offset {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_EPOCH = 12,
    AT_FIRST_LSN = 16,
    AT_CHAIN = 24,
    AT_TIME = 32,
    AT_SIZE = 40,
    AT_RESERVED = 48,
    AT_CRC = 60,
};

_Static_assert(AT_CRC + sizeof(uint32_t) == SEGMENT_HEADER_SIZE, "the checksum ends the header");
_Static_assert(SEGMENT_HEADER_SIZE % FRAME_ALIGNMENT == 0, "frames begin aligned");

static const uint8_t segment_magic[8] = {'N', 'O', 'R', 'N', 'S', 'E', 'G', 0};

/* How far ahead of the frames blocks are written with zeros, and how small a frame must be for it:
 * see segment_append(). */
#define ZERO_AHEAD ((uint64_t)256 << 10)
#define ZERO_AHEAD_FRAME_MAX (ZERO_AHEAD / 2)
_Static_assert(ZERO_AHEAD % FRAME_ALIGNMENT == 0, "zeros end where a frame may begin");

/* What holds of a segment that frames can be appended to. */
static void check(const struct segment *segment)
{
    assert(segment->file != NULL);
    assert(segment->at >= SEGMENT_HEADER_SIZE);
    assert(segment->at % FRAME_ALIGNMENT == 0);
    assert(segment->at <= segment->zeroed_to);
    assert(segment->zeroed_to <= segment->size);
}

void segment_encode_header(const struct segment_header *header, uint8_t *out)
{
    assert(header->first_lsn > 0);
    assert(header->first_lsn <= JOURNAL_LSN_MAX);
    memset(out, 0, SEGMENT_HEADER_SIZE);
    memcpy(out + AT_MAGIC, segment_magic, sizeof segment_magic);
    store_u32(out + AT_VERSION, JOURNAL_FORMAT_VERSION);
    store_u32(out + AT_EPOCH, header->epoch_before);
    store_u64(out + AT_FIRST_LSN, header->first_lsn);
    store_u64(out + AT_CHAIN, header->chain);
    store_u64(out + AT_TIME, (uint64_t)header->time_before_ns);
    store_u64(out + AT_SIZE, header->size);
    store_u32(out + AT_CRC, crc32c(0, out, AT_CRC));
}

enum segment_verdict segment_decode_header(const uint8_t *at, struct segment_header *out)
{
    if (memcmp(at + AT_MAGIC, segment_magic, sizeof segment_magic) != 0) return SEGMENT_DAMAGED;
    if (load_u32(at + AT_CRC) != crc32c(0, at, AT_CRC)) return SEGMENT_DAMAGED;
    if (load_u32(at + AT_VERSION) != JOURNAL_FORMAT_VERSION) return SEGMENT_NEWER;
    uint64_t first_lsn = load_u64(at + AT_FIRST_LSN);
    if (first_lsn == 0 || first_lsn > JOURNAL_LSN_MAX) return SEGMENT_DAMAGED;

    out->epoch_before = load_u32(at + AT_EPOCH);
    out->first_lsn = first_lsn;
    out->chain = load_u64(at + AT_CHAIN);
    out->time_before_ns = (int64_t)load_u64(at + AT_TIME);
    out->size = load_u64(at + AT_SIZE);
    return SEGMENT_VALID;
}

uint32_t segment_seed(const struct segment_header *header)
{
    assert(header->first_lsn > 0);
    return (uint32_t)(header->chain ^ header->chain >> 32);
}

static bool parse_digit(char c, uint64_t *out)
{
    if (c >= '0' && c <= '9')
        *out = (uint64_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
        *out = (uint64_t)(c - 'a') + 10;
    else
        return false;
    assert(*out < 16);
    return true;
}

bool segment_parse_name(const char *name, uint64_t *first_lsn)
{
    if (strlen(name) != SEGMENT_NAME_SIZE - 1) return false;
    if (strcmp(name + 16, ".log") != 0) return false;
    uint64_t lsn = 0;
    for (int i = 0; i < 16; i++) {
        uint64_t digit;
        if (!parse_digit(name[i], &digit)) return false;
        lsn = lsn << 4 | digit;
    }
    if (lsn == 0 || lsn > JOURNAL_LSN_MAX) return false;
    *first_lsn = lsn;
    return true;
}

void segment_path(const char *directory, uint64_t first_lsn, char *out)
{
    assert(first_lsn > 0);
    assert(first_lsn <= JOURNAL_LSN_MAX);
    int length = snprintf(out, SEGMENT_PATH_SIZE, "%s/%016llx.log", directory,
                          (unsigned long long)first_lsn);
    assert(length > 0);
    assert(length < SEGMENT_PATH_SIZE);
}

void segment_spare_path(const char *directory, char *out)
{
    int length = snprintf(out, SEGMENT_PATH_SIZE, "%s/" SEGMENT_SPARE_NAME, directory);
    assert(length > 0);
    assert(length < SEGMENT_PATH_SIZE);
}

enum status segment_make_spare(struct io *io, const char *directory, uint64_t size,
                               struct segment *out)
{
    assert(size > SEGMENT_HEADER_SIZE);
    char path[SEGMENT_PATH_SIZE];
    segment_spare_path(directory, path);

    struct io_file *file;
    enum status status = io_create_fresh(io, path, &file);
    if (status != OK) return status;

    status = io->ops->allocate(io, file, size);
    if (status != OK) {
        io->ops->close(io, file);
        (void)io->ops->unlink(io, path); /* on failure the next attempt removes it */
        return status;
    }
    *out = (struct segment){.file = file, .size = size};
    return OK;
}

/* After a failed sync nothing is known: the answer must not invite to try again. */
static enum status unless_synced(enum status status) { return status == OK ? OK : E_IO; }

/* Only a full disk is known to have changed nothing that counts. */
static enum status unless_full(enum status status)
{
    return status == OK || status == E_NOSPACE ? status : E_IO;
}

/* Pair of the check at recovery: a header that we could not read ourselves is never written. */
static void check_header(const uint8_t *bytes, const struct segment_header *header)
{
    struct segment_header written;
    enum segment_verdict verdict = segment_decode_header(bytes, &written);
    assert(verdict == SEGMENT_VALID);
    assert(written.first_lsn == header->first_lsn);
    assert(written.chain == header->chain);
    assert(written.epoch_before == header->epoch_before);
    assert(written.time_before_ns == header->time_before_ns);
    assert(written.size == header->size);
}

enum status segment_promote(struct io *io, const char *directory, struct segment *spare,
                            const struct segment_header *header)
{
    assert(spare->file != NULL);
    assert(spare->at == 0);
    assert(spare->size > SEGMENT_HEADER_SIZE);
    assert(!spare->is_dirty);
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    char from[SEGMENT_PATH_SIZE];
    char to[SEGMENT_PATH_SIZE];
    segment_encode_header(header, bytes);
    check_header(bytes, header);
    segment_spare_path(directory, from);
    segment_path(directory, header->first_lsn, to);

    enum status status = io->ops->write(io, spare->file, 0, bytes, sizeof bytes);
    if (status != OK) return unless_full(status);
    status = io->ops->datasync(io, spare->file);
    if (status != OK) return unless_synced(status);
    status = io->ops->rename(io, from, to);
    if (status != OK) return unless_full(status);
    status = io->ops->sync_directory(io, directory);
    if (status != OK) return unless_synced(status);

    spare->seed = segment_seed(header);
    spare->at = SEGMENT_HEADER_SIZE;
    spare->zeroed_to = SEGMENT_HEADER_SIZE;
    check(spare);
    return OK;
}

bool segment_has_room(const struct segment *segment, uint64_t size)
{
    assert(segment->at <= segment->size);
    return size <= segment->size - segment->at;
}

enum status segment_extend(struct io *io, struct segment *segment, uint64_t size)
{
    assert(segment->file != NULL);
    assert(segment->at < size);
    if (segment->size >= size) return OK;
    enum status status = io->ops->allocate(io, segment->file, size);
    if (status == OK) segment->size = size;
    return status;
}

/* How far a write that ends at `end` should go on with zeros.
 *
 * Allocated blocks that were never written are marked so in the file system's metadata, and the
 * first fdatasync after a write to them must write that metadata too. Writing zeros over the whole
 * segment beforehand avoids it, but stalls for the time of writing a segment. So the write that
 * enters new ground takes 256 KiB of zeros along, and the many after it find written blocks (ext4,
 * 16 KiB frames: median 84 instead of 150 microseconds, throughput plus 60 %). Large frames gain
 * nothing by it. */
static uint64_t zero_ahead_end(const struct segment *segment, uint64_t end)
{
    assert(segment->at < end);
    assert(end <= segment->size);
    if (end <= segment->zeroed_to || end - segment->at > ZERO_AHEAD_FRAME_MAX) return end;
    uint64_t ahead = (end / ZERO_AHEAD + 1) * ZERO_AHEAD;
    return ahead < segment->size ? ahead : segment->size;
}

enum status segment_append(struct io *io, struct segment *segment, struct buffer *frame)
{
    check(segment);
    uint64_t end = segment->at + frame->len;
    assert(!frame->failed);
    assert(frame->len >= FRAME_HEADER_SIZE);
    assert(frame->len % FRAME_ALIGNMENT == 0);
    assert(end <= segment->size);

    uint64_t zeroed_to = zero_ahead_end(segment, end);
    assert(zeroed_to >= end);
    assert(zeroed_to <= segment->size);
    size_t zeros = (size_t)(zeroed_to - end);
    if (zeros > 0 && buffer_reserve(frame, zeros)) {
        memset(frame->ptr + frame->len, 0, zeros);
        frame->len += zeros;
    } else {
        frame->failed = false; /* without memory for the zeros the frame is as good */
        zeroed_to = end;
    }

    assert(segment->at + frame->len == zeroed_to);
    segment->is_dirty = true;
    enum status status = io->ops->write(io, segment->file, segment->at, frame->ptr, frame->len);
    if (status != OK) return unless_full(status);
    if (!planted("no_datasync")) status = io->ops->datasync(io, segment->file);
    if (status != OK) return unless_synced(status);

    segment->is_dirty = false;
    segment->at = end;
    if (zeroed_to > segment->zeroed_to) segment->zeroed_to = zeroed_to;
    check(segment);
    return OK;
}

/* The next append overwrites what an earlier one left; only here there is no next one. Without the
 * header the rest is no frame. */
enum status segment_seal(struct io *io, struct segment *segment)
{
    static const uint8_t zeros[FRAME_HEADER_SIZE];
    if (!segment->is_dirty) return OK;
    check(segment);
    assert(segment_has_room(segment, sizeof zeros));
    enum status status = io->ops->write(io, segment->file, segment->at, zeros, sizeof zeros);
    if (status != OK) return unless_full(status);
    status = io->ops->datasync(io, segment->file);
    if (status != OK) return unless_synced(status);
    segment->is_dirty = false;
    return OK;
}

void segment_close(struct io *io, struct segment *segment)
{
    assert(segment->at <= segment->size);
    if (segment->file != NULL) io->ops->close(io, segment->file);
    *segment = (struct segment){0};
}

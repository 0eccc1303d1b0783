/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of segments. Each call opens what it needs and closes it again: the lanes that write,
 * read and remove share nothing but names.
 */
#include "stream/segment.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "store/io.h"

#define SCAN_SIZE ((size_t)256 << 10)

static const uint8_t magic[8] = {'N', 'O', 'R', 'N', 'S', 'T', 'R', 'M'};

static void encode_head(uint8_t out[STREAM_SEGMENT_HEADER_SIZE],
                        const struct stream_segment_head *head)
{
    memset(out, 0, STREAM_SEGMENT_HEADER_SIZE);
    memcpy(out, magic, sizeof magic);
    store_u32(out + 8, STREAM_SEGMENT_VERSION);
    store_u32(out + 12, head->stream);
    store_u32(out + 16, head->partition);
    store_u64(out + 24, head->first);
    store_u64(out + 32, (uint64_t)head->first_time_ns);
    store_u32(out + 44, crc32c(0, out, 44));
}

static enum status open_for_writing(struct io *io, const char *path, struct io_file **file,
                                    bool *is_made)
{
    enum status status = io->ops->open(io, path, IO_WRITE, file);
    if (status != E_NOT_FOUND) return status;
    status = io->ops->open(io, path, IO_CREATE, file);
    if (status == OK) *is_made = true;
    return status;
}

enum status stream_segment_write(struct io *io, const struct stream_segment_head *head,
                                 uint64_t position, struct bytes data, bool *is_made)
{
    char path[STREAM_PATH_SIZE];
    struct io_file *file;

    assert(position >= STREAM_SEGMENT_HEADER_SIZE);
    stream_segment_path(path, head->stream, head->partition, head->first);
    enum status status = open_for_writing(io, path, &file, is_made);
    if (status != OK) return status;
    if (position == STREAM_SEGMENT_HEADER_SIZE) {
        uint8_t header[STREAM_SEGMENT_HEADER_SIZE];
        encode_head(header, head);
        status = io->ops->write(io, file, 0, header, sizeof header);
        *is_made = true; /* perhaps by a try before this one, which did not get to the directory */
    }
    if (status == OK) status = io->ops->write(io, file, position, data.ptr, data.len);
    if (status == OK) status = io->ops->datasync(io, file);
    io->ops->close(io, file);
    return status;
}

static enum status check_head(const uint8_t *raw, size_t size, uint32_t stream, uint32_t partition,
                              uint64_t first, struct stream_segment_head *head)
{
    if (size < STREAM_SEGMENT_HEADER_SIZE) return E_CORRUPT;
    if (memcmp(raw, magic, sizeof magic) != 0) return E_CORRUPT;
    if (load_u32(raw + 44) != crc32c(0, raw, 44)) return E_CORRUPT;
    if (load_u32(raw + 8) != STREAM_SEGMENT_VERSION) return E_VERSION;
    *head = (struct stream_segment_head){
        .stream = load_u32(raw + 12),
        .partition = load_u32(raw + 16),
        .first = load_u64(raw + 24),
        .first_time_ns = (int64_t)load_u64(raw + 32),
    };
    bool is_this = head->stream == stream && head->partition == partition && head->first == first;
    return is_this ? OK : E_CORRUPT;
}

enum status stream_segment_read_head(struct io *io, uint32_t stream, uint32_t partition,
                                     uint64_t first, struct stream_segment_head *head,
                                     uint64_t *size)
{
    char path[STREAM_PATH_SIZE];
    struct io_file *file;
    uint8_t raw[STREAM_SEGMENT_HEADER_SIZE];
    size_t got = 0;

    stream_segment_path(path, stream, partition, first);
    enum status status = io->ops->open(io, path, IO_READ, &file);
    if (status != OK) return status;
    status = io->ops->size(io, file, size);
    if (status == OK) status = io->ops->read(io, file, 0, raw, sizeof raw, &got);
    io->ops->close(io, file);
    return status != OK ? status : check_head(raw, got, stream, partition, first, head);
}

enum status stream_segment_read(struct io *io, uint32_t stream, uint32_t partition, uint64_t first,
                                uint64_t position, void *ptr, size_t len, size_t *got)
{
    char path[STREAM_PATH_SIZE];
    struct io_file *file;

    stream_segment_path(path, stream, partition, first);
    enum status status = io->ops->open(io, path, IO_READ, &file);
    if (status != OK) return status;
    status = io->ops->read(io, file, position, ptr, len, got);
    io->ops->close(io, file);
    return status;
}

/* Messages of the buffer, which begins at scan->position. *needed: more than the buffer has. */
static bool scan_buffer(struct bytes data, uint64_t end, struct mem *mem,
                        struct stream_marks *marks, struct stream_scan *scan, size_t *needed)
{
    struct stream_message message;
    size_t size;

    *needed = 0;
    while (scan->end < end) {
        enum status status = stream_message_read(data, &message, &size);
        if (status == E_NOT_FOUND) *needed = size;
        if (status == OK && message.offset != scan->end) status = E_CORRUPT;
        if (status != OK) return status == E_NOT_FOUND;
        if (marks != NULL) {
            stream_marks_note(mem, marks, message.offset, scan->position, message.time_ns);
        }
        data = bytes_make(data.ptr + size, data.len - size);
        scan->position += size;
        scan->last_time_ns = message.time_ns;
        scan->end++;
    }
    return false;
}

enum status stream_segment_scan(struct io *io, uint32_t stream, uint32_t partition, uint64_t first,
                                uint64_t end, struct buffer *buffer, struct mem *mem,
                                struct stream_marks *marks, struct stream_scan *out)
{
    struct stream_scan scan = {.end = first, .position = STREAM_SEGMENT_HEADER_SIZE};
    size_t needed = SCAN_SIZE;
    bool has_more = true;

    while (has_more && scan.end < end) {
        size_t got = 0;
        size_t len = needed > SCAN_SIZE ? needed : SCAN_SIZE;
        buffer_clear(buffer);
        if (!buffer_reserve(buffer, len)) return E_NOMEM;
        enum status status = stream_segment_read(io, stream, partition, first, scan.position,
                                                 buffer->ptr, len, &got);
        if (status != OK) return status;
        has_more = scan_buffer(bytes_make(buffer->ptr, got), end, mem, marks, &scan, &needed);
        if (got < len) has_more = false; /* the file ends here */
    }
    *out = scan;
    return OK;
}

enum status stream_segment_cut(struct io *io, uint32_t stream, uint32_t partition, uint64_t first,
                               uint64_t position)
{
    char path[STREAM_PATH_SIZE];
    struct io_file *file;

    stream_segment_path(path, stream, partition, first);
    enum status status = io->ops->open(io, path, IO_WRITE, &file);
    if (status != OK) return status;
    status = io->ops->truncate(io, file, position);
    if (status == OK) status = io->ops->datasync(io, file);
    io->ops->close(io, file);
    return status;
}

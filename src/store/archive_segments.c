/* SPDX-License-Identifier: Apache-2.0
 *
 * Blob segments: the format and its two users. All integers are little endian.
 *
 *      segment head   magic u64, version u32, zero u32, number u64
 *      block head     magic u32, CRC32C u32 of all that follows, table size u32, packed size u32,
 *                     raw size u32, number of blobs u32
 *
 * The CRC covers the packed bytes, not the raw ones: damage is found before the decompressor sees
 * it.
 */
#include "store/archive_segments.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/io.h"

#include <inttypes.h>
#include <stdio.h>
#include <zstd.h>

#define SEGMENT_MAGIC UINT64_C(0x424f4c424e524f4e) /* "NORNBLOB" */
#define SEGMENT_VERSION 1
#define BLOCK_MAGIC UINT32_C(0x4b4c424e) /* "NBLK" */
#define CRC_START 8                      /* magic and CRC are not covered */

/* Measured: level 3 saves less than 1 % for about 1 µs more each, level -1 costs 20 %. */
#define ZSTD_LEVEL 1

/* Larger buffers are given back after use, larger blocks are not cached. */
#define BUFFER_SIZE_KEPT ((size_t)256 << 10)

struct block_head {
    uint32_t magic;
    uint32_t crc;
    uint32_t table_size;
    uint32_t packed_size;
    uint32_t raw_size;
    uint32_t blobs_n;
};
_Static_assert(sizeof(struct block_head) == BLOB_BLOCK_HEAD_SIZE, "it is on disk");
_Static_assert(BLOB_SIZE_MAX <= UINT32_MAX, "lengths are stored in 32 bits");
_Static_assert(BLOB_BLOCK_SIZE <= BUFFER_SIZE_KEPT, "an ordinary block keeps its buffer");

void blob_segment_path(char path[static BLOB_PATH_SIZE], const char *directory, uint64_t number)
{
    assert(number > 0);
    int size = snprintf(path, BLOB_PATH_SIZE, "%s/%08" PRIu64 ".blobs", directory, number);
    assert(size > 0);
    assert(size < BLOB_PATH_SIZE);
}

uint64_t blob_segment_number(const char *name)
{
    uint64_t number = 0;
    const char *at = name;

    assert(name != NULL);
    for (; *at >= '0' && *at <= '9'; at++) {
        if (number > UINT64_MAX / 100) return 0;
        number = number * 10 + (uint64_t)(*at - '0');
    }
    return strcmp(at, ".blobs") == 0 ? number : 0;
}

static void segment_head_make(uint8_t head[static BLOB_SEGMENT_HEAD_SIZE], uint64_t number)
{
    assert(number > 0);
    store_u64(head, SEGMENT_MAGIC);
    store_u32(head + 8, SEGMENT_VERSION);
    store_u32(head + 12, 0);
    store_u64(head + 16, number);
}

static bool segment_head_is_valid(const uint8_t head[static BLOB_SEGMENT_HEAD_SIZE],
                                  uint64_t number)
{
    uint8_t expected[BLOB_SEGMENT_HEAD_SIZE];

    segment_head_make(expected, number);
    return memcmp(head, expected, sizeof expected) == 0;
}

static enum status segment_damaged(const char *directory, uint64_t number, uint64_t offset,
                                   const char *what)
{
    char path[BLOB_PATH_SIZE];

    assert(what != NULL);
    blob_segment_path(path, directory, number);
    log_error("archive: %s, offset %" PRIu64 ": %s", path, offset, what);
    return E_CORRUPT;
}

/* Opens a segment whose head is right and which is at least size_min long. */
static enum status segment_open(struct io *io, const char *directory, uint64_t number,
                                enum io_open how, uint64_t size_min, struct io_file **out)
{
    char path[BLOB_PATH_SIZE];
    uint8_t head[BLOB_SEGMENT_HEAD_SIZE];
    struct io_file *file;
    uint64_t size = 0;
    size_t got = 0;

    assert(how != IO_CREATE);
    blob_segment_path(path, directory, number);
    enum status status = io->ops->open(io, path, how, &file);
    if (status == E_NOT_FOUND) return segment_damaged(directory, number, 0, "the file is missing");
    if (status != OK) return status;

    status = io->ops->size(io, file, &size);
    if (status == OK) status = io->ops->read(io, file, 0, head, sizeof head, &got);
    if (status == OK && (got < sizeof head || !segment_head_is_valid(head, number)))
        status = segment_damaged(directory, number, 0, "this is not the head of this segment");
    if (status == OK && size < size_min)
        status = segment_damaged(directory, number, size, "the file ends too early");
    if (status != OK) {
        io->ops->close(io, file);
        return status;
    }
    *out = file;
    return OK;
}

enum status blob_segment_check(struct io *io, const char *directory, uint64_t number, uint64_t size)
{
    struct io_file *file;

    assert(size >= BLOB_SEGMENT_HEAD_SIZE);
    enum status status = segment_open(io, directory, number, IO_READ, size, &file);
    if (status == OK) io->ops->close(io, file);
    return status;
}

static void buffer_trim(struct buffer *b)
{
    buffer_clear(b);
    if (b->size <= BUFFER_SIZE_KEPT) return;
    struct mem *mem = b->mem;
    buffer_release(b);
    buffer_init(b, mem);
    assert(b->len == 0);
}

/* --- writer --- */

/* What holds of a writer with a file between two calls. */
static void writer_check(const struct blob_writer *w)
{
    assert(w->file != NULL);
    assert(w->number > 0);
    assert(w->marked >= BLOB_SEGMENT_HEAD_SIZE);
    assert(w->marked <= w->end);
    assert(w->raw.len <= BLOB_BLOCK_SIZE);
    assert(w->blobs_n > 0 || w->raw.len == 0);
    assert(w->blobs_n > 0 || w->table.len == 0);
}

enum status blob_writer_init(struct blob_writer *w, struct io *io, const char *directory,
                             struct mem *mem)
{
    assert(io != NULL);
    assert(directory != NULL);
    *w = (struct blob_writer){.io = io, .directory = directory, .mem = mem};
    buffer_init(&w->raw, mem);
    buffer_init(&w->table, mem);
    buffer_init(&w->packed, mem);
    w->zstd = ZSTD_createCCtx();
    return w->zstd == NULL ? E_NOMEM : OK;
}

static void writer_close_file(struct blob_writer *w)
{
    if (w->file != NULL) w->io->ops->close(w->io, w->file);
    w->file = NULL;
}

void blob_writer_release(struct blob_writer *w)
{
    writer_close_file(w);
    buffer_release(&w->raw);
    buffer_release(&w->table);
    buffer_release(&w->packed);
    ZSTD_freeCCtx(w->zstd);
    w->zstd = NULL;
}

static void writer_use_file(struct blob_writer *w, struct io_file *file, uint64_t number,
                            uint64_t end)
{
    assert(file != NULL);
    assert(w->blobs_n == 0);
    assert(end >= BLOB_SEGMENT_HEAD_SIZE);
    writer_close_file(w);
    w->file = file;
    w->number = number;
    w->end = end;
    w->marked = end;
    writer_check(w);
}

enum status blob_writer_create(struct blob_writer *w, uint64_t number)
{
    struct io *io = w->io;
    struct io_file *file;
    char path[BLOB_PATH_SIZE];
    uint8_t head[BLOB_SEGMENT_HEAD_SIZE];

    assert(number > w->number);
    blob_segment_path(path, w->directory, number);
    enum status status = io->ops->unlink(io, path);
    if (status != OK && status != E_NOT_FOUND) return status;
    status = io->ops->open(io, path, IO_CREATE, &file);
    if (status != OK) return status;

    segment_head_make(head, number);
    assert(segment_head_is_valid(head, number)); /* as whoever opens it will ask */
    status = io->ops->write(io, file, 0, head, sizeof head);
    if (status == OK) status = io->ops->sync_directory(io, w->directory);
    if (status != OK) {
        io->ops->close(io, file);
        (void)io->ops->unlink(io, path);
        return status;
    }
    writer_use_file(w, file, number, sizeof head);
    return OK;
}

enum status blob_writer_resume(struct blob_writer *w, uint64_t number, uint64_t end)
{
    struct io_file *file;

    assert(w->file == NULL);
    assert(end >= BLOB_SEGMENT_HEAD_SIZE);
    enum status status = segment_open(w->io, w->directory, number, IO_WRITE, end, &file);
    if (status != OK) return status;
    status = w->io->ops->truncate(w->io, file, end);
    if (status != OK) {
        w->io->ops->close(w->io, file);
        return status;
    }
    writer_use_file(w, file, number, end);
    return OK;
}

void blob_writer_mark(struct blob_writer *w)
{
    writer_check(w);
    assert(w->blobs_n == 0);
    w->marked = w->end;
}

void blob_writer_rewind(struct blob_writer *w)
{
    writer_check(w);
    w->blobs_n = 0;
    buffer_trim(&w->raw);
    buffer_trim(&w->table);
    buffer_trim(&w->packed);
    w->end = w->marked;
    /* Only to give space back: what is written next overwrites it anyway, so failing is no harm. */
    (void)w->io->ops->truncate(w->io, w->file, w->marked);
}

static enum status pack(struct blob_writer *w, struct bytes raw)
{
    struct buffer *out = &w->packed;
    size_t prefix_size = BLOB_BLOCK_HEAD_SIZE + w->table.len;

    assert(raw.len > 0);
    assert(raw.len <= BLOB_SIZE_MAX);
    if (w->table.failed) return E_NOMEM;
    buffer_clear(out);
    if (!buffer_reserve(out, prefix_size + ZSTD_compressBound(raw.len))) return E_NOMEM;
    size_t packed_size = ZSTD_compressCCtx(w->zstd, out->ptr + prefix_size, out->size - prefix_size,
                                           raw.ptr, raw.len, ZSTD_LEVEL);
    /* The target is large enough, so nothing but memory can be missing. */
    if (ZSTD_isError(packed_size)) return E_NOMEM;
    assert(packed_size > 0);
    assert(packed_size <= out->size - prefix_size);
    assert(packed_size <= UINT32_MAX);
    assert(w->table.len <= UINT32_MAX);

    struct block_head head = {
        .magic = BLOCK_MAGIC,
        .table_size = (uint32_t)w->table.len,
        .packed_size = (uint32_t)packed_size,
        .raw_size = (uint32_t)raw.len,
        .blobs_n = w->blobs_n,
    };
    memcpy(out->ptr, &head, sizeof head);
    memcpy(out->ptr + sizeof head, w->table.ptr, w->table.len);
    out->len = prefix_size + packed_size;
    head.crc = crc32c(0, out->ptr + CRC_START, out->len - CRC_START);
    memcpy(out->ptr, &head, sizeof head);
    return OK;
}

/* Packs and writes a block whose table is already there. */
static enum status write_block(struct blob_writer *w, struct bytes raw)
{
    assert(w->file != NULL);
    assert(w->blobs_n > 0);
    enum status status = pack(w, raw);
    if (status == OK)
        status = w->io->ops->write(w->io, w->file, w->end, w->packed.ptr, w->packed.len);
    if (status != OK) return status;
    assert(w->packed.len > BLOB_BLOCK_HEAD_SIZE);
    w->end += w->packed.len;
    w->blobs_n = 0;
    buffer_trim(&w->raw);
    buffer_trim(&w->table);
    buffer_trim(&w->packed);
    return OK;
}

enum status blob_writer_flush(struct blob_writer *w)
{
    if (w->blobs_n == 0) return OK;
    if (w->raw.failed) return E_NOMEM;
    assert(w->raw.len > 0);
    return write_block(w, buffer_view(&w->raw));
}

static void collect(struct blob_writer *w, uint64_t owner, struct bytes blob)
{
    assert(blob.len > 0);
    buffer_varint(&w->table, owner);
    buffer_varint(&w->table, blob.len);
    w->blobs_n++;
}

enum status blob_writer_add(struct blob_writer *w, uint64_t owner, struct bytes blob,
                            struct blob_place *place)
{
    writer_check(w);
    assert(blob.len <= BLOB_SIZE_MAX);
    if (blob.len == 0) {
        *place = (struct blob_place){0};
        return OK;
    }
    if (w->raw.len + blob.len > BLOB_BLOCK_SIZE) {
        enum status status = blob_writer_flush(w);
        if (status != OK) return status;
        assert(w->raw.len == 0);
    }
    struct blob_place at = {
        .segment = w->number,
        .block = w->end,
        .offset = (uint32_t)w->raw.len,
        .length = (uint32_t)blob.len,
    };
    collect(w, owner, blob);
    if (blob.len >= BLOB_BLOCK_SIZE) {
        assert(w->blobs_n == 1); /* a block of its own, packed from where it is */
        enum status status = write_block(w, blob);
        if (status != OK) return status;
    } else {
        buffer_append_bytes(&w->raw, blob);
    }
    *place = at;
    return OK;
}

enum status blob_writer_sync(struct blob_writer *w)
{
    writer_check(w);
    enum status status = blob_writer_flush(w);
    if (status != OK) return status;
    assert(w->blobs_n == 0);
    if (w->end == w->marked) return OK;
    status = w->io->ops->datasync(w->io, w->file);
    /* Whatever the reason: the kernel may have dropped what was written (see io.h). */
    return status == OK ? OK : E_IO;
}

/* --- reader --- */

enum status blob_reader_init(struct blob_reader *r, struct io *io, const char *directory,
                             struct mem *mem)
{
    assert(io != NULL);
    assert(directory != NULL);
    *r = (struct blob_reader){.io = io, .directory = directory, .mem = mem};
    buffer_init(&r->packed, mem);
    for (size_t i = 0; i < BLOB_BLOCKS_CACHED; i++) buffer_init(&r->blocks[i].raw, mem);
    r->zstd = ZSTD_createDCtx();
    return r->zstd == NULL ? E_NOMEM : OK;
}

static void reader_close_file(struct blob_reader *r, struct blob_reader_file *slot)
{
    assert((slot->file != NULL) == (slot->number > 0));
    if (slot->file != NULL) r->io->ops->close(r->io, slot->file);
    *slot = (struct blob_reader_file){0};
}

void blob_reader_release(struct blob_reader *r)
{
    for (size_t i = 0; i < BLOB_FILES_OPEN; i++) reader_close_file(r, &r->files[i]);
    for (size_t i = 0; i < BLOB_BLOCKS_CACHED; i++) buffer_release(&r->blocks[i].raw);
    buffer_release(&r->packed);
    ZSTD_freeDCtx(r->zstd);
    r->zstd = NULL;
}

void blob_reader_forget(struct blob_reader *r, uint64_t segment)
{
    assert(segment > 0);
    for (size_t i = 0; i < BLOB_FILES_OPEN; i++) {
        if (r->files[i].number == segment) reader_close_file(r, &r->files[i]);
    }
    for (size_t i = 0; i < BLOB_BLOCKS_CACHED; i++) {
        if (r->blocks[i].number == segment) r->blocks[i].number = 0;
    }
}

static enum status reader_file(struct blob_reader *r, uint64_t number, struct io_file **out)
{
    struct blob_reader_file *oldest = &r->files[0];

    assert(number > 0);
    r->clock++;
    for (size_t i = 0; i < BLOB_FILES_OPEN; i++) {
        struct blob_reader_file *slot = &r->files[i];
        if (slot->number == number) {
            assert(slot->file != NULL);
            slot->used_at = r->clock;
            *out = slot->file;
            return OK;
        }
        if (slot->used_at < oldest->used_at) oldest = slot;
    }
    assert(oldest->used_at < r->clock);
    struct io_file *file;
    enum status status = segment_open(r->io, r->directory, number, IO_READ, 0, &file);
    if (status != OK) return status;
    reader_close_file(r, oldest);
    *oldest = (struct blob_reader_file){.number = number, .file = file, .used_at = r->clock};
    *out = file;
    return OK;
}

/* What must hold before memory is taken for what the head announces: it is not proven by the CRC
 * yet. */
static const char *block_head_damage(const struct block_head *head, uint64_t offset, uint64_t size)
{
    uint64_t body_size = (uint64_t)head->table_size + head->packed_size;

    assert(size >= offset);
    if (offset < BLOB_SEGMENT_HEAD_SIZE || head->magic != BLOCK_MAGIC)
        return "no block begins here";
    if (head->raw_size == 0 || head->raw_size > BLOB_SIZE_MAX) return "the size cannot be";
    if (head->table_size == 0 || head->packed_size == 0) return "the block is empty";
    if (size - offset < sizeof *head + body_size)
        return "the block ends behind the end of the file";
    return NULL;
}

enum status blob_reader_block(struct blob_reader *r, uint64_t segment, uint64_t offset,
                              struct blob_block *out)
{
    struct io *io = r->io;
    struct io_file *file;
    struct block_head head;
    uint64_t size = 0;
    size_t got = 0;

    enum status status = reader_file(r, segment, &file);
    if (status == OK) status = io->ops->size(io, file, &size);
    /* A row may claim any offset, even one that the system refuses to read at. */
    if (status == OK && offset < size)
        status = io->ops->read(io, file, offset, &head, sizeof head, &got);
    if (status != OK) return status;
    if (got < sizeof head)
        return segment_damaged(r->directory, segment, offset, "the file ends before this block");
    const char *damage = block_head_damage(&head, offset, size);
    if (damage != NULL) return segment_damaged(r->directory, segment, offset, damage);

    size_t body_size = (size_t)head.table_size + head.packed_size;
    buffer_trim(&r->packed);
    if (!buffer_reserve(&r->packed, body_size)) return E_NOMEM;
    uint8_t *body = r->packed.ptr;
    status = io->ops->read(io, file, offset + sizeof head, body, body_size, &got);
    if (status != OK) return status;
    uint32_t crc = crc32c(0, (uint8_t *)&head + CRC_START, sizeof head - CRC_START);
    if (got < body_size || crc32c(crc, body, body_size) != head.crc)
        return segment_damaged(r->directory, segment, offset, "the checksum of the block is wrong");

    *out = (struct blob_block){
        .segment = segment,
        .offset = offset,
        .next = offset + sizeof head + body_size,
        .raw_size = head.raw_size,
        .blobs_n = head.blobs_n,
        .table = bytes_make(body, head.table_size),
        .packed = bytes_make(body + head.table_size, head.packed_size),
    };
    assert(out->next > offset); /* who walks the file comes to its end */
    assert(out->next <= size);
    return OK;
}

static void slot_clear(struct blob_reader_block *slot)
{
    slot->number = 0;
    slot->used_at = 0;
    buffer_trim(&slot->raw);
}

/* The slot of this block when it is there, else the least recently used one, emptied. */
static struct blob_reader_block *reader_slot(struct blob_reader *r, uint64_t number,
                                             uint64_t offset, bool *is_hit)
{
    struct blob_reader_block *oldest = &r->blocks[0];
    struct blob_reader_block *found = NULL;

    assert(number > 0);
    for (size_t i = 0; i < BLOB_BLOCKS_CACHED; i++) {
        struct blob_reader_block *slot = &r->blocks[i];
        if (slot->number == number && slot->offset == offset) {
            assert(found == NULL);
            found = slot;
        } else if (slot->raw.size > BUFFER_SIZE_KEPT) {
            slot_clear(slot);
        }
        if (slot->used_at < oldest->used_at) oldest = slot;
    }
    *is_hit = found != NULL;
    if (found == NULL) {
        slot_clear(oldest);
        found = oldest;
    }
    assert(found->used_at <= r->clock);
    found->used_at = ++r->clock;
    return found;
}

static enum status unpack(struct blob_reader *r, const struct blob_block *block,
                          struct blob_reader_block *slot)
{
    assert(slot->number == 0);
    assert(slot->raw.len == 0);
    assert(block->raw_size > 0); /* as block_head_damage() has seen */
    assert(block->raw_size <= BLOB_SIZE_MAX);
    if (!buffer_reserve(&slot->raw, block->raw_size)) return E_NOMEM;
    size_t size = ZSTD_decompressDCtx(r->zstd, slot->raw.ptr, block->raw_size, block->packed.ptr,
                                      block->packed.len);
    if (ZSTD_isError(size) || size != block->raw_size)
        return segment_damaged(r->directory, block->segment, block->offset,
                               "the block cannot be unpacked");
    slot->raw.len = size;
    slot->number = block->segment;
    slot->offset = block->offset;
    return OK;
}

enum status blob_reader_get(struct blob_reader *r, const struct blob_place *place,
                            struct bytes *out)
{
    if (place->length == 0) {
        *out = BYTES_NONE;
        return OK;
    }
    if (place->segment == 0) {
        log_error("archive: %s: a row refers to a snapshot in no segment", r->directory);
        return E_CORRUPT;
    }
    bool is_hit;
    struct blob_reader_block *slot = reader_slot(r, place->segment, place->block, &is_hit);
    if (!is_hit) {
        struct blob_block block;
        enum status status = blob_reader_block(r, place->segment, place->block, &block);
        if (status == OK) status = unpack(r, &block, slot);
        if (status != OK) return status;
    }
    assert(slot->number == place->segment);
    assert(slot->offset == place->block);
    if ((uint64_t)place->offset + place->length > slot->raw.len)
        return segment_damaged(r->directory, place->segment, place->block,
                               "a row refers to more than the block contains");
    *out = bytes_make(slot->raw.ptr + place->offset, place->length);
    return OK;
}

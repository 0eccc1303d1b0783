/* SPDX-License-Identifier: Apache-2.0
 *
 * Single frames of a journal on files, read beside the thread that appends. It has a file of its
 * own open and learns the segments from their names; what it reads is durable already, so nothing
 * of it changes any more.
 *
 * A frame is found by following the headers of its segment. Where every so many frames begin is
 * remembered, because most reads go on where the last one ended, and some come back.
 */
#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "store/io.h"
#include "store/journal_frame.h"
#include "store/journal_segment.h"

#include <stdio.h>
#include <stdlib.h>

#define MARKS_N 1024u
#define DIRECTORY_SIZE_MAX 96

struct frame_mark {
    uint64_t lsn;
    uint64_t at;
};

struct file_reader {
    struct journal_reader reader;
    struct io *io;
    struct mem *mem;
    char directory[DIRECTORY_SIZE_MAX];
    uint64_t *segments; /* first LSNs, in order */
    size_t segments_n;
    size_t segments_max;
    /* the open segment; file NULL = none */
    struct io_file *file;
    uint64_t first_lsn;
    uint32_t seed;
    struct frame_mark marks[MARKS_N]; /* in order; the last is where the next frame begins */
    size_t marks_n;
    uint64_t spacing; /* of the marks but the last, in frames */
};

static const struct journal_reader_ops file_reader_ops;

static struct file_reader *file_reader_of(struct journal_reader *r)
{
    assert(r->ops == &file_reader_ops);
    return container_of(r, struct file_reader, reader);
}

/* ---- which segment ---- */

static enum status add_segment(void *user, const char *name)
{
    struct file_reader *f = user;
    uint64_t first_lsn;
    if (!segment_parse_name(name, &first_lsn)) return OK;
    if (f->segments_n == f->segments_max) {
        size_t wanted = f->segments_max == 0 ? 64 : 2 * f->segments_max;
        uint64_t *segments = mem_resize(f->mem, f->segments, f->segments_max * sizeof *segments,
                                        wanted * sizeof *segments);
        if (segments == NULL) return E_NOMEM;
        f->segments = segments;
        f->segments_max = wanted;
    }
    assert(f->segments_n < f->segments_max);
    f->segments[f->segments_n++] = first_lsn;
    return OK;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static enum status list_segments(struct file_reader *f)
{
    f->segments_n = 0;
    enum status status = f->io->ops->list(f->io, f->directory, add_segment, f);
    if (f->segments_n > 1) qsort(f->segments, f->segments_n, sizeof *f->segments, compare);
    return status;
}

/* The first LSN of the segment that this frame would be in; 0 when none is known. */
static uint64_t segment_of(const struct file_reader *f, uint64_t lsn)
{
    uint64_t found = 0;
    for (size_t n = 0; n < f->segments_n && f->segments[n] <= lsn; n++) found = f->segments[n];
    assert(found <= lsn);
    return found;
}

static void close_segment(struct file_reader *f)
{
    if (f->file != NULL) f->io->ops->close(f->io, f->file);
    f->file = NULL;
}

static enum status open_segment(struct file_reader *f, uint64_t first_lsn)
{
    char path[SEGMENT_PATH_SIZE];
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    struct segment_header header;
    size_t got = 0;

    if (f->file != NULL && f->first_lsn == first_lsn) return OK;
    close_segment(f);
    segment_path(f->directory, first_lsn, path);
    enum status status = f->io->ops->open(f->io, path, IO_READ, &f->file);
    if (status != OK) {
        f->file = NULL;
        return status;
    }
    status = f->io->ops->read(f->io, f->file, 0, bytes, sizeof bytes, &got);
    if (status == OK &&
        (got != sizeof bytes || segment_decode_header(bytes, &header) != SEGMENT_VALID ||
         header.first_lsn != first_lsn)) {
        status = E_CORRUPT;
    }
    if (status != OK) {
        close_segment(f);
        return status;
    }
    assert(f->file != NULL);
    f->first_lsn = first_lsn;
    f->seed = segment_seed(&header);
    f->marks[0] = (struct frame_mark){first_lsn, SEGMENT_HEADER_SIZE};
    f->marks_n = 1;
    f->spacing = 1;
    return OK;
}

/* ---- which frame ---- */

/* Where to begin: the last mark that is not beyond. */
static struct frame_mark mark_before(const struct file_reader *f, uint64_t lsn)
{
    size_t low = 0;
    size_t high = f->marks_n;
    assert(f->marks_n > 0);
    assert(f->marks_n <= MARKS_N);
    assert(f->marks[0].lsn <= lsn);
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (f->marks[middle].lsn <= lsn)
            low = middle;
        else
            high = middle;
    }
    assert(f->marks[low].lsn <= lsn);
    return f->marks[low];
}

/* Every second one is forgotten when there is no room. */
static void mark_add(struct file_reader *f, struct frame_mark mark)
{
    if (mark.lsn < f->marks[f->marks_n - 1].lsn + f->spacing) return;
    assert(mark.at > f->marks[f->marks_n - 1].at); /* as their LSNs are */
    if (f->marks_n == MARKS_N) {
        for (size_t n = 0; n < MARKS_N / 2; n++) f->marks[n] = f->marks[2 * n];
        f->marks_n = MARKS_N / 2;
        f->spacing *= 2;
        if (mark.lsn < f->marks[f->marks_n - 1].lsn + f->spacing) return;
    }
    assert(f->marks_n < MARKS_N);
    f->marks[f->marks_n++] = mark;
}

static enum status read_header(struct file_reader *f, uint64_t at, struct frame_header *out)
{
    uint8_t bytes[FRAME_HEADER_SIZE];
    size_t got = 0;
    assert(f->file != NULL);
    assert(at >= SEGMENT_HEADER_SIZE);
    enum status status = f->io->ops->read(f->io, f->file, at, bytes, sizeof bytes, &got);
    if (status != OK) return status;
    if (got != sizeof bytes) return E_NOT_FOUND;
    return frame_decode_header(bytes, f->seed, out) == FRAME_VALID ? OK : E_NOT_FOUND;
}

static enum status read_payload(struct file_reader *f, uint64_t at,
                                const struct frame_header *header, struct buffer *out)
{
    size_t got = 0;
    if (header->payload_len == 0) return OK;
    if (!buffer_reserve(out, header->payload_len)) return E_NOMEM;
    uint8_t *to = out->ptr + out->len;
    enum status status =
        f->io->ops->read(f->io, f->file, at + FRAME_HEADER_SIZE, to, header->payload_len, &got);
    if (status != OK) return status;
    if (got != header->payload_len) return E_CORRUPT;
    if (!frame_holds(header, bytes_make(to, got))) return E_CORRUPT;
    out->len += got;
    return OK;
}

/* In the open segment. */
static enum status read_frame(struct file_reader *f, uint64_t lsn, struct buffer *out)
{
    struct frame_mark mark = mark_before(f, lsn);
    for (;;) {
        struct frame_header header;
        enum status status = read_header(f, mark.at, &header);
        if (status != OK) return status;
        if (header.lsn != mark.lsn) return E_CORRUPT;
        if (header.lsn == lsn) return read_payload(f, mark.at, &header, out);
        assert(mark.lsn < lsn); /* the mark was not beyond */
        mark.lsn++;
        mark.at += frame_size(header.payload_len);
        mark_add(f, mark);
    }
}

static enum status file_read(struct journal_reader *r, uint64_t lsn, struct buffer *out)
{
    struct file_reader *f = file_reader_of(r);
    enum status status = E_NOT_FOUND;

    assert(lsn > 0);
    /* The list may be old: then the segment is not there any more, or not known yet. */
    for (int attempt = 0; attempt < 2 && status == E_NOT_FOUND; attempt++) {
        uint64_t first_lsn = attempt == 0 ? segment_of(f, lsn) : 0;
        if (first_lsn == 0) {
            status = list_segments(f);
            if (status != OK) return status;
            first_lsn = segment_of(f, lsn);
            if (first_lsn == 0) return E_NOT_FOUND;
        }
        status = open_segment(f, first_lsn);
        if (status == OK) status = read_frame(f, lsn, out);
    }
    return status;
}

static void file_reader_close(struct journal_reader *r)
{
    struct file_reader *f = file_reader_of(r);
    close_segment(f);
    mem_give(f->mem, f->segments, f->segments_max * sizeof *f->segments);
    mem_give(f->mem, f, sizeof *f);
}

static const struct journal_reader_ops file_reader_ops = {
    .read = file_read,
    .close = file_reader_close,
};

enum status journal_file_reader(struct io *io, const char *directory, struct mem *mem,
                                struct journal_reader **out)
{
    struct file_reader *f = mem_take_zero(mem, sizeof *f);
    if (f == NULL) return E_NOMEM;
    f->reader.ops = &file_reader_ops;
    f->io = io;
    f->mem = mem;
    int length = snprintf(f->directory, sizeof f->directory, "%s", directory);
    assert(length > 0);
    assert((size_t)length < sizeof f->directory);
    *out = &f->reader;
    return OK;
}

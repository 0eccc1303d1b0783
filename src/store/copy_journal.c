/* SPDX-License-Identifier: Apache-2.0
 *
 * A journal that grows, copied up to a frame: each segment is walked by its frames, each frame is
 * verified on the way, and behind the last one the copy ends. Nothing that is not durable is read.
 */
#include "store/copy.h"

#include "base/assert.h"
#include "base/mem.h"
#include "store/io.h"
#include "store/journal_frame.h"
#include "store/journal_segment.h"

#include <stdio.h>
#include <stdlib.h>

#define SEGMENTS_N_FIRST 64u
/* Written behind the last frame: a segment is never shorter than its header and some room. */
#define ROOM_SIZE 4096u

struct walk {
    struct copy *copy;
    const char *directory;
    uint64_t upto_lsn;
    uint64_t *segments; /* first LSNs */
    size_t segments_n;
    size_t segments_max;
    struct buffer frame;
    uint64_t next_lsn; /* that is to come; 0 = the first that comes */
};

static enum status add_segment(void *user, const char *name)
{
    struct walk *w = user;
    uint64_t first_lsn;

    if (!segment_parse_name(name, &first_lsn)) return OK;
    if (w->segments_n == w->segments_max) {
        size_t wanted = w->segments_max == 0 ? SEGMENTS_N_FIRST : 2 * w->segments_max;
        uint64_t *segments =
            mem_resize(w->copy->mem, w->segments, w->segments_max * sizeof *segments,
                       wanted * sizeof *segments);
        if (segments == NULL) return E_NOMEM;
        w->segments = segments;
        w->segments_max = wanted;
    }
    assert(w->segments_n < w->segments_max);
    w->segments[w->segments_n++] = first_lsn;
    return OK;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Reads the frame at `at` into w->frame. E_NOT_FOUND: the segment has no more. */
static enum status read_frame(struct walk *w, struct io_file *in, uint64_t at, uint32_t seed)
{
    struct io *io = w->copy->from;
    struct frame_header header;
    size_t got = 0;

    assert(w->next_lsn > 0);
    assert(at >= SEGMENT_HEADER_SIZE);
    buffer_clear(&w->frame);
    if (!buffer_reserve(&w->frame, FRAME_HEADER_SIZE)) return E_NOMEM;
    enum status status = io->ops->read(io, in, at, w->frame.ptr, FRAME_HEADER_SIZE, &got);
    if (status != OK) return status;
    if (got < FRAME_HEADER_SIZE || frame_decode_header(w->frame.ptr, seed, &header) != FRAME_VALID)
        return E_NOT_FOUND;
    if (header.lsn != w->next_lsn) return E_CORRUPT;
    size_t size = (size_t)frame_size(header.payload_len);
    assert(size >= FRAME_HEADER_SIZE + header.payload_len);
    if (!buffer_reserve(&w->frame, size)) return E_NOMEM;
    status = io->ops->read(io, in, at, w->frame.ptr, size, &got);
    if (status != OK) return status;
    if (got < size) return E_CORRUPT;
    w->frame.len = size;
    struct bytes payload = bytes_make(w->frame.ptr + FRAME_HEADER_SIZE, header.payload_len);
    return frame_holds(&header, payload) ? OK : E_CORRUPT;
}

static enum status copy_frames(struct walk *w, struct io_file *in, struct io_file *out)
{
    struct copy *c = w->copy;
    uint8_t head[SEGMENT_HEADER_SIZE];
    static const uint8_t room[ROOM_SIZE];
    struct segment_header header;
    size_t got = 0;

    enum status status = c->from->ops->read(c->from, in, 0, head, sizeof head, &got);
    if (status != OK) return status;
    if (got < sizeof head || segment_decode_header(head, &header) != SEGMENT_VALID)
        return E_CORRUPT;
    if (w->next_lsn == 0) w->next_lsn = header.first_lsn;
    if (header.first_lsn != w->next_lsn) return E_CORRUPT;
    header.size = 0; /* it gets what it needs, and no more */
    segment_encode_header(&header, head);
    status = c->to->ops->write(c->to, out, 0, head, sizeof head);
    uint64_t at = SEGMENT_HEADER_SIZE;
    while (status == OK && w->next_lsn <= w->upto_lsn) {
        if (atomic_load(c->is_cancelled)) return E_CLOSED;
        status = read_frame(w, in, at, segment_seed(&header));
        if (status != OK) break;
        assert(w->frame.len > 0);
        status = c->to->ops->write(c->to, out, at, w->frame.ptr, w->frame.len);
        at += w->frame.len;
        w->next_lsn++;
    }
    if (status == E_NOT_FOUND) status = OK; /* it goes on in the next segment, or it is missed */
    if (status == OK) status = c->to->ops->write(c->to, out, at, room, sizeof room);
    assert(w->next_lsn >= header.first_lsn);
    c->bytes += at;
    return status == OK ? c->to->ops->datasync(c->to, out) : status;
}

static enum status copy_segment(struct walk *w, uint64_t first_lsn)
{
    struct copy *c = w->copy;
    struct io_file *in;
    struct io_file *out;
    char path[SEGMENT_PATH_SIZE];

    segment_path(w->directory, first_lsn, path);
    enum status status = c->from->ops->open(c->from, path, IO_READ, &in);
    if (status == OK) {
        status = c->to->ops->open(c->to, path, IO_CREATE, &out);
        if (status == OK) {
            status = copy_frames(w, in, out);
            c->to->ops->close(c->to, out);
        }
        c->from->ops->close(c->from, in);
    }
    if (status != OK && c->failed[0] == '\0')
        (void)snprintf(c->failed, sizeof c->failed, "%s", path);
    return status;
}

static enum status copy_segments(struct walk *w)
{
    struct io *io = w->copy->from;
    enum status status = io->ops->list(io, w->directory, add_segment, w);

    if (status != OK) return status;
    if (w->segments_n > 1) qsort(w->segments, w->segments_n, sizeof *w->segments, compare);
    /* The first also when it has no frame yet: its header says where the journal goes on. */
    for (size_t i = 0; i < w->segments_n && status == OK; i++) {
        assert(i == 0 || w->segments[i - 1] <= w->segments[i]);
        if (i > 0 && w->segments[i] > w->upto_lsn) break;
        status = copy_segment(w, w->segments[i]);
    }
    if (status != OK) return status;
    return w->upto_lsn == 0 || w->next_lsn == w->upto_lsn + 1 ? OK : E_CORRUPT;
}

enum status copy_journal(struct copy *c, const char *directory, uint64_t upto_lsn)
{
    struct walk w = {.copy = c, .directory = directory, .upto_lsn = upto_lsn};

    buffer_init(&w.frame, c->mem);
    enum status status = copy_directory(c, directory);
    if (status == OK) status = copy_segments(&w);
    if (status == OK) status = copy_synced(c, directory);
    if (status != OK && c->failed[0] == '\0')
        (void)snprintf(c->failed, sizeof c->failed, "%s", directory);
    buffer_release(&w.frame);
    mem_give(c->mem, w.segments, w.segments_max * sizeof *w.segments);
    return status;
}

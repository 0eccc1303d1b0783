/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of the segments of a partition. See segment_file.c for the files.
 */
#include "stream/segment.h"

#include "base/assert.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

#define ROOM_MIN 4u

enum status stream_segments_new(struct mem *mem, struct stream_segments **out)
{
    struct stream_segments *s = mem_take_zero(mem, sizeof *s);
    if (s == NULL) return E_NOMEM;
    s->mem = mem;
    *out = s;
    return OK;
}

static void marks_release(struct mem *mem, struct stream_marks *marks)
{
    mem_give(mem, marks->items, marks->room * sizeof *marks->items);
    *marks = (struct stream_marks){0};
}

void stream_segments_free(struct stream_segments *s)
{
    for (uint32_t i = 0; i < s->n; i++) marks_release(s->mem, &s->items[i].marks);
    mem_give(s->mem, s->items, s->room * sizeof *s->items);
    mem_give(s->mem, s, sizeof *s);
}

enum status stream_segments_make_room(struct stream_segments *s)
{
    if (s->n < s->room) return OK;
    uint32_t room = s->room == 0 ? ROOM_MIN : s->room * 2;
    struct stream_segment *grown =
        mem_resize(s->mem, s->items, s->room * sizeof *grown, room * sizeof *grown);
    if (grown == NULL) return E_NOMEM;
    s->items = grown;
    s->room = room;
    return OK;
}

struct stream_segment *stream_segments_push(struct stream_segments *s)
{
    assert(s->n < s->room);
    s->items[s->n] = (struct stream_segment){0};
    return &s->items[s->n++];
}

enum status stream_segments_insert(struct stream_segments *s, const struct stream_segment *segment)
{
    enum status status = stream_segments_make_room(s);
    if (status != OK) return status;
    uint32_t at = s->n;
    while (at > 0 && s->items[at - 1].first > segment->first) at--;
    if (at > 0 && s->items[at - 1].first == segment->first) return E_EXISTS;
    memmove(s->items + at + 1, s->items + at, (s->n - at) * sizeof *s->items);
    s->items[at] = *segment;
    s->n++;
    s->size += segment->size;
    return OK;
}

void stream_segments_drop_oldest(struct stream_segments *s)
{
    assert(s->n > 0);
    s->size -= s->items[0].size;
    marks_release(s->mem, &s->items[0].marks);
    s->n--;
    memmove(s->items, s->items + 1, s->n * sizeof *s->items);
}

struct stream_segment *stream_segments_find(const struct stream_segments *s, uint64_t offset)
{
    uint32_t low = 0;
    uint32_t high = s->n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (offset < s->items[middle].first)
            high = middle;
        else if (offset >= s->items[middle].end)
            low = middle + 1;
        else
            return &s->items[middle];
    }
    return NULL;
}

void stream_marks_note(struct mem *mem, struct stream_marks *marks, uint64_t offset,
                       uint64_t position, int64_t time_ns)
{
    if (marks->n > 0 && position - marks->items[marks->n - 1].position < STREAM_MARK_EVERY) return;
    if (marks->n == marks->room) {
        uint32_t room = marks->room == 0 ? ROOM_MIN : marks->room * 2;
        struct stream_mark *grown =
            mem_resize(mem, marks->items, marks->room * sizeof *grown, room * sizeof *grown);
        if (grown == NULL) return;
        marks->items = grown;
        marks->room = room;
    }
    marks->items[marks->n++] = (struct stream_mark){offset, position, time_ns};
}

uint64_t stream_segment_position(const struct stream_segment *segment, uint64_t offset,
                                 uint64_t *at_offset)
{
    uint32_t low = 0;
    uint32_t high = segment->marks.n;

    assert(offset >= segment->first);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (segment->marks.items[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    *at_offset = low == 0 ? segment->first : segment->marks.items[low - 1].offset;
    return low == 0 ? STREAM_SEGMENT_HEADER_SIZE : segment->marks.items[low - 1].position;
}

void stream_segment_path(char path[STREAM_PATH_SIZE], uint32_t stream, uint32_t partition,
                         uint64_t first)
{
    int size = snprintf(path, STREAM_PATH_SIZE,
                        STREAM_SEGMENT_DIRECTORY "/%08" PRIx32 "-%04" PRIx32 "-%016" PRIx64, stream,
                        partition, first);
    assert(size > 0);
    assert((unsigned)size < STREAM_PATH_SIZE);
}

static bool parse_hex(const char *text, size_t digits_n, uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < digits_n; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        else
            return false;
    }
    *out = value;
    return true;
}

bool stream_segment_parse(const char *name, uint32_t *stream, uint32_t *partition, uint64_t *first)
{
    uint64_t numbers[2];

    if (strlen(name) != 8 + 1 + 4 + 1 + 16 || name[8] != '-' || name[13] != '-') return false;
    if (!parse_hex(name, 8, &numbers[0]) || !parse_hex(name + 9, 4, &numbers[1])) return false;
    if (!parse_hex(name + 14, 16, first)) return false;
    *stream = (uint32_t)numbers[0];
    *partition = (uint32_t)numbers[1];
    return true;
}

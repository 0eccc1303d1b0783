/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments: where messages are once they have left the journal. A segment is a file of one
 * partition with consecutive messages, named by the number of the stream, the partition and the
 * first offset: segments/<8 hex>-<4 hex>-<16 hex>.
 *
 *   header, 48 bytes: magic NORNSTRM, u32 version, u32 stream, u32 partition, u32 0,
 *                     u64 first offset, i64 time of the first message, u32 0, u32 CRC32C of 0..43
 *   messages (message.h), one after the other
 *
 * In memory a segment costs some dozens of bytes, and 24 more for every 64 KiB of it that was
 * written by this process or read since (marks: where reading may begin).
 */
#ifndef STREAM_SEGMENT_H
#define STREAM_SEGMENT_H

#include "stream/message.h"

struct io;
struct mem;

#define STREAM_SEGMENT_HEADER_SIZE 48u
#define STREAM_SEGMENT_VERSION 1u
#define STREAM_SEGMENT_DIRECTORY "segments"
#define STREAM_MARK_EVERY ((uint64_t)64 << 10)
#define STREAM_PATH_SIZE 48u

struct stream_mark {
    uint64_t offset;
    uint64_t position; /* in the file */
    int64_t time_ns;
};

struct stream_marks {
    struct stream_mark *items; /* ascending */
    uint32_t n;
    uint32_t room;
};

struct stream_segment {
    uint64_t first;
    uint64_t end;  /* offset after its last message */
    uint64_t size; /* of the file */
    int64_t first_time_ns;
    int64_t last_time_ns; /* of its last message, or a later one */
    struct stream_marks marks;
    bool is_marked; /* marks are complete; else reading begins at the front */
};

/* Of one partition, oldest first, without gap. */
struct stream_segments {
    struct mem *mem;
    struct stream_segment *items;
    uint32_t n;
    uint32_t room;
    uint64_t size; /* of all */
    /* Recovery: something is missing or damaged from here on. No harm when the frames behind the
     * snapshot say that the stream was deleted, or this part of it dropped. */
    bool is_damaged;
    uint64_t damaged_at;
};

enum status stream_segments_new(struct mem *mem, struct stream_segments **out);
void stream_segments_free(struct stream_segments *s);
/* E_NOMEM. */
enum status stream_segments_make_room(struct stream_segments *s);
/* Room was made. */
struct stream_segment *stream_segments_push(struct stream_segments *s);
/* Inserts at its place by first; E_NOMEM, E_EXISTS. */
enum status stream_segments_insert(struct stream_segments *s, const struct stream_segment *segment);
void stream_segments_drop_oldest(struct stream_segments *s);
/* The one with this offset; NULL: none. */
struct stream_segment *stream_segments_find(const struct stream_segments *s, uint64_t offset);

/* Remembers a message at this place when the last mark is far enough away. Without memory it is
 * left out: reading begins further in front then. */
void stream_marks_note(struct mem *mem, struct stream_marks *marks, uint64_t offset,
                       uint64_t position, int64_t time_ns);
/* Where to begin reading for this offset, and which offset is there. */
uint64_t stream_segment_position(const struct stream_segment *segment, uint64_t offset,
                                 uint64_t *at_offset);

void stream_segment_path(char path[STREAM_PATH_SIZE], uint32_t stream, uint32_t partition,
                         uint64_t first);
/* False: no segment's name. */
bool stream_segment_parse(const char *name, uint32_t *stream, uint32_t *partition, uint64_t *first);

/* ---- files; in a lane ---- */

struct stream_segment_head {
    uint32_t stream;
    uint32_t partition;
    uint64_t first;
    int64_t first_time_ns;
};

/* Writes data at `position`; at STREAM_SEGMENT_HEADER_SIZE the header too, and the file is made
 * when it is not there (*is_made then: its directory is to be synced). Durable on OK. */
enum status stream_segment_write(struct io *io, const struct stream_segment_head *head,
                                 uint64_t position, struct bytes data, bool *is_made);
/* E_CORRUPT: not this segment. */
enum status stream_segment_read_head(struct io *io, uint32_t stream, uint32_t partition,
                                     uint64_t first, struct stream_segment_head *head,
                                     uint64_t *size);
/* Bytes from position on; fewer at the end of the file. */
enum status stream_segment_read(struct io *io, uint32_t stream, uint32_t partition, uint64_t first,
                                uint64_t position, void *ptr, size_t len, size_t *got);

/* Walks a segment from its front up to the message `end` (not included) or the end of what is
 * valid. buffer: for reading. marks may be NULL. */
struct stream_scan {
    uint64_t end;      /* the offset it came to */
    uint64_t position; /* in the file, after the last message before it */
    int64_t last_time_ns;
};
enum status stream_segment_scan(struct io *io, uint32_t stream, uint32_t partition, uint64_t first,
                                uint64_t end, struct buffer *buffer, struct mem *mem,
                                struct stream_marks *marks, struct stream_scan *out);
/* Cuts what is behind position, durably. */
enum status stream_segment_cut(struct io *io, uint32_t stream, uint32_t partition, uint64_t first,
                               uint64_t position);

#endif

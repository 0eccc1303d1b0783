/* SPDX-License-Identifier: Apache-2.0
 *
 * One file of the journal: "<first LSN, 16 hex digits>.log", preallocated, a header and then frames
 * back to back. Behind the last frame there is nothing but zeros.
 *
 *   offset size
 *        0    8  magic "NORNSEG" and a zero
 *        8    4  format version      (its place, the magic's and the checksum's never change)
 *       12    4  epoch of the last frame before this segment
 *       16    8  first LSN
 *       24    8  chain value that the first frame carries
 *       32    8  time of the last frame before this segment, ns
 *       40   20  zeros
 *       60    4  CRC32C of the 60 bytes above
 *
 * A segment is made in two steps. As the file "spare" it has its blocks and no header; there is
 * always one, made ahead of need, so that a full disk is noticed while there is still a whole
 * segment to work with. When its turn comes it gets its header, is synced, and only then renamed: a
 * file with the name of a segment has always had a whole header on disk.
 */
#ifndef STORE_JOURNAL_SEGMENT_H
#define STORE_JOURNAL_SEGMENT_H

#include "store/journal.h"

struct io_file;

#define SEGMENT_HEADER_SIZE 64
#define SEGMENT_SPARE_NAME "spare"
#define SEGMENT_NAME_SIZE 21 /* 16 digits, ".log", NUL */
#define SEGMENT_PATH_SIZE 160

struct segment_header {
    uint64_t first_lsn;
    uint64_t chain;
    uint32_t epoch_before;
    int64_t time_before_ns;
    uint64_t size; /* that was reserved; a file that is shorter was cut. 0 = not known */
};

enum segment_verdict {
    SEGMENT_VALID,
    SEGMENT_DAMAGED,
    SEGMENT_NEWER, /* whole, and of a format that this program does not know */
};

/* out: SEGMENT_HEADER_SIZE bytes */
void segment_encode_header(const struct segment_header *header, uint8_t *out);
/* at: SEGMENT_HEADER_SIZE bytes. *out is written for SEGMENT_VALID only. */
enum segment_verdict segment_decode_header(const uint8_t *at, struct segment_header *out);

/* What the checksums of this segment's frame headers begin with (see journal_frame.h). */
uint32_t segment_seed(const struct segment_header *header);

/* False when name is not that of a segment. */
bool segment_parse_name(const char *name, uint64_t *first_lsn);
/* directory/<name of the segment>; out: SEGMENT_PATH_SIZE bytes. */
void segment_path(const char *directory, uint64_t first_lsn, char *out);
void segment_spare_path(const char *directory, char *out);

/* An open segment or spare. */
struct segment {
    struct io_file *file; /* NULL: there is none */
    uint32_t seed;
    uint64_t size;      /* of the file */
    uint64_t at;        /* where the next frame goes */
    uint64_t zeroed_to; /* up to here blocks have been written before: see segment_append() */
    bool is_dirty;      /* a write that found no space may have left a part of its frame behind */
};

/* A spare of this size in place of whatever is there under that name. Leaves nothing behind on
 * failure. Nothing is synced: a spare that a crash forgets is made again. */
enum status segment_make_spare(struct io *io, const char *directory, uint64_t size,
                               struct segment *out);

/* Turns the spare into the segment that begins with this header. E_NOSPACE: it is still a spare and
 * the call may be made again; after any other failure its state is unknown. */
enum status segment_promote(struct io *io, const char *directory, struct segment *spare,
                            const struct segment_header *header);

bool segment_has_room(const struct segment *segment, uint64_t size);

/* Makes the file at least this large, with blocks that are really there. E_NOSPACE: as before. */
enum status segment_extend(struct io *io, struct segment *segment, uint64_t size);

/* Writes and syncs `frame`, which holds one whole frame; may append zeros to the buffer. There must
 * be room. E_NOSPACE: nothing has been appended; any other failure: unknown. */
enum status segment_append(struct io *io, struct segment *segment, struct buffer *frame);

/* Before the journal goes on in another segment: no frame that was refused for want of space is
 * left behind the last one. E_NOSPACE: may be tried again; any other failure: unknown. */
enum status segment_seal(struct io *io, struct segment *segment);

void segment_close(struct io *io, struct segment *segment);

#endif

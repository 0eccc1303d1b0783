/* SPDX-License-Identifier: Apache-2.0
 *
 * Blob segments: append-only files that hold the snapshots of archived instances, compressed. The
 * SQL rows beside them say where each blob is, and how much of each segment they still refer to.
 *
 *      segment  =  head, block, block, ...
 *      block    =  head (lengths, CRC32C), table of (owner, length), zstd frame of the blobs
 *
 * Why blocks: one history of 1.5 KiB alone compresses badly; a dozen together to a quarter.
 * Why the table: who moves the living blobs of a sparse segment walks the file and asks for each
 * owner whether it still refers to this place. So the rows need no index by segment.
 *
 * Nothing here is referred to before it was synced, and nothing that is referred to is overwritten.
 * What follows the last referred byte after a crash is cut off by blob_writer_resume().
 */
#ifndef STORE_ARCHIVE_SEGMENTS_H
#define STORE_ARCHIVE_SEGMENTS_H

#include "base/bytes.h"
#include "base/status.h"

struct io;
struct io_file;
struct mem;
struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

/* Raw bytes collected in a block; a larger blob has a block of its own. Measured with histories of
 * 1.4 KiB: 64 KiB would save 32 of 329 bytes for each, but reading one would take 60 µs instead of
 * 20. */
#define BLOB_BLOCK_SIZE ((size_t)16 << 10)
#define BLOB_SIZE_MAX ((size_t)1 << 30)

#define BLOB_SEGMENT_HEAD_SIZE 24
#define BLOB_BLOCK_HEAD_SIZE 24

#define BLOB_PATH_SIZE 256

/* Where a blob is. All zero: an empty blob, which is nowhere. */
struct blob_place {
    uint64_t segment; /* number of the file, from 1 on */
    uint64_t block;   /* offset of the block in the file */
    uint32_t offset;  /* of the blob in the raw bytes of the block */
    uint32_t length;
};

/* "<directory>/00000012.blobs" */
void blob_segment_path(char path[static BLOB_PATH_SIZE], const char *directory, uint64_t number);
/* The number in such a file name (without directory); 0 when it is none. */
uint64_t blob_segment_number(const char *name);

/* OK when the segment is there, is that segment and has at least size bytes; E_CORRUPT (after a log
 * line) or E_IO otherwise. */
enum status blob_segment_check(struct io *io, const char *directory, uint64_t number,
                               uint64_t size);

/* Appends to one segment at a time. Belongs to one thread. */
struct blob_writer {
    struct io *io; /* outlives the writer, as do directory and mem */
    const char *directory;
    struct mem *mem;
    struct io_file *file; /* NULL before the first create or resume */
    uint64_t number;
    uint64_t end;    /* where the next block goes */
    uint64_t marked; /* blob_writer_rewind() goes back to here */
    struct ZSTD_CCtx_s *zstd;
    struct buffer raw;    /* of the block being collected */
    struct buffer table;  /* (owner, length) of its blobs */
    struct buffer packed; /* the block as it is written */
    uint32_t blobs_n;     /* in the block being collected */
};

/* OK or E_NOMEM. */
enum status blob_writer_init(struct blob_writer *w, struct io *io, const char *directory,
                             struct mem *mem);
void blob_writer_release(struct blob_writer *w);

/* Goes on with a new segment; its name is durable on OK. A file of that name that an earlier
 * attempt left is replaced. E_IO, E_NOSPACE, E_NOMEM: the writer is as before. */
enum status blob_writer_create(struct blob_writer *w, uint64_t number);
/* Goes on with an existing segment at `end`, behind everything that is referred to; the rest is cut
 * off. E_CORRUPT when the file is absent, shorter or not a segment. */
enum status blob_writer_resume(struct blob_writer *w, uint64_t number, uint64_t end);

/* Remembers the end. No block is being collected. */
void blob_writer_mark(struct blob_writer *w);
/* Gives up everything since the mark. */
void blob_writer_rewind(struct blob_writer *w);

/* Puts a blob into the block being collected, or begins the next when it would become too large.
 * owner: who will refer to it. *place is final, but can be read only after blob_writer_sync().
 * E_IO, E_NOSPACE, E_NOMEM: rewind. */
enum status blob_writer_add(struct blob_writer *w, uint64_t owner, struct bytes blob,
                            struct blob_place *place);
/* Writes the block being collected. */
enum status blob_writer_flush(struct blob_writer *w);
/* Everything added is durable. E_NOSPACE and E_NOMEM: nothing was synced: rewind. After E_IO
 * nothing is known and the writer must not be used again. */
enum status blob_writer_sync(struct blob_writer *w);

#define BLOB_FILES_OPEN 8
#define BLOB_BLOCKS_CACHED 16

/* Reads blobs; keeps the last blocks and files. Belongs to one thread at a time. */
struct blob_reader {
    struct io *io; /* outlives the reader, as do directory and mem */
    const char *directory;
    struct mem *mem;
    struct ZSTD_DCtx_s *zstd;
    uint64_t clock; /* counts uses, to know the least recently used */
    struct blob_reader_file {
        uint64_t number; /* 0 = unused */
        struct io_file *file;
        uint64_t used_at;
    } files[BLOB_FILES_OPEN];
    struct blob_reader_block {
        uint64_t number; /* 0 = unused */
        uint64_t offset;
        uint64_t used_at;
        struct buffer raw;
    } blocks[BLOB_BLOCKS_CACHED];
    struct buffer packed;
};

/* A block as it is on disk, checked. */
struct blob_block {
    uint64_t segment;
    uint64_t offset;
    uint64_t next; /* offset of the block that follows */
    uint32_t raw_size;
    uint32_t blobs_n;
    struct bytes table;  /* borrowed from the reader until its next call */
    struct bytes packed; /* likewise */
};

/* OK or E_NOMEM. */
enum status blob_reader_init(struct blob_reader *r, struct io *io, const char *directory,
                             struct mem *mem);
void blob_reader_release(struct blob_reader *r);

/* *out is borrowed until the next call with this reader. E_CORRUPT (after a log line that names
 * file and offset) when the file is absent or not what was written; E_IO, E_NOMEM. */
enum status blob_reader_get(struct blob_reader *r, const struct blob_place *place,
                            struct bytes *out);
/* The block at this offset, without unpacking it. Statuses as above. */
enum status blob_reader_block(struct blob_reader *r, uint64_t segment, uint64_t offset,
                              struct blob_block *out);
/* Closes the file and forgets its blocks: it is going to be unlinked. */
void blob_reader_forget(struct blob_reader *r, uint64_t segment);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame on disk: header, payload, zeros up to a multiple of 8. Pure: bytes in, bytes out.
 *
 *   offset size
 *        0    4  magic "NFRM"
 *        4    2  format version      (its place, the magic's and the last checksum's never change,
 *        6    2  kind                 so that an older program can tell "newer" from "damaged")
 *        8    8  LSN
 *       16    8  engine time, ns
 *       24    8  chain: hash of the header of the frame before
 *       32    4  epoch
 *       36    4  length of the payload
 *       40    4  CRC32C of the payload
 *       44    4  CRC32C of the 44 bytes above, begun with the seed of the segment
 *
 * The chain runs over the headers alone: each holds the checksum of its payload, so the payloads
 * are covered without being read twice.
 *
 * The seed comes from the segment's header and cannot be known outside. Without it, a client could
 * put an image of a frame into a payload; after a torn write, recovery would find it behind the
 * damage, take it for a later frame and refuse to start.
 */
#ifndef STORE_JOURNAL_FRAME_H
#define STORE_JOURNAL_FRAME_H

#include "store/journal.h"

#define FRAME_HEADER_SIZE 48
#define FRAME_ALIGNMENT 8

/* kind, number (it is on disk: append, never renumber) */
#define FRAME_KINDS(X) X(FRAME_RECORDS, 1)

enum frame_kind {
#define X(name, number) name = number,
    FRAME_KINDS(X)
#undef X
};

struct frame_header {
    uint64_t lsn;
    int64_t time_ns;
    uint64_t chain;
    uint32_t epoch;
    uint32_t payload_len;
    uint32_t payload_crc;
};

enum frame_verdict {
    FRAME_VALID,
    FRAME_ABSENT,  /* no frame begins here */
    FRAME_DAMAGED, /* the magic is there, the rest does not hold */
    FRAME_NEWER,   /* whole, and of a format or kind that this program does not know */
};

/* Bytes on disk of a frame with such a payload. */
uint64_t frame_size(size_t payload_len);

/* out: FRAME_HEADER_SIZE bytes. The payload is read for its checksum and not copied. */
void frame_encode_header(const struct journal_frame *frame, uint64_t chain, uint32_t seed,
                         uint8_t *out);

/* at: FRAME_HEADER_SIZE bytes. *out is written for FRAME_VALID only. Says nothing of the
 * payload. */
enum frame_verdict frame_decode_header(const uint8_t *at, uint32_t seed, struct frame_header *out);

/* The same without the check of the header, for a segment whose seed is lost; the caller checks the
 * payload instead. False when no frame of a known version begins here. */
bool frame_guess_header(const uint8_t *at, struct frame_header *out);

bool frame_holds(const struct frame_header *header, struct bytes payload);

/* The chain value that the next frame carries; at: FRAME_HEADER_SIZE bytes. */
uint64_t frame_chain_after(const uint8_t *at);

#endif

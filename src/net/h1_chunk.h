/* SPDX-License-Identifier: Apache-2.0
 *
 * A chunked body (RFC 9112, 7.1), read strictly and in any pieces:
 *
 *      size in hex [;name[=value]]* CRLF  that many bytes CRLF      any number of times
 *      0 [;name[=value]]* CRLF  [trailer CRLF]*  CRLF               the end
 *
 * Extensions and trailers mean nothing to us: they are checked, bounded and dropped. Refused are
 * sizes that are not 1 to 16 hex digits (a sign, "0x" or a space around them is none), space
 * around the parts of an extension, lines that end in anything but CRLF, control characters, folded
 * trailers. No I/O, no memory.
 */
#ifndef NET_H1_CHUNK_H
#define NET_H1_CHUNK_H

#include "base/bytes.h"
#include "net/refusal.h"

#define CHUNK_EXTENSIONS_SIZE_MAX (4 * 1024) /* of one body in all; 400 beyond */
#define CHUNK_TRAILERS_SIZE_MAX (8 * 1024)   /* 431 beyond */

enum chunk_phase {
    CHUNK_SIZE,
    CHUNK_NAME_START, /* of an extension */
    CHUNK_NAME,
    CHUNK_VALUE_START,
    CHUNK_VALUE,
    CHUNK_QUOTED,
    CHUNK_ESCAPED,
    CHUNK_QUOTED_END,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER, /* at the start of a line */
    CHUNK_TRAILER_NAME,
    CHUNK_TRAILER_VALUE,
    CHUNK_TRAILER_LF,
    CHUNK_END_LF,
    CHUNK_DONE,
};

struct chunks {
    enum chunk_phase phase;
    uint8_t digits_n;
    uint64_t left;     /* of the chunk */
    uint64_t size_max; /* of the body that is still allowed */
    size_t extensions_size;
    size_t trailers_size;
};

/* size_max: of the decoded body; 413 beyond. */
void chunks_init(struct chunks *c, uint64_t size_max);

/* Decodes in place: `bytes` is what came, and the decoded bytes are written over its start. Takes
 * everything but what stands after the end of the body.
 * Answers REFUSAL_NONE, or why it is refused: BAD_CHUNK, LARGE_BODY or LARGE_HEAD. */
enum http_refusal chunks_read(struct chunks *c, uint8_t *bytes, size_t size, size_t *taken,
                              size_t *made);

static inline bool chunks_are_done(const struct chunks *c) { return c->phase == CHUNK_DONE; }

#endif

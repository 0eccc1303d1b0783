/* SPDX-License-Identifier: Apache-2.0
 *
 * A chunked body: one state for each place where bytes may be cut apart. Only the data of a chunk
 * is moved, as a whole; everything else is looked at byte by byte.
 */
#include "net/h1_chunk.h"

#include "base/assert.h"
#include "net/h1_head.h"

#define DIGITS_N_MAX 16

void chunks_init(struct chunks *c, uint64_t size_max)
{
    *c = (struct chunks){.size_max = size_max};
}

static int hex_value(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
    return -1;
}

static bool is_value(uint8_t byte) { return head_is_value(bytes_make(&byte, 1)); }

static bool is_token(uint8_t byte) { return head_is_token(bytes_make(&byte, 1)); }

static enum http_refusal read_size(struct chunks *c, uint8_t byte)
{
    int value = hex_value(byte);

    if (value >= 0) {
        if (c->digits_n == DIGITS_N_MAX) return REFUSAL_BAD_CHUNK;
        c->digits_n++;
        c->left = c->left << 4 | (uint64_t)value;
        return REFUSAL_NONE;
    }
    if (c->digits_n == 0) return REFUSAL_BAD_CHUNK;
    if (byte != '\r' && byte != ';') return REFUSAL_BAD_CHUNK;
    c->phase = byte == ';' ? CHUNK_NAME_START : CHUNK_SIZE_LF;
    return REFUSAL_NONE;
}

/* Between two parts of an extension. False: neither another part nor the end of the line. */
static bool end_part(struct chunks *c, uint8_t byte)
{
    if (byte == '\r')
        c->phase = CHUNK_SIZE_LF;
    else if (byte == ';')
        c->phase = CHUNK_NAME_START;
    else if (byte == '=' && c->phase == CHUNK_NAME)
        c->phase = CHUNK_VALUE_START;
    else
        return false;
    return true;
}

static bool read_quoted(struct chunks *c, uint8_t byte)
{
    if (c->phase == CHUNK_ESCAPED)
        c->phase = CHUNK_QUOTED;
    else if (byte == '"')
        c->phase = CHUNK_QUOTED_END;
    else if (byte == '\\')
        c->phase = CHUNK_ESCAPED;
    return is_value(byte);
}

static enum http_refusal read_extension(struct chunks *c, uint8_t byte)
{
    bool is_good;

    if (++c->extensions_size > CHUNK_EXTENSIONS_SIZE_MAX) return REFUSAL_BAD_CHUNK;
    if (c->phase == CHUNK_QUOTED || c->phase == CHUNK_ESCAPED) {
        is_good = read_quoted(c, byte);
    } else if (c->phase == CHUNK_VALUE_START && byte == '"') {
        c->phase = CHUNK_QUOTED;
        is_good = true;
    } else if (c->phase != CHUNK_QUOTED_END && is_token(byte)) {
        if (c->phase == CHUNK_NAME_START) c->phase = CHUNK_NAME;
        if (c->phase == CHUNK_VALUE_START) c->phase = CHUNK_VALUE;
        is_good = true;
    } else {
        bool is_start = c->phase == CHUNK_NAME_START || c->phase == CHUNK_VALUE_START;
        is_good = !is_start && end_part(c, byte);
    }
    return is_good ? REFUSAL_NONE : REFUSAL_BAD_CHUNK;
}

static enum http_refusal size_done(struct chunks *c)
{
    c->digits_n = 0;
    if (c->left > c->size_max) return REFUSAL_LARGE_BODY;
    c->size_max -= c->left;
    c->phase = c->left == 0 ? CHUNK_TRAILER : CHUNK_DATA;
    return REFUSAL_NONE;
}

static enum http_refusal read_trailer(struct chunks *c, uint8_t byte)
{
    if (++c->trailers_size > CHUNK_TRAILERS_SIZE_MAX) return REFUSAL_LARGE_HEAD;
    if (c->phase == CHUNK_TRAILER) {
        if (!is_token(byte)) return REFUSAL_BAD_CHUNK;
        c->phase = CHUNK_TRAILER_NAME;
    } else if (c->phase == CHUNK_TRAILER_NAME) {
        if (byte == ':')
            c->phase = CHUNK_TRAILER_VALUE;
        else if (!is_token(byte))
            return REFUSAL_BAD_CHUNK;
    } else if (byte == '\r') {
        c->phase = CHUNK_TRAILER_LF;
    } else if (!is_value(byte)) {
        return REFUSAL_BAD_CHUNK;
    }
    return REFUSAL_NONE;
}

/* A byte that must be this one. */
static enum http_refusal expect(struct chunks *c, uint8_t byte, uint8_t expected,
                                enum chunk_phase next)
{
    c->phase = next;
    return byte == expected ? REFUSAL_NONE : REFUSAL_BAD_CHUNK;
}

/* Anything but data. */
static enum http_refusal read_byte(struct chunks *c, uint8_t byte)
{
    switch (c->phase) {
    case CHUNK_SIZE: return read_size(c, byte);
    case CHUNK_NAME_START:
    case CHUNK_NAME:
    case CHUNK_VALUE_START:
    case CHUNK_VALUE:
    case CHUNK_QUOTED:
    case CHUNK_ESCAPED:
    case CHUNK_QUOTED_END: return read_extension(c, byte);
    case CHUNK_SIZE_LF: return byte == '\n' ? size_done(c) : REFUSAL_BAD_CHUNK;
    case CHUNK_DATA_CR: return expect(c, byte, '\r', CHUNK_DATA_LF);
    case CHUNK_DATA_LF: return expect(c, byte, '\n', CHUNK_SIZE);
    case CHUNK_TRAILER:
        if (byte == '\r') return expect(c, byte, '\r', CHUNK_END_LF);
        return read_trailer(c, byte);
    case CHUNK_TRAILER_NAME:
    case CHUNK_TRAILER_VALUE: return read_trailer(c, byte);
    case CHUNK_TRAILER_LF: return expect(c, byte, '\n', CHUNK_TRAILER);
    case CHUNK_END_LF: return expect(c, byte, '\n', CHUNK_DONE);
    case CHUNK_DATA:
    case CHUNK_DONE: break;
    }
    unreachable("data and what comes after the end are not read byte by byte");
}

enum http_refusal chunks_read(struct chunks *c, uint8_t *bytes, size_t size, size_t *taken,
                              size_t *made)
{
    size_t at = 0;

    *made = 0;
    while (at < size && c->phase != CHUNK_DONE) {
        if (c->phase == CHUNK_DATA) {
            size_t n = c->left < size - at ? (size_t)c->left : size - at;
            memmove(bytes + *made, bytes + at, n);
            *made += n;
            at += n;
            c->left -= n;
            if (c->left == 0) c->phase = CHUNK_DATA_CR;
            continue;
        }
        enum http_refusal refusal = read_byte(c, bytes[at++]);
        if (refusal != REFUSAL_NONE) return refusal;
    }
    assert(*made <= at);
    *taken = at;
    return REFUSAL_NONE;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See json.h.
 */
#include "wire/json.h"

#include "base/assert.h"
#include "base/eight.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void json_init(struct json *j, struct buffer *out) { *j = (struct json){.out = out}; }

static uint64_t level_bit(const struct json *j)
{
    assert(j->depth > 0);
    return (uint64_t)1 << (j->depth - 1);
}

static void append_literal(struct json *j, const char *text)
{
    buffer_append(j->out, text, strlen(text));
}

/* ---- structure ---- */

static void comma(struct json *j)
{
    if ((j->has_items & level_bit(j)) != 0) buffer_u8(j->out, ',');
    j->has_items |= level_bit(j);
}

/* Before every value, scalar or not: is it its turn, and does it need a comma? */
static void value_begin(struct json *j)
{
    assert(!j->is_done);
    if (j->depth == 0) return;
    if ((j->is_object & level_bit(j)) != 0) {
        assert(j->has_key);
        j->has_key = false;
    } else {
        comma(j);
    }
}

static void value_end(struct json *j)
{
    if (j->depth == 0) j->is_done = true;
}

static void open_level(struct json *j, bool is_object)
{
    value_begin(j);
    assert(j->depth < JSON_DEPTH_MAX);
    j->depth++;
    j->has_items &= ~level_bit(j);
    j->is_object &= ~level_bit(j);
    if (is_object) j->is_object |= level_bit(j);
    buffer_u8(j->out, is_object ? '{' : '[');
}

static void close_level(struct json *j, bool is_object)
{
    assert(((j->is_object & level_bit(j)) != 0) == is_object);
    assert(!j->has_key);
    j->depth--;
    buffer_u8(j->out, is_object ? '}' : ']');
    value_end(j);
}

void json_object_begin(struct json *j) { open_level(j, true); }
void json_object_end(struct json *j) { close_level(j, true); }
void json_array_begin(struct json *j) { open_level(j, false); }
void json_array_end(struct json *j) { close_level(j, false); }

/* ---- text ---- */

/* What the second byte of a sequence may be depends on the first; this excludes overlong forms, the
 * surrogates and everything above U+10FFFF. */
static bool second_is_valid(uint8_t first, uint8_t second)
{
    const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

    return second >= low && second <= high;
}

/* How many bytes a character has that begins with this one; 0 when none does. */
static size_t sequence_want(uint8_t first)
{
    if (first < 0x80) return 1;
    if (first < 0xc2) return 0;
    if (first < 0xe0) return 2;
    if (first < 0xf0) return 3;
    return first < 0xf5 ? 4 : 0;
}

/* How many bytes at p (of left > 0) belong together: a whole character, or the longest part of one
 * that is followed by something else. */
static size_t sequence_length(const uint8_t *p, size_t left, bool *is_whole)
{
    const size_t want = sequence_want(p[0]);
    size_t have = 1;

    while (have < want && have < left) {
        const bool is_continued =
            have == 1 ? second_is_valid(p[0], p[1]) : (p[have] & 0xc0) == 0x80;
        if (!is_continued) break;
        have++;
    }
    *is_whole = have == want;
    return have;
}

static void append_escaped(struct json *j, uint8_t byte)
{
    char hex[8];

    switch (byte) {
    case '"': append_literal(j, "\\\""); return;
    case '\\': append_literal(j, "\\\\"); return;
    case '\b': append_literal(j, "\\b"); return;
    case '\f': append_literal(j, "\\f"); return;
    case '\n': append_literal(j, "\\n"); return;
    case '\r': append_literal(j, "\\r"); return;
    case '\t': append_literal(j, "\\t"); return;
    default: break;
    }
    assert(byte < 0x20);
    (void)snprintf(hex, sizeof hex, "\\u%04x", byte);
    append_literal(j, hex);
}

/* As it is: ASCII without control characters, quotes and backslashes. */
static bool is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static bool are_plain(uint64_t word)
{
    return (eight_below(word, 0x20) | eight_not_ascii(word) | eight_equal(word, '"') |
            eight_equal(word, '\\')) == 0;
}

/* Everything that needs no change is appended in runs. */
static void append_string(struct json *j, struct bytes text)
{
    size_t run = 0; /* where the bytes begin that are not yet appended */
    size_t i = 0;

    buffer_u8(j->out, '"');
    while (i < text.len) {
        if (text.len - i >= 8 && are_plain(load_u64(text.ptr + i))) {
            i += 8;
            continue;
        }
        const uint8_t byte = text.ptr[i];
        if (is_plain(byte)) {
            i++;
            continue;
        }
        bool is_whole;
        const size_t len = sequence_length(text.ptr + i, text.len - i, &is_whole);
        const bool is_special = byte < 0x20 || byte == '"' || byte == '\\';

        if (!is_whole || is_special) {
            buffer_append(j->out, text.ptr + run, i - run);
            if (is_whole) {
                append_escaped(j, byte);
            } else {
                append_literal(j, "\xef\xbf\xbd"); /* U+FFFD */
            }
            run = i + len;
        }
        i += len;
    }
    if (run < text.len) buffer_append(j->out, text.ptr + run, text.len - run);
    buffer_u8(j->out, '"');
}

void json_key_bytes(struct json *j, struct bytes key)
{
    assert((j->is_object & level_bit(j)) != 0);
    assert(!j->has_key);
    comma(j);
    append_string(j, key);
    buffer_u8(j->out, ':');
    j->has_key = true;
}

void json_key(struct json *j, const char *key) { json_key_bytes(j, bytes_of_text(key)); }

void json_bytes(struct json *j, struct bytes text)
{
    value_begin(j);
    append_string(j, text);
    value_end(j);
}

void json_text(struct json *j, const char *text) { json_bytes(j, bytes_of_text(text)); }

/* ---- the rest ---- */

static void put_literal(struct json *j, const char *text)
{
    value_begin(j);
    append_literal(j, text);
    value_end(j);
}

void json_int64(struct json *j, int64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRId64, value);
    put_literal(j, text);
}

void json_uint64(struct json *j, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    put_literal(j, text);
}

/* printf writes the decimal point of the locale, which a program that embeds us may have set. It
 * can be more than one byte; all of them together become one '.'. */
static void point_normalise(char *text)
{
    char *to = text;

    for (const char *from = text; *from != 0; from++) {
        const bool is_point = strchr("0123456789+-e", *from) == NULL;
        if (is_point && to > text && to[-1] == '.') continue;
        *to++ = is_point ? '.' : *from;
    }
    *to = 0;
}

void json_double(struct json *j, double value)
{
    char text[40];

    if (!isfinite(value)) {
        json_null(j);
        return;
    }
    /* 15 digits always survive from text to double and back; 17 always say which double it is. */
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    point_normalise(text);
    put_literal(j, text);
}

void json_bool(struct json *j, bool value) { put_literal(j, value ? "true" : "false"); }

void json_null(struct json *j) { put_literal(j, "null"); }

void json_raw(struct json *j, struct bytes value)
{
    assert(value.len > 0);
    value_begin(j);
    buffer_append_bytes(j->out, value);
    value_end(j);
}

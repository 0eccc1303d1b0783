/* SPDX-License-Identifier: Apache-2.0
 *
 * See json_read.h.
 */
#include "wire/json_read.h"

#include "base/assert.h"

struct json_reader json_reader_make(struct bytes text)
{
    static const uint8_t nothing[1];
    const uint8_t *at = text.len == 0 ? nothing : text.ptr; /* no arithmetic with NULL */

    return (struct json_reader){.at = at, .end = at + text.len};
}

static bool fail(struct json_reader *r)
{
    r->failed = true;
    return false;
}

static void skip_space(struct json_reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) {
        r->at++;
    }
}

static bool read_byte(struct json_reader *r, uint8_t byte)
{
    skip_space(r);
    if (r->failed || r->at == r->end || *r->at != byte) return fail(r);
    r->at++;
    return true;
}

static bool read_word(struct json_reader *r, const char *word)
{
    struct bytes wanted = bytes_of_text(word);

    skip_space(r);
    if (r->failed || !bytes_start_with(bytes_make(r->at, (size_t)(r->end - r->at)), wanted)) {
        return fail(r);
    }
    r->at += wanted.len;
    return true;
}

enum json_type json_peek(struct json_reader *r)
{
    skip_space(r);
    if (r->failed || r->at == r->end) return JSON_NONE;
    uint8_t c = *r->at;
    if (c == '{') return JSON_OBJECT;
    if (c == '[') return JSON_ARRAY;
    if (c == '"') return JSON_STRING;
    if (c == 't' || c == 'f') return JSON_BOOL;
    if (c == 'n') return JSON_NULL;
    return c == '-' || (c >= '0' && c <= '9') ? JSON_NUMBER : JSON_NONE;
}

/* ---- objects and arrays ---- */

static uint64_t level_bit(unsigned level) { return UINT64_C(1) << level % 64; }

/* Of the innermost that is open. */
static bool is_in_object(const struct json_reader *r)
{
    unsigned level = r->depth - 1;

    return (r->is_object[level / 64] & level_bit(level)) != 0;
}

bool json_read_begin(struct json_reader *r)
{
    enum json_type type = json_peek(r);

    if (type != JSON_OBJECT && type != JSON_ARRAY) return fail(r);
    if (r->depth == JSON_READ_DEPTH_MAX) return fail(r);
    uint64_t bit = level_bit(r->depth);
    uint64_t *is_object = &r->is_object[r->depth / 64];
    *is_object = type == JSON_OBJECT ? *is_object | bit : *is_object & ~bit;
    r->has_items[r->depth / 64] &= ~bit;
    r->depth++;
    r->at++;
    return true;
}

bool json_read_item(struct json_reader *r)
{
    if (r->failed) return false;
    assert(r->depth > 0);
    uint64_t bit = level_bit(r->depth - 1);
    uint64_t *has_items = &r->has_items[(r->depth - 1) / 64];
    skip_space(r);
    if (r->at == r->end) return fail(r);
    if (*r->at == (is_in_object(r) ? '}' : ']')) {
        r->at++;
        r->depth--;
        return false;
    }
    if ((*has_items & bit) != 0 && !read_byte(r, ',')) return false;
    *has_items |= bit;
    return json_peek(r) != JSON_NONE || fail(r);
}

bool json_read_key(struct json_reader *r, struct buffer *key)
{
    return json_read_string(r, key) && read_byte(r, ':');
}

/* ---- values ---- */

bool json_read_null(struct json_reader *r) { return read_word(r, "null"); }

bool json_read_bool(struct json_reader *r, bool *out)
{
    if (json_peek(r) != JSON_BOOL) return fail(r);
    bool is_true = *r->at == 't';
    if (!read_word(r, is_true ? "true" : "false")) return false;
    *out = is_true;
    return true;
}

static bool is_digit(const struct json_reader *r)
{
    return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

static bool skip_digits(struct json_reader *r)
{
    if (!is_digit(r)) return fail(r);
    while (is_digit(r)) r->at++;
    return true;
}

bool json_read_int64(struct json_reader *r, int64_t *out)
{
    int64_t value = 0;

    if (json_peek(r) != JSON_NUMBER) return fail(r);
    bool is_negative = *r->at == '-';
    if (is_negative) r->at++;
    const uint8_t *first = r->at;
    for (; is_digit(r); r->at++) {
        int64_t digit = *r->at - '0';
        if (__builtin_mul_overflow(value, 10, &value)) return fail(r);
        if (__builtin_add_overflow(value, is_negative ? -digit : digit, &value)) return fail(r);
    }
    if (r->at == first || (*first == '0' && r->at - first > 1)) return fail(r);
    if (r->at < r->end && (*r->at == '.' || *r->at == 'e' || *r->at == 'E')) return fail(r);
    *out = value;
    return true;
}

static bool skip_number(struct json_reader *r)
{
    if (*r->at == '-') r->at++;
    const uint8_t *first = r->at;
    if (!skip_digits(r) || (*first == '0' && r->at - first > 1)) return fail(r);
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!skip_digits(r)) return false;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        return skip_digits(r);
    }
    return true;
}

/* ---- strings ---- */

static bool read_hex4(struct json_reader *r, uint32_t *out)
{
    uint32_t value = 0;

    for (int n = 0; n < 4; n++, r->at++) {
        if (r->at == r->end) return fail(r);
        uint8_t c = *r->at;
        uint32_t digit = 16;
        if (c >= '0' && c <= '9') digit = (uint32_t)(c - '0');
        if (c >= 'a' && c <= 'f') digit = (uint32_t)(c - 'a' + 10);
        if (c >= 'A' && c <= 'F') digit = (uint32_t)(c - 'A' + 10);
        if (digit == 16) return fail(r);
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

static void put_character(struct buffer *out, uint32_t c)
{
    if (c < 0x80) {
        buffer_u8(out, (uint8_t)c);
    } else if (c < 0x800) {
        buffer_u8(out, (uint8_t)(0xc0 | c >> 6));
        buffer_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        buffer_u8(out, (uint8_t)(0xe0 | c >> 12));
        buffer_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
        buffer_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
    } else {
        buffer_u8(out, (uint8_t)(0xf0 | c >> 18));
        buffer_u8(out, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
        buffer_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
        buffer_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
    }
}

/* After "\u". */
static bool read_unicode(struct json_reader *r, struct buffer *out)
{
    uint32_t high;
    uint32_t low;

    if (!read_hex4(r, &high)) return false;
    if (high >= 0xdc00 && high < 0xe000) return fail(r);
    if (high >= 0xd800 && high < 0xdc00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') return fail(r);
        r->at += 2;
        if (!read_hex4(r, &low)) return false;
        if (low < 0xdc00 || low >= 0xe000) return fail(r);
        high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    put_character(out, high);
    return true;
}

/* After the backslash. */
static bool read_escape(struct json_reader *r, struct buffer *out)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";

    if (r->at == r->end) return fail(r);
    uint8_t c = *r->at++;
    if (c == 'u') return read_unicode(r, out);
    const char *name = c == '\0' ? NULL : strchr(names, c);
    if (name == NULL) return fail(r);
    buffer_u8(out, (uint8_t)values[name - names]);
    return true;
}

bool json_read_string(struct json_reader *r, struct buffer *out)
{
    if (!read_byte(r, '"')) return false;
    buffer_clear(out);
    while (r->at < r->end && *r->at != '"') {
        uint8_t c = *r->at;
        if (c < 0x20) return fail(r);
        if (c == '\\') {
            r->at++;
            if (!read_escape(r, out)) return false;
            continue;
        }
        size_t size = bytes_character_size(bytes_make(r->at, (size_t)(r->end - r->at)));
        if (size == 0) return fail(r);
        buffer_append(out, r->at, size);
        r->at += size;
    }
    if (r->at == r->end || out->failed) return fail(r);
    r->at++;
    return true;
}

/* As json_read_string() without keeping it: what an escape says does not matter, only that it is
 * whole. */
static bool skip_string(struct json_reader *r)
{
    for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
        if (*r->at < 0x20) return fail(r);
        if (*r->at == '\\' && ++r->at == r->end) return fail(r);
    }
    if (r->at == r->end) return fail(r);
    r->at++;
    return true;
}

bool json_skip(struct json_reader *r)
{
    unsigned depth = r->depth;

    do {
        bool has_ended = r->depth > depth && !json_read_item(r);
        if (r->failed) return false;
        if (has_ended) continue; /* and the one around it goes on */
        if (r->depth > depth && is_in_object(r)) {
            if (json_peek(r) != JSON_STRING || !skip_string(r) || !read_byte(r, ':')) {
                return fail(r);
            }
        }
        bool is_whole = false;
        switch (json_peek(r)) {
        case JSON_NULL: is_whole = read_word(r, "null"); break;
        case JSON_BOOL: is_whole = read_word(r, *r->at == 't' ? "true" : "false"); break;
        case JSON_NUMBER: is_whole = skip_number(r); break;
        case JSON_STRING: is_whole = skip_string(r); break;
        case JSON_OBJECT:
        case JSON_ARRAY: is_whole = json_read_begin(r); break;
        case JSON_NONE: break;
        }
        if (!is_whole) return fail(r);
    } while (r->depth > depth);
    return true;
}

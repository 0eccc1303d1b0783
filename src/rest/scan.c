/* SPDX-License-Identifier: Apache-2.0
 *
 * See scan.h.
 */
#include "rest/scan.h"

#include "base/eight.h"

struct scan scan_make(struct bytes text)
{
    return (struct scan){.start = text.ptr, .at = text.ptr, .end = text.ptr + text.len};
}

static bool fail(struct scan *s, const char *problem)
{
    if (s->problem == NULL) s->problem = problem;
    return false;
}

uint8_t scan_peek(struct scan *s)
{
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r')) {
        s->at++;
    }
    return s->at < s->end ? *s->at : 0;
}

bool scan_byte(struct scan *s, uint8_t byte, const char *problem)
{
    if (scan_peek(s) != byte || s->at == s->end) return fail(s, problem);
    s->at++;
    return true;
}

/* ---- strings ---- */

static bool is_hex(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* At the backslash. */
static bool scan_escape(struct scan *s)
{
    uint8_t c = s->end - s->at > 1 ? s->at[1] : 0;

    if (c == 'u') {
        for (int n = 2; n < 6; n++) {
            if (s->end - s->at <= n || !is_hex(s->at[n])) {
                return fail(s, "\\u needs four hexadecimal digits");
            }
        }
        s->at += 6;
        return true;
    }
    if (c == 0 || memchr("\"\\/bfnrt", c, 8) == NULL) return fail(s, "there is no such escape");
    s->at += 2;
    return true;
}

/* Over bytes that mean themselves, eight at a time: no quote, backslash or control character. */
static const uint8_t *plain_end(const uint8_t *at, const uint8_t *end)
{
    while (end - at >= 8) {
        uint64_t word = load_u64(at);
        if ((eight_equal(word, '"') | eight_equal(word, '\\') | eight_below(word, 0x20)) != 0)
            break;
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\' && *at >= 0x20) at++;
    return at;
}

bool scan_string(struct scan *s, struct bytes *inner, bool *has_escapes)
{
    if (!scan_byte(s, '"', "a string should begin here")) return false;
    const uint8_t *start = s->at;
    *has_escapes = false;
    for (;;) {
        const uint8_t *at = s->at = plain_end(s->at, s->end);
        if (at == s->end) return fail(s, "the string does not end");
        if (*at == '"') break;
        if (*at < 0x20) return fail(s, "a control character must be written as an escape");
        *has_escapes = true;
        if (!scan_escape(s)) return false;
    }
    *inner = bytes_make(start, (size_t)(s->at - start));
    s->at++;
    return true;
}

static uint32_t hex4(const uint8_t *p)
{
    uint32_t value = 0;

    for (int n = 0; n < 4; n++) {
        uint8_t c = p[n];
        uint32_t digit = c <= '9' ? (uint32_t)(c - '0') : (uint32_t)((c | 0x20) - 'a' + 10);
        value = value << 4 | digit;
    }
    return value;
}

static size_t put_character(uint8_t *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (uint8_t)(0xc0 | c >> 6);
        to[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (uint8_t)(0xe0 | c >> 12);
        to[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        to[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (uint8_t)(0xf0 | c >> 18);
    to[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    to[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    to[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

/* After "\u" at `at`; moves over it, and over the second half of a pair. False: half a pair. */
static bool take_unicode(const uint8_t **at, const uint8_t *end, uint32_t *out)
{
    uint32_t c = hex4(*at);

    *at += 4;
    *out = c;
    if (c < 0xd800 || c >= 0xe000) return true;
    if (c >= 0xdc00 || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u') return false;
    uint32_t low = hex4(*at + 2);
    if (low < 0xdc00 || low >= 0xe000) return false;
    *at += 6;
    *out = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

bool scan_decode(struct bytes inner, struct arena *arena, struct bytes *out, const char **problem)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    uint8_t *to = arena_alloc(arena, inner.len + 1); /* no escape is shorter than what it means */
    size_t len = 0;
    const uint8_t *end = inner.ptr + inner.len;

    *problem = "there is no memory for it";
    if (to == NULL) return false;
    for (const uint8_t *at = inner.ptr; at < end;) {
        uint32_t c;
        if (*at != '\\') {
            to[len++] = *at++;
            continue;
        }
        at += 2;
        if (at[-1] != 'u') {
            const char *name = memchr(names, at[-1], sizeof names - 1);
            to[len++] = (uint8_t)values[name - names];
            continue;
        }
        if (!take_unicode(&at, end, &c)) {
            *problem = "half a surrogate pair is no character";
            return false;
        }
        if (c == 0) {
            *problem = "it has a NUL character";
            return false;
        }
        len += put_character(to + len, c);
    }
    *out = bytes_make(to, len);
    return true;
}

/* ---- the other values ---- */

static bool is_digit(const struct scan *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

static bool scan_digits(struct scan *s)
{
    if (!is_digit(s)) return fail(s, "a digit should be here");
    while (is_digit(s)) s->at++;
    return true;
}

static bool scan_number(struct scan *s)
{
    if (*s->at == '-') s->at++;
    if (s->at < s->end && *s->at == '0') {
        s->at++;
        if (is_digit(s)) return fail(s, "a number does not begin with 0");
    } else if (!scan_digits(s)) {
        return false;
    }
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if (!scan_digits(s)) return false;
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-')) s->at++;
        return scan_digits(s);
    }
    return true;
}

static bool scan_word(struct scan *s, struct bytes word)
{
    if (!bytes_start_with(bytes_make(s->at, (size_t)(s->end - s->at)), word)) {
        return fail(s, "a value should be here");
    }
    s->at += word.len;
    return true;
}

static bool scan_scalar(struct scan *s, uint8_t first)
{
    struct bytes inner;
    bool has_escapes;

    switch (first) {
    case '"': return scan_string(s, &inner, &has_escapes);
    case 't': return scan_word(s, BYTES_LITERAL("true"));
    case 'f': return scan_word(s, BYTES_LITERAL("false"));
    case 'n': return scan_word(s, BYTES_LITERAL("null"));
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return scan_number(s);
    default: return fail(s, "a value should be here");
    }
}

/* The open objects and arrays, outermost first: a bit each. */
struct levels {
    unsigned depth;
    uint64_t is_object[SCAN_DEPTH_MAX / 64]; /* of `depth` levels */
};

static bool scan_open(struct scan *s, struct levels *levels, bool is_object)
{
    if (levels->depth == SCAN_DEPTH_MAX) return fail(s, "this is nested too deeply");
    uint64_t bit = UINT64_C(1) << (levels->depth % 64);
    uint64_t *word = &levels->is_object[levels->depth / 64];
    *word = is_object ? *word | bit : *word & ~bit;
    levels->depth++;
    s->at++;
    return true;
}

static bool is_in_object(const struct levels *levels)
{
    unsigned level = levels->depth - 1;

    return (levels->is_object[level / 64] >> (level % 64) & 1) != 0;
}

static bool scan_key(struct scan *s)
{
    struct bytes inner;
    bool has_escapes;

    return scan_string(s, &inner, &has_escapes) && scan_byte(s, ':', "a ':' should be here");
}

/* A value is complete: closes what ends with it. True: goes on with the next item. */
static bool scan_after(struct scan *s, struct levels *levels)
{
    while (levels->depth > 0) {
        bool is_object = is_in_object(levels);
        uint8_t c = scan_peek(s);
        if (c == ',' && s->at < s->end) {
            s->at++;
            return is_object ? scan_key(s) : true;
        }
        if (c != (is_object ? '}' : ']') || s->at == s->end) {
            return fail(s,
                        is_object ? "a ',' or '}' should be here" : "a ',' or ']' should be here");
        }
        s->at++;
        levels->depth--;
    }
    return false;
}

/* A scalar, an empty object or array, or the beginning of another: is_whole false. */
static bool scan_item(struct scan *s, struct levels *levels, bool *is_whole)
{
    uint8_t c = scan_peek(s);
    bool is_object = c == '{';

    *is_whole = true;
    if (s->at == s->end) return fail(s, "a value should be here");
    if (!is_object && c != '[') return scan_scalar(s, c);
    if (!scan_open(s, levels, is_object)) return false;
    if (scan_peek(s) == (is_object ? '}' : ']')) {
        s->at++;
        levels->depth--;
        return true;
    }
    *is_whole = false;
    return !is_object || scan_key(s);
}

bool scan_value(struct scan *s, struct bytes *raw)
{
    struct levels levels;
    bool is_whole;

    levels.depth = 0;
    (void)scan_peek(s);
    const uint8_t *start = s->at;
    do {
        if (!scan_item(s, &levels, &is_whole)) return false;
    } while (!is_whole || scan_after(s, &levels));
    if (s->problem != NULL) return false;
    *raw = bytes_make(start, (size_t)(s->at - start));
    return true;
}

/* ---- UTF-8 ---- */

size_t utf8_problem_at(struct bytes text)
{
    size_t at = 0;

    while (at < text.len) {
        if (text.len - at >= 8 && (eight_not_ascii(load_u64(text.ptr + at))) == 0) {
            at += 8;
            continue;
        }
        size_t size = text.ptr[at] < 0x80
                          ? 1
                          : bytes_character_size(bytes_make(text.ptr + at, text.len - at));
        if (size == 0) return at;
        at += size;
    }
    return SIZE_MAX;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reading of the head of a request. Refused are: lines that end in LF alone, CR anywhere
 * else, control characters, folded lines, space around a field's name, anything but one space
 * between the parts of the first line, both lengths at once, a length given twice or not in digits,
 * a transfer coding that is not "chunked" alone, and a missing or second Host.
 */
#include "net/h1_head.h"

#include "base/assert.h"
#include "base/eight.h"

/* ---- characters ---- */

enum {
    TOKEN = 1,   /* of a method or a field's name */
    VALUE = 2,   /* of a field's value, and of the first line */
    VISIBLE = 4, /* of a target */
    HOST = 8,    /* of a host with its port */
};
/* What each byte may be part of. */
#define L (TOKEN | VALUE | VISIBLE | HOST)
#define T (TOKEN | VALUE | VISIBLE)
#define H (HOST | VALUE | VISIBLE)
#define M (VALUE | VISIBLE)
#define V VALUE
/* clang-format off */
static const uint8_t classes[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, V, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    V, L, M, T, L, L, L, L, H, H, L, L, H, L, L, M, /*  !"#$%&'()*+,-./ */
    L, L, L, L, L, L, L, L, L, L, H, H, M, H, M, M, /* 0123456789:;<=>? */
    M, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, /* @ABCDEFGHIJKLMNO */
    L, L, L, L, L, L, L, L, L, L, L, H, M, H, T, L, /* PQRSTUVWXYZ[\]^_ */
    T, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, /* `abcdefghijklmno */
    L, L, L, L, L, L, L, L, L, L, L, M, T, M, L, 0, /* pqrstuvwxyz{|}~ */
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V,
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V,
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V,
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V,
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V,
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V,
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V,
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V,
};
/* clang-format on */
#undef L
#undef T
#undef H
#undef M
#undef V

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static bool is_all(struct bytes b, uint8_t class)
{
    for (size_t i = 0; i < b.len; i++) {
        if ((classes[b.ptr[i]] & class) == 0) return false;
    }
    return true;
}

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

bool head_is_word(struct bytes b, const char *word)
{
    for (size_t i = 0; i < b.len; i++) {
        /* A word that is shorter ends with a NUL, which is no byte of a head. */
        if (lower(b.ptr[i]) != (uint8_t)word[i] || word[i] == 0) return false;
    }
    return word[b.len] == 0;
}

bool head_is_value(struct bytes value) { return is_all(value, VALUE); }

bool head_is_token(struct bytes value) { return is_all(value, TOKEN); }

/* ---- the end of the head ---- */

/* Over what may stand in a value, eight bytes at a time; what is left is for the table. */
static size_t skip_values(struct bytes bytes, size_t at, size_t end)
{
    while (end - at >= 8) {
        uint64_t word = load_u64(bytes.ptr + at);
        if ((eight_below(word, 0x20) | eight_equal(word, 0x7f)) != 0) break;
        at += 8;
    }
    while (at < end && (classes[bytes.ptr[at]] & VALUE) != 0) at++;
    return at;
}

enum http_refusal head_find(struct head_search *search, struct bytes bytes, size_t *size)
{
    const size_t end = bytes.len < HEAD_SIZE_MAX ? bytes.len : HEAD_SIZE_MAX;
    size_t at = search->at;

    *size = 0;
    for (;;) {
        at = skip_values(bytes, at, end);
        if (at == end) break;
        if (bytes.ptr[at] != '\r') return REFUSAL_BAD_LINE;
        if (at + 1 == end) break; /* what follows has not come yet */
        if (bytes.ptr[at + 1] != '\n') return REFUSAL_BAD_LINE;
        at += 2;
        if (at - search->line_at == 2) {
            *size = at;
            break;
        }
        search->line_at = at;
    }
    search->at = at;
    if (*size > 0 || bytes.len <= HEAD_SIZE_MAX) return REFUSAL_NONE;
    return search->line_at == 0 ? REFUSAL_LONG_PATH : REFUSAL_LARGE_HEAD;
}

/* ---- the first line ---- */

static struct head_span span(struct bytes head, struct bytes part)
{
    return (struct head_span){(uint16_t)(part.ptr - head.ptr), (uint16_t)part.len};
}

/* What stands before the first `c`, and the rest after it. False when there is none. */
static bool cut(struct bytes *rest, uint8_t c, struct bytes *part)
{
    const uint8_t *at = rest->len == 0 ? NULL : memchr(rest->ptr, c, rest->len);

    if (at == NULL) return false;
    *part = bytes_make(rest->ptr, (size_t)(at - rest->ptr));
    *rest = bytes_make(at + 1, rest->len - part->len - 1);
    return true;
}

/* Paths are long enough to be worth it; what is VISIBLE has no holes in ASCII. */
static bool is_visible(struct bytes b)
{
    size_t at = 0;

    for (; b.len - at >= 8; at += 8) {
        uint64_t word = load_u64(b.ptr + at);
        if ((eight_below(word, 0x21) | eight_not_ascii(word) | eight_equal(word, 0x7f)) != 0)
            return false;
    }
    return is_all(bytes_make(b.ptr + at, b.len - at), VISIBLE);
}

bool head_split_target(struct bytes target, struct bytes *path, struct bytes *query)
{
    if (target.len == 0 || !is_visible(target)) return false;
    if (target.ptr[0] != '/' && !bytes_equal(target, BYTES_LITERAL("*"))) return false;
    if (memchr(target.ptr, '#', target.len) != NULL) return false;
    *query = target;
    if (!cut(query, '?', path)) {
        *path = target;
        *query = bytes_make(target.ptr + target.len, 0);
    }
    return true;
}

/* "/path?query", "*" or "http://host/path". */
static bool parse_target(struct bytes head, struct bytes target, struct head *out)
{
    struct bytes path;
    struct bytes query;

    if (bytes_start_with(target, BYTES_LITERAL("http://"))) {
        struct bytes rest = bytes_make(target.ptr + 7, target.len - 7);
        const uint8_t *slash = rest.len == 0 ? NULL : memchr(rest.ptr, '/', rest.len);
        if (slash == NULL) return false;
        if (!is_all(bytes_make(rest.ptr, (size_t)(slash - rest.ptr)), HOST)) return false;
        target = bytes_make(slash, (size_t)(target.ptr + target.len - slash));
    }
    if (!head_split_target(target, &path, &query)) return false;
    out->path = span(head, path);
    out->query = span(head, query);
    return true;
}

static enum http_refusal parse_first_line(struct bytes head, struct bytes line, struct head *out)
{
    struct bytes method;
    struct bytes target;

    if (!cut(&line, ' ', &method) || !cut(&line, ' ', &target)) return REFUSAL_BAD_FIRST_LINE;
    if (method.len == 0 || !is_all(method, TOKEN)) return REFUSAL_BAD_FIRST_LINE;
    if (!parse_target(head, target, out)) return REFUSAL_BAD_PATH;
    out->method = span(head, method);
    if (line.len != 8 || !bytes_start_with(line, BYTES_LITERAL("HTTP/")) ||
        !is_digit(line.ptr[5]) || line.ptr[6] != '.' || !is_digit(line.ptr[7]))
        return REFUSAL_BAD_FIRST_LINE;
    if (line.ptr[5] != '1' || line.ptr[7] > '1') return REFUSAL_BAD_VERSION;
    out->is_1_0 = line.ptr[7] == '0';
    return REFUSAL_NONE;
}

/* ---- fields ---- */

struct bytes head_trim(struct bytes b)
{
    while (b.len > 0 && (b.ptr[0] == ' ' || b.ptr[0] == '\t')) b = bytes_make(b.ptr + 1, b.len - 1);
    while (b.len > 0 && (b.ptr[b.len - 1] == ' ' || b.ptr[b.len - 1] == '\t')) b.len--;
    return b;
}

bool head_parse_size(struct bytes value, uint64_t *out)
{
    uint64_t size = 0;

    if (value.len == 0 || value.len > 18) return false;
    for (size_t i = 0; i < value.len; i++) {
        if (!is_digit(value.ptr[i])) return false;
        size = size * 10 + (uint64_t)(value.ptr[i] - '0');
    }
    *out = size;
    return true;
}

static bool has_word(struct bytes list, const char *word)
{
    struct bytes part;

    while (cut(&list, ',', &part)) {
        if (head_is_word(head_trim(part), word)) return true;
    }
    return head_is_word(head_trim(list), word);
}

/* What was seen so far; each may be there once. */
struct seen {
    bool has_size;
    bool has_coding;
    bool has_host;
};

static enum http_refusal take_field(struct head *out, struct bytes name, struct bytes value,
                                    struct seen *seen)
{
    if (head_is_word(name, "content-length")) {
        if (seen->has_size || !head_parse_size(value, &out->body_size)) return REFUSAL_BAD_LENGTH;
        seen->has_size = true;
    } else if (head_is_word(name, "transfer-encoding")) {
        /* Another coding around the chunks, or a second field, is read differently by others. */
        if (seen->has_coding || !head_is_word(value, "chunked")) return REFUSAL_BAD_CODING;
        seen->has_coding = true;
    } else if (head_is_word(name, "host")) {
        if (seen->has_host || !is_all(value, HOST)) return REFUSAL_BAD_HOST;
        seen->has_host = true;
    } else if (head_is_word(name, "connection")) {
        if (has_word(value, "close")) out->is_close = true;
    } else if (head_is_word(name, "expect")) {
        if (!head_is_word(value, "100-continue")) return REFUSAL_BAD_EXPECTATION;
        out->is_continue_expected = true;
    }
    return REFUSAL_NONE;
}

static enum http_refusal parse_field(struct bytes head, struct bytes line, struct head *out,
                                     struct seen *seen)
{
    struct bytes name;

    if (!cut(&line, ':', &name)) return REFUSAL_BAD_FIELD;
    /* A folded line starts with a space, and so has no valid name either. */
    if (name.len == 0 || !is_all(name, TOKEN)) return REFUSAL_BAD_FIELD;
    struct bytes value = head_trim(line); /* head_find() has seen that no byte of it is wrong */
    if (out->fields_n == HEAD_FIELDS_N_MAX) return REFUSAL_LARGE_HEAD;
    out->fields[out->fields_n++] = (struct head_field){span(head, name), span(head, value)};
    return take_field(out, name, value, seen);
}

enum http_refusal head_parse(struct bytes head, struct head *out)
{
    struct bytes rest = head;
    struct bytes line;
    struct seen seen = {false, false, false};

    assert(head.len <= HEAD_SIZE_MAX);
    out->fields_n = 0;
    out->body_size = 0;
    out->is_1_0 = out->is_close = out->is_continue_expected = false;
    if (!cut(&rest, '\n', &line) || line.len == 0) return REFUSAL_BAD_FIRST_LINE;
    line.len--; /* head_find() has seen the CR */
    enum http_refusal refusal = parse_first_line(head, line, out);
    while (refusal == REFUSAL_NONE && cut(&rest, '\n', &line) && line.len > 1) {
        line.len--;
        refusal = parse_field(head, line, out, &seen);
    }
    if (refusal != REFUSAL_NONE) return refusal;
    if (seen.has_coding && (seen.has_size || out->is_1_0)) return REFUSAL_TWO_LENGTHS;
    if (!out->is_1_0 && !seen.has_host) return REFUSAL_BAD_HOST;
    out->is_chunked = seen.has_coding;
    if (out->is_1_0) {
        out->is_close = true;
        out->is_continue_expected = false;
    }
    return REFUSAL_NONE;
}

struct bytes head_field_value(const struct head *head, struct bytes bytes, const char *name)
{
    const size_t len = strlen(name);

    for (size_t i = 0; i < head->fields_n; i++) {
        const struct head_field *f = &head->fields[i];
        if (f->name.len != len) continue;
        if (head_is_word(bytes_make(bytes.ptr + f->name.at, f->name.len), name))
            return bytes_make(bytes.ptr + f->value.at, f->value.len);
    }
    return BYTES_NONE;
}

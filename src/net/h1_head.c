/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reading of the head of a request. Refused are: lines that end in LF alone, CR anywhere
 * else, control characters, folded lines, space around a field's name, anything but one space
 * between the parts of the first line, both lengths at once, a length given twice or not in digits,
 * and a missing or second Host.
 */
#include "net/h1_head.h"

#include "base/assert.h"

/* ---- characters ---- */

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static bool is_token(uint8_t c)
{
    if (is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
    return c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool is_visible(uint8_t c) { return c > 0x20 && c < 0x7f; }

static bool is_value(uint8_t c) { return c == '\t' || (c >= 0x20 && c != 0x7f); }

static bool is_all(struct bytes b, bool (*is)(uint8_t))
{
    for (size_t i = 0; i < b.len; i++) {
        if (!is(b.ptr[i])) return false;
    }
    return true;
}

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

static bool is_word(struct bytes b, const char *word)
{
    if (b.len != strlen(word)) return false;
    for (size_t i = 0; i < b.len; i++) {
        if (lower(b.ptr[i]) != (uint8_t)word[i]) return false;
    }
    return true;
}

/* ---- the end of the head ---- */

unsigned head_find(struct head_search *search, struct bytes bytes, size_t *size)
{
    *size = 0;
    for (; search->at < bytes.len; search->at++) {
        size_t at = search->at;
        uint8_t c = bytes.ptr[at];
        bool is_after_cr = at > 0 && bytes.ptr[at - 1] == '\r';
        if (at >= HEAD_SIZE_MAX) return 431;
        if ((c == '\n') != is_after_cr) return 400;
        if (c != '\n' && c != '\r' && !is_value(c)) return 400;
        if (c != '\n') continue;
        if (at - search->line_at == 1) {
            *size = ++search->at;
            return 0;
        }
        search->line_at = at + 1;
    }
    return 0;
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

/* "/path?query", "*" or "http://host/path". */
static bool parse_target(struct bytes head, struct bytes target, struct head *out)
{
    struct bytes path;

    if (target.len == 0 || !is_all(target, is_visible)) return false;
    if (bytes_start_with(target, BYTES_LITERAL("http://"))) {
        struct bytes rest = bytes_make(target.ptr + 7, target.len - 7);
        const uint8_t *slash = rest.len == 0 ? NULL : memchr(rest.ptr, '/', rest.len);
        if (slash == NULL) return false;
        target = bytes_make(slash, (size_t)(target.ptr + target.len - slash));
    }
    if (target.ptr[0] != '/' && !bytes_equal(target, BYTES_LITERAL("*"))) return false;
    if (memchr(target.ptr, '#', target.len) != NULL) return false;
    if (!cut(&target, '?', &path)) {
        path = target;
        target = bytes_make(path.ptr + path.len, 0);
    }
    out->path = span(head, path);
    out->query = span(head, target);
    return true;
}

static unsigned parse_first_line(struct bytes head, struct bytes line, struct head *out,
                                 bool *is_1_0)
{
    struct bytes method;
    struct bytes target;

    if (!cut(&line, ' ', &method) || !cut(&line, ' ', &target)) return 400;
    if (method.len == 0 || !is_all(method, is_token)) return 400;
    if (!parse_target(head, target, out)) return 400;
    out->method = span(head, method);
    if (line.len != 8 || !bytes_start_with(line, BYTES_LITERAL("HTTP/")) ||
        !is_digit(line.ptr[5]) || line.ptr[6] != '.' || !is_digit(line.ptr[7]))
        return 400;
    if (line.ptr[5] != '1') return 505;
    *is_1_0 = line.ptr[7] == '0';
    return 0;
}

/* ---- fields ---- */

static struct bytes trim(struct bytes b)
{
    while (b.len > 0 && (b.ptr[0] == ' ' || b.ptr[0] == '\t')) b = bytes_make(b.ptr + 1, b.len - 1);
    while (b.len > 0 && (b.ptr[b.len - 1] == ' ' || b.ptr[b.len - 1] == '\t')) b.len--;
    return b;
}

static bool parse_size(struct bytes value, uint64_t *out)
{
    uint64_t size = 0;

    if (value.len == 0 || value.len > 18 || !is_all(value, is_digit)) return false;
    for (size_t i = 0; i < value.len; i++) size = size * 10 + (uint64_t)(value.ptr[i] - '0');
    *out = size;
    return true;
}

static bool has_word(struct bytes list, const char *word)
{
    struct bytes part;

    while (cut(&list, ',', &part)) {
        if (is_word(trim(part), word)) return true;
    }
    return is_word(trim(list), word);
}

/* What was seen so far; each may be there once. */
struct seen {
    bool has_size;
    bool has_coding;
    bool has_host;
};

static unsigned take_field(struct head *out, struct bytes name, struct bytes value,
                           struct seen *seen)
{
    if (is_word(name, "content-length")) {
        if (seen->has_size || !parse_size(value, &out->body_size)) return 400;
        seen->has_size = true;
    } else if (is_word(name, "transfer-encoding")) {
        seen->has_coding = true;
    } else if (is_word(name, "host")) {
        if (seen->has_host) return 400;
        seen->has_host = true;
    } else if (is_word(name, "connection")) {
        if (has_word(value, "close")) out->is_close = true;
    } else if (is_word(name, "expect")) {
        if (!is_word(value, "100-continue")) return 417;
        out->is_continue_expected = true;
    }
    return 0;
}

static unsigned parse_field(struct bytes head, struct bytes line, struct head *out,
                            struct seen *seen)
{
    struct bytes name;

    if (!cut(&line, ':', &name)) return 400;
    /* A folded line starts with a space, and so has no valid name either. */
    if (name.len == 0 || !is_all(name, is_token)) return 400;
    struct bytes value = trim(line);
    if (!is_all(value, is_value)) return 400;
    if (out->fields_n == HEAD_FIELDS_N_MAX) return 431;
    out->fields[out->fields_n++] = (struct head_field){span(head, name), span(head, value)};
    return take_field(out, name, value, seen);
}

unsigned head_parse(struct bytes head, struct head *out)
{
    struct bytes rest = head;
    struct bytes line;
    struct seen seen = {false, false, false};
    bool is_1_0 = false;

    assert(head.len <= HEAD_SIZE_MAX);
    out->fields_n = 0;
    out->body_size = 0;
    out->is_close = out->is_continue_expected = false;
    if (!cut(&rest, '\n', &line) || line.len == 0) return 400;
    line.len--; /* head_find() has seen the CR */
    unsigned refusal = parse_first_line(head, line, out, &is_1_0);
    while (refusal == 0 && cut(&rest, '\n', &line) && line.len > 1) {
        line.len--;
        refusal = parse_field(head, line, out, &seen);
    }
    if (refusal != 0) return refusal;
    if (seen.has_coding && (seen.has_size || is_1_0)) return 400;
    if (seen.has_coding) return 501;
    if (!is_1_0 && !seen.has_host) return 400;
    if (is_1_0) {
        out->is_close = true;
        out->is_continue_expected = false;
    }
    return 0;
}

struct bytes head_field_value(const struct head *head, struct bytes bytes, const char *name)
{
    for (size_t i = 0; i < head->fields_n; i++) {
        const struct head_field *f = &head->fields[i];
        if (is_word(bytes_make(bytes.ptr + f->name.at, f->name.len), name))
            return bytes_make(bytes.ptr + f->value.at, f->value.len);
    }
    return BYTES_NONE;
}

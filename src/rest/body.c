/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of requests: objects whose fields are known. One pass over the text; values are pieces of
 * it, and only strings with escapes are copied. Everything that is not understood is refused with
 * its place: a misspelt field that is ignored is found weeks later.
 */
#include "base/nearest.h"
#include "rest/scan.h"
#include "rest/state.h"

#include <stdarg.h>
#include <stdio.h>

#define SHOWN_SIZE_MAX 60

__attribute__((format(printf, 3, 4))) static bool refuse(struct body_error *error, size_t offset,
                                                         const char *format, ...)
{
    va_list arguments;

    error->problem = PROBLEM_BAD_JSON;
    error->offset = offset;
    va_start(arguments, format);
    int n = vsnprintf(error->detail, sizeof error->detail, format, arguments);
    va_end(arguments);
    if (n >= 0 && (size_t)n < sizeof error->detail) {
        (void)snprintf(error->detail + n, sizeof error->detail - (size_t)n, " (at byte %zu)",
                       offset);
    }
    return false;
}

static bool refuse_scan(struct body_error *error, const struct scan *s)
{
    return refuse(error, scan_offset(s), "this is not JSON: %s", s->problem);
}

static int shown(struct bytes text)
{
    return (int)(text.len < SHOWN_SIZE_MAX ? text.len : SHOWN_SIZE_MAX);
}

static bool refuse_field(struct body_error *error, size_t offset, struct bytes name,
                         const struct body_field *fields, size_t fields_n)
{
    struct nearest nearest;

    nearest_init(&nearest, name);
    for (size_t n = 0; n < fields_n; n++) nearest_offer(&nearest, bytes_of_text(fields[n].name));
    if (nearest.best.len == 0) {
        return refuse(error, offset, "there is no field '%.*s' here", shown(name),
                      (const char *)name.ptr);
    }
    return refuse(error, offset, "there is no field '%.*s' here; did you mean '%.*s'?", shown(name),
                  (const char *)name.ptr, (int)nearest.best.len, (const char *)nearest.best.ptr);
}

/* ---- values ---- */

/* A string, decoded when it has escapes. */
static bool take_text(struct scan *s, struct arena *arena, struct bytes *out,
                      struct body_error *error)
{
    size_t offset = scan_offset(s);
    const char *problem;
    bool has_escapes;

    if (!scan_string(s, out, &has_escapes)) return refuse_scan(error, s);
    if (!has_escapes || scan_decode(*out, arena, out, &problem)) return true;
    return refuse(error, offset, "this text cannot be taken: %s", problem);
}

static bool number_of(struct bytes raw, int64_t *out)
{
    bool is_negative = raw.ptr[0] == '-';
    int64_t value = 0;

    for (size_t n = is_negative ? 1 : 0; n < raw.len; n++) {
        if (raw.ptr[n] < '0' || raw.ptr[n] > '9') return false;
        int64_t digit = raw.ptr[n] - '0';
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, is_negative ? -digit : digit, &value)) return false;
    }
    *out = value;
    return true;
}

static const char *const type_words[] = {
    [BODY_TEXT] = "a text",   [BODY_BOOL] = "true or false", [BODY_NUMBER] = "a whole number",
    [BODY_ANY] = "any value", [BODY_OBJECT] = "an object",   [BODY_ARRAY] = "an array",
};

/* The value fits the type; raw is set. */
static bool value_fits(enum body_type type, struct body_value *value)
{
    uint8_t first = value->raw.ptr[0];

    switch (type) {
    case BODY_TEXT: return false; /* those that are one were taken before */
    case BODY_BOOL: value->flag = first == 't'; return first == 't' || first == 'f';
    case BODY_NUMBER:
        return (first == '-' || first <= '9') && number_of(value->raw, &value->number);
    case BODY_ANY: return true;
    case BODY_OBJECT: return first == '{';
    case BODY_ARRAY: return first == '[';
    }
    unreachable("no such type");
}

static bool take_value(struct scan *s, struct arena *arena, const struct body_field *field,
                       struct body_value *value, struct body_error *error)
{
    bool is_text = field->type == BODY_TEXT && scan_peek(s) == '"';

    size_t offset = scan_offset(s);
    value->has = true;
    if (is_text) return take_text(s, arena, &value->text, error);
    if (!scan_value(s, &value->raw)) return refuse_scan(error, s);
    if (field->type != BODY_ANY && value->raw.ptr[0] == 'n') {
        value->has = false;
        return true;
    }
    if (value_fits(field->type, value)) return true;
    return refuse(error, offset, "the field '%s' must be %s", field->name, type_words[field->type]);
}

/* ---- objects ---- */

static bool take_field(struct scan *s, struct arena *arena, const struct body_field *fields,
                       size_t fields_n, struct body_value *values, uint64_t *seen,
                       struct body_error *error)
{
    struct bytes name;
    size_t n = 0;

    (void)scan_peek(s);
    size_t offset = scan_offset(s);
    if (!take_text(s, arena, &name, error)) return false;
    if (!scan_byte(s, ':', "a ':' should be here")) return refuse_scan(error, s);
    while (n < fields_n && !bytes_equal(name, bytes_of_text(fields[n].name))) n++;
    if (n == fields_n) return refuse_field(error, offset, name, fields, fields_n);
    if ((*seen >> n & 1) != 0) {
        return refuse(error, offset, "the field '%s' is there twice", fields[n].name);
    }
    *seen |= UINT64_C(1) << n;
    return take_value(s, arena, &fields[n], &values[n], error);
}

/* An object without any fields has no values. */
static void clear(struct body_value *values, size_t n)
{
    if (n > 0) memset(values, 0, n * sizeof *values);
}

bool body_parse(struct bytes text, struct arena *arena, const struct body_field *fields,
                size_t fields_n, struct body_value *values, struct body_error *error)
{
    struct scan s = scan_make(text);
    size_t bad_at = utf8_problem_at(text);
    uint64_t seen = 0;

    assert(fields_n <= 64);
    clear(values, fields_n);
    if (bad_at != SIZE_MAX) return refuse(error, bad_at, "this is not UTF-8");
    if (!scan_byte(&s, '{', "an object should be here")) return refuse_scan(error, &s);
    if (scan_peek(&s) == '}') {
        s.at++;
    } else {
        do {
            if (!take_field(&s, arena, fields, fields_n, values, &seen, error)) return false;
        } while (scan_peek(&s) == ',' && s.at++ < s.end);
        if (!scan_byte(&s, '}', "a ',' or '}' should be here")) return refuse_scan(error, &s);
    }
    (void)scan_peek(&s);
    if (s.at < s.end) return refuse(error, scan_offset(&s), "there is more behind the object");
    return true;
}

bool body_read(struct ask *ask, struct bytes text, struct arena *arena,
               const struct body_field *fields, size_t fields_n, struct body_value *values)
{
    struct body_error error;

    if (text.len == 0) {
        clear(values, fields_n);
        return true;
    }
    if (body_parse(text, arena, fields, fields_n, values, &error)) return true;
    ask_problem(ask, error.problem, NULL, "%s", error.detail);
    return false;
}

bool body_next_text(struct bytes *rest, struct arena *arena, struct bytes *key, struct bytes *value,
                    struct body_error *error)
{
    struct scan s = scan_make(*rest);

    uint8_t first = scan_peek(&s);
    if (first == '}' || first == 0) return false;
    s.at++; /* '{' or ',' */
    if (scan_peek(&s) == '}') return false;
    if (!take_text(&s, arena, key, error)) return false;
    if (!scan_byte(&s, ':', "a ':' should be here")) return refuse_scan(error, &s);
    if (scan_peek(&s) != '"') {
        return refuse(error, scan_offset(&s), "the value of '%.*s' must be a text", shown(*key),
                      (const char *)key->ptr);
    }
    if (!take_text(&s, arena, value, error)) return false;
    *rest = bytes_make(s.at, (size_t)(s.end - s.at));
    return true;
}

const char *json_check(struct bytes text, struct bytes *raw, size_t *offset)
{
    struct scan s = scan_make(text);
    size_t bad_at = utf8_problem_at(text);

    *offset = bad_at;
    if (bad_at != SIZE_MAX) return "this is not UTF-8";
    if (scan_value(&s, raw)) {
        (void)scan_peek(&s);
        if (s.at == s.end) return NULL;
        s.problem = "there is more behind the value";
    }
    *offset = scan_offset(&s);
    return s.problem;
}

bool body_next_line(struct bytes *rest, struct bytes *line)
{
    while (rest->len > 0) {
        const uint8_t *end = memchr(rest->ptr, '\n', rest->len);
        size_t len = end == NULL ? rest->len : (size_t)(end - rest->ptr);
        size_t over = end == NULL ? len : len + 1;
        *line = bytes_make(rest->ptr, len);
        *rest = bytes_make(rest->ptr + over, rest->len - over);
        if (line->len > 0 && line->ptr[line->len - 1] == '\r') line->len--;
        if (line->len > 0) return true;
    }
    return false;
}

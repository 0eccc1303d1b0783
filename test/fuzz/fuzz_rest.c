/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what clients of the HTTP API send: a JSON value, a body, a time, a path. What one
 * reader of JSON takes, the other must take; what is read must be written the same way.
 */
#include "base/mem.h"
#include "rest/scan.h"
#include "rest/state.h"
#include "wire/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned depth_of(struct bytes text)
{
    unsigned depth = 0, deepest = 0;
    bool is_text = false;

    for (size_t n = 0; n < text.len; n++) {
        uint8_t c = text.ptr[n];
        if (is_text && c == '\\')
            n++;
        else if (c == '"')
            is_text = !is_text;
        else if (!is_text && (c == '{' || c == '['))
            depth++;
        else if (!is_text && (c == '}' || c == ']'))
            depth--;
        if (depth > deepest) deepest = depth;
    }
    return deepest;
}

static void check_value(struct bytes text)
{
    struct bytes raw, again;
    size_t offset;

    if (json_check(text, &raw, &offset) != NULL) {
        assert(offset <= text.len);
        return;
    }
    assert(raw.len > 0 && raw.len <= text.len);
    assert(json_check(raw, &again, &offset) == NULL);
    assert(bytes_equal(raw, again));
    if (depth_of(raw) > JSON_READ_DEPTH_MAX) return;
    struct json_reader r = json_reader_make(raw);
    assert(json_skip(&r));
    assert(r.at == r.end);
}

static void check_body(struct bytes text, struct arena *arena)
{
    static const struct body_field fields[] = {{"name", BODY_TEXT},   {"input", BODY_ANY},
                                               {"tags", BODY_OBJECT}, {"n", BODY_NUMBER},
                                               {"list", BODY_ARRAY},  {"is", BODY_BOOL}};
    struct body_value values[6];
    struct body_error error = {.detail = ""};
    struct bytes key, value;

    if (!body_parse(text, arena, fields, 6, values, &error)) {
        assert(error.offset <= text.len);
        assert(error.detail[0] != '\0');
        return;
    }
    if (values[0].has) assert(bytes_is_utf8(values[0].text));
    if (values[1].has) check_value(values[1].raw);
    if (!values[2].has) return;
    struct bytes rest = values[2].raw;
    while (body_next_text(&rest, arena, &key, &value, &error)) assert(bytes_is_utf8(value));
}

/* More about times is in fuzz_moment. */
static void check_time(struct bytes text)
{
    int64_t ns, ms;
    const int64_t wall_ns = INT64_C(1794744000000000000);

    if (!time_or_ago_read(text, wall_ns, &ns)) return;
    if (duration_parse(text, &ms)) assert(ns <= wall_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_make(data + (size > 0 ? 1 : 0), size > 0 ? size - 1 : 0);
    struct bytes decoded;
    struct arena arena;

    arena_init(&arena, mem_process(), 512);
    switch (size > 0 ? data[0] % 4 : 0) {
    case 0: check_value(text); break;
    case 1: check_body(text, &arena); break;
    case 2: check_time(text); break;
    case 3:
        if (percent_decode(&arena, text, false, &decoded)) {
            assert(bytes_is_utf8(decoded));
            assert(decoded.len <= text.len);
        }
        break;
    }
    arena_release(&arena);
    return 0;
}

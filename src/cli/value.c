/* SPDX-License-Identifier: Apache-2.0
 *
 * See value.h.
 */
#include "cli/value.h"

#include "base/mem.h"
#include "base/moment.h"

/* The value that comes next; moves over it. */
static struct value take(struct json_reader *r)
{
    struct value v = {.type = json_peek(r)};
    const uint8_t *first = r->at;

    if (v.type == JSON_NONE || !json_skip(r)) return VALUE_NONE;
    v.raw = bytes_make(first, (size_t)(r->at - first));
    return v;
}

struct value value_parse(struct bytes text, size_t *at)
{
    struct json_reader r = json_reader_make(text);
    struct value v = take(&r);

    if (v.type != JSON_NONE && json_peek(&r) == JSON_NONE && r.at == r.end) return v;
    if (at != NULL) *at = text.len - (size_t)(r.end - r.at);
    return VALUE_NONE;
}

static struct value member(struct value object, struct bytes name)
{
    struct json_reader r = json_reader_make(object.raw);
    struct value found = VALUE_NONE;
    struct buffer key;

    if (object.type != JSON_OBJECT) return VALUE_NONE;
    buffer_init(&key, mem_process());
    (void)json_read_begin(&r);
    while (found.type == JSON_NONE && json_read_item(&r) && json_read_key(&r, &key)) {
        struct value v = take(&r);
        if (bytes_equal(buffer_view(&key), name)) found = v;
    }
    buffer_release(&key);
    return found;
}

struct value value_member(struct value object, const char *path)
{
    while (*path != '\0') {
        size_t len = strcspn(path, ".");
        object = member(object, bytes_make(path, len));
        path += len;
        path += *path == '.';
    }
    return object;
}

struct value_cursor value_begin(struct value whole)
{
    struct value_cursor cursor = {.is_object = whole.type == JSON_OBJECT};

    if (whole.type == JSON_OBJECT || whole.type == JSON_ARRAY) {
        cursor.reader = json_reader_make(whole.raw);
        cursor.is_begun = json_read_begin(&cursor.reader);
    }
    return cursor;
}

bool value_next(struct value_cursor *cursor, struct arena *arena)
{
    struct buffer key;
    bool is_there = true;

    cursor->key = NULL;
    if (!cursor->is_begun || cursor->reader.depth == 0 || !json_read_item(&cursor->reader))
        return false;
    if (cursor->is_object) {
        buffer_init(&key, mem_process());
        is_there = json_read_key(&cursor->reader, &key);
        if (is_there && arena != NULL) cursor->key = arena_text(arena, buffer_view(&key));
        buffer_release(&key);
    }
    cursor->value = is_there ? take(&cursor->reader) : VALUE_NONE;
    return is_there && cursor->value.type != JSON_NONE;
}

size_t value_count(struct value whole)
{
    struct value_cursor cursor = value_begin(whole);
    size_t n = 0;

    while (value_next(&cursor, NULL)) n++;
    return n;
}

const char *value_text(struct arena *arena, struct value v)
{
    struct json_reader r = json_reader_make(v.raw);
    const char *text = NULL;

    if (v.type == JSON_NONE || v.type == JSON_NULL) return "";
    if (v.type == JSON_STRING) {
        struct buffer buffer;
        buffer_init(&buffer, mem_process());
        if (json_read_string(&r, &buffer)) text = arena_text(arena, buffer_view(&buffer));
        buffer_release(&buffer);
    }
    if (text == NULL) text = arena_text(arena, v.raw); /* also a string that is no UTF-8 */
    return text == NULL ? "" : text;
}

const char *member_text(struct arena *arena, struct value object, const char *path)
{
    return value_text(arena, value_member(object, path));
}

bool value_int64(struct value v, int64_t *out)
{
    struct json_reader r = json_reader_make(v.raw);

    return v.type == JSON_NUMBER && json_read_int64(&r, out);
}

int64_t member_int64(struct value object, const char *path, int64_t otherwise)
{
    (void)value_int64(value_member(object, path), &otherwise);
    return otherwise;
}

bool member_is_true(struct value object, const char *path)
{
    return bytes_equal(value_member(object, path).raw, BYTES_LITERAL("true"));
}

bool value_time(struct arena *arena, struct value v, int64_t *out_ns)
{
    return v.type == JSON_STRING && time_parse(bytes_of_text(value_text(arena, v)), out_ns);
}

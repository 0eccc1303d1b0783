/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as JSON: bodies of HTTP requests, settings, saved histories. To skip a text and to read
 * it value by value must agree on whether it is JSON; what was read and written again must be
 * JSON, and the same values. Strings that were read are UTF-8 and never longer than the text.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "wire/json.h"
#include "wire/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct walk {
    struct json_reader r;
    struct json out;
    struct buffer text; /* of the last string */
    bool is_part; /* a number that is not whole or what is too deep was left out: no comparison */
};

static void walk_value(struct walk *w);

static void walk_string(struct walk *w)
{
    size_t left = (size_t)(w->r.end - w->r.at);

    if (!json_read_string(&w->r, &w->text)) return;
    assert(w->text.len <= left);
    assert(bytes_is_utf8(buffer_view(&w->text)));
    json_bytes(&w->out, buffer_view(&w->text));
}

static void walk_number(struct walk *w)
{
    struct json_reader again = w->r;
    int64_t number = 0;

    if (json_read_int64(&again, &number)) {
        w->r = again;
        json_int64(&w->out, number);
        return;
    }
    w->is_part = true;
    (void)json_skip(&w->r);
    json_int64(&w->out, 0);
}

static void walk_items(struct walk *w, bool is_object)
{
    if (w->out.depth == JSON_DEPTH_MAX) { /* nobody writes that deep: what is read is copied */
        w->is_part = true;
        (void)json_skip(&w->r);
        json_null(&w->out);
        return;
    }
    if (!json_read_begin(&w->r)) return;
    if (is_object)
        json_object_begin(&w->out);
    else
        json_array_begin(&w->out);
    while (json_read_item(&w->r)) {
        if (is_object) {
            if (!json_read_key(&w->r, &w->text)) return;
            assert(bytes_is_utf8(buffer_view(&w->text)));
            json_key_bytes(&w->out, buffer_view(&w->text));
        }
        walk_value(w);
        if (w->r.failed) return;
    }
    if (w->r.failed) return;
    if (is_object)
        json_object_end(&w->out);
    else
        json_array_end(&w->out);
}

static void walk_value(struct walk *w)
{
    bool is_true = false;

    switch (json_peek(&w->r)) {
    case JSON_NONE: (void)json_skip(&w->r); break;
    case JSON_NULL:
        if (json_read_null(&w->r)) json_null(&w->out);
        break;
    case JSON_BOOL:
        if (json_read_bool(&w->r, &is_true)) json_bool(&w->out, is_true);
        break;
    case JSON_NUMBER: walk_number(w); break;
    case JSON_STRING: walk_string(w); break;
    case JSON_OBJECT: walk_items(w, true); break;
    case JSON_ARRAY: walk_items(w, false); break;
    }
}

static bool is_json(struct bytes text)
{
    struct json_reader r = json_reader_make(text);

    return json_skip(&r) && json_peek(&r) == JSON_NONE && !r.failed && r.at == r.end;
}

/* Reads text and writes what it has to out; false: it is not JSON. */
static bool rewrite(struct bytes text, struct buffer *out, struct mem *mem, bool *is_part)
{
    struct walk w = {.r = json_reader_make(text)};

    buffer_init(&w.text, mem);
    json_init(&w.out, out);
    walk_value(&w);
    bool is_read = !w.r.failed && json_peek(&w.r) == JSON_NONE && w.r.at == w.r.end;
    *is_part = w.is_part;
    buffer_release(&w.text);
    return is_read;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_make(data, size);
    struct buffer once, twice;
    struct mem mem;
    bool is_part = false;

    mem_init(&mem, SIZE_MAX);
    buffer_init(&once, &mem);
    buffer_init(&twice, &mem);
    bool is_read = rewrite(text, &once, &mem, &is_part);
    /* a string that is only skipped is not decoded: half a surrogate pair may pass there */
    if (is_read) {
        assert(is_json(text));
        assert(is_json(buffer_view(&once)));
        bool is_again = rewrite(buffer_view(&once), &twice, &mem, &is_part);
        assert(is_again);
        assert(bytes_equal(buffer_view(&once), buffer_view(&twice)));
    }
    buffer_release(&once);
    buffer_release(&twice);
    mem_release(&mem);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See sse.h.
 */
#include "cli/sse.h"

#include "base/mem.h"

#include <stdio.h>

#define EVENT_SIZE_MAX ((size_t)64 << 20)

void sse_init(struct sse_reader *r, struct http_client *client)
{
    *r = (struct sse_reader){.client = client};
    buffer_init(&r->text, client->mem);
    buffer_init(&r->data, client->mem);
}

void sse_release(struct sse_reader *r)
{
    buffer_release(&r->text);
    buffer_release(&r->data);
}

/* The next whole line, without its end; false: more must be received. */
static bool take_line(struct sse_reader *r, struct bytes *line)
{
    uint8_t *first = r->text.ptr + r->at;
    uint8_t *end = r->text.len > r->at ? memchr(first, '\n', r->text.len - r->at) : NULL;

    if (end == NULL) return false;
    size_t len = (size_t)(end - first);
    r->at += len + 1;
    *line = bytes_make(first, len > 0 && first[len - 1] == '\r' ? len - 1 : len);
    return true;
}

static void take_field(struct sse_reader *r, struct bytes line)
{
    const uint8_t *colon = memchr(line.ptr, ':', line.len);
    size_t name_len = colon == NULL ? line.len : (size_t)(colon - line.ptr);
    struct bytes name = bytes_make(line.ptr, name_len);
    struct bytes value = BYTES_NONE;

    if (colon != NULL) value = bytes_make(colon + 1, line.len - name_len - 1);
    if (value.len > 0 && value.ptr[0] == ' ') value = bytes_make(value.ptr + 1, value.len - 1);
    if (bytes_equal(name, BYTES_LITERAL("data"))) {
        if (r->data.len > 0) buffer_u8(&r->data, '\n');
        buffer_append_bytes(&r->data, value);
    } else if (bytes_equal(name, BYTES_LITERAL("id"))) {
        (void)snprintf(r->id, sizeof r->id, "%.*s", (int)value.len, (const char *)value.ptr);
    } else if (bytes_equal(name, BYTES_LITERAL("event"))) {
        (void)snprintf(r->event, sizeof r->event, "%.*s", (int)value.len, (const char *)value.ptr);
    }
}

/* True when an event is complete. */
static bool take_lines(struct sse_reader *r)
{
    struct bytes line;

    while (take_line(r, &line)) {
        if (line.len > 0)
            take_field(r, line);
        else if (r->data.len > 0 || r->event[0] != '\0')
            return true;
    }
    return false;
}

enum status sse_next(struct sse_reader *r, struct sse_event *out, int64_t timeout_ms)
{
    /* what a time-out interrupted goes on */
    if (r->is_given) {
        buffer_clear(&r->data);
        r->event[0] = '\0';
        r->is_given = false;
    }
    while (!take_lines(r)) {
        if (r->is_end) return E_CLOSED;
        if (r->text.len - r->at > EVENT_SIZE_MAX || r->data.len > EVENT_SIZE_MAX) return E_LIMIT;
        /* what was read makes room for what comes */
        if (r->at > 0) memmove(r->text.ptr, r->text.ptr + r->at, r->text.len - r->at);
        r->text.len -= r->at;
        r->at = 0;
        enum status status = http_client_read(r->client, &r->text, &r->is_end, timeout_ms);
        if (status != OK) return status;
    }
    r->is_given = true;
    *out = (struct sse_event){r->id, r->event[0] == '\0' ? "message" : r->event,
                              buffer_view(&r->data)};
    return OK;
}

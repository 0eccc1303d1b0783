/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of answers in HTTP/1.1. Put together by hand: this is done a hundred thousand times a
 * second.
 */
#include "base/mem.h"
#include "net/h1_state.h"

#define HEAD_ROOM 512 /* first line and fields of the layer, but for the type */

static void append_text(struct buffer *b, const char *text)
{
    buffer_append(b, text, strlen(text));
}

static void append_digits(struct buffer *b, uint64_t value)
{
    char digits[DIGITS_SIZE];

    buffer_append(b, digits, http_digits(value, digits));
}

/* Half an answer would be taken for a whole one: none at all. */
static void check_written(struct h1 *h1)
{
    if (!h1->out.failed && !h1->exchange.fields.failed) return;
    buffer_release(&h1->out);
    h1->is_over = true;
    h1->counters->out_of_memory++;
}

static void write_first_line(struct buffer *out, unsigned status)
{
    append_text(out, "HTTP/1.1 ");
    append_digits(out, status);
    buffer_u8(out, ' ');
    append_text(out, http_status_reason(status));
    append_text(out, "\r\n");
}

static void write_type(struct buffer *out, const char *type)
{
    if (type == NULL) return;
    append_text(out, "content-type: ");
    append_text(out, type);
    append_text(out, "\r\n");
}

static void write_last_fields(struct h1 *h1)
{
    struct buffer *out = &h1->out;

    buffer_append_bytes(out, buffer_view(&h1->exchange.fields));
    if (h1->date != NULL) {
        append_text(out, "date: ");
        append_text(out, h1->date);
        append_text(out, "\r\n");
    }
    append_text(out, h1->is_last ? "connection: close\r\n\r\n" : "\r\n");
}

void h1_write_answer(struct h1 *h1, unsigned status, const char *type, struct bytes body)
{
    struct buffer *out = &h1->out;
    bool has_body = http_status_has_body(status);

    (void)buffer_reserve(out, HEAD_ROOM + h1->exchange.fields.len + body.len);
    write_first_line(out, status);
    if (has_body) {
        write_type(out, type);
        append_text(out, "content-length: ");
        append_digits(out, body.len);
        append_text(out, "\r\n");
    }
    write_last_fields(h1);
    if (has_body && !h1->exchange.is_head) buffer_append_bytes(out, body);
    if (h1->is_last) h1->is_over = true;
    check_written(h1);
}

void h1_write_begin(struct h1 *h1, unsigned status, const char *type)
{
    struct buffer *out = &h1->out;

    /* HTTP/1.0 knows the end of such a body by the end of the connection only. */
    h1->is_chunked = !h1->head.is_1_0;
    write_first_line(out, status);
    write_type(out, type);
    if (h1->is_chunked) append_text(out, "transfer-encoding: chunked\r\n");
    write_last_fields(h1);
    check_written(h1);
}

static size_t write_hex(uint64_t value, char *to)
{
    char digits[16];
    size_t n = 0;

    do {
        digits[n++] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value > 0);
    for (size_t i = 0; i < n; i++) to[i] = digits[n - 1 - i];
    return n;
}

enum status h1_write_part(struct h1 *h1, struct bytes part)
{
    struct buffer *out = &h1->out;
    char size[16];

    if (!buffer_reserve(out, part.len + sizeof size + 4)) {
        out->failed = false; /* what waits is whole */
        return E_NOMEM;
    }
    if (h1->is_chunked) {
        buffer_append(out, size, write_hex(part.len, size));
        append_text(out, "\r\n");
    }
    buffer_append_bytes(out, part);
    if (h1->is_chunked) append_text(out, "\r\n");
    return OK;
}

void h1_write_end(struct h1 *h1, bool is_whole)
{
    bool has_end = h1->is_chunked && is_whole && !h1->exchange.is_head;

    /* Chunks without a last one, and the end of the connection: the peer knows that it is cut. */
    if (has_end && !h1->is_over) append_text(&h1->out, "0\r\n\r\n");
    if (h1->is_last || !is_whole) h1->is_over = true;
    check_written(h1);
}

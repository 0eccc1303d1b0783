/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of answers in HTTP/1.1. Put together by hand: this is done a hundred thousand times a
 * second.
 */
#include "base/mem.h"
#include "net/h1_state.h"

#define HEAD_ROOM 512 /* first line and fields of the layer, but for the type */

static inline void append_text(struct buffer *b, const char *text)
{
    buffer_append(b, text, strlen(text));
}

static void append_digits(struct buffer *b, uint64_t value)
{
    char digits[DIGITS_SIZE];

    buffer_append(b, digits, http_digits(value, digits));
}

/* Where the answer goes now; what waits there is counted by written(). */
static struct buffer *out_of(struct h1_request *r)
{
    return h1_is_first(r) ? &r->h1->out : &r->early;
}

/* Half an answer would be taken for a whole one: none at all, and the connection ends when it would
 * be its turn. */
static void written(struct h1_request *r, size_t size_before)
{
    struct h1 *h1 = r->h1;
    struct buffer *out = out_of(r);
    bool is_first = h1_is_first(r);

    if (out->failed || r->exchange.fields.failed) {
        buffer_release(out);
        r->is_lost = true;
        h1->is_deaf = true;
        if (is_first) h1->is_over = true;
        h1->counters->out_of_memory++;
    }
    if (!is_first) h1->early_size += out->len - size_before;
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

static void write_last_fields(struct h1_request *r, struct buffer *out)
{
    const char *date = r->h1->date;

    buffer_append_bytes(out, buffer_view(&r->exchange.fields));
    if (date != NULL) {
        append_text(out, "date: ");
        append_text(out, date);
        append_text(out, "\r\n");
    }
    append_text(out, r->is_last ? "connection: close\r\n\r\n" : "\r\n");
}

void h1_write_answer(struct h1_request *r, unsigned status, const char *type, struct bytes body)
{
    struct buffer *out = out_of(r);
    size_t size_before = out->len;
    bool has_body = http_status_has_body(status);

    (void)buffer_reserve(out, HEAD_ROOM + r->exchange.fields.len + body.len);
    write_first_line(out, status);
    if (has_body) {
        write_type(out, type);
        append_text(out, "content-length: ");
        append_digits(out, body.len);
        append_text(out, "\r\n");
    }
    write_last_fields(r, out);
    if (has_body && !r->exchange.is_head) buffer_append_bytes(out, body);
    written(r, size_before);
}

void h1_write_begin(struct h1_request *r, unsigned status, const char *type)
{
    struct buffer *out = out_of(r);
    size_t size_before = out->len;

    /* HTTP/1.0 knows the end of such a body by the end of the connection only. */
    r->is_chunked = !r->head.is_1_0;
    write_first_line(out, status);
    write_type(out, type);
    if (r->is_chunked) append_text(out, "transfer-encoding: chunked\r\n");
    write_last_fields(r, out);
    written(r, size_before);
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

enum status h1_write_part(struct h1_request *r, struct bytes part)
{
    struct buffer *out = out_of(r);
    size_t size_before = out->len;
    char size[16];

    if (!buffer_reserve(out, part.len + sizeof size + 4)) {
        out->failed = false; /* what waits is whole */
        return E_NOMEM;
    }
    if (r->is_chunked) {
        buffer_append(out, size, write_hex(part.len, size));
        append_text(out, "\r\n");
    }
    buffer_append_bytes(out, part);
    if (r->is_chunked) append_text(out, "\r\n");
    written(r, size_before);
    return OK;
}

void h1_write_end(struct h1_request *r, bool is_whole)
{
    struct buffer *out = out_of(r);
    size_t size_before = out->len;
    bool has_end = r->is_chunked && is_whole && !r->exchange.is_head;

    /* Chunks without a last one, and the end of the connection: the peer knows that it is cut. */
    if (!is_whole) {
        r->is_last = true;
        r->h1->is_deaf = true;
    }
    if (has_end && !r->h1->is_over && !r->is_lost) append_text(out, "0\r\n\r\n");
    written(r, size_before);
}

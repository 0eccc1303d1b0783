/* SPDX-License-Identifier: Apache-2.0
 *
 * See http_answer.h. The body of a whole answer is collected at the front of c->in: what was read
 * of the connection is never needed again.
 */
#define _GNU_SOURCE /* memmem */
#include "cli/http_answer.h"

#include <stdio.h>
#include <strings.h>

static enum status broken(struct http_client *c, const char *what)
{
    (void)snprintf(c->error, sizeof c->error, "%s", what);
    return E_CORRUPT;
}

static enum status receive_more(struct http_client *c)
{
    bool is_end = false;
    enum status status = http_client_receive(c, &is_end);

    if (status != OK || !is_end) return status;
    (void)snprintf(c->error, sizeof c->error, "the server closed the connection");
    return E_CLOSED;
}

/* A line without its end, at the front of what was received; moved over. The line is valid until
 * more is received. */
static enum status read_line(struct http_client *c, struct bytes *line)
{
    size_t searched = 0;

    for (;;) {
        size_t have = c->in.len - c->at;
        uint8_t *first = c->in.ptr + c->at;
        uint8_t *end = have > searched ? memchr(first + searched, '\n', have - searched) : NULL;
        if (end != NULL) {
            size_t len = (size_t)(end - first);
            c->at += len + 1;
            *line = bytes_make(first, len > 0 && first[len - 1] == '\r' ? len - 1 : len);
            return OK;
        }
        if (have > HTTP_HEAD_SIZE_MAX) return broken(c, "a line of the answer is too long");
        searched = have;
        enum status status = receive_more(c);
        if (status != OK) return status;
    }
}

/* ---- the head ---- */

static bool digits_read(struct bytes text, unsigned base, uint64_t *out)
{
    uint64_t value = 0;

    if (text.len == 0 || text.len > 16) return false;
    for (size_t n = 0; n < text.len; n++) {
        uint8_t c = text.ptr[n];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 99;
        if (digit >= base) return false;
        value = value * base + digit;
    }
    *out = value;
    return true;
}

/* "HTTP/1.1 200 OK" */
static enum status read_status_line(struct http_client *c, struct http_reply *out)
{
    struct bytes line;
    uint64_t status_code = 0;

    enum status status = read_line(c, &line);
    if (status != OK) return status;
    bool is_http = bytes_start_with(line, BYTES_LITERAL("HTTP/1.")) && line.len >= 12 &&
                   line.ptr[8] == ' ' && digits_read(bytes_make(line.ptr + 9, 3), 10, &status_code);
    if (!is_http) return broken(c, "what answers there is no HTTP server");
    c->is_last = line.ptr[7] == '0';
    out->status = (unsigned)status_code;
    return OK;
}

static struct bytes trim(struct bytes text)
{
    while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t')) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static bool is_word(struct bytes text, const char *word)
{
    return text.len == strlen(word) && strncasecmp((const char *)text.ptr, word, text.len) == 0;
}

static enum status take_header(struct http_client *c, struct bytes line, struct http_reply *out)
{
    const uint8_t *colon = memchr(line.ptr, ':', line.len);
    uint64_t number = 0;

    if (colon == NULL) return broken(c, "the head of the answer is broken");
    struct bytes name = bytes_make(line.ptr, (size_t)(colon - line.ptr));
    struct bytes value = trim(bytes_make(colon + 1, line.len - name.len - 1));
    if (is_word(name, "content-length")) {
        if (!digits_read(value, 10, &c->left))
            return broken(c, "the length of the answer is broken");
        if (c->body == BODY_UNTIL_CLOSE) c->body = BODY_LENGTH;
    } else if (is_word(name, "transfer-encoding")) {
        if (!is_word(value, "chunked")) return broken(c, "the answer is encoded in an unknown way");
        c->body = BODY_CHUNKED;
    } else if (is_word(name, "connection")) {
        if (is_word(value, "close")) c->is_last = true;
    } else if (is_word(name, "retry-after")) {
        if (digits_read(value, 10, &number) && number < 86400)
            out->retry_after_s = (unsigned)number;
    } else if (is_word(name, "content-type")) {
        out->is_json = memmem(value.ptr, value.len, "json", 4) != NULL;
        out->is_events = bytes_start_with(value, BYTES_LITERAL("text/event-stream"));
    }
    return OK;
}

static enum status read_head(struct http_client *c, struct http_reply *out)
{
    size_t size = 0;

    c->body = BODY_UNTIL_CLOSE;
    c->left = 0;
    c->is_chunk_open = false;
    enum status status = read_status_line(c, out);
    while (status == OK) {
        struct bytes line;
        status = read_line(c, &line);
        if (status != OK || line.len == 0) break;
        size += line.len;
        status = size > HTTP_HEAD_SIZE_MAX ? broken(c, "the head of the answer is too long")
                                           : take_header(c, line, out);
    }
    bool has_none = out->status < 200 || out->status == 204 || out->status == 304;
    if (has_none || (c->body == BODY_LENGTH && c->left == 0)) c->body = BODY_NONE;
    if (c->body == BODY_UNTIL_CLOSE) c->is_last = true;
    return status;
}

enum status http_answer_head(struct http_client *c, struct http_reply *out)
{
    enum status status;

    do {
        *out = (struct http_reply){0};
        status = read_head(c, out);
    } while (status == OK && out->status < 200);
    if (status == OK) c->is_used = true;
    return status;
}

/* ---- the body ---- */

/* The size of the next chunk; the last one has none, and is followed by trailers. */
static enum status open_chunk(struct http_client *c)
{
    struct bytes line;

    enum status status = read_line(c, &line);
    if (status != OK) return status;
    const uint8_t *extension = memchr(line.ptr, ';', line.len);
    if (extension != NULL) line.len = (size_t)(extension - line.ptr);
    if (!digits_read(trim(line), 16, &c->left)) return broken(c, "a part of the answer is broken");
    c->is_chunk_open = c->left > 0;
    while (c->left == 0) {
        status = read_line(c, &line);
        if (status != OK) return status;
        if (line.len > 0) continue;
        c->body = BODY_NONE;
        break;
    }
    return OK;
}

static enum status end_chunk(struct http_client *c)
{
    struct bytes line;

    enum status status = read_line(c, &line);
    if (status == OK && line.len > 0) status = broken(c, "a part of the answer is broken");
    c->is_chunk_open = false;
    return status;
}

/* Moves what was received of the body to out. */
static void take_body(struct http_client *c, struct buffer *out)
{
    size_t have = c->in.len - c->at;
    size_t n = c->body != BODY_UNTIL_CLOSE && have > c->left ? (size_t)c->left : have;

    buffer_append(out, c->in.ptr + c->at, n);
    c->at += n;
    if (c->body == BODY_UNTIL_CLOSE) return;
    c->left -= n;
    if (c->body == BODY_LENGTH && c->left == 0) c->body = BODY_NONE;
}

enum status http_answer_part(struct http_client *c, struct buffer *out, bool *is_end)
{
    size_t before = out->len;
    enum status status = OK;

    *is_end = false;
    while (status == OK && out->len == before && c->body != BODY_NONE) {
        if (c->body == BODY_CHUNKED && c->is_chunk_open && c->left == 0) {
            status = end_chunk(c);
            continue;
        }
        if (c->body == BODY_CHUNKED && !c->is_chunk_open) {
            status = open_chunk(c);
            continue;
        }
        if (c->at == c->in.len) {
            bool has_ended = false;
            status = http_client_receive(c, &has_ended);
            if (status == OK && has_ended && c->body != BODY_UNTIL_CLOSE) status = receive_more(c);
            if (has_ended) c->body = BODY_NONE;
        }
        if (status == OK && c->body != BODY_NONE) take_body(c, out);
        if (out->failed) status = E_NOMEM;
    }
    *is_end = status == OK && out->len == before;
    return status;
}

enum status http_answer_whole(struct http_client *c, struct bytes *out)
{
    struct buffer whole;
    bool is_end = false;
    enum status status = OK;

    buffer_init(&whole, c->mem);
    while (status == OK && !is_end) {
        status = http_answer_part(c, &whole, &is_end);
        if (whole.len > HTTP_BODY_SIZE_MAX) status = E_LIMIT;
    }
    if (status == E_LIMIT) (void)snprintf(c->error, sizeof c->error, "the answer is too long");
    if (status == OK) {
        /* lives in the receive buffer from now on; what else is in there stays behind it */
        struct buffer rest = c->in;
        size_t rest_at = c->at;
        c->in = whole;
        c->at = whole.len;
        buffer_append(&c->in, rest.ptr + rest_at, rest.len - rest_at);
        *out = bytes_make(c->in.ptr, c->at);
        buffer_release(&rest);
    } else {
        buffer_release(&whole);
    }
    return status;
}

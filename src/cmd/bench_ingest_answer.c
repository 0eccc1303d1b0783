/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_ingest.h: answers of an HTTP/1.1 server, found in the bytes that have come. Only what a
 * client needs that sends simple requests: no answer without a length, which would end with the
 * connection.
 */
#define _GNU_SOURCE /* memmem */
#include "cmd/bench_ingest.h"

#include <stdlib.h>
#include <strings.h>

#define BODY_SIZE_MAX ((size_t)256 << 20)

static bool is_field(const char *line, const char *name)
{
    return strncasecmp(line, name, strlen(name)) == 0;
}

static bool has_word(const char *line, const char *end, const char *word)
{
    size_t len = strlen(word);
    for (; (size_t)(end - line) >= len; line++) {
        if (strncasecmp(line, word, len) == 0) return true;
    }
    return false;
}

/* The size of a chunked body at the start of bytes; 0 = more must come, SIZE_MAX = broken. */
static size_t chunks_size(struct bytes bytes)
{
    size_t at = 0;
    for (;;) {
        const uint8_t *end = memmem(bytes.ptr + at, bytes.len - at, "\r\n", 2);
        if (end == NULL) return 0;
        char *after = NULL;
        unsigned long size = strtoul((const char *)bytes.ptr + at, &after, 16);
        if (after == (const char *)bytes.ptr + at || size > BODY_SIZE_MAX) return SIZE_MAX;
        at = (size_t)(end + 2 - bytes.ptr) + size + 2;
        if (at > bytes.len) return 0;
        if (size == 0) return at; /* without trailers */
    }
}

static void read_fields(const char *at, const char *end, struct ingest_answer *out, size_t *length)
{
    while (at < end) {
        const char *line_end = memchr(at, '\r', (size_t)(end - at));
        if (line_end == NULL) return;
        if (is_field(at, "content-length:")) *length = strtoul(at + 15, NULL, 10);
        if (is_field(at, "transfer-encoding:") && has_word(at, line_end, "chunked"))
            out->is_chunked = true;
        if (is_field(at, "connection:") && has_word(at, line_end, "close")) out->is_last = true;
        at = line_end + 2;
    }
}

enum ingest_answer_state ingest_answer_read(struct bytes bytes, struct ingest_answer *out)
{
    if (bytes.len < 13) return INGEST_PARTIAL;
    if (memcmp(bytes.ptr, "HTTP/1.", 7) != 0) return INGEST_BROKEN;
    const uint8_t *end = memmem(bytes.ptr, bytes.len, "\r\n\r\n", 4);
    if (end == NULL) return bytes.len > 65536 ? INGEST_BROKEN : INGEST_PARTIAL;

    struct ingest_answer answer = {0};
    size_t length = 0;
    for (size_t n = 9; n < 12; n++) {
        if (bytes.ptr[n] < '0' || bytes.ptr[n] > '9') return INGEST_BROKEN;
        answer.status = answer.status * 10 + (unsigned)(bytes.ptr[n] - '0');
    }
    if (answer.status >= INGEST_STATUSES) return INGEST_BROKEN;
    const char *fields = (const char *)memchr(bytes.ptr, '\n', bytes.len) + 1;
    read_fields(fields, (const char *)end + 2, &answer, &length);
    size_t head_size = (size_t)(end + 4 - bytes.ptr);
    struct bytes rest = bytes_make(end + 4, bytes.len - head_size);
    if (answer.status < 200 || answer.status == 204 || answer.status == 304) length = 0;
    if (answer.is_chunked) length = chunks_size(rest);
    if (length > BODY_SIZE_MAX) return INGEST_BROKEN;
    if (length > rest.len || (answer.is_chunked && length == 0)) return INGEST_PARTIAL;
    answer.body = bytes_make(rest.ptr, length);
    answer.size = head_size + length;
    *out = answer;
    return INGEST_WHOLE;
}

void ingest_answer_body(const struct ingest_answer *answer, struct buffer *out)
{
    if (!answer->is_chunked) {
        buffer_append_bytes(out, answer->body);
        return;
    }
    const uint8_t *at = answer->body.ptr;
    for (;;) {
        char *after = NULL;
        unsigned long size = strtoul((const char *)at, &after, 16);
        if (size == 0) return;
        const uint8_t *data = (const uint8_t *)strchr(after, '\n') + 1;
        buffer_append(out, data, size);
        at = data + size + 2;
    }
}

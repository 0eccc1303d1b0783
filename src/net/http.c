/* SPDX-License-Identifier: Apache-2.0
 *
 * What a service sees of an exchange (http.h), and what is the same in both protocols.
 */
#include "net/http.h"

#include "base/assert.h"
#include "net/exchange.h"
#include "net/h1_head.h"

#define KEPT_SIZE_MAX 1024 /* of the fields of an answer, for the next one */

/* ---- the request ---- */

struct bytes http_method(const struct http_exchange *e) { return e->method; }

struct bytes http_path(const struct http_exchange *e) { return e->path; }

struct bytes http_query(const struct http_exchange *e) { return e->query; }

struct bytes http_header(const struct http_exchange *e, const char *name)
{
    return e->ops->header(e, name);
}

struct bytes http_body(const struct http_exchange *e) { return e->body; }

bool http_is_trusted(const struct http_exchange *e) { return e->is_trusted; }

const char *http_peer(const struct http_exchange *e)
{
    return e->is_closed || e->peer == NULL ? "" : e->peer;
}

void http_set_user(struct http_exchange *e, void *user) { e->user = user; }

void *http_user(const struct http_exchange *e) { return e->user; }

bool http_is_closed(const struct http_exchange *e) { return e->is_closed; }

void exchange_open(struct http_exchange *e)
{
    assert(!e->is_open);
    e->is_open = true;
    e->is_begun = false;
    e->is_closed = false;
    e->is_head = bytes_equal(e->method, BYTES_LITERAL("HEAD"));
    e->user = NULL;
}

void exchange_end(struct http_exchange *e)
{
    e->is_open = false;
    e->fields_n = 0;
    e->method = e->path = e->query = e->body = BYTES_NONE;
    if (e->fields.size > KEPT_SIZE_MAX)
        buffer_release(&e->fields);
    else
        buffer_clear(&e->fields);
}

/* ---- fields of the answer ---- */

/* They say where a message ends, or are written by the layer: a second one would contradict. */
static bool is_of_layer(const char *name)
{
    static const char *const names[] = {"content-type", "content-length",    "date", "connection",
                                        "keep-alive",   "transfer-encoding", "te",   "trailer",
                                        "upgrade",      "proxy-connection"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

static bool is_name(const char *name)
{
    if (name[0] == 0) return false;
    for (const char *c = name; *c != 0; c++) {
        bool is_lower = *c >= 'a' && *c <= 'z';
        bool is_digit = *c >= '0' && *c <= '9';
        if (!is_lower && !is_digit && *c != '-' && *c != '_') return false;
    }
    return true;
}

void http_add_header(struct http_exchange *e, const char *name, struct bytes value)
{
    struct bytes name_bytes = bytes_of_text(name);

    assert(e->is_open);
    assert(!e->is_begun);
    assert(is_name(name));
    assert(!is_of_layer(name));
    value = head_trim(value);
    if (!head_is_value(value)) return;
    size_t size = name_bytes.len + value.len + 4;
    if (e->fields.len + size > ANSWER_FIELDS_SIZE_MAX) return;
    if (e->fields_n == ANSWER_FIELDS_N_MAX) return;
    e->fields_n++;
    if (!buffer_reserve(&e->fields, size)) return;
    buffer_append_bytes(&e->fields, name_bytes);
    buffer_append(&e->fields, ": ", 2);
    buffer_append_bytes(&e->fields, value);
    buffer_append(&e->fields, "\r\n", 2);
}

const char *exchange_refuse(struct http_exchange *e, const struct http_service *service,
                            enum http_refusal why, struct buffer *body)
{
    unsigned status = http_refusal_status(why);

    buffer_clear(&e->fields);
    e->fields_n = 0;
    if (status == 503) buffer_append_bytes(&e->fields, BYTES_LITERAL("retry-after: 1\r\n"));
    if (service->refusal != NULL) {
        const char *type = service->refusal(service->user, why, body);
        if (!body->failed) return type;
        buffer_clear(body);
    }
    buffer_append_bytes(body, bytes_of_text(http_status_reason(status)));
    return "text/plain";
}

bool exchange_next_field(struct bytes *rest, struct bytes *name, struct bytes *value)
{
    if (rest->len == 0) return false;
    const uint8_t *colon = memchr(rest->ptr, ':', rest->len);
    const uint8_t *end = memchr(rest->ptr, '\r', rest->len);
    assert(colon != NULL);
    assert(end != NULL);
    *name = bytes_make(rest->ptr, (size_t)(colon - rest->ptr));
    *value = bytes_make(colon + 2, (size_t)(end - colon) - 2);
    *rest = bytes_make(end + 2, rest->len - (size_t)(end - rest->ptr) - 2);
    return true;
}

/* ---- the answer ---- */

void http_answer(struct http_exchange *e, unsigned status, const char *type, struct bytes body)
{
    assert(e->is_open);
    assert(!e->is_begun);
    assert(status >= 200);
    assert(status <= 599);
    e->ops->answer(e, status, type, body);
}

void http_begin(struct http_exchange *e, unsigned status, const char *type)
{
    assert(e->is_open);
    assert(!e->is_begun);
    assert(http_status_has_body(status));
    assert(status <= 599);
    e->is_begun = true;
    if (!e->is_closed) e->ops->begin(e, status, type);
}

enum status http_send(struct http_exchange *e, struct bytes part)
{
    assert(e->is_open);
    assert(e->is_begun);
    if (e->is_closed) return E_CLOSED;
    if (part.len == 0 || e->is_head) return OK;
    return e->ops->send(e, part);
}

bool http_is_full(struct http_exchange *e)
{
    assert(e->is_open);
    return !e->is_closed && e->ops->is_full(e);
}

size_t http_queued(const struct http_exchange *e) { return e->is_closed ? 0 : e->ops->queued(e); }

void http_finish(struct http_exchange *e, bool is_whole)
{
    assert(e->is_open);
    assert(e->is_begun);
    e->ops->finish(e, is_whole);
}

/* ---- statuses ---- */

unsigned http_refusal_status(enum http_refusal why)
{
    static const unsigned statuses[] = {[REFUSAL_NONE] = 500,
#define X(name, status, text) [REFUSAL_##name] = status,
                                        HTTP_REFUSALS(X)
#undef X
    };

    return statuses[why];
}

const char *http_refusal_text(enum http_refusal why)
{
    static const char *const texts[] = {[REFUSAL_NONE] = "",
#define X(name, status, text) [REFUSAL_##name] = text,
                                        HTTP_REFUSALS(X)
#undef X
    };

    return texts[why];
}

bool http_status_has_body(unsigned status)
{
    return status >= 200 && status != 204 && status != 304;
}

const char *http_status_reason(unsigned status)
{
    switch (status) {
#define X(number, reason)                                                                          \
    case number: return reason;
        HTTP_STATUSES(X)
#undef X
    default: return "Status";
    }
}

size_t http_digits(uint64_t value, char out[DIGITS_SIZE])
{
    char digits[DIGITS_SIZE];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    for (size_t i = 0; i < n; i++) out[i] = digits[n - 1 - i];
    return n;
}

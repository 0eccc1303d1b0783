/* SPDX-License-Identifier: Apache-2.0
 *
 * See rested.h.
 */
#define _GNU_SOURCE /* strcasestr */
#include "test/lib/rested.h"

#include "base/clock.h"
#include "base/text.h"
#include "test/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_NS ((int64_t)20 * NS_PER_S)

/* ---- what stands around the API ---- */

static void on_page(void *user, struct http_exchange *exchange)
{
    struct rested *r = user;

    r->pages_n++;
    http_answer(exchange, 200, "text/plain", BYTES_LITERAL("a page\n"));
}

static void on_page_event(void *user, struct http_exchange *exchange)
{
    (void)user;
    (void)exchange;
}

static void ring(void *user)
{
    struct rested *r = user;
    uint64_t one = 1;

    (void)!write(r->served.bell_fd, &one, sizeof one);
}

void rested_init(struct rested *r)
{
    *r = (struct rested){.shards_n = 1};
    served_init(&r->served);
    mem_init(&r->mem, SIZE_MAX);
    r->pages = (struct http_service){
        .user = r,
        .request = on_page,
        .writable = on_page_event,
        .closed = on_page_event,
    };
    r->options = (struct front_options){.errands_n_max = 10000, .message_size_max = 32 << 20};
}

void rested_open(struct rested *r, const char *directory, bool has_worker)
{
    EXPECT_STATUS(OK, feed_new(mem_process(), ring, r, &r->options.feed));
    r->served.feed = r->options.feed;
    served_open(&r->served, directory, r->shards_n, has_worker);
    r->options.mem = &r->mem;
    r->options.desk_engine = r->served.options.engine;
    r->options.engine = r->served.engine;
    r->options.service = r->served.service;
    r->options.pages = &r->pages;
    r->options.directory = directory;
    EXPECT_STATUS(OK, vitals_new(&r->mem, &r->options.desk_engine, &r->vitals));
    r->options.vitals = r->vitals;
    EXPECT_STATUS(OK, rest_new(&r->options, served_now_ns(&r->served), &r->rest));
}

/* Everybody hangs up, and what is under way comes to its end. */
static void make_quiet(struct rested *r)
{
    for (unsigned n = 0; n < r->lines_n; n++) {
        rested_hang_up(&r->lines[n]);
        buffer_release(&r->lines[n].in);
        buffer_release(&r->lines[n].head);
        buffer_release(&r->lines[n].body);
    }
    r->lines_n = 0;
    rest_drain(r->rest);
    int64_t until_ns = clock_mono_ns() + PATIENCE_NS;
    while (!rest_is_quiet(r->rest)) {
        rested_turn(r);
        if (clock_mono_ns() > until_ns) test_fail(__FILE__, __LINE__, "not quiet in 20 s");
    }
}

void rested_renew(struct rested *r)
{
    make_quiet(r);
    rest_free(r->rest);
    vitals_bell(r->vitals);
    vitals_free(r->vitals);
    EXPECT_EQ(0, r->mem.used);
    EXPECT_STATUS(OK, vitals_new(&r->mem, &r->options.desk_engine, &r->vitals));
    r->options.vitals = r->vitals;
    EXPECT_STATUS(OK, rest_new(&r->options, served_now_ns(&r->served), &r->rest));
}

void rested_close(struct rested *r)
{
    make_quiet(r);
    served_close(&r->served);
    vitals_bell(r->vitals);
    vitals_free(r->vitals);
    rest_free(r->rest);
    feed_free(r->options.feed);
    EXPECT_EQ(0, r->mem.used);
    mem_release(&r->mem);
}

/* ---- connections ---- */

struct line *rested_line(struct rested *r)
{
    struct line *line = &r->lines[r->lines_n++];

    EXPECT(r->lines_n <= RESTED_LINES_MAX);
    *line = (struct line){.rested = r};
    buffer_init(&line->in, mem_process());
    buffer_init(&line->head, mem_process());
    buffer_init(&line->body, mem_process());
    struct conn_options options = {
        .mem = &r->mem,
        .limits = &r->served.limits,
        .counters = &r->served.counters,
        .grpc = service_grpc(r->served.service),
        .http = rest_http(r->rest),
        .is_trusted = !r->is_stranger,
        .peer = RESTED_PEER,
    };
    EXPECT_STATUS(OK, conn_new(&options, served_now_ns(&r->served), &line->conn));
    return line;
}

void rested_hang_up(struct line *line)
{
    if (line->conn == NULL) return;
    conn_free(line->conn, served_now_ns(&line->rested->served));
    line->conn = NULL;
}

static void text_end(struct buffer *b)
{
    buffer_u8(b, '\0');
    b->len--;
}

/* The value of a field of the head; NULL when it has none. */
static const char *head_value(const struct line *line, const char *field)
{
    char wanted[64];

    (void)snprintf(wanted, sizeof wanted, "\r\n%s: ", field);
    const char *at = strcasestr((const char *)line->head.ptr, wanted);
    return at == NULL ? NULL : at + strlen(wanted);
}

/* Takes whole chunks from the body that came. */
static void take_chunks(struct line *line)
{
    for (;;) {
        text_end(&line->in);
        char *start = (char *)line->in.ptr;
        char *end = strstr(start, "\r\n");
        if (end == NULL) return;
        size_t size = strtoul(start, NULL, 16);
        size_t head = (size_t)(end - start) + 2;
        if (line->in.len < head + size + 2) return;
        buffer_append(&line->body, start + head, size);
        text_end(&line->body);
        size_t over = head + size + 2;
        memmove(line->in.ptr, line->in.ptr + over, line->in.len - over);
        line->in.len -= over;
        if (size > 0) continue;
        line->is_over = true;
        return;
    }
}

static void take_answer(struct line *line)
{
    if (line->is_over || line->in.len == 0) return;
    text_end(&line->in);
    if (line->head.len == 0) {
        char *end = strstr((char *)line->in.ptr, "\r\n\r\n");
        if (end == NULL) return;
        size_t size = (size_t)(end - (char *)line->in.ptr) + 4;
        buffer_append(&line->head, line->in.ptr, size);
        text_end(&line->head);
        memmove(line->in.ptr, line->in.ptr + size, line->in.len - size);
        line->in.len -= size;
        line->status = (unsigned)strtoul((char *)line->head.ptr + 9, NULL, 10);
    }
    const char *length = head_value(line, "content-length");
    if (length == NULL && head_value(line, "transfer-encoding") != NULL) {
        take_chunks(line);
        return;
    }
    size_t size = length == NULL || line->is_to_head ? 0 : strtoul(length, NULL, 10);
    if (line->in.len < size) return;
    buffer_append(&line->body, line->in.ptr, size);
    memmove(line->in.ptr, line->in.ptr + size, line->in.len - size);
    line->in.len -= size;
    line->is_over = true;
}

static bool line_turn(struct line *line)
{
    int64_t now_ns = served_now_ns(&line->rested->served);

    (void)conn_tick(line->conn, now_ns);
    if (line->is_deaf) return false;
    size_t before = line->in.len;
    if (!conn_pull(line->conn, now_ns, &line->in, (size_t)1 << 20)) {
        if (conn_is_over(line->conn)) line->is_cut = !line->is_over;
        return false;
    }
    conn_sent(line->conn, now_ns, line->in.len - before);
    take_answer(line);
    return true;
}

void rested_turn(struct rested *r)
{
    bool has_moved = true;
    uint64_t rings;

    while (has_moved) {
        int64_t now_ns = served_now_ns(&r->served);
        has_moved = false;
        service_set_now(r->served.service, now_ns);
        rest_set_now(r->rest, now_ns);
        if (read(r->served.bell_fd, &rings, sizeof rings) == sizeof rings) {
            service_bell(r->served.service);
            rest_bell(r->rest);
            vitals_bell(r->vitals);
            has_moved = true;
        }
        (void)service_tick(r->served.service);
        (void)vitals_tick(r->vitals, now_ns);
        (void)rest_tick(r->rest);
        for (unsigned n = 0; n < r->lines_n; n++) {
            if (r->lines[n].conn != NULL && line_turn(&r->lines[n])) has_moved = true;
        }
    }
}

void rested_advance_ms(struct rested *r, int64_t ms)
{
    r->served.ahead_ns += ms * NS_PER_MS;
    rested_turn(r);
}

/* ---- requests ---- */

void rested_send(struct line *line, const char *method, const char *path, const char *headers,
                 const char *body)
{
    struct rested *r = line->rested;
    struct buffer out;

    if (headers == NULL) headers = body == NULL ? "" : "Content-Type: application/json\r\n";
    buffer_init(&out, mem_process());
    buffer_append_bytes(&out, bytes_of_text(method));
    buffer_append_bytes(&out, BYTES_LITERAL(" "));
    buffer_append_bytes(&out, bytes_of_text(path));
    buffer_append_bytes(&out, BYTES_LITERAL(" HTTP/1.1\r\n"));
    if (strcasestr(headers, "host:") == NULL)
        buffer_append_bytes(&out, BYTES_LITERAL("Host: localhost\r\n"));
    buffer_append_bytes(&out, bytes_of_text(headers));
    if (body != NULL) buffer_format(&out, "Content-Length: %zu\r\n", strlen(body));
    buffer_append_bytes(&out, BYTES_LITERAL("\r\n"));
    if (body != NULL) buffer_append_bytes(&out, bytes_of_text(body));
    line->status = 0;
    line->is_over = line->is_cut = false;
    line->is_to_head = strcmp(method, "HEAD") == 0;
    buffer_clear(&line->head);
    buffer_clear(&line->body);
    rest_set_now(r->rest, served_now_ns(&r->served));
    (void)conn_feed(line->conn, served_now_ns(&r->served), buffer_view(&out));
    buffer_release(&out);
    rested_turn(r);
}

static unsigned await(struct line *line, int64_t step_ms)
{
    struct rested *r = line->rested;
    int64_t until_ns = clock_mono_ns() + PATIENCE_NS;

    while (!line->is_over && !line->is_cut) {
        struct pollfd wait = {.fd = r->served.bell_fd, .events = POLLIN};
        (void)poll(&wait, 1, 5);
        rested_advance_ms(r, step_ms);
        if (clock_mono_ns() > until_ns) test_fail(__FILE__, __LINE__, "no answer in 20 s");
    }
    text_end(&line->body);
    return line->is_cut ? 0 : line->status;
}

unsigned rested_await(struct line *line) { return await(line, 0); }
unsigned rested_await_long(struct line *line) { return await(line, 100); }

unsigned rested_ask(struct line *line, const char *method, const char *path, const char *headers,
                    const char *body)
{
    rested_send(line, method, path, headers, body);
    return rested_await(line);
}

/* ---- answers ---- */

const char *line_body(const struct line *line) { return (const char *)line->body.ptr; }

bool line_has(const struct line *line, const char *part)
{
    return strstr(line_body(line), part) != NULL;
}

bool line_has_header(const struct line *line, const char *field)
{
    return strcasestr((const char *)line->head.ptr, field) != NULL;
}

bool line_value(const struct line *line, const char *key, char *out)
{
    char wanted[64];

    (void)snprintf(wanted, sizeof wanted, "\"%s\":\"", key);
    const char *at = strstr(line_body(line), wanted);
    if (at == NULL) return false;
    at += strlen(wanted);
    size_t len = strcspn(at, "\"");
    if (len > 255) return false;
    memcpy(out, at, len);
    out[len] = '\0';
    return true;
}

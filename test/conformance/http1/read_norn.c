/* SPDX-License-Identifier: Apache-2.0
 *
 * What norn's HTTP/1.1 makes of bytes: one line of JSON for each line of hex on standard input. The
 * programs of the other readers beside this one print the same:
 *
 *      {"requests":[{"method":"..","path":"..","query":"..","fields":{"host":".."},"body":".."}],
 *       "end":"refused"}
 *
 * Texts are hex. end: "refused", "more" (something incomplete is left) or "done".
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/conn.h"

#include <stdio.h>
#include <stdlib.h>

#define LINE_SIZE_MAX (256 * 1024)

static const char *const fields[] = {"host", "content-length", "content-type", "x-a"};

struct reading {
    unsigned requests_n;
};

static void print_hex(struct bytes b)
{
    putchar('"');
    for (size_t i = 0; i < b.len; i++) printf("%02x", b.ptr[i]);
    putchar('"');
}

static void on_request(void *user, struct http_exchange *e)
{
    struct reading *r = user;
    printf("%s{\"method\":", r->requests_n++ > 0 ? "," : "");
    print_hex(http_method(e));
    printf(",\"path\":");
    print_hex(http_path(e));
    printf(",\"query\":");
    print_hex(http_query(e));
    printf(",\"fields\":{");
    const char *comma = "";
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct bytes value = http_header(e, fields[i]);
        if (value.len == 0) continue;
        printf("%s\"%s\":", comma, fields[i]);
        print_hex(value);
        comma = ",";
    }
    printf("},\"body\":");
    print_hex(http_body(e));
    putchar('}');
    http_answer(e, 200, "text/plain", BYTES_NONE);
}

static void on_closed(void *user, struct http_exchange *e)
{
    (void)user;
    (void)e;
    unreachable("every request is answered at once");
}

static void read_bytes(struct bytes bytes)
{
    struct mem mem;
    struct net_counters counters = {0};
    struct reading r = {0};
    struct http_service http = {.user = &r, .request = on_request, .closed = on_closed};
    struct conn_limits limits;
    struct conn_options options = {
        .mem = &mem, .limits = &limits, .counters = &counters, .http = &http};
    struct conn *conn = NULL;
    struct buffer out;

    mem_init(&mem, SIZE_MAX);
    buffer_init(&out, &mem);
    conn_limits_init(&limits);
    enum status status = conn_new(&options, NS_PER_S, &conn);
    assert(status == OK);
    printf("{\"requests\":[");
    (void)conn_feed(conn, NS_PER_S, bytes);
    while (conn_pull(conn, NS_PER_S, &out, 64 * 1024)) {
    }
    conn_sent(conn, NS_PER_S, out.len);
    bool is_refused = counters.http_malformed > 0;
    for (size_t at = 0; at + 12 <= out.len; at++) {
        if (memcmp(out.ptr + at, "HTTP/1.1 413", 12) == 0) is_refused = true;
    }
    /* Only a request that has begun is timed as one; a connection at rest is idle. */
    const char *end = "done";
    if (is_refused)
        end = "refused";
    else if (!conn_is_over(conn) && conn_tick(conn, NS_PER_S) < NS_PER_S + 60 * NS_PER_S)
        end = "more";
    printf("],\"end\":\"%s\"}\n", end);
    buffer_release(&out);
    conn_free(conn, NS_PER_S);
    mem_release(&mem);
}

static int hex_value(int c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

int main(void)
{
    static char line[LINE_SIZE_MAX];
    static uint8_t bytes[LINE_SIZE_MAX / 2];

    while (fgets(line, sizeof line, stdin) != NULL) {
        size_t n = strcspn(line, "\n") / 2;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(hex_value(line[2 * i]) << 4 | hex_value(line[2 * i + 1]));
        read_bytes(bytes_make(bytes, n));
    }
    return 0;
}

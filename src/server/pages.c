/* SPDX-License-Identifier: Apache-2.0
 *
 * See pages.h. A page that needs the engine waits for its vitals, and is answered without them when
 * they do not come: a probe of a sick server must not hang.
 */
#include "server/pages.h"

#include "base/assert.h"
#include "base/text.h"
#include "host/engine.h"

#define TEXT_TYPE "text/plain; charset=utf-8"
#define JSON_TYPE "application/json"
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct pages {
    struct pages_options options;
    struct http_service http;
    uint32_t waiting_n;
};

typedef void page_fn(struct pages *p, struct http_exchange *exchange);

/* An exchange that waits for the engine's vitals. */
struct page_wait {
    struct vitals_asker asker;
    struct pages *pages;
    struct http_exchange *exchange;
};

static void answer_text(struct http_exchange *exchange, unsigned status, const char *text)
{
    http_answer(exchange, status, TEXT_TYPE, bytes_of_text(text));
}

static void wait_for_vitals(struct pages *p, struct http_exchange *exchange,
                            void (*answer)(struct vitals_asker *, const struct host_stats *))
{
    struct page_wait *wait = mem_take_zero(p->options.mem, sizeof *wait);

    if (wait == NULL) {
        answer_text(exchange, 503, "out of memory\n");
        return;
    }
    wait->pages = p;
    wait->exchange = exchange;
    wait->asker.answer = answer;
    p->waiting_n++;
    vitals_ask(p->options.vitals, p->options.source.now_ns(p->options.source.user), &wait->asker);
}

/* Gives the wait back; what it was for is the caller's to answer. */
static struct http_exchange *wait_end(struct page_wait *wait, struct pages **p)
{
    struct http_exchange *exchange = wait->exchange;

    *p = wait->pages;
    assert((*p)->waiting_n > 0);
    (*p)->waiting_n--;
    mem_give((*p)->options.mem, wait, sizeof *wait);
    return exchange;
}

/* ---- the pages ---- */

static void page_root(struct pages *p, struct http_exchange *exchange)
{
    (void)p;
    answer_text(exchange, 200,
                "This is norn " NORN_VERSION ", a durable orchestration engine.\n\n"
                "The Durable Task SDKs speak gRPC to this same address: give it to their client "
                "and worker as host:port, without TLS.\n\n"
                "  /healthz   the process is alive\n"
                "  /readyz    it takes work\n"
                "  /version   which version, as JSON\n"
                "  /metrics   counters for Prometheus\n");
}

static void page_health(struct pages *p, struct http_exchange *exchange)
{
    (void)p;
    answer_text(exchange, 200, "ok\n");
}

static void page_version(struct pages *p, struct http_exchange *exchange)
{
    struct buffer body;

    buffer_init(&body, p->options.mem);
    buffer_format(&body,
                  "{\"name\":\"norn\",\"version\":\"" NORN_VERSION
                  "\",\"data_format\":%u,\"compiler\":\"" __VERSION__ "\"}\n",
                  ENGINE_FORMAT_VERSION);
    http_answer(exchange, body.failed ? 503 : 200, JSON_TYPE, buffer_view(&body));
    buffer_release(&body);
}

static void answer_ready(struct vitals_asker *asker, const struct host_stats *stats)
{
    struct pages *p;
    struct metrics now;
    struct http_exchange *exchange = wait_end(container_of(asker, struct page_wait, asker), &p);

    p->options.source.metrics(p->options.source.user, &now);
    if (now.is_draining)
        answer_text(exchange, 503, "not ready: the server is shutting down\n");
    else if (stats == NULL)
        answer_text(exchange, 503, "not ready: the engine does not answer\n");
    else if (stats->is_disk_full || now.front.streams.is_disk_low)
        answer_text(exchange, 503,
                    "not ready: the disk is full; reads go on, changes are refused until there is "
                    "space again\n");
    else
        answer_text(exchange, 200, "ready\n");
}

static void page_ready(struct pages *p, struct http_exchange *exchange)
{
    wait_for_vitals(p, exchange, answer_ready);
}

static void answer_metrics(struct vitals_asker *asker, const struct host_stats *stats)
{
    struct pages *p;
    struct metrics now;
    struct buffer body;
    struct http_exchange *exchange = wait_end(container_of(asker, struct page_wait, asker), &p);

    p->options.source.metrics(p->options.source.user, &now);
    now.host = stats;
    buffer_init(&body, p->options.mem);
    metrics_write(&body, &now);
    http_answer(exchange, body.failed ? 503 : 200, METRICS_TYPE, buffer_view(&body));
    buffer_release(&body);
}

static void page_metrics(struct pages *p, struct http_exchange *exchange)
{
    wait_for_vitals(p, exchange, answer_metrics);
}

/* ---- which one ---- */

static const struct {
    const char *path;
    page_fn *page;
} table[] = {
    {"/", page_root},           {"/healthz", page_health},  {"/readyz", page_ready},
    {"/version", page_version}, {"/metrics", page_metrics},
};

static void on_request(void *user, struct http_exchange *exchange)
{
    struct pages *p = user;
    struct bytes method = http_method(exchange);
    struct bytes path = http_path(exchange);

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (!bytes_equal(path, bytes_of_text(table[i].path))) continue;
        if (bytes_equal(method, BYTES_LITERAL("GET")) || bytes_equal(method, BYTES_LITERAL("HEAD")))
            table[i].page(p, exchange);
        else
            answer_text(exchange, 405, "this page is only read: GET or HEAD\n");
        return;
    }
    answer_text(exchange, 404,
                "there is no such page; there are /healthz, /readyz, /version and /metrics, and "
                "gRPC for the Durable Task SDKs\n");
}

/* It is answered all the same when its vitals come; nobody hears it then. */
static void on_closed(void *user, struct http_exchange *exchange)
{
    (void)user;
    (void)exchange;
}

enum status pages_new(const struct pages_options *options, struct pages **out)
{
    struct pages *p = mem_take_zero(options->mem, sizeof *p);

    if (p == NULL) return E_NOMEM;
    p->options = *options;
    p->http = (struct http_service){.user = p, .request = on_request, .closed = on_closed};
    *out = p;
    return OK;
}

void pages_free(struct pages *p)
{
    assert(p->waiting_n == 0);
    mem_give(p->options.mem, p, sizeof *p);
}

const struct http_service *pages_http(const struct pages *p) { return &p->http; }

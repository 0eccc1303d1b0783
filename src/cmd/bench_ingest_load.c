/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_ingest.h: the thread that sends. A request whose time has come goes out on the link
 * that has waited longest; when all are taken it waits here, and its time still counts from the
 * plan: that is what corrects for coordinated omission. The work for each request is a copy and a
 * patch of the number in its id, because the generator shares the machine with what it measures.
 */
#define _GNU_SOURCE /* epoll_pwait2, memmem */
#include "cmd/bench_ingest.h"

#include "base/assert.h"
#include "base/clock.h"
#include "cmd/bench.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 512
#define READ_SIZE 16384u
#define NAP_NS INT64_C(50000)    /* requests due within it leave together */
#define GRACE_NS (60 * NS_PER_S) /* for what waits at the end of the plan */
#define SLOW_US 50000u           /* the budget of a start in ordinary times */
#define TENTH_NS (NS_PER_S / 10)
#define ID_DIGITS 8u

struct sent {
    uint64_t index;
    int64_t planned_ns;
};

struct ingest_link {
    int fd;          /* -1: it could not be opened again */
    bool is_ready;   /* in the ring of those with room */
    bool is_blocked; /* the socket is full: waits for EPOLLOUT */
    struct buffer in;
    struct buffer out;
    struct sent sent[INGEST_DEPTH_MAX]; /* a ring, oldest at sent_at */
    uint32_t sent_at;
    uint32_t sent_n;
};

/* Counts of a tenth of a second of planned time; slow when more than 1 % missed the budget. */
struct ingest_tenth {
    uint32_t answers_n;
    uint32_t slow_n;
};

void ingest_id(const struct ingest_load *load, uint64_t number, char *out)
{
    snprintf(out, INGEST_ID_SIZE, "%s-%08llx", load->prefix, (unsigned long long)number);
}

bool ingest_is_acked(const struct ingest_load *load, uint64_t number)
{
    return (load->acked_bits[number / 64] >> (number % 64) & 1) != 0;
}

static uint32_t starts_per_request(const struct ingest_load *load)
{
    return load->settings.batch == 0 ? 1 : load->settings.batch;
}

/* ---- links ---- */

static void make_ready(struct ingest_load *load, struct ingest_link *link)
{
    if (link->is_ready || link->fd < 0 || link->is_blocked || link->sent_n >= load->settings.depth)
        return;
    link->is_ready = true;
    load->ready[(load->ready_at + load->ready_n) % load->settings.connections] = link;
    load->ready_n++;
}

/* NULL when there is none. */
static struct ingest_link *take_ready(struct ingest_load *load)
{
    while (load->ready_n > 0) {
        struct ingest_link *link = load->ready[load->ready_at];
        load->ready_at = (load->ready_at + 1) % load->settings.connections;
        load->ready_n--;
        link->is_ready = false;
        if (link->fd >= 0) return link; /* others were lost while they were in the ring */
    }
    return NULL;
}

static bool link_open(struct ingest_load *load, struct ingest_link *link)
{
    link->fd = ingest_connect(&load->target);
    if (link->fd < 0) return false;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, link->fd, &event) != 0) {
        close(link->fd);
        link->fd = -1;
        return false;
    }
    buffer_clear(&link->in);
    buffer_clear(&link->out);
    link->sent_n = 0;
    link->is_blocked = false;
    load->open_n++;
    make_ready(load, link);
    return true;
}

static void note_error(struct ingest_load *load, const char *what, struct bytes text)
{
    if (load->text[0] != '\0') return;
    snprintf(load->text, sizeof load->text, "%s%s%.*s", what, text.len > 0 ? ": " : "",
             (int)(text.len > 180 ? 180 : text.len), (const char *)text.ptr);
}

/* The connection is over: what it carried will not be answered. */
static void link_lost(struct ingest_load *load, struct ingest_link *link, const char *why)
{
    uint64_t starts_n = (uint64_t)link->sent_n * starts_per_request(load);
    if (starts_n > 0) note_error(load, why, BYTES_LITERAL(""));
    load->disconnected += starts_n;
    load->errors += starts_n;
    close(link->fd);
    load->open_n--;
    link->sent_n = 0;
    if (!link_open(load, link)) note_error(load, "cannot connect again", BYTES_LITERAL(""));
}

/* ---- sending ---- */

static void put_number(uint8_t *out, uint64_t number)
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned n = 0; n < ID_DIGITS; n++) {
        out[n] = (uint8_t)digits[number >> (4 * (ID_DIGITS - 1 - n)) & 15];
    }
}

static void link_flush(struct ingest_load *load, struct ingest_link *link)
{
    if (link->fd < 0) return;
    size_t at = 0;
    while (at < link->out.len) {
        ssize_t n = send(link->fd, link->out.ptr + at, link->out.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        at += (size_t)n;
    }
    memmove(link->out.ptr, link->out.ptr + at, link->out.len - at);
    link->out.len -= at;
    bool is_blocked = link->out.len > 0; /* a broken connection shows when it is read */
    if (is_blocked == link->is_blocked) return;
    link->is_blocked = is_blocked;
    struct epoll_event event = {.events = is_blocked ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                .data.ptr = link};
    (void)epoll_ctl(load->epoll_fd, EPOLL_CTL_MOD, link->fd, &event);
    make_ready(load, link);
}

/* Into the link's buffer: link_flush() sends it. */
static void put_request(struct ingest_load *load, struct ingest_link *link, int64_t planned_ns,
                        int64_t now_ns)
{
    uint32_t starts_n = starts_per_request(load);
    struct buffer *out = &link->out;
    size_t at = out->len;
    buffer_append_bytes(out, buffer_view(&load->request));
    if (out->failed) unreachable("no memory for a request");
    for (uint32_t n = 0; n < starts_n; n++) {
        put_number(out->ptr + at + load->id_at[n], load->starts + n);
    }
    link->sent[(link->sent_at + link->sent_n) % INGEST_DEPTH_MAX] =
        (struct sent){.index = load->requests, .planned_ns = planned_ns};
    link->sent_n++;
    unsigned phase = ingest_plan_phase(&load->settings.plan, planned_ns - load->start_ns);
    histogram_add(&load->figures[phase].late_us, (uint64_t)(now_ns - planned_ns) / 1000);
    load->requests++;
    load->starts += starts_n;
}

/* Sends what is due; answers when the next one will be, 0 when it waits for a link, INT64_MAX when
 * there is none. */
static int64_t send_due(struct ingest_load *load, uint64_t requests_n)
{
    const struct ingest_settings *s = &load->settings;
    int64_t now_ns = clock_mono_ns();
    int64_t end_ns = load->start_ns + ingest_plan_length_ns(&s->plan);
    if (s->is_flat_out) {
        for (uint32_t n = load->ready_n; n > 0 && now_ns < end_ns; n--) {
            struct ingest_link *link = take_ready(load);
            if (link == NULL) break;
            while (link->sent_n < s->depth && load->requests < requests_n)
                put_request(load, link, now_ns, now_ns);
            link_flush(load, link);
        }
        return now_ns < end_ns && load->requests < requests_n ? end_ns : INT64_MAX;
    }
    while (load->requests < requests_n) {
        int64_t due_ns = load->start_ns + ingest_plan_due_ns(&s->plan, load->requests);
        if (due_ns > now_ns) return due_ns;
        struct ingest_link *link = take_ready(load);
        if (link == NULL) return 0;
        put_request(load, link, due_ns, now_ns);
        link_flush(load, link);
        make_ready(load, link);
    }
    return INT64_MAX;
}

/* ---- answers ---- */

static void count_acked(struct ingest_load *load, const struct sent *sent, uint64_t number,
                        int64_t now_ns)
{
    const struct ingest_plan *plan = &load->settings.plan;
    int64_t planned_ns = sent->planned_ns - load->start_ns;
    unsigned phase = ingest_plan_phase(plan, planned_ns);
    uint64_t latency_us = (uint64_t)(now_ns - sent->planned_ns) / 1000;
    histogram_add(&load->figures[phase].latency_us, latency_us);
    load->figures[phase].acked++;
    load->acked++;
    if (now_ns - load->start_ns < ingest_plan_length_ns(plan))
        load->figures[ingest_plan_phase(plan, now_ns - load->start_ns)].acked_in_time++;
    load->acked_bits[number / 64] |= UINT64_C(1) << (number % 64);
    struct ingest_tenth *tenth = &load->tenths[planned_ns / TENTH_NS];
    tenth->answers_n++;
    tenth->slow_n += latency_us > SLOW_US;
}

static void count_refused(struct ingest_load *load, unsigned status, struct bytes body)
{
    char text[32];
    load->by_status[status]++;
    load->errors++;
    snprintf(text, sizeof text, "status %u", status);
    note_error(load, text, body);
}

/* A line for each start: {"line":1,"id":"a","status":202} or {"line":2,"problem":{...}}. */
static void count_batch(struct ingest_load *load, const struct sent *sent, struct bytes lines,
                        int64_t now_ns)
{
    static const char word[] = "\"status\":";
    uint64_t number = sent->index * load->settings.batch;
    uint64_t end = number + load->settings.batch;
    for (; number < end && lines.len > 0; number++) {
        const uint8_t *line_end = memchr(lines.ptr, '\n', lines.len);
        size_t len = line_end == NULL ? lines.len : (size_t)(line_end - lines.ptr);
        const uint8_t *at = memmem(lines.ptr, len, word, sizeof word - 1);
        unsigned status = 0;
        for (at = at == NULL ? lines.ptr + len : at + sizeof word - 1;
             at < lines.ptr + len && *at >= '0' && *at <= '9' && status < 60; at++) {
            status = status * 10 + (unsigned)(*at - '0');
        }
        if (status >= 200 && status < 300)
            count_acked(load, sent, number, now_ns);
        else
            count_refused(load, status, bytes_make(lines.ptr, len));
        size_t used = len + (line_end != NULL);
        lines = bytes_make(lines.ptr + used, lines.len - used);
    }
    for (; number < end; number++) count_refused(load, 0, BYTES_LITERAL("no line for a start"));
}

static void count_answer(struct ingest_load *load, struct ingest_link *link,
                         const struct ingest_answer *answer, int64_t now_ns)
{
    struct sent sent = link->sent[link->sent_at];
    link->sent_at = (link->sent_at + 1) % INGEST_DEPTH_MAX;
    link->sent_n--;
    load->end_ns = now_ns;
    bool is_good = answer->status >= 200 && answer->status < 300;
    if (load->settings.batch == 0) {
        if (is_good)
            count_acked(load, &sent, sent.index, now_ns);
        else
            count_refused(load, answer->status, answer->body);
        return;
    }
    if (!is_good) {
        for (uint32_t n = 0; n < load->settings.batch; n++)
            count_refused(load, answer->status, answer->body);
        return;
    }
    struct buffer body;
    buffer_init(&body, &load->mem);
    ingest_answer_body(answer, &body);
    count_batch(load, &sent, buffer_view(&body), now_ns);
    buffer_release(&body);
}

/* All whole answers in what has come; false when the connection is to be given up. */
static bool take_answers(struct ingest_load *load, struct ingest_link *link, int64_t now_ns)
{
    size_t at = 0;
    bool goes_on = true;
    while (at < link->in.len && goes_on) {
        struct ingest_answer answer;
        struct bytes rest = bytes_make(link->in.ptr + at, link->in.len - at);
        enum ingest_answer_state state = ingest_answer_read(rest, &answer);
        if (state == INGEST_PARTIAL) break;
        if (state == INGEST_BROKEN || link->sent_n == 0) return false;
        at += answer.size;
        if (answer.status < 200) continue; /* 100 Continue */
        count_answer(load, link, &answer, now_ns);
        goes_on = !answer.is_last;
    }
    memmove(link->in.ptr, link->in.ptr + at, link->in.len - at);
    link->in.len -= at;
    return goes_on;
}

static void link_read(struct ingest_load *load, struct ingest_link *link)
{
    if (!buffer_reserve(&link->in, READ_SIZE)) unreachable("no memory for an answer");
    ssize_t n = recv(link->fd, link->in.ptr + link->in.len, READ_SIZE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) link->in.len += (size_t)n;
    int64_t now_ns = clock_mono_ns();
    if (n <= 0)
        link_lost(load, link, n == 0 ? "the server closed a connection" : strerror(errno));
    else if (!take_answers(load, link, now_ns))
        link_lost(load, link, "the server closed a connection, or sent what is no answer");
    else
        make_ready(load, link);
}

/* ---- the thread ---- */

static void wait_and_read(struct ingest_load *load, int64_t until_ns)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t left_ns = until_ns - clock_mono_ns();
    if (until_ns == 0 || left_ns > TENTH_NS) left_ns = TENTH_NS;
    if (left_ns < NAP_NS) left_ns = NAP_NS;
    struct timespec wait = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    int n = epoll_pwait2(load->epoll_fd, events, EVENTS_MAX, &wait, NULL);
    for (int i = 0; i < n; i++) {
        struct ingest_link *link = events[i].data.ptr;
        if ((events[i].events & EPOLLOUT) != 0) link_flush(load, link);
        if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0 && link->fd >= 0) link_read(load, link);
    }
}

static uint64_t under_way(const struct ingest_load *load)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < load->settings.connections; i++) n += load->links[i].sent_n;
    return n;
}

static void find_recovery(struct ingest_load *load)
{
    const struct ingest_plan *plan = &load->settings.plan;
    const struct ingest_tenth *tenths = load->tenths;
    int64_t spike_end_ns = ingest_plan_phase_start_ns(plan, plan->phases_n - 1);
    load->recovered_ns = spike_end_ns;
    for (int64_t n = spike_end_ns / TENTH_NS; n < ingest_plan_length_ns(plan) / TENTH_NS; n++) {
        if (tenths[n].slow_n * 100 > tenths[n].answers_n) load->recovered_ns = (n + 1) * TENTH_NS;
    }
}

static void *load_main(void *user)
{
    struct ingest_load *load = user;
    const struct ingest_settings *s = &load->settings;
    uint64_t requests_n =
        s->is_flat_out ? INGEST_STARTS_MAX / starts_per_request(load) : ingest_plan_count(&s->plan);
    struct timespec cpu;
    load->start_ns = clock_mono_ns();
    int64_t give_up_ns = load->start_ns + ingest_plan_length_ns(&s->plan) + GRACE_NS;
    while (load->open_n > 0) {
        int64_t next_ns = send_due(load, requests_n);
        if (next_ns == INT64_MAX && under_way(load) == 0) break;
        if (clock_mono_ns() > give_up_ns) break;
        wait_and_read(load, next_ns);
    }
    load->unanswered = under_way(load) * starts_per_request(load);
    if (!s->is_flat_out) load->unsent = (requests_n - load->requests) * starts_per_request(load);
    load->errors += load->unanswered + load->unsent;
    find_recovery(load);
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0)
        load->cpu_ns = cpu.tv_sec * NS_PER_S + cpu.tv_nsec;
    load->is_done = true;
    return NULL;
}

/* ---- the request, and the whole ---- */

/* Appends {"name":"...","input":"xxx"} of settings->body_bytes, or as few as can be; with an id of
 * zeros when it is a line. */
static void put_start(struct ingest_load *load, bool is_line, size_t *id_at)
{
    struct buffer *out = &load->request;
    const struct ingest_settings *s = &load->settings;
    char text[INGEST_ID_SIZE + 200];
    size_t at = out->len;
    int n = 0;
    if (is_line) {
        n = snprintf(text, sizeof text, "{\"id\":\"%s-", load->prefix);
        buffer_append(out, text, (size_t)n);
        *id_at = out->len;
        n = snprintf(text, sizeof text, "00000000\",\"name\":\"%s\",\"input\":\"", s->name);
    } else {
        n = snprintf(text, sizeof text, "{\"name\":\"%s\",\"input\":\"", s->name);
    }
    buffer_append(out, text, (size_t)n);
    while (out->len - at + 2 < s->body_bytes) buffer_u8(out, 'x');
    buffer_append(out, "\"}", 2);
    if (is_line) buffer_u8(out, '\n');
}

static bool make_request(struct ingest_load *load)
{
    struct buffer *out = &load->request;
    const struct ingest_settings *s = &load->settings;
    char head[600];
    uint32_t starts_n = starts_per_request(load);
    buffer_init(out, &load->mem);
    load->id_at = mem_take_zero(&load->mem, starts_n * sizeof *load->id_at);
    if (load->id_at == NULL) return false;
    for (uint32_t n = 0; n < starts_n; n++) put_start(load, s->batch > 0, &load->id_at[n]);
    size_t body_size = out->len;
    int n = 0;
    if (s->batch > 0) {
        n = snprintf(head, sizeof head, "POST /v1/instances:batch?hub=%s HTTP/1.1\r\n", s->hub);
    } else {
        n = snprintf(head, sizeof head, "PUT /v1/instances/%s-", load->prefix);
        load->id_at[0] = (size_t)n;
        n += snprintf(head + n, sizeof head - (size_t)n, "00000000?hub=%s HTTP/1.1\r\n", s->hub);
    }
    n += snprintf(head + n, sizeof head - (size_t)n,
                  "Host: %s\r\nContent-Type: application/%s\r\nContent-Length: %zu\r\n\r\n",
                  load->target.text, s->batch > 0 ? "x-ndjson" : "json", body_size);
    if (!buffer_reserve(out, (size_t)n)) return false;
    memmove(out->ptr + n, out->ptr, body_size);
    memcpy(out->ptr, head, (size_t)n);
    out->len += (size_t)n;
    for (uint32_t i = 0; i < starts_n && s->batch > 0; i++) load->id_at[i] += (size_t)n;
    return true;
}

static bool take_memory(struct ingest_load *load)
{
    const struct ingest_settings *s = &load->settings;
    load->tenths_size =
        (size_t)(ingest_plan_length_ns(&s->plan) / TENTH_NS + 2) * sizeof(struct ingest_tenth);
    load->tenths = mem_take_zero(&load->mem, load->tenths_size);
    load->acked_bits = mem_take_zero(&load->mem, INGEST_STARTS_MAX / 8);
    load->links = mem_take_zero(&load->mem, s->connections * sizeof *load->links);
    load->ready = mem_take_zero(&load->mem, s->connections * sizeof(struct ingest_link *));
    return load->tenths != NULL && load->acked_bits != NULL && load->links != NULL &&
           load->ready != NULL && make_request(load);
}

bool ingest_load_start(struct ingest_load *load, const struct ingest_settings *settings,
                       const struct ingest_target *target)
{
    *load = (struct ingest_load){.settings = *settings, .target = *target};
    mem_init(&load->mem, SIZE_MAX);
    snprintf(load->prefix, sizeof load->prefix, "ingest-%llx",
             (unsigned long long)clock_wall_ns() / 1000);
    for (unsigned n = 0; n < INGEST_PHASES_MAX; n++) {
        histogram_init(&load->figures[n].latency_us);
        histogram_init(&load->figures[n].late_us);
    }
    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (load->epoll_fd < 0 || !take_memory(load)) {
        fprintf(stderr, "norn bench ingest: %s\n", status_text(E_NOMEM));
        return false;
    }
    for (uint32_t n = 0; n < settings->connections; n++) {
        struct ingest_link *link = &load->links[n];
        buffer_init(&link->in, &load->mem);
        buffer_init(&link->out, &load->mem);
        if (link_open(load, link)) continue;
        fprintf(stderr, "norn bench ingest: %s: %s\n", target->text, strerror(errno));
        return false;
    }
    return pthread_create(&load->thread, NULL, load_main, load) == 0;
}

void ingest_load_wait(struct ingest_load *load) { (void)pthread_join(load->thread, NULL); }

void ingest_load_free(struct ingest_load *load)
{
    const struct ingest_settings *s = &load->settings;
    for (uint32_t n = 0; load->links != NULL && n < s->connections; n++) {
        struct ingest_link *link = &load->links[n];
        if (link->in.mem == NULL) continue; /* it never came to this one */
        if (link->fd >= 0) close(link->fd);
        buffer_release(&link->in);
        buffer_release(&link->out);
    }
    if (load->epoll_fd >= 0) close(load->epoll_fd);
    mem_give(&load->mem, load->links, s->connections * sizeof *load->links);
    mem_give(&load->mem, load->ready, s->connections * sizeof(struct ingest_link *));
    mem_give(&load->mem, load->acked_bits, INGEST_STARTS_MAX / 8);
    mem_give(&load->mem, load->tenths, load->tenths_size);
    mem_give(&load->mem, load->id_at, starts_per_request(load) * sizeof *load->id_at);
    if (load->request.mem != NULL) buffer_release(&load->request);
    mem_release(&load->mem);
}

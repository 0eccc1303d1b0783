/* SPDX-License-Identifier: Apache-2.0
 *
 * norn-victim: an engine to be killed. It does what its driver says (see victim_text.h) and answers
 * what the engine answers, when the engine does; it remembers nothing itself. So whatever the
 * driver has heard stands on the engine's word alone, and the driver survives to check it.
 *
 *      norn-victim DIRECTORY EFFECTS SEGMENT_KIB
 *
 * Ends with 0 when its input ends, 1 when the directory cannot be opened.
 */
#include "base/assert.h"
#include "host/engine.h"
#include "test/torture/victim_text.h"
#include "test/torture/victim_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LIST_PAGE_N 200u

/* A command on its way, with everything that its request borrows. */
struct ask {
    struct request request;
    struct engine *engine;
    unsigned slot;
    char key[160];
    char data[256];
    char after_id[160]; /* list: the page after this */
    char *payload;      /* start */
};

/* ---- answers ---- */

static void write_all(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(2); /* nobody listens any more */
        text += n;
        len -= (size_t)n;
    }
}

/* One whole line, from any thread. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char line[VICTIM_LINE_MAX];
    va_list arguments;

    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    assert(len >= 0 && (size_t)len < sizeof line - 1);
    line[len] = '\n';
    (void)pthread_mutex_lock(&mutex);
    write_all(line, (size_t)len + 1);
    (void)pthread_mutex_unlock(&mutex);
}

static void complain(const char *text) { say("! %s", text); }

static void ask_free(struct ask *a)
{
    free(a->payload);
    free(a);
}

/* The three words that the driver knows an instance's state by. */
static void state_text(const struct instance_view *view, char *out, size_t size)
{
    char execution[EXECUTION_TEXT_SIZE];
    char output[BRIEF_SIZE];

    execution_id_text(view->execution_id, execution);
    brief(view->output.has ? view->output.value : BYTES_NONE, output);
    (void)snprintf(out, size, "%.*s %s %s", EXECUTION_TEXT_SIZE, execution,
                   orchestration_status_name(view->status), output);
}

static void answer_plain(struct request *request)
{
    struct ask *a = container_of(request, struct ask, request);

    say("%u %s", a->slot, status_name(request->status));
    ask_free(a);
}

static void answer_wait(struct request *request)
{
    struct ask *a = container_of(request, struct ask, request);
    char state[256] = "gone";

    if (request->view != NULL) state_text(request->view, state, sizeof state);
    if (request->status == OK)
        say("%u OK %s", a->slot, state);
    else
        say("%u %s", a->slot, status_name(request->status));
    ask_free(a);
}

static void answer_history(struct request *request)
{
    struct ask *a = container_of(request, struct ask, request);
    struct reader r = reader_make(request->events);
    struct bytes event;
    char text[VICTIM_LINE_MAX - 64] = "";
    size_t len = 0;

    while (request->status == OK && strings_next(&r, &event)) {
        struct event_head head;
        enum status status = event_head_decode(event, &head);
        assert(status == OK);
        len += (size_t)snprintf(text + len, sizeof text - len, " %d:%d:%d", (int)head.kind, head.id,
                                head.ref);
        assert(len < sizeof text);
    }
    if (reader_left(&r) > 0) say("! %s has a damaged history", a->key);
    say("%u %s%s", a->slot, status_name(request->status), text);
    ask_free(a);
}

static void post(struct ask *a);

static void say_row(const struct instance_view *view)
{
    struct bytes id = key_id(view->key);
    struct bytes parent = view->parent_id.len > 0 ? view->parent_id : BYTES_LITERAL("-");
    char state[256];

    state_text(view, state, sizeof state);
    say("+ %.*s %.*s %s", (int)id.len, (const char *)id.ptr, (int)parent.len,
        (const char *)parent.ptr, state);
}

static void answer_list(struct request *request)
{
    struct ask *a = container_of(request, struct ask, request);

    for (size_t n = 0; n < request->rows_n; n++) say_row(&request->rows[n]);
    if (request->status != OK || !request->has_more) {
        answer_plain(request);
        return;
    }
    const struct instance_view *last = &request->rows[request->rows_n - 1];
    struct bytes id = key_id(last->key);
    assert(id.len < sizeof a->after_id);
    memcpy(a->after_id, id.ptr, id.len);
    request->query.has_after = true;
    request->query.after_ms = last->created_ns / 1000000;
    request->query.after_id = bytes_make(a->after_id, id.len);
    post(a);
}

/* ---- commands ---- */

static void ask_start(struct ask *a, char *rest)
{
    struct request *request = &a->request;
    char *name = word_next(&rest);
    uint64_t size = 0;

    (void)snprintf(a->data, sizeof a->data, "%s", name);
    bool is_number = word_number(word_next(&rest), &size);
    assert(is_number);
    a->payload = malloc(strlen(rest) + size + 1);
    assert(a->payload != NULL);
    size_t len = payload_fill(a->payload, a->key + sizeof VICTIM_HUB, rest, size);
    request->kind = REQUEST_START;
    request->done = answer_plain;
    request->start.name = bytes_of_text(a->data);
    request->start.input = maybe_some(bytes_make(a->payload, len));
    request->start.reuse = REUSE_NEVER;
}

static void ask_client(struct ask *a, enum request_kind kind, const char *rest)
{
    struct request *request = &a->request;

    (void)snprintf(a->data, sizeof a->data, "%s", rest);
    request->kind = kind;
    request->done = answer_plain;
    request->client.name = BYTES_LITERAL("n"); /* the event that the programs wait for */
    request->client.data = maybe_some(bytes_of_text(a->data));
    request->client.recurse = kind == REQUEST_PURGE;
}

static void ask_read(struct ask *a, enum request_kind kind)
{
    a->request.kind = kind;
    a->request.done = kind == REQUEST_WAIT ? answer_wait : answer_history;
    if (kind == REQUEST_WAIT) a->request.wait.until_finished = true;
}

static void ask_list(struct ask *a)
{
    a->request.kind = REQUEST_QUERY;
    a->request.done = answer_list;
    a->request.query.hub = BYTES_LITERAL(VICTIM_HUB);
    a->request.query.limit = LIST_PAGE_N;
    a->request.query.want_payloads = true;
}

static void post(struct ask *a)
{
    if (engine_post(a->engine, &a->request)) return;
    a->request.status = E_UNAVAILABLE;
    answer_plain(&a->request);
}

static void obey(struct engine *engine, char *line)
{
    struct ask *a = calloc(1, sizeof *a);
    uint64_t slot = 0;

    assert(a != NULL);
    a->engine = engine;
    bool is_number = word_number(word_next(&line), &slot);
    assert(is_number);
    a->slot = (unsigned)slot;
    const char *verb = word_next(&line);
    (void)snprintf(a->key, sizeof a->key, "%s/%s", VICTIM_HUB, word_next(&line));
    a->request.key = bytes_of_text(a->key);
    if (strcmp(verb, "start") == 0)
        ask_start(a, line);
    else if (strcmp(verb, "raise") == 0)
        ask_client(a, REQUEST_RAISE, line);
    else if (strcmp(verb, "terminate") == 0)
        ask_client(a, REQUEST_TERMINATE, line);
    else if (strcmp(verb, "purge") == 0)
        ask_client(a, REQUEST_PURGE, line);
    else if (strcmp(verb, "wait") == 0)
        ask_read(a, REQUEST_WAIT);
    else if (strcmp(verb, "history") == 0)
        ask_read(a, REQUEST_HISTORY);
    else if (strcmp(verb, "list") == 0)
        ask_list(a);
    else
        unreachable("no such verb");
    post(a);
}

/* ---- the process ---- */

/* Small and hasty: segments change, instances are archived and leave memory, within one short life.
 */
static void set_options(struct engine_options *options, const char *directory, uint64_t segment_kib)
{
    engine_options_init(options);
    options->directory = directory;
    options->host.partitions_n = 8;
    options->journal_segment_size = segment_kib << 10;
    options->archive_segment_size = segment_kib << 10;
    options->host.archive_every_ms = 20;
    options->host.archive_batch_n = 50;
    options->host.idle_evict_ms = 50;
    options->host.horizon_ms = 100;
    options->host.disk_free_min = 0; /* the disks here are small */
}

static void obey_all(struct engine *engine)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t len;

    while ((len = getline(&line, &size, stdin)) > 0) {
        if (line[len - 1] != '\n') break; /* the driver is gone */
        line[len - 1] = '\0';
        obey(engine, line);
    }
    free(line);
}

int main(int argc, char **argv)
{
    struct engine_options options;
    struct engine *engine = NULL;
    char problem[ENGINE_DAMAGE_SIZE];
    uint64_t segment_kib = 0;

    if (argc != 4 || !word_number(argv[3], &segment_kib)) {
        (void)fprintf(stderr, "usage: norn-victim DIRECTORY EFFECTS SEGMENT_KIB\n");
        return 2;
    }
    int effects_fd = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert(effects_fd >= 0);
    set_options(&options, argv[1], segment_kib);
    enum status status = engine_open(&options, problem, &engine);
    if (status != OK) {
        say("closed %s %s", status_name(status), problem);
        return 1;
    }
    struct victim_worker *worker = victim_worker_open(engine, effects_fd, complain);
    say("ready %d", (int)getpid());
    obey_all(engine);
    victim_worker_close(worker);
    engine_close(engine);
    victim_worker_free(worker);
    (void)close(effects_fd);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * norn start, norn run, norn batch start.
 */
#include "base/mem.h"
#include "base/moment.h"
#include "cli/form.h"
#include "cli/instance.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "cli/when.h"

#include <stdio.h>
#include <string.h>

struct start_options {
    const char *id;
    const char *version;
    const char *at;
    const char *reuse;
    const char *reply_to;
    const char *correlation_id;
    struct option_list tags;
};

#define START_SPECS_N 7

static void start_specs(struct start_options *o, struct option_spec out[static START_SPECS_N])
{
    const struct option_spec specs[START_SPECS_N] = {
        OPTION_TEXT("id", "ID", "its id; made by the server without", NULL, &o->id),
        OPTION_TEXT("version", "TEXT", "of the orchestrator", NULL, &o->version),
        {.name = "tag", .value = "KEY=VALUE", .help = "may be repeated", .list = &o->tags},
        OPTION_TEXT("at", "TIME", "not before this; 10m means from now", NULL, &o->at),
        {.name = "reuse",
         .value = "WHEN",
         .help = "when the id exists: ended, never, always or ignore",
         .among = "ended|never|always|ignore",
         .string = &o->reuse},
        OPTION_TEXT("reply-to", "URL", "its progress is posted there", NULL, &o->reply_to),
        OPTION_TEXT("correlation-id", "TEXT", "comes with what is posted", NULL,
                    &o->correlation_id),
    };
    memcpy(out, specs, sizeof specs);
}

static bool write_tags(struct cli *cli, struct form *body, const struct option_list *tags,
                       int *exit_code)
{
    if (tags->n == 0) return true;
    json_key(&body->json, "tags");
    json_object_begin(&body->json);
    for (size_t n = 0; n < tags->n; n++) {
        const char *equals = strchr(tags->items[n], '=');
        if (equals == NULL || equals == tags->items[n]) {
            *exit_code = cli_failf(cli, EXIT_CODE_USAGE, "bad-tag", "--tag %s: give KEY=VALUE",
                                   tags->items[n]);
            return false;
        }
        json_key_bytes(&body->json, bytes_make(tags->items[n], (size_t)(equals - tags->items[n])));
        json_text(&body->json, equals + 1);
    }
    json_object_end(&body->json);
    return true;
}

static bool write_start(struct cli *cli, struct form *body, const struct start_options *o,
                        int *exit_code)
{
    struct bytes input;
    int64_t at_ns = 0;
    char at[MOMENT_SIZE];

    form_text(body, "name", cli->words.items[0]);
    form_text(body, "version", o->version);
    if (!cli_payload(cli, cli_word(cli, 1), &input, exit_code)) return false;
    form_raw(body, "input", input);
    if (o->at != NULL) {
        if (!when_parse(o->at, cli->now_ns, true, &at_ns)) {
            *exit_code =
                cli_failf(cli, EXIT_CODE_USAGE, "bad-time",
                          "--at %s: give a time such as 2026-11-15T12:00:00Z or 10m", o->at);
            return false;
        }
        (void)time_format(at_ns, at);
        form_text(body, "scheduledAt", at);
    }
    form_text(body, "replyTo", o->reply_to);
    form_text(body, "correlationId", o->correlation_id);
    return write_tags(cli, body, &o->tags, exit_code);
}

/* With an id of the caller's and no word on what to do when it exists, the start is one that can
 * be repeated: PUT. *id: in the arena. */
static int start(struct cli *cli, const struct start_options *o, const char **id)
{
    struct form body;
    int code = EXIT_CODE_OK;
    bool is_put = o->id != NULL && o->reuse == NULL;

    if (o->id != NULL && o->id[0] == '\0') return cli_empty_word(cli, "--id");
    form_begin(&body);
    if (!is_put) form_text(&body, "id", o->id);
    form_text(&body, "reuse", o->reuse);
    bool is_written = write_start(cli, &body, o, &code);
    if (!is_written) {
        buffer_release(&body.text);
        return code;
    }
    struct ask ask = {
        .method = is_put ? "PUT" : "POST", .body = form_end(&body, cli, false), .needs = "id"};
    ask.path = is_put ? cli_path(cli, "/v1/instances/%s", o->id) : cli_path(cli, "/v1/instances");
    code = cli_ask(cli, &ask);
    if (code != EXIT_CODE_OK) return code;
    *id = member_text(&cli->arena, ask.value, "id");
    return EXIT_CODE_OK;
}

int verb_start(const struct command *command, int argc, char **argv)
{
    struct start_options o = {0};
    struct option_spec specs[START_SPECS_N];
    struct cli cli;
    const char *id = NULL;
    int code;

    start_specs(&o, specs);
    if (!cli_open(&cli, command, specs, START_SPECS_N, argc, argv, &code)) return code;
    code = start(&cli, &o, &id);
    if (code != EXIT_CODE_OK) return cli_close(&cli, code);
    if (cli_is_json(&cli))
        print_done(&cli, "started", id, VALUE_NONE);
    else
        (void)puts(id);
    return cli_close(&cli, code);
}

int verb_run(const struct command *command, int argc, char **argv)
{
    struct start_options o = {0};
    struct option_spec specs[START_SPECS_N + 1];
    struct cli cli;
    struct value instance = VALUE_NONE;
    const char *id = NULL;
    bool is_waiting = false;
    int code;

    start_specs(&o, specs);
    specs[START_SPECS_N] =
        (struct option_spec){.name = "wait", .help = "as it always does", .flag = &is_waiting};
    if (!cli_open(&cli, command, specs, START_SPECS_N + 1, argc, argv, &code)) return code;
    code = start(&cli, &o, &id);
    if (code == EXIT_CODE_OK && cli.terminal.is_terminal) cli_say(&cli, "started %s\n", id);
    if (code == EXIT_CODE_OK) code = instance_wait(&cli, id, &instance);
    if (code == EXIT_CODE_OK) code = instance_print_result(&cli, instance);
    return cli_close(&cli, code);
}

/* ---- many ---- */

#define BATCH_LINES_MAX 1000u
#define BATCH_SIZE_MAX ((size_t)4 << 20)
#define BACKLOG_WAIT_MS 1000

struct batch_start {
    struct cli *cli;
    struct progress progress;
    uint64_t sent_n;
    uint64_t started_n;
    uint64_t refused_n;
    /* of the next request; the lines are borrowed from the file */
    size_t n;
    struct bytes lines[BATCH_LINES_MAX];
    uint64_t numbers[BATCH_LINES_MAX]; /* in the file, from 1 on */
};

/* The answer to one line. False: the backlog is full, it is to be sent again. */
static bool take_answer(struct batch_start *batch, struct value answer, uint64_t number)
{
    struct arena *arena = &batch->cli->arena;
    struct value problem = value_member(answer, "problem");

    if (problem.type != JSON_OBJECT) {
        batch->started_n++;
        (void)puts(member_text(arena, answer, "id"));
        return true;
    }
    const char *code = member_text(arena, problem, "code");
    if (strcmp(code, "backlog-full") == 0) return false;
    batch->refused_n++;
    (void)cli_failf(batch->cli, 0, code, "line %llu: %s", (unsigned long long)number,
                    member_text(arena, problem, "detail"));
    return true;
}

/* The answers to one request, a line each, in the order of its lines; those that are to be sent
 * again stay. False: there are not as many as lines. */
static bool take_answers(struct batch_start *batch, struct bytes answers)
{
    size_t kept_n = 0;
    size_t n = 0;

    for (; n < batch->n && answers.len > 0; n++) {
        const uint8_t *end = memchr(answers.ptr, '\n', answers.len);
        size_t len = end == NULL ? answers.len : (size_t)(end - answers.ptr);
        size_t over = end == NULL ? len : len + 1;
        struct value answer = value_parse(bytes_make(answers.ptr, len), NULL);
        if (!take_answer(batch, answer, batch->numbers[n])) {
            batch->lines[kept_n] = batch->lines[n];
            batch->numbers[kept_n++] = batch->numbers[n];
        }
        answers = bytes_make(answers.ptr + over, answers.len - over);
    }
    bool is_whole = n == batch->n;
    batch->n = kept_n;
    return is_whole;
}

static int send_once(struct batch_start *batch)
{
    struct cli *cli = batch->cli;
    struct buffer body;
    struct ask ask = {.method = "POST",
                      .path = cli_path(cli, "/v1/instances:batch"),
                      .type = "application/x-ndjson",
                      .is_lines = true};

    buffer_init(&body, mem_process());
    for (size_t n = 0; n < batch->n; n++) {
        buffer_append_bytes(&body, batch->lines[n]);
        buffer_u8(&body, '\n');
    }
    ask.body = buffer_view(&body);
    int code = body.failed ? cli_fail(cli, EXIT_CODE_FAILED, "no-memory", "out of memory", NULL)
                           : cli_ask(cli, &ask);
    buffer_release(&body);
    if (code != EXIT_CODE_OK) return code;
    size_t sent_n = batch->n;
    if (!take_answers(batch, ask.value.raw)) return cli_bad_answer(cli, ask.method, ask.path);
    batch->sent_n += sent_n - batch->n;
    progress_show(&batch->progress, batch->sent_n);
    return EXIT_CODE_OK;
}

/* Until all are started or refused: those for which there is no room in the backlog wait here. */
static int send_lines(struct batch_start *batch)
{
    bool has_waited = false;

    while (batch->n > 0) {
        struct arena kept = cli_arena_swap(batch->cli);
        int code = send_once(batch);
        cli_arena_restore(batch->cli, kept);
        if (code != EXIT_CODE_OK) return code;
        if (batch->n == 0) break;
        if (!has_waited) cli_say(batch->cli, "the backlog is full: waiting for room\n");
        has_waited = true;
        cli_sleep_ms(cli_time_left_ms(batch->cli, BACKLOG_WAIT_MS));
        if (cli_time_left_ms(batch->cli, 1) == 0)
            return cli_failf(batch->cli, EXIT_CODE_TIMEOUT, "backlog-full",
                             "the time is over, and the backlog is full; line %llu is not started",
                             (unsigned long long)batch->numbers[0]);
    }
    return EXIT_CODE_OK;
}

static int send_all(struct batch_start *batch, struct bytes text)
{
    uint64_t number = 0;
    size_t size = 0;
    int code = EXIT_CODE_OK;

    while (text.len > 0 && code == EXIT_CODE_OK) {
        const uint8_t *end = memchr(text.ptr, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.ptr);
        size_t over = end == NULL ? len : len + 1;
        struct bytes line = bytes_make(text.ptr, len);
        text = bytes_make(text.ptr + over, text.len - over);
        number++;
        if (line.len > 0 && line.ptr[line.len - 1] == '\r') line.len--;
        if (line.len > 0) {
            batch->lines[batch->n] = line;
            batch->numbers[batch->n++] = number;
            size += line.len;
        }
        if (batch->n < BATCH_LINES_MAX && size < BATCH_SIZE_MAX && text.len > 0) continue;
        code = send_lines(batch);
        size = 0;
    }
    return code;
}

int verb_batch_start(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    struct bytes text;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    if (!cli_read_file(&cli, cli.words.items[0], &text, &code)) return cli_close(&cli, code);
    struct batch_start batch = {.cli = &cli};
    progress_begin(&batch.progress, "sent", 0, cli.is_quiet);
    code = send_all(&batch, text);
    progress_end(&batch.progress);
    cli_say(&cli, "%llu started, %llu refused\n", (unsigned long long)batch.started_n,
            (unsigned long long)batch.refused_n);
    if (code == EXIT_CODE_OK && batch.refused_n > 0) code = EXIT_CODE_FAILED;
    return cli_close(&cli, code);
}

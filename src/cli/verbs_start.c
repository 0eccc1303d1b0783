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

    form_begin(&body);
    if (!is_put) form_text(&body, "id", o->id);
    form_text(&body, "reuse", o->reuse);
    bool is_written = write_start(cli, &body, o, &code);
    if (!is_written) {
        buffer_release(&body.text);
        return code;
    }
    struct ask ask = {.method = is_put ? "PUT" : "POST", .body = form_end(&body, cli, false)};
    ask.path = is_put ? cli_path(cli, "/v1/instances/%s", o->id) : cli_path(cli, "/v1/instances");
    code = cli_ask(cli, &ask);
    if (code != EXIT_CODE_OK) return code;
    *id = member_text(&cli->arena, ask.value, "id");
    if (*id[0] == '\0' && o->id != NULL) *id = o->id;
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

struct batch_start {
    struct cli *cli;
    struct progress progress;
    uint64_t lines_n; /* sent so far */
    uint64_t started_n;
    uint64_t refused_n;
};

/* The answers to one request, a line each. */
static void take_answers(struct batch_start *batch, struct bytes lines)
{
    while (lines.len > 0) {
        const uint8_t *end = memchr(lines.ptr, '\n', lines.len);
        size_t len = end == NULL ? lines.len : (size_t)(end - lines.ptr);
        struct value answer = value_parse(bytes_make(lines.ptr, len), NULL);
        struct value problem = value_member(answer, "problem");
        struct arena *arena = &batch->cli->arena;
        uint64_t line = batch->lines_n + (uint64_t)member_int64(answer, "line", 0);
        if (problem.type == JSON_OBJECT) {
            batch->refused_n++;
            (void)cli_failf(batch->cli, 0, member_text(arena, problem, "code"), "line %llu: %s",
                            (unsigned long long)line, member_text(arena, problem, "detail"));
        } else if (answer.type == JSON_OBJECT) {
            batch->started_n++;
            (void)puts(member_text(arena, answer, "id"));
        }
        lines.ptr += len + (end == NULL ? 0 : 1);
        lines.len -= len + (end == NULL ? 0 : 1);
    }
}

static int send_lines(struct batch_start *batch, struct bytes lines, uint64_t lines_n)
{
    struct ask ask = {.method = "POST",
                      .path = cli_path(batch->cli, "/v1/instances:batch"),
                      .type = "application/x-ndjson",
                      .body = lines};
    int code = cli_ask(batch->cli, &ask);

    if (code != EXIT_CODE_OK) return code;
    take_answers(batch, ask.value.raw);
    batch->lines_n += lines_n;
    progress_show(&batch->progress, batch->lines_n);
    return EXIT_CODE_OK;
}

static int send_all(struct batch_start *batch, struct bytes text)
{
    size_t first = 0;
    uint64_t lines_n = 0;

    for (size_t at = 0; at < text.len; at++) {
        bool is_last = at + 1 == text.len;
        if (text.ptr[at] != '\n' && !is_last) continue;
        lines_n++;
        if (!is_last && lines_n < BATCH_LINES_MAX && at - first < BATCH_SIZE_MAX) continue;
        int code = send_lines(batch, bytes_make(text.ptr + first, at + 1 - first), lines_n);
        if (code != EXIT_CODE_OK) return code;
        first = at + 1;
        lines_n = 0;
    }
    return EXIT_CODE_OK;
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

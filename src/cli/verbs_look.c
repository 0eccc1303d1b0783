/* SPDX-License-Identifier: Apache-2.0
 *
 * norn list, count, show, why, result.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/filters.h"
#include "cli/instance.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

int verb_list(const struct command *command, int argc, char **argv)
{
    struct filters filters = {0};
    struct paging paging = PAGING_DEFAULT;
    bool is_newest = false;
    bool is_oldest = false;
    struct option_spec specs[FILTERS_N + 4] = {
        [FILTERS_N] = PAGING_SPECS(paging), /* two */
        OPTION_FLAG("newest", "the newest first, as without it", &is_newest),
        OPTION_FLAG("oldest", "the oldest first", &is_oldest),
    };
    struct cli cli;
    int code;

    filters_specs(&filters, specs);
    if (!cli_open(&cli, command, specs, FILTERS_N + 4, argc, argv, &code)) return code;
    if (is_newest && is_oldest)
        return cli_close(&cli,
                         cli_fail(&cli, EXIT_CODE_USAGE, "bad-option",
                                  "either --newest or --oldest can be first, not both", NULL));
    if (!filters_resolve(&cli, &filters, &code)) return cli_close(&cli, code);
    const char *path = filters_query(&cli, cli_path(&cli, "/v1/instances"), &filters);
    path = url_parameter(&cli.arena, path, "order", is_oldest ? "oldest" : "newest");
    if (cli.format == FORMAT_NAME) path = url_parameter(&cli.arena, path, "payloads", "false");
    code = print_list(&cli, path, instance_columns, instance_columns_n, paging, "there are none");
    return cli_close(&cli, code);
}

int verb_count(const struct command *command, int argc, char **argv)
{
    struct filters filters = {0};
    struct option_spec specs[FILTERS_N];
    struct cli cli;
    int code;

    filters_specs(&filters, specs);
    if (!cli_open(&cli, command, specs, FILTERS_N, argc, argv, &code)) return code;
    if (!filters_resolve(&cli, &filters, &code)) return cli_close(&cli, code);
    struct ask ask = {.path = filters_query(&cli, cli_path(&cli, "/v1/instances:count"), &filters),
                      .needs = "count"};
    code = cli_ask(&cli, &ask);
    if (code != EXIT_CODE_OK) return cli_close(&cli, code);
    if (cli_is_json(&cli)) {
        print_json(&cli, ask.value);
    } else {
        (void)puts(member_text(&cli.arena, ask.value, "count"));
        if (!member_is_true(ask.value, "isExact"))
            cli_say(&cli, "counting stopped there: there are more\n");
    }
    return cli_close(&cli, code);
}

/* ---- one ---- */

static const struct column show_columns[] = {
    {"id", "id", COLUMN_KEY, false},
    {"hub", "hub", COLUMN_TEXT, false},
    {"name", "name", COLUMN_TEXT, false},
    {"version", "version", COLUMN_TEXT, false},
    {"status", "status", COLUMN_STATUS, false},
    {"custom status", "customStatus", COLUMN_JSON, false},
    {"execution", "executionId", COLUMN_TEXT, false},
    {"parent", "parentId", COLUMN_TEXT, false},
    {"created", "createdAt", COLUMN_TIME, false},
    {"scheduled", "scheduledAt", COLUMN_TIME, false},
    {"updated", "updatedAt", COLUMN_TIME, false},
    {"completed", "completedAt", COLUMN_TIME, false},
    {"history", "historyEvents", COLUMN_NUMBER, false},
    {"history size", "historyBytes", COLUMN_SIZE, false},
    {"tags", "tags", COLUMN_JSON, false},
    {"reply to", "replyTo", COLUMN_TEXT, false},
    {"correlation id", "correlationId", COLUMN_TEXT, false},
    {"input", "input", COLUMN_JSON, false},
    {"output", "output", COLUMN_JSON, false},
};

static void print_failure(struct cli *cli, struct value failure)
{
    if (failure.type == JSON_NONE || !cli_is_table(cli)) return;
    struct buffer text;
    const char *stack = member_text(&cli->arena, failure, "stackTrace");
    buffer_init(&text, mem_process());
    buffer_append_bytes(&text, bytes_of_text("failure  "));
    buffer_append_bytes(&text, bytes_of_text(terminal_color(&cli->terminal, COLOR_RED)));
    text_clean(&text, bytes_of_text(failure_text(cli, failure)));
    if (cli->terminal.has_color)
        buffer_append_bytes(&text, bytes_of_text(terminal_color(&cli->terminal, COLOR_NONE)));
    buffer_u8(&text, '\n');
    while (*stack != '\0') {
        size_t len = strcspn(stack, "\n");
        buffer_append(&text, "  ", 2);
        text_clean(&text, bytes_make(stack, len));
        buffer_u8(&text, '\n');
        stack += len;
        stack += *stack == '\n';
    }
    print_buffer(&text);
    buffer_release(&text);
}

int verb_show(const struct command *command, int argc, char **argv)
{
    bool is_brief = false;
    const struct option_spec specs[] = {
        OPTION_FLAG("no-payloads", "without input, output and custom status", &is_brief),
    };
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, specs, 1, argc, argv, &code)) return code;
    const char *path = cli_path(&cli, "/v1/instances/%s", cli.words.items[0]);
    struct ask ask = {.path =
                          url_parameter(&cli.arena, path, "payloads", is_brief ? "false" : NULL),
                      .needs = "id status"};
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) {
        print_object(&cli, show_columns, sizeof show_columns / sizeof show_columns[0], ask.value);
        print_failure(&cli, value_member(ask.value, "failure"));
    }
    return cli_close(&cli, code);
}

int verb_result(const struct command *command, int argc, char **argv)
{
    bool is_waiting = false;
    const struct option_spec specs[] = {
        {.name = "wait", .letter = 'w', .help = "until it has ended", .flag = &is_waiting},
    };
    struct cli cli;
    struct value instance = VALUE_NONE;
    int code;

    if (!cli_open(&cli, command, specs, 1, argc, argv, &code)) return code;
    const char *id = cli.words.items[0];
    if (is_waiting) {
        code = instance_wait(&cli, id, &instance);
    } else {
        struct ask ask = {.path = cli_path(&cli, "/v1/instances/%s", id), .needs = "status"};
        code = cli_ask(&cli, &ask);
        instance = ask.value;
    }
    if (code != EXIT_CODE_OK) return cli_close(&cli, code);
    const char *status = member_text(&cli.arena, instance, "status");
    if (status_is_ended(status))
        code = instance_print_result(&cli, instance);
    else
        code = cli_failf(&cli, EXIT_CODE_TIMEOUT, "not-ended",
                         "%s is %s and has no result yet; --wait waits for it", id, status);
    return cli_close(&cli, code);
}

/* ---- why ---- */

static void why_line(struct buffer *out, const char *title, const char *text)
{
    if (text[0] == '\0') return;
    buffer_format(out, "%-12s ", title);
    text_clean(out, bytes_of_text(text));
    buffer_u8(out, '\n');
}

/* "task 3 'charge'  Pending, attempt 3 of 20, next try in 12s, with worker-7" */
static void why_task(struct cli *cli, struct buffer *out, struct value task)
{
    struct arena *arena = &cli->arena;
    int64_t failures = member_int64(task, "failureCount", 0);
    const char *attempts = member_text(arena, task, "attempts");
    const char *state = member_text(arena, task, "state");
    const char *locked_by = member_text(arena, task, "lockedBy");
    const char *retry_at = cell_time(cli, value_member(task, "retryAt"));
    const char *complete_by = cell_time(cli, value_member(task, "completeBy"));

    buffer_format(out, "  task %s '", member_text(arena, task, "taskId"));
    text_clean(out, bytes_of_text(member_text(arena, task, "name")));
    buffer_format(out, "'  %s%s%s", terminal_color(&cli->terminal, status_color(state)), state,
                  terminal_color(&cli->terminal, COLOR_NONE));
    if (failures > 0 || attempts[0] != '\0')
        buffer_format(out, ", attempt %lld%s%s", (long long)failures + 1,
                      attempts[0] == '\0' ? "" : " of ", attempts);
    if (retry_at[0] != '\0') buffer_format(out, ", next try %s", retry_at);
    if (locked_by[0] != '\0') {
        buffer_format(out, ", with ");
        text_clean(out, bytes_of_text(locked_by));
    }
    if (complete_by[0] != '\0') buffer_format(out, ", to complete %s", complete_by);
    buffer_u8(out, '\n');
}

static void why_list(struct cli *cli, struct buffer *out, const char *title, struct value list,
                     const char *field)
{
    struct value_cursor cursor = value_begin(list);

    while (value_next(&cursor, &cli->arena)) {
        struct value v = field == NULL ? cursor.value : value_member(cursor.value, field);
        int64_t ignored = 0;
        bool is_time = value_time(&cli->arena, v, &ignored);
        why_line(out, title, is_time ? cell_time(cli, v) : value_text(&cli->arena, v));
        title = "";
    }
}

static void why_print(struct cli *cli, struct value why)
{
    struct buffer out;
    const char *status = member_text(&cli->arena, why, "status");
    struct value waits = value_member(why, "waitsFor");
    struct value_cursor tasks = value_begin(value_member(why, "tasks"));

    buffer_init(&out, mem_process());
    why_line(&out, "instance", member_text(&cli->arena, why, "id"));
    buffer_format(&out, "%-12s %s%s%s%s\n", "status",
                  terminal_color(&cli->terminal, status_color(status)), status,
                  terminal_color(&cli->terminal, COLOR_NONE),
                  member_is_true(why, "isParked") ? ", waits for an operator" : "");
    why_line(&out, "reason", member_text(&cli->arena, why, "reason"));
    why_line(&out, "last error", member_text(&cli->arena, why, "lastError"));
    if (value_count(value_member(why, "tasks")) > 0) buffer_format(&out, "steps\n");
    while (value_next(&tasks, &cli->arena)) why_task(cli, &out, tasks.value);
    why_list(cli, &out, "for event", value_member(waits, "events"), NULL);
    why_list(cli, &out, "for timer", value_member(waits, "timers"), "fireAt");
    why_list(cli, &out, "for child", value_member(waits, "children"), NULL);
    const char *worker = member_text(&cli->arena, waits, "worker");
    if (worker[0] != '\0') {
        buffer_format(&out, "%-12s no connected worker takes \"", "for worker");
        text_clean(&out, bytes_of_text(worker));
        buffer_format(&out, "\"\n");
    }
    print_buffer(&out);
    buffer_release(&out);
}

int verb_why(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    if (!cli_is_table(&cli) && !cli_is_json(&cli))
        return cli_close(&cli, cli_no_format(&cli, "table, json or jsonl"));
    struct ask ask = {.path = cli_path(&cli, "/v1/instances/%s/why", cli.words.items[0]),
                      .needs = "id"};
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) {
        if (cli_is_table(&cli))
            why_print(&cli, ask.value);
        else
            print_json(&cli, ask.value);
    }
    return cli_close(&cli, code);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * norn export: a history as norn replay and norn_test_replay() read it, one event a line:
 *
 *     {"eventId":0,"timestamp":"...","taskScheduled":{"name":"charge","input":"{\"n\":1}"}}
 *
 * In the HTTP API the fields of an event stand beside its type, payloads are JSON, and failures and
 * states have short names; in a saved history all is as the protocol has it, payloads as texts.
 */
#include "base/mem.h"
#include "cli/pages.h"
#include "cli/print.h"
#include "cli/verbs.h"
#include "wire/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_among(const char *name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(name, *names) == 0) return true;
    }
    return false;
}

static const char *const payloads[] = {"input", "result", "data", "output", "reason", NULL};
static const char *const heads[] = {"eventId", "type", "time", NULL};

static void write_failure(struct cli *cli, struct json *j, struct value failure)
{
    static const char *const names[][2] = {
        {"type", "errorType"}, {"message", "errorMessage"}, {"stackTrace", "stackTrace"}};

    json_object_begin(j);
    for (size_t n = 0; n < 3; n++) {
        struct value v = value_member(failure, names[n][0]);
        if (v.type == JSON_NONE) continue;
        json_key(j, names[n][1]);
        json_text(j, value_text(&cli->arena, v));
    }
    if (member_is_true(failure, "isNonRetriable")) {
        json_key(j, "isNonRetriable");
        json_bool(j, true);
    }
    struct value inner = value_member(failure, "inner");
    if (inner.type == JSON_OBJECT) {
        json_key(j, "innerFailure");
        write_failure(cli, j, inner);
    }
    json_object_end(j);
}

/* "completed" -> "ORCHESTRATION_STATUS_COMPLETED" */
static void write_status(struct cli *cli, struct json *j, struct value v)
{
    char text[64] = "ORCHESTRATION_STATUS_";
    size_t len = strlen(text);

    for (const char *at = value_text(&cli->arena, v); *at != '\0' && len + 1 < sizeof text; at++)
        text[len++] = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    text[len] = '\0';
    json_key(j, "orchestrationStatus");
    json_text(j, text);
}

static void write_field(struct cli *cli, struct json *j, const char *type, const char *key,
                        struct value v)
{
    if (strcmp(key, "status") == 0 && strcmp(type, "executionCompleted") == 0) {
        write_status(cli, j, v);
        return;
    }
    bool is_failure = strcmp(key, "failure") == 0;
    json_key(j, is_failure ? "failureDetails" : key);
    if (is_failure)
        write_failure(cli, j, v);
    else if (is_among(key, payloads) && v.type != JSON_NULL)
        json_bytes(j, v.raw);
    else
        json_raw(j, v.raw);
}

static void write_event(struct cli *cli, struct buffer *out, struct value event)
{
    struct json j;
    const char *type = member_text(&cli->arena, event, "type");
    struct value_cursor cursor = value_begin(event);

    json_init(&j, out);
    json_object_begin(&j);
    json_key(&j, "eventId");
    json_int64(&j, member_int64(event, "eventId", -1));
    json_key(&j, "timestamp");
    json_text(&j, member_text(&cli->arena, event, "time"));
    json_key(&j, type);
    json_object_begin(&j);
    while (value_next(&cursor, &cli->arena)) {
        if (cursor.key != NULL && !is_among(cursor.key, heads))
            write_field(cli, &j, type, cursor.key, cursor.value);
    }
    json_object_end(&j);
    json_object_end(&j);
    buffer_u8(out, '\n');
}

static int export_events(struct cli *cli, const char *id, FILE *file, uint64_t *events_n)
{
    const char *path =
        url_parameter(&cli->arena, cli_instance_path(cli, id, "history"), "limit", "1000");
    struct pages pages = pages_begin(cli, path);

    for (; pages_next(&pages); ++*events_n) {
        struct buffer line;
        buffer_init(&line, mem_process());
        write_event(cli, &line, pages.item);
        (void)fwrite(line.ptr, 1, line.len, file);
        buffer_release(&line);
    }
    return pages.code;
}

int verb_export(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    uint64_t events_n = 0;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    const char *name = cli_word(&cli, 1);
    bool is_stdout = name == NULL || strcmp(name, "-") == 0;
    FILE *file = is_stdout ? stdout : fopen(name, "wb");
    if (file == NULL)
        return cli_close(&cli, cli_failf(&cli, EXIT_CODE_FAILED, "bad-file",
                                         "%s cannot be written: %s", name, strerror(errno)));
    code = export_events(&cli, cli.words.items[0], file, &events_n);
    if (code == EXIT_CODE_OK && events_n == 0)
        code = cli_failf(&cli, EXIT_CODE_FAILED, "no-events",
                         "%s has no events yet: there is nothing to export", cli.words.items[0]);
    bool has_failed = ferror(file) != 0;
    if (!is_stdout) has_failed = fclose(file) != 0 || has_failed;
    if (code == EXIT_CODE_OK && has_failed)
        code = cli_failf(&cli, EXIT_CODE_FAILED, "bad-file", "%s cannot be written",
                         is_stdout ? "the standard output" : name);
    if (code == EXIT_CODE_OK && !is_stdout)
        cli_say(&cli, "%llu events to %s\n", (unsigned long long)events_n, name);
    if (code != EXIT_CODE_OK && !is_stdout) (void)remove(name);
    return cli_close(&cli, code);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * norn alerts, worker list, entity, backup, config.
 */
#include "cli/form.h"
#include "cli/print.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#define N(array) (sizeof(array) / sizeof(array)[0])

int verb_alerts(const struct command *command, int argc, char **argv)
{
    static const struct column columns[] = {
        {"ID", "id", COLUMN_KEY, false},          {"HUB", "hub", COLUMN_TEXT, true},
        {"TASK", "taskId", COLUMN_NUMBER, false}, {"NAME", "name", COLUMN_TEXT, false},
        {"SINCE", "since", COLUMN_TIME, false},   {"TEXT", "text", COLUMN_TEXT, false},
    };

    return list_run(command, argc, argv, "/v1/alerts", columns, N(columns),
                    "nothing waits for an operator");
}

int verb_worker_list(const struct command *command, int argc, char **argv)
{
    static const struct column columns[] = {
        {"ID", "id", COLUMN_KEY, false},
        {"KIND", "kind", COLUMN_TEXT, false},
        {"WORKER", "worker", COLUMN_TEXT, false},
        {"HUB", "hub", COLUMN_TEXT, false},
        {"TURNS", "inFlight.turns", COLUMN_NUMBER, false},
        {"STEPS", "inFlight.tasks", COLUMN_NUMBER, false},
        {"ENTITIES", "inFlight.entities", COLUMN_NUMBER, false},
        {"SINCE", "since", COLUMN_TIME, false},
        {"TAKES", "names", COLUMN_LIST, false},
    };

    return list_run(command, argc, argv, "/v1/workers", columns, N(columns),
                    "no worker is connected");
}

/* ---- entities ---- */

static const struct column entity_columns[] = {
    {"ID", "id", COLUMN_KEY, true},
    {"NAME", "name", COLUMN_TEXT, false},
    {"KEY", "key", COLUMN_TEXT, false},
    {"UPDATED", "updatedAt", COLUMN_TIME, false},
    {"LOCKED BY", "lockedBy", COLUMN_TEXT, false},
    {"STATE", "state", COLUMN_JSON, false},
};

int verb_entity_list(const struct command *command, int argc, char **argv)
{
    const char *name = NULL;
    const char *from = NULL;
    const char *to = NULL;
    struct paging paging = PAGING_DEFAULT;
    const struct option_spec specs[] = {
        OPTION_TEXT("name", "NAME", "of this kind", NULL, &name),
        OPTION_TEXT("from", "TIME", "changed since", NULL, &from),
        OPTION_TEXT("to", "TIME", "changed before", NULL, &to),
        PAGING_SPECS(paging),
    };
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    const char *path = url_parameter(&cli.arena, cli_path(&cli, "/v1/entities"), "name", name);
    path = url_parameter(&cli.arena, path, "from", from);
    path = url_parameter(&cli.arena, path, "to", to);
    if (cli.format != FORMAT_NAME) path = url_parameter(&cli.arena, path, "payloads", "true");
    code =
        print_list(&cli, path, entity_columns, N(entity_columns), paging, "there are no entities");
    return cli_close(&cli, code);
}

int verb_entity_show(const struct command *command, int argc, char **argv)
{
    static const struct column columns[] = {
        {"name", "name", COLUMN_TEXT, false},         {"key", "key", COLUMN_KEY, false},
        {"updated", "updatedAt", COLUMN_TIME, false}, {"locked by", "lockedBy", COLUMN_TEXT, false},
        {"waiting", "backlog", COLUMN_NUMBER, false}, {"state", "state", COLUMN_JSON, false},
    };
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    struct ask ask = {
        .path = cli_path(&cli, "/v1/entities/%s/%s", cli.words.items[0], cli.words.items[1]),
        .needs = "key"};
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) print_object(&cli, columns, N(columns), ask.value);
    return cli_close(&cli, code);
}

int verb_entity_signal(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    struct ask ask = {.method = "POST", .needs = "id"};
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    if (cli_payload(&cli, cli_word(&cli, 3), &ask.body, &code)) {
        ask.path = cli_path(&cli, "/v1/entities/%s/%s/%s", cli.words.items[0], cli.words.items[1],
                            cli.words.items[2]);
        code = ask_done(&cli, &ask, "signalled", cli.words.items[1]);
    }
    return cli_close(&cli, code);
}

/* ---- the server itself ---- */

int verb_backup(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    struct form body;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    const char *path = cli.words.items[0];
    if (path[0] != '/')
        return cli_close(&cli, cli_fail(&cli, EXIT_CODE_USAGE, "bad-path",
                                        "the server needs a path that begins with '/'",
                                        "norn backup \"$PWD/backup-1\""));
    form_begin(&body);
    form_text(&body, "path", path);
    struct ask ask = {.method = "POST", .path = "/v1/backup", .needs = "path"};
    ask.body = form_end(&body, &cli, false);
    ask.timeout_ms = cli_time_left_ms(&cli, INT64_C(86400000)); /* as long as it takes */
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK && member_is_true(ask.value, "replaced"))
        cli_say(&cli, "%s.partial, the rest of a backup that was interrupted, was removed\n", path);
    if (code == EXIT_CODE_OK) print_done(&cli, "backed up to", path, ask.value);
    return cli_close(&cli, code);
}

int verb_version(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    if (cli_is_json(&cli))
        (void)puts("{\"name\":\"norn\",\"version\":\"" NORN_VERSION "\"}");
    else
        (void)puts("norn " NORN_VERSION);
    return cli_close(&cli, code);
}

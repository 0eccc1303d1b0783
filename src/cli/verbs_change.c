/* SPDX-License-Identifier: Apache-2.0
 *
 * norn raise, suspend, resume, terminate, rewind, restart, resubmit: one instance or a few, by id.
 */
#include "cli/form.h"
#include "cli/instance.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

int verb_raise(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    struct ask ask = {.method = "POST", .needs = "id"};
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    const char *id = cli.words.items[0];
    if (cli_payload(&cli, cli_word(&cli, 2), &ask.body, &code)) {
        ask.path = cli_path(&cli, "/v1/instances/%s/events/%s", id, cli.words.items[1]);
        code = ask_done(&cli, &ask, "raised for", id);
    }
    return cli_close(&cli, code);
}

/* The server takes it for one that has ended too, where nothing happens: a person should know. */
static int check_suspended(struct cli *cli, const char *id)
{
    const char *path =
        url_parameter(&cli->arena, cli_instance_path(cli, id, NULL), "payloads", "false");
    struct ask ask = {.path = path, .needs = "status"};
    int code = cli_ask(cli, &ask);

    if (code != EXIT_CODE_OK) return code;
    const char *status = member_text(&cli->arena, ask.value, "status");
    if (!status_is_ended(status)) return EXIT_CODE_OK;
    return cli_failf(cli, EXIT_CODE_FAILED, "ended", "%s has ended, it is %s: nothing was done", id,
                     status);
}

/* The same request for every id that was given; goes on after one that fails, and answers the first
 * failure. */
static int for_each_id(struct cli *cli, const char *verb, const char *done, struct bytes body)
{
    int first = EXIT_CODE_OK;

    for (size_t n = 0; n < cli->words.n; n++) {
        const char *id = cli->words.items[n];
        struct ask ask = {.method = "POST",
                          .path = cli_instance_path(cli, id, verb),
                          .body = body,
                          .needs = "id"};
        int code = cli_ask(cli, &ask);
        if (code == EXIT_CODE_OK && strcmp(verb, "suspend") == 0) code = check_suspended(cli, id);
        if (code == EXIT_CODE_OK) print_done(cli, done, id, ask.value);
        if (first == EXIT_CODE_OK) first = code;
    }
    return first;
}

static int reason_run(const struct command *command, int argc, char **argv, const char *verb,
                      const char *done)
{
    const char *reason = NULL;
    const struct option_spec specs[] = {
        OPTION_TEXT("reason", "TEXT", "kept in the history", NULL, &reason),
    };
    struct cli cli;
    struct form body;
    int code;

    if (!cli_open(&cli, command, specs, 1, argc, argv, &code)) return code;
    form_begin(&body);
    form_text(&body, "reason", reason);
    code = for_each_id(&cli, verb, done, form_end(&body, &cli, true));
    return cli_close(&cli, code);
}

int verb_suspend(const struct command *command, int argc, char **argv)
{
    return reason_run(command, argc, argv, "suspend", "suspended");
}

int verb_resume(const struct command *command, int argc, char **argv)
{
    return reason_run(command, argc, argv, "resume", "resumed");
}

int verb_rewind(const struct command *command, int argc, char **argv)
{
    return reason_run(command, argc, argv, "rewind", "rewound");
}

int verb_terminate(const struct command *command, int argc, char **argv)
{
    const char *reason = NULL;
    bool is_recursive = false;
    const struct option_spec specs[] = {
        OPTION_TEXT("reason", "TEXT", "becomes its output; JSON stays JSON", NULL, &reason),
        OPTION_FLAG("recurse", "its children too", &is_recursive),
    };
    struct cli cli;
    struct form body;
    int code;

    if (!cli_open(&cli, command, specs, 2, argc, argv, &code)) return code;
    form_begin(&body);
    struct value json = reason == NULL ? VALUE_NONE : value_parse(bytes_of_text(reason), NULL);
    if (json.type != JSON_NONE)
        form_raw(&body, "reason", json.raw);
    else
        form_text(&body, "reason", reason);
    form_flag(&body, "recurse", is_recursive);
    code = for_each_id(&cli, "terminate", "terminated", form_end(&body, &cli, true));
    return cli_close(&cli, code);
}

int verb_restart(const struct command *command, int argc, char **argv)
{
    bool has_new_id = false;
    const struct option_spec specs[] = {
        OPTION_FLAG("new-id", "beside the old one, with an id of its own", &has_new_id),
    };
    struct cli cli;
    struct form body;
    int code;

    if (!cli_open(&cli, command, specs, 1, argc, argv, &code)) return code;
    form_begin(&body);
    form_flag(&body, "newId", has_new_id);
    struct ask ask = {.method = "POST", .body = form_end(&body, &cli, true), .needs = "id"};
    ask.path = cli_path(&cli, "/v1/instances/%s/restart", cli.words.items[0]);
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) {
        const char *id = member_text(&cli.arena, ask.value, "id");
        if (cli_is_json(&cli))
            print_json(&cli, ask.value);
        else
            (void)puts(id[0] == '\0' ? cli.words.items[0] : id);
    }
    return cli_close(&cli, code);
}

int verb_resubmit(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    const char *id = cli.words.items[0];
    const char *task = cli_word(&cli, 1);
    struct ask ask = {.method = "POST", .needs = "id"};
    ask.path = cli_path(&cli, "/v1/instances/%s/tasks/%s/resubmit", id, task == NULL ? "-" : task);
    code = ask_done(&cli, &ask, "resubmitted", id);
    return cli_close(&cli, code);
}

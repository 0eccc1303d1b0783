/* SPDX-License-Identifier: Apache-2.0
 *
 * norn import: what norn export has written, into another server or under another id.
 */
#include "cli/print.h"
#include "cli/verbs.h"

#include <stdio.h>

int verb_import(const struct command *command, int argc, char **argv)
{
    const char *id = NULL;
    const struct option_spec specs[] = {
        OPTION_TEXT("id", "ID", "another id than it had", NULL, &id),
    };
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, specs, 1, argc, argv, &code)) return code;
    if (id != NULL && id[0] == '\0') return cli_close(&cli, cli_empty_word(&cli, "--id"));
    struct ask ask = {.method = "POST", .type = "application/x-ndjson", .needs = "id"};
    if (!cli_read_file(&cli, cli.words.items[0], &ask.body, &code)) return cli_close(&cli, code);
    ask.path = cli_path(&cli, "/v1/instances:import");
    if (id != NULL) ask.path = url_parameter(&cli.arena, ask.path, "id", id);
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) {
        if (cli_is_json(&cli))
            print_json(&cli, ask.value);
        else
            (void)puts(member_text(&cli.arena, ask.value, "id"));
    }
    return cli_close(&cli, code);
}

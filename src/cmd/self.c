/* SPDX-License-Identifier: Apache-2.0
 *
 * norn config, completion, help: what the program knows of itself.
 */
#include "cmd/command.h"

#include "cli/complete.h"
#include "cli/help.h"

#include <stdio.h>

#define WORDS_MAX 256

/* The words of the server, and --print-config. */
int config_run(const struct command *command, int argc, char **argv)
{
    static char print[] = "--print-config";
    char *words[WORDS_MAX];
    struct command server = *command;

    if (argc >= WORDS_MAX) return EXIT_CODE_USAGE;
    for (int n = 0; n < argc; n++) words[n] = argv[n];
    words[argc] = print;
    return server_command_run(&server, argc + 1, words);
}

int completion_run(const struct command *command, int argc, char **argv)
{
    struct word_list words;
    int exit_code;

    if (!command_read(command, NULL, 0, argc, argv, &words, &exit_code)) return exit_code;
    if (completion_print(words.items[0])) return EXIT_CODE_OK;
    (void)fprintf(stderr, "norn completion: there is bash, zsh and fish, and no \"%s\"\n",
                  words.items[0]);
    return EXIT_CODE_USAGE;
}

int help_run(const struct command *command, int argc, char **argv)
{
    struct word_list words;
    int exit_code;

    if (!command_read(command, NULL, 0, argc, argv, &words, &exit_code)) return exit_code;
    return help_print_topic(all_commands, (int)words.n, words.items);
}

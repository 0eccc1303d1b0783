/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tables say to people: help of a command, the list of all, texts on subjects that many
 * commands share, the manual page.
 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/command.h"

#include <stdio.h>

/* is_long: with the text, all examples and the common options. To stdout. */
void help_print_command(const struct command *command, const struct option_spec *specs, size_t n,
                        bool is_long);
/* Every command with its summary, by group. family: only those whose name begins with this word;
 * NULL for all. */
void help_print_list(command_tables tables, const char *family, FILE *out);
/* `norn help`, `norn help TOPIC`: the list, a command, a family or a text. The exit code. */
int help_print_topic(command_tables tables, int argc, char **argv);
/* norn(1) in mdoc. */
void manual_print(command_tables tables);

/* Texts on subjects. Ended by an entry without name. */
struct topic {
    const char *name;
    const char *summary;
    const char *text; /* paragraphs between empty lines; lines that begin with two spaces stay */
};
extern const struct topic topics[];

extern const char *const group_titles[GROUPS_N];

#endif

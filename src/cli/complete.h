/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion of command lines. The scripts for the shells are a few lines: they ask this program
 * what may stand at the cursor, and it asks the tables and, within 300 ms, the server.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "cli/command.h"

/* "bash", "zsh" or "fish": prints the script. False: there is none for it. */
bool completion_print(const char *shell);

/* The words of a line behind `norn`, the last one being typed (maybe ""). Prints what it may
 * become, one a line, with a tab and a description behind it. A single ":files" means a file name.
 */
void complete_print(command_tables tables, int argc, char **argv);

#endif

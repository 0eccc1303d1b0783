/* SPDX-License-Identifier: Apache-2.0
 *
 * Where contexts are kept; their reading for a command is context_current() of session.h.
 */
#ifndef CLI_CONTEXT_H
#define CLI_CONTEXT_H

#include <stdbool.h>

#define CONTEXT_PATH_SIZE 4096

/* The folder of this user's settings of norn, and the name below it ("/contexts.json"). False: the
 * environment names no place. */
bool context_path(char out[static CONTEXT_PATH_SIZE], const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The look at a data directory that `norn check` and `norn restore` share.
 */
#ifndef CMD_CHECK_H
#define CMD_CHECK_H

#include "cli/session.h"

/* Verifies it and prints what it found, a line for each store. The exit code. */
int directory_check(struct cli *cli, const char *path);

#endif

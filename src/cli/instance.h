/* SPDX-License-Identifier: Apache-2.0
 *
 * What several verbs do with an instance: wait for its end, print its result.
 */
#ifndef CLI_INSTANCE_H
#define CLI_INSTANCE_H

#include "cli/print.h"

bool status_is_ended(const char *status);
/* Until it has ended or --timeout is over (EXIT_CODE_TIMEOUT, after a message). *out: the instance
 * as it was last seen. */
int instance_wait(struct cli *cli, const char *id, struct value *out);
/* The output to stdout and EXIT_CODE_OK; or what it failed with, to stderr, and EXIT_CODE_FAILED.
 * It has ended. */
int instance_print_result(struct cli *cli, struct value instance);
/* "OutOfStock: nothing left", with what caused it. In the arena; "" without failure. */
const char *failure_text(struct cli *cli, struct value failure);

extern const struct column instance_columns[];
extern const size_t instance_columns_n;

#endif

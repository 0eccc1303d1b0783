/* SPDX-License-Identifier: Apache-2.0
 *
 * norn: one program, many verbs.
 */
#include "cmd/command.h"

int main(int argc, char **argv) { return command_main(argc, argv); }

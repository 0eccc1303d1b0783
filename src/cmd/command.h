/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of `norn` that are not a client's: those with the engine, its files or the program
 * itself behind them. What a command is, and the client's commands, are in cli/.
 */
#ifndef CMD_COMMAND_H
#define CMD_COMMAND_H

#include "cli/command.h"

/* Ended by a zeroed entry. */
extern const struct command commands[];
/* All there are, in the order of the help; ended by NULL. */
extern const struct command *const all_commands[];

int command_main(int argc, char **argv);

int server_command_run(const struct command *command, int argc, char **argv);
int demo_run(const struct command *command, int argc, char **argv);
int replay_run(const struct command *command, int argc, char **argv);
int check_run(const struct command *command, int argc, char **argv);
int restore_run(const struct command *command, int argc, char **argv);
int bench_engine_run(const struct command *command, int argc, char **argv);
int bench_grpc_run(const struct command *command, int argc, char **argv);
int bench_ingest_run(const struct command *command, int argc, char **argv);
int bench_sleepers_run(const struct command *command, int argc, char **argv);
int bench_hot_run(const struct command *command, int argc, char **argv);
int bench_restart_run(const struct command *command, int argc, char **argv);
/* self.c */
int config_run(const struct command *command, int argc, char **argv);
int completion_run(const struct command *command, int argc, char **argv);
int help_run(const struct command *command, int argc, char **argv);

#endif

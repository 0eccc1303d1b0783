/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of `norn`. One table (command.c) makes the dispatch, the help and the checks.
 */
#ifndef CMD_COMMAND_H
#define CMD_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes, as the command line conventions have them. */
enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1, /* it was tried and did not work */
    EXIT_CODE_USAGE = 2,  /* wrong words on the command line */
    EXIT_CODE_NOT_FOUND = 3,
    EXIT_CODE_UNREACHABLE = 5, /* a data directory that another process has */
};

struct option_spec {
    const char *name;  /* without the dashes */
    const char *value; /* what it takes, in capitals; NULL for a switch */
    const char *help;
    const char *text; /* default, for people; NULL for none */
    /* One of these, by kind. Numbers must lie within least .. most. */
    bool *flag;
    uint64_t *number;
    uint64_t least;
    uint64_t most;
    const char **string;
};

struct command {
    const char *name; /* "bench engine" */
    const char *summary;
    const char *example;
    int (*run)(const struct command *command, int argc, char **argv);
};

/* NULL at the end. */
extern const struct command commands[];

/* Reads argv into the specs. False, and a message with what to do, on wrong words; also after
 * printing the help for --help (then *exit_code is EXIT_CODE_OK). */
bool options_read(const struct command *command, const struct option_spec *specs, size_t specs_n,
                  int argc, char **argv, int *exit_code);

int command_main(int argc, char **argv);

int server_command_run(const struct command *command, int argc, char **argv);
int demo_run(const struct command *command, int argc, char **argv);
int replay_run(const struct command *command, int argc, char **argv);
int bench_engine_run(const struct command *command, int argc, char **argv);
int bench_grpc_run(const struct command *command, int argc, char **argv);
int bench_ingest_run(const struct command *command, int argc, char **argv);
int bench_sleepers_run(const struct command *command, int argc, char **argv);
int bench_restart_run(const struct command *command, int argc, char **argv);

#endif

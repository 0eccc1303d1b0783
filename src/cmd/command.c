/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of the commands that are not a client's, and which command is run.
 */
#include "cmd/command.h"

#include "cli/complete.h"
#include "cli/help.h"
#include "cli/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

const struct command commands[] = {
    {.name = "server",
     .group = GROUP_SERVER,
     .summary = "run the engine for clients and workers on the network",
     .text = "gRPC for the Durable Task SDKs and for libnorn, the HTTP API, health pages and\n"
             "metrics, all on one port. Settings come from flags, the environment and a file.",
     .examples = "norn server --data ./norn-data --listen 127.0.0.1:4001",
     .run = server_command_run},
    {.name = "check",
     .group = GROUP_SERVER,
     .arguments = "DIR",
     .summary = "verify a data directory without changing it",
     .text = "Reads everything: the chain of journal frames, the archive's database, and every\n"
             "block of every file of histories. No server may be using the directory.",
     .examples = "norn check ./norn-data",
     .run = check_run},
    {.name = "restore",
     .group = GROUP_SERVER,
     .arguments = "BACKUP DIR",
     .summary = "copy a backup to a new data directory, and verify it",
     .text = "DIR must be absent or empty. It is complete and synced when the command ends.",
     .examples = "norn restore ./backup ./norn-data-2",
     .run = restore_run},
    {.name = "config",
     .group = GROUP_SERVER,
     .summary = "show every setting of the server and where it came from",
     .text = "What norn server would use with the same words, environment and file.",
     .examples = "norn config --log-level debug",
     .run = config_run},
    {.name = "demo",
     .group = GROUP_SERVER,
     .summary = "run a small orchestration without a server, and show its history",
     .examples = "norn demo --data ./demo-data",
     .run = demo_run},
    {.name = "replay",
     .group = GROUP_SERVER,
     .arguments = "FILE",
     .summary = "check that today's orchestrators do what a saved history says",
     .text = "FILE is what norn export writes; - is the standard input.",
     .examples = "norn replay history.json --with ./libmine.so",
     .run = replay_run},
    {.name = "bench engine",
     .group = GROUP_SERVER,
     .summary = "measure orchestrations of no-op steps in an embedded engine",
     .examples = "norn bench engine --steps 5 --in-flight 10000 --duration 10 --json",
     .run = bench_engine_run},
    {.name = "bench grpc",
     .group = GROUP_SERVER,
     .summary = "measure workflows through a server, its workers and clients, over connections",
     .examples = "norn bench grpc --in-flight 360 --duration 10 --json",
     .run = bench_grpc_run},
    {.name = "bench ingest",
     .group = GROUP_SERVER,
     .summary = "measure durable starts over HTTP, sent when their time comes",
     .examples = "norn bench ingest --rate 10000 --duration 60 --workers 2 --json",
     .run = bench_ingest_run},
    {.name = "bench sleepers",
     .group = GROUP_SERVER,
     .summary = "put many instances to sleep and wake them",
     .examples = "norn bench sleepers --count 100000 --json",
     .run = bench_sleepers_run},
    {.name = "bench hot",
     .group = GROUP_SERVER,
     .summary = "measure the memory of orchestrators that wait, and what a resume costs",
     .examples = "norn bench hot --count 100000 --json",
     .run = bench_hot_run},
    {.name = "bench restart",
     .group = GROUP_SERVER,
     .summary = "measure the restart after kill -9 under load",
     .examples = "norn bench restart --finished 1000000 --in-flight 10000 --json",
     .run = bench_restart_run},
    {.name = "completion",
     .group = GROUP_SELF,
     .arguments = "SHELL",
     .summary = "print the completions for bash, zsh or fish",
     .text = "For bash: norn completion bash > ~/.local/share/bash-completion/completions/norn\n\n"
             "Ids of instances and names of workflows and streams are completed from the server.",
     .examples = "norn completion bash",
     .run = completion_run},
    {.name = "help",
     .group = GROUP_SELF,
     .arguments = "[TOPIC...]",
     .summary = "explain a command or a topic",
     .examples = "norn help filters",
     .run = help_run},
    {0},
};

const struct command *const all_commands[] = {client_commands, commands, durable_commands, NULL};

/* ---- main ---- */

static int unknown(int argc, char **argv)
{
    char line[128];
    const char *near = NULL;

    (void)snprintf(line, sizeof line, "%s%s%s", argv[0], argc > 1 ? " " : "",
                   argc > 1 ? argv[1] : "");
    if (argc > 1) near = command_nearest(all_commands, line);
    if (near == NULL) near = command_nearest(all_commands, argv[0]);
    (void)fprintf(stderr, "norn: there is no command \"%s\"", line);
    if (near != NULL)
        (void)fprintf(stderr, "; did you mean \"norn %s\"?\n", near);
    else
        (void)fprintf(stderr, "; norn help lists them\n");
    return EXIT_CODE_USAGE;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* A word that begins many names: all of them. Asked for, that is an answer; else it is an error. */
static int family(const char *word, bool is_asked)
{
    help_print_list(all_commands, word, is_asked ? stdout : stderr);
    return is_asked ? EXIT_CODE_OK : EXIT_CODE_USAGE;
}

/* `norn get-history` is `norn durable get-history`; `norn config context` is `norn context`. */
static const struct command *find(int argc, char **argv, int *words_n)
{
    char durable[] = "durable";
    char *words[] = {durable, argv[0]};
    const struct command *command = NULL;

    if (argc > 1 && strcmp(argv[0], "config") == 0 && strcmp(argv[1], "context") == 0) {
        command = command_find(all_commands, argc - 1, argv + 1, words_n);
        ++*words_n;
        return command;
    }
    command = command_find(all_commands, argc, argv, words_n);
    if (command != NULL) return command;
    command = command_find(all_commands, 2, words, words_n);
    *words_n = 1;
    return command;
}

int command_main(int argc, char **argv)
{
    int words_n = 0;

    (void)signal(SIGPIPE, SIG_DFL); /* `norn list | head` ends as others do */
    if (argc < 2) {
        help_print_list(all_commands, NULL, stderr);
        return EXIT_CODE_USAGE;
    }
    argc--;
    argv++;
    if (is_help(argv[0])) return help_print_topic(all_commands, 0, NULL);
    if (strcmp(argv[0], "--version") == 0) {
        (void)puts("norn " NORN_VERSION);
        return EXIT_CODE_OK;
    }
    if (strcmp(argv[0], "__complete") == 0) {
        complete_print(all_commands, argc - 1, argv + 1);
        return EXIT_CODE_OK;
    }
    if (strcmp(argv[0], "manual") == 0) {
        manual_print(all_commands);
        return EXIT_CODE_OK;
    }
    const struct command *command = find(argc, argv, &words_n);
    if (command != NULL) return command->run(command, argc - words_n, argv + words_n);
    if (command_is_family(all_commands, argv[0]) && (argc == 1 || is_help(argv[1])))
        return family(argv[0], argc > 1);
    return unknown(argc, argv);
}

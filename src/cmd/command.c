/* SPDX-License-Identifier: Apache-2.0
 *
 * The command table, and the reading of options.
 */
#include "cmd/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct command commands[] = {
    {"server", "run the engine for clients and workers on the network",
     "norn server --data ./norn-data --listen 127.0.0.1:4001", server_command_run},
    {"demo", "run a small orchestration and show its history", "norn demo --data ./norn-data",
     demo_run},
    {"replay", "check that today's orchestrators do what a saved history says",
     "norn replay history.json --with ./libmine.so", replay_run},
    {"bench engine", "measure orchestrations of no-op steps in an embedded engine",
     "norn bench engine --steps 5 --in-flight 10000 --duration 10 --json", bench_engine_run},
    {"bench grpc", "measure workflows through a server, its workers and clients, over connections",
     "norn bench grpc --in-flight 360 --duration 10 --json", bench_grpc_run},
    {"bench ingest", "measure durable starts over HTTP, sent when their time comes",
     "norn bench ingest --rate 10000 --duration 60 --workers 2 --json", bench_ingest_run},
    {"bench sleepers", "put many instances to sleep and wake them",
     "norn bench sleepers --count 100000 --json", bench_sleepers_run},
    {"bench restart", "measure the restart after kill -9 under load",
     "norn bench restart --finished 1000000 --in-flight 10000 --json", bench_restart_run},
    {0},
};

/* ---- help ---- */

static void print_help(FILE *out)
{
    fputs("norn: durable orchestrations\n\nUsage: norn COMMAND [options]\n\nCommands:\n", out);
    for (const struct command *c = commands; c->name != NULL; c++) {
        fprintf(out, "  %-15s %s\n", c->name, c->summary);
    }
    fputs("\nnorn COMMAND --help explains a command. norn --version tells the version.\n", out);
}

static void print_command_help(const struct command *command, const struct option_spec *specs,
                               size_t n)
{
    printf("norn %s: %s\n\nUsage: norn %s [options]\nExample: %s\n\nOptions:\n", command->name,
           command->summary, command->name, command->example);
    for (size_t i = 0; i < n; i++) {
        char left[48];
        snprintf(left, sizeof left, "--%s%s%s", specs[i].name, specs[i].value == NULL ? "" : " ",
                 specs[i].value == NULL ? "" : specs[i].value);
        printf("  %-24s %s", left, specs[i].help);
        if (specs[i].text != NULL) printf(" (default %s)", specs[i].text);
        putchar('\n');
    }
}

/* ---- options ---- */

static const struct option_spec *spec_find(const struct option_spec *specs, size_t n,
                                           const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(specs[i].name) == len && memcmp(specs[i].name, name, len) == 0) return &specs[i];
    }
    return NULL;
}

/* Decimal digits, with K, M or G behind them for powers of 1024. */
static bool number_read(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) return false;
    }
    if (at == text) return false;
    unsigned shift = *at == 'K' ? 10 : *at == 'M' ? 20 : *at == 'G' ? 30 : 0;
    if (shift > 0) at++;
    if (*at != '\0' || value > UINT64_MAX >> shift) return false;
    *out = value << shift;
    return true;
}

static bool option_set(const struct command *command, const struct option_spec *spec,
                       const char *value)
{
    if (spec->flag != NULL) {
        *spec->flag = true;
        return true;
    }
    if (value == NULL) {
        fprintf(stderr, "norn %s: --%s needs a value: --%s %s\n", command->name, spec->name,
                spec->name, spec->value);
        return false;
    }
    if (spec->string != NULL) {
        *spec->string = value;
        return true;
    }
    uint64_t number = 0;
    if (!number_read(value, &number) || number < spec->least || number > spec->most) {
        fprintf(stderr, "norn %s: --%s %s: give a whole number from %llu to %llu\n", command->name,
                spec->name, value, (unsigned long long)spec->least, (unsigned long long)spec->most);
        return false;
    }
    *spec->number = number;
    return true;
}

bool options_read(const struct command *command, const struct option_spec *specs, size_t specs_n,
                  int argc, char **argv, int *exit_code)
{
    *exit_code = EXIT_CODE_USAGE;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            print_command_help(command, specs, specs_n);
            *exit_code = EXIT_CODE_OK;
            return false;
        }
        const char *name = strncmp(word, "--", 2) == 0 ? word + 2 : NULL;
        const char *equals = name == NULL ? NULL : strchr(name, '=');
        size_t len = name == NULL ? 0 : equals == NULL ? strlen(name) : (size_t)(equals - name);
        const struct option_spec *spec = name == NULL ? NULL : spec_find(specs, specs_n, name, len);
        if (spec == NULL) {
            fprintf(stderr, "norn %s: what is \"%s\"? norn %s --help lists the options\n",
                    command->name, word, command->name);
            return false;
        }
        const char *value = equals == NULL ? NULL : equals + 1;
        if (value == NULL && spec->flag == NULL && i + 1 < argc) value = argv[++i];
        if (!option_set(command, spec, value)) return false;
    }
    return true;
}

/* ---- main ---- */

/* How many words of argv the command's name takes; 0 when it is not this command. */
static int command_matches(const struct command *command, int argc, char **argv)
{
    char name[64];
    snprintf(name, sizeof name, "%s", command->name);
    int n = 0;
    char *rest = NULL;
    for (char *word = strtok_r(name, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (n >= argc || strcmp(argv[n], word) != 0) return 0;
        n++;
    }
    return n;
}

int command_main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? EXIT_CODE_USAGE : EXIT_CODE_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        puts("norn " NORN_VERSION);
        return EXIT_CODE_OK;
    }
    for (const struct command *c = commands; c->name != NULL; c++) {
        int words = command_matches(c, argc - 1, argv + 1);
        if (words > 0) return c->run(c, argc - 1 - words, argv + 1 + words);
    }
    fprintf(stderr, "norn: there is no command \"%s%s%s\"; norn help lists them\n", argv[1],
            argc > 2 ? " " : "", argc > 2 ? argv[2] : "");
    return EXIT_CODE_USAGE;
}

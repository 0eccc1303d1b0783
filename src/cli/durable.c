/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of `func durable` for our commands, with its options: `norn durable get-history --id x`
 * is `norn history x`. Options of our own work as well.
 */
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#define WORDS_MAX 64
#define PLACES_MAX 3

/* Theirs, and what it becomes: a word at a place, an option of ours, or nothing. */
struct translation {
    const char *option;
    int place;           /* 0, 1, 2; -1: an option */
    const char *becomes; /* "--reason"; NULL: dropped */
    bool is_switch;      /* takes no value */
};

struct alias {
    const char *name;
    const char *target;
    struct translation translations[6];
};

static const struct alias aliases[] = {
    {"durable start-new",
     "start",
     {{"--function-name", 0, NULL, false},
      {"--input", 1, NULL, false},
      {"--task-hub-name", -1, "--hub", false}}},
    {"durable get-instances",
     "list",
     {{"--created-after", -1, "--from", false},
      {"--created-before", -1, "--to", false},
      {"--runtime-status", -1, "--status", false},
      {"--top", -1, "--limit", false},
      {"--task-hub-name", -1, "--hub", false}}},
    {"durable get-history",
     "history",
     {{"--id", 0, NULL, false}, {"--task-hub-name", -1, "--hub", false}}},
    {"durable get-runtime-status",
     "show",
     {{"--id", 0, NULL, false},
      {"--show-input", -1, NULL, true},
      {"--show-output", -1, NULL, true},
      {"--task-hub-name", -1, "--hub", false}}},
    {"durable raise-event",
     "raise",
     {{"--id", 0, NULL, false},
      {"--event-name", 1, NULL, false},
      {"--event-data", 2, NULL, false},
      {"--task-hub-name", -1, "--hub", false}}},
    {"durable rewind",
     "rewind",
     {{"--id", 0, NULL, false}, {"--task-hub-name", -1, "--hub", false}}},
    {"durable terminate",
     "terminate",
     {{"--id", 0, NULL, false}, {"--task-hub-name", -1, "--hub", false}}},
    {"durable purge-history",
     "purge",
     {{"--created-after", -1, "--from", false},
      {"--created-before", -1, "--to", false},
      {"--runtime-status", -1, "--status", false},
      {"--task-hub-name", -1, "--hub", false}}},
};

static const struct translation *translation_find(const struct alias *alias, const char *word)
{
    for (const struct translation *t = alias->translations; t->option != NULL; t++) {
        if (strcmp(t->option, word) == 0) return t;
    }
    return NULL;
}

/* Words at places go before all that has none. False: too many words. */
static bool translate(const struct alias *alias, int argc, char **argv, char **out, int *out_n)
{
    char *places[PLACES_MAX] = {0};
    char *rest[WORDS_MAX];
    int rest_n = 0;

    for (int n = 0; n < argc; n++) {
        const struct translation *t = translation_find(alias, argv[n]);
        if (rest_n + 2 > WORDS_MAX) return false;
        if (t == NULL) {
            rest[rest_n++] = argv[n];
        } else if (t->place >= 0 && n + 1 < argc) {
            places[t->place] = argv[++n];
        } else if (t->becomes != NULL) {
            rest[rest_n++] = (char *)(uintptr_t)t->becomes; /* read only, as all words are */
        }
    }
    *out_n = 0;
    for (int n = 0; n < PLACES_MAX; n++) {
        if (places[n] != NULL) out[(*out_n)++] = places[n];
    }
    for (int n = 0; n < rest_n; n++) out[(*out_n)++] = rest[n];
    return true;
}

static const struct alias *alias_find(const char *name)
{
    for (size_t n = 0; n < sizeof aliases / sizeof aliases[0]; n++) {
        if (strcmp(aliases[n].name, name) == 0) return &aliases[n];
    }
    return NULL;
}

static int durable_run(const struct command *command, int argc, char **argv)
{
    const struct alias *alias = alias_find(command->name);
    const struct command *target = client_commands;
    char *words[WORDS_MAX + PLACES_MAX];
    int words_n = 0;

    while (strcmp(target->name, alias->target) != 0) target++;
    struct command renamed = *target;
    renamed.name = command->name;
    renamed.examples = command->examples;
    renamed.sink = command->sink;
    if (!translate(alias, argc, argv, words, &words_n)) {
        (void)fprintf(stderr, "norn %s: too many words\n", command->name);
        return EXIT_CODE_USAGE;
    }
    return target->run(&renamed, words_n, words);
}

#define DURABLE(NAME, SUMMARY, EXAMPLE)                                                            \
    {                                                                                              \
        .name = "durable " NAME, .group = GROUP_DURABLE, .summary = SUMMARY, .examples = EXAMPLE,  \
        .run = durable_run                                                                         \
    }

const struct command durable_commands[] = {
    DURABLE("start-new", "norn start",
            "norn durable start-new --function-name hello --input '\"Tokyo\"'"),
    DURABLE("get-instances", "norn list",
            "norn durable get-instances --created-after 2026-01-01 --top 5"),
    DURABLE("get-history", "norn history", "norn durable get-history --id order-8"),
    DURABLE("get-runtime-status", "norn show",
            "norn durable get-runtime-status --id order-8 --show-output"),
    DURABLE("raise-event", "norn raise",
            "norn durable raise-event --id order-7 --event-name approved --event-data true"),
    DURABLE("rewind", "norn rewind", "norn durable rewind --id order-9 --reason again"),
    DURABLE("terminate", "norn terminate", "norn durable terminate --id order-7 --reason enough"),
    DURABLE("purge-history", "norn purge",
            "norn durable purge-history --runtime-status completed --created-before 2026-01-01 "
            "--yes"),
    {0},
};

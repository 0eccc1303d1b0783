/* SPDX-License-Identifier: Apache-2.0
 *
 * See command.h: options, words, and which command is meant.
 */
#define _GNU_SOURCE /* memmem */
#include "cli/command.h"

#include "base/nearest.h"
#include "base/units.h"
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

/* ---- one option ---- */

static const struct option_spec *spec_by_name(const struct option_spec *specs, size_t n,
                                              const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(specs[i].name) == len && memcmp(specs[i].name, name, len) == 0) return &specs[i];
    }
    return NULL;
}

static const struct option_spec *spec_by_letter(const struct option_spec *specs, size_t n,
                                                char letter)
{
    for (size_t i = 0; i < n; i++) {
        if (letter != '\0' && specs[i].letter == letter) return &specs[i];
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

static bool is_among(const char *among, const char *value)
{
    size_t len = strlen(value);

    for (const char *at = among; *at != '\0'; at += strcspn(at, "|"), at += *at == '|') {
        if (strcspn(at, "|") == len && memcmp(at, value, len) == 0) return true;
    }
    return false;
}

static bool refuse(const struct command *command, const struct option_spec *spec, const char *value,
                   const char *what)
{
    fprintf(stderr, "norn %s: --%s %s: %s\n", command->name, spec->name, value, what);
    return false;
}

static bool number_set(const struct command *command, const struct option_spec *spec,
                       const char *value)
{
    uint64_t number = 0;

    if (number_read(value, &number) && number >= spec->least && number <= spec->most) {
        *spec->number = number;
        return true;
    }
    fprintf(stderr, "norn %s: --%s %s: give a whole number from %llu to %llu\n", command->name,
            spec->name, value, (unsigned long long)spec->least, (unsigned long long)spec->most);
    return false;
}

/* Longer ones are mistaken, and would not fit a time in nanoseconds. */
#define DURATION_MAX_MS (36525 * MS_PER_DAY)

static bool duration_set(const struct option_spec *spec, const char *value)
{
    int64_t ms = 0;

    if (!duration_parse(bytes_of_text(value), &ms) || ms > DURATION_MAX_MS) return false;
    *spec->duration_ms = ms;
    return true;
}

static bool option_set(const struct command *command, const struct option_spec *spec,
                       const char *value)
{
    if (spec->flag != NULL) {
        if (value != NULL) return refuse(command, spec, value, "it takes no value");
        *spec->flag = true;
        return true;
    }
    if (value == NULL) {
        fprintf(stderr, "norn %s: --%s needs a value: --%s %s\n", command->name, spec->name,
                spec->name, spec->value);
        return false;
    }
    if (spec->number != NULL) return number_set(command, spec, value);
    if (spec->among != NULL && !is_among(spec->among, value)) {
        fprintf(stderr, "norn %s: --%s %s: there is %s\n", command->name, spec->name, value,
                spec->among);
        return false;
    }
    if (spec->duration_ms != NULL) {
        return duration_set(spec, value) ||
               refuse(command, spec, value, "give a duration such as 250ms, 10s, 5m, 2h or 7d");
    }
    if (spec->list != NULL) {
        if (spec->list->n == OPTION_LIST_MAX) return refuse(command, spec, value, "too many");
        spec->list->items[spec->list->n++] = value;
        return true;
    }
    *spec->string = value;
    return true;
}

/* ---- the line ---- */

static bool unknown_option(const struct command *command, const struct option_spec *specs, size_t n,
                           const char *word)
{
    const char *near = NULL;
    unsigned least = 3;

    for (size_t i = 0; i < n && strncmp(word, "--", 2) == 0; i++) {
        unsigned distance = edit_distance(bytes_of_text(specs[i].name), bytes_of_text(word + 2));
        if (distance >= least) continue;
        least = distance;
        near = specs[i].name;
    }
    fprintf(stderr, "norn %s: what is \"%s\"?%s%s%s norn %s --help lists the options\n",
            command->name, word, near == NULL ? "" : " Did you mean --", near == NULL ? "" : near,
            near == NULL ? "" : "?", command->name);
    return false;
}

struct line {
    const struct command *command;
    const struct option_spec *specs;
    size_t specs_n;
    int argc;
    char **argv;
    int at;
};

/* "--name", "--name=value", "--name value". */
static bool read_long(struct line *line)
{
    const char *word = line->argv[line->at];
    const char *equals = strchr(word, '=');
    size_t len = equals == NULL ? strlen(word) - 2 : (size_t)(equals - word - 2);
    const struct option_spec *spec = spec_by_name(line->specs, line->specs_n, word + 2, len);

    if (spec == NULL) return unknown_option(line->command, line->specs, line->specs_n, word);
    const char *value = equals == NULL ? NULL : equals + 1;
    if (value == NULL && spec->flag == NULL && line->at + 1 < line->argc)
        value = line->argv[++line->at];
    return option_set(line->command, spec, value);
}

/* "-f", "-fy", "-ojson", "-o json". */
static bool read_short(struct line *line)
{
    const char *word = line->argv[line->at];

    for (const char *at = word + 1; *at != '\0'; at++) {
        const struct option_spec *spec = spec_by_letter(line->specs, line->specs_n, *at);
        if (spec == NULL) return unknown_option(line->command, line->specs, line->specs_n, word);
        if (spec->flag != NULL) {
            *spec->flag = true;
            continue;
        }
        const char *value = at[1] != '\0' ? at + 1 : NULL;
        if (value == NULL && line->at + 1 < line->argc) value = line->argv[++line->at];
        return option_set(line->command, spec, value);
    }
    return true;
}

static bool words_check(const struct command *command, const struct word_list *words)
{
    size_t least;
    size_t most;

    arguments_count(command->arguments, &least, &most);
    if (words->n > most) {
        fprintf(stderr, "norn %s: what is \"%s\"? norn %s --help explains\n", command->name,
                words->items[most], command->name);
        return false;
    }
    if (words->n >= least) return true;
    fprintf(stderr, "norn %s: something is missing: norn %s %s\n", command->name, command->name,
            command->arguments);
    return false;
}

bool command_read(const struct command *command, const struct option_spec *specs, size_t specs_n,
                  int argc, char **argv, struct word_list *words, int *exit_code)
{
    struct line line = {command, specs, specs_n, argc, argv, 0};
    bool has_ended = false;

    *exit_code = EXIT_CODE_OK;
    *words = (struct word_list){argv, 0};
    if (command->sink != NULL) {
        command->sink->fn(command->sink->user, specs, specs_n);
        return false;
    }
    for (; line.at < argc; line.at++) {
        char *word = argv[line.at];
        bool is_word = has_ended || word[0] != '-' || word[1] == '\0';
        if (is_word) {
            words->items[words->n++] = word;
            continue;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            help_print_command(command, specs, specs_n, word[1] == '-');
            return false;
        }
        *exit_code = EXIT_CODE_USAGE;
        if (strcmp(word, "--") == 0)
            has_ended = true;
        else if (word[1] == '-' ? !read_long(&line) : !read_short(&line))
            return false;
        *exit_code = EXIT_CODE_OK;
    }
    if (words_check(command, words)) return true;
    *exit_code = EXIT_CODE_USAGE;
    return false;
}

bool options_read(const struct command *command, const struct option_spec *specs, size_t specs_n,
                  int argc, char **argv, int *exit_code)
{
    struct word_list words;

    return command_read(command, specs, specs_n, argc, argv, &words, exit_code);
}

void arguments_count(const char *arguments, size_t *least, size_t *most)
{
    *least = 0;
    *most = 0;
    for (const char *at = arguments; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, " ");
        bool is_many = len >= 3 && memmem(at, len, "...", 3) != NULL;
        if (*at != '[') ++*least;
        *most = is_many || *most == SIZE_MAX ? SIZE_MAX : *most + 1;
        at += len;
        at += strspn(at, " ");
    }
}

void command_options(const struct command *command, option_sink_fn *fn, void *user)
{
    struct option_sink sink = {fn, user};
    struct command asked = *command;

    asked.sink = &sink;
    (void)asked.run(&asked, 0, NULL);
}

/* ---- which command ---- */

/* How many words of argv the name takes; 0 when it is another. */
static int name_matches(const char *name, int argc, char **argv)
{
    int n = 0;

    while (*name != '\0') {
        size_t len = strcspn(name, " ");
        if (n >= argc || strlen(argv[n]) != len || memcmp(argv[n], name, len) != 0) return 0;
        n++;
        name += len;
        name += strspn(name, " ");
    }
    return n;
}

const struct command *command_find(command_tables tables, int argc, char **argv, int *words_n)
{
    const struct command *found = NULL;

    *words_n = 0;
    for (size_t t = 0; tables[t] != NULL; t++) {
        for (const struct command *c = tables[t]; c->name != NULL; c++) {
            int n = name_matches(c->name, argc, argv);
            if (n <= *words_n) continue;
            *words_n = n;
            found = c;
        }
    }
    return found;
}

bool command_is_family(command_tables tables, const char *word)
{
    size_t len = strlen(word);

    for (size_t t = 0; tables[t] != NULL; t++) {
        for (const struct command *c = tables[t]; c->name != NULL; c++) {
            if (strncmp(c->name, word, len) == 0 && c->name[len] == ' ') return true;
        }
    }
    return false;
}

const char *command_nearest(command_tables tables, const char *word)
{
    const char *nearest = NULL;
    size_t len = strlen(word);
    unsigned least = len < 4 ? 2 : len < 8 ? 3 : 4; /* of a short word little may differ */

    for (size_t t = 0; tables[t] != NULL; t++) {
        for (const struct command *c = tables[t]; c->name != NULL; c++) {
            unsigned distance = edit_distance(bytes_of_text(c->name), bytes_of_text(word));
            if (distance >= least) continue;
            least = distance;
            nearest = c->name;
        }
    }
    return nearest;
}

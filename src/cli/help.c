/* SPDX-License-Identifier: Apache-2.0
 *
 * See help.h.
 */
#include "cli/help.h"

#include <string.h>

const char *const group_titles[GROUPS_N] = {
    [GROUP_RUN] = "Start and wait",
    [GROUP_LOOK] = "Look",
    [GROUP_CHANGE] = "Change",
    [GROUP_STREAM] = "Streams and queues",
    [GROUP_OPERATE] = "Operate",
    [GROUP_SERVER] = "Server and engine",
    [GROUP_SELF] = "The command line itself",
    [GROUP_DURABLE] = "Names known from func durable",
};

/* ---- a command ---- */

static void print_option(const struct option_spec *spec)
{
    char left[64];
    char letter[8] = "    ";

    if (spec->letter != '\0') (void)snprintf(letter, sizeof letter, "-%c, ", spec->letter);
    (void)snprintf(left, sizeof left, "%s--%s%s%s", letter, spec->name,
                   spec->value == NULL ? "" : " ", spec->value == NULL ? "" : spec->value);
    printf("  %-28s %s", left, spec->help);
    if (spec->text != NULL) printf(" (default %s)", spec->text);
    putchar('\n');
}

static size_t print_options(const struct option_spec *specs, size_t n, bool is_common,
                            const char *title)
{
    size_t printed = 0;

    for (size_t i = 0; i < n; i++) {
        if (specs[i].is_common != is_common) continue;
        if (printed++ == 0) printf("\n%s:\n", title);
        print_option(&specs[i]);
    }
    return printed;
}

/* Each line of text behind the prefix; at most so many lines. */
static void print_lines(const char *text, const char *prefix, unsigned lines_n)
{
    for (; *text != '\0' && lines_n > 0; lines_n--) {
        size_t len = strcspn(text, "\n");
        printf("%s%.*s\n", prefix, (int)len, text);
        text += len;
        text += *text == '\n';
    }
}

void help_print_command(const struct command *command, const struct option_spec *specs, size_t n,
                        bool is_long)
{
    printf("norn %s: %s\n\nUsage: norn %s%s%s%s\n", command->name, command->summary, command->name,
           command->arguments == NULL ? "" : " ",
           command->arguments == NULL ? "" : command->arguments, n > 0 ? " [options]" : "");
    if (is_long && command->text != NULL) printf("\n%s\n", command->text);
    if (command->examples != NULL) {
        puts(is_long ? "\nExamples:" : "\nExample:");
        print_lines(command->examples, "  ", is_long ? 100 : 1);
    }
    (void)print_options(specs, n, false, "Options");
    if (is_long)
        (void)print_options(specs, n, true, "Options of all client commands");
    else if (n > 0)
        printf("\n--help tells more.\n");
}

/* ---- all of them ---- */

static bool is_of_family(const char *name, const char *family)
{
    size_t len = family == NULL ? 0 : strlen(family);

    return family == NULL ||
           (strncmp(name, family, len) == 0 && (name[len] == ' ' || name[len] == '\0'));
}

static void print_group(command_tables tables, enum command_group group, const char *family,
                        FILE *out)
{
    unsigned n = 0;

    for (size_t t = 0; tables[t] != NULL; t++) {
        for (const struct command *c = tables[t]; c->name != NULL; c++) {
            if (c->group != group || !is_of_family(c->name, family)) continue;
            if (n++ == 0) fprintf(out, "\n%s:\n", group_titles[group]);
            fprintf(out, "  %-22s %s\n", c->name, c->summary);
        }
    }
}

void help_print_list(command_tables tables, const char *family, FILE *out)
{
    fprintf(out, "norn: durable orchestrations\n\nUsage: norn %s%sCOMMAND [options]\n",
            family == NULL ? "" : family, family == NULL ? "" : " ");
    for (enum command_group group = 0; group < GROUPS_N; group++)
        print_group(tables, group, family, out);
    fputs("\nnorn COMMAND --help explains a command.", out);
    if (family == NULL) {
        fputs(" norn help TOPIC explains:", out);
        for (const struct topic *topic = topics; topic->name != NULL; topic++)
            fprintf(out, " %s", topic->name);
        fputs(".\nnorn --version tells the version.", out);
    }
    fputc('\n', out);
}

int help_print_topic(command_tables tables, int argc, char **argv)
{
    int words_n = 0;

    if (argc == 0) {
        help_print_list(tables, NULL, stdout);
        return EXIT_CODE_OK;
    }
    const struct command *command = command_find(tables, argc, argv, &words_n);
    if (command != NULL) {
        char help[] = "--help";
        char *words[] = {help};
        return command->run(command, 1, words);
    }
    if (command_is_family(tables, argv[0])) {
        help_print_list(tables, argv[0], stdout);
        return EXIT_CODE_OK;
    }
    for (const struct topic *topic = topics; topic->name != NULL; topic++) {
        if (strcmp(topic->name, argv[0]) != 0) continue;
        printf("%s: %s\n\n%s\n", topic->name, topic->summary, topic->text);
        return EXIT_CODE_OK;
    }
    fprintf(stderr, "norn help: there is nothing on \"%s\"; norn help lists what there is\n",
            argv[0]);
    return EXIT_CODE_USAGE;
}

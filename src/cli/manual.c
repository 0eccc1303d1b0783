/* SPDX-License-Identifier: Apache-2.0
 *
 * norn(1), made from the tables: every command with its options and examples, every topic.
 */
#include "cli/help.h"

#include <string.h>

/* A line of roff: what begins like a request or is an escape is made harmless. */
static void put_text(const char *text, size_t len)
{
    if (len > 0 && (text[0] == '.' || text[0] == '\'')) (void)fputs("\\&", stdout);
    for (size_t n = 0; n < len; n++) {
        if (text[n] == '\\')
            (void)fputs("\\e", stdout);
        else
            (void)putchar(text[n]);
    }
}

/* Paragraphs between empty lines; lines that begin with spaces are kept as they are. */
static void put_paragraphs(const char *text)
{
    bool is_display = false;

    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        bool is_kept = text[0] == ' ';
        if (is_kept && !is_display) (void)puts(".Bd -literal -compact");
        if (!is_kept && is_display) (void)puts(".Ed");
        is_display = is_kept;
        if (len == 0)
            (void)puts(".Pp");
        else {
            put_text(text, len);
            (void)putchar('\n');
        }
        text += len;
        text += *text == '\n';
    }
    if (is_display) (void)puts(".Ed");
}

static void put_option(const struct option_spec *spec)
{
    (void)fputs(".It", stdout);
    if (spec->letter != '\0') (void)printf(" Fl %c ,", spec->letter);
    (void)printf(" Fl -%s", spec->name);
    if (spec->value != NULL) (void)printf(" Ar \\&%s", spec->value);
    (void)putchar('\n');
    put_text(spec->help, strlen(spec->help));
    if (spec->text != NULL) (void)printf(" (default %s)", spec->text);
    (void)puts(".");
}

struct option_filter {
    bool is_common;
    size_t n;
};

static void put_options(void *user, const struct option_spec *specs, size_t n)
{
    struct option_filter *filter = user;

    for (size_t i = 0; i < n; i++) {
        if (specs[i].is_common != filter->is_common) continue;
        if (filter->n++ == 0) (void)puts(".Bl -tag -width Ds -compact");
        put_option(&specs[i]);
    }
    if (filter->n > 0) (void)puts(".El");
}

static void put_command(const struct command *c)
{
    struct option_filter own = {.is_common = false};
    const char *example = c->examples;

    (void)printf(".It Cm %s", c->name);
    if (c->arguments != NULL) (void)printf(" Ar %s", c->arguments);
    (void)putchar('\n');
    (void)printf("%c", c->summary[0] - ('a' <= c->summary[0] && c->summary[0] <= 'z' ? 32 : 0));
    put_text(c->summary + 1, strlen(c->summary) - 1);
    (void)puts(".");
    if (c->text != NULL) put_paragraphs(c->text);
    command_options(c, put_options, &own);
    if (example == NULL) return;
    (void)puts(".Bd -literal -offset indent");
    while (*example != '\0') {
        size_t len = strcspn(example, "\n");
        put_text(example, len);
        (void)putchar('\n');
        example += len;
        example += *example == '\n';
    }
    (void)puts(".Ed");
}

static void put_group(command_tables tables, enum command_group group)
{
    (void)printf(".Ss %s\n.Bl -tag -width Ds\n", group_titles[group]);
    for (size_t t = 0; tables[t] != NULL; t++) {
        for (const struct command *c = tables[t]; c->name != NULL; c++) {
            if (c->group == group) put_command(c);
        }
    }
    (void)puts(".El");
}

/* Any command of ours that has them shows the common ones. */
static void put_common(command_tables tables)
{
    for (size_t t = 0; tables[t] != NULL; t++) {
        for (const struct command *c = tables[t]; c->name != NULL; c++) {
            if (strcmp(c->name, "show") != 0) continue;
            struct option_filter common = {.is_common = true};
            command_options(c, put_options, &common);
        }
    }
}

void manual_print(command_tables tables)
{
    (void)puts(
        ".\\\" SPDX-License-Identifier: Apache-2.0\n"
        ".\\\" Made by \"norn manual\" from the tables of commands: change those, not this.\n"
        ".Dd November 15, 2026\n.Dt NORN 1\n.Os\n.Sh NAME\n.Nm norn\n"
        ".Nd durable orchestrations: server, command line and benchmarks\n"
        ".Sh SYNOPSIS\n.Nm norn\n.Ar command\n.Op Ar options\n"
        ".Nm norn\n.Cm help\n.Op Ar topic\n"
        ".Nm norn\n.Fl -version\n"
        ".Sh DESCRIPTION\n.Nm\n"
        "coordinates work that spans many services so that it either finishes or is undone,\n"
        "whatever crashes on the way.\n"
        "The steps are an ordinary program, an orchestration; every decision is written down\n"
        "before anyone hears of it, and after a crash it goes on where it was.\n"
        ".Pp\n.Nm norn\n.Cm server\n"
        "is the engine for clients and workers on the network; the other commands ask it over\n"
        "HTTP, or look at its files.\n"
        ".Sh COMMANDS");
    for (enum command_group group = 0; group < GROUPS_N; group++) put_group(tables, group);
    (void)puts(".Sh COMMON OPTIONS\nAll commands that ask a server have these:");
    put_common(tables);
    for (const struct topic *topic = topics; topic->name != NULL; topic++) {
        char title[64] = "";
        for (size_t n = 0; topic->name[n] != '\0' && n + 1 < sizeof title; n++) {
            char c = topic->name[n];
            title[n] = (char)(c >= 'a' && c <= 'z' ? c - 32 : c == '-' ? ' ' : c);
        }
        (void)printf(".Sh %s\n", strcmp(topic->name, "exit-codes") == 0 ? "EXIT STATUS" : title);
        put_paragraphs(topic->text);
    }
    (void)puts(".Sh SEE ALSO\n.Xr libnorn 3");
    (void)fflush(stdout);
}

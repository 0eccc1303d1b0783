/* SPDX-License-Identifier: Apache-2.0
 *
 * See session.h: beginning and end of a client command, messages, questions.
 */
#include "cli/session.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SERVER_DEFAULT "http://127.0.0.1:4001"
#define SPECS_MAX 48
#define COMMON_N 8

/* ---- begin and end ---- */

static size_t common_specs(struct cli *cli, struct option_spec *out)
{
    const struct option_spec specs[COMMON_N] = {
        OPTION_TEXT("server", "URL", "the server to ask; see norn help server", NULL, &cli->server),
        OPTION_TEXT("hub", "NAME", "the hub of the instances", NULL, &cli->hub),
        {.name = "output",
         .letter = 'o',
         .value = "FORMAT",
         .help = "table, wide, json, jsonl, csv or name",
         .text = "table",
         .among = "table|wide|json|jsonl|csv|name",
         .string = &cli->format_text},
        {.name = "color",
         .value = "WHEN",
         .help = "auto, always or never",
         .text = "auto",
         .among = "auto|always|never",
         .string = &cli->color},
        OPTION_FLAG("absolute", "times in UTC instead of \"3m ago\"", &cli->is_absolute),
        {.name = "timeout",
         .value = "DURATION",
         .help = "give up after this",
         .duration_ms = &cli->timeout_ms},
        {.name = "quiet",
         .letter = 'q',
         .help = "no messages beside the data",
         .flag = &cli->is_quiet},
        {.name = "yes", .letter = 'y', .help = "do not ask", .flag = &cli->is_yes},
    };

    memcpy(out, specs, sizeof specs);
    for (size_t n = 0; n < COMMON_N; n++) out[n].is_common = true;
    return COMMON_N;
}

static enum output_format format_of(const char *text)
{
    static const char *const names[] = {"table", "wide", "json", "jsonl", "csv", "name"};

    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        if (strcmp(names[n], text) == 0) return (enum output_format)n;
    }
    return FORMAT_TABLE;
}

static const char *first_of(const char *a, const char *b)
{
    return a != NULL && a[0] != '\0' ? a : b;
}

static int find_server(struct cli *cli)
{
    const char *server = NULL;
    const char *hub = NULL;

    cli->hub_given = cli->hub;
    cli->server = first_of(cli->server, getenv("NORN_SERVER"));
    cli->hub = first_of(cli->hub, getenv("NORN_HUB"));
    bool is_known = context_current(&cli->arena, &server, &hub);
    /* not the default instead: that may be another server */
    if (!is_known && (first_of(cli->server, NULL) == NULL || first_of(cli->hub, NULL) == NULL))
        return context_damaged(cli);
    cli->server = first_of(first_of(cli->server, server), SERVER_DEFAULT);
    cli->hub = first_of(first_of(cli->hub, hub), "default");
    const char *problem = url_parse(cli->server, &cli->url);
    if (problem == NULL) return EXIT_CODE_OK;
    return cli_failf(cli, EXIT_CODE_USAGE, "bad-server", "the server \"%s\" cannot be: %s",
                     cli->server, problem);
}

/* An empty word is a variable of the shell that is not set, and never what was meant: in a path it
 * would name something else. */
static int check_words(const struct cli *cli)
{
    for (size_t n = 0; n < cli->words.n; n++) {
        if (cli->words.items[n][0] == '\0') return cli_empty_word(cli, "a word");
    }
    return EXIT_CODE_OK;
}

bool cli_open(struct cli *cli, const struct command *command, const struct option_spec *specs,
              size_t specs_n, int argc, char **argv, int *exit_code)
{
    struct option_spec all[SPECS_MAX];

    *cli = (struct cli){.command = command, .timeout_ms = -1, .color = "auto"};
    cli->format_text = "table";
    if (specs_n > 0) memcpy(all, specs, specs_n * sizeof all[0]);
    size_t n = specs_n + common_specs(cli, all + specs_n);
    if (!command_read(command, all, n, argc, argv, &cli->words, exit_code)) return false;
    cli->terminal = terminal_look(cli->color);
    cli->format = format_of(cli->format_text);
    cli->now_ns = clock_wall_ns();
    cli->ends_ns = cli->timeout_ms < 0 ? INT64_MAX : clock_mono_ns() + cli->timeout_ms * NS_PER_MS;
    arena_init(&cli->arena, mem_process(), 4096);
    *exit_code = check_words(cli);
    if (*exit_code == EXIT_CODE_OK) *exit_code = find_server(cli);
    http_client_init(&cli->http, mem_process(), &cli->url);
    if (*exit_code == EXIT_CODE_OK) return true;
    (void)cli_close(cli, *exit_code);
    return false;
}

int cli_close(struct cli *cli, int exit_code)
{
    http_client_close(&cli->http);
    arena_release(&cli->arena);
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && exit_code == EXIT_CODE_OK)
        return EXIT_CODE_FAILED;
    return exit_code;
}

const char *cli_word(const struct cli *cli, size_t n)
{
    return n < cli->words.n ? cli->words.items[n] : NULL;
}

int64_t cli_time_left_ms(const struct cli *cli, int64_t most)
{
    if (cli->ends_ns == INT64_MAX) return most;
    int64_t left_ms = (cli->ends_ns - clock_mono_ns()) / NS_PER_MS;
    return left_ms <= 0 ? 0 : left_ms < most ? left_ms : most;
}

void cli_sleep_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};

    (void)nanosleep(&time, NULL);
}

struct arena cli_arena_swap(struct cli *cli)
{
    struct arena kept = cli->arena;

    arena_init(&cli->arena, mem_process(), 4096);
    return kept;
}

void cli_arena_restore(struct cli *cli, struct arena kept)
{
    arena_release(&cli->arena);
    cli->arena = kept;
}

/* ---- messages ---- */

void cli_say(const struct cli *cli, const char *format, ...)
{
    va_list arguments;

    if (cli->is_quiet) return;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
}

static void print_clean(const char *text)
{
    struct buffer clean;

    buffer_init(&clean, mem_process());
    text_clean(&clean, bytes_of_text(text));
    (void)fwrite(clean.ptr, 1, clean.len, stderr);
    buffer_release(&clean);
}

static void print_problem_json(const char *code, const char *detail, const char *hint)
{
    struct buffer text;
    struct json j;

    buffer_init(&text, mem_process());
    json_init(&j, &text);
    json_object_begin(&j);
    json_key(&j, "type");
    struct buffer type;
    buffer_init(&type, mem_process());
    buffer_format(&type, "urn:norn:error:%s", code);
    json_bytes(&j, buffer_view(&type));
    buffer_release(&type);
    json_key(&j, "title");
    json_text(&j, detail);
    json_key(&j, "code");
    json_text(&j, code);
    if (hint != NULL) {
        json_key(&j, "hint");
        json_text(&j, hint);
    }
    json_object_end(&j);
    (void)fprintf(stderr, "%.*s\n", (int)text.len, (const char *)text.ptr);
    buffer_release(&text);
}

int cli_fail(const struct cli *cli, int exit_code, const char *code, const char *detail,
             const char *hint)
{
    (void)fflush(stdout); /* what was printed before stands before it */
    if (cli_is_json(cli)) {
        print_problem_json(code, detail, hint);
        return exit_code;
    }
    (void)fprintf(stderr, "norn %s: ", cli->command->name);
    print_clean(detail);
    if (hint != NULL && hint[0] != '\0') {
        (void)fputs("\n  ", stderr);
        print_clean(hint);
    }
    (void)fputc('\n', stderr);
    return exit_code;
}

int cli_empty_word(const struct cli *cli, const char *which)
{
    char detail[64];

    (void)snprintf(detail, sizeof detail, "%s is empty", which);
    return cli_fail(cli, EXIT_CODE_USAGE, "bad-words", detail, "is a variable not set?");
}

int cli_no_format(struct cli *cli, const char *formats)
{
    return cli_failf(cli, EXIT_CODE_USAGE, "bad-format", "there is no -o %s of it: give %s",
                     cli->format_text, formats);
}

int cli_failf(struct cli *cli, int exit_code, const char *code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    char *detail = arena_format(&cli->arena, format, arguments);
    va_end(arguments);
    return cli_fail(cli, exit_code, code, detail == NULL ? "out of memory" : detail, NULL);
}

bool cli_confirm(struct cli *cli, const char *question, int *exit_code)
{
    char answer[16] = "";

    if (cli->is_yes) return true;
    if (!terminal_can_ask()) {
        *exit_code = cli_fail(cli, EXIT_CODE_UNCONFIRMED, "not-confirmed", question,
                              "there is no terminal to ask on: --yes says yes");
        return false;
    }
    print_clean(question);
    (void)fputs(" [y/N] ", stderr);
    bool is_yes =
        fgets(answer, sizeof answer, stdin) != NULL &&
        (strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0 || strcmp(answer, "Y\n") == 0);
    if (!is_yes) *exit_code = cli_fail(cli, EXIT_CODE_FAILED, "declined", "nothing was done", NULL);
    return is_yes;
}

/* ---- payloads ---- */

#define READ_SIZE ((size_t)64 << 10)
#define FILE_SIZE_MAX ((size_t)1 << 30)

bool cli_read_file(struct cli *cli, const char *path, struct bytes *out, int *exit_code)
{
    struct buffer text;
    size_t n = 1;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");

    if (file == NULL) {
        *exit_code = cli_failf(cli, EXIT_CODE_USAGE, "bad-file", "%s cannot be opened: %s", path,
                               strerror(errno));
        return false;
    }
    buffer_init(&text, mem_process());
    while (n > 0 && text.len < FILE_SIZE_MAX && buffer_reserve(&text, READ_SIZE)) {
        n = fread(text.ptr + text.len, 1, READ_SIZE, file);
        text.len += n;
    }
    bool is_read = n == 0 && ferror(file) == 0;
    if (file != stdin) (void)fclose(file);
    if (is_read) {
        struct bytes copy = arena_copy(&cli->arena, buffer_view(&text));
        is_read = copy.len == text.len;
        *out = copy;
    }
    buffer_release(&text);
    if (!is_read)
        *exit_code = cli_failf(cli, EXIT_CODE_FAILED, "bad-file", "%s cannot be read", path);
    return is_read;
}

bool cli_payload(struct cli *cli, const char *text, struct bytes *out, int *exit_code)
{
    size_t at = 0;
    const char *where = NULL;

    *out = BYTES_NONE;
    if (text == NULL) return true;
    if (strcmp(text, "-") == 0) where = "-";
    if (text[0] == '@') where = text + 1;
    if (where != NULL && !cli_read_file(cli, where, out, exit_code)) return false;
    if (where == NULL) *out = bytes_of_text(text);
    struct value value = value_parse(*out, &at);
    if (value.type != JSON_NONE) {
        *out = value.raw;
        return true;
    }
    bool is_word = where == NULL && at == 0 && text[0] >= 'A' && text[0] <= 'z';
    *exit_code = cli_failf(
        cli, EXIT_CODE_USAGE, "bad-json", "%s%s is not JSON, from character %zu on%s%s%s",
        where == NULL ? "the payload" : "the payload in ", where == NULL ? "" : where, at + 1,
        is_word ? "; a text needs its quotes: '\"" : "", is_word ? text : "", is_word ? "\"'" : "");
    return false;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * norn context: names for servers, in $XDG_CONFIG_HOME/norn/contexts.json:
 *
 *     {"current":"prod","contexts":{"prod":{"server":"http://norn:4001","hub":"orders"}}}
 *
 * The file is small and written whole, by way of a second file, so that a crash leaves the old one
 * or the new one. Nothing else than these fields is in it, and no secret ever is.
 */
#include "cli/context.h"

#include "base/mem.h"
#include "cli/print.h"
#include "cli/verbs.h"
#include "wire/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_SIZE_MAX ((size_t)1 << 20)
#define CONTEXTS_MAX 256

/* ---- the file ---- */

bool context_path(char out[static CONTEXT_PATH_SIZE], const char *name)
{
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int len = -1;

    if (config != NULL && config[0] == '/')
        len = snprintf(out, CONTEXT_PATH_SIZE, "%s/norn%s", config, name);
    else if (home != NULL && home[0] == '/')
        len = snprintf(out, CONTEXT_PATH_SIZE, "%s/.config/norn%s", home, name);
    return len > 0 && len < CONTEXT_PATH_SIZE;
}

static bool are_contexts(struct value file)
{
    struct value_cursor cursor = value_begin(value_member(file, "contexts"));
    size_t n = 0;

    if (!cursor.is_object) return false;
    for (; value_next(&cursor, NULL); n++) {
        if (value_member(cursor.value, "server").type != JSON_STRING) return false;
    }
    return n <= CONTEXTS_MAX;
}

/* The file as JSON; VALUE_NONE when there is none. In the arena. False: there is one, and it cannot
 * be read or is not as we write it. */
static bool contexts_read(struct arena *arena, struct value *out)
{
    char path[CONTEXT_PATH_SIZE];
    struct buffer text;

    *out = VALUE_NONE;
    if (!context_path(path, "/contexts.json")) return true;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return errno == ENOENT || errno == ENOTDIR;
    buffer_init(&text, mem_process());
    if (buffer_reserve(&text, FILE_SIZE_MAX)) {
        text.len = fread(text.ptr, 1, FILE_SIZE_MAX, file);
        *out = value_parse(arena_copy(arena, buffer_view(&text)), NULL);
    }
    buffer_release(&text);
    (void)fclose(file);
    return are_contexts(*out);
}

int context_damaged(struct cli *cli)
{
    char path[CONTEXT_PATH_SIZE] = "";
    char detail[CONTEXT_PATH_SIZE + 64];

    (void)context_path(path, "/contexts.json");
    (void)snprintf(detail, sizeof detail, "%s is damaged or cannot be read", path);
    return cli_fail(cli, EXIT_CODE_USAGE, "bad-contexts", detail,
                    "mend or remove it: which server is meant is not known");
}

bool context_current(struct arena *arena, const char **server, const char **hub)
{
    struct value file;

    if (!contexts_read(arena, &file)) return false;
    const char *name = member_text(arena, file, "current");
    struct value_cursor cursor = value_begin(value_member(file, "contexts"));
    while (name[0] != '\0' && value_next(&cursor, arena)) {
        if (cursor.key == NULL || strcmp(cursor.key, name) != 0) continue;
        *server = member_text(arena, cursor.value, "server");
        *hub = member_text(arena, cursor.value, "hub");
    }
    return true;
}

struct contexts {
    const char *current;
    struct context {
        const char *name;
        const char *server;
        const char *hub;
    } items[CONTEXTS_MAX];
    size_t n;
};

/* False after a message: nothing may be written over what cannot be read. */
static bool contexts_load(struct cli *cli, struct contexts *out, int *exit_code)
{
    struct arena *arena = &cli->arena;
    struct value file;

    if (!contexts_read(arena, &file)) {
        *exit_code = context_damaged(cli);
        return false;
    }
    struct value_cursor cursor = value_begin(value_member(file, "contexts"));
    out->current = member_text(arena, file, "current");
    out->n = 0;
    while (out->n < CONTEXTS_MAX && value_next(&cursor, arena)) {
        out->items[out->n++] = (struct context){cursor.key == NULL ? "" : cursor.key,
                                                member_text(arena, cursor.value, "server"),
                                                member_text(arena, cursor.value, "hub")};
    }
    return true;
}

static void contexts_write(const struct contexts *contexts, struct buffer *out)
{
    struct json j;

    json_init(&j, out);
    json_object_begin(&j);
    json_key(&j, "current");
    json_text(&j, contexts->current);
    json_key(&j, "contexts");
    json_object_begin(&j);
    for (size_t n = 0; n < contexts->n; n++) {
        const struct context *context = &contexts->items[n];
        json_key(&j, context->name);
        json_object_begin(&j);
        json_key(&j, "server");
        json_text(&j, context->server);
        if (context->hub[0] != '\0') {
            json_key(&j, "hub");
            json_text(&j, context->hub);
        }
        json_object_end(&j);
    }
    json_object_end(&j);
    json_object_end(&j);
    buffer_u8(out, '\n');
}

/* Makes every folder of the path. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
}

static int contexts_save(struct cli *cli, const struct contexts *contexts)
{
    char path[CONTEXT_PATH_SIZE];
    char fresh[CONTEXT_PATH_SIZE];
    struct buffer text;
    bool is_written = false;

    if (!context_path(path, "/contexts.json") || !context_path(fresh, "/contexts.json.new"))
        return cli_fail(cli, EXIT_CODE_FAILED, "no-home", "there is no place for contexts",
                        "set HOME or XDG_CONFIG_HOME");
    buffer_init(&text, mem_process());
    contexts_write(contexts, &text);
    make_folders(path);
    FILE *file = fopen(fresh, "wb");
    if (file != NULL) {
        is_written = fwrite(text.ptr, 1, text.len, file) == text.len;
        is_written = fclose(file) == 0 && is_written;
    }
    is_written = is_written && rename(fresh, path) == 0;
    buffer_release(&text);
    if (is_written) return EXIT_CODE_OK;
    return cli_failf(cli, EXIT_CODE_FAILED, "bad-file", "%s cannot be written: %s", path,
                     strerror(errno));
}

static struct context *contexts_find(struct contexts *contexts, const char *name)
{
    for (size_t n = 0; n < contexts->n; n++) {
        if (strcmp(contexts->items[n].name, name) == 0) return &contexts->items[n];
    }
    return NULL;
}

static int no_context(struct cli *cli, const char *name)
{
    return cli_failf(cli, EXIT_CODE_NOT_FOUND, "context-not-found",
                     "there is no context \"%s\"; norn context list shows what there is", name);
}

/* ---- the verbs ---- */

int verb_context_add(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    struct contexts contexts;
    struct url url;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    const char *problem = url_parse(cli.words.items[1], &url);
    if (problem != NULL)
        return cli_close(&cli,
                         cli_failf(&cli, EXIT_CODE_USAGE, "bad-server",
                                   "the server \"%s\" cannot be: %s", cli.words.items[1], problem));
    if (!contexts_load(&cli, &contexts, &code)) return cli_close(&cli, code);
    struct context *context = contexts_find(&contexts, cli.words.items[0]);
    if (context == NULL && contexts.n < CONTEXTS_MAX) context = &contexts.items[contexts.n++];
    if (context == NULL)
        return cli_close(&cli, cli_fail(&cli, EXIT_CODE_FAILED, "too-many", "too many contexts",
                                        "norn context remove NAME makes room"));
    *context = (struct context){cli.words.items[0], cli.words.items[1],
                                cli.hub_given == NULL ? "" : cli.hub_given};
    if (contexts.n == 1) contexts.current = context->name;
    code = contexts_save(&cli, &contexts);
    if (code == EXIT_CODE_OK) print_done(&cli, "added", context->name, VALUE_NONE);
    return cli_close(&cli, code);
}

int verb_context_use(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    struct contexts contexts;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    if (!contexts_load(&cli, &contexts, &code)) return cli_close(&cli, code);
    const char *name = cli.words.items[0];
    if (contexts_find(&contexts, name) == NULL) return cli_close(&cli, no_context(&cli, name));
    contexts.current = name;
    code = contexts_save(&cli, &contexts);
    if (code == EXIT_CODE_OK) print_done(&cli, "using", name, VALUE_NONE);
    return cli_close(&cli, code);
}

int verb_context_remove(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    struct contexts contexts;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    if (!contexts_load(&cli, &contexts, &code)) return cli_close(&cli, code);
    const char *name = cli.words.items[0];
    struct context *context = contexts_find(&contexts, name);
    if (context == NULL) return cli_close(&cli, no_context(&cli, name));
    *context = contexts.items[--contexts.n];
    if (strcmp(contexts.current, name) == 0) contexts.current = "";
    code = contexts_save(&cli, &contexts);
    if (code == EXIT_CODE_OK) print_done(&cli, "removed", name, VALUE_NONE);
    return cli_close(&cli, code);
}

int verb_context_list(const struct command *command, int argc, char **argv)
{
    static const struct column columns[] = {
        {"", "current", COLUMN_TEXT, false},
        {"NAME", "name", COLUMN_KEY, false},
        {"SERVER", "server", COLUMN_TEXT, false},
        {"HUB", "hub", COLUMN_TEXT, false},
    };
    struct cli cli;
    struct contexts contexts;
    struct printer p;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    if (!contexts_load(&cli, &contexts, &code)) return cli_close(&cli, code);
    printer_begin(&p, &cli, columns, sizeof columns / sizeof columns[0]);
    for (size_t n = 0; n < contexts.n; n++) {
        struct buffer text;
        struct json j;
        bool is_current = strcmp(contexts.current, contexts.items[n].name) == 0;
        buffer_init(&text, mem_process());
        json_init(&j, &text);
        json_object_begin(&j);
        json_key(&j, "name");
        json_text(&j, contexts.items[n].name);
        json_key(&j, "server");
        json_text(&j, contexts.items[n].server);
        json_key(&j, "hub");
        json_text(&j, contexts.items[n].hub[0] == '\0' ? "default" : contexts.items[n].hub);
        json_key(&j, "current");
        json_text(&j, is_current ? "*" : "");
        json_object_end(&j);
        printer_item(&p, value_parse(buffer_view(&text), NULL));
        buffer_release(&text);
    }
    printer_end(&p);
    if (contexts.n == 0) cli_say(&cli, "there are none; norn context add NAME URL makes one\n");
    return cli_close(&cli, EXIT_CODE_OK);
}

int verb_context_show(const struct command *command, int argc, char **argv)
{
    static const struct column columns[] = {
        {"server", "server", COLUMN_KEY, false},
        {"hub", "hub", COLUMN_TEXT, false},
    };
    struct cli cli;
    struct buffer text;
    struct json j;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    buffer_init(&text, mem_process());
    json_init(&j, &text);
    json_object_begin(&j);
    json_key(&j, "server");
    json_text(&j, cli.server);
    json_key(&j, "hub");
    json_text(&j, cli.hub);
    json_object_end(&j);
    print_object(&cli, columns, 2, value_parse(buffer_view(&text), NULL));
    buffer_release(&text);
    return cli_close(&cli, EXIT_CODE_OK);
}

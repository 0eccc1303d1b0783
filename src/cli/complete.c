/* SPDX-License-Identifier: Apache-2.0
 *
 * See complete.h.
 */
#include "cli/complete.h"

#include "base/mem.h"
#include "cli/session.h"

#include <stdio.h>
#include <string.h>

#define BUDGET_MS 300
#define LINES_MAX 100

/* ---- scripts ---- */

/* bash ends a word at a colon and at '=' too, and replaces only what stands behind it: words are
 * put together again, and what bash keeps is cut off from what is offered. */
static const char bash_script[] =
    "# bash completion for norn; made by `norn completion bash`\n"
    "_norn() {\n"
    "    local line n rest=$COMP_LINE kept=\n"
    "    local -a words\n"
    "    for ((n = 0; n <= COMP_CWORD; n++)); do\n"
    "        if ((n > 0)) && [[ $rest != [[:blank:]]* ]]; then\n"
    "            words[-1]+=${COMP_WORDS[n]}\n"
    "        else\n"
    "            words+=(\"${COMP_WORDS[n]}\")\n"
    "        fi\n"
    "        rest=${rest#\"${rest%%[![:blank:]]*}\"}\n"
    "        rest=${rest#\"${COMP_WORDS[n]}\"}\n"
    "    done\n"
    "    if [[ $COMP_WORDBREAKS == *:* ]]; then kept=${words[-1]%\"${words[-1]##*[:=]}\"}; fi\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        if [ \"$line\" = :files ]; then\n"
    "            compopt -o default 2>/dev/null\n"
    "            return\n"
    "        fi\n"
    "        line=${line%%$'\\t'*}\n"
    "        COMPREPLY+=(\"$(printf %q \"${line#\"$kept\"}\")\")\n"
    "    done < <(\"${words[0]}\" __complete \"${words[@]:1}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _norn norn\n";

static const char zsh_script[] =
    "#compdef norn\n"
    "# zsh completion for norn; made by `norn completion zsh`\n"
    "_norn() {\n"
    "    local line\n"
    "    local -a found\n"
    "    local all=\"$(\"${words[1]}\" __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"\n"
    "    for line in \"${(@f)all}\"; do\n"
    "        [[ -z $line ]] && continue\n"
    "        if [[ $line == :files ]]; then\n"
    "            _files\n"
    "            return\n"
    "        fi\n"
    "        found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
    "    done\n"
    "    _describe norn found\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _norn ]; then\n"
    "    _norn \"$@\"\n"
    "else\n"
    "    compdef _norn norn\n"
    "fi\n";

static const char fish_script[] =
    "# fish completion for norn; made by `norn completion fish`\n"
    "function __norn_complete\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)\n"
    "        if test \"$line\" = :files\n"
    "            __fish_complete_path (commandline -ct)\n"
    "            return\n"
    "        end\n"
    "        echo $line\n"
    "    end\n"
    "end\n"
    "complete -c norn -f -a '(__norn_complete)'\n";

bool completion_print(const char *shell)
{
    const char *script = strcmp(shell, "bash") == 0   ? bash_script
                         : strcmp(shell, "zsh") == 0  ? zsh_script
                         : strcmp(shell, "fish") == 0 ? fish_script
                                                      : NULL;

    if (script != NULL) (void)fputs(script, stdout);
    return script != NULL;
}

/* ---- what may stand here ---- */

struct completion {
    const char *word; /* being typed */
    const struct command *command;
    const char *option; /* whose value is being typed; NULL: none */
    const char *among;  /* the values it has; NULL: any */
    bool takes_value;   /* of the option before */
    struct cli cli;     /* for the server */
};

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void offer(const struct completion *c, const char *text, const char *description)
{
    if (begins(text, c->word) && text[strcspn(text, "\t\n")] == '\0')
        (void)printf("%s\t%s\n", text, description);
}

/* Words of names, between '|'. */
static void offer_among(const struct completion *c, const char *among)
{
    char value[64];

    while (*among != '\0') {
        size_t len = strcspn(among, "|");
        (void)snprintf(value, sizeof value, "%.*s", (int)len, among);
        offer(c, value, "");
        among += len;
        among += *among == '|';
    }
}

/* The next word of every command whose name begins with those that are there. */
static void offer_commands(const struct completion *c, command_tables tables, int argc, char **argv)
{
    char before[128] = "";
    char next[64];
    char last[64] = "";

    for (int n = 0; n + 1 < argc; n++) {
        size_t len = strlen(before);
        (void)snprintf(before + len, sizeof before - len, "%s ", argv[n]);
    }
    for (size_t t = 0; tables[t] != NULL; t++) {
        for (const struct command *command = tables[t]; command->name != NULL; command++) {
            if (!begins(command->name, before)) continue;
            const char *rest = command->name + strlen(before);
            size_t len = strcspn(rest, " ");
            (void)snprintf(next, sizeof next, "%.*s", (int)len, rest);
            if (strcmp(next, last) == 0) continue; /* of a family, once: its names stand together */
            memcpy(last, next, sizeof last);
            offer(c, next, rest[len] == '\0' ? command->summary : "...");
        }
    }
}

/* ---- from the server ---- */

static struct value ask_server(struct completion *c, const char *path)
{
    struct ask ask = {.path = path, .timeout_ms = BUDGET_MS};

    return cli_try(&c->cli, &ask, NULL) == EXIT_CODE_OK ? ask.value : VALUE_NONE;
}

static void offer_items(struct completion *c, const char *path, const char *field,
                        const char *description_field)
{
    struct value_cursor items = value_begin(value_member(ask_server(c, path), "items"));
    char last[256] = "";

    while (value_next(&items, NULL)) {
        const char *text = member_text(&c->cli.arena, items.value, field);
        if (strcmp(text, last) == 0) continue;
        (void)snprintf(last, sizeof last, "%s", text);
        offer(c, text, member_text(&c->cli.arena, items.value, description_field));
    }
}

static void offer_ids(struct completion *c)
{
    const char *path =
        url_parameter(&c->cli.arena, cli_path(&c->cli, "/v1/instances"), "idPrefix", c->word);

    path = url_parameter(&c->cli.arena, path, "limit", "50");
    path = url_parameter(&c->cli.arena, path, "order", "newest");
    offer_items(c, url_parameter(&c->cli.arena, path, "payloads", "false"), "id", "status");
}

/* Of the newest instances: every name that is in use is soon among them. */
static void offer_workflows(struct completion *c)
{
    struct value_cursor items = value_begin(value_member(
        ask_server(c, cli_path(&c->cli, "/v1/instances?limit=200&payloads=false&order=newest")),
        "items"));
    const char *seen[LINES_MAX];
    size_t seen_n = 0;

    while (seen_n < LINES_MAX && value_next(&items, NULL)) {
        const char *name = member_text(&c->cli.arena, items.value, "name");
        size_t n = 0;
        while (n < seen_n && strcmp(seen[n], name) != 0) n++;
        if (n < seen_n) continue;
        seen[seen_n++] = name;
        offer(c, name, "workflow");
    }
}

static void offer_events(struct completion *c, const char *id)
{
    struct value why = ask_server(c, cli_instance_path(&c->cli, id, "why"));
    struct value_cursor events = value_begin(value_member(why, "waitsFor.events"));

    while (value_next(&events, NULL)) offer(c, value_text(&c->cli.arena, events.value), "event");
}

/* ---- the value of an option, a word ---- */

static void offer_option_value(struct completion *c)
{
    static const char statuses[] = "pending|running|suspended|completed|failed|terminated|canceled";

    if (c->among != NULL)
        offer_among(c, c->among);
    else if (strcmp(c->option, "status") == 0)
        offer_among(c, statuses);
    else if (strcmp(c->option, "name") == 0 || strcmp(c->option, "workflow") == 0)
        offer_workflows(c);
    else if (strcmp(c->option, "id") == 0 || strcmp(c->option, "id-prefix") == 0)
        offer_ids(c);
    else if (strcmp(c->option, "stream") == 0)
        offer_items(c, "/v1/streams", "name", "");
    else if (strcmp(c->option, "data") == 0 || strcmp(c->option, "config") == 0 ||
             strcmp(c->option, "with") == 0)
        (void)puts(":files");
}

/* "[ID...]" -> "ID": the nth of "ID [NAME]", the last one for more. */
static void argument_name(const char *arguments, size_t n, char out[static 32])
{
    out[0] = '\0';
    for (const char *at = arguments; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, " ");
        const char *first = *at == '[' ? at + 1 : at;
        (void)snprintf(out, 32, "%.*s", (int)strcspn(first, "].\n "), first);
        at += len;
        at += strspn(at, " ");
        if (n-- == 0) return;
    }
}

static void offer_word(struct completion *c, size_t n, const char *first)
{
    char name[32];

    argument_name(c->command->arguments, n, name);
    if (strcmp(name, "ID") == 0)
        offer_ids(c);
    else if (strcmp(name, "NAME") == 0)
        offer_workflows(c);
    else if (strcmp(name, "EVENT") == 0 && first != NULL)
        offer_events(c, first);
    else if (strcmp(name, "STREAM") == 0 || strcmp(name, "QUEUE") == 0)
        offer_items(c, "/v1/streams", "name", "workflow");
    else if (strcmp(name, "LETTER") == 0)
        offer_items(c, "/v1/dead-letters?limit=50", "id", "reason");
    else if (strcmp(name, "SHELL") == 0)
        offer_among(c, "bash|zsh|fish");
    else if (strcmp(name, "FILE") == 0 || strcmp(name, "DIR") == 0 || strcmp(name, "INPUT") == 0 ||
             strcmp(name, "BACKUP") == 0 || strcmp(name, "VALUE") == 0)
        (void)puts(":files");
}

static void offer_options(void *user, const struct option_spec *specs, size_t n)
{
    struct completion *c = user;
    char text[64];

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(text, sizeof text, "--%s", specs[i].name);
        offer(c, text, specs[i].help);
    }
    offer(c, "--help", "explain the command");
}

/* Whether c->option takes a value, and which. */
static void look_at_option(void *user, const struct option_spec *specs, size_t n)
{
    struct completion *c = user;

    for (size_t i = 0; i < n; i++) {
        bool is_it = c->option[0] == '-' ? strcmp(c->option + 1, specs[i].name) == 0
                                         : c->option[1] == '\0' && c->option[0] == specs[i].letter;
        if (!is_it || specs[i].flag != NULL) continue;
        c->takes_value = true;
        c->among = specs[i].among;
        c->option = specs[i].name;
        return;
    }
}

/* The words of the command before the one being typed: how many are no options, and the first. */
static size_t count_words(struct completion *c, int argc, char **argv, const char **first)
{
    size_t n = 0;

    c->option = NULL;
    for (int i = 0; i < argc; i++) {
        c->takes_value = false;
        c->option = NULL;
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            if (n++ == 0) *first = argv[i];
            continue;
        }
        c->option = argv[i] + 1;
        if (strchr(argv[i], '=') == NULL) command_options(c->command, look_at_option, c);
        if (c->takes_value && i + 1 < argc)
            i++;
        else if (c->takes_value)
            return n;
    }
    c->takes_value = false;
    return n;
}

/* --server and --hub of the line are meant for the questions too. */
static bool open_session(struct completion *c, int argc, char **argv)
{
    static const struct command asking = {.name = "__complete"};
    char *words[4];
    int words_n = 0;
    int code;

    for (int n = 0; n + 1 < argc && words_n < 4; n++) {
        if (strcmp(argv[n], "--server") != 0 && strcmp(argv[n], "--hub") != 0) continue;
        words[words_n++] = argv[n];
        words[words_n++] = argv[n + 1];
    }
    return cli_open(&c->cli, &asking, NULL, 0, words_n, words, &code);
}

void complete_print(command_tables tables, int argc, char **argv)
{
    struct completion c = {.word = argc == 0 ? "" : argv[argc - 1]};
    const char *first = NULL;
    int words_n = 0;

    c.command = command_find(tables, argc - 1, argv, &words_n);
    if (c.command == NULL) {
        offer_commands(&c, tables, argc, argv);
        return;
    }
    if (!open_session(&c, argc, argv)) return;
    size_t n = count_words(&c, argc - 1 - words_n, argv + words_n, &first);
    if (c.takes_value)
        offer_option_value(&c);
    else if (c.word[0] == '-')
        command_options(c.command, offer_options, &c);
    else
        offer_word(&c, n, first);
    if (c.command->name != NULL && n == 0 && c.word[0] != '-' && !c.takes_value)
        offer_commands(&c, tables, argc, argv);
    (void)cli_close(&c.cli, EXIT_CODE_OK);
}

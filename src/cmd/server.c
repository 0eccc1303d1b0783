/* SPDX-License-Identifier: Apache-2.0
 *
 * norn server: reads the settings and runs the server with them. Its exit codes are those of
 * sysexits.h, as service managers know them, and not those of the other commands.
 */
#include "cmd/command.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "rest/rest.h"
#include "server/config.h"
#include "server/process.h"
#include "server/server.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* Which parts of the command line are not settings. */
struct words {
    const char *config; /* NULL = no file */
    bool is_check;
    bool is_print;
    bool is_help;
};

/* Kept for SIGHUP: the same words and file are read again. */
struct session {
    int argc;
    char **argv;
    struct config config; /* in effect */
};

/* ---- the command line ---- */

static void complain(const char *what) { fprintf(stderr, "norn server: %s\n", what); }

/* Splits "--name=value" or "--name value"; *i moves over a value of its own. False: not a flag. */
static bool split_word(int argc, char **argv, int *i, bool is_switch, char *name,
                       const char **value)
{
    const char *word = argv[*i];
    const char *equals = strchr(word, '=');
    size_t len = equals == NULL ? strlen(word) : (size_t)(equals - word);

    if (strncmp(word, "--", 2) != 0 || len - 2 >= SETTING_NAME_SIZE) return false;
    memcpy(name, word + 2, len - 2);
    name[len - 2] = '\0';
    *value = equals == NULL ? NULL : equals + 1;
    if (*value == NULL && !is_switch && *i + 1 < argc) *value = argv[++*i];
    return true;
}

/* The setting of a flag's name; SETTINGS_N when it is none. */
static enum setting flag_setting(const char *word)
{
    char flag[SETTING_NAME_SIZE];
    size_t len = strcspn(word, "=");

    for (enum setting s = 0; s < SETTINGS_N; s++) {
        setting_flag(s, flag);
        if (strlen(flag) == len && memcmp(flag, word, len) == 0) return s;
    }
    return SETTINGS_N;
}

static bool unknown_word(const char *word)
{
    char near[SETTING_NAME_SIZE] = "";

    if (strncmp(word, "--", 2) == 0) setting_flag_near(word + 2, near);
    fprintf(stderr, "norn server: what is \"%s\"?%s%s%s norn server --help lists the options\n",
            word, near[0] == '\0' ? "" : " Did you mean --", near, near[0] == '\0' ? "" : "?");
    return false;
}

/* All words: into `words`, and into the settings when `config` is given. False after a message. */
static bool read_words(int argc, char **argv, struct words *words, struct config *config,
                       struct buffer *problems)
{
    for (int i = 0; i < argc; i++) {
        char name[SETTING_NAME_SIZE];
        const char *value = NULL, *word = argv[i];
        bool *flag = strcmp(word, "--check-config") == 0                      ? &words->is_check
                     : strcmp(word, "--print-config") == 0                    ? &words->is_print
                     : strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ? &words->is_help
                                                                              : NULL;
        if (flag != NULL) {
            *flag = true;
            continue;
        }
        enum setting setting = strncmp(word, "--", 2) == 0 ? flag_setting(word + 2) : SETTINGS_N;
        bool is_switch = setting != SETTINGS_N && setting_is_switch(setting);
        if (!split_word(argc, argv, &i, is_switch, name, &value)) return unknown_word(word);
        bool is_config = strcmp(name, "config") == 0;
        if (!is_config && setting == SETTINGS_N) return unknown_word(word);
        if (value == NULL && !is_switch) {
            fprintf(stderr, "norn server: --%s needs a value\n", name);
            return false;
        }
        if (is_config) words->config = value;
        if (!is_config && config != NULL) (void)config_read_flag(config, name, value, problems);
    }
    return true;
}

/* ---- the settings ---- */

/* From all their sources. Problems are appended; the config is valid when there are none. */
static bool read_settings(const struct session *session, const struct words *words,
                          struct config *config, struct buffer *problems)
{
    extern char **environ;
    struct words unused = {0};

    if (words->config != NULL) (void)config_read_file(config, words->config, problems);
    (void)config_read_environment(config, environ, problems);
    if (!read_words(session->argc, session->argv, &unused, config, problems)) return false;
    if (problems->len == 0) (void)config_check(config, problems);
    return problems->len == 0 && !problems->failed;
}

/* Each problem is a line; `say` gets it without its end. */
static void tell_problems(struct buffer *problems, void (*say)(const char *))
{
    buffer_u8(problems, '\0');
    char *rest = problems->failed ? NULL : (char *)problems->ptr;
    if (rest == NULL) say(status_text(E_NOMEM));
    while (rest != NULL && *rest != '\0') {
        char *end = strchr(rest, '\n');
        if (end != NULL) *end = '\0';
        say(rest);
        rest = end == NULL ? NULL : end + 1;
    }
}

static void log_problem(const char *what) { log_error("not reloaded: %s", what); }

/* SIGHUP: the log level is the one thing that changes while we run. */
static void reload(void *user)
{
    struct session *session = user;
    struct words words = {.config = getenv("NORN_CONFIG")};
    struct config fresh;
    struct buffer problems;
    unsigned others_n = 0;

    buffer_init(&problems, session->config.arena.mem);
    if (config_init(&fresh, session->config.arena.mem) != OK) return;
    if (!read_words(session->argc, session->argv, &words, NULL, &problems) ||
        !read_settings(session, &words, &fresh, &problems)) {
        tell_problems(&problems, log_problem);
        config_release(&fresh);
        buffer_release(&problems);
        return;
    }
    log_set_level((enum log_level)config_number(&fresh, CONFIG_log_level));
    for (enum setting s = 0; s < SETTINGS_N; s++) {
        char name[SETTING_NAME_SIZE];
        if (s == CONFIG_log_level) continue;
        if (strcmp(config_text(&fresh, s), config_text(&session->config, s)) == 0) continue;
        setting_name(s, name);
        log_warn("%s is %s now, was %s: needs a restart", name, config_text(&fresh, s),
                 config_text(&session->config, s));
        others_n++;
    }
    log_info("reloaded: log level %s%s", config_text(&fresh, CONFIG_log_level),
             others_n > 0 ? "; the rest stays as it was until a restart" : "");
    config_release(&fresh);
    buffer_release(&problems);
}

/* ---- the command ---- */

static void print_buffer(void (*print)(struct buffer *out))
{
    struct buffer text;

    buffer_init(&text, mem_process());
    print(&text);
    (void)fwrite(text.ptr, 1, text.len, stdout);
    buffer_release(&text);
}

static void print_help(const struct command *command)
{
    printf("norn %s: %s\n\nUsage: norn %s [options]\n\nExample:\n  %s\n\nOptions:\n", command->name,
           command->summary, command->name, command->examples);
    puts("  --config FILE                    read settings from FILE\n"
         "  --check-config                   say what is wrong with the settings, and stop\n"
         "  --print-config                   show every setting and where it came from, and stop\n"
         "\nSettings, by flag; docs/configuration.md has the names in file and environment:");
    print_buffer(config_print_help);
    puts("\nSIGTERM or SIGINT drains and stops, a second one stops at once; SIGHUP reads the log "
         "level again;\nSIGUSR1 writes a summary to the log. Exit codes as in sysexits.h.");
}

static void print_settings(const struct config *config)
{
    struct buffer text;

    buffer_init(&text, mem_process());
    config_print(config, &text);
    (void)fwrite(text.ptr, 1, text.len, stdout);
    buffer_release(&text);
}

/* An idle server is small: freed memory goes back to the system, and threads share arenas. */
static void prepare_memory(void)
{
    (void)mallopt(M_ARENA_MAX, 2);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 20);
}

static int run(struct session *session, const struct words *words, int64_t begun_ns)
{
    struct config *config = &session->config;
    struct server_options options = {
        .front = &rest_front, .begun_ns = begun_ns, .reload = reload, .user = session};

    if (words->is_print) print_settings(config);
    if (words->is_print) return EX_OK;
    if (words->is_check) puts("the settings are valid");
    if (words->is_check) return EX_OK;
    log_setup((enum log_level)config_number(config, CONFIG_log_level),
              (enum log_format)config_number(config, CONFIG_log_format));
    server_options_set(&options, config);
    return server_run(&options);
}

/* The settings as options, for the manual and the completions. */
static void tell_options(const struct option_sink *sink)
{
    static const char *const helps[SETTINGS_N] = {
#define X(section, key, kind, value, least, most, help) help,
        SETTINGS(X)
#undef X
    };
    static const char *const defaults[SETTINGS_N] = {
#define X(section, key, kind, value, least, most, help) value,
        SETTINGS(X)
#undef X
    };
    char names[SETTINGS_N][SETTING_NAME_SIZE];
    struct option_spec specs[SETTINGS_N + 3];
    bool unused = false;

    for (enum setting s = 0; s < SETTINGS_N; s++) {
        bool is_switch = setting_is_switch(s);
        setting_flag(s, names[s]);
        specs[s] = (struct option_spec){.name = names[s],
                                        .value = is_switch ? NULL : "VALUE",
                                        .help = helps[s],
                                        .text = defaults[s][0] == '\0' ? NULL : defaults[s],
                                        .flag = is_switch ? &unused : NULL};
    }
    specs[SETTINGS_N] =
        (struct option_spec){.name = "config", .value = "FILE", .help = "read settings from FILE"};
    specs[SETTINGS_N + 1] =
        (struct option_spec){.name = "check-config",
                             .help = "say what is wrong with the settings, and stop",
                             .flag = &unused};
    specs[SETTINGS_N + 2] =
        (struct option_spec){.name = "print-config",
                             .help = "show every setting and where it came from, and stop",
                             .flag = &unused};
    sink->fn(sink->user, specs, SETTINGS_N + 3);
}

int server_command_run(const struct command *command, int argc, char **argv)
{
    struct session session = {.argc = argc, .argv = argv};
    struct words words = {.config = getenv("NORN_CONFIG")};
    struct buffer problems;
    int64_t begun_ns = clock_mono_ns();
    int code = EX_CONFIG;

    if (command->sink != NULL) {
        tell_options(command->sink);
        return EX_OK;
    }
    process_start();
    prepare_memory();
    buffer_init(&problems, mem_process());
    if (!read_words(argc, argv, &words, NULL, &problems)) return EX_USAGE;
    if (words.is_help) print_help(command);
    if (words.is_help) return EX_OK;
    if (config_init(&session.config, mem_process()) != OK) return EX_OSERR;
    if (read_settings(&session, &words, &session.config, &problems))
        code = run(&session, &words, begun_ns);
    else
        tell_problems(&problems, complain);
    config_release(&session.config);
    buffer_release(&problems);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What every client command has: which server and hub it asks, how it prints, its connection, and
 * how it says what went wrong. A command is
 *
 *     struct cli cli;
 *     if (!cli_open(&cli, command, specs, n, argc, argv, &code)) return code;
 *     ... cli_ask(), cli_print...() ...
 *     return cli_close(&cli, code);
 *
 * Everything a command makes lives in the arena until cli_close().
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "base/arena.h"
#include "cli/command.h"
#include "cli/http_client.h"
#include "cli/terminal.h"
#include "cli/value.h"

enum output_format {
    FORMAT_TABLE,
    FORMAT_WIDE,
    FORMAT_JSON,
    FORMAT_JSONL,
    FORMAT_CSV,
    FORMAT_NAME
};

struct cli {
    const struct command *command;
    struct word_list words;
    struct arena arena;
    struct http_client http;
    struct url url;
    struct terminal terminal;
    enum output_format format;
    int64_t now_ns;  /* when the command began */
    int64_t ends_ns; /* on the monotonic clock, by --timeout; INT64_MAX = never */
    /* of the options */
    const char *server;
    const char *hub;
    const char *hub_given; /* by the option itself; NULL: it came from elsewhere */
    const char *format_text;
    const char *color;
    int64_t timeout_ms; /* -1: not given */
    bool is_absolute;
    bool is_yes;
    bool is_quiet; /* no messages beside the data */
};

/* For programs, as JSON. */
static inline bool cli_is_json(const struct cli *cli)
{
    return cli->format == FORMAT_JSON || cli->format == FORMAT_JSONL;
}

/* For people. */
static inline bool cli_is_table(const struct cli *cli)
{
    return cli->format == FORMAT_TABLE || cli->format == FORMAT_WIDE;
}

/* Reads the words (command_read) and finds the server. False after a message or the help. */
bool cli_open(struct cli *cli, const struct command *command, const struct option_spec *specs,
              size_t specs_n, int argc, char **argv, int *exit_code);
/* Answers the code, or EXIT_CODE_FAILED instead of OK when the standard output could not be
 * written. */
int cli_close(struct cli *cli, int exit_code);

/* The word at this place; NULL when there are fewer. */
const char *cli_word(const struct cli *cli, size_t n);

/* ---- messages: to stderr; problems as JSON with -o json and jsonl ---- */

/* A message beside the data: nothing with --quiet. With a newline at its end. */
__attribute__((format(printf, 2, 3))) void cli_say(const struct cli *cli, const char *format, ...);
/* What went wrong here: a stable code, the sentence, what to do (may be NULL). Answers the exit
 * code it was given. */
int cli_fail(const struct cli *cli, int exit_code, const char *code, const char *detail,
             const char *hint);
/* The same with a sentence made here. */
__attribute__((format(printf, 4, 5))) int cli_failf(struct cli *cli, int exit_code,
                                                    const char *code, const char *format, ...);
/* EXIT_CODE_USAGE: the format that was asked for is not among these, "table or json". */
int cli_no_format(struct cli *cli, const char *formats);
/* EXIT_CODE_USAGE: which ("--id") is the empty text. */
int cli_empty_word(const struct cli *cli, const char *which);
/* True when it was confirmed: --yes, or asked and answered on a terminal. Else *exit_code is
 * EXIT_CODE_UNCONFIRMED after a message (nobody to ask), or EXIT_CODE_FAILED (no). */
bool cli_confirm(struct cli *cli, const char *question, int *exit_code);

/* ---- asking ---- */

struct ask {
    const char *method; /* NULL = GET */
    const char *path;
    struct bytes body;
    const char *type;    /* of the body; NULL = JSON */
    const char *headers; /* NULL = none */
    uint64_t wait_s;     /* Prefer: wait=N */
    int64_t timeout_ms;  /* 0 = as --timeout says, or 30 s */
    unsigned allowed;    /* this status is no error either */
    /* A good answer is one JSON object, unless it is said here; something else comes from somebody
     * who is no norn server, and nothing was done. */
    const char *needs; /* members it must have: "purged isComplete"; NULL = none */
    bool is_lines;     /* an object in each line: value.raw are all of them */
    bool is_text;      /* anything: value.raw is it */
    /* the answer */
    unsigned status;
    bool is_json;           /* by its content type */
    unsigned retry_after_s; /* 0: not said */
    struct value value;     /* lives in the arena */
};
/* EXIT_CODE_OK for a 2xx that can be read; else what was wrong was said, and it is the exit code
 * for it. */
int cli_ask(struct cli *cli, struct ask *ask);
/* Says that an answer, or a part of it, is none of a norn server. Answers EXIT_CODE_FAILED. */
int cli_bad_answer(struct cli *cli, const char *method, const char *path);
/* The same without a message: for tries. detail (may be NULL) points to the reason, in the arena
 * or in cli->http. */
int cli_try(struct cli *cli, struct ask *ask, const char **detail);
/* Says what the answer of a failed try was. */
int cli_problem(struct cli *cli, const struct ask *ask);
/* What a failed connection means. */
int cli_unreachable(struct cli *cli, enum status status);

/* "/v1/instances/order%2F7?hub=test": the hub is added where paths have one. */
__attribute__((format(printf, 2, 3))) const char *cli_path(struct cli *cli, const char *format,
                                                           ...);

/* "/v1/instances/order-7/suspend"; verb NULL: the instance itself. */
const char *cli_instance_path(struct cli *cli, const char *id, const char *verb);

/* Milliseconds until --timeout, at most `most`; 0 when the time is over. */
int64_t cli_time_left_ms(const struct cli *cli, int64_t most);
void cli_sleep_ms(int64_t ms);

/* For what goes on and on: the arena is put aside for a fresh one, and that one is released with
 * all that was made in between. */
struct arena cli_arena_swap(struct cli *cli);
void cli_arena_restore(struct cli *cli, struct arena kept);

/* ---- payloads ---- */

/* "{...}", "@file" or "-", checked to be JSON. NULL as text: empty. In the arena. False after a
 * message. */
bool cli_payload(struct cli *cli, const char *text, struct bytes *out, int *exit_code);
/* The contents of a file or, "-", the standard input; not looked into. */
bool cli_read_file(struct cli *cli, const char *path, struct bytes *out, int *exit_code);

/* server and hub of the context in use; NULL for what it does not say. In the arena. False: there
 * is a file of contexts that cannot be read. */
bool context_current(struct arena *arena, const char **server, const char **hub);
/* Says that the file of contexts cannot be read. Answers EXIT_CODE_USAGE. */
int context_damaged(struct cli *cli);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command of `norn` is. The tables of commands make everything that speaks of them: the
 * dispatch, the help, norn(1) and the completions; so a command that is not in a table does not
 * exist, and one that is has all of these.
 *
 * A command's options are written in its own function, beside the variables they set. Who only
 * wants to know them (help, manual, completion) runs the command with a `sink`: options_read()
 * gives the specs to it and the command ends at once.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes, as the command line conventions have them. */
enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1, /* it was tried and did not work; the instance has failed */
    EXIT_CODE_USAGE = 2,  /* wrong words on the command line */
    EXIT_CODE_NOT_FOUND = 3,
    EXIT_CODE_UNCONFIRMED = 4, /* it must be confirmed and there is nobody to ask */
    EXIT_CODE_UNREACHABLE = 5, /* no server; or a data directory that another process has */
    EXIT_CODE_TIMEOUT = 6,
};

/* What an option that may be repeated was given. */
#define OPTION_LIST_MAX 64
struct option_list {
    const char *items[OPTION_LIST_MAX]; /* borrowed from argv */
    size_t n;
};

struct option_spec {
    const char *name;  /* without the dashes */
    const char *value; /* what it takes, in capitals; NULL for a switch */
    const char *help;
    const char *text; /* default, for people; NULL for none */
    /* One of these, by kind. Numbers must lie within least .. most. */
    bool *flag;
    uint64_t *number;
    uint64_t least;
    uint64_t most;
    const char **string;
    int64_t *duration_ms; /* "10s"; negative stays "not given" */
    struct option_list *list;
    char letter;       /* 'o' for -o; 0 for none */
    bool is_common;    /* one of those every client command has */
    const char *among; /* "json|csv": the values there are, for checks and completion */
};

/* Rows of the usual kinds. takes: what stands for the value; otherwise: the default, as a text. */
#define OPTION_FLAG(option, words, to)                                                             \
    {                                                                                              \
        .name = (option), .help = (words), .flag = (to)                                            \
    }
#define OPTION_TEXT(option, takes, words, otherwise, to)                                           \
    {                                                                                              \
        .name = (option), .value = (takes), .help = (words), .text = (otherwise), .string = (to)   \
    }
#define OPTION_NUMBER(option, takes, words, otherwise, to, low, high)                              \
    {                                                                                              \
        .name = (option), .value = (takes), .help = (words), .text = (otherwise), .number = (to),  \
        .least = (low), .most = (high)                                                             \
    }

/* Where a command stands in the help. */
enum command_group {
    GROUP_RUN,
    GROUP_LOOK,
    GROUP_CHANGE,
    GROUP_STREAM,
    GROUP_OPERATE,
    GROUP_SERVER,
    GROUP_SELF,
    GROUP_DURABLE,
    GROUPS_N,
};

struct command;

typedef void option_sink_fn(void *user, const struct option_spec *specs, size_t n);

struct option_sink {
    option_sink_fn *fn;
    void *user;
};

struct command {
    const char *name; /* "bench engine" */
    enum command_group group;
    const char *arguments; /* "ID [NAME] [FILE...]"; NULL for none */
    const char *summary;   /* begins with a small letter, one line, no full stop */
    const char *text;      /* paragraphs between empty lines; NULL for none */
    const char *examples;  /* one a line, complete; every one of them is run by a test */
    int (*run)(const struct command *command, int argc, char **argv);
    const struct option_sink *sink; /* not NULL: only tell the options */
};

/* Several tables, each ended by a zeroed entry; the list is ended by NULL. */
typedef const struct command *const command_tables[];

/* The words that are no options. Borrowed from argv. */
struct word_list {
    char **items;
    size_t n;
};

/* Reads argv into the specs and moves the words to its front. False, and a message with what to do,
 * on wrong words or a wrong number of them; also after printing the help for --help (then
 * *exit_code is EXIT_CODE_OK). "--" ends the options. */
bool command_read(const struct command *command, const struct option_spec *specs, size_t specs_n,
                  int argc, char **argv, struct word_list *words, int *exit_code);
/* The same for a command without words. */
bool options_read(const struct command *command, const struct option_spec *specs, size_t specs_n,
                  int argc, char **argv, int *exit_code);

/* How many words "ID [NAME]" stands for; *most is SIZE_MAX when there is no limit. */
void arguments_count(const char *arguments, size_t *least, size_t *most);

/* The command that the first words name, the longest name that fits, which takes *words_n of them.
 * NULL: none. */
const struct command *command_find(command_tables tables, int argc, char **argv, int *words_n);
/* True when the word begins the names of several ("stream"). */
bool command_is_family(command_tables tables, const char *word);
/* The name of the command that looks most like the word; NULL when none does. */
const char *command_nearest(command_tables tables, const char *word);

/* All options of a command, by way of its sink. */
void command_options(const struct command *command, option_sink_fn *fn, void *user);

#endif

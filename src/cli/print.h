/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers in the format that was asked for. A list is described by its columns; the same
 * description makes the table, the CSV and the names.
 */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include "cli/session.h"
#include "cli/table.h"

enum column_kind {
    COLUMN_TEXT,
    COLUMN_KEY,    /* identifies the row: the last to be cut; what -o name prints */
    COLUMN_STATUS, /* coloured */
    COLUMN_TIME,
    COLUMN_NUMBER,
    COLUMN_SIZE, /* bytes */
    COLUMN_JSON, /* any value, on one line */
    COLUMN_LIST, /* an array of texts, with commas */
};

struct column {
    const char *title;
    const char *field; /* "inFlight.tasks" */
    enum column_kind kind;
    bool is_wide; /* only in wide tables and CSV */
};

struct printer {
    struct cli *cli;
    const struct column *columns;
    size_t columns_n;
    struct table table;
    size_t items_n;
};

void printer_begin(struct printer *p, struct cli *cli, const struct column *columns,
                   size_t columns_n);
void printer_item(struct printer *p, struct value item);
void printer_end(struct printer *p);

/* How much of a list; and its two options, for a table of them. */
struct paging {
    uint64_t limit;
    bool is_all;
};
#define PAGING_DEFAULT ((struct paging){.limit = 100})
#define PAGING_ALL ((struct paging){.is_all = true})
#define PAGING_SPECS(paging)                                                                       \
    {.name = "limit",                                                                              \
     .letter = 'n',                                                                                \
     .value = "N",                                                                                 \
     .help = "at most so many",                                                                    \
     .text = "100",                                                                                \
     .number = &(paging).limit,                                                                    \
     .least = 1,                                                                                   \
     .most = 1000000000},                                                                          \
    {                                                                                              \
        .name = "all", .help = "all there are", .flag = &(paging).is_all                           \
    }

/* A list of the server, page by page: {"items":[...],"next":...}. With the list empty a person is
 * told `nothing`. */
int print_list(struct cli *cli, const char *path, const struct column *columns, size_t columns_n,
               struct paging paging, const char *nothing);

/* The items of one answer: {"items":[...]}. */
void print_items(struct cli *cli, struct value answer, const struct column *columns,
                 size_t columns_n, const char *nothing);

/* A whole command without words and options of its own: the items at a path. */
int list_run(const struct command *command, int argc, char **argv, const char *path,
             const struct column *columns, size_t columns_n, const char *nothing);

/* One value as JSON: in several lines with colours on a terminal, as it came otherwise. */
void print_json(const struct cli *cli, struct value v);
/* Appends the value in several lines, each but the first behind `indent` spaces. */
void json_pretty(struct buffer *out, struct value v, unsigned indent);
/* One object as lines "title  text", in the order of the columns; absent ones are left out. JSON in
 * other formats. */
void print_object(struct cli *cli, const struct column *columns, size_t columns_n,
                  struct value object);
/* What was done to `id`: the answer of the server as JSON, the id with -o name, and a message
 * "suspended order-7" otherwise. */
void print_done(struct cli *cli, const char *done, const char *id, struct value answer);
/* Asks, and when it went well tells that it is done. Answers the exit code. */
int ask_done(struct cli *cli, struct ask *ask, const char *done, const char *id);

enum color status_color(const char *status);
/* A time as the options want it: "3m ago" or in full. In the arena. */
const char *cell_time(struct cli *cli, struct value v);
/* fwrite to stdout. */
void print_buffer(const struct buffer *text);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and columns for people. On a terminal a table fits its width: the widest columns are cut
 * with "…" until it does, those that identify something (is_key) last. Elsewhere nothing is cut.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/arena.h"
#include "cli/terminal.h"

#define TABLE_COLUMNS_MAX 24

struct table_column {
    const char *title;
    bool is_key;   /* cut only when nothing else is left to cut */
    bool is_right; /* numbers */
};

struct table_cell {
    struct bytes text;
    enum color color;
};

struct table_row {
    struct table_row *next;
    struct table_cell cells[];
};

struct table {
    struct arena *arena; /* outlives the table */
    const struct terminal *terminal;
    struct table_column columns[TABLE_COLUMNS_MAX];
    size_t columns_n;
    struct table_row *first;
    struct table_row **last;
    struct table_row *open; /* being filled */
    size_t cells_n;         /* of it */
    size_t rows_n;
};

void table_init(struct table *t, struct arena *arena, const struct terminal *terminal);
/* Before the first row. */
void table_column_add(struct table *t, struct table_column column);
/* Cell by cell; a row is complete with its last cell. Copied. */
void table_cell_add(struct table *t, const char *text, enum color color);
/* Appends the table with its titles; nothing when there is no row. */
void table_print(struct table *t, struct buffer *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the standard output can show: how wide it is, whether colours are wanted; and texts that
 * came from elsewhere, made harmless. An instance may be called "\033[2J": nothing but our own
 * colours reaches a terminal unchanged.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdio.h>

enum color { COLOR_NONE, COLOR_GREEN, COLOR_RED, COLOR_YELLOW, COLOR_CYAN, COLOR_GRAY, COLOR_BOLD };

struct terminal {
    bool is_terminal; /* stdout is one, and TERM is not "dumb" */
    bool has_color;
    unsigned width;  /* columns; 0 = as wide as it needs to be */
    unsigned height; /* lines; 0 = no limit */
};

/* color: "auto", "always" or "never". Reads NO_COLOR, CLICOLOR_FORCE, TERM and COLUMNS. */
struct terminal terminal_look(const char *color);
/* Whether questions can be asked: stdin and stderr are terminals. */
bool terminal_can_ask(void);
/* Whether progress may be drawn: stderr is a terminal that can. */
bool terminal_can_draw(void);

/* The escape sequence, "" without colours. */
const char *terminal_color(const struct terminal *t, enum color color);

/* Columns that a UTF-8 text takes; broken bytes and control characters count as they are shown by
 * text_clean(). */
unsigned text_width(struct bytes text);
/* Appends the text, control characters as \n, \t or \x1b, broken bytes as U+FFFD. */
void text_clean(struct buffer *out, struct bytes text);
/* The same, cut to so many columns, the last of them "…" when something was left out. Answers the
 * columns it took. */
unsigned text_clean_cut(struct buffer *out, struct bytes text, unsigned width);

#endif

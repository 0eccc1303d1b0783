/* SPDX-License-Identifier: Apache-2.0
 *
 * See table.h.
 */
#include "cli/table.h"

#include "base/assert.h"

#define GAP 2u
#define CUT_WIDTH_MIN 6u /* a column is not cut below this */

void table_init(struct table *t, struct arena *arena, const struct terminal *terminal)
{
    *t = (struct table){.arena = arena, .terminal = terminal};
    t->last = &t->first;
}

void table_column_add(struct table *t, struct table_column column)
{
    assert(t->columns_n < TABLE_COLUMNS_MAX);
    assert(t->first == NULL);
    t->columns[t->columns_n++] = column;
}

void table_cell_add(struct table *t, const char *text, enum color color)
{
    assert(t->columns_n > 0);
    if (t->open == NULL) {
        t->open =
            arena_alloc_zero(t->arena, sizeof *t->open + t->columns_n * sizeof t->open->cells[0]);
        t->cells_n = 0;
    }
    if (t->open == NULL) return; /* without memory the row is missing */
    t->open->cells[t->cells_n].text = arena_copy(t->arena, bytes_of_text(text));
    t->open->cells[t->cells_n++].color = color;
    if (t->cells_n < t->columns_n) return;
    *t->last = t->open;
    t->last = &t->open->next;
    t->open = NULL;
    t->rows_n++;
}

/* ---- widths ---- */

static void measure(const struct table *t, unsigned *widths)
{
    for (size_t c = 0; c < t->columns_n; c++)
        widths[c] = text_width(bytes_of_text(t->columns[c].title));
    for (const struct table_row *row = t->first; row != NULL; row = row->next) {
        for (size_t c = 0; c < t->columns_n; c++) {
            unsigned width = text_width(row->cells[c].text);
            if (width > widths[c]) widths[c] = width;
        }
    }
}

static unsigned total(const struct table *t, const unsigned *widths)
{
    unsigned sum = 0;

    for (size_t c = 0; c < t->columns_n; c++) sum += widths[c] + (c > 0 ? GAP : 0);
    return sum;
}

/* The widest column that may still be cut; columns_n when there is none. */
static size_t widest(const struct table *t, const unsigned *widths, bool with_keys)
{
    size_t found = t->columns_n;

    for (size_t c = 0; c < t->columns_n; c++) {
        if (widths[c] <= CUT_WIDTH_MIN || (t->columns[c].is_key && !with_keys)) continue;
        if (found == t->columns_n || widths[c] > widths[found]) found = c;
    }
    return found;
}

static void fit(const struct table *t, unsigned *widths)
{
    while (total(t, widths) > t->terminal->width) {
        size_t c = widest(t, widths, false);
        if (c == t->columns_n) c = widest(t, widths, true);
        if (c == t->columns_n) return;
        widths[c]--;
    }
}

/* ---- printing ---- */

static void pad(struct buffer *out, unsigned n)
{
    for (; n > 0; n--) buffer_u8(out, ' ');
}

static void print_cell(const struct table *t, struct buffer *out, size_t c, struct bytes text,
                       enum color color, unsigned width)
{
    unsigned wanted = text_width(text);
    unsigned used = wanted < width ? wanted : width;
    bool is_last = c + 1 == t->columns_n;
    bool is_colored = color != COLOR_NONE && t->terminal->has_color;

    if (c > 0) pad(out, GAP);
    if (t->columns[c].is_right) pad(out, width - used);
    if (is_colored) buffer_append_bytes(out, bytes_of_text(terminal_color(t->terminal, color)));
    used = text_clean_cut(out, text, width);
    if (is_colored)
        buffer_append_bytes(out, bytes_of_text(terminal_color(t->terminal, COLOR_NONE)));
    if (!t->columns[c].is_right && !is_last && used < width) pad(out, width - used);
}

/* An empty last cell leaves the padding of those before it. */
static void end_line(struct buffer *out)
{
    while (out->len > 0 && out->ptr[out->len - 1] == ' ') out->len--;
    buffer_u8(out, '\n');
}

void table_print(struct table *t, struct buffer *out)
{
    unsigned widths[TABLE_COLUMNS_MAX];

    if (t->first == NULL) return;
    measure(t, widths);
    if (t->terminal->width > 0) fit(t, widths);
    for (size_t c = 0; c < t->columns_n; c++)
        print_cell(t, out, c, bytes_of_text(t->columns[c].title), COLOR_BOLD, widths[c]);
    end_line(out);
    for (const struct table_row *row = t->first; row != NULL; row = row->next) {
        for (size_t c = 0; c < t->columns_n; c++)
            print_cell(t, out, c, row->cells[c].text, row->cells[c].color, widths[c]);
        end_line(out);
    }
}

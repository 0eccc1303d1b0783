/* SPDX-License-Identifier: Apache-2.0
 *
 * See print.h.
 */
#include "cli/print.h"

#include "base/mem.h"
#include "base/moment.h"
#include "base/units.h"
#include "cli/when.h"
#include "wire/json.h"

#include <stdio.h>
#include <string.h>

#define PAGE_N_MAX 1000u
#define DEPTH_MAX 64u

void print_buffer(const struct buffer *text)
{
    if (text->len > 0) (void)fwrite(text->ptr, 1, text->len, stdout);
}

/* ---- cells ---- */

enum color status_color(const char *status)
{
    static const struct {
        const char *status;
        enum color color;
    } colors[] = {
        {"completed", COLOR_GREEN}, {"failed", COLOR_RED},   {"terminated", COLOR_RED},
        {"canceled", COLOR_RED},    {"running", COLOR_CYAN}, {"suspended", COLOR_YELLOW},
        {"pending", COLOR_YELLOW},  {"Error", COLOR_RED},    {"Processing", COLOR_CYAN},
        {"ok", COLOR_GREEN},        {"warn", COLOR_YELLOW},  {"fail", COLOR_RED},
    };

    for (size_t n = 0; n < sizeof colors / sizeof colors[0]; n++) {
        if (strcmp(colors[n].status, status) == 0) return colors[n].color;
    }
    return COLOR_NONE;
}

const char *cell_time(struct cli *cli, struct value v)
{
    int64_t time_ns = 0;
    char text[MOMENT_SIZE + WHEN_SIZE];

    if (!value_time(&cli->arena, v, &time_ns)) return value_text(&cli->arena, v);
    if (cli->is_absolute)
        (void)time_format(time_ns, text);
    else
        when_format(time_ns, cli->now_ns, text);
    const char *kept = arena_text(&cli->arena, bytes_of_text(text));
    return kept == NULL ? "" : kept;
}

static const char *list_text(struct cli *cli, struct value v)
{
    struct buffer text;
    struct value_cursor cursor = value_begin(v);

    buffer_init(&text, mem_process());
    while (value_next(&cursor, &cli->arena)) {
        if (text.len > 0) buffer_append(&text, ", ", 2);
        buffer_append_bytes(&text, bytes_of_text(value_text(&cli->arena, cursor.value)));
    }
    const char *kept = arena_text(&cli->arena, buffer_view(&text));
    buffer_release(&text);
    return kept == NULL ? "" : kept;
}

/* For people. */
static const char *cell_text(struct cli *cli, const struct column *column, struct value item)
{
    struct value v = value_member(item, column->field);
    int64_t number = 0;
    char text[UNITS_SIZE];
    const char *kept = NULL;

    switch (column->kind) {
    case COLUMN_TIME: return cell_time(cli, v);
    case COLUMN_LIST: return list_text(cli, v);
    case COLUMN_SIZE:
        if (!value_int64(v, &number) || number < 0) return "";
        size_describe((uint64_t)number, text);
        kept = arena_text(&cli->arena, bytes_of_text(text));
        return kept == NULL ? "" : kept;
    case COLUMN_JSON:
        kept = v.type == JSON_NONE ? "" : arena_text(&cli->arena, v.raw);
        return kept == NULL ? "" : kept;
    case COLUMN_TEXT:
    case COLUMN_KEY:
    case COLUMN_STATUS:
    case COLUMN_NUMBER: break;
    }
    return value_text(&cli->arena, v);
}

/* ---- csv ---- */

static void csv_field(struct buffer *out, bool is_first, struct bytes text)
{
    bool is_plain = true;

    for (size_t n = 0; n < text.len && is_plain; n++)
        is_plain = memchr(",\"\r\n", text.ptr[n], 4) == NULL;
    if (!is_first) buffer_u8(out, ',');
    if (is_plain) {
        buffer_append_bytes(out, text);
        return;
    }
    buffer_u8(out, '"');
    for (size_t n = 0; n < text.len; n++) {
        if (text.ptr[n] == '"') buffer_u8(out, '"');
        buffer_u8(out, text.ptr[n]);
    }
    buffer_u8(out, '"');
}

static void csv_item(struct printer *p, struct value item)
{
    struct buffer line;

    buffer_init(&line, mem_process());
    for (size_t c = 0; c < p->columns_n; c++) {
        struct value v = value_member(item, p->columns[c].field);
        const char *text = p->columns[c].kind == COLUMN_LIST ? list_text(p->cli, v)
                           : p->columns[c].kind == COLUMN_JSON
                               ? cell_text(p->cli, &p->columns[c], item)
                               : value_text(&p->cli->arena, v);
        csv_field(&line, c == 0, bytes_of_text(text));
    }
    buffer_u8(&line, '\n');
    print_buffer(&line);
    buffer_release(&line);
}

static void csv_titles(const struct printer *p)
{
    struct buffer line;

    buffer_init(&line, mem_process());
    for (size_t c = 0; c < p->columns_n; c++)
        csv_field(&line, c == 0, bytes_of_text(p->columns[c].field));
    buffer_u8(&line, '\n');
    print_buffer(&line);
    buffer_release(&line);
}

/* ---- lists ---- */

static bool is_shown(const struct printer *p, size_t c)
{
    return !p->columns[c].is_wide || p->cli->format == FORMAT_WIDE;
}

void printer_begin(struct printer *p, struct cli *cli, const struct column *columns,
                   size_t columns_n)
{
    *p = (struct printer){.cli = cli, .columns = columns, .columns_n = columns_n};
    table_init(&p->table, &cli->arena, &cli->terminal);
    for (size_t c = 0; c < columns_n; c++) {
        if (!is_shown(p, c)) continue;
        struct table_column column = {.title = columns[c].title,
                                      .is_key = columns[c].kind == COLUMN_KEY};
        column.is_right = columns[c].kind == COLUMN_NUMBER || columns[c].kind == COLUMN_SIZE;
        table_column_add(&p->table, column);
    }
    if (cli->format == FORMAT_JSON) (void)putchar('[');
    if (cli->format == FORMAT_CSV) csv_titles(p);
}

static void table_item(struct printer *p, struct value item)
{
    for (size_t c = 0; c < p->columns_n; c++) {
        if (!is_shown(p, c)) continue;
        const char *text = cell_text(p->cli, &p->columns[c], item);
        enum color color = p->columns[c].kind == COLUMN_STATUS ? status_color(text) : COLOR_NONE;
        table_cell_add(&p->table, text, color);
    }
}

static void name_item(struct printer *p, struct value item)
{
    for (size_t c = 0; c < p->columns_n; c++) {
        if (p->columns[c].kind == COLUMN_KEY) {
            (void)puts(member_text(&p->cli->arena, item, p->columns[c].field));
            return;
        }
    }
}

void printer_item(struct printer *p, struct value item)
{
    bool is_first = p->items_n++ == 0;

    switch (p->cli->format) {
    case FORMAT_TABLE:
    case FORMAT_WIDE: table_item(p, item); break;
    case FORMAT_CSV: csv_item(p, item); break;
    case FORMAT_NAME: name_item(p, item); break;
    case FORMAT_JSON: (void)fputs(is_first ? "\n" : ",\n", stdout); /* fall through */
    case FORMAT_JSONL:
        (void)fwrite(item.raw.ptr, 1, item.raw.len, stdout);
        if (p->cli->format == FORMAT_JSONL) (void)putchar('\n');
        break;
    }
}

void printer_end(struct printer *p)
{
    struct buffer text;

    if (p->cli->format == FORMAT_JSON) (void)puts(p->items_n == 0 ? "]" : "\n]");
    buffer_init(&text, mem_process());
    table_print(&p->table, &text);
    print_buffer(&text);
    buffer_release(&text);
}

static int list_pages(struct cli *cli, struct printer *p, const char *path, uint64_t limit)
{
    const char *cursor = "";
    char count[24];

    do {
        uint64_t left = limit == 0 ? PAGE_N_MAX : limit - p->items_n;
        (void)snprintf(count, sizeof count, "%llu",
                       (unsigned long long)(left < PAGE_N_MAX ? left : PAGE_N_MAX));
        const char *page = url_parameter(&cli->arena, path, "limit", count);
        struct ask ask = {.path = url_parameter(&cli->arena, page, "cursor", cursor),
                          .needs = "items"};
        int exit_code = cli_ask(cli, &ask);
        if (exit_code != EXIT_CODE_OK) return exit_code;
        struct value_cursor items = value_begin(value_member(ask.value, "items"));
        while (value_next(&items, NULL)) printer_item(p, items.value);
        cursor = member_text(&cli->arena, ask.value, "next");
    } while (cursor[0] != '\0' && (limit == 0 || p->items_n < limit));
    if (cursor[0] != '\0')
        cli_say(cli, "there are more: --limit %llu or --all shows them\n",
                (unsigned long long)limit * 10);
    return EXIT_CODE_OK;
}

int print_list(struct cli *cli, const char *path, const struct column *columns, size_t columns_n,
               struct paging paging, const char *nothing)
{
    struct printer p;

    printer_begin(&p, cli, columns, columns_n);
    int exit_code = list_pages(cli, &p, path, paging.is_all ? 0 : paging.limit);
    printer_end(&p);
    if (exit_code == EXIT_CODE_OK && p.items_n == 0 && cli_is_table(cli))
        cli_say(cli, "%s\n", nothing);
    return exit_code;
}

void print_items(struct cli *cli, struct value answer, const struct column *columns,
                 size_t columns_n, const char *nothing)
{
    struct printer p;
    struct value_cursor items = value_begin(value_member(answer, "items"));

    printer_begin(&p, cli, columns, columns_n);
    while (value_next(&items, NULL)) printer_item(&p, items.value);
    printer_end(&p);
    if (p.items_n == 0 && cli_is_table(cli)) cli_say(cli, "%s\n", nothing);
}

int list_run(const struct command *command, int argc, char **argv, const char *path,
             const struct column *columns, size_t columns_n, const char *nothing)
{
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    struct ask ask = {.path = path, .needs = "items"};
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) print_items(&cli, ask.value, columns, columns_n, nothing);
    return cli_close(&cli, code);
}

/* ---- one value ---- */

static void new_line(struct buffer *out, unsigned indent)
{
    buffer_u8(out, '\n');
    for (; indent > 0; indent--) buffer_u8(out, ' ');
}

static void pretty(struct buffer *out, struct value v, unsigned indent, unsigned depth)
{
    struct arena keys;
    struct value_cursor cursor = value_begin(v);
    bool is_first = true;

    if (!cursor.is_begun || depth == DEPTH_MAX) {
        buffer_append_bytes(out, v.raw);
        return;
    }
    arena_init(&keys, mem_process(), 256);
    buffer_u8(out, cursor.is_object ? '{' : '[');
    while (value_next(&cursor, &keys)) {
        if (!is_first) buffer_u8(out, ',');
        is_first = false;
        new_line(out, indent + 2);
        if (cursor.is_object) {
            struct json j;
            json_init(&j, out);
            json_text(&j, cursor.key == NULL ? "" : cursor.key);
            buffer_append(out, ": ", 2);
        }
        pretty(out, cursor.value, indent + 2, depth + 1);
    }
    if (!is_first) new_line(out, indent);
    buffer_u8(out, cursor.is_object ? '}' : ']');
    arena_release(&keys);
}

void json_pretty(struct buffer *out, struct value v, unsigned indent) { pretty(out, v, indent, 0); }

void print_json(const struct cli *cli, struct value v)
{
    struct buffer text;

    buffer_init(&text, mem_process());
    if (cli->terminal.is_terminal && cli->format != FORMAT_JSONL)
        json_pretty(&text, v, 0);
    else
        buffer_append_bytes(&text, v.raw);
    buffer_u8(&text, '\n');
    print_buffer(&text);
    buffer_release(&text);
}

static void object_line(struct cli *cli, struct buffer *out, const struct column *column,
                        struct value object, unsigned width)
{
    struct value v = value_member(object, column->field);
    const char *text = cell_text(cli, column, object);

    if (v.type == JSON_NONE || text[0] == '\0') return;
    unsigned used = text_width(bytes_of_text(column->title));
    buffer_append_bytes(out, bytes_of_text(column->title));
    for (; used < width + 2; used++) buffer_u8(out, ' ');
    enum color color = column->kind == COLUMN_STATUS ? status_color(text) : COLOR_NONE;
    bool is_colored = cli->terminal.has_color && color != COLOR_NONE;
    if (is_colored) buffer_append_bytes(out, bytes_of_text(terminal_color(&cli->terminal, color)));
    if (column->kind == COLUMN_JSON && (v.type == JSON_OBJECT || v.type == JSON_ARRAY))
        json_pretty(out, v, width + 2);
    else
        text_clean(out, bytes_of_text(text));
    if (is_colored)
        buffer_append_bytes(out, bytes_of_text(terminal_color(&cli->terminal, COLOR_NONE)));
    buffer_u8(out, '\n');
}

void print_object(struct cli *cli, const struct column *columns, size_t columns_n,
                  struct value object)
{
    struct buffer text;
    struct printer p;
    unsigned width = 0;

    if (cli_is_json(cli)) {
        print_json(cli, object);
        return;
    }
    if (cli->format == FORMAT_CSV || cli->format == FORMAT_NAME) {
        printer_begin(&p, cli, columns, columns_n);
        printer_item(&p, object);
        printer_end(&p);
        return;
    }
    for (size_t c = 0; c < columns_n; c++) {
        unsigned title = text_width(bytes_of_text(columns[c].title));
        if (value_member(object, columns[c].field).type != JSON_NONE && title > width)
            width = title;
    }
    buffer_init(&text, mem_process());
    for (size_t c = 0; c < columns_n; c++) object_line(cli, &text, &columns[c], object, width);
    print_buffer(&text);
    buffer_release(&text);
}

void print_done(struct cli *cli, const char *done, const char *id, struct value answer)
{
    if (cli->format == FORMAT_NAME) {
        (void)puts(id);
    } else if (cli_is_json(cli)) {
        struct buffer text;
        struct json j;
        buffer_init(&text, mem_process());
        json_init(&j, &text);
        json_object_begin(&j);
        json_key(&j, "id");
        json_text(&j, id);
        json_key(&j, "done");
        json_text(&j, done);
        json_object_end(&j);
        struct value made = value_parse(buffer_view(&text), NULL);
        print_json(cli, answer.type == JSON_OBJECT ? answer : made);
        buffer_release(&text);
    } else {
        cli_say(cli, "%s %s\n", done, id);
    }
}

int ask_done(struct cli *cli, struct ask *ask, const char *done, const char *id)
{
    int code = cli_ask(cli, ask);

    if (code == EXIT_CODE_OK) print_done(cli, done, id, ask->value);
    return code;
}

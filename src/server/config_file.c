/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration file, line by line:
 *
 *      # a comment
 *      [section]
 *      key = "text"      # or 'text', 12, true
 *
 * This is the part of TOML that an INI file also has; what else TOML allows (tables in tables,
 * arrays, dates, texts over several lines) is refused with its line.
 */
#include "server/config.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_SIZE_MAX (64 << 10)
#define PROBLEMS_N_MAX 20
#define WHERE_SIZE (TEXT_SIZE_MAX / 2)
#define NAME_SIZE_MAX 64
#define SECTIONS_N_MAX 16

/* One reading of one file. */
struct reading {
    struct config *config;
    const char *path;
    struct buffer *problems;
    struct buffer value; /* of the present line, without quotes and escapes */
    struct bytes section;
    bool has_section; /* a line has begun one, right or wrong */
    bool is_section_known;
    struct bytes sections[SECTIONS_N_MAX]; /* begun so far */
    size_t sections_n;
    uint32_t line;
    uint32_t lines_of[SETTINGS_N]; /* where each was set; 0 = not */
    uint32_t problems_n;
    bool is_out_of_memory;
};

/* The next problem's place; false when enough was said. */
static bool begin_problem(struct reading *r, char where[WHERE_SIZE])
{
    (void)snprintf(where, WHERE_SIZE, "%s:%u", r->path, r->line);
    r->problems_n++;
    if (r->problems_n == PROBLEMS_N_MAX + 1) buffer_format(r->problems, "%s: ... more\n", where);
    return r->problems_n <= PROBLEMS_N_MAX;
}

static void problem(struct reading *r, const char *what)
{
    char where[WHERE_SIZE];

    if (begin_problem(r, where)) buffer_format(r->problems, "%s: %s\n", where, what);
}

static bool is_space(uint8_t c) { return c == ' ' || c == '\t'; }

static struct bytes trim(struct bytes b)
{
    while (b.len > 0 && is_space(b.ptr[0])) b = bytes_make(b.ptr + 1, b.len - 1);
    while (b.len > 0 && (is_space(b.ptr[b.len - 1]) || b.ptr[b.len - 1] == '\r')) b.len--;
    return b;
}

static bool is_name(struct bytes b)
{
    for (size_t i = 0; i < b.len; i++) {
        uint8_t c = b.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '_' && c != '-') return false;
    }
    return b.len > 0 && b.len <= NAME_SIZE_MAX;
}

static struct bytes skip(struct bytes b, size_t n) { return bytes_make(b.ptr + n, b.len - n); }

/* Nothing, or a comment. */
static bool is_rest_empty(struct bytes rest)
{
    rest = trim(rest);
    return rest.len == 0 || rest.ptr[0] == '#';
}

/* ---- [section] ---- */

static void read_section(struct reading *r, struct bytes line)
{
    const uint8_t *end = memchr(line.ptr, ']', line.len);
    char where[WHERE_SIZE];

    r->has_section = true;
    r->is_section_known = false;
    if (end == NULL || !is_rest_empty(skip(line, (size_t)(end - line.ptr) + 1))) {
        problem(r, "a section is written [name], alone on its line");
        return;
    }
    struct bytes name = trim(bytes_make(line.ptr + 1, (size_t)(end - line.ptr) - 1));
    if (!is_name(name)) {
        problem(r, "a section's name has letters, digits, '_' and '-'");
        return;
    }
    for (size_t i = 0; i < r->sections_n; i++) {
        if (!bytes_equal(name, r->sections[i])) continue;
        problem(r, "this section was begun before; put its settings together");
        return;
    }
    if (r->sections_n < SECTIONS_N_MAX) r->sections[r->sections_n++] = name;
    r->section = name;
    r->is_section_known = config_has_section(name);
    if (!r->is_section_known && begin_problem(r, where))
        config_unknown(name, BYTES_NONE, where, r->problems);
}

/* ---- key = value ---- */

/* What an escape stands for; 0 when there is no such one. */
static uint8_t escaped(uint8_t c)
{
    switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case 'n': return '\n';
    case 't': return '\t';
    default: return 0;
    }
}

/* From the quote on; *rest: what follows the closing one. NULL, or what is wrong. */
static const char *read_quoted(struct reading *r, struct bytes b, struct bytes *rest)
{
    uint8_t quote = b.ptr[0];
    size_t i = 1;

    for (; i < b.len && b.ptr[i] != quote; i++) {
        uint8_t c = b.ptr[i];
        if (c < 0x20 && c != '\t') return "a control character in a text";
        if (quote == '"' && c == '\\') {
            c = i + 1 < b.len ? escaped(b.ptr[++i]) : 0;
            if (c == 0) return "after a backslash in \"...\" comes \\, \", n or t; or use '...'";
        }
        buffer_u8(&r->value, c);
    }
    if (i == b.len) return "the closing quote is missing";
    *rest = skip(b, i + 1);
    return NULL;
}

/* Numbers and booleans. */
static void read_bare(struct reading *r, struct bytes b, struct bytes *rest)
{
    size_t i = 0;

    while (i < b.len && !is_space(b.ptr[i]) && b.ptr[i] != '#' && b.ptr[i] != '\r') i++;
    buffer_append(&r->value, b.ptr, i);
    *rest = skip(b, i);
}

/* NULL, or how this kind has to be written for the line to be TOML. */
static const char *quotes_problem(enum setting_kind kind, bool is_quoted, struct bytes value)
{
    bool is_digits = value.len > 0;

    for (size_t i = 0; i < value.len; i++) {
        if ((value.ptr[i] < '0' || value.ptr[i] > '9') && value.ptr[i] != '_') is_digits = false;
    }
    switch (kind) {
    case SETTING_TEXT:
    case SETTING_ADDRESSES:
    case SETTING_RULES:
    case SETTING_POLICIES:
    case SETTING_LEVEL:
    case SETTING_FORMAT: return is_quoted ? NULL : "write this value in quotes: \"...\"";
    case SETTING_DURATION:
        return is_quoted ? NULL : "write a duration in quotes, with its unit: \"30s\"";
    case SETTING_SIZE: return is_quoted || is_digits ? NULL : "write a size in quotes: \"16MiB\"";
    case SETTING_FLAG: return is_quoted ? "write true or false without quotes" : NULL;
    case SETTING_COUNT: return is_quoted ? "write a number without quotes" : NULL;
    }
    return NULL;
}

static void set(struct reading *r, struct bytes key, bool is_quoted)
{
    char where[WHERE_SIZE];
    enum setting setting;

    if (!r->is_section_known) return; /* said once, at the section */
    if (setting_find(r->section, key, &setting) != OK) {
        if (begin_problem(r, where)) config_unknown(r->section, key, where, r->problems);
        return;
    }
    const char *wrong = quotes_problem(setting_kind(setting), is_quoted, buffer_view(&r->value));
    if (wrong != NULL) {
        problem(r, wrong);
        return;
    }
    if (r->lines_of[setting] != 0) {
        if (begin_problem(r, where))
            buffer_format(r->problems, "%s: \"%.*s\" was set in line %u already\n", where,
                          (int)key.len, (const char *)key.ptr, r->lines_of[setting]);
        return;
    }
    r->lines_of[setting] = r->line;
    (void)snprintf(where, sizeof where, "%s:%u", r->path, r->line);
    enum status status = config_set(r->config, setting, SOURCE_FILE, r->line,
                                    buffer_view(&r->value), where, r->problems);
    if (status == E_INVALID) r->problems_n++;
    if (status == E_NOMEM) r->is_out_of_memory = true;
}

static void read_pair(struct reading *r, struct bytes line)
{
    const uint8_t *equals = memchr(line.ptr, '=', line.len);
    struct bytes rest = BYTES_NONE;
    const char *wrong = NULL;

    if (equals == NULL) {
        problem(r, "a line is a [section], key = value, or a # comment");
        return;
    }
    struct bytes key = trim(bytes_make(line.ptr, (size_t)(equals - line.ptr)));
    struct bytes value = trim(skip(line, (size_t)(equals - line.ptr) + 1));
    if (!is_name(key)) {
        problem(r, "a key has letters, digits, '_' and '-'");
        return;
    }
    if (!r->has_section) {
        problem(r, "a key before the first [section]");
        return;
    }
    buffer_clear(&r->value);
    bool is_quoted = value.len > 0 && (value.ptr[0] == '"' || value.ptr[0] == '\'');
    if (is_quoted)
        wrong = read_quoted(r, value, &rest);
    else
        read_bare(r, value, &rest);
    if (wrong == NULL && !is_quoted && r->value.len == 0) wrong = "the value is missing";
    if (wrong == NULL && !is_rest_empty(rest)) wrong = "something follows the value";
    if (wrong != NULL)
        problem(r, wrong);
    else
        set(r, key, is_quoted);
}

static void read_line(struct reading *r, struct bytes line)
{
    line = trim(line);
    if (line.len == 0 || line.ptr[0] == '#') return;
    if (line.ptr[0] == '[')
        read_section(r, line);
    else
        read_pair(r, line);
}

enum status config_read_text(struct config *c, const char *path, struct bytes text,
                             struct buffer *problems)
{
    struct reading r = {.config = c, .problems = problems};

    r.path = arena_text(&c->arena, bytes_of_text(path));
    if (r.path == NULL) return E_NOMEM;
    c->path = r.path;
    buffer_init(&r.value, c->arena.mem);
    bool is_text = bytes_is_utf8(text) && (text.len == 0 || memchr(text.ptr, 0, text.len) == NULL);
    if (!is_text) {
        r.line = 1;
        problem(&r, "this is not text in UTF-8");
    }
    while (is_text && text.len > 0) {
        const uint8_t *end = memchr(text.ptr, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.ptr);
        r.line++;
        read_line(&r, bytes_make(text.ptr, len));
        text = skip(text, end == NULL ? len : len + 1);
    }
    bool is_out_of_memory = r.is_out_of_memory || r.value.failed;
    buffer_release(&r.value);
    if (is_out_of_memory) return E_NOMEM;
    return r.problems_n > 0 ? E_INVALID : OK;
}

enum status config_read_file(struct config *c, const char *path, struct buffer *problems)
{
    struct mem *mem = c->arena.mem;
    size_t len = 0;
    enum status status = E_INVALID;

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *text = mem_take(mem, FILE_SIZE_MAX + 1);
    if (text == NULL) status = E_NOMEM;
    ssize_t size = fd < 0 ? -1 : 1;
    while (size > 0 && text != NULL && len <= FILE_SIZE_MAX) {
        size = read(fd, text + len, FILE_SIZE_MAX + 1 - len);
        if (size > 0) len += (size_t)size;
    }
    if (size < 0)
        buffer_format(problems, "%s: cannot be read: %s\n", path, strerror(errno));
    else if (len > FILE_SIZE_MAX)
        buffer_format(problems, "%s: larger than 64 KiB: this is not a configuration\n", path);
    else if (text != NULL)
        status = config_read_text(c, path, bytes_make(text, len), problems);
    if (fd >= 0) (void)close(fd);
    mem_give(mem, text, FILE_SIZE_MAX + 1);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See terminal.h.
 */
#include "cli/terminal.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

static bool is_dumb(void)
{
    const char *term = getenv("TERM");

    return term != NULL && strcmp(term, "dumb") == 0;
}

static unsigned columns(void)
{
    struct winsize size = {0};
    const char *text = getenv("COLUMNS");
    unsigned long given = text == NULL ? 0 : strtoul(text, NULL, 10);

    if (given >= 20 && given <= 10000) return (unsigned)given;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
    return 80;
}

static unsigned lines(void)
{
    struct winsize size = {0};
    const char *text = getenv("LINES");
    unsigned long given = text == NULL ? 0 : strtoul(text, NULL, 10);

    if (given >= 5 && given <= 10000) return (unsigned)given;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row >= 5) return size.ws_row;
    return 24;
}

struct terminal terminal_look(const char *color)
{
    struct terminal t = {.is_terminal = isatty(STDOUT_FILENO) == 1};
    const char *force = getenv("CLICOLOR_FORCE");

    if (t.is_terminal) t.width = columns();
    if (t.is_terminal) t.height = lines();
    t.has_color = t.is_terminal && !is_dumb();
    if (force != NULL && force[0] != '\0' && strcmp(force, "0") != 0) t.has_color = true;
    if (is_set("NO_COLOR")) t.has_color = false;
    if (strcmp(color, "always") == 0) t.has_color = true;
    if (strcmp(color, "never") == 0) t.has_color = false;
    t.is_terminal = t.is_terminal && !is_dumb();
    return t;
}

bool terminal_can_ask(void) { return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1; }

bool terminal_can_draw(void) { return isatty(STDERR_FILENO) == 1 && !is_dumb(); }

const char *terminal_color(const struct terminal *t, enum color color)
{
    if (!t->has_color) return "";
    switch (color) {
    case COLOR_NONE: return "\033[0m";
    case COLOR_GREEN: return "\033[32m";
    case COLOR_RED: return "\033[31m";
    case COLOR_YELLOW: return "\033[33m";
    case COLOR_CYAN: return "\033[36m";
    case COLOR_GRAY: return "\033[90m";
    case COLOR_BOLD: return "\033[1m";
    }
    return "";
}

/* ---- texts from elsewhere ---- */

static uint32_t decode(const uint8_t *p, size_t size)
{
    if (size == 1) return p[0];
    uint32_t c = p[0] & (0xffu >> (size + 1));
    for (size_t n = 1; n < size; n++) c = c << 6 | (p[n] & 0x3fu);
    return c;
}

/* Good enough for columns: combining marks take none, East Asian and pictures take two. */
static unsigned character_width(uint32_t c)
{
    if ((c >= 0x300 && c < 0x370) || (c >= 0x200b && c < 0x2010) || (c >= 0xfe00 && c < 0xfe10))
        return 0;
    bool is_wide = (c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) ||
                   (c >= 0xac00 && c < 0xd7a4) || (c >= 0xf900 && c < 0xfb00) ||
                   (c >= 0xfe30 && c < 0xfe70) || (c >= 0xff00 && c < 0xff61) ||
                   (c >= 0x1f300 && c < 0x1f650) || (c >= 0x1f900 && c < 0x1fa00) ||
                   (c >= 0x20000 && c < 0x3fffe);
    return is_wide ? 2 : 1;
}

/* Directions that reorder what follows are as dangerous as escapes. */
static bool is_harmful(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* One character as it is shown; moves over it. shown has room for 12 bytes. */
static unsigned show(struct bytes *rest, char shown[static 12], size_t *len)
{
    size_t size = bytes_character_size(*rest);
    uint32_t c = size == 0 ? 0xfffd : decode(rest->ptr, size);
    unsigned width = character_width(c);

    if (size == 0) {
        *len = (size_t)snprintf(shown, 12, "\xef\xbf\xbd");
        size = 1;
    } else if (c == '\n' || c == '\t' || c == '\r') {
        *len = (size_t)snprintf(shown, 12, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        width = 2;
    } else if (is_harmful(c)) {
        *len = (size_t)snprintf(shown, 12, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
        width = (unsigned)*len;
    } else {
        memcpy(shown, rest->ptr, size);
        *len = size;
    }
    rest->ptr += size;
    rest->len -= size;
    return width;
}

unsigned text_width(struct bytes text)
{
    char shown[12];
    size_t len = 0;
    unsigned width = 0;

    while (text.len > 0) width += show(&text, shown, &len);
    return width;
}

void text_clean(struct buffer *out, struct bytes text)
{
    char shown[12];
    size_t len = 0;

    while (text.len > 0) {
        (void)show(&text, shown, &len);
        buffer_append(out, shown, len);
    }
}

unsigned text_clean_cut(struct buffer *out, struct bytes text, unsigned width)
{
    char shown[12];
    size_t len = 0;
    unsigned used = 0;

    if (text_width(text) <= width) width++; /* all of it fits: no room for the dots is needed */
    while (text.len > 0) {
        unsigned more = show(&text, shown, &len);
        if (used + more > width - 1) {
            buffer_append(out, "\xe2\x80\xa6", 3);
            return used + 1;
        }
        buffer_append(out, shown, len);
        used += more;
    }
    return used;
}

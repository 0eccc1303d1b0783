/* SPDX-License-Identifier: Apache-2.0
 *
 * A line is put together on the stack and leaves by one write(), so that lines of several threads
 * and processes do not mix. Messages contain text from outside: whatever could end a line early,
 * steer a terminal or break JSON is escaped here, once.
 */
#include "base/log.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/moment.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define MESSAGE_SIZE 2001
#define ESCAPE_SIZE 6 /* a byte becomes at most \u001b */
#define FRAME_SIZE 128

struct line {
    size_t len;
    char text[FRAME_SIZE + MESSAGE_SIZE * ESCAPE_SIZE];
};

static atomic_int least_level = LOG_INFO;
static enum log_format chosen_format = LOG_AUTO;

void log_setup(enum log_level least, enum log_format format)
{
    log_set_level(least);
    chosen_format = format;
}

void log_set_level(enum log_level least) { atomic_store(&least_level, (int)least); }

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_DEBUG: return "debug";
    case LOG_INFO: return "info";
    case LOG_WARN: return "warn";
    case LOG_ERROR: return "error";
    }
    unreachable("log level");
}

static void add(struct line *line, const char *text, size_t len)
{
    assert(len <= sizeof line->text - line->len);
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void add_text(struct line *line, const char *text) { add(line, text, strlen(text)); }

static void add_control(struct line *line, unsigned code)
{
    char text[ESCAPE_SIZE + 1];

    (void)snprintf(text, sizeof text, "\\u%04x", code & 0xff);
    add_text(line, text);
}

/* Not UTF-8. JSON has no way to say which byte it was. */
static void add_broken_byte(struct line *line, uint8_t byte, bool is_json)
{
    char text[ESCAPE_SIZE + 1] = "\\ufffd";

    if (!is_json) (void)snprintf(text, sizeof text, "\\x%02x", byte);
    add_text(line, text);
}

/* The control character at the start of b, of C0, DEL or C1 (which terminals obey, too); else 0.
 * NUL does not occur: the message ends there. */
static unsigned control_character(struct bytes b)
{
    if (b.ptr[0] < 0x20 || b.ptr[0] == 0x7f) return b.ptr[0];
    if (b.len >= 2 && b.ptr[0] == 0xc2 && b.ptr[1] < 0xa0) return b.ptr[1];
    return 0;
}

static void add_escaped(struct line *line, struct bytes message, bool is_json)
{
    for (size_t at = 0, size; at < message.len; at += size) {
        struct bytes rest = bytes_make(message.ptr + at, message.len - at);
        size = bytes_character_size(rest);
        if (size == 0) {
            size = 1;
            add_broken_byte(line, rest.ptr[0], is_json);
        } else if (rest.ptr[0] == '\n') {
            add_text(line, "\\n");
        } else if (control_character(rest) != 0) {
            add_control(line, control_character(rest));
        } else {
            if (is_json && (rest.ptr[0] == '"' || rest.ptr[0] == '\\')) add_text(line, "\\");
            add(line, (const char *)rest.ptr, size);
        }
    }
}

static bool is_json_wanted(void)
{
    switch (chosen_format) {
    case LOG_AUTO: return isatty(STDERR_FILENO) == 0;
    case LOG_TEXT: return false;
    case LOG_JSON: return true;
    }
    unreachable("log format");
}

static void line_make(struct line *line, enum log_level level, struct bytes message)
{
    bool is_json = is_json_wanted();
    char time[MOMENT_SIZE];

    line->len = 0;
    if (is_json) add_text(line, "{\"time\":\"");
    add(line, time, moment_format(moment_of_ns(clock_wall_ns()), 3, time));
    add_text(line, is_json ? "\",\"level\":\"" : " ");
    add_text(line, level_name(level));
    add_text(line, is_json ? "\",\"message\":\"" : " ");
    add_escaped(line, message, is_json);
    add_text(line, is_json ? "\"}\n" : "\n");
}

void log_line(enum log_level level, const char *format, ...)
{
    char message[MESSAGE_SIZE];
    struct line line;
    int errno_before = errno;
    va_list arguments;

    if ((int)level < atomic_load(&least_level)) return;

    va_start(arguments, format);
    int len = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (len >= (int)sizeof message) memcpy(message + sizeof message - 4, "...", 4);

    line_make(&line, level, bytes_of_text(len < 0 ? format : message));
    /* A log that cannot be written is no reason to stop, and there is nowhere to report it. */
    ssize_t written = write(STDERR_FILENO, line.text, line.len);
    (void)written;
    errno = errno_before;
}

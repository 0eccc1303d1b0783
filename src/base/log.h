/* SPDX-License-Identifier: Apache-2.0
 *
 * One line per event on stderr: text on a terminal, JSON otherwise. Control characters are escaped.
 * Called where an error is handled, once, never where it is only passed on.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_AUTO, LOG_TEXT, LOG_JSON };

/* Before other threads start. Without it: from LOG_INFO on, LOG_AUTO. */
void log_setup(enum log_level least, enum log_format format);
/* At any time, from any thread. */
void log_set_level(enum log_level least);
/* Up to 2,000 bytes of message, the rest is cut off and marked "...". Leaves errno as it was. */
__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)

#endif

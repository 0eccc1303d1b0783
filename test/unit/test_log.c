/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pipe2, O_DIRECT, posix_openpt */

#include "base/log.h"

#include "test/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define TIME_LEN 24 /* 2026-01-02T03:04:05.678Z */

static char said[32768];

/* stderr while a test listens: a pipe that keeps each write() apart (O_DIRECT). */
static int listener = -1;
static int stderr_before = -1;

static void listen_to_stderr(void)
{
    int ends[2];

    EXPECT_EQ(0, pipe2(ends, O_CLOEXEC | O_DIRECT | O_NONBLOCK));
    stderr_before = dup(STDERR_FILENO);
    EXPECT(dup2(ends[1], STDERR_FILENO) >= 0);
    (void)close(ends[1]);
    listener = ends[0];
}

/* What one write() said; "" when there was none. */
static const char *next_write(void)
{
    ssize_t len = read(listener, said, sizeof said - 1);

    said[len > 0 ? len : 0] = '\0';
    return said;
}

static void stop_listening(void)
{
    (void)dup2(stderr_before, STDERR_FILENO);
    (void)close(stderr_before);
    (void)close(listener);
}

/* The line without its time, which must be where and what RFC 3339 says. */
static const char *without_time(const char *line, size_t time_at)
{
    static char text[sizeof said];
    const char *pattern = "dddd-dd-ddTdd:dd:dd.dddZ";

    EXPECT(strlen(line) > time_at + TIME_LEN);
    for (size_t i = 0; i < TIME_LEN; i++) {
        char c = line[time_at + i];
        EXPECT(pattern[i] == 'd' ? c >= '0' && c <= '9' : c == pattern[i]);
    }
    memcpy(text, line, time_at);
    memcpy(text + time_at, line + time_at + TIME_LEN, strlen(line + time_at + TIME_LEN) + 1);
    return text;
}

static const char *text_of(const char *message)
{
    static char text[sizeof said];

    listen_to_stderr();
    log_setup(LOG_DEBUG, LOG_TEXT);
    log_info("%s", message);
    memcpy(text, without_time(next_write(), 0), sizeof text);
    stop_listening();
    return text;
}

static const char *json_of(const char *message)
{
    static char text[sizeof said];

    listen_to_stderr();
    log_setup(LOG_DEBUG, LOG_JSON);
    log_info("%s", message);
    memcpy(text, without_time(next_write(), strlen("{\"time\":\"")), sizeof text);
    stop_listening();
    return text;
}

/* The form people read and the form machines read. */
TEST(a_line_has_time_level_and_message)
{
    EXPECT_TEXT(" info started\n", text_of("started"));
    EXPECT_TEXT("{\"time\":\"\",\"level\":\"info\",\"message\":\"started\"}\n", json_of("started"));
}

/* A message must not forge a second line, steer the terminal or end the JSON string. */
TEST(control_characters_are_escaped)
{
    EXPECT_TEXT(" info a\\nb\\u001b[2J\\u0007\\u007f\n", text_of("a\nb\x1b[2J\a\x7f"));
    EXPECT_TEXT(" info \\u009b31m\n", text_of("\xc2\x9b"
                                              "31m"));
    EXPECT_TEXT(" info \"quoted\" \\ path\n", text_of("\"quoted\" \\ path"));
    EXPECT_TEXT("{\"time\":\"\",\"level\":\"info\",\"message\":\"\\\"\\\\\\n\\u000d\\u0009\"}\n",
                json_of("\"\\\n\r\t"));
}

/* JSON must be UTF-8 whatever a client sent; other scripts stay readable. */
TEST(text_is_utf8)
{
    EXPECT_TEXT(" info \xc3\xa4\xe2\x82\xac\n", text_of("\xc3\xa4\xe2\x82\xac"));
    EXPECT_TEXT(" info \\xff\\xc3\n", text_of("\xff\xc3"));
    EXPECT_TEXT("{\"time\":\"\",\"level\":\"info\",\"message\":\"\xc3\xa4\\ufffd\"}\n",
                json_of("\xc3\xa4\xe2"));
}

/* The longest message of the most expensive bytes fits; more is cut off and says so. */
TEST(a_long_message_is_cut_and_marked)
{
    static char long_message[5001];

    memset(long_message, 'x', 5000);
    const char *line = text_of(long_message);
    EXPECT_EQ(strlen(" info ") + 2000 + 1, strlen(line));
    EXPECT_TEXT("xx...\n", line + strlen(line) - 6);

    memset(long_message, 1, 5000);
    listen_to_stderr();
    log_setup(LOG_DEBUG, LOG_TEXT);
    log_info("%s", long_message); /* longer than one packet of the pipe: comes in parts */
    size_t total = 0;
    for (size_t len = strlen(next_write()); len > 0; len = strlen(next_write())) total += len;
    stop_listening();
    EXPECT_EQ(TIME_LEN + strlen(" info ") + 1997 * 6 + strlen("...\n"), total);
}

/* Lines of several threads and processes must not mix: one line, one write. */
TEST(a_line_is_one_write)
{
    listen_to_stderr();
    log_setup(LOG_INFO, LOG_TEXT);
    log_warn("one");
    log_error("two");
    EXPECT_TEXT(" warn one\n", without_time(next_write(), 0));
    EXPECT_TEXT(" error two\n", without_time(next_write(), 0));
    EXPECT_TEXT("", next_write());
    stop_listening();
}

/* What is below the chosen level costs nothing and says nothing. */
TEST(the_level_decides_what_is_said)
{
    listen_to_stderr();
    log_setup(LOG_WARN, LOG_TEXT);
    log_debug("debug");
    log_info("info");
    EXPECT_TEXT("", next_write());
    log_warn("warn");
    EXPECT_TEXT(" warn warn\n", without_time(next_write(), 0));
    log_setup(LOG_DEBUG, LOG_TEXT);
    log_debug("%d", 7);
    EXPECT_TEXT(" debug 7\n", without_time(next_write(), 0));
    stop_listening();
}

/* A pipe or file is read by machines. */
TEST(automatic_is_json_when_not_a_terminal)
{
    listen_to_stderr();
    log_setup(LOG_INFO, LOG_AUTO);
    log_info("hello");
    EXPECT(bytes_start_with(bytes_of_text(next_write()), BYTES_LITERAL("{\"time\":")));
    stop_listening();
}

/* A terminal is read by people. */
TEST(automatic_is_text_on_a_terminal)
{
    int controller = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (controller < 0) test_skip("no pseudo terminal on this machine");
    EXPECT_EQ(0, grantpt(controller));
    EXPECT_EQ(0, unlockpt(controller));
    int terminal = open(ptsname(controller), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0) test_skip("no pseudo terminal on this machine");

    int before = dup(STDERR_FILENO);
    (void)dup2(terminal, STDERR_FILENO);
    log_setup(LOG_INFO, LOG_AUTO);
    log_info("hello");
    (void)dup2(before, STDERR_FILENO);
    /* a terminal may give a line in parts */
    size_t len = 0;
    while (len < sizeof said - 1 && (len == 0 || said[len - 1] != '\n')) {
        ssize_t n = read(controller, said + len, sizeof said - 1 - len);
        if (n <= 0) break;
        len += (size_t)n;
    }
    said[len] = '\0';
    (void)close(before);
    (void)close(terminal);
    (void)close(controller);
    EXPECT_TEXT(" info hello\r\n", without_time(said, 0));
}

/* It is called between a failed call and the look at its errno. */
TEST(errno_is_left_alone)
{
    int before = dup(STDERR_FILENO);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)dup2(full, STDERR_FILENO);
    log_setup(LOG_INFO, LOG_TEXT);
    errno = EEXIST;
    log_info("to a full device");
    int after = errno;
    (void)dup2(before, STDERR_FILENO);
    (void)close(before);
    (void)close(full);
    EXPECT_EQ(EEXIST, after);
}

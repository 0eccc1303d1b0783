/* SPDX-License-Identifier: Apache-2.0
 *
 * A `norn server` process of a test's own. It listens on a free port of 127.0.0.1 at its first
 * start and on the same one at every later start, so that peers find it again. It dies with the
 * test.
 */
#ifndef TEST_LIB_REAL_SERVER_H
#define TEST_LIB_REAL_SERVER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define REAL_SERVER_FLAGS_MAX 24

/* All zero before the first start. */
struct real_server {
    pid_t pid; /* 0 = not running */
    int out_fd;
    uint16_t port;
    char address[32];
    char log_path[PATH_MAX]; /* what all lives say to stderr, one after the other */
};

/* Only starts it. flags: ends with NULL; may be NULL. The log is <data>.log. */
void real_server_spawn(struct real_server *s, const char *data, const char *const *flags);
/* Until it says that it is ready. False when it ended instead; fails after 60 s. */
bool real_server_await(struct real_server *s);
/* Both; fails the test when it does not come up. */
void real_server_start(struct real_server *s, const char *data, const char *const *flags);

/* kill -9. Nothing happens when it is not running. */
void real_server_kill(struct real_server *s);
/* SIGTERM, and waits: it must end with code 0 within timeout_ms, else the test fails. */
void real_server_stop(struct real_server *s, int64_t timeout_ms);
/* The test fails when it has ended by itself. */
void real_server_expect_alive(struct real_server *s);

/* Resident memory now. */
uint64_t real_server_rss_bytes(const struct real_server *s);
/* A figure of GET /metrics by its full name, labels and all; -1 when it is not there. */
double real_server_metric(const struct real_server *s, const char *name);
/* The log contains this text. */
bool real_server_has_logged(const struct real_server *s, const char *text);
/* The end of the log, as TAP comments: for failures. */
void real_server_show_log(const struct real_server *s);
/* The program is built with AddressSanitizer: its memory is no measure. */
bool real_server_is_sanitized(void);

#endif

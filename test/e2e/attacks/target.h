/* SPDX-License-Identifier: Apache-2.0
 *
 * The server that is attacked: a real process with a data directory of its own, and what can be
 * seen of it from outside. There is one at a time; it dies with the test program.
 */
#ifndef TEST_E2E_ATTACKS_TARGET_H
#define TEST_E2E_ATTACKS_TARGET_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

/* The sanitizers cost time and keep freed memory for a while. */
#ifdef __SANITIZE_ADDRESS__
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

/* Starts it and waits until it is ready; one that a failed test has left is killed first. extra:
 * more words of the command line, NULL at the end. */
void target_start(const char *const *extra);
/* SIGTERM; expects exit code 0, which the sanitizers change when something leaked. */
void target_stop(void);

uint16_t target_port(void);
/* Of the process: CPU time since its start, memory resident now. */
int64_t target_cpu_ns(void);
int64_t target_rss(void);
/* norn_net_<name>_total of /metrics, asked over a connection of its own. */
uint64_t target_counter(const char *name);
/* The value of any sample without labels. */
uint64_t target_sample(const char *name);
/* How many lines of its log have this text in them. */
unsigned target_log_lines(const char *text);

/* A plain connection to it. size: of the socket's receive buffer, 0 = the system's. */
int target_dial(int receive_size);

/* Runs `norn server` with these words (NULL at the end), for one that is expected to refuse: its
 * exit code, and all it wrote to stderr in err. -1: it went on for longer than 10 s and was
 * killed. */
int target_run(const char *const *words, char *err, size_t err_size);

#endif

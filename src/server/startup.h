/* SPDX-License-Identifier: Apache-2.0
 *
 * The first moments of a server: the process itself, the data directory, the ready line; and the
 * exit codes of what can go wrong (sysexits.h).
 */
#ifndef SERVER_STARTUP_H
#define SERVER_STARTUP_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct engine_options;

/* Before the first thread: signals that must not end us before the loop has them, and as many open
 * files as the system allows. Answers how many connections there may be, so that files of our own
 * (journal, archive, streams, replies) can be opened whatever clients do; warns when it is less. */
uint32_t startup_prepare_process(uint32_t connections_n_max);

/* Opens the directory and recovers. Answers an exit code; what is wrong was logged, with what to
 * do. */
int startup_open_engine(const struct engine_options *options, struct engine **out);
int startup_exit_code_engine(enum status status);
int startup_exit_code_listen(enum status status);

/* A socket that only this machine can reach. */
bool startup_is_loopback(int fd);

/* The line on stdout, on a terminal with what to do next; and READY=1. */
void startup_tell_ready(struct engine *engine, const char *directory, const char *address,
                        int64_t begun_ns);

#endif

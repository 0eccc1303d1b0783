/* SPDX-License-Identifier: Apache-2.0
 *
 * A real `norn server` in a process of its own, which can be killed and started again on the same
 * directory and port. The program is $NORN.
 */
#ifndef TEST_LIB_SERVER_PROCESS_H
#define TEST_LIB_SERVER_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct server_process {
    pid_t pid; /* 0 = does not run */
    uint16_t port;
    char directory[300]; /* its data; empty = in the test's directory */
    char address[64];
    const char *more[4]; /* flags, NULL at the end */
};

/* Waits until it is ready. Skips the test when $NORN is not set. */
void server_process_start(struct server_process *s);
/* SIGKILL, and waits for its end. */
void server_process_kill(struct server_process *s);
/* SIGTERM, and waits; the exit code. */
int server_process_stop(struct server_process *s);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A victim process and the two pipes to it. What the victim had written before it died can still be
 * heard afterwards. It dies with its driver.
 */
#ifndef TEST_TORTURE_CAGE_H
#define TEST_TORTURE_CAGE_H

#include "test/torture/victim_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CAGE_WORDS_MAX 16

/* How to start it. Borrowed during cage_open(). */
struct cage_plan {
    const char *directory; /* of the engine; side effects and the victim's log lie beside it */
    uint32_t segment_kib;
    const char
        *before[CAGE_WORDS_MAX]; /* a program to start it under, such as a tracer; ends with NULL */
    const char *environment[CAGE_WORDS_MAX]; /* NAME=VALUE; ends with NULL */
};

struct cage {
    pid_t pid;        /* of what was started: the victim, or what it runs under; 0 = none */
    pid_t victim_pid; /* as it says itself when it is ready; 0 before */
    int to_fd;
    int from_fd;
    char heard[2 * VICTIM_LINE_MAX];
    size_t heard_n;
    bool has_ended; /* nothing more will be heard */
};

void cage_open(struct cage *c, const struct cage_plan *plan);
/* Adds the end of the line. A victim that is dead does not mind. */
__attribute__((format(printf, 2, 3))) void cage_tell(struct cage *c, const char *format, ...);
/* The next line into line (VICTIM_LINE_MAX), without its end; false when none came in time or the
 * victim's end of the pipe is closed (has_ended). A half line at the end was never said. "ready" is
 * noted and not given. */
bool cage_hear(struct cage *c, int timeout_ms, char *line);
/* To the victim itself, or before it is ready to what was started. */
void cage_signal(struct cage *c, int number);
/* Asks the victim to end by itself, in order. */
void cage_let_go(struct cage *c);
/* Waits for its end and answers how it ended, as waitpid() says. The pipes are closed: hear before.
 */
int cage_close(struct cage *c);

/* When TORTURE_KEEP names a path: the data of the victim started last goes there, to be looked at
 * after a failure. */
void cage_keep(void);

/* Beside directory: where activities leave their lines, where the victim's log goes. out: PATH_MAX.
 */
void cage_effects_path(const char *directory, char *out);
void cage_log_path(const char *directory, char *out);

#endif

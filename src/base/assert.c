/* SPDX-License-Identifier: Apache-2.0
 *
 * The last words of a process that can no longer trust its memory: therefore no allocation, no
 * stdio stream and no lock, only a buffer on the stack and write().
 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 512

static assert_context_fn *context;

void assert_set_context(assert_context_fn *fn) { context = fn; }

static void say(const char *text)
{
    /* Nothing can be done about a stderr that does not take it. */
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

_Noreturn void assert_failed(const char *what, const char *file, int line)
{
    char text[LINE_SIZE] = "";

    (void)snprintf(text, sizeof text, "assertion failed: %s (%s:%d)\n", what, file, line);
    say(text);

    /* Taken away first: a context that fails an assertion itself must not be asked again. */
    assert_context_fn *fn = context;
    context = NULL;
    if (fn != NULL) {
        text[0] = '\0';
        fn(text, sizeof text);
        say(text);
        say("\n");
    }
    abort();
}

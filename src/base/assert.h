/* SPDX-License-Identifier: Apache-2.0
 *
 * Assertions that stay on in every build. An assertion is about us: a broken one means memory can
 * no longer be trusted, and the process stops; restart and replay is the recovery path anyway. What
 * came from outside (client, worker, disk) is never asserted: it is a status.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

/* Called once, after the message, to write a line of context without newline ("partition 3,
 * input 17") into line; NULL for none. Set before other threads start. */
typedef void assert_context_fn(char *line, unsigned long size);
void assert_set_context(assert_context_fn *fn);

_Noreturn void assert_failed(const char *what, const char *file, int line);

#undef assert
#define assert(condition) ((condition) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__))

/* A branch that no state leads to. */
#define unreachable(text) assert_failed("unreachable: " text, __FILE__, __LINE__)

#endif

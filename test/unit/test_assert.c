/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"

#include "test/lib/test.h"

#include <stdio.h>

static void assert_nonsense(void)
{
    int two = 2;

    assert(two == 3);
}

/* Who reads a crash report needs the condition and the place. */
TEST(a_failed_assertion_says_what_and_where)
{
    EXPECT_ABORT("assertion failed: two == 3 (", assert_nonsense);
    EXPECT_ABORT("test_assert.c:", assert_nonsense);
}

static void tell_partition(char *line, unsigned long size)
{
    (void)snprintf(line, size, "partition 3, input 17");
}

static void assert_with_context(void)
{
    assert_set_context(tell_partition);
    assert_nonsense();
}

/* The same condition fails in many places of a run: the context says in which. */
TEST(the_context_is_printed_after_the_message)
{
    EXPECT_ABORT(")\npartition 3, input 17\n", assert_with_context);
}

static void fail_again(char *line, unsigned long size)
{
    (void)line;
    assert(size == 0);
}

static void assert_with_failing_context(void)
{
    assert_set_context(fail_again);
    assert_nonsense();
}

/* The context looks at broken state and may fail itself; that must end and not repeat for ever. */
TEST(a_context_that_fails_does_not_run_again)
{
    EXPECT_ABORT("assertion failed: size == 0", assert_with_failing_context);
}

static void reach(void) { unreachable("no such kind"); }

/* A state that cannot be must not be passed over in silence. */
TEST(unreachable_code_stops_the_process) { EXPECT_ABORT("unreachable: no such kind", reach); }

/* A condition with an effect happens once. */
TEST(a_condition_is_evaluated_once)
{
    int n = 0;

    assert(++n == 1);
    EXPECT_EQ(1, n);
}

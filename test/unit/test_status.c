/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include "test/lib/test.h"

/* Scripts and logs know a status by its name: it must be the one in the source. */
TEST(every_status_has_its_name_and_a_sentence)
{
#define X(name, text)                                                                              \
    EXPECT_TEXT(#name, status_name(name));                                                         \
    EXPECT_TEXT(text, status_text(name));
    STATUSES(X)
#undef X
}

/* Success is zero, so that `if (status)` and a zeroed struct mean what they seem to. */
TEST(ok_is_zero) { EXPECT_EQ(0, OK); }

static void name_of_no_status(void) { (void)status_name((enum status)(E_UNSUPPORTED + 1)); }

/* A number that is no status is a broken caller, never text from beyond the table. */
TEST(a_number_that_is_no_status_stops_the_process)
{
    EXPECT_ABORT("assertion failed", name_of_no_status);
}

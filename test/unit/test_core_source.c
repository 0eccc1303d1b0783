/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions of sources: each message is taken once, in its order, in one step with what it starts.
 */
#include "core/limits.h"
#include "test/lib/partition.h"
#include "test/lib/test.h"

#include <stdio.h>

static enum status start_at(struct kit *k, const char *key, uint64_t position, uint64_t after)
{
    struct input_start start = {
        .key = bytes_of_text(key),
        .name = bytes_of_text("o"),
        .at = {.source = bytes_of_text("stream/0"), .position = position, .after = after},
    };
    return kit_start_with(k, start);
}

static uint64_t position_of(struct kit *k, const char *source)
{
    return core_source_position(k->partitions[0].live, bytes_of_text(source));
}

/* The position is there with the instance, also after a crash: the kit compares. I5 */
TEST(a_position_comes_with_what_it_starts)
{
    struct kit *k = kit_new(1, 3);
    EXPECT_STATUS(OK, start_at(k, "hub/1", 5, 0));
    EXPECT(position_of(k, "stream/0") == 5);
    EXPECT_STATUS(OK, start_at(k, "hub/2", 9, 5));
    kit_crash(k, 0);
    EXPECT(position_of(k, "stream/0") == 9);
    EXPECT(position_of(k, "other") == 0);
    EXPECT_TEXT("PENDING", kit_status(k, "hub/2"));
    kit_free(k);
}

/* One that comes again is answered as if it had been taken now, and nothing happens. */
TEST(a_repeated_message_changes_nothing)
{
    struct kit *k = kit_new(1, 3);
    EXPECT_STATUS(OK, start_at(k, "hub/1", 5, 0));
    EXPECT_STATUS(OK, start_at(k, "hub/1", 5, 0));
    EXPECT_TEXT("duplicate", k->text);
    EXPECT(k->records_n == 0);
    EXPECT_STATUS(OK, start_at(k, "hub/other", 4, 3));
    EXPECT_TEXT("none", kit_status(k, "hub/other"));
    kit_free(k);
}

/* A start that was refused stops those behind it: none is passed over. */
TEST(a_missing_message_stops_the_next)
{
    struct kit *k = kit_new(1, 3);
    EXPECT_STATUS(OK, start_at(k, "hub/1", 1, 0));
    EXPECT_STATUS(E_EXISTS, start_at(k, "hub/1", 2, 1));
    EXPECT(position_of(k, "stream/0") == 1);
    EXPECT_STATUS(E_STALE, start_at(k, "hub/3", 3, 2));
    EXPECT_TEXT("none", kit_status(k, "hub/3"));
    /* it was put aside: its position is taken without it */
    struct input in = {
        .kind = INPUT_SOURCE_POSITION,
        .position = {.source = bytes_of_text("stream/0"), .position = 2, .after = 1},
    };
    EXPECT_STATUS(OK, kit_step_for(k, bytes_of_text("hub/1"), &in));
    EXPECT_STATUS(OK, k->status);
    EXPECT_STATUS(OK, start_at(k, "hub/3", 3, 2));
    kit_free(k);
}

/* The same for one that waits: queued and counted in one step. */
TEST(a_waiting_start_has_its_position)
{
    struct kit *k = kit_new(1, 3);
    kit_limits(k,
               (struct backlog_options){
                   .active_max = 1, .active_max_by_name = 1, .waiting_max = 1, .size_max = 9999});
    EXPECT_STATUS(OK, start_at(k, "hub/1", 1, 0));
    EXPECT_STATUS(OK, start_at(k, "hub/2", 2, 1));
    EXPECT(k->records_n == 2);
    EXPECT(position_of(k, "stream/0") == 2);
    EXPECT_STATUS(E_LIMIT, start_at(k, "hub/3", 3, 2));
    EXPECT(position_of(k, "stream/0") == 2);
    kit_crash(k, 0);
    EXPECT_STATUS(OK, start_at(k, "hub/2", 2, 1));
    EXPECT_TEXT("duplicate", k->text);
    EXPECT(backlog_n(k->partitions[0].live_backlog) == 1);
    kit_free(k);
}

TEST(sources_have_limits)
{
    struct kit *k = kit_new(1, 3);
    char name[80];
    struct input in = {.kind = INPUT_SOURCE_POSITION};
    k->is_thorough = false;
    for (uint32_t n = 0; n <= LIMIT_SOURCES_N; n++) {
        (void)snprintf(name, sizeof name, "s%u", n);
        in.position = (struct input_position){bytes_of_text(name), 1, 0};
        (void)kit_step_for(k, bytes_of_text("hub/1"), &in);
        EXPECT_STATUS(n < LIMIT_SOURCES_N ? OK : E_LIMIT, k->status);
    }
    memset(name, 'x', sizeof name);
    in.position = (struct input_position){bytes_make(name, 65), 1, 0};
    (void)kit_step_for(k, bytes_of_text("hub/1"), &in);
    EXPECT_STATUS(E_INVALID, k->status);
    in.position.source = BYTES_NONE;
    (void)kit_step_for(k, bytes_of_text("hub/1"), &in);
    EXPECT_STATUS(E_INVALID, k->status);
    kit_free(k);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/id_set.h"

#include "base/mem.h"
#include "test/lib/test.h"

/* An id is new once, whatever order the ids come in. */
TEST(an_id_is_new_once)
{
    struct arena arena;
    struct id_set set;

    arena_init(&arena, mem_process(), 1024);
    id_set_init(&set, &arena, 1000);
    for (int32_t id = 999; id >= 0; id--) EXPECT(id_set_add(&set, id));
    for (int32_t id = 0; id < 1000; id++) EXPECT(!id_set_add(&set, id));
    EXPECT(id_set_add(&set, INT32_MAX));
    arena_release(&arena);
}

/* The room is what reserve.c counts for: at most 32 bytes for each id. */
TEST(the_room_is_bounded)
{
    for (size_t n = 0; n < 5000; n += 7) {
        struct arena arena;
        struct id_set set;
        arena_init(&arena, mem_process(), 64);
        id_set_init(&set, &arena, n);
        test_note("%zu ids", n);
        EXPECT(set.slots_n * sizeof *set.slots <= 256 + 32 * n);
        EXPECT(set.slots_n > n);
        arena_release(&arena);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what was on disk. The first byte says what they are: records of a journal, the
 * snapshot of an instance, or the state of a partition. They are refused, or give a core whose
 * invariants hold, whose instances survive snapshot and load, and which can go on working.
 */
#include "base/arena.h"
#include "base/assert.h"
#include "base/mem.h"
#include "core/backlog.h"
#include "core/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PARTITIONS_N 2

static struct core *fresh_core(struct mem *mem, struct backlog *backlog)
{
    struct core_options options = {.partitions_n = PARTITIONS_N,
                                   .epoch = 1,
                                   .mem = mem,
                                   .resend_ms = 1000,
                                   .backlog = backlog};
    struct core *c = NULL;
    enum status status = core_new(&options, &c);
    assert(status == OK);
    return c;
}

static enum status reload_one(void *user, const struct instance_view *view)
{
    struct core *c = ((struct core **)user)[0];
    struct core *other = ((struct core **)user)[1];
    struct mem *mem = mem_process();
    struct buffer first;
    struct buffer second;
    if (view->is_purged) return OK;
    buffer_init(&first, mem);
    buffer_init(&second, mem);
    bool is_there = core_snapshot(c, view->key, &first);
    assert(is_there);
    enum status status = core_load(other, buffer_view(&first), NULL);
    assert(status == OK);
    is_there = core_snapshot(other, view->key, &second);
    assert(is_there);
    assert(bytes_equal(buffer_view(&first), buffer_view(&second)));
    buffer_release(&second);
    buffer_release(&first);
    return OK;
}

static void apply_records(struct core *c, struct bytes bytes)
{
    struct reader r = reader_make(bytes);
    struct record record;
    const uint8_t *at = r.at;
    while (reader_left(&r) > 0 && record_decode(&r, &record) == OK) {
        uint64_t before = core_digest(c);
        struct place place = {1, (uint32_t)(at - bytes.ptr), (uint32_t)(r.at - at)};
        enum status status = core_apply(c, place, &record);
        at = r.at;
        assert(status == OK || status == E_CORRUPT);
        if (status == E_CORRUPT) assert(core_digest(c) == before);
        core_check(c);
    }
}

/* Recovery is over: time passes, messages come and go. */
static void go_on(struct core *c, struct mem *mem)
{
    struct buffer records;
    struct arena arena;
    struct output out;
    int64_t now_ns = core_now_ns(c);
    if (now_ns > INT64_MAX / 2) return; /* no clock shows this */
    buffer_init(&records, mem);
    arena_init(&arena, mem, 512);
    output_init(&out, &records, &arena);
    core_resume(c, now_ns, &out);
    for (int n = 0; n < 3; n++) {
        struct input in = {.kind = INPUT_CLOCK_TICK, .lsn = 2, .now_ns = now_ns};
        enum status status = core_step(c, &in, &out);
        assert(status == OK);
        core_check(c);
        now_ns = now_ns < 0 ? 0 : now_ns + INT64_C(3600000000000);
    }
    arena_release(&arena);
    buffer_release(&records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mem mem;
    if (size == 0) return 0;
    mem_init(&mem, SIZE_MAX);
    struct backlog_options options = {
        .mem = &mem, .partitions_n = PARTITIONS_N, .waiting_max = 1000, .size_max = 1 << 20};
    struct backlog *backlog = NULL;
    enum status made = backlog_new(&options, &backlog);
    assert(made == OK);
    struct core *c = fresh_core(&mem, backlog);
    struct core *other = fresh_core(&mem, NULL);
    struct bytes bytes = bytes_make(data + 1, size - 1);
    bool is_usable = true;
    if (data[0] % 3 == 0)
        apply_records(c, bytes);
    else if (data[0] % 3 == 1)
        (void)core_load(c, bytes, NULL);
    else
        is_usable = core_partition_load(c, bytes) == OK;
    if (is_usable) {
        backlog_sort(backlog);
        struct core *both[] = {c, other};
        core_check(c);
        enum status status = core_each(c, reload_one, both);
        assert(status == OK);
        core_check(other);
        go_on(c, &mem);
    }
    core_free(other);
    core_free(c);
    backlog_free(backlog);
    mem_release(&mem);
    return 0;
}

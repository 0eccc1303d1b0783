/* SPDX-License-Identifier: Apache-2.0
 *
 * See running.h.
 */
#include "lib/running.h"

#include "base/mem.h"
#include "core/limits.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_NAME "running"
#define SLOTS_N 256u
#define KEY_SIZE (LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE)

enum slot_state { SLOT_FREE, SLOT_TAKEN, SLOT_RUNS };

/* The same at every start of one program; another layout of another version is told by the size of
 * the file, which is then begun anew. */
struct running_slot {
    _Atomic uint32_t state;
    uint32_t kind;
    int32_t task_id;
    uint32_t key_len;
    uint64_t base;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    uint8_t key[KEY_SIZE];
};
#define FILE_SIZE (SLOTS_N * sizeof(struct running_slot))

/* Space for all of it is taken first: writing to a mapping of a full disk would end the process. */
static struct running_slot *map_file(const char *directory)
{
    char path[PATH_MAX];

    int len = snprintf(path, sizeof path, "%s/" FILE_NAME, directory);
    if (len < 0 || (size_t)len >= sizeof path) return NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return NULL;
    void *map = MAP_FAILED;
    off_t size = lseek(fd, 0, SEEK_END);
    bool is_good = size == (off_t)FILE_SIZE || ftruncate(fd, 0) == 0;
    if (is_good && posix_fallocate(fd, 0, (off_t)FILE_SIZE) == 0) {
        map = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    (void)close(fd);
    return map == MAP_FAILED ? NULL : map;
}

void running_open(struct running *r, struct mem *mem, const char *directory)
{
    uint32_t n = 0;

    *r = (struct running){.mem = mem, .slots = map_file(directory)};
    if (r->slots == NULL) return;
    for (uint32_t i = 0; i < SLOTS_N; i++) n += r->slots[i].state == SLOT_RUNS ? 1 : 0;
    if (n > 0) r->lost = mem_take(mem, n * sizeof *r->lost);
    for (uint32_t i = 0; i < SLOTS_N; i++) {
        struct running_slot *slot = &r->slots[i];
        bool is_lost = slot->state == SLOT_RUNS && slot->key_len <= KEY_SIZE && r->lost != NULL;
        if (is_lost) memcpy(&r->lost[r->lost_n++], slot, sizeof *slot);
        slot->state = SLOT_FREE;
    }
    for (uint32_t i = r->lost_n; r->lost != NULL && i < n; i++) r->lost[i].state = SLOT_FREE;
    if (r->lost != NULL) r->lost_n = n; /* as many as were taken */
}

void running_close(struct running *r)
{
    if (r->slots != NULL) (void)munmap(r->slots, FILE_SIZE);
    if (r->lost != NULL) mem_give(r->mem, r->lost, r->lost_n * sizeof *r->lost);
    *r = (struct running){0};
}

struct running_slot *running_begin(struct running *r, const struct work_ref *ref)
{
    static _Thread_local uint32_t hint; /* where this thread found one */

    if (r == NULL || r->slots == NULL) return NULL;
    for (uint32_t n = 0; n < SLOTS_N; n++) {
        struct running_slot *slot = &r->slots[(hint + n) % SLOTS_N];
        uint32_t is_free = SLOT_FREE;
        if (!atomic_compare_exchange_strong(&slot->state, &is_free, SLOT_TAKEN)) continue;
        hint = (hint + n) % SLOTS_N;
        slot->kind = (uint32_t)ref->kind;
        slot->task_id = ref->task_id;
        slot->base = ref->base;
        slot->key_len = (uint32_t)ref->key.len;
        memcpy(slot->execution_id, ref->execution_id, EXECUTION_ID_SIZE);
        memcpy(slot->key, ref->key.ptr, ref->key.len);
        atomic_store_explicit(&slot->state, SLOT_RUNS, memory_order_release);
        return slot;
    }
    return NULL;
}

void running_end(struct running_slot *slot)
{
    if (slot != NULL) atomic_store_explicit(&slot->state, SLOT_FREE, memory_order_release);
}

static bool is_same(const struct running_slot *slot, const struct work_ref *ref)
{
    return slot->kind == (uint32_t)ref->kind && slot->task_id == ref->task_id &&
           slot->base == ref->base && slot->key_len == ref->key.len &&
           memcmp(slot->execution_id, ref->execution_id, EXECUTION_ID_SIZE) == 0 &&
           memcmp(slot->key, ref->key.ptr, ref->key.len) == 0;
}

bool running_was_lost(struct running *r, const struct work_ref *ref)
{
    for (uint32_t n = 0; n < r->lost_n; n++) {
        struct running_slot *slot = &r->lost[n];
        if (atomic_load_explicit(&slot->state, memory_order_relaxed) != SLOT_RUNS) continue;
        if (is_same(slot, ref)) return atomic_exchange(&slot->state, SLOT_FREE) == SLOT_RUNS;
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Who has what. The key is kind, task id and instance, not the dispatch, because some workers echo
 * no token and say only these. The engine can give the same task twice (its time was up, or its
 * instance began again while it ran): the older leases stay in a chain behind the newest, since
 * their workers are still busy with them.
 */
#include "base/planted.h"
#include "core/limits.h"
#include "server/work.h"

#define KEY_HEAD_SIZE ((size_t)5) /* kind, task id */
#define KEY_SIZE_MAX (KEY_HEAD_SIZE + LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE)

static void write_head(uint8_t head[KEY_HEAD_SIZE], enum work_kind kind, int32_t task_id)
{
    head[0] = (uint8_t)kind;
    store_u32(head + 1, kind == WORK_TASK ? (uint32_t)task_id : 0);
}

struct lease *lease_new(struct service *s, const struct work_ref *ref, uint64_t history_n)
{
    struct workers *w = &s->workers;
    size_t size = sizeof(struct lease) + KEY_HEAD_SIZE + ref->key.len;
    struct lease *lease = pool_take(&w->pool, size);

    if (lease == NULL) return NULL;
    *lease = (struct lease){.ref = *ref, .history_n = history_n};
    write_head(lease->bytes, ref->kind, ref->task_id);
    memcpy(lease->bytes + KEY_HEAD_SIZE, ref->key.ptr, ref->key.len);
    lease->ref.key = bytes_make(lease->bytes + KEY_HEAD_SIZE, ref->key.len);
    lease->node.key = bytes_make(lease->bytes, KEY_HEAD_SIZE + ref->key.len);
    uint64_t hash = map_hash(&w->leases, lease->node.key);
    struct map_node *node = map_find_hashed(&w->leases, hash, lease->node.key);
    if (node != NULL) {
        lease->older = container_of(node, struct lease, node);
        map_remove(&w->leases, node);
    }
    map_insert_hashed(&w->leases, hash, &lease->node);
    s->stats.leases_n++;
    return lease;
}

static void unmap(struct workers *w, struct lease *lease)
{
    struct map_node *node = map_find_hashed(&w->leases, lease->node.hash, lease->node.key);

    assert(node != NULL);
    struct lease *newest = container_of(node, struct lease, node);
    if (newest == lease) {
        map_remove(&w->leases, node);
        if (lease->older != NULL)
            map_insert_hashed(&w->leases, lease->node.hash, &lease->older->node);
        return;
    }
    while (newest->older != lease) {
        newest = newest->older;
        assert(newest != NULL);
    }
    newest->older = lease->older;
}

void lease_end(struct service *s, struct lease *lease)
{
    struct work_stream *stream = lease->stream;

    unmap(&s->workers, lease);
    if (list_is_linked(&lease->of_owner)) list_remove(&lease->of_owner);
    chunks_free(s, lease->chunks);
    if (stream != NULL) {
        assert(stream->in_flight[lease->ref.kind] > 0);
        if (!planted("keep_credit")) stream->in_flight[lease->ref.kind]--;
    }
    pool_give(&s->workers.pool, lease);
    assert(s->stats.leases_n > 0);
    s->stats.leases_n--;
    if (stream != NULL) stream_top_up(stream);
}

/* Longer keys are nobody's. */
static bool is_key_possible(struct bytes key) { return key.len <= KEY_SIZE_MAX - KEY_HEAD_SIZE; }

static struct bytes write_key(uint8_t bytes[KEY_SIZE_MAX], enum work_kind kind, struct bytes key,
                              int32_t task_id)
{
    write_head(bytes, kind, task_id);
    memcpy(bytes + KEY_HEAD_SIZE, key.ptr, key.len);
    return bytes_make(bytes, KEY_HEAD_SIZE + key.len);
}

struct lease *lease_find(const struct workers *w, enum work_kind kind, struct bytes key,
                         int32_t task_id)
{
    uint8_t bytes[KEY_SIZE_MAX];

    if (!is_key_possible(key)) return NULL;
    struct map_node *node = map_find(&w->leases, write_key(bytes, kind, key, task_id));
    return node == NULL ? NULL : container_of(node, struct lease, node);
}

uint64_t lease_hash(const struct workers *w, const struct work_ref *ref)
{
    uint8_t bytes[KEY_SIZE_MAX];

    if (!is_key_possible(ref->key)) return 0;
    return map_hash(&w->leases, write_key(bytes, ref->kind, ref->key, ref->task_id));
}

static bool is_same(const struct work_ref *a, const struct work_ref *b)
{
    return a->epoch == b->epoch && a->attempt == b->attempt && a->base == b->base &&
           a->inbox_n == b->inbox_n && a->started_ns == b->started_ns &&
           memcmp(a->execution_id, b->execution_id, EXECUTION_ID_SIZE) == 0;
}

struct lease *lease_of_hashed(const struct workers *w, const struct work_ref *ref, uint64_t hash)
{
    uint8_t bytes[KEY_SIZE_MAX];

    if (!is_key_possible(ref->key)) return NULL;
    struct bytes key = write_key(bytes, ref->kind, ref->key, ref->task_id);
    struct map_node *node = map_find_hashed(&w->leases, hash, key);
    struct lease *lease = node == NULL ? NULL : container_of(node, struct lease, node);
    while (lease != NULL && !is_same(&lease->ref, ref)) lease = lease->older;
    return lease;
}

struct lease *lease_of(const struct workers *w, const struct work_ref *ref)
{
    return lease_of_hashed(w, ref, lease_hash(w, ref));
}

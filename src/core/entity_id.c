/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of entities: "@name@key". Names are the same in any case and are kept in lower case (of
 * ASCII), so that one entity has one id; keys are taken as they are.
 */
#include "core/entity_id.h"

#include "base/arena.h"
#include "base/assert.h"
#include "core/limits.h"

bool id_is_entity(struct bytes id) { return id.len > 0 && id.ptr[0] == '@'; }

/* Where the key begins, its '@' excluded; 0 when there is none. */
static size_t key_at(struct bytes id)
{
    if (!id_is_entity(id)) return 0;
    const uint8_t *at = memchr(id.ptr + 1, '@', id.len - 1);
    return at == NULL ? 0 : (size_t)(at - id.ptr) + 1;
}

struct bytes entity_id_name(struct bytes id)
{
    size_t at = key_at(id);
    assert(at <= id.len);
    assert(at != 1); /* the first '@' is the name's */
    return at < 3 ? BYTES_NONE : bytes_make(id.ptr + 1, at - 2);
}

const char *entity_id_problem(struct bytes id, size_t size_max)
{
    if (id.len == 0) return "the entity's id is empty";
    if (id.len > size_max) return "the entity's id has a length of more than 100 bytes";
    if (entity_id_name(id).len == 0) return "an entity's id has the form \"@name@key\"";
    if (!bytes_is_utf8(id)) return "the entity's id is not UTF-8";
    for (size_t n = 0; n < id.len; n++) {
        if (id.ptr[n] < 0x20 || id.ptr[n] == 0x7f) return "the entity's id has control characters";
    }
    return NULL;
}

void entity_id_lower(uint8_t *id, size_t len)
{
    size_t end = key_at(bytes_make(id, len));
    for (size_t n = 0; n < end; n++) {
        if (id[n] >= 'A' && id[n] <= 'Z') id[n] = (uint8_t)(id[n] - 'A' + 'a');
    }
    assert(entity_id_is_lower(bytes_make(id, len)));
}

bool entity_id_is_lower(struct bytes id)
{
    struct bytes name = entity_id_name(id);
    for (size_t n = 0; n < name.len; n++) {
        if (name.ptr[n] >= 'A' && name.ptr[n] <= 'Z') return false;
    }
    return true;
}

struct bytes entity_id_normal(struct bytes id, struct arena *arena)
{
    if (entity_id_is_lower(id)) return id;
    uint8_t *copy = arena_alloc(arena, id.len);
    assert(copy != NULL); /* reserved before the step */
    memcpy(copy, id.ptr, id.len);
    entity_id_lower(copy, id.len);
    return bytes_make(copy, id.len);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * GetWorkItemsRequest: 1 to 3 how many orchestrations, activities and entities at once,
 * 10 capabilities, 11 workItemFilters {1 orchestrations, 2 activities, 3 entities, each
 * {1 name, 2 versions}}. In WORK_* the kinds have the same order.
 */
#include "server/work_wish.h"

#include "base/arena.h"
#include "wire/pb.h"

#define CAPABILITY_HISTORY_STREAMING 1u
#define CAPABILITY_NORN 1000u

_Static_assert(WORK_TURN == 0, "field 1");
_Static_assert(WORK_TASK == 1, "field 2");
_Static_assert(WORK_ENTITY == 2, "field 3");

static bool copy(struct arena *arena, struct bytes value, struct bytes *out)
{
    *out = arena_copy(arena, value);
    return out->len == value.len;
}

static enum status filter_read(struct bytes message, struct arena *arena, struct worker_filter *out)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    size_t versions_n = 0;

    while (pb_next(&r, &f)) versions_n += f.number == 2 ? 1 : 0;
    struct bytes *versions = NULL;
    if (versions_n > 0) {
        versions = arena_alloc(arena, versions_n * sizeof *versions);
        if (versions == NULL) return E_NOMEM;
    }
    *out = (struct worker_filter){.versions = versions, .versions_n = versions_n};
    versions_n = 0;
    r = pb_reader_make(message);
    while (pb_next(&r, &f)) {
        if (f.number == 1 && !copy(arena, f.bytes, &out->name)) return E_NOMEM;
        if (f.number == 2 && !copy(arena, f.bytes, &versions[versions_n++])) return E_NOMEM;
    }
    return OK;
}

/* Names of entities are in lower case everywhere. */
static enum status lower(struct arena *arena, struct bytes *name)
{
    uint8_t *text = arena_alloc(arena, name->len + 1);

    if (text == NULL) return E_NOMEM;
    for (size_t n = 0; n < name->len; n++) {
        uint8_t c = name->ptr[n];
        text[n] = c >= 'A' && c <= 'Z' ? (uint8_t)(c + ('a' - 'A')) : c;
    }
    *name = bytes_make(text, name->len);
    return OK;
}

static enum status count_filters(struct bytes message, size_t by_kind[WORK_KINDS_N])
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    size_t all_n = 0;

    while (pb_next(&r, &f)) {
        if (f.number < 1 || f.number > WORK_KINDS_N) continue;
        by_kind[f.number - 1]++;
        struct pb_reader sub = pb_sub(&f);
        struct pb_field part;
        while (pb_next(&sub, &part)) all_n++;
        if (++all_n > WISH_FILTERS_N_MAX) return E_LIMIT;
    }
    return OK;
}

static enum status filters_read(struct bytes message, struct arena *arena, struct work_wish *wish)
{
    struct worker_filter *filters[WORK_KINDS_N] = {NULL};
    size_t by_kind[WORK_KINDS_N] = {0};
    enum status status = count_filters(message, by_kind);

    if (status != OK) return status;
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        if (by_kind[kind] == 0) continue;
        filters[kind] = arena_alloc(arena, by_kind[kind] * sizeof *filters[kind]);
        if (filters[kind] == NULL) return E_NOMEM;
        wish->filters[kind] = filters[kind];
    }
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (f.number < 1 || f.number > WORK_KINDS_N) continue;
        size_t kind = f.number - 1;
        struct worker_filter *filter = &filters[kind][wish->filters_n[kind]++];
        status = filter_read(f.bytes, arena, filter);
        if (status == OK && kind == WORK_ENTITY) status = lower(arena, &filter->name);
        if (status != OK) return status;
    }
    return OK;
}

static void capability_read(uint64_t value, struct work_wish *wish)
{
    if (value == CAPABILITY_HISTORY_STREAMING) wish->can_stream = true;
    if (value == CAPABILITY_NORN) wish->is_own = true;
}

static void capabilities_read(const struct pb_field *field, struct work_wish *wish)
{
    struct pb_reader r = pb_reader_make(field->bytes);
    uint64_t value = field->value;

    if (field->wire == PB_VARINT) capability_read(value, wish);
    if (field->wire != PB_LEN) return;
    while (pb_next_packed(&r, &value)) capability_read(value, wish);
}

enum status work_wish_read(struct bytes message, struct arena *arena, struct work_wish *out)
{
    struct work_wish wish = {0};
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    enum status status = OK;

    while (status == OK && pb_next(&r, &f)) {
        if (f.number >= 1 && f.number <= WORK_KINDS_N) {
            int32_t limit = pb_int32(&f);
            wish.limit[f.number - 1] = limit > 0 ? (uint32_t)limit : 0;
        } else if (f.number == 10) {
            capabilities_read(&f, &wish);
        } else if (f.number == 11) {
            wish.has_filters = true;
            status = filters_read(f.bytes, arena, &wish);
        }
    }
    if (status == OK) *out = wish;
    return status;
}

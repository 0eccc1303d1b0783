/* SPDX-License-Identifier: Apache-2.0
 *
 * See rows.h. Tags that contain a line break cannot be searched: in the row each tag is a line.
 */
#include "host/rows.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/planted.h"
#include "wire/pb.h"

bool key_is_complete(struct bytes key)
{
    if (key.len == 0) return false;
    const uint8_t *slash = memchr(key.ptr, '/', key.len);
    return slash != NULL && slash > key.ptr && slash + 1 < key.ptr + key.len;
}

uint64_t key_hash(struct bytes key)
{
    struct bytes hub = key_hub(key);
    struct bytes id = bytes_make(key.ptr + hub.len + 1, key.len - hub.len - 1);
    return archive_key_hash((struct archive_key){hub, id});
}

struct bytes row_key(struct bytes hub, struct bytes id, struct arena *arena)
{
    uint8_t *key = arena_alloc(arena, hub.len + 1 + id.len);
    if (key == NULL) return BYTES_NONE;
    if (hub.len > 0) memcpy(key, hub.ptr, hub.len);
    key[hub.len] = '/';
    if (id.len > 0) memcpy(key + hub.len + 1, id.ptr, id.len);
    return bytes_make(key, hub.len + 1 + id.len);
}

/* Down to the millisecond, also before 1970. */
static int64_t ms_of(int64_t ns)
{
    return ns >= 0 ? ns / NS_PER_MS : -((-ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* ---- searchable text ---- */

/* The beginning of the error text, cut between characters. Borrowed from the view. */
static struct bytes error_text(const struct instance_view *view)
{
    if (!view->failure.has) return BYTES_NONE;
    struct bytes text = failure_message(view->failure.value);
    if (text.len <= ROW_ERROR_SIZE_MAX) return text;

    size_t len = ROW_ERROR_SIZE_MAX;
    while (len > 0 && (text.ptr[len] & 0xc0) == 0x80) len--;
    return bytes_make(text.ptr, len);
}

/* One entry of a tags map. False when it is damaged or cannot be a line. */
static bool tag_read(struct bytes entry, struct bytes *key, struct bytes *value)
{
    struct pb_reader r = pb_reader_make(entry);
    struct pb_field field;

    *key = BYTES_NONE;
    *value = BYTES_NONE;
    while (pb_next(&r, &field)) {
        if (field.number == 1 && field.wire == PB_LEN) *key = field.bytes;
        if (field.number == 2 && field.wire == PB_LEN) *value = field.bytes;
    }
    if (r.failed) return false;
    if (key->len > 0 && memchr(key->ptr, '\n', key->len) != NULL) return false;
    return value->len == 0 || memchr(value->ptr, '\n', value->len) == NULL;
}

static uint8_t *put(uint8_t *at, struct bytes value)
{
    if (value.len > 0) memcpy(at, value.ptr, value.len);
    return at + value.len;
}

/* "key=value\n" for each tag, in arena. False without memory. */
static bool tags_text(struct bytes tags, struct arena *arena, struct bytes *out)
{
    *out = BYTES_NONE;
    if (tags.len == 0) return true;
    /* The raw entries are longer than their keys and values; '=' and the line break come on top. */
    uint8_t *text = arena_alloc(arena, tags.len + 2 * (size_t)strings_count(tags));
    if (text == NULL) return false;

    uint8_t *at = text;
    struct reader r = reader_make(tags);
    struct bytes entry, key, value;
    while (strings_next(&r, &entry)) {
        if (!tag_read(entry, &key, &value)) continue;
        at = put(at, key);
        *at++ = '=';
        at = put(at, value);
        *at++ = '\n';
    }
    *out = bytes_make(text, (size_t)(at - text));
    return true;
}

/* As archive_tag_is() of key, '=' and value. */
static bool tag_is(struct bytes key, struct bytes value, struct bytes wanted)
{
    if (memchr(wanted.ptr, '=', wanted.len) == NULL)
        return bytes_start_with(key, wanted) &&
               (key.len == wanted.len || key.ptr[wanted.len] == '=');
    if (wanted.len != key.len + 1 + value.len) return false;
    if (!bytes_start_with(wanted, key) || wanted.ptr[key.len] != '=') return false;
    return bytes_equal(bytes_make(wanted.ptr + key.len + 1, value.len), value);
}

static bool has_tag(struct bytes tags, struct bytes wanted)
{
    struct reader r = reader_make(tags);
    struct bytes entry, key, value;

    while (strings_next(&r, &entry)) {
        if (tag_read(entry, &key, &value) && tag_is(key, value, wanted)) return true;
    }
    return false;
}

static bool contains(struct bytes whole, struct bytes part)
{
    for (size_t at = 0; at + part.len <= whole.len; at++) {
        if (memcmp(whole.ptr + at, part.ptr, part.len) == 0) return true;
    }
    return false;
}

/* ---- forms ---- */

static bool copy_bytes(struct bytes *value, struct arena *arena)
{
    size_t len = value->len;

    *value = arena_copy(arena, *value);
    return value->len == len;
}

_Static_assert(ARCHIVE_STATUS_TRANSIENT == STATUS_PENDING, "what the archive looks for");

/* An entity has none of its own: here it says whether there is a state. */
static enum orchestration_status row_status(const struct instance_view *view)
{
    if (!view->is_entity) return view->status;
    return view->entity_state.has ? STATUS_RUNNING : STATUS_PENDING;
}

enum status row_of_view(const struct instance_view *view, uint32_t partition, struct arena *arena,
                        struct archive_row *out)
{
    struct archive_row row = {
        .partition = partition,
        .version = view->seq,
        .status = (int32_t)row_status(view),
        .is_terminal = view->is_terminal,
        .error = error_text(view),
        .created_ms = ms_of(view->created_ns),
        .updated_ms = ms_of(view->updated_ns),
        .completed_ms = view->is_terminal ? ms_of(view->completed_ns) : ARCHIVE_NO_TIME,
        .wake_ms = planted("lost_sleeper") ? ARCHIVE_NO_TIME : view->wake_ms,
    };
    if (!tags_text(view->tags, arena, &row.tags)) return E_NOMEM;
    row.hub = key_hub(view->key);
    row.id = key_id(view->key);
    row.name = view->name;
    row.parent_id = view->parent_id;
    if (!copy_bytes(&row.name, arena) || !copy_bytes(&row.parent_id, arena) ||
        !copy_bytes(&row.error, arena)) {
        return E_NOMEM;
    }
    *out = row;
    return OK;
}

enum status view_of_row(const struct archive_row *row, struct arena *arena,
                        struct instance_view *out)
{
    struct bytes key = row_key(row->hub, row->id, arena);
    if (key.ptr == NULL) return E_NOMEM;
    *out = (struct instance_view){
        .key = key,
        .seq = row->version,
        .status = (enum orchestration_status)row->status,
        .is_terminal = row->is_terminal,
        .name = row->name,
        .parent_id = row->parent_id,
        .created_ns = row->created_ms * NS_PER_MS,
        .updated_ns = row->updated_ms * NS_PER_MS,
        .completed_ns = row->is_terminal ? row->completed_ms * NS_PER_MS : 0,
        .wake_ms = row->wake_ms,
        .is_archived = true,
    };
    return OK;
}

enum status view_copy(const struct instance_view *view, bool with_payloads, struct arena *arena,
                      struct instance_view *out)
{
    struct instance_view copy = *view;

    if (!with_payloads) {
        copy.input = MAYBE_NONE;
        copy.output = MAYBE_NONE;
        copy.custom_status = MAYBE_NONE;
        copy.entity_state.value = BYTES_NONE; /* but whether it has one stays */
    }
    bool is_done =
        copy_bytes(&copy.key, arena) && copy_bytes(&copy.name, arena) &&
        copy_bytes(&copy.version.value, arena) && copy_bytes(&copy.input.value, arena) &&
        copy_bytes(&copy.output.value, arena) && copy_bytes(&copy.failure.value, arena) &&
        copy_bytes(&copy.custom_status.value, arena) &&
        copy_bytes(&copy.entity_state.value, arena) && copy_bytes(&copy.locked_by, arena) &&
        copy_bytes(&copy.parent_id, arena) && copy_bytes(&copy.tags, arena);
    if (!is_done) return E_NOMEM;
    *out = copy;
    return OK;
}

/* ---- filters ---- */

int64_t view_time_ms(const struct instance_view *view, bool by_completion)
{
    return ms_of(by_completion ? view->completed_ns : view->created_ns);
}

static bool is_after(const struct instance_view *view, int64_t time_ms,
                     const struct archive_query *query)
{
    if (!query->has_after) return true;
    int order = bytes_compare(key_id(view->key), query->after_id);
    if (time_ms != query->after_ms) order = time_ms < query->after_ms ? -1 : 1;
    return query->newest_first ? order < 0 : order > 0;
}

static bool entity_matches(const struct instance_view *view, const struct archive_query *query)
{
    int64_t updated_ms = ms_of(view->updated_ns);

    if (!view->entity_state.has && !query->want_transient) return false;
    if (updated_ms < query->from_ms) return false;
    if (query->to_ms != 0 && updated_ms >= query->to_ms) return false;
    if (!is_after(view, view_time_ms(view, false), query)) return false;
    return bytes_start_with(key_id(view->key), query->id_prefix);
}

bool view_matches(const struct instance_view *view, const struct archive_query *query)
{
    if (view->is_purged || !bytes_equal(key_hub(view->key), query->hub)) return false;
    if (view->is_entity != query->entities) return false;
    if (view->is_entity) return entity_matches(view, query);
    if ((query->terminal_only || query->by_completion) && !view->is_terminal) return false;
    if (query->status_mask != 0 && (query->status_mask >> view->status & 1) == 0) return false;

    int64_t time_ms = view_time_ms(view, query->by_completion);
    if (time_ms < query->from_ms) return false;
    if (query->to_ms != 0 && time_ms >= query->to_ms) return false;
    if (!is_after(view, time_ms, query)) return false;
    if (!bytes_start_with(key_id(view->key), query->id_prefix)) return false;
    if (query->name.len > 0 && !bytes_equal(view->name, query->name)) return false;
    if (query->tag.len > 0 && !has_tag(view->tags, query->tag)) return false;
    return query->error_part.len == 0 || contains(error_text(view), query->error_part);
}

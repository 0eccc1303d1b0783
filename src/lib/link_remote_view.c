/* SPDX-License-Identifier: Apache-2.0
 *
 * An instance as a server describes it becomes the view that the engine itself would give. Nothing
 * here trusts the bytes.
 */
#include "lib/link_remote.h"

#include "wire/message.h"
#include "wire/pb.h"

/* Views have keys, hub '/' id, of which only the id is meant. */
static enum status make_key(struct bytes id, struct arena *arena, struct bytes *out)
{
    uint8_t *key = arena_alloc(arena, id.len + 1);

    if (key == NULL) return E_NOMEM;
    key[0] = '/';
    if (id.len > 0) memcpy(key + 1, id.ptr, id.len);
    *out = bytes_make(key, id.len + 1);
    return OK;
}

static bool is_packed(const struct pb_field *f, uint32_t number, remote_wanted_fn *is_wanted)
{
    return f->number == number && (is_wanted == NULL || is_wanted(f->bytes));
}

uint8_t *remote_pack_one(uint8_t *at, struct bytes value)
{
    uint64_t len = value.len;

    for (; len >= 0x80; len >>= 7) *at++ = (uint8_t)(len | 0x80);
    *at++ = (uint8_t)len;
    if (value.len > 0) memcpy(at, value.ptr, value.len);
    return at + value.len;
}

enum status remote_pack(struct bytes message, uint32_t number, remote_wanted_fn *is_wanted,
                        struct arena *arena, struct bytes *out)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    size_t size = 0;

    while (pb_next(&r, &f)) {
        if (is_packed(&f, number, is_wanted)) size += varint_size(f.bytes.len) + f.bytes.len;
    }
    if (r.failed) return E_INVALID;
    *out = BYTES_NONE;
    if (size == 0) return OK;
    uint8_t *packed = arena_alloc(arena, size);
    if (packed == NULL) return E_NOMEM;
    uint8_t *at = packed;
    r = pb_reader_make(message);
    while (pb_next(&r, &f)) {
        if (is_packed(&f, number, is_wanted)) at = remote_pack_one(at, f.bytes);
    }
    assert((size_t)(at - packed) == size);
    *out = bytes_make(packed, size);
    return OK;
}

static bool read_maybe(const struct pb_field *field, struct maybe *out)
{
    out->has = pb_get_string_value(field, &out->value);
    return out->has;
}

static bool read_time(const struct pb_field *field, int64_t *ns)
{
    int64_t seconds;
    int32_t nanos;

    if (!pb_get_timestamp(field, &seconds, &nanos)) return false;
    *ns = pb_timestamp_ns(seconds, nanos);
    return true;
}

static bool read_status(const struct pb_field *field, enum orchestration_status *out)
{
    if (field->value > STATUS_SUSPENDED) return false;
    *out = (enum orchestration_status)field->value;
    return true;
}

static bool is_terminal(enum orchestration_status status)
{
    return status == STATUS_COMPLETED || status == STATUS_FAILED || status == STATUS_CANCELED ||
           status == STATUS_TERMINATED;
}

static bool read_state_field(const struct pb_field *f, struct instance_view *v, struct bytes *id)
{
    struct maybe text = MAYBE_NONE;
    int64_t ns = 0;

    switch (f->number) {
    case 1: *id = f->bytes; return true;
    case 2: v->name = f->bytes; return true;
    case 3: return read_maybe(f, &v->version);
    case 4: return read_status(f, &v->status);
    case 5:
        if (!read_time(f, &ns)) return false;
        v->scheduled_ms = ns / 1000000;
        return true;
    case 6: return read_time(f, &v->created_ns);
    case 7: return read_time(f, &v->updated_ns);
    case 8: return read_maybe(f, &v->input);
    case 9: return read_maybe(f, &v->output);
    case 10: return read_maybe(f, &v->custom_status);
    case 11: v->failure = (struct maybe){f->bytes, f->wire == PB_LEN}; return true;
    case 12:
        if (!read_maybe(f, &text)) return false;
        (void)execution_id_parse(text.value, v->execution_id); /* another server's: left out */
        return true;
    case 13: return read_time(f, &v->completed_ns);
    case 14:
        if (!read_maybe(f, &text)) return false;
        v->parent_id = text.value;
        return true;
    default: return true;
    }
}

/* OrchestrationState: see durable_task.proto; 15 tags */
enum status remote_read_state(struct bytes message, struct arena *arena, struct instance_view *out)
{
    struct instance_view view = {0};
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    struct bytes id = BYTES_NONE;

    while (pb_next(&r, &f)) {
        if (!read_state_field(&f, &view, &id)) return E_INVALID;
    }
    if (r.failed) return E_INVALID;
    view.is_terminal = is_terminal(view.status);
    enum status status = remote_pack(message, 15, NULL, arena, &view.tags);
    if (status == OK) status = make_key(id, arena, &view.key);
    if (status == OK) *out = view;
    return status;
}

/* EntityMetadata {1 instanceId, 2 lastModifiedTime, 3 backlogQueueSize, 4 lockedBy,
 * 5 serializedState} */
enum status remote_read_entity(struct bytes message, struct arena *arena, struct instance_view *out)
{
    struct instance_view view = {.is_entity = true};
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    struct bytes id = BYTES_NONE;
    struct maybe locked_by = MAYBE_NONE;
    bool ok = true;

    while (ok && pb_next(&r, &f)) {
        if (f.number == 1) id = f.bytes;
        if (f.number == 2) ok = read_time(&f, &view.updated_ns);
        if (f.number == 3) view.backlog_n = (uint32_t)pb_int32(&f);
        if (f.number == 4) ok = read_maybe(&f, &locked_by);
        if (f.number == 5) ok = read_maybe(&f, &view.entity_state);
    }
    if (!ok || r.failed) return E_INVALID;
    view.locked_by = locked_by.value;
    enum status status = make_key(id, arena, &view.key);
    if (status == OK) *out = view;
    return status;
}

static bool read_time_ms(const struct pb_field *field, int64_t *ms)
{
    int64_t ns;

    if (!read_time(field, &ns)) return false;
    *ms = ns / 1000000;
    return true;
}

static bool read_process(const struct pb_field *field, enum task_process *out)
{
    switch (field->value) { /* a server's numbers: others may come some day */
    case NORN__V1__STEP_STATE__PENDING: *out = TASK_PENDING; return true;
    case NORN__V1__STEP_STATE__PROCESSING: *out = TASK_PROCESSING; return true;
    case NORN__V1__STEP_STATE__WAITING: *out = TASK_WAITING; return true;
    case NORN__V1__STEP_STATE__ERROR: *out = TASK_ERROR; return true;
    default: return false;
    }
}

enum status remote_read_step(struct bytes message, struct task_view *out)
{
    struct task_view view = {.process = TASK_PENDING};
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    bool ok = true;

    while (ok && pb_next(&r, &f)) {
        if (f.number == 1) view.task_id = pb_int32(&f);
        if (f.number == 2) view.name = f.bytes;
        if (f.number == 3) ok = read_process(&f, &view.process);
        if (f.number == 4) view.locked_by = (uint32_t)f.value;
        if (f.number == 5) ok = read_time_ms(&f, &view.complete_by_ms);
        if (f.number == 6) view.failures = (uint32_t)f.value;
        if (f.number == 7) ok = read_time_ms(&f, &view.retry_at_ms);
    }
    if (!ok || r.failed) return E_INVALID;
    *out = view;
    return OK;
}

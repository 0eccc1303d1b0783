/* SPDX-License-Identifier: Apache-2.0
 *
 * Records to bytes and back. A record is: kind (1 byte), sequence number, time, then for the
 * instance family the key, then what the kind has, in the order below. All integers are varints
 * (signed ones zigzag).
 */
#include "core/record.h"

#include "base/assert.h"

#define X(kind, number, name)                                                                      \
    _Static_assert(number > 0 && number <= UINT8_MAX, "the kind of a record is one byte");
RECORDS(X)
#undef X
_Static_assert(RECORD_IMPORTED < RECORD_PARTITION_FIRST, "the last of the instance family");
_Static_assert(RECORD_SEND == RECORD_PARTITION_FIRST, "the first of the partition family");

const char *record_name(enum record_kind kind)
{
    switch (kind) {
#define X(name, number, text)                                                                      \
    case RECORD_##name: return text;
        RECORDS(X)
#undef X
    }
    return "unknown";
}

/* Absent is 0, present is length + 1. */
static void put_maybe(struct buffer *b, struct maybe value)
{
    if (!value.has) {
        buffer_varint(b, 0);
        return;
    }
    buffer_varint(b, value.value.len + 1);
    buffer_append_bytes(b, value.value);
}

static struct maybe get_maybe(struct reader *r)
{
    uint64_t n = reader_varint(r);
    if (n == 0 || r->failed) return MAYBE_NONE;
    return maybe_some(reader_take(r, (size_t)(n - 1)));
}

static uint32_t get_u32(struct reader *r)
{
    uint64_t value = reader_varint(r);
    if (value > UINT32_MAX) r->failed = true;
    return (uint32_t)value;
}

static int32_t get_i32(struct reader *r)
{
    int64_t value = reader_signed(r);
    if (value < INT32_MIN || value > INT32_MAX) r->failed = true;
    return (int32_t)value;
}

static void encode_turn(struct buffer *b, const struct record *record)
{
    assert(record->started_ns <= record->now_ns); /* the orchestrator's clock is not ahead */
    buffer_signed(b, record->started_ns - record->now_ns);
    buffer_varint(b, (uint64_t)record->consumed_n << 1 | (record->is_engine ? 1 : 0));
    buffer_bytes(b, record->events);
    put_maybe(b, record->custom_status);
    put_maybe(b, record->trace);
}

static void encode_try(struct buffer *b, const struct record *record)
{
    buffer_varint(b, record->failures);
    buffer_signed(b, record->retry_at_ms);
    buffer_bytes(b, record->reason);
}

static void encode_send(struct buffer *b, const struct record *record)
{
    assert(record->message >= MESSAGE_START_CHILD); /* what decode_send() will read */
    assert(record->message <= MESSAGE_START);
    assert(record->message_seq > 0);
    assert(record->target.len > 0);
    buffer_varint(b, record->peer);
    buffer_varint(b, record->message_seq);
    buffer_u8(b, (uint8_t)record->message);
    buffer_bytes(b, record->target);
    buffer_bytes(b, record->peer_execution);
    buffer_bytes(b, record->event);
}

/* A start that was put off, and the same when its turn has come. */
static void encode_waiting(struct buffer *b, const struct record *record)
{
    assert(record->order > 0); /* or record_is_valid() would refuse it */
    assert(record->order <= INT64_MAX);
    assert(record->event.len > 0);
    buffer_append(b, record->execution_id, EXECUTION_ID_SIZE);
    buffer_varint(b, record->order);
    if (record->kind == RECORD_QUEUED) buffer_bytes(b, record->name);
    buffer_bytes(b, record->event);
}

static void encode_body(struct buffer *b, const struct record *record)
{
    switch (record->kind) {
    case RECORD_CREATED:
        assert(record->event.len > 0);
        buffer_append(b, record->execution_id, EXECUTION_ID_SIZE);
        buffer_signed(b, record->start_at_ms);
        buffer_bytes(b, record->event);
        break;
    case RECORD_MESSAGE: buffer_bytes(b, record->event); break;
    case RECORD_TURN: encode_turn(b, record); break;
    case RECORD_CONTINUED:
        buffer_append(b, record->execution_id, EXECUTION_ID_SIZE);
        buffer_bytes(b, record->event);
        buffer_bytes(b, record->events);
        break;
    case RECORD_TURN_FAILED: encode_try(b, record); break;
    case RECORD_TASK_TRIED:
        buffer_append(b, record->execution_id, EXECUTION_ID_SIZE);
        assert(record->next <= TASK_NEXT_PARKED);
        buffer_signed(b, record->task_id);
        buffer_u8(b, (uint8_t)record->next);
        encode_try(b, record);
        break;
    case RECORD_TASK_CLOSED:
        buffer_append(b, record->execution_id, EXECUTION_ID_SIZE);
        buffer_signed(b, record->task_id);
        break;
    case RECORD_LATE:
        buffer_signed(b, record->task_id);
        buffer_varint(b, record->failures);
        buffer_u8(b, record->is_success ? 1 : 0);
        buffer_bytes(b, record->event);
        break;
    case RECORD_REWOUND:
        buffer_append(b, record->execution_id, EXECUTION_ID_SIZE);
        buffer_bytes(b, record->peer_execution);
        buffer_bytes(b, record->event);
        break;
    case RECORD_PARKED: buffer_bytes(b, record->reason); break;
    case RECORD_UNPARKED: break;
    case RECORD_PURGED: break;
    case RECORD_RELINKED: buffer_bytes(b, record->peer_execution); break;
    case RECORD_ENTITY_CREATED: buffer_append(b, record->execution_id, EXECUTION_ID_SIZE); break;
    case RECORD_ENTITY_MESSAGE:
        buffer_signed(b, record->start_at_ms);
        buffer_bytes(b, record->event);
        break;
    case RECORD_ENTITY_BATCH:
        assert(record->consumed_n > 0);
        buffer_varint(b, record->consumed_n);
        put_maybe(b, record->custom_status);
        break;
    case RECORD_ENTITY_LOCKED:
    case RECORD_WOKEN: break;
    case RECORD_ENTITY_UNLOCKED: buffer_bytes(b, record->event); break;
    case RECORD_ENTITY_DUE: buffer_varint(b, record->consumed_n); break;
    case RECORD_QUEUED:
    case RECORD_ADMITTED: encode_waiting(b, record); break;
    case RECORD_IMPORTED:
        assert(record->events.len > 0);
        buffer_bytes(b, record->events);
        break;
    case RECORD_SEND: encode_send(b, record); break;
    case RECORD_SENT:
    case RECORD_RECEIVED:
        assert(record->message_seq > 0);
        buffer_varint(b, record->peer);
        buffer_varint(b, record->message_seq);
        break;
    case RECORD_SOURCE:
        assert(record->source.len > 0);
        assert(record->position > 0);
        buffer_bytes(b, record->source);
        buffer_varint(b, record->position);
        break;
    }
}

void record_encode(struct buffer *out, const struct record *record)
{
    size_t start = out->len;
    assert(record->seq > 0); /* what record_decode() will read, and no more */
    assert(record->seq <= RECORD_SEQ_MAX);
    buffer_u8(out, (uint8_t)record->kind);
    buffer_varint(out, record->seq);
    buffer_signed(out, record->now_ns);
    if (record->kind < RECORD_PARTITION_FIRST) {
        assert(record->key.len > 0);
        buffer_bytes(out, record->key);
    }
    encode_body(out, record);
    assert(out->failed || out->len > start);
}

static void take_execution(struct reader *r, struct record *out)
{
    struct bytes id = reader_take(r, EXECUTION_ID_SIZE);
    if (id.len == EXECUTION_ID_SIZE) memcpy(out->execution_id, id.ptr, EXECUTION_ID_SIZE);
}

static void decode_turn(struct reader *r, struct record *out)
{
    int64_t offset = reader_signed(r);
    if (__builtin_add_overflow(out->now_ns, offset, &out->started_ns)) r->failed = true;
    uint64_t consumed = reader_varint(r);
    if (consumed >> 1 > UINT32_MAX) r->failed = true;
    out->consumed_n = (uint32_t)(consumed >> 1);
    out->is_engine = (consumed & 1) != 0;
    out->events = reader_bytes(r);
    out->custom_status = get_maybe(r);
    out->trace = get_maybe(r);
}

static void decode_try(struct reader *r, struct record *out)
{
    out->failures = get_u32(r);
    out->retry_at_ms = reader_signed(r);
    out->reason = reader_bytes(r);
}

static void decode_send(struct reader *r, struct record *out)
{
    out->peer = get_u32(r);
    out->message_seq = reader_varint(r);
    out->message = (enum message_kind)reader_u8(r);
    out->target = reader_bytes(r);
    out->peer_execution = reader_bytes(r);
    out->event = reader_bytes(r);
    if (out->message < MESSAGE_START_CHILD || out->message > MESSAGE_START) r->failed = true;
}

/* False for a kind this program does not know. */
static bool decode_body(struct reader *r, struct record *out)
{
    switch (out->kind) {
    case RECORD_CREATED:
        take_execution(r, out);
        out->start_at_ms = reader_signed(r);
        out->event = reader_bytes(r);
        return true;
    case RECORD_MESSAGE: out->event = reader_bytes(r); return true;
    case RECORD_TURN: decode_turn(r, out); return true;
    case RECORD_CONTINUED:
        take_execution(r, out);
        out->event = reader_bytes(r);
        out->events = reader_bytes(r);
        return true;
    case RECORD_TURN_FAILED: decode_try(r, out); return true;
    case RECORD_TASK_TRIED:
        take_execution(r, out);
        out->task_id = get_i32(r);
        out->next = (enum task_next)reader_u8(r);
        if (out->next > TASK_NEXT_PARKED) r->failed = true;
        decode_try(r, out);
        return true;
    case RECORD_TASK_CLOSED:
        take_execution(r, out);
        out->task_id = get_i32(r);
        return true;
    case RECORD_LATE:
        out->task_id = get_i32(r);
        out->failures = get_u32(r);
        out->is_success = reader_u8(r) != 0;
        out->event = reader_bytes(r);
        return true;
    case RECORD_REWOUND:
        take_execution(r, out);
        out->peer_execution = reader_bytes(r);
        out->event = reader_bytes(r);
        return true;
    case RECORD_PARKED: out->reason = reader_bytes(r); return true;
    case RECORD_UNPARKED: return true;
    case RECORD_PURGED: return true;
    case RECORD_RELINKED: out->peer_execution = reader_bytes(r); return true;
    case RECORD_ENTITY_CREATED: take_execution(r, out); return true;
    case RECORD_ENTITY_MESSAGE:
        out->start_at_ms = reader_signed(r);
        out->event = reader_bytes(r);
        return true;
    case RECORD_ENTITY_BATCH:
        out->consumed_n = get_u32(r);
        out->custom_status = get_maybe(r);
        return true;
    case RECORD_ENTITY_LOCKED:
    case RECORD_WOKEN: return true;
    case RECORD_ENTITY_UNLOCKED: out->event = reader_bytes(r); return true;
    case RECORD_ENTITY_DUE: out->consumed_n = get_u32(r); return true;
    case RECORD_QUEUED:
        take_execution(r, out);
        out->order = reader_varint(r);
        out->name = reader_bytes(r);
        out->event = reader_bytes(r);
        return true;
    case RECORD_ADMITTED:
        take_execution(r, out);
        out->order = reader_varint(r);
        out->event = reader_bytes(r);
        return true;
    case RECORD_IMPORTED: out->events = reader_bytes(r); return true;
    case RECORD_SEND: decode_send(r, out); return true;
    case RECORD_SENT:
    case RECORD_RECEIVED:
        out->peer = get_u32(r);
        out->message_seq = reader_varint(r);
        return true;
    case RECORD_SOURCE:
        out->source = reader_bytes(r);
        out->position = reader_varint(r);
        return true;
    }
    return false;
}

enum status record_decode(struct reader *in, struct record *out)
{
    struct record record = {0};
    record.kind = (enum record_kind)reader_u8(in);
    record.seq = reader_varint(in);
    record.now_ns = reader_signed(in);
    if (record.kind < RECORD_PARTITION_FIRST) record.key = reader_bytes(in);
    if (in->failed || record.seq == 0 || record.seq > RECORD_SEQ_MAX) return E_CORRUPT;
    if (record.kind < RECORD_PARTITION_FIRST && record.key.len == 0) return E_CORRUPT;
    if (!decode_body(in, &record) || in->failed) return E_CORRUPT;
    *out = record;
    return OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the protocol's bytes and the core's view of events and actions. With its second part,
 * event_entity_codec.c, the only file of core/ that knows field numbers.
 *
 * Reading is lenient where a newer program may have written more (unknown fields are skipped here
 * and kept in the bytes), strict about what would make the core decide on nonsense.
 */
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "core/event.h"
#include "core/limits.h"
#include "wire/pb.h"

/* HistoryEvent; both have tags of one byte */
#define FIELD_EVENT_ID 1
#define FIELD_TIMESTAMP 2
#define X(name, number, text)                                                                      \
    _Static_assert(number > FIELD_TIMESTAMP && number <= PB_NUMBER_MAX, "a field of its own");
EVENTS(X)
#undef X
/* action_decode() takes every number between them for a kind. */
_Static_assert(ACTION_REWIND - ACTION_SCHEDULE_TASK == 7, "eight kinds of action in a row");

const char *event_name(enum event_kind kind)
{
    switch (kind) {
    case EVENT_UNKNOWN: return "Unknown";
#define X(name, number, text)                                                                      \
    case EVENT_##name: return text;
        EVENTS(X)
#undef X
    }
    return "Unknown";
}

const char *orchestration_status_name(enum orchestration_status status)
{
    switch (status) {
    case STATUS_RUNNING: return "RUNNING";
    case STATUS_COMPLETED: return "COMPLETED";
    case STATUS_CONTINUED_AS_NEW: return "CONTINUED_AS_NEW";
    case STATUS_FAILED: return "FAILED";
    case STATUS_CANCELED: return "CANCELED";
    case STATUS_TERMINATED: return "TERMINATED";
    case STATUS_PENDING: return "PENDING";
    case STATUS_SUSPENDED: return "SUSPENDED";
    }
    return "UNKNOWN";
}

bool strings_next(struct reader *r, struct bytes *out)
{
    if (r->failed || r->at == r->end) return false;
    *out = reader_bytes(r);
    return !r->failed;
}

void strings_add(struct buffer *packed, struct bytes value) { buffer_bytes(packed, value); }

uint32_t strings_count(struct bytes packed)
{
    struct reader r = reader_make(packed);
    struct bytes one;
    uint32_t n = 0;
    while (strings_next(&r, &one)) n++;
    return n;
}

/* The eight digits of four bytes, all at once: every activity is told its execution. */
static uint64_t hex_digits(uint32_t bytes)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t x = bytes;
    x = (x & 0xffff) | (x & 0xffff0000) << 16; /* a byte in each two … */
    x = (x & UINT64_C(0x000000ff000000ff)) | (x & UINT64_C(0x0000ff000000ff00)) << 8;
    x = (x >> 4 & 15 * (ones & UINT64_C(0x00ff00ff00ff00ff))) | /* … and its halves in both */
        (x & 15 * (ones & UINT64_C(0x00ff00ff00ff00ff))) << 8;
    uint64_t is_letter = (x + 6 * ones) >> 4 & ones;
    return x + '0' * ones + is_letter * ('a' - '0' - 10);
}

void execution_id_text(const uint8_t id[EXECUTION_ID_SIZE], char out[EXECUTION_TEXT_SIZE])
{
    for (size_t i = 0; i < EXECUTION_ID_SIZE; i += 4)
        store_u64((uint8_t *)out + 2 * i, hex_digits(load_u32(id + i)));
}

/* The value of a digit and one more; 0: it is none. */
static const uint8_t hex_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

bool execution_id_parse(struct bytes text, uint8_t id[EXECUTION_ID_SIZE])
{
    if (text.len != EXECUTION_TEXT_SIZE) return false;
    for (size_t i = 0; i < EXECUTION_ID_SIZE; i++) {
        uint8_t high = hex_values[text.ptr[2 * i]];
        uint8_t low = hex_values[text.ptr[2 * i + 1]];
        if (high == 0 || low == 0) return false;
        id[i] = (uint8_t)((high - 1) << 4 | (low - 1));
    }
    return true;
}

int64_t event_timestamp_ms(int64_t seconds, int32_t nanos)
{
    int64_t ms = 0;
    assert(nanos >= 0); /* pb_get_timestamp() answers no others */
    assert(nanos < PB_NANOS_PER_SECOND);
    if (__builtin_mul_overflow(seconds, INT64_C(1000), &ms)) {
        return seconds < 0 ? INT64_MIN : INT64_MAX - 1;
    }
    int64_t up = (nanos + NS_PER_MS - 1) / NS_PER_MS;
    if (__builtin_add_overflow(ms, up, &ms) || ms == INT64_MAX) return INT64_MAX - 1;
    return ms;
}

static bool get_maybe(const struct pb_field *field, struct maybe *out)
{
    if (!pb_get_string_value(field, &out->value)) return false;
    out->has = true;
    return true;
}

static bool get_bytes(const struct pb_field *field, struct bytes *out)
{
    if (field->wire != PB_LEN) return false;
    *out = field->bytes;
    return true;
}

static struct maybe raw_message(const struct pb_field *field)
{
    return (struct maybe){field->bytes, field->wire == PB_LEN};
}

/* ---- reading events ---- */

/* A bit for each number that is a kind. */
#define X(name, number, text) | UINT64_C(1) << number
static const uint64_t kinds_known = 0 EVENTS(X);
#undef X
#define X(name, number, text) _Static_assert(number < 64, "a bit of its own");
EVENTS(X)
#undef X

static bool is_event_kind(uint32_t number) { return number < 64 && kinds_known >> number & 1; }

/* taskScheduledId of completions is field 1, timerId of TimerFired field 2. */
static int32_t event_ref(enum event_kind kind, struct bytes body)
{
    bool is_timer = kind == EVENT_TIMER_FIRED;
    if (!is_timer && kind != EVENT_TASK_COMPLETED && kind != EVENT_TASK_FAILED &&
        kind != EVENT_CHILD_COMPLETED && kind != EVENT_CHILD_FAILED) {
        return -1;
    }
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    int32_t ref = 0; /* id 0 is not on the wire */
    while (pb_next_inline(&r, &f)) {
        if (f.number == (is_timer ? 2u : 1u) && f.wire == PB_VARINT) ref = pb_int32(&f);
    }
    return ref;
}

/* Past an id as event_begin() writes it: none, one byte, or -1. NULL for all others. */
static const uint8_t *plain_id(const uint8_t *at, const uint8_t *end, int32_t *id)
{
    *id = 0;
    if (end - at < 12 || at[0] != (FIELD_EVENT_ID << 3 | PB_VARINT)) return at;
    if (at[1] < 0x80) {
        *id = at[1];
        return at + 2;
    }
    *id = -1;
    return load_u64(at + 1) == UINT64_MAX && at[9] == 0xff && at[10] == 1 ? at + 11 : NULL;
}

/* Past a length of one byte and what it says; NULL for all others. */
static const uint8_t *plain_payload(const uint8_t *at, const uint8_t *end, struct bytes *out)
{
    if (at >= end || *at >= 0x80 || *at > end - at - 1) return NULL;
    *out = bytes_make(at + 1, *at);
    return at + 1 + *at;
}

/* The id that a completion answers, when it is the first byte of the body and only its result
 * follows. False for all others. */
static bool plain_ref(const struct event_head *head, int32_t *ref)
{
    const uint8_t *at = head->body.ptr;
    const uint8_t *end = at + head->body.len;
    struct bytes result;

    if (head->kind != EVENT_TASK_COMPLETED && head->kind != EVENT_CHILD_COMPLETED) return false;
    if (end - at < 4 || at[0] != (1 << 3 | PB_VARINT) || at[1] >= 0x80) return false;
    *ref = at[1];
    return at[2] == (2 << 3 | PB_LEN) && plain_payload(at + 3, end, &result) == end;
}

/* Most events are as event_begin() writes them, and short: id, time, body. Read field by field they
 * were 6 % of all that a shard does, and 15 % in the library. False: it is another, or wrong. */
static bool peek_plainly(struct bytes event, struct event_head *out)
{
    const uint8_t *const end = event.ptr + event.len;
    if (event.len < 4) return false;
    const uint8_t *at = plain_id(event.ptr, end, &out->id);
    if (at == NULL || at >= end || *at != (FIELD_TIMESTAMP << 3 | PB_LEN)) return false;
    at = plain_payload(at + 1, end, &out->stamp);
    if (at == NULL || end - at < 2 || (*at & 7) != PB_LEN) return false;
    uint32_t number = *at++ >> 3;
    if (at[-1] >= 0x80) {
        if (*at >= 0x80) return false;
        number = (number & 15) | (uint32_t)*at++ << 4;
    }
    if (!is_event_kind(number) || plain_payload(at, end, &out->body) != end) return false;
    out->kind = (enum event_kind)number;
    return true;
}

/* All others, field by field. */
static enum status peek_any(struct bytes event, struct event_head *out)
{
    struct event_head head = {.kind = EVENT_UNKNOWN, .ref = -1};
    struct pb_reader r = pb_reader_make(event);
    struct pb_field f;

    while (pb_next_inline(&r, &f)) {
        if (f.number == FIELD_EVENT_ID && f.wire == PB_VARINT) {
            head.id = pb_int32(&f);
        } else if (f.number == FIELD_TIMESTAMP) {
            if (f.wire != PB_LEN) return E_INVALID;
            head.stamp = f.bytes;
        } else if (f.wire == PB_LEN && is_event_kind(f.number)) {
            head.kind = (enum event_kind)f.number;
            head.body = f.bytes;
        }
    }
    if (r.failed) return E_INVALID;
    head.ref = event_ref(head.kind, head.body);
    *out = head;
    return OK;
}

enum status event_peek(struct bytes event, struct event_head *out)
{
    struct event_head head;

    if (!peek_plainly(event, &head)) return peek_any(event, out);
    head.time_ns = 0;
    if (!plain_ref(&head, &head.ref)) head.ref = event_ref(head.kind, head.body);
    *out = head;
    return OK;
}

enum status event_stamp_decode(struct event_head *head)
{
    struct pb_field stamp = {.wire = PB_LEN, .bytes = head->stamp};
    int64_t seconds = 0;
    int32_t nanos = 0;
    if (head->stamp.ptr == NULL) return OK;
    if (!pb_get_timestamp(&stamp, &seconds, &nanos)) return E_INVALID;
    head->time_ns = pb_timestamp_ns(seconds, nanos);
    return OK;
}

enum status event_head_decode(struct bytes event, struct event_head *out)
{
    struct event_head head;
    if (event_peek(event, &head) != OK) return E_INVALID;
    if (event_stamp_decode(&head) != OK) return E_INVALID;
    *out = head;
    return OK;
}

enum event_kind event_kind_of(struct bytes event)
{
    struct pb_reader r = pb_reader_make(event);
    struct pb_field f;
    enum event_kind kind = EVENT_UNKNOWN;
    struct event_head head;
    if (peek_plainly(event, &head)) return head.kind;
    while (pb_next_inline(&r, &f)) {
        if (f.wire == PB_LEN && f.number > FIELD_TIMESTAMP && is_event_kind(f.number))
            kind = (enum event_kind)f.number;
    }
    return kind;
}

/* OrchestrationInstance {1 instanceId, 2 executionId} */
static bool instance_decode(struct bytes message, struct bytes *id, struct bytes *execution)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    while (pb_next_inline(&r, &f)) {
        if (f.number == 1 && !get_bytes(&f, id)) return false;
        if (f.number == 2 && !pb_get_string_value(&f, execution)) return false;
    }
    return !r.failed;
}

/* ParentInstanceInfo {1 taskScheduledId, 2 name, 3 version, 4 orchestrationInstance} */
static bool parent_decode(struct bytes message, struct event_parent *out)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    struct bytes execution = BYTES_NONE;
    bool ok = true;

    while (pb_next(&r, &f) && ok) {
        switch (f.number) {
        case 1: out->task_id = pb_int32(&f); break;
        case 2: ok = get_maybe(&f, &out->name); break;
        case 3: ok = get_maybe(&f, &out->version); break;
        case 4:
            ok = f.wire == PB_LEN && instance_decode(f.bytes, &out->instance_id, &execution);
            break;
        }
    }
    out->has_execution_id = execution_id_parse(execution, out->execution_id);
    return ok && !r.failed;
}

/* Collects the entries of a map field; there may be none, and they need not be side by side. */
struct tags_collector {
    struct buffer packed;
    bool is_open;
};

static void tags_collect(struct tags_collector *tags, struct arena *arena, const struct pb_field *f)
{
    assert(f->wire == PB_LEN);
    if (!tags->is_open) {
        buffer_init(&tags->packed, arena->mem);
        tags->is_open = true;
    }
    strings_add(&tags->packed, f->bytes);
}

static bool tags_finish(struct tags_collector *tags, struct arena *arena, struct bytes *out)
{
    *out = BYTES_NONE;
    if (!tags->is_open) return true;
    bool ok = !tags->packed.failed;
    assert(!ok || tags->packed.len > 0); /* it was opened for an entry */
    if (ok) *out = arena_copy(arena, buffer_view(&tags->packed));
    ok = ok && (out->ptr != NULL || tags->packed.len == 0);
    buffer_release(&tags->packed);
    return ok;
}

bool tags_have(struct bytes tags, struct bytes name)
{
    struct reader r = reader_make(tags);
    struct bytes entry;
    while (strings_next(&r, &entry)) {
        struct pb_reader fields = pb_reader_make(entry);
        struct pb_field f;
        while (pb_next(&fields, &f)) {
            if (f.number == 1 && f.wire == PB_LEN && bytes_equal(f.bytes, name)) return true;
        }
    }
    return false;
}

static bool started_field(const struct pb_field *f, struct event_started *out)
{
    struct bytes execution = BYTES_NONE;
    int64_t seconds = 0;
    int32_t nanos = 0;

    switch (f->number) {
    case 1: return get_bytes(f, &out->name);
    case 2: return get_maybe(f, &out->version);
    case 3: return get_maybe(f, &out->input);
    case 4:
        if (f->wire != PB_LEN || !instance_decode(f->bytes, &out->instance_id, &execution))
            return false;
        return execution_id_parse(execution, out->execution_id);
    case 5:
        out->has_parent = true;
        return f->wire == PB_LEN && parent_decode(f->bytes, &out->parent);
    case 6:
        if (!pb_get_timestamp(f, &seconds, &nanos)) return false;
        out->has_scheduled = true;
        out->scheduled_ms = event_timestamp_ms(seconds, nanos);
        assert(out->scheduled_ms < INT64_MAX);
        return true;
    case 7: out->trace = raw_message(f); return true;
    default: return true;
    }
}

enum status event_started_decode(struct bytes event, struct arena *arena, struct event_started *out)
{
    struct event_head head;
    if (event_peek(event, &head) != OK) return E_INVALID;
    if (head.kind != EVENT_EXECUTION_STARTED) return E_INVALID;

    struct event_started started = {0};
    struct tags_collector tags = {0};
    struct pb_reader r = pb_reader_make(head.body);
    struct pb_field f;
    bool ok = true;
    while (ok && pb_next_inline(&r, &f)) {
        if (f.number == 9 && f.wire == PB_LEN)
            tags_collect(&tags, arena, &f);
        else
            ok = started_field(&f, &started);
    }
    ok = tags_finish(&tags, arena, &started.tags) && ok && !r.failed;
    if (!ok) return E_INVALID;
    *out = started;
    return OK;
}

enum status event_scheduled_decode(struct bytes event, struct arena *arena,
                                   struct event_scheduled *out)
{
    struct event_head head;
    if (event_peek(event, &head) != OK) return E_INVALID;
    bool is_child = head.kind == EVENT_CHILD_CREATED;
    if (!is_child && head.kind != EVENT_TASK_SCHEDULED) return E_INVALID;

    struct event_scheduled s = {0};
    struct tags_collector tags = {0};
    struct pb_reader r = pb_reader_make(head.body);
    struct pb_field f;
    bool ok = true;
    uint32_t shift = is_child ? 1 : 0; /* a child has its instance id first */
    while (ok && pb_next_inline(&r, &f)) {
        if (is_child && f.number == 1)
            ok = get_bytes(&f, &s.instance_id);
        else if (f.number == 1 + shift)
            ok = get_bytes(&f, &s.name);
        else if (f.number == 2 + shift)
            ok = get_maybe(&f, &s.version);
        else if (f.number == 3 + shift)
            ok = get_maybe(&f, &s.input);
        else if (f.number == 4 + shift)
            s.trace = raw_message(&f);
        else if (f.number == 5 + shift && f.wire == PB_LEN)
            tags_collect(&tags, arena, &f);
    }
    ok = tags_finish(&tags, arena, &s.tags) && ok && !r.failed;
    if (!ok) return E_INVALID;
    assert(is_child || s.instance_id.len == 0);
    *out = s;
    return OK;
}

enum status event_scheduled_name(struct bytes event, struct bytes *name, struct maybe *version)
{
    struct event_head head;
    if (event_peek(event, &head) != OK || head.kind != EVENT_TASK_SCHEDULED) return E_INVALID;

    struct pb_reader r = pb_reader_make(head.body);
    struct pb_field f;
    bool ok = true;
    *name = BYTES_NONE;
    *version = MAYBE_NONE;
    while (ok && pb_next_inline(&r, &f)) {
        if (f.number == 1) ok = get_bytes(&f, name);
        if (f.number == 2) ok = get_maybe(&f, version);
    }
    return ok && !r.failed ? OK : E_INVALID;
}

enum status event_completed_decode(struct bytes event, struct event_completed *out)
{
    struct event_head head;
    if (event_peek(event, &head) != OK) return E_INVALID;
    if (head.kind != EVENT_EXECUTION_COMPLETED) return E_INVALID;

    struct event_completed completed = {0};
    struct pb_reader r = pb_reader_make(head.body);
    struct pb_field f;
    bool ok = true;
    while (ok && pb_next_inline(&r, &f)) {
        switch (f.number) {
        case 1: completed.status = (enum orchestration_status)pb_int32(&f); break;
        case 2: ok = get_maybe(&f, &completed.result); break;
        case 3: completed.failure = raw_message(&f); break;
        }
    }
    if (!ok || r.failed) return E_INVALID;
    *out = completed;
    return OK;
}

void event_terminated_decode(struct bytes event, struct maybe *input, bool *recurse)
{
    struct event_head head;
    struct pb_field f;
    if (event_peek(event, &head) != OK || head.kind != EVENT_EXECUTION_TERMINATED) return;
    struct pb_reader r = pb_reader_make(head.body);
    while (pb_next(&r, &f)) {
        if (f.number == 1) get_maybe(&f, input);
        if (f.number == 2) *recurse = pb_bool(&f);
    }
}

/* fireAt is field 1 of TimerCreated. */
static bool fire_at_parts(struct bytes body, int64_t *seconds, int32_t *nanos)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    *seconds = 0;
    *nanos = 0;
    while (pb_next(&r, &f)) {
        if (f.number == 1 && !pb_get_timestamp(&f, seconds, nanos)) return false;
    }
    return !r.failed;
}

enum status event_fire_at_decode(struct bytes event, int64_t *fire_at_ms)
{
    struct event_head head;
    int64_t seconds = 0;
    int32_t nanos = 0;
    if (event_peek(event, &head) != OK) return E_INVALID;
    if (head.kind != EVENT_TIMER_CREATED || !fire_at_parts(head.body, &seconds, &nanos)) {
        return E_INVALID;
    }
    *fire_at_ms = event_timestamp_ms(seconds, nanos);
    /* That rounds up. One SDK cuts its clock to milliseconds, finds that a timer which fired in the
     * very one it was due has not fired yet, and makes another. */
    if (nanos % 1000000 == 0 && *fire_at_ms < INT64_MAX - 1) ++*fire_at_ms;
    assert(*fire_at_ms < INT64_MAX); /* which means never, elsewhere */
    return OK;
}

/* ---- reading actions ---- */

static bool schedule_field(const struct pb_field *f, struct action *a, bool is_child)
{
    uint32_t shift = is_child ? 1 : 0;
    assert(is_child == (a->kind == ACTION_CREATE_CHILD));
    if (is_child && f->number == 1) return get_bytes(f, &a->instance_id);
    if (f->number == 1 + shift) return get_bytes(f, &a->name);
    if (f->number == 2 + shift) return get_maybe(f, &a->version);
    if (f->number == 3 + shift) return get_maybe(f, &a->input);
    /* a task has tags 4 and trace 5, a child trace 5 and tags 6 */
    if (f->number == 5) a->trace = raw_message(f);
    return true;
}

static bool complete_field(const struct pb_field *f, struct action *a)
{
    switch (f->number) {
    case 1: a->status = (enum orchestration_status)pb_int32(f); return true;
    case 2: return get_maybe(f, &a->input);
    case 4: return get_maybe(f, &a->new_version);
    case 6: a->failure = raw_message(f); return true;
    default: return true;
    }
}

static bool send_event_field(const struct pb_field *f, struct action *a)
{
    struct bytes execution = BYTES_NONE;
    switch (f->number) {
    case 1: return f->wire == PB_LEN && instance_decode(f->bytes, &a->instance_id, &execution);
    case 2: return get_bytes(f, &a->name);
    case 3: return get_maybe(f, &a->input);
    default: return true;
    }
}

static bool terminate_field(const struct pb_field *f, struct action *a)
{
    switch (f->number) {
    case 1: return get_bytes(f, &a->instance_id);
    case 2: return get_maybe(f, &a->input);
    case 3: a->recurse = pb_bool(f); return true;
    default: return true;
    }
}

/* SendEntityMessageAction {1 signaled, 2 called, 3 lock requested, 4 unlock sent}: the bodies of
 * events. */
static bool entity_message_field(const struct pb_field *f, struct action *a)
{
    static const enum event_kind kinds[] = {
        EVENT_UNKNOWN,
        EVENT_ENTITY_SIGNALED,
        EVENT_ENTITY_CALLED,
        EVENT_ENTITY_LOCK_REQUESTED,
        EVENT_ENTITY_UNLOCK_SENT,
    };
    if (f->number >= sizeof kinds / sizeof kinds[0]) return true;
    a->entity_event = kinds[f->number];
    return get_bytes(f, &a->entity_body);
}

static bool action_field(const struct pb_field *f, struct action *a)
{
    switch (a->kind) {
    case ACTION_SCHEDULE_TASK: return schedule_field(f, a, false);
    case ACTION_CREATE_CHILD: return schedule_field(f, a, true);
    case ACTION_CREATE_TIMER:
        return f->number != 1 || pb_get_timestamp(f, &a->fire_at_s, &a->fire_at_ns);
    case ACTION_SEND_EVENT: return send_event_field(f, a);
    case ACTION_COMPLETE: return complete_field(f, a);
    case ACTION_TERMINATE: return terminate_field(f, a);
    case ACTION_SEND_ENTITY_MESSAGE: return entity_message_field(f, a);
    case ACTION_REWIND: return true;
    }
    unreachable("action_decode() lets no other kind pass");
}

/* The repeated field that is collected: tags, or events carried over. */
static uint32_t action_repeated(enum action_kind kind)
{
    switch (kind) {
    case ACTION_SCHEDULE_TASK: return 4;
    case ACTION_CREATE_CHILD: return 6;
    case ACTION_COMPLETE: return 5;
    case ACTION_CREATE_TIMER:
    case ACTION_SEND_EVENT:
    case ACTION_TERMINATE:
    case ACTION_SEND_ENTITY_MESSAGE:
    case ACTION_REWIND: return 0;
    }
    unreachable("action_decode() lets no other kind pass");
}

static bool action_body_decode(struct bytes body, struct arena *arena, struct action *a)
{
    struct tags_collector collected = {0};
    assert(a->kind >= ACTION_SCHEDULE_TASK); /* action_decode() lets no other pass */
    assert(a->kind <= ACTION_REWIND);
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    uint32_t repeated = action_repeated(a->kind);
    bool ok = true;

    while (ok && pb_next(&r, &f)) {
        if (f.number == repeated && f.wire == PB_LEN)
            tags_collect(&collected, arena, &f);
        else
            ok = action_field(&f, a);
    }
    struct bytes packed;
    ok = tags_finish(&collected, arena, &packed) && ok && !r.failed;
    if (a->kind == ACTION_COMPLETE)
        a->carryover = packed;
    else
        a->tags = packed;
    return ok;
}

static bool action_decode(struct bytes message, struct arena *arena, struct action *a)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    struct bytes body = BYTES_NONE;

    *a = (struct action){0};
    while (pb_next(&r, &f)) {
        if (f.number == 1 && f.wire == PB_VARINT) {
            a->id = pb_int32(&f);
        } else if (f.number >= ACTION_SCHEDULE_TASK && f.number <= ACTION_REWIND &&
                   f.wire == PB_LEN) {
            a->kind = (enum action_kind)f.number;
            body = f.bytes;
        }
    }
    if (r.failed || (int)a->kind == 0) return false;
    return action_body_decode(body, arena, a);
}

/* OrchestratorResponse: 2 actions, 3 customStatus, 6 orchestrationTraceContext */
enum status orchestrator_answer_decode(struct bytes response, struct arena *arena,
                                       struct orchestrator_answer *out)
{
    struct orchestrator_answer answer = {0};
    struct pb_reader r = pb_reader_make(response);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 2) answer.actions_n++;
        if (f.number == 3 && !get_maybe(&f, &answer.custom_status)) return E_INVALID;
        if (f.number == 6) answer.trace = raw_message(&f);
    }
    if (r.failed) return E_INVALID;
    if (answer.actions_n > LIMIT_ACTIONS_N) return E_LIMIT;
    if (answer.actions_n > 0) {
        answer.actions = arena_alloc(arena, answer.actions_n * sizeof *answer.actions);
        if (answer.actions == NULL) return E_NOMEM;
    }
    uint32_t n = 0;
    r = pb_reader_make(response);
    while (pb_next(&r, &f)) {
        if (f.number != 2) continue;
        assert(n < answer.actions_n);
        if (f.wire != PB_LEN || !action_decode(f.bytes, arena, &answer.actions[n]))
            return E_INVALID;
        n++;
    }
    assert(n == answer.actions_n);
    *out = answer;
    return OK;
}

/* ---- writing events ---- */

#define EVENT_HEAD_ROOM (1 + PB_VARINT_SIZE_MAX + 1 + PB_TIMESTAMP_ROOM)

/* Id and time; where to go on. There is EVENT_HEAD_ROOM. */
static uint8_t *event_head_store(uint8_t *at, int64_t now_ns, int32_t id)
{
    int64_t seconds;
    int32_t nanos;
    if (id != 0) {
        *at++ = FIELD_EVENT_ID << 3 | PB_VARINT;
        at = pb_store_int32(at, id);
    }
    pb_timestamp_split(now_ns, &seconds, &nanos);
    *at++ = FIELD_TIMESTAMP << 3 | PB_LEN;
    return pb_store_timestamp(at, seconds, nanos);
}

static struct pb_mark event_begin(struct buffer *out, int64_t now_ns, int32_t id,
                                  enum event_kind kind, size_t hint)
{
    assert(kind != EVENT_UNKNOWN);
    if (buffer_reserve(out, EVENT_HEAD_ROOM))
        out->len = (size_t)(event_head_store(out->ptr + out->len, now_ns, id) - out->ptr);
    return pb_begin(out, (uint32_t)kind, hint); /* fails too when that has failed */
}

static void put_maybe(struct buffer *out, uint32_t number, struct maybe value)
{
    pb_put_string_value(out, number, value.value, value.has);
}

static void put_raw(struct buffer *out, uint32_t number, struct maybe message)
{
    if (message.has) pb_put_bytes(out, number, message.value);
}

static void put_strings(struct buffer *out, uint32_t number, struct bytes packed)
{
    struct reader r = reader_make(packed);
    struct bytes one;
    while (strings_next(&r, &one)) pb_put_bytes(out, number, one);
    assert(!r.failed); /* of our own making */
}

static void put_instance(struct buffer *out, uint32_t number, struct bytes id,
                         const uint8_t *execution_id)
{
    struct pb_mark m = pb_begin(out, number, id.len + EXECUTION_TEXT_SIZE + 6);
    pb_put_plain_bytes(out, 1, id);
    if (execution_id != NULL) {
        char text[EXECUTION_TEXT_SIZE];
        execution_id_text(execution_id, text);
        pb_put_string_value(out, 2, bytes_make(text, sizeof text), true);
    }
    pb_end(out, m);
}

void event_started_write(struct buffer *out, int64_t now_ns, const struct event_started *s)
{
    struct pb_mark m = event_begin(out, now_ns, -1, EVENT_EXECUTION_STARTED,
                                   s->name.len + s->input.value.len + s->tags.len + 120);
    pb_put_plain_bytes(out, 1, s->name);
    put_maybe(out, 2, s->version);
    put_maybe(out, 3, s->input);
    put_instance(out, 4, s->instance_id, s->execution_id);
    if (s->has_parent) {
        struct pb_mark parent = pb_begin(out, 5, 100);
        pb_put_plain_int32(out, 1, s->parent.task_id);
        put_maybe(out, 2, s->parent.name);
        put_maybe(out, 3, s->parent.version);
        put_instance(out, 4, s->parent.instance_id,
                     s->parent.has_execution_id ? s->parent.execution_id : NULL);
        pb_end(out, parent);
    }
    if (s->has_scheduled) {
        int64_t seconds = s->scheduled_ms / 1000;
        int64_t ms = s->scheduled_ms % 1000;
        if (ms < 0) {
            ms += 1000;
            seconds--;
        }
        pb_put_timestamp_parts(out, 6, seconds, (int32_t)(ms * NS_PER_MS));
    }
    put_raw(out, 7, s->trace);
    put_strings(out, 9, s->tags);
    pb_end(out, m);
}

enum status event_started_rewrite(struct buffer *out, struct bytes event, struct arena *arena,
                                  const uint8_t execution_id[EXECUTION_ID_SIZE],
                                  const uint8_t *parent_execution_id)
{
    struct event_head head;
    struct event_started s;
    assert(event.ptr != out->ptr);
    if (event_head_decode(event, &head) != OK) return E_INVALID;
    enum status status = event_started_decode(event, arena, &s);
    if (status != OK) return status;
    memcpy(s.execution_id, execution_id, EXECUTION_ID_SIZE);
    if (parent_execution_id != NULL && s.has_parent) {
        memcpy(s.parent.execution_id, parent_execution_id, EXECUTION_ID_SIZE);
        s.parent.has_execution_id = true;
    }
    event_started_write(out, head.time_ns, &s);
    return OK;
}

void event_write_orchestrator_started(struct buffer *out, int64_t now_ns)
{
    /* twice in every turn, and nothing but its head */
    if (!buffer_reserve(out, EVENT_HEAD_ROOM + PB_PREFIX_SIZE_MAX + 1)) return;
    uint8_t *at = event_head_store(out->ptr + out->len, now_ns, -1);
    at = pb_store_tag(at, EVENT_ORCHESTRATOR_STARTED, PB_LEN);
    *at++ = 0;
    out->len = (size_t)(at - out->ptr);
}

void event_write_task_scheduled(struct buffer *out, int64_t now_ns, const struct action *a)
{
    assert(a->kind == ACTION_SCHEDULE_TASK);
    assert(a->id >= 0);
    struct pb_mark m = event_begin(out, now_ns, a->id, EVENT_TASK_SCHEDULED,
                                   a->name.len + a->input.value.len + a->tags.len + 10);
    pb_put_plain_bytes(out, 1, a->name);
    put_maybe(out, 2, a->version);
    put_maybe(out, 3, a->input);
    put_raw(out, 4, a->trace);
    put_strings(out, 5, a->tags);
    pb_end(out, m);
}

void event_write_child_created(struct buffer *out, int64_t now_ns, const struct action *a)
{
    assert(a->kind == ACTION_CREATE_CHILD);
    assert(a->id >= 0);
    assert(a->instance_id.len > 0); /* who leaves it to us has got one by now */
    struct pb_mark m =
        event_begin(out, now_ns, a->id, EVENT_CHILD_CREATED,
                    a->name.len + a->input.value.len + a->instance_id.len + a->tags.len + 12);
    pb_put_plain_bytes(out, 1, a->instance_id);
    pb_put_plain_bytes(out, 2, a->name);
    put_maybe(out, 3, a->version);
    put_maybe(out, 4, a->input);
    put_raw(out, 5, a->trace);
    put_strings(out, 6, a->tags);
    pb_end(out, m);
}

void event_write_timer_created(struct buffer *out, int64_t now_ns, const struct action *a)
{
    assert(a->kind == ACTION_CREATE_TIMER);
    assert(a->id >= 0);
    struct pb_mark m = event_begin(out, now_ns, a->id, EVENT_TIMER_CREATED, 14);
    pb_put_timestamp_parts(out, 1, a->fire_at_s, a->fire_at_ns);
    pb_end(out, m);
}

void event_write_event_sent(struct buffer *out, int64_t now_ns, const struct action *a)
{
    assert(a->kind == ACTION_SEND_EVENT);
    struct pb_mark m = event_begin(out, now_ns, a->id, EVENT_EVENT_SENT,
                                   a->name.len + a->input.value.len + a->instance_id.len + 10);
    pb_put_plain_bytes(out, 1, a->instance_id);
    pb_put_plain_bytes(out, 2, a->name);
    put_maybe(out, 3, a->input);
    pb_end(out, m);
}

void event_write_execution_completed(struct buffer *out, int64_t now_ns, int32_t id,
                                     const struct event_completed *completed)
{
    assert(completed->status != STATUS_CONTINUED_AS_NEW); /* which has no such event */
    struct pb_mark m = event_begin(out, now_ns, id, EVENT_EXECUTION_COMPLETED,
                                   completed->result.value.len + completed->failure.value.len + 10);
    pb_put_plain_varint(out, 1, (uint64_t)completed->status);
    put_maybe(out, 2, completed->result);
    put_raw(out, 3, completed->failure);
    pb_end(out, m);
}

void event_write_terminated(struct buffer *out, int64_t now_ns, struct maybe input, bool recurse)
{
    struct pb_mark m =
        event_begin(out, now_ns, -1, EVENT_EXECUTION_TERMINATED, input.value.len + 6);
    put_maybe(out, 1, input);
    pb_put_plain_varint(out, 2, recurse ? 1 : 0);
    pb_end(out, m);
}

static void write_with_reason(struct buffer *out, int64_t now_ns, enum event_kind kind,
                              struct maybe reason)
{
    assert(kind == EVENT_EXECUTION_SUSPENDED || kind == EVENT_EXECUTION_RESUMED ||
           kind == EVENT_EXECUTION_REWOUND); /* these have the reason in the same field */
    struct pb_mark m = event_begin(out, now_ns, -1, kind, reason.value.len + 4);
    put_maybe(out, 1, reason);
    pb_end(out, m);
}

void event_write_suspended(struct buffer *out, int64_t now_ns, struct maybe reason)
{
    write_with_reason(out, now_ns, EVENT_EXECUTION_SUSPENDED, reason);
}

void event_write_resumed(struct buffer *out, int64_t now_ns, struct maybe reason)
{
    write_with_reason(out, now_ns, EVENT_EXECUTION_RESUMED, reason);
}

void event_write_rewound(struct buffer *out, int64_t now_ns, struct maybe reason)
{
    write_with_reason(out, now_ns, EVENT_EXECUTION_REWOUND, reason);
}

void event_write_raised(struct buffer *out, int64_t now_ns, struct bytes name, struct maybe input)
{
    struct pb_mark m =
        event_begin(out, now_ns, -1, EVENT_EVENT_RAISED, name.len + input.value.len + 8);
    pb_put_plain_bytes(out, 1, name);
    put_maybe(out, 2, input);
    pb_end(out, m);
}

static void write_done(struct buffer *out, int64_t now_ns, enum event_kind kind, int32_t ref,
                       struct maybe result)
{
    assert(kind == EVENT_TASK_COMPLETED || kind == EVENT_CHILD_COMPLETED);
    struct pb_mark m = event_begin(out, now_ns, -1, kind, result.value.len + 10);
    pb_put_plain_int32(out, 1, ref);
    put_maybe(out, 2, result);
    pb_end(out, m);
}

static void write_failed(struct buffer *out, int64_t now_ns, enum event_kind kind, int32_t ref,
                         struct bytes failure)
{
    assert(kind == EVENT_TASK_FAILED || kind == EVENT_CHILD_FAILED);
    struct pb_mark m = event_begin(out, now_ns, -1, kind, failure.len + 10);
    pb_put_plain_int32(out, 1, ref);
    pb_put_bytes(out, 2, failure);
    pb_end(out, m);
}

void event_write_task_completed(struct buffer *out, int64_t now_ns, int32_t task_id,
                                struct maybe result)
{
    write_done(out, now_ns, EVENT_TASK_COMPLETED, task_id, result);
}

void event_write_task_failed(struct buffer *out, int64_t now_ns, int32_t task_id,
                             struct bytes failure)
{
    write_failed(out, now_ns, EVENT_TASK_FAILED, task_id, failure);
}

void event_write_child_completed(struct buffer *out, int64_t now_ns, int32_t task_id,
                                 struct maybe result)
{
    write_done(out, now_ns, EVENT_CHILD_COMPLETED, task_id, result);
}

void event_write_child_failed(struct buffer *out, int64_t now_ns, int32_t task_id,
                              struct bytes failure)
{
    write_failed(out, now_ns, EVENT_CHILD_FAILED, task_id, failure);
}

void event_write_timer_fired(struct buffer *out, int64_t now_ns, int32_t timer_id,
                             struct bytes timer_created_event)
{
    struct event_head head;
    int64_t seconds = 0;
    int32_t nanos = 0;
    enum status status = event_peek(timer_created_event, &head);
    assert(status == OK); /* it is in our history: it was decoded before */
    assert(head.kind == EVENT_TIMER_CREATED);
    bool is_read = fire_at_parts(head.body, &seconds, &nanos);
    assert(is_read);
    struct pb_mark m = event_begin(out, now_ns, -1, EVENT_TIMER_FIRED, 18);
    pb_put_timestamp_parts(out, 1, seconds, nanos);
    pb_put_plain_int32(out, 2, timer_id);
    pb_end(out, m);
}

/* ---- TaskFailureDetails {1 errorType, 2 errorMessage, 5 isNonRetriable} ---- */

void failure_write(struct buffer *out, const char *type, struct bytes message, bool is_final)
{
    assert(type[0] != '\0'); /* SDKs look at it */
    pb_put_plain_bytes(out, 1, bytes_of_text(type));
    pb_put_plain_bytes(out, 2, message);
    pb_put_plain_varint(out, 5, is_final ? 1 : 0);
}

struct bytes failure_message(struct bytes failure)
{
    struct pb_reader r = pb_reader_make(failure);
    struct pb_field f;
    struct bytes message = BYTES_NONE;
    while (pb_next(&r, &f)) {
        if (f.number == 2 && f.wire == PB_LEN) message = f.bytes;
    }
    return message;
}

/* Field `number` of its TaskFailureDetails. */
static struct bytes failure_field(struct bytes event, uint32_t number)
{
    struct event_head head;
    struct pb_field f;
    struct bytes value = BYTES_NONE;
    if (event_head_decode(event, &head) != OK) return BYTES_NONE;
    if (head.kind != EVENT_TASK_FAILED && head.kind != EVENT_CHILD_FAILED &&
        head.kind != EVENT_ENTITY_FAILED) {
        return BYTES_NONE;
    }
    struct pb_reader r = pb_reader_make(head.body);
    while (pb_next(&r, &f)) {
        if (f.number != 2 || f.wire != PB_LEN) continue;
        struct pb_reader failure = pb_reader_make(f.bytes);
        while (pb_next(&failure, &f)) {
            if (f.number == number && f.wire == PB_LEN) value = f.bytes;
        }
    }
    return value;
}

struct bytes event_failure_type(struct bytes event) { return failure_field(event, 1); }

struct bytes event_failure_message(struct bytes event) { return failure_field(event, 2); }

bool failure_is_final(struct bytes failure)
{
    struct pb_reader r = pb_reader_make(failure);
    struct pb_field f;
    bool is_final = false;
    while (pb_next(&r, &f)) {
        if (f.number == 5 && f.wire == PB_VARINT) is_final = pb_bool(&f);
    }
    return is_final;
}

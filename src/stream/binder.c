/* SPDX-License-Identifier: Apache-2.0
 *
 * Bound streams: each message starts an instance, exactly once.
 *
 *   learn ──> read ahead, up to a window ──> send, in order for each part ──> acknowledged
 *     ▲                                            │ not now, or one is missing: that part goes
 *     └──── the starter has forgotten something ───┘ back to what was acknowledged, and tries again
 *
 * The position (group "workflow") moves over what was acknowledged, without gap, and is written now
 * and then: it may be behind, never ahead. What is sent again after a crash the starter recognises
 * by its position. A message that can never start anything becomes a dead letter in the same frame
 * as the position that passes it, so that it does not become two. One that must wait stops those of
 * its part behind it and nobody else; the window bounds how far the others get ahead.
 */
#include "stream/core_state.h"
#include "stream/state.h"

#include "base/log.h"
#include "base/siphash.h"

#include <inttypes.h>
#include <stdio.h>

#define BACK_OFF_LEAST_NS (5 * NS_PER_MS)
#define BACK_OFF_MOST_NS NS_PER_S
#define BINDER_SIZE_MAX ((size_t)32 << 20) /* bytes of messages under way, of all partitions */
#define READ_SIZE_MAX (STREAM_READ_SIZE_MAX + 2 * STREAM_VALUE_SIZE_MAX)

enum slot_state { SLOT_WAITING, SLOT_SENT, SLOT_BAD, SLOT_DONE };

struct slot {
    struct stream_start start;
    struct bound *bound;
    enum slot_state state;
    uint32_t part;
    size_t size;      /* of all of it, with the message behind it */
    struct bytes raw; /* the message */
};

struct part {
    uint64_t acknowledged; /* position of the last one that was taken */
    uint64_t sent;         /* of the last one under way */
    uint32_t sent_n;       /* under way */
    bool is_back;          /* goes back to `acknowledged` when nothing is under way */
    int64_t not_before_ns;
    int64_t back_off_ns;
};

/* One partition of a bound stream. */
struct bound {
    struct list node;
    struct streams *s;
    uint32_t number;
    uint32_t partition;
    bool is_gone; /* unbound or deleted: ends when nothing is under way */
    bool is_learned;
    bool is_learning;
    bool is_reading;
    struct stream_positions positions;
    struct stream_request read;
    uint64_t base;       /* offset of the first message that is not done */
    uint32_t n;          /* slots from it on */
    struct slot **slots; /* ring by offset */
    uint32_t sent_n;
    uint64_t checkpoint;
    int64_t checkpoint_ns;
    int64_t not_before_ns;
    bool is_full_told;
    char workflow[STREAM_WORKFLOW_SIZE_MAX + 1];
    char hub[STREAM_NAME_SIZE_MAX + 1];
    struct part *parts;
};

struct stream_binder {
    struct list bounds;
    struct queue starts;    /* given back */
    struct queue positions; /* the same */
    size_t size;
    bool is_stopping;
    struct stream_request bury;
};

/* ---- given back, from any thread ---- */

static void wake(struct streams *s)
{
    if (s->options.wake != NULL) s->options.wake(s->options.wake_user);
}

void stream_start_done(struct stream_start *start)
{
    struct streams *s = start->streams;

    list_node_init(&start->node);
    bool is_pushed = queue_push(&s->binder->starts, &start->node);
    assert(is_pushed);
    wake(s);
}

void stream_positions_done(struct stream_positions *positions)
{
    struct streams *s = positions->streams;

    list_node_init(&positions->node);
    bool is_pushed = queue_push(&s->binder->positions, &positions->node);
    assert(is_pushed);
    wake(s);
}

/* ---- life ---- */

enum status streams_binder_init(struct streams *s)
{
    if (s->options.starter == NULL) return OK;
    assert(s->options.starter->parts_n > 0);
    assert(s->options.bound_window_n > 0);
    s->binder = mem_take_zero(&s->own, sizeof *s->binder);
    if (s->binder == NULL) return E_NOMEM;
    list_init(&s->binder->bounds);
    queue_init(&s->binder->starts, SIZE_MAX);
    queue_init(&s->binder->positions, SIZE_MAX);
    stream_request_init(&s->binder->bury, STREAM_REQUEST_BURY, 4 * STREAM_VALUE_SIZE_MAX);
    return OK;
}

static void slot_free(struct bound *b, struct slot *slot)
{
    b->s->binder->size -= slot->size;
    mem_give(&b->s->own, slot, slot->size);
}

static void bound_free(struct bound *b)
{
    struct streams *s = b->s;
    uint32_t window_n = s->options.bound_window_n;

    for (uint32_t i = 0; i < b->n; i++) slot_free(b, b->slots[(b->base + i) % window_n]);
    list_remove(&b->node);
    stream_request_release(&b->read);
    mem_give(&s->own, b->slots, window_n * sizeof(struct slot *));
    mem_give(&s->own, b->parts, s->options.starter->parts_n * sizeof *b->parts);
    mem_give(&s->own, b->positions.positions, s->options.starter->parts_n * sizeof(uint64_t));
    mem_give(&s->own, b, sizeof *b);
}

void streams_binder_release(struct streams *s)
{
    struct list *node;
    struct list rest;

    if (s->binder == NULL) return;
    list_init(&rest);
    (void)queue_take_all(&s->binder->starts, &rest, 0);
    list_init(&rest);
    (void)queue_take_all(&s->binder->positions, &rest, 0);
    while ((node = list_first(&s->binder->bounds)) != NULL) {
        bound_free(container_of(node, struct bound, node));
    }
    stream_request_release(&s->binder->bury);
    queue_release(&s->binder->starts);
    queue_release(&s->binder->positions);
    mem_give(&s->own, s->binder, sizeof *s->binder);
    s->binder = NULL;
}

static bool is_busy(const struct bound *b)
{
    return b->sent_n > 0 || b->is_learning || b->is_reading;
}

bool streams_binder_is_quiet(const struct streams *s)
{
    if (s->binder == NULL) return true;
    for (struct list *at = list_first(&s->binder->bounds); at != NULL;
         at = list_next(&s->binder->bounds, at)) {
        if (is_busy(container_of(at, struct bound, node))) return false;
    }
    return true;
}

bool streams_binder_has_sent(const struct streams *s)
{
    if (s->binder == NULL) return false;
    for (struct list *at = list_first(&s->binder->bounds); at != NULL;
         at = list_next(&s->binder->bounds, at)) {
        if (container_of(at, struct bound, node)->sent_n > 0) return true;
    }
    return false;
}

void streams_binder_stop(struct streams *s)
{
    if (s->binder != NULL) s->binder->is_stopping = true;
}

void streams_binder_forget(struct streams *s, uint32_t number)
{
    if (s->binder == NULL) return;
    for (struct list *at = list_first(&s->binder->bounds); at != NULL;
         at = list_next(&s->binder->bounds, at)) {
        struct bound *b = container_of(at, struct bound, node);
        if (b->number == number) b->is_gone = true;
    }
}

/* ---- reading ahead ---- */

static struct slot *slot_at(const struct bound *b, uint64_t offset)
{
    return b->slots[offset % b->s->options.bound_window_n];
}

static enum status slot_new(struct bound *b, const struct stream_message *message)
{
    struct streams *s = b->s;
    size_t raw_size = stream_message_size(message);
    size_t size = sizeof(struct slot) + raw_size;
    struct slot *slot = mem_take_zero(&s->own, size);

    if (slot == NULL) return E_NOMEM;
    uint8_t *raw = (uint8_t *)(slot + 1);
    struct buffer copy = {.ptr = raw, .size = raw_size};
    stream_message_write(&copy, message);
    assert(copy.len == raw_size);
    *slot = (struct slot){
        .bound = b,
        .size = size,
        .raw = bytes_make(raw, raw_size),
        .start =
            {
                .streams = s,
                .hub = bytes_of_text(b->hub),
                .workflow = bytes_of_text(b->workflow),
                .id = bytes_make(raw + STREAM_MESSAGE_HEAD_SIZE, message->key.len),
                .input = bytes_make(raw + STREAM_MESSAGE_HEAD_SIZE + message->key.len,
                                    message->value.len),
                .position = message->offset + 1,
            },
    };
    memcpy(slot->start.source, b->positions.source, sizeof slot->start.source);
    list_node_init(&slot->start.node);
    if (!message->has_key || message->key.len == 0) {
        slot->state = SLOT_BAD;
        (void)snprintf(slot->start.text, sizeof slot->start.text,
                       "the message has no key to be the instance's id");
    } else if (message->kind != STREAM_VALUE_JSON) {
        slot->state = SLOT_BAD;
        (void)snprintf(slot->start.text, sizeof slot->start.text, "the value is not JSON");
    } else {
        slot->part =
            s->options.starter->part_of(s->options.starter->user, slot->start.hub, slot->start.id);
        assert(slot->part < s->options.starter->parts_n);
        /* It was taken before a crash, or before this part went back. */
        if (slot->start.position <= b->parts[slot->part].acknowledged) slot->state = SLOT_DONE;
    }
    s->binder->size += size;
    b->slots[message->offset % s->options.bound_window_n] = slot;
    b->n++;
    return OK;
}

static void read_done(struct stream_request *request)
{
    struct bound *b = request->user;
    struct reader at = reader_make(buffer_view(&request->answer));
    struct stream_message message;

    b->is_reading = false;
    if (request->status != OK) {
        b->not_before_ns = b->s->now_ns + BACK_OFF_MOST_NS;
        return;
    }
    while (stream_answer_next(&at, &message)) {
        if (message.offset != b->base + b->n) break; /* it was unbound and bound meanwhile */
        if (slot_new(b, &message) != OK) {
            b->not_before_ns = b->s->now_ns + BACK_OFF_MOST_NS;
            return;
        }
    }
}

static void read_ahead(struct bound *b, const struct stream_partition *partition)
{
    struct streams *s = b->s;
    uint32_t free_n = s->options.bound_window_n - b->n;
    uint64_t from = b->base + b->n;

    if (b->is_reading || from >= partition->next || s->now_ns < b->not_before_ns) return;
    if (b->n > 0 && free_n < s->options.bound_window_n / 2) return;
    if (free_n == 0 || s->binder->size > BINDER_SIZE_MAX) return;
    stream_request_again(&b->read);
    b->read.stream = bytes_of_text(partition->stream->name);
    b->read.read.partition = b->partition;
    b->read.read.from_kind = STREAM_FROM_OFFSET;
    b->read.read.offset = from;
    b->read.read.limit = free_n;
    b->is_reading = true;
    s->under_way_n++;
    streams_run(s, &b->read);
}

/* ---- sending ---- */

static void hold_back(struct bound *b, struct part *part)
{
    part->back_off_ns = part->back_off_ns == 0 ? BACK_OFF_LEAST_NS : part->back_off_ns * 2;
    if (part->back_off_ns > BACK_OFF_MOST_NS) part->back_off_ns = BACK_OFF_MOST_NS;
    part->not_before_ns = b->s->now_ns + part->back_off_ns;
}

static void settle_part(struct part *part)
{
    if (part->sent_n > 0 || !part->is_back) return;
    part->is_back = false;
    part->sent = part->acknowledged;
}

static void on_start_done(struct slot *slot)
{
    struct bound *b = slot->bound;
    struct part *part = &b->parts[slot->part];

    assert(slot->state == SLOT_SENT);
    b->sent_n--;
    part->sent_n--;
    switch (slot->start.status) {
    case OK:
        slot->state = SLOT_DONE;
        part->acknowledged = slot->start.position;
        part->back_off_ns = 0;
        b->s->counts.started_n++;
        break;
    case E_EXISTS:
    case E_INVALID:
        slot->state = SLOT_BAD;
        part->is_back = true; /* those behind it have named it as their predecessor */
        break;
    case E_STALE:
        /* Behind one that was refused; or else somebody has forgotten something. */
        if (slot->start.after == part->acknowledged) b->is_learned = false;
        slot->state = SLOT_WAITING;
        part->is_back = true;
        break;
    case E_NOT_FOUND:
    case E_PRECONDITION:
    case E_LIMIT:
    case E_NOMEM:
    case E_NOSPACE:
    case E_IO:
    case E_CORRUPT:
    case E_VERSION:
    case E_BUSY:
    case E_CLOSED:
    case E_UNAVAILABLE:
    case E_TIMEOUT:
    case E_UNSUPPORTED:
        slot->state = SLOT_WAITING;
        part->is_back = true;
        hold_back(b, part);
        break;
    }
    settle_part(part);
}

static void send_slots(struct bound *b)
{
    struct streams *s = b->s;

    enum hold_phase phase = hold_phase(&s->hold);

    if (!b->is_learned || s->binder->is_stopping) return;
    if (phase != HOLD_NONE && phase != HOLD_HELD) return;
    for (uint64_t offset = b->base; offset < b->base + b->n; offset++) {
        struct slot *slot = slot_at(b, offset);
        if (slot->state != SLOT_WAITING) continue;
        struct part *part = &b->parts[slot->part];
        if (part->is_back || s->now_ns < part->not_before_ns) continue;
        slot->start.after = part->sent;
        slot->start.status = OK;
        slot->start.text[0] = '\0';
        slot->state = SLOT_SENT;
        if (!s->options.starter->start(s->options.starter->user, &slot->start)) {
            slot->state = SLOT_WAITING;
            hold_back(b, part);
            continue;
        }
        part->sent = slot->start.position;
        part->sent_n++;
        b->sent_n++;
    }
}

/* ---- what is done ---- */

/* The letter, and the position that passes it, in one frame. */
static enum status bury(struct bound *b, struct stream_partition *partition, struct slot *slot)
{
    struct streams *s = b->s;
    struct stream_request *request = &s->binder->bury;

    stream_request_again(request);
    buffer_append_bytes(&request->answer, slot->raw);
    if (request->answer.failed) return E_NOMEM;
    request->is_read = true;
    request->bury.number = b->number;
    request->bury.partition = b->partition;
    request->bury.offset = b->base;
    request->bury.is_queued = false;
    request->bury.reason = bytes_of_text(slot->start.text);
    /* Room for the position first: it must not fail after the letter. */
    if (!buffer_reserve(&s->open->payload, 4 * STREAM_VALUE_SIZE_MAX)) {
        s->open->payload.failed = false;
        return E_NOMEM;
    }
    if (b->checkpoint == 0 ||
        stream_find_group(partition->stream, BYTES_LITERAL(STREAM_GROUP_WORKFLOW)) == NULL) {
        enum status status = stream_core_bound(&s->core, partition->stream, b->partition,
                                               b->checkpoint, &s->open->payload);
        if (status != OK) return status;
    }
    bool is_answered = stream_core_step(&s->core, request, s->now_ns, &s->open->payload);
    assert(is_answered);
    if (request->status != OK) return request->status;
    enum status status = stream_core_bound(&s->core, partition->stream, b->partition, b->base + 1,
                                           &s->open->payload);
    assert(status == OK); /* the group is there, and so is the room */
    b->checkpoint = b->base + 1;
    b->checkpoint_ns = s->now_ns;
    return OK;
}

static void advance(struct bound *b, struct stream_partition *partition)
{
    struct streams *s = b->s;

    while (b->n > 0) {
        struct slot *slot = slot_at(b, b->base);
        if (slot->state == SLOT_BAD && s->now_ns >= b->not_before_ns) {
            enum status status = bury(b, partition, slot);
            if (status != OK) {
                if (status == E_LIMIT && !b->is_full_told) {
                    log_error("alert: stream '%s': %s: its workflow gets no more messages",
                              partition->stream->name, s->binder->bury.text);
                    b->is_full_told = true;
                }
                b->not_before_ns = s->now_ns + BACK_OFF_MOST_NS;
                break;
            }
            b->is_full_told = false;
            slot->state = SLOT_DONE;
        }
        if (slot->state != SLOT_DONE) break;
        slot_free(b, slot);
        b->base++;
        b->n--;
    }
    uint64_t done_n = b->base - b->checkpoint;
    if (done_n == 0) return;
    if (done_n < s->options.checkpoint_n &&
        s->now_ns - b->checkpoint_ns < s->options.checkpoint_ms * NS_PER_MS) {
        return;
    }
    if (stream_core_bound(&s->core, partition->stream, b->partition, b->base, &s->open->payload) !=
        OK) {
        return;
    }
    b->checkpoint = b->base;
    b->checkpoint_ns = s->now_ns;
}

/* ---- which partitions are bound ---- */

static struct bound *find(const struct streams *s, uint32_t number, uint32_t partition)
{
    for (struct list *at = list_first(&s->binder->bounds); at != NULL;
         at = list_next(&s->binder->bounds, at)) {
        struct bound *b = container_of(at, struct bound, node);
        if (b->number == number && b->partition == partition) return b;
    }
    return NULL;
}

/* False: no memory now. */
static bool bind(struct streams *s, struct stream_partition *partition)
{
    struct stream *stream = partition->stream;
    struct bound *b = mem_take_zero(&s->own, sizeof *b);
    if (b == NULL) return false;
    b->s = s;
    list_push_back(&s->binder->bounds, &b->node);
    stream_request_init(&b->read, STREAM_REQUEST_READ, READ_SIZE_MAX);
    b->slots = mem_take_zero(&s->own, s->options.bound_window_n * sizeof(struct slot *));
    b->parts = mem_take_zero(&s->own, s->options.starter->parts_n * sizeof *b->parts);
    b->positions.positions = mem_take_zero(&s->own, s->options.starter->parts_n * sizeof(uint64_t));
    if (b->slots == NULL || b->parts == NULL || b->positions.positions == NULL) {
        bound_free(b);
        return false;
    }
    b->number = stream->number;
    b->partition = partition->index;
    b->read.done = read_done;
    b->read.user = b;
    b->positions.streams = s;
    /* With a name of this directory in front: in another one the same numbers are other messages,
     * and the starter must not take them for those it knows. */
    uint32_t directory = (uint32_t)siphash64(s->core.secret, BYTES_LITERAL("source"));
    (void)snprintf(b->positions.source, sizeof b->positions.source,
                   "%08" PRIx32 "/%" PRIu32 "/%" PRIu32, directory, b->number, b->partition);
    memcpy(b->workflow, stream->settings.workflow, sizeof b->workflow);
    memcpy(b->hub, stream->settings.hub, sizeof b->hub);
    struct stream_group *group = stream_find_group(stream, BYTES_LITERAL(STREAM_GROUP_WORKFLOW));
    b->base = b->checkpoint = stream_group_position(group, partition);
    b->checkpoint_ns = s->now_ns;
    return true;
}

/* New ones, and those whose stream changed. */
static void look_for_bound(struct streams *s)
{
    for (uint32_t i = 1; i < s->core.streams_n; i++) {
        struct stream *stream = s->core.streams[i];
        if (stream->settings.workflow[0] == '\0') continue;
        while (stream->bound_n < stream->settings.partitions_n) {
            uint32_t p = stream->bound_n;
            if (find(s, stream->number, p) == NULL && !bind(s, stream->partitions[p])) break;
            stream->bound_n++;
        }
    }
}

static bool is_stale(const struct bound *b, const struct stream *stream)
{
    return strcmp(b->workflow, stream->settings.workflow) != 0 ||
           strcmp(b->hub, stream->settings.hub) != 0;
}

static void learn(struct bound *b)
{
    struct streams *s = b->s;

    if (b->is_learned || b->is_learning || b->sent_n > 0 || s->binder->is_stopping) return;
    if (s->now_ns < b->not_before_ns) return;
    if (!s->options.starter->learn(s->options.starter->user, &b->positions)) {
        b->not_before_ns = s->now_ns + BACK_OFF_MOST_NS / 10;
        return;
    }
    b->is_learning = true;
}

static void on_learned(struct bound *b)
{
    b->is_learning = false;
    if (b->positions.status != OK) {
        b->not_before_ns = b->s->now_ns + BACK_OFF_MOST_NS / 10;
        return;
    }
    b->is_learned = true;
    for (uint32_t k = 0; k < b->s->options.starter->parts_n; k++) {
        b->parts[k].acknowledged = b->parts[k].sent = b->positions.positions[k];
        b->parts[k].is_back = false;
    }
    for (uint64_t offset = b->base; offset < b->base + b->n; offset++) {
        struct slot *slot = slot_at(b, offset);
        if (slot->state != SLOT_WAITING) continue;
        if (slot->start.position <= b->parts[slot->part].acknowledged) slot->state = SLOT_DONE;
    }
}

static void take_back(struct streams *s)
{
    struct list given;
    struct list *node;

    list_init(&given);
    (void)queue_take_all(&s->binder->starts, &given, 0);
    while ((node = list_pop_front(&given)) != NULL) {
        struct stream_start *start = container_of(node, struct stream_start, node);
        on_start_done(container_of(start, struct slot, start));
    }
    (void)queue_take_all(&s->binder->positions, &given, 0);
    while ((node = list_pop_front(&given)) != NULL) {
        struct stream_positions *positions = container_of(node, struct stream_positions, node);
        on_learned(container_of(positions, struct bound, positions));
    }
}

/* True: it is there no more. */
static bool bound_turn(struct bound *b)
{
    struct streams *s = b->s;
    struct stream_partition *partition = stream_core_partition(&s->core, b->number, b->partition);

    if (partition == NULL || is_stale(b, partition->stream)) b->is_gone = true;
    if (partition != NULL && !s->is_dead && !b->is_gone) {
        advance(b, partition);
        learn(b);
        if (b->is_learned && !s->binder->is_stopping) read_ahead(b, partition);
        send_slots(b);
        advance(b, partition);
        return false;
    }
    if (is_busy(b)) return false;
    if (partition != NULL) partition->stream->bound_n = 0;
    bound_free(b);
    return true;
}

void streams_binder_turn(struct streams *s)
{
    if (s->binder == NULL) return;
    take_back(s);
    if (!s->binder->is_stopping) look_for_bound(s);
    struct list *at = list_first(&s->binder->bounds);
    while (at != NULL) {
        struct list *next = list_next(&s->binder->bounds, at);
        (void)bound_turn(container_of(at, struct bound, node));
        at = next;
    }
}

int64_t streams_binder_next_ns(const struct streams *s)
{
    int64_t next_ns = INT64_MAX;

    if (s->binder == NULL || s->binder->is_stopping) return next_ns;
    for (struct list *at = list_first(&s->binder->bounds); at != NULL;
         at = list_next(&s->binder->bounds, at)) {
        const struct bound *b = container_of(at, struct bound, node);
        int64_t own_ns = INT64_MAX;
        if (b->base > b->checkpoint) {
            own_ns = b->checkpoint_ns + s->options.checkpoint_ms * NS_PER_MS;
        }
        if (b->not_before_ns > s->now_ns && b->not_before_ns < own_ns) own_ns = b->not_before_ns;
        for (uint32_t k = 0; b->n > 0 && k < s->options.starter->parts_n; k++) {
            int64_t part_ns = b->parts[k].not_before_ns;
            if (part_ns > s->now_ns && part_ns < own_ns) own_ns = part_ns;
        }
        if (own_ns < next_ns) next_ns = own_ns;
    }
    return next_ns;
}

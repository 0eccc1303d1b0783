/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetching messages: from chunks at once, from segments by a job in the reading lane, one stretch
 * at a time. What a step wanted is bounded by what was there at the step, and is fetched after its
 * batch is durable: nobody sees a message that a crash could take back.
 */
#include "stream/letter.h"
#include "stream/state.h"

#include "base/log.h"

#define STRETCH_SIZE ((size_t)256 << 10)

enum fetch { FETCH_NEXT, FETCH_LATER, FETCH_END };

/* ---- the lane ---- */

static void run(struct job *job)
{
    struct stream_reading *r = container_of(job, struct stream_reading, job);

    if (r->is_scan) {
        struct stream_scan scan;
        r->status = stream_segment_scan(r->io, r->stream, r->partition, r->first, r->end,
                                        &r->scan_buffer, &r->mem, &r->marks, &scan);
        if (r->status == OK && scan.end != r->end) r->status = E_CORRUPT;
        return;
    }
    r->status = stream_segment_read(r->io, r->stream, r->partition, r->first, r->position,
                                    r->buffer.ptr, r->buffer.size, &r->got);
}

static void done(struct job *job) { container_of(job, struct stream_reading, job)->is_done = true; }

enum status streams_reads_init(struct streams *s)
{
    struct stream_reading *r = &s->reading;

    r->job = (struct job){.run = run, .done = done};
    r->io = s->io;
    list_init(&r->queue);
    buffer_init(&r->buffer, &s->own);
    mem_init(&r->mem, (size_t)64 << 20);
    buffer_init(&r->scan_buffer, &r->mem);
    return buffer_reserve(&r->buffer, STRETCH_SIZE) ? OK : E_NOMEM;
}

void streams_reads_release(struct streams *s)
{
    struct stream_reading *r = &s->reading;

    buffer_release(&r->buffer);
    buffer_release(&r->scan_buffer);
    mem_give(&r->mem, r->marks.items, r->marks.room * sizeof *r->marks.items);
    r->marks = (struct stream_marks){0};
    mem_release(&r->mem);
}

/* ---- into the answer ---- */

static struct stream_want *want_of(const struct stream_request *request)
{
    size_t n = request->wants.len / sizeof(struct stream_want);

    if (request->want_at >= n) return NULL;
    return (struct stream_want *)(void *)request->wants.ptr + request->want_at;
}

static bool is_reading(const struct stream_request *request)
{
    return request->kind == STREAM_REQUEST_READ || request->kind == STREAM_REQUEST_GROUP_READ ||
           request->kind == STREAM_REQUEST_SEEK;
}

static bool is_wanted(const struct stream_request *request, const struct stream_message *message)
{
    if (!is_reading(request)) return true;
    if (request->read.from_kind == STREAM_FROM_TIME && request->kind != STREAM_REQUEST_GROUP_READ &&
        message->time_ns < request->read.time_ns) {
        return false;
    }
    if (request->kind != STREAM_REQUEST_READ || request->read.of <= 1) return true;
    return stream_hash_share(message->has_key, message->key, message->offset, request->read.of) ==
           request->read.reader;
}

static bool is_full(const struct stream_request *request, size_t more)
{
    if (request->items_n == 0) return false;
    if (is_reading(request) && request->items_n >= request->read.limit) return true;
    return request->answer.len + more > STREAM_READ_SIZE_MAX;
}

/* Where a letter comes from. */
static struct bytes name_of_letter(const struct streams *s, struct bytes raw)
{
    struct stream_message message;
    struct stream_letter_content letter;
    size_t size;

    enum status status = stream_message_read(raw, &message, &size);
    assert(status == OK); /* it was just read */
    if (!stream_letter_read(message.value, &letter)) return BYTES_NONE;
    const struct stream *stream = stream_core_by_number(&s->core, letter.stream);
    return stream == NULL ? BYTES_NONE : bytes_of_text(stream->name);
}

static void put(struct streams *s, struct stream_request *request, const struct stream_want *want,
                struct bytes raw)
{
    if (request->kind == STREAM_REQUEST_RECEIVE) {
        char text[STREAM_TOKEN_TEXT_SIZE];
        struct stream_token token = {
            .stream = want->stream,
            .partition = want->partition,
            .offset = want->from,
            .delivery = want->delivery,
        };
        stream_token_sign(&token, s->core.secret);
        stream_token_text(&token, text);
        buffer_bytes(&request->answer, bytes_make(text, sizeof text));
        buffer_signed(&request->answer, want->until_ns);
    }
    if (request->kind == STREAM_REQUEST_LETTERS || request->kind == STREAM_REQUEST_LETTER) {
        buffer_bytes(&request->answer, name_of_letter(s, raw));
    }
    buffer_append_bytes(&request->answer, raw);
    request->items_n++;
}

/* Takes what is wanted of these messages, which begin with one at or before want->from. FETCH_END:
 * the answer is full, or failed. *needed: a message goes beyond the data. */
static enum fetch take(struct streams *s, struct stream_request *request, struct bytes data,
                       size_t *needed)
{
    struct stream_want *want = want_of(request);
    struct stream_message message;
    size_t size;

    *needed = 0;
    while (want->from < want->end) {
        enum status status = stream_message_read(data, &message, &size);
        if (status == E_NOT_FOUND) {
            *needed = size;
            return FETCH_NEXT;
        }
        if (status != OK || message.offset > want->from) {
            request->status = E_CORRUPT;
            return FETCH_END;
        }
        struct bytes raw = bytes_make(data.ptr, size);
        data = bytes_make(data.ptr + size, data.len - size);
        if (message.offset < want->from) continue;
        if (is_wanted(request, &message)) {
            if (is_full(request, size)) return FETCH_END;
            size_t len = request->answer.len;
            put(s, request, want, raw);
            if (request->answer.failed) {
                request->answer.failed = false;
                request->answer.len = len;
                request->items_n--;
                if (request->items_n == 0) request->status = E_NOMEM;
                return FETCH_END;
            }
        }
        want->from++;
        request->next = want->from;
    }
    return FETCH_NEXT;
}

/* ---- from where ---- */

static void submit(struct streams *s, struct stream_request *request,
                   const struct stream_partition *partition, const struct stream_segment *segment,
                   uint64_t offset)
{
    struct stream_reading *r = &s->reading;
    uint64_t at_offset;

    assert(r->request == NULL);
    r->request = request;
    r->stream = partition->stream->number;
    r->partition = partition->index;
    r->first = segment->first;
    r->end = segment->end;
    r->is_scan = !segment->is_marked && segment->marks.n == 0;
    r->position = stream_segment_position(segment, offset, &at_offset);
    r->is_done = false;
    s->env->ops->submit(s->env, LANE_READ, &r->job);
}

/* A search by time need not begin at the front. */
static void skip_to_time(struct stream_request *request, struct stream_want *want,
                         const struct stream_partition *partition)
{
    const struct stream_segments *segments = partition->segments;

    if (!is_reading(request) || request->read.from_kind != STREAM_FROM_TIME) return;
    if (request->kind == STREAM_REQUEST_GROUP_READ || segments == NULL) return;
    for (uint32_t i = 0; i < segments->n; i++) {
        const struct stream_segment *segment = &segments->items[i];
        if (segment->last_time_ns >= request->read.time_ns) return;
        if (want->from >= segment->first && want->from < segment->end) want->from = segment->end;
    }
}

static enum fetch fetch(struct streams *s, struct stream_request *request)
{
    struct stream_want *want = want_of(request);
    struct stream_partition *partition =
        stream_core_partition(&s->core, want->stream, want->partition);
    size_t needed;

    if (partition == NULL) {
        request->status = E_NOT_FOUND;
        return FETCH_END;
    }
    if (want->from < partition->first) want->from = partition->first;
    skip_to_time(request, want, partition);
    if (want->from >= want->end) {
        request->want_at++;
        return FETCH_NEXT;
    }
    const struct stream_chunk *chunk = NULL;
    if (stream_chunk_has(&partition->active, want->from)) chunk = &partition->active;
    if (stream_chunk_has(&partition->frozen, want->from)) chunk = &partition->frozen;
    if (chunk != NULL) {
        enum fetch result = take(s, request, stream_chunk_from(chunk, want->from), &needed);
        return result;
    }
    if (s->reading.request != NULL) return FETCH_LATER;
    struct stream_segment *segment =
        partition->segments == NULL ? NULL : stream_segments_find(partition->segments, want->from);
    if (segment == NULL) {
        request->status = E_CORRUPT;
        return FETCH_END;
    }
    submit(s, request, partition, segment, want->from);
    return FETCH_LATER;
}

/* What comes after reading. */
static void finish(struct streams *s, struct stream_request *request)
{
    struct stream_want *want = want_of(request);

    if (request->status == E_CORRUPT) {
        log_error("streams: a segment of stream %u is damaged", want == NULL ? 0 : want->stream);
    }
    if (request->kind == STREAM_REQUEST_RECEIVE) {
        if (request->items_n > 0) request->status = OK;
        for (; (want = want_of(request)) != NULL; request->want_at++) {
            if (want->from < want->end) stream_core_return(&s->core, want, &s->open->payload);
        }
        streams_done(s, request);
        return;
    }
    if (request->is_preparing) {
        request->is_preparing = false;
        request->is_read = true;
        if (request->status == OK)
            streams_run(s, request);
        else
            streams_done(s, request);
        return;
    }
    if (request->kind == STREAM_REQUEST_LETTERS && want != NULL) request->has_more = true;
    bool is_read = request->kind == STREAM_REQUEST_READ;
    if (is_read && request->status == OK && request->items_n == 0 &&
        s->now_ns < request->wait_until_ns) {
        /* Nothing for this reader so far. */
        if (request->read.from_kind != STREAM_FROM_TIME) {
            request->read.from_kind = STREAM_FROM_OFFSET;
            request->read.offset = request->next;
            streams_run(s, request);
            return;
        }
    }
    if (request->kind == STREAM_REQUEST_GROUP_READ && request->status == OK &&
        (request->read.every_n > 0 || request->read.every_ms > 0)) {
        struct stream *stream = stream_core_by_number(&s->core, request->number);
        struct stream_group *group =
            stream == NULL ? NULL : stream_find_group(stream, request->read.group);
        if (group != NULL && request->read.partition < group->positions_n) {
            group->positions[request->read.partition].cursor = request->next;
        }
    }
    streams_done(s, request);
}

void streams_read(struct streams *s, struct stream_request *request)
{
    enum fetch result = FETCH_NEXT;

    while (request->status == OK && want_of(request) != NULL) {
        result = fetch(s, request);
        if (result != FETCH_NEXT) break;
    }
    if (result == FETCH_LATER) {
        if (s->reading.request != request) list_push_back(&s->reading.queue, &request->node);
        return;
    }
    finish(s, request);
}

/* ---- what the lane brought ---- */

static void keep_marks(struct streams *s)
{
    struct stream_reading *r = &s->reading;
    struct stream_partition *partition = stream_core_partition(&s->core, r->stream, r->partition);
    struct stream_segment *segment = NULL;

    if (partition != NULL && partition->segments != NULL) {
        segment = stream_segments_find(partition->segments, r->first);
    }
    if (segment != NULL && segment->first == r->first && segment->marks.n == 0) {
        for (uint32_t i = 0; i < r->marks.n; i++) {
            const struct stream_mark *mark = &r->marks.items[i];
            stream_marks_note(&s->own, &segment->marks, mark->offset, mark->position,
                              mark->time_ns);
        }
        segment->is_marked = true;
    }
    mem_give(&r->mem, r->marks.items, r->marks.room * sizeof *r->marks.items);
    r->marks = (struct stream_marks){0};
    buffer_release(&r->scan_buffer);
}

static bool is_trimmed(struct streams *s, const struct stream_want *want)
{
    const struct stream_partition *partition =
        stream_core_partition(&s->core, want->stream, want->partition);

    return partition == NULL || partition->first > want->from;
}

static void use_stretch(struct streams *s, struct stream_request *request)
{
    struct stream_reading *r = &s->reading;
    struct stream_want *want = want_of(request);
    size_t needed = 0;

    if (r->status == E_NOT_FOUND && is_trimmed(s, want)) return; /* fetch() sees it */
    request->status = r->status == E_NOT_FOUND ? E_CORRUPT : r->status;
    if (request->status != OK || r->is_scan) return;
    uint64_t end = want->end;
    uint64_t before = want->from;
    if (end > r->end) want->end = r->end; /* not beyond this segment */
    enum fetch result = take(s, request, bytes_make(r->buffer.ptr, r->got), &needed);
    want->end = end;
    if (result == FETCH_END) {
        if (request->status == OK) request->is_enough = true;
        return;
    }
    if (needed == 0 || want->from > before) return;
    /* Not one message fitted: a larger stretch, or it is cut off. */
    if (r->got < r->buffer.size) {
        request->status = E_CORRUPT;
        return;
    }
    size_t size = r->buffer.size * 2;
    if (!buffer_reserve(&r->buffer, size)) {
        r->buffer.failed = false;
        request->status = E_NOMEM;
    }
}

void streams_reads_turn(struct streams *s)
{
    struct stream_reading *r = &s->reading;
    struct list *node;

    if (r->is_done) {
        struct stream_request *request = r->request;
        r->is_done = false;
        use_stretch(s, request);
        if (r->is_scan) keep_marks(s);
        r->request = NULL;
        if (request->is_enough) {
            request->is_enough = false;
            finish(s, request);
        } else if (request->status != OK) {
            finish(s, request);
        } else {
            list_push_back(&r->queue, &request->node); /* behind those who wait */
        }
    }
    while (r->request == NULL && (node = list_pop_front(&r->queue)) != NULL) {
        streams_read(s, container_of(node, struct stream_request, node));
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Dead letters: which there are, and what an operator does with them. A letter's bytes are a
 * message of stream 0; the table says where each is now (an edit writes it once more).
 */
#include "stream/core_state.h"

#define LETTERS_ROOM_MIN 64u
#define LETTERS_N_DEFAULT 100u

/* ---- the table ---- */

/* Index of the first letter with an id of at least this. */
static uint32_t lower_bound(const struct stream_core *core, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = core->letters_n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (core->letters[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct stream_letter *stream_core_letter(const struct stream_core *core, uint64_t id)
{
    uint32_t at = lower_bound(core, id);

    if (at == core->letters_n || core->letters[at].id != id) return NULL;
    return core->letters[at].offset == STREAM_NO_OFFSET ? NULL : &core->letters[at];
}

uint64_t stream_core_letters_first(const struct stream_core *core)
{
    uint64_t first = core->streams[0]->partitions[0]->next;

    for (uint32_t i = 0; i < core->letters_n; i++) {
        if (core->letters[i].offset < first) first = core->letters[i].offset;
    }
    return first;
}

static void sweep(struct stream_core *core)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < core->letters_n; i++) {
        if (core->letters[i].offset != STREAM_NO_OFFSET) core->letters[n++] = core->letters[i];
    }
    assert(n == core->letters_live_n);
    core->letters_n = n;
}

enum status stream_letters_make_room(struct stream_core *core)
{
    if (core->letters_n < core->letters_room) return OK;
    if (core->letters_n > 0 && core->letters_live_n <= core->letters_n / 2) {
        sweep(core);
        return OK;
    }
    uint32_t room = core->letters_room == 0 ? LETTERS_ROOM_MIN : core->letters_room * 2;
    struct stream_letter *grown = mem_resize(
        core->mem, core->letters, core->letters_room * sizeof *grown, room * sizeof *grown);
    if (grown == NULL) return E_NOMEM;
    core->letters = grown;
    core->letters_room = room;
    return OK;
}

enum status stream_letters_add(struct stream_core *core, const struct stream_message *message)
{
    struct stream_letter_content content;

    if (!stream_letter_read(message->value, &content)) return E_CORRUPT;
    if (content.id != message->offset) { /* an edit */
        struct stream_letter *letter = stream_core_letter(core, content.id);
        if (letter == NULL) return E_CORRUPT;
        letter->offset = message->offset;
        return OK;
    }
    enum status status = stream_letters_make_room(core);
    if (status != OK) return status;
    core->letters[core->letters_n++] = (struct stream_letter){
        .id = content.id,
        .offset = message->offset,
        .stream = content.stream,
    };
    core->letters_live_n++;
    return OK;
}

void stream_letters_forget(struct stream_core *core, uint64_t id)
{
    struct stream_letter *letter = stream_core_letter(core, id);

    assert(letter != NULL);
    letter->offset = STREAM_NO_OFFSET;
    core->letters_live_n--;
}

void stream_letters_forget_stream(struct stream_core *core, uint32_t number)
{
    for (uint32_t i = 0; i < core->letters_n; i++) {
        struct stream_letter *letter = &core->letters[i];
        if (letter->stream != number || letter->offset == STREAM_NO_OFFSET) continue;
        letter->offset = STREAM_NO_OFFSET;
        core->letters_live_n--;
    }
}

/* ---- writing one ---- */

/* Room for a letter of this size; what is made afterwards cannot fail. */
static enum status make_room(struct stream_core *core, struct stream_request *request, size_t size)
{
    if (core->letters_live_n >= STREAM_LETTERS_N_MAX) {
        return stream_refuse(request, E_LIMIT, "there are %u dead letters already",
                             STREAM_LETTERS_N_MAX);
    }
    size += STREAM_MESSAGE_HEAD_SIZE + STREAM_KEY_SIZE_MAX + STREAM_LETTER_HEAD_SIZE_MAX;
    request->status = stream_letters_make_room(core);
    if (request->status != OK) return request->status;
    buffer_clear(&core->value);
    if (!buffer_reserve(&core->value, size)) {
        core->value.failed = false;
        return request->status = E_NOMEM;
    }
    return request->status = stream_make_room(core, core->streams[0]->partitions[0], size);
}

static void write_letter(struct stream_core *core, const struct stream_letter_content *content,
                         bool has_key, struct bytes key)
{
    buffer_clear(&core->value);
    stream_letter_write(&core->value, content);
    assert(!core->value.failed);
    struct stream_message message = {
        .time_ns = core->now_ns,
        .kind = STREAM_VALUE_BYTES,
        .has_key = has_key,
        .key = key,
        .value = buffer_view(&core->value),
    };
    (void)stream_append_message(core, core->streams[0]->partitions[0], &message);
}

static struct bytes cut_reason(struct bytes reason)
{
    while (reason.len > STREAM_REASON_SIZE_MAX ||
           (reason.len > 0 && !bytes_is_utf8(reason) && reason.len + 4 > STREAM_REASON_SIZE_MAX)) {
        reason.len--;
    }
    return reason;
}

/* The message of the answer as a letter of this partition. */
static enum status bury(struct stream_core *core, struct stream_request *request,
                        struct stream_partition *partition, uint32_t deliveries,
                        struct bytes reason)
{
    struct stream_message message;
    struct reader at = reader_make(buffer_view(&request->answer));

    if (!stream_answer_next(&at, &message)) {
        return stream_refuse(request, E_NOT_FOUND, "the message is not there any more");
    }
    reason = cut_reason(reason);
    if (make_room(core, request, message.value.len + reason.len) != OK) return request->status;
    struct stream_letter_content content = {
        .id = core->streams[0]->partitions[0]->next,
        .stream = partition->stream->number,
        .partition = partition->index,
        .offset = message.offset,
        .deliveries = deliveries,
        .time_ns = message.time_ns,
        .reason = reason,
        .kind = message.kind,
        .value = message.value,
    };
    write_letter(core, &content, message.has_key, message.key);
    return OK;
}

static void forget_answer(struct stream_request *request)
{
    buffer_clear(&request->answer);
    request->items_n = 0;
}

void stream_on_dead_letter(struct stream_core *core, struct stream_request *request)
{
    assert(request->is_read);
    struct stream_partition *partition = stream_lock_of_request(core, request);
    if (partition == NULL) return;
    uint64_t offset = request->lock.token.offset;
    request->status =
        bury(core, request, partition, request->lock.token.delivery, request->lock.reason);
    forget_answer(request);
    if (request->status != OK) return;
    enum status status = stream_emit_about(core, STREAM_RECORD_DONE, partition, offset, 0);
    assert(status == OK); /* needs no memory; the room in the frame was made */
}

void stream_on_bury(struct stream_core *core, struct stream_request *request)
{
    struct stream_partition *partition =
        stream_core_partition(core, request->bury.number, request->bury.partition);

    assert(request->is_read);
    if (partition == NULL) {
        request->status = E_NOT_FOUND;
        return;
    }
    uint64_t offset = request->bury.offset;
    if (!request->bury.is_queued) {
        request->status = bury(core, request, partition, 0, request->bury.reason);
        forget_answer(request);
        return;
    }
    struct stream_entry *entry = stream_queue_entry(partition->queue, offset);
    if (entry == NULL || entry->state != STREAM_ENTRY_DYING) {
        request->status = E_STALE;
        return;
    }
    request->status = bury(core, request, partition, entry->deliveries, request->bury.reason);
    forget_answer(request);
    if (request->status != OK) return;
    enum status status = stream_emit_about(core, STREAM_RECORD_DONE, partition, offset, 0);
    assert(status == OK);
}

/* ---- looking at them ---- */

static enum status want_letter(struct stream_request *request, const struct stream_letter *letter)
{
    struct stream_want want = {.from = letter->offset, .end = letter->offset + 1};

    return stream_want(request, &want);
}

static struct stream_letter *letter_of_request(struct stream_core *core,
                                               struct stream_request *request)
{
    struct stream_letter *letter = stream_core_letter(core, request->letter.id);

    if (letter == NULL) {
        (void)stream_refuse(request, E_NOT_FOUND, "there is no dead letter %llu",
                            (unsigned long long)request->letter.id);
    }
    return letter;
}

void stream_on_letters(struct stream_core *core, struct stream_request *request)
{
    struct stream *stream = NULL;
    uint32_t limit = request->letter.limit == 0 ? LETTERS_N_DEFAULT : request->letter.limit;
    uint32_t n = 0;

    if (limit > STREAM_READ_N_MAX) limit = STREAM_READ_N_MAX;
    if (request->stream.len > 0) {
        stream = stream_of_request(core, request);
        if (stream == NULL) return;
    }
    uint32_t at = request->letter.has_after ? lower_bound(core, request->letter.id + 1) : 0;
    for (; at < core->letters_n; at++) {
        const struct stream_letter *letter = &core->letters[at];
        if (letter->offset == STREAM_NO_OFFSET) continue;
        if (stream != NULL && letter->stream != stream->number) continue;
        request->has_more = n == limit;
        if (request->has_more || want_letter(request, letter) != OK) return;
        n++;
    }
}

void stream_on_letter(struct stream_core *core, struct stream_request *request)
{
    struct stream_letter *letter = letter_of_request(core, request);
    if (letter != NULL) (void)want_letter(request, letter);
}

/* ---- changing them ---- */

static void edit(struct stream_core *core, struct stream_request *request,
                 struct stream_letter_content *content, const struct stream_message *message)
{
    bool has_key = message->has_key;
    struct bytes key = message->key;

    if (request->letter.has_new_key) {
        has_key = request->letter.has_key;
        key = has_key ? request->letter.key : BYTES_NONE;
    }
    if (key.len > STREAM_KEY_SIZE_MAX) {
        (void)stream_refuse(request, E_INVALID, "a key is at most %u bytes", STREAM_KEY_SIZE_MAX);
        return;
    }
    if (request->letter.has_value) {
        content->kind = request->letter.kind;
        content->value = request->letter.value;
    }
    if (content->value.len > STREAM_VALUE_SIZE_MAX) {
        (void)stream_refuse(request, E_LIMIT, "a value is at most 1 MiB");
        return;
    }
    /* One more is never there: it takes the place of itself. */
    core->letters_live_n--;
    enum status status = make_room(core, request, content->value.len + content->reason.len);
    core->letters_live_n++;
    if (status == OK) write_letter(core, content, has_key, key);
}

static void resubmit(struct stream_core *core, struct stream_request *request,
                     const struct stream_letter_content *content,
                     const struct stream_message *message)
{
    struct stream *stream = stream_core_by_number(core, content->stream);

    assert(stream != NULL); /* letters go with their stream */
    struct stream_partition *partition = message->has_key
                                             ? stream_choose_partition(stream, true, message->key)
                                             : stream->partitions[content->partition];
    struct stream_message again = {
        .time_ns = core->now_ns,
        .kind = content->kind,
        .has_key = message->has_key,
        .key = message->key,
        .value = content->value,
    };
    request->status = stream_make_room(core, partition, stream_message_size(&again));
    if (request->status != OK) return;
    request->number = stream->number;
    request->partition = partition->index;
    request->offset = stream_append_message(core, partition, &again);
    struct stream_record record = {
        .kind = STREAM_RECORD_LETTER_GONE,
        .offset = request->letter.id,
    };
    enum status status = stream_emit(core, &record);
    assert(status == OK); /* needs no memory; the room in the frame was made */
}

void stream_on_letter_change(struct stream_core *core, struct stream_request *request)
{
    struct stream_letter *letter = letter_of_request(core, request);
    struct reader at = reader_make(buffer_view(&request->answer));
    struct stream_message message;
    struct stream_letter_content content;

    assert(request->is_read);
    if (letter == NULL) return;
    if (letter->offset != request->letter.offset) {
        (void)stream_refuse(request, E_PRECONDITION, "somebody else has just changed it");
        return;
    }
    if (!stream_answer_next(&at, &message) || !stream_letter_read(message.value, &content)) {
        (void)stream_refuse(request, E_CORRUPT, "the letter cannot be read");
        return;
    }
    if (request->kind == STREAM_REQUEST_LETTER_EDIT)
        edit(core, request, &content, &message);
    else
        resubmit(core, request, &content, &message);
    forget_answer(request);
}

void stream_on_letter_discard(struct stream_core *core, struct stream_request *request)
{
    if (letter_of_request(core, request) == NULL) return;
    struct stream_record record = {
        .kind = STREAM_RECORD_LETTER_GONE,
        .offset = request->letter.id,
    };
    request->status = stream_emit(core, &record);
}

/* ---- before a step ---- */

static void prepare_seek(struct stream_core *core, struct stream_request *request)
{
    struct stream_partition *partition =
        stream_partition_of_request(core, request, request->read.partition);
    if (partition == NULL) return;
    struct stream_want want = {
        .stream = partition->stream->number,
        .partition = partition->index,
        .from = partition->first,
        .end = partition->next,
    };
    request->read.limit = 1;
    (void)stream_want(request, &want);
}

bool stream_core_prepare(struct stream_core *core, struct stream_request *request, int64_t now_ns)
{
    assert(now_ns >= core->now_ns);
    core->now_ns = now_ns;
    if (request->is_read) return false;
    if (request->kind == STREAM_REQUEST_SEEK && request->read.from_kind == STREAM_FROM_TIME) {
        prepare_seek(core, request);
        return true;
    }
    if (request->kind == STREAM_REQUEST_LETTER_EDIT ||
        request->kind == STREAM_REQUEST_LETTER_RESUBMIT) {
        struct stream_letter *letter = letter_of_request(core, request);
        if (letter == NULL) return true;
        request->letter.offset = letter->offset;
        (void)want_letter(request, letter);
        return true;
    }
    if (request->kind == STREAM_REQUEST_DEAD_LETTER) {
        struct stream_partition *partition = stream_lock_of_request(core, request);
        if (partition == NULL) return true;
        struct stream_want want = {
            .stream = partition->stream->number,
            .partition = partition->index,
            .from = request->lock.token.offset,
            .end = request->lock.token.offset + 1,
        };
        (void)stream_want(request, &want);
        return true;
    }
    if (request->kind == STREAM_REQUEST_BURY) {
        struct stream_want want = {
            .stream = request->bury.number,
            .partition = request->bury.partition,
            .from = request->bury.offset,
            .end = request->bury.offset + 1,
        };
        (void)stream_want(request, &want);
        return true;
    }
    return false;
}

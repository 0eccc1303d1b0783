/* SPDX-License-Identifier: Apache-2.0
 *
 * Consumer groups: a position per partition, and reading from it.
 */
#include "stream/core_state.h"

#include "base/clock.h"

#define READ_N_DEFAULT 100u

/* ---- groups ---- */

struct stream_group *stream_find_group(const struct stream *stream, struct bytes name)
{
    for (struct list *at = list_first(&stream->groups); at != NULL;
         at = list_next(&stream->groups, at)) {
        struct stream_group *group = container_of(at, struct stream_group, node);
        if (bytes_equal(bytes_of_text(group->name), name)) return group;
    }
    return NULL;
}

uint64_t stream_group_position(const struct stream_group *group,
                               const struct stream_partition *partition)
{
    uint64_t position = 0;

    if (group != NULL && partition->index < group->positions_n) {
        position = group->positions[partition->index].checkpoint;
    }
    return position < partition->first ? partition->first : position;
}

static enum status make_positions(struct stream_core *core, struct stream_group *group, uint32_t n)
{
    if (n <= group->positions_n) return OK;
    struct stream_position *grown = mem_resize(
        core->mem, group->positions, group->positions_n * sizeof *grown, n * sizeof *grown);
    if (grown == NULL) return E_NOMEM;
    memset(grown + group->positions_n, 0, (n - group->positions_n) * sizeof *grown);
    group->positions = grown;
    group->positions_n = n;
    return OK;
}

enum status stream_group_set(struct stream_core *core, struct stream *stream, struct bytes name,
                             uint32_t partition, uint64_t offset)
{
    struct stream_group *group = stream_find_group(stream, name);
    bool is_new = group == NULL;

    assert(name.len <= STREAM_NAME_SIZE_MAX);
    if (is_new) {
        group = mem_take_zero(core->mem, sizeof *group);
        if (group == NULL) return E_NOMEM;
        memcpy(group->name, name.ptr, name.len);
        list_node_init(&group->node);
    }
    enum status status = make_positions(core, group, partition + 1);
    if (status != OK) {
        if (is_new) mem_give(core->mem, group, sizeof *group);
        return status;
    }
    if (is_new) {
        list_push_back(&stream->groups, &group->node);
        stream->groups_n++;
    }
    group->positions[partition].checkpoint = offset;
    return OK;
}

static enum status emit_checkpoint(struct stream_core *core,
                                   const struct stream_partition *partition, struct bytes group,
                                   uint64_t offset)
{
    struct stream_record record = {
        .kind = STREAM_RECORD_CHECKPOINT,
        .stream = partition->stream->number,
        .partition = partition->index,
        .offset = offset,
        .name = group,
    };

    return stream_emit(core, &record);
}

enum status stream_core_bound(struct stream_core *core, struct stream *stream, uint32_t partition,
                              uint64_t offset, struct buffer *out)
{
    core->out = out;
    return emit_checkpoint(core, stream->partitions[partition],
                           BYTES_LITERAL(STREAM_GROUP_WORKFLOW), offset);
}

/* Whether a client may use a group of this name; one that is not there yet may be made. */
static enum status check_group(const struct stream *stream, struct stream_request *request)
{
    struct bytes name = request->read.group;

    if (!stream_name_is_valid(name)) {
        return stream_refuse(request, E_INVALID,
                             "a group's name is 1 to 100 letters, digits, '.', '_' and '-'");
    }
    if (bytes_equal(name, BYTES_LITERAL(STREAM_GROUP_QUEUE)) ||
        bytes_equal(name, BYTES_LITERAL(STREAM_GROUP_WORKFLOW))) {
        return stream_refuse(request, E_PRECONDITION,
                             "the groups 'queue' and 'workflow' keep their own position");
    }
    if (stream_find_group(stream, name) == NULL && stream->groups_n >= STREAM_GROUPS_N_MAX) {
        return stream_refuse(request, E_LIMIT, "stream '%s' has %u groups already", stream->name,
                             STREAM_GROUPS_N_MAX);
    }
    return OK;
}

/* ---- reading ---- */

/* What is there from `from` on: wants it, or nothing yet. */
static bool want_from(struct stream_request *request, const struct stream_partition *partition,
                      uint64_t from)
{
    struct stream_want want = {
        .stream = partition->stream->number,
        .partition = partition->index,
        .from = from,
        .end = partition->next,
    };

    request->next = from;
    if (request->read.limit == 0) request->read.limit = READ_N_DEFAULT;
    if (request->read.limit > STREAM_READ_N_MAX) request->read.limit = STREAM_READ_N_MAX;
    if (from >= partition->next) return false;
    (void)stream_want(request, &want);
    return true;
}

bool stream_on_read(struct stream_core *core, struct stream_request *request)
{
    struct stream_partition *partition =
        stream_partition_of_request(core, request, request->read.partition);
    if (partition == NULL) return true;
    if (request->read.of > 1 && request->read.reader >= request->read.of) {
        (void)stream_refuse(request, E_INVALID, "reader is 0 to of-1");
        return true;
    }
    uint64_t from = request->read.offset;
    switch (request->read.from_kind) {
    case STREAM_FROM_OFFSET: break;
    case STREAM_FROM_FIRST:
    case STREAM_FROM_TIME: from = partition->first; break;
    case STREAM_FROM_NEXT: from = partition->next; break;
    }
    if (from > partition->next) {
        (void)stream_refuse(request, E_INVALID, "partition %u ends at offset %llu",
                            partition->index, (unsigned long long)partition->next);
        return true;
    }
    if (from < partition->first) from = partition->first;
    /* When it waits, what comes after this moment counts. */
    if (request->read.from_kind == STREAM_FROM_NEXT) {
        request->read.from_kind = STREAM_FROM_OFFSET;
        request->read.offset = from;
    }
    return want_from(request, partition, from);
}

/* The position with its cursor, made when it is not there; NULL: the request was refused. */
static struct stream_position *cursor_of(struct stream_core *core, struct stream_request *request,
                                         struct stream_partition *partition)
{
    struct stream_group *group = stream_find_group(partition->stream, request->read.group);

    if (group == NULL || group->positions_n <= partition->index) {
        request->status = emit_checkpoint(core, partition, request->read.group, partition->first);
        if (request->status != OK) return NULL;
        group = stream_find_group(partition->stream, request->read.group);
    }
    struct stream_position *position = &group->positions[partition->index];
    uint64_t checkpoint = stream_group_position(group, partition);
    if (request->read.is_again || position->cursor < checkpoint ||
        position->cursor > partition->next) {
        position->cursor = checkpoint;
    }
    if (position->since_ns == 0) position->since_ns = core->now_ns;
    return position;
}

bool stream_on_group_read(struct stream_core *core, struct stream_request *request)
{
    struct stream_partition *partition =
        stream_partition_of_request(core, request, request->read.partition);
    if (partition == NULL) return true;
    request->status = check_group(partition->stream, request);
    if (request->status != OK) return true;
    if (request->read.every_n == 0 && request->read.every_ms == 0) {
        struct stream_group *group = stream_find_group(partition->stream, request->read.group);
        request->position = stream_group_position(group, partition);
        return want_from(request, partition, request->position);
    }

    struct stream_position *position = cursor_of(core, request, partition);
    if (position == NULL) return true;
    uint64_t done_n =
        position->cursor -
        stream_group_position(stream_find_group(partition->stream, request->read.group), partition);
    bool is_many = request->read.every_n > 0 && done_n >= request->read.every_n;
    bool is_late = request->read.every_ms > 0 &&
                   core->now_ns - position->since_ns >= request->read.every_ms * NS_PER_MS;
    if (done_n > 0 && (is_many || is_late)) {
        request->status = emit_checkpoint(core, partition, request->read.group, position->cursor);
        if (request->status != OK) return true;
        position->since_ns = core->now_ns;
    }
    request->position =
        position->checkpoint < partition->first ? partition->first : position->checkpoint;
    request->read.is_again = false; /* not once more when it has waited */
    return want_from(request, partition, position->cursor);
}

void stream_on_checkpoint(struct stream_core *core, struct stream_request *request)
{
    struct stream_partition *partition =
        stream_partition_of_request(core, request, request->read.partition);
    if (partition == NULL) return;
    request->status = check_group(partition->stream, request);
    if (request->status != OK) return;
    if (request->read.offset > partition->next) {
        (void)stream_refuse(request, E_INVALID, "partition %u ends at offset %llu",
                            partition->index, (unsigned long long)partition->next);
        return;
    }
    struct stream_group *group = stream_find_group(partition->stream, request->read.group);
    uint64_t before = stream_group_position(group, partition);
    if (group == NULL || request->read.offset > before) {
        uint64_t offset = request->read.offset > before ? request->read.offset : before;
        request->status = emit_checkpoint(core, partition, request->read.group, offset);
        if (request->status != OK) return;
        group = stream_find_group(partition->stream, request->read.group);
        group->positions[partition->index].since_ns = core->now_ns;
    }
    request->position = stream_group_position(group, partition);
}

void stream_on_seek(struct stream_core *core, struct stream_request *request)
{
    struct stream_partition *partition =
        stream_partition_of_request(core, request, request->read.partition);
    if (partition == NULL) return;
    request->status = check_group(partition->stream, request);
    if (request->status != OK) return;
    uint64_t to = request->read.offset;
    struct stream_message message;
    struct reader found = reader_make(buffer_view(&request->answer));
    switch (request->read.from_kind) {
    case STREAM_FROM_OFFSET: break;
    case STREAM_FROM_FIRST: to = partition->first; break;
    case STREAM_FROM_NEXT: to = partition->next; break;
    case STREAM_FROM_TIME:
        assert(request->is_read);
        to = stream_answer_next(&found, &message) ? message.offset : partition->next;
        break;
    }
    buffer_clear(&request->answer);
    request->items_n = 0;
    if (to > partition->next) {
        (void)stream_refuse(request, E_INVALID, "partition %u ends at offset %llu",
                            partition->index, (unsigned long long)partition->next);
        return;
    }
    request->status = emit_checkpoint(core, partition, request->read.group, to);
    if (request->status != OK) return;
    struct stream_group *group = stream_find_group(partition->stream, request->read.group);
    group->positions[partition->index].cursor = to;
    group->positions[partition->index].since_ns = core->now_ns;
    request->position = stream_group_position(group, partition);
}

void stream_on_group_delete(struct stream_core *core, struct stream_request *request)
{
    struct stream *stream = stream_of_request(core, request);
    if (stream == NULL) return;
    request->status = check_group(stream, request);
    if (request->status != OK) return;
    if (stream_find_group(stream, request->read.group) == NULL) {
        (void)stream_refuse(request, E_NOT_FOUND, "stream '%s' has no such group", stream->name);
        return;
    }
    struct stream_record record = {
        .kind = STREAM_RECORD_GROUP_GONE,
        .stream = stream->number,
        .name = request->read.group,
    };
    request->status = stream_emit(core, &record);
}

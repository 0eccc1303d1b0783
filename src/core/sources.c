/* SPDX-License-Identifier: Apache-2.0
 *
 * How far messages from elsewhere have been taken, by source. The position is a record in the same
 * step as what the message started, so in the same frame: after a crash both are there or neither.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/mem.h"
#include "base/planted.h"

static struct source *source_find(const struct core *c, struct bytes name)
{
    struct map_node *node = map_find(&c->sources, name);
    return node == NULL ? NULL : container_of(node, struct source, node);
}

uint64_t core_source_position(const struct core *c, struct bytes source)
{
    const struct source *known = source_find(c, source);
    assert(known == NULL || known->position > 0);
    return known == NULL ? 0 : known->position;
}

bool source_admits(struct core *c, const struct input_position *at)
{
    if (at->source.len == 0) return true;
    if (at->source.len > LIMIT_SOURCE_NAME_SIZE) {
        reply(c, E_INVALID, "the name of a source has at most 64 bytes");
        return false;
    }
    const struct source *known = source_find(c, at->source);
    uint64_t last = known == NULL ? 0 : known->position;
    if (at->position <= last && !planted("source_twice")) {
        reply(c, OK, "duplicate");
        return false;
    }
    if (at->after != last && !planted("source_gap")) {
        reply(c, E_STALE, "a message before it is missing");
        return false;
    }
    if (known == NULL && c->sources.n >= LIMIT_SOURCES_N) {
        reply(c, E_LIMIT, "there are too many sources: 1,024 in a partition");
        return false;
    }
    assert(at->position > at->after || planted("source_gap") || planted("source_twice"));
    return true;
}

void source_take(struct core *c, const struct input_position *at)
{
    if (at->source.len == 0) return;
    struct record record = {
        .kind = RECORD_SOURCE,
        .source = at->source,
        .position = at->position,
    };
    emit(c, &record);
    assert(core_source_position(c, at->source) == at->position);
}

static void source_set(struct core *c, struct bytes name, uint64_t position)
{
    struct source *source = source_find(c, name);
    assert(name.len > 0);
    assert(name.len <= LIMIT_SOURCE_NAME_SIZE);
    if (source == NULL) {
        assert(c->sources.n < LIMIT_SOURCES_N);
        source = mem_take_zero(c->mem, sizeof *source + name.len);
        assert(source != NULL);
        memcpy(source + 1, name.ptr, name.len);
        source->name = bytes_make(source + 1, name.len);
        source->node.key = source->name;
        map_insert(&c->sources, &source->node);
        list_push_back(&c->all_sources, &source->all);
    }
    assert(position > source->position || planted("source_twice")); /* never back */
    source->position = position;
}

void source_apply(struct core *c, const struct record *record)
{
    assert(record->kind == RECORD_SOURCE);
    source_set(c, record->source, record->position);
}

bool source_record_is_valid(const struct core *c, const struct record *record)
{
    if (record->source.len == 0 || record->source.len > LIMIT_SOURCE_NAME_SIZE) return false;
    const struct source *known = source_find(c, record->source);
    if (known == NULL) return record->position > 0 && c->sources.n < LIMIT_SOURCES_N;
    return record->position > known->position;
}

void sources_release(struct core *c)
{
    struct list *node;
    while ((node = list_pop_front(&c->all_sources)) != NULL) {
        struct source *source = container_of(node, struct source, all);
        map_remove(&c->sources, &source->node);
        mem_give(c->mem, source, sizeof *source + source->name.len);
    }
    assert(c->sources.n == 0);
}

void sources_snapshot(const struct core *c, struct buffer *out)
{
    size_t written_n = 0;
    buffer_varint(out, c->sources.n);
    for (struct list *n = list_first(&c->all_sources); n != NULL;
         n = list_next(&c->all_sources, n)) {
        const struct source *source = container_of(n, struct source, all);
        buffer_bytes(out, source->name);
        buffer_varint(out, source->position);
        written_n++;
    }
    assert(written_n == c->sources.n);
}

enum status sources_load(struct core *c, struct reader *in)
{
    assert(c->sources.n == 0);
    for (uint64_t n = reader_varint(in); n > 0; n--) {
        struct record record = {.kind = RECORD_SOURCE, .source = reader_bytes(in)};
        record.position = reader_varint(in);
        if (in->failed || !source_record_is_valid(c, &record)) return E_CORRUPT;
        source_set(c, record.source, record.position);
    }
    return in->failed ? E_CORRUPT : OK;
}

/* What came from there starts nothing: it was put aside, say. */
void on_source_position(struct core *c, const struct input *in)
{
    if (in->position.source.len == 0) {
        reply(c, E_INVALID, "the name of the source is empty");
        return;
    }
    if (!source_admits(c, &in->position)) return;
    source_take(c, &in->position);
    reply(c, OK, "");
}

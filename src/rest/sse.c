/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/events: changes of instances as server-sent events. A reader is written to, part by part
 * in turn with the others, as long as its connection takes it; when it does not, the reader waits,
 * and what it misses meanwhile becomes a gap. So a slow one costs what one connection may queue,
 * and no more.
 */
#include "rest/changes.h"
#include "rest/sse.h"

#include "host/rows.h"

/* A part ends after so much of text, or of changes that were looked at. */
#define PART_SIZE ((size_t)16 << 10)
#define PART_N 256u

struct listener {
    struct reader_of_changes reader;
    struct ask *ask;
    struct bytes name;      /* empty: any */
    struct bytes id_prefix; /* likewise */
    uint32_t status_mask;   /* 0: any, and alerts too */
    bool is_plain;          /* none of these: all of its hub */
};

/* ---- words ---- */

void sse_begin(struct ask *ask)
{
    ask_add_header(ask, "cache-control", BYTES_LITERAL("no-store"));
    ask_begin(ask, 200, "text/event-stream");
}

void sse_comment(struct ask *ask)
{
    if (!http_is_full(ask->exchange)) (void)http_send(ask->exchange, BYTES_LITERAL(":\n\n"));
    ask_set_time(ask, rest_now(ask) + SSE_COMMENT_NS);
}

bool sse_is_look(const struct ask *ask)
{
    return bytes_equal(http_method(ask->exchange), BYTES_LITERAL("HEAD"));
}

void sse_answer_look(struct ask *ask) { ask_answer(ask, 200, "text/event-stream", BYTES_NONE); }

static void write_id(const struct changes *c, struct buffer *out, uint64_t number)
{
    char id[CHANGES_ID_SIZE];

    changes_id(c, number, id);
    buffer_append_bytes(out, BYTES_LITERAL("id: "));
    buffer_append_bytes(out, bytes_of_text(id));
    buffer_append_bytes(out, BYTES_LITERAL("\n"));
}

static void write_entry(const struct changes *c, struct buffer *out, uint64_t number,
                        const struct feed_entry *entry)
{
    struct json j;

    write_id(c, out, number);
    buffer_append_bytes(out, entry->is_alert ? BYTES_LITERAL("event: alert\ndata: ")
                                             : BYTES_LITERAL("event: instance\ndata: "));
    json_init(&j, out);
    json_object_begin(&j);
    json_key(&j, "id");
    json_bytes(&j, key_id(entry->key));
    json_key(&j, "hub");
    json_bytes(&j, key_hub(entry->key));
    if (entry->is_alert) {
        json_key(&j, "text");
        json_bytes(&j, entry->text);
    } else {
        json_key(&j, "name");
        json_bytes(&j, entry->text);
        json_key(&j, "status");
        json_text(&j, status_word(entry->status));
    }
    write_time_of(&j, "time", entry->time_ns);
    json_object_end(&j);
    buffer_append_bytes(out, BYTES_LITERAL("\n\n"));
}

static void write_gap(const struct changes *c, struct buffer *out)
{
    write_id(c, out, changes_newest(c));
    buffer_append_bytes(out, BYTES_LITERAL("event: gap\ndata: {}\n\n"));
}

/* ---- going on ---- */

static bool matches(const struct listener *l, const struct feed_entry *entry)
{
    if (!bytes_equal(key_hub(entry->key), l->ask->hub)) return false;
    if (!bytes_start_with(key_id(entry->key), l->id_prefix)) return false;
    if (entry->is_alert) return l->name.len == 0 && l->status_mask == 0;
    if (l->name.len > 0 && !bytes_equal(entry->text, l->name)) return false;
    return l->status_mask == 0 || (l->status_mask >> entry->status & 1) != 0;
}

/* The next part into out; false when there is nothing more to write. */
static bool write_part(struct listener *l, struct buffer *out)
{
    struct changes *c = l->ask->rest->changes;
    struct feed_entry entry;
    uint64_t number;

    for (unsigned n = 0; n < PART_N && out->len < PART_SIZE; n++) {
        switch (changes_read(c, &l->reader, &entry, &number)) {
        case CHANGES_NONE: return false;
        case CHANGES_GAP: write_gap(c, out); break;
        case CHANGES_ENTRY:
            if (matches(l, &entry)) write_entry(c, out, number, &entry);
            break;
        }
    }
    return true;
}

/* The same for a reader of all; what others read as well is not copied to out. */
static bool read_part(struct listener *l, struct buffer *out, struct bytes *part)
{
    struct changes *c = l->ask->rest->changes;

    buffer_clear(out);
    if (!l->is_plain) {
        bool has_more = write_part(l, out);
        *part = buffer_view(out);
        return has_more;
    }
    switch (changes_read_texts(c, &l->reader, l->ask->hub, write_entry, part)) {
    case CHANGES_NONE: return false;
    case CHANGES_ENTRY: break;
    case CHANGES_GAP:
        write_gap(c, out);
        *part = buffer_view(out);
        break;
    }
    return true;
}

static void end(struct ask *ask, bool is_whole)
{
    struct listener *l = ask->user;

    changes_leave(ask->rest->changes, &l->reader);
    ask->ops = NULL;
    ask_finish(ask, is_whole);
}

/* One part. */
static bool on_news(struct reader_of_changes *reader)
{
    struct listener *l = container_of(reader, struct listener, reader);
    struct ask *ask = l->ask;
    struct bytes part;

    if (http_is_full(ask->exchange)) return false; /* writable() comes */
    bool has_more = read_part(l, &ask->text, &part);
    if (ask->text.failed || http_send(ask->exchange, part) == E_NOMEM) {
        end(ask, false); /* it comes back with the last id it has seen */
        return false;
    }
    if (part.len > 0) ask_set_time(ask, rest_now(ask) + SSE_COMMENT_NS);
    return has_more;
}

static void on_writable(struct ask *ask)
{
    struct listener *l = ask->user;

    changes_wake(ask->rest->changes, &l->reader);
}

static void on_closed(struct ask *ask) { end(ask, false); }
static void on_drain(struct ask *ask) { end(ask, true); }

static const struct ask_ops ops = {
    .closed = on_closed,
    .writable = on_writable,
    .time = sse_comment,
    .drain = on_drain,
    .half_closed = ask_goes_on,
};

/* ---- the request ---- */

/* "running,failed". False: answered. */
static bool read_statuses(struct ask *ask, uint32_t *mask)
{
    struct bytes rest = ask_parameter(ask, "status").value;
    enum orchestration_status status;

    while (rest.len > 0) {
        const uint8_t *comma = memchr(rest.ptr, ',', rest.len);
        size_t len = comma == NULL ? rest.len : (size_t)(comma - rest.ptr);
        size_t over = comma == NULL ? len : len + 1;
        if (!status_of_word(bytes_make(rest.ptr, len), &status)) {
            ask_bad_parameter(ask, "status",
                              "must be some of pending, running, suspended, completed, failed, "
                              "terminated, canceled, with commas");
            return false;
        }
        *mask |= 1u << status;
        rest = bytes_make(rest.ptr + over, rest.len - over);
    }
    return true;
}

static void get_events(struct ask *ask)
{
    struct changes *c = ask->rest->changes;
    struct listener *l = arena_alloc_zero(&ask->arena, sizeof *l);
    struct bytes last = http_header(ask->exchange, "last-event-id");

    if (l == NULL) {
        ask_busy(ask);
        return;
    }
    l->ask = ask;
    l->reader.news = on_news;
    l->name = ask_parameter(ask, "name").value;
    l->id_prefix = ask_parameter(ask, "idPrefix").value;
    if (!read_statuses(ask, &l->status_mask)) return;
    l->is_plain = l->name.len == 0 && l->id_prefix.len == 0 && l->status_mask == 0;
    if (sse_is_look(ask)) {
        sse_answer_look(ask);
        return;
    }
    if (!changes_join(c, &l->reader)) {
        sse_refuse(ask);
        return;
    }
    ask->user = l;
    ask->ops = &ops;
    sse_begin(ask);
    buffer_clear(&ask->text);
    if (last.len > 0 && !changes_seek(c, &l->reader, last))
        write_gap(c, &ask->text);
    else if (last.len == 0) /* so that it can come back before the first event */
        write_id(c, &ask->text, changes_newest(c));
    buffer_append_bytes(&ask->text, BYTES_LITERAL("\n"));
    if (ask->text.failed || http_send(ask->exchange, buffer_view(&ask->text)) == E_NOMEM) {
        end(ask, false);
        return;
    }
    ask_set_time(ask, rest_now(ask) + SSE_COMMENT_NS);
    changes_wake(c, &l->reader);
}

void sse_refuse(struct ask *ask)
{
    ask_problem(ask, PROBLEM_TOO_BUSY, "ask again later, or with GET /v1/instances",
                "there are %u streams of events already, the limit", READERS_N_MAX);
}

const struct route routes_sse[] = {
    {"GET", "/v1/events", get_events, "name idPrefix status", ROUTE_PLAIN, "streamEvents"},
    {0},
};

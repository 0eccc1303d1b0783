/* SPDX-License-Identifier: Apache-2.0
 *
 * See sim_feed.h. A message belongs to the partition of the instance it names; the messages of one
 * partition are a lane, with one exchange at a time and strays beside it, that nobody waits for.
 * The checks know nothing of the engine's counters: they follow the records from the first frame
 * on.
 */
#include "test/sim/sim_feed.h"

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "test/sim/sim_client.h"
#include "test/sim/sim_network.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_programs.h"
#include "test/sim/sim_reply.h"

#include <stdio.h>
#include <string.h>

#define PATIENCE_NS (5 * NS_PER_S)
#define FEEDS_MAX 3
#define MESSAGES_MAX 400

enum message_use {
    USE_START,  /* starts an instance */
    USE_NONE,   /* starts nothing: only its position is taken */
    USE_IGNORE, /* its instance is there: taken, and nothing is started */
    USE_REFUSE, /* the same, and the engine refuses it: then it is put aside, as USE_NONE */
};

struct message {
    struct map_node by_key; /* USE_START */
    struct bytes key;
    struct bytes input;
    struct bytes tags;
    enum program program;
    enum message_use use;
    uint64_t position;
    uint64_t after; /* the one before it in its lane; 0 = none */
    uint32_t lane;
    bool is_put_aside;
    uint32_t started_n; /* by durable records */
};

struct feed;

/* The messages of one partition. */
struct feed_lane {
    struct feed *feed;
    uint32_t partition;
    struct port port;
    struct moment think;
    uint64_t last; /* position of the last message */
    /* what the feed knows, and may forget */
    bool is_learned;
    uint64_t taken;
    uint64_t told;           /* the largest position that an answer has confirmed */
    struct message *sending; /* NULL while it learns */
    /* what is durable */
    uint64_t durable;
    struct message *owed; /* its position is in this frame, its start must be too */
};

struct feed {
    struct feeds *feeds;
    char name[16];
    struct moment make;
    struct message *messages[MESSAGES_MAX];
    uint32_t n;
    struct feed_lane lanes[PARTITIONS_MAX];
};

struct feeds {
    struct world *w;
    struct rng rng;
    struct arena arena;
    struct map starts; /* messages by the key of what they start */
    struct feed feeds[FEEDS_MAX];
    uint32_t n;
    bool is_draining;
    uint64_t taken_n;
};

#define LANE_FAIL(l, invariant, at, what)                                                          \
    sim_fail((l)->feed->feeds->w, invariant, "%s, partition %u, position %llu: %s",                \
             (l)->feed->name, (l)->partition, (unsigned long long)(at), what)

/* ---- messages ---- */

static struct message *message_at(struct feed *f, uint64_t position)
{
    return position == 0 || position > f->n ? NULL : f->messages[position - 1];
}

/* The first one of a lane behind a position. */
static struct message *message_after(struct feed_lane *lane, uint64_t position)
{
    struct feed *f = lane->feed;

    for (uint64_t at = position + 1; at <= f->n; at++) {
        if (f->messages[at - 1]->lane == lane->partition) return f->messages[at - 1];
    }
    return NULL;
}

/* One that a new message may name a second time. */
static struct message *draw_started(struct feed *f)
{
    struct message *m = f->n == 0 ? NULL : f->messages[rng_below(&f->feeds->rng, f->n)];

    return m != NULL && m->use == USE_START ? m : NULL;
}

static void message_draw(struct feed *f, struct message *m)
{
    static const enum program programs[] = {PROGRAM_echo, PROGRAM_sequence, PROGRAM_fan,
                                            PROGRAM_uncaught, PROGRAM_undone};
    struct feeds *feeds = f->feeds;
    struct bytes hub = crowd_hub((uint32_t)rng_below(&feeds->rng, feeds->w->options.hubs_n));
    struct message *twin = rng_chance(&feeds->rng, 100) ? draw_started(f) : NULL;

    m->position = f->n + 1;
    m->program = programs[rng_below(&feeds->rng, sizeof programs / sizeof programs[0])];
    m->key = text_make(&feeds->arena, "%.*s/%s-%llu", (int)hub.len, (const char *)hub.ptr, f->name,
                       (unsigned long long)m->position);
    m->input = text_make(&feeds->arena, "%u %llu", 1 + (unsigned)rng_below(&feeds->rng, 3),
                         (unsigned long long)m->position);
    m->use = rng_chance(&feeds->rng, 50) ? USE_NONE : USE_START;
    if (twin != NULL) {
        m->key = twin->key;
        m->program = twin->program;
        m->use = rng_chance(&feeds->rng, 500) ? USE_IGNORE : USE_REFUSE;
    }
    if (rng_chance(&feeds->rng, feeds->w->options.reply_share)) {
        m->tags = reply_tags(&feeds->arena, m->key);
    }
    m->lane = partition_of(m->key, feeds->w->options.partitions_n);
}

static void lane_soon(struct feed_lane *lane, int64_t span_ms)
{
    if (lane->port.is_waiting || moment_is_set(&lane->think)) return;
    moment_after(lane->feed->feeds->w, &lane->think, span_ms * NS_PER_MS);
}

static void on_make(struct moment *moment)
{
    struct feed *f = container_of(moment, struct feed, make);
    struct feeds *feeds = f->feeds;
    const struct sim_options *o = &feeds->w->options;

    if (feeds->is_draining || f->n >= o->feed_messages_max || f->n >= MESSAGES_MAX) return;
    struct message *m = arena_alloc_zero(&feeds->arena, sizeof *m);
    assert(m != NULL);
    message_draw(f, m);
    struct feed_lane *lane = &f->lanes[m->lane];
    m->after = lane->last;
    lane->last = m->position;
    f->messages[f->n++] = m;
    if (m->use == USE_START) {
        m->by_key.key = m->key;
        map_insert(&feeds->starts, &m->by_key);
    }
    lane_soon(lane, 1);
    moment_after(feeds->w, moment, chance_span(&feeds->rng, o->feed_ms) * NS_PER_MS);
}

/* ---- sending ---- */

static struct node *lane_node(const struct feed_lane *lane)
{
    struct world *w = lane->feed->feeds->w;

    return w->nodes[lane->partition % w->options.shards_n];
}

static struct call *message_call(struct feed_lane *lane, const struct message *m)
{
    bool is_start = m->use != USE_NONE && !m->is_put_aside;
    struct call *call =
        call_make(lane->feed->feeds->w, is_start ? REQUEST_START : REQUEST_POSITION);
    struct input_position at = {
        .source = bytes_of_text(lane->feed->name),
        .position = m->position,
        .after = m->after,
    };

    call_set_key(call, m->key);
    if (!is_start) {
        call->request.position.at = at;
        call->request.position.partition = lane->partition;
        return call;
    }
    struct input_start *start = &call->request.start;
    start->name = bytes_of_text(program_name(m->program));
    start->input = maybe_some(m->input);
    start->tags = m->tags;
    start->at = at;
    start->reuse = m->use == USE_IGNORE ? REUSE_IGNORE : REUSE_NEVER;
    start->reuse_mask = UINT32_MAX;
    return call;
}

static void lane_learn(struct feed_lane *lane)
{
    struct call *call = call_make(lane->feed->feeds->w, REQUEST_SOURCE);
    uint64_t *positions = arena_alloc_zero(&call->parcel->arena, PARTITIONS_MAX * sizeof(uint64_t));

    assert(positions != NULL);
    lane->sending = NULL;
    call->request.source.name = bytes_of_text(lane->feed->name);
    call->request.source.positions = positions;
    port_send(&lane->port, call, lane_node(lane), PATIENCE_NS);
}

/* Any message of the lane, for nobody: one that was taken long ago, or one that must wait. */
static void send_stray(struct feed_lane *lane)
{
    struct feed *f = lane->feed;
    struct message *m = f->messages[rng_below(&f->feeds->rng, f->n)];

    if (m->lane != lane->partition) return;
    network_send(message_call(lane, m), lane_node(lane), rng_between(&f->feeds->rng, 0, NS_PER_S));
}

static void on_lane_think(struct moment *moment)
{
    struct feed_lane *lane = container_of(moment, struct feed_lane, think);
    struct feeds *feeds = lane->feed->feeds;

    if (!lane->is_learned) {
        lane_learn(lane);
        return;
    }
    struct message *m = message_after(lane, lane->taken);
    if (m == NULL) return; /* until there is another one */
    if (!feeds->is_draining && rng_chance(&feeds->rng, 200)) send_stray(lane);
    /* As a stream that reads ahead: the next one is on its way before this one is answered. */
    struct message *next = message_after(lane, m->position);
    if (next != NULL && rng_chance(&feeds->rng, 300)) {
        network_send(message_call(lane, next), lane_node(lane), 0);
    }
    lane->sending = m;
    port_send(&lane->port, message_call(lane, m), lane_node(lane), PATIENCE_NS);
}

static void confirm(struct feed_lane *lane, uint64_t position)
{
    lane->taken = position;
    if (position > lane->told) lane->told = position;
}

static void on_learned(struct feed_lane *lane, const struct answer *a)
{
    if (a->outcome != OUTCOME_ANSWER || a->status != OK) return;
    uint64_t position = a->positions[lane->partition];
    const struct message *m = message_at(lane->feed, position);

    if (position < lane->told) LANE_FAIL(lane, "S34 forgot", lane->told, "was confirmed before");
    if (position > 0 && (m == NULL || m->lane != lane->partition)) {
        LANE_FAIL(lane, "S34 position", position, "nobody has sent it");
    }
    lane->is_learned = true;
    confirm(lane, position);
}

static void on_taken(struct feed_lane *lane, struct message *m, const struct answer *a)
{
    if (a->outcome == OUTCOME_UNKNOWN) {
        lane->is_learned = rng_chance(&lane->feed->feeds->rng, 500);
        return;
    }
    if (a->outcome != OUTCOME_ANSWER) return;
    if (a->status == OK) confirm(lane, m->position);
    if (a->status == E_STALE) LANE_FAIL(lane, "S34 forgot", m->after, "was confirmed before");
    if (a->status == E_EXISTS && m->use != USE_REFUSE) {
        LANE_FAIL(lane, "S34 once", m->position, "is started, and not taken");
    }
    if (a->status == E_EXISTS) m->is_put_aside = true;
}

static void on_lane_answer(struct port *port, const struct answer *a)
{
    struct feed_lane *lane = container_of(port, struct feed_lane, port);
    struct feeds *feeds = lane->feed->feeds;
    uint64_t before = lane->taken;

    if (lane->sending == NULL)
        on_learned(lane, a);
    else
        on_taken(lane, lane->sending, a);
    bool goes_on = lane->taken > before;
    if (!feeds->is_draining && rng_below(&feeds->rng, 100) == 0) { /* it begins again */
        lane->is_learned = false;
        lane->taken = 0;
    }
    lane_soon(lane, goes_on ? 1 : rng_between(&feeds->rng, 5, 500));
}

/* ---- what is durable ---- */

static struct feed *feed_of(struct feeds *feeds, struct bytes name)
{
    for (uint32_t i = 0; i < feeds->n; i++) {
        if (bytes_equal(bytes_of_text(feeds->feeds[i].name), name)) return &feeds->feeds[i];
    }
    return NULL;
}

static void see_position(struct feeds *feeds, uint32_t partition, const struct record *record)
{
    struct feed *f = feed_of(feeds, record->source);

    if (f == NULL) {
        sim_fail(feeds->w, "S34 source", "%.*s is no source", (int)record->source.len,
                 (const char *)record->source.ptr);
    }
    struct feed_lane *lane = &f->lanes[partition];
    struct message *m = message_at(f, record->position);
    if (record->position <= lane->durable) {
        LANE_FAIL(lane, "S34 once", record->position, "is taken, and one behind it was");
    }
    if (m == NULL || m->lane != partition) {
        LANE_FAIL(lane, "S34 position", record->position, "nobody has sent it");
    }
    if (m->after != lane->durable) {
        LANE_FAIL(lane, "S34 gap", record->position, "is taken before the one before it");
    }
    if (lane->owed != NULL) {
        LANE_FAIL(lane, "S34 once", lane->owed->position, "is taken, and started nothing");
    }
    lane->durable = record->position;
    if (m->use == USE_START) lane->owed = m;
    feeds->taken_n++;
}

static void see_start(struct feeds *feeds, uint32_t partition, const struct record *record)
{
    struct map_node *node = map_find(&feeds->starts, record->key);

    if (node == NULL) return;
    struct message *m = container_of(node, struct message, by_key);
    for (uint32_t i = 0; i < feeds->n; i++) {
        struct feed_lane *lane = &feeds->feeds[i].lanes[partition];
        if (lane->owed != m) continue;
        lane->owed = NULL;
        m->started_n++;
        return;
    }
    sim_fail(feeds->w, "S34 once", "%.*s is started, and its position is not taken with it",
             (int)m->key.len, (const char *)m->key.ptr);
}

void feeds_see_record(struct feeds *f, uint32_t partition, const struct record *record,
                      bool is_start)
{
    if (record->kind == RECORD_SOURCE) see_position(f, partition, record);
    if (is_start) see_start(f, partition, record);
}

void feeds_see_frame_end(struct feeds *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        for (uint32_t p = 0; p < f->w->options.partitions_n; p++) {
            struct feed_lane *lane = &f->feeds[i].lanes[p];
            if (lane->owed == NULL) continue;
            LANE_FAIL(lane, "S34 once", lane->owed->position, "is taken, and started nothing");
        }
    }
}

static void check_durable(struct node *n, const struct input_position *at, uint32_t partition)
{
    if (shadow_position(n->shadow, partition, at->source) >= at->position) return;
    sim_fail(n->w, "S1 durable", "position %llu of %.*s is confirmed and not durable",
             (unsigned long long)at->position, (int)at->source.len, (const char *)at->source.ptr);
}

void feeds_check_answer(struct node *n, const struct request *request)
{
    uint32_t partitions_n = n->w->options.partitions_n;

    if (request->status != OK) return;
    if (request->kind == REQUEST_START && request->start.at.source.len > 0) {
        check_durable(n, &request->start.at, partition_of(request->key, partitions_n));
    } else if (request->kind == REQUEST_POSITION) {
        check_durable(n, &request->position.at, request->position.partition);
    } else if (request->kind == REQUEST_SOURCE) {
        for (uint32_t p = n->shard; p < partitions_n; p += n->w->options.shards_n) {
            struct input_position at = {
                .source = request->source.name,
                .position = request->source.positions[p],
            };
            check_durable(n, &at, p);
        }
    }
}

/* ---- the feeds ---- */

struct feeds *feeds_new(struct world *w)
{
    struct feeds *f = mem_take_zero(mem_process(), sizeof *f);

    assert(f != NULL);
    f->w = w;
    f->n = w->options.feeds_n;
    assert(f->n <= FEEDS_MAX);
    rng_init(&f->rng, w->options.seed ^ UINT64_C(0x66656564));
    arena_init(&f->arena, mem_process(), 4096);
    map_init(&f->starts, mem_process(), 5, 6);
    for (uint32_t i = 0; i < f->n; i++) {
        struct feed *feed = &f->feeds[i];
        feed->feeds = f;
        (void)snprintf(feed->name, sizeof feed->name, "feed%u", i);
        moment_init(&feed->make, on_make);
        for (uint32_t p = 0; p < w->options.partitions_n; p++) {
            struct feed_lane *lane = &feed->lanes[p];
            lane->feed = feed;
            lane->partition = p;
            port_init(&lane->port, w, on_lane_answer);
            moment_init(&lane->think, on_lane_think);
        }
    }
    return f;
}

void feeds_start(struct feeds *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        moment_after(f->w, &f->feeds[i].make, rng_between(&f->rng, 1, 1000) * NS_PER_MS);
    }
}

void feeds_drain(struct feeds *f) { f->is_draining = true; }

bool feeds_are_finished(const struct feeds *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        for (uint32_t p = 0; p < f->w->options.partitions_n; p++) {
            const struct feed_lane *lane = &f->feeds[i].lanes[p];
            if (lane->taken != lane->last) return false;
        }
    }
    return true;
}

_Noreturn void feeds_report_unfinished(struct feeds *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        for (uint32_t p = 0; p < f->w->options.partitions_n; p++) {
            struct feed_lane *lane = &f->feeds[i].lanes[p];
            if (lane->taken == lane->last) continue;
            LANE_FAIL(lane, "L12 feed", lane->taken, "is the last one that is taken");
        }
    }
    unreachable("one of them is not finished");
}

static void check_message(struct feeds *f, const struct message *m)
{
    struct instance_view view;
    struct bytes key = m->key;

    if (m->use != USE_START) return;
    if (m->started_n != 1) {
        sim_fail(f->w, "S34 once", "%.*s was started %u times", (int)key.len, (const char *)key.ptr,
                 m->started_n);
    }
    if (!shadow_view(node_of_key(f->w, key)->shadow, key, &view)) {
        sim_fail(f->w, "S34 once", "%.*s is lost", (int)key.len, (const char *)key.ptr);
    }
    if (crowd_is_tainted(f->w->crowd, key)) return;
    struct expectation expected = program_expect(m->program, m->input, &f->arena);
    if (view.status == expected.status &&
        (!expected.is_exact || bytes_equal(view.output.value, expected.output))) {
        return;
    }
    sim_fail(f->w, "S1 result", "%.*s (%s): another status or output", (int)key.len,
             (const char *)key.ptr, program_name(m->program));
}

void feeds_check_end(struct feeds *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        struct feed *feed = &f->feeds[i];
        for (uint32_t k = 0; k < feed->n; k++) check_message(f, feed->messages[k]);
        for (uint32_t p = 0; p < f->w->options.partitions_n; p++) {
            struct feed_lane *lane = &feed->lanes[p];
            struct core *live = host_core(lane_node(lane)->host, p);
            if (core_source_position(live, bytes_of_text(feed->name)) != lane->last) {
                LANE_FAIL(lane, "S34 forgot", lane->last, "is not the last one in memory");
            }
        }
    }
}

uint64_t feeds_taken_n(const struct feeds *f) { return f->taken_n; }

void feeds_free(struct feeds *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        moment_cancel(f->w, &f->feeds[i].make);
        for (uint32_t p = 0; p < f->w->options.partitions_n; p++) {
            port_cancel(&f->feeds[i].lanes[p].port);
            moment_cancel(f->w, &f->feeds[i].lanes[p].think);
        }
    }
    map_release(&f->starts);
    arena_release(&f->arena);
    mem_give(mem_process(), f, sizeof *f);
}

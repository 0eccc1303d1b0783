/* SPDX-License-Identifier: Apache-2.0
 *
 * A link to a real server, and a worker at it that is a hand: it takes one piece of work at a time,
 * so that a test decides what happens between its arrival and its answer.
 */
#ifndef TEST_E2E_LINK_KIT_H
#define TEST_E2E_LINK_KIT_H

#include "base/clock.h"
#include "base/mem.h"
#include "base/queue.h"
#include "lib/link.h"
#include "lib/memory.h"
#include "test/lib/server_process.h"
#include "test/lib/test.h"

#include <stdio.h>

#define SOON_NS (20 * NS_PER_S)
#define TEXT(s) bytes_of_text(s)
#define SOME(s) maybe_some(TEXT(s))

static char why[LINK_WHY_SIZE];

/* ---- the hand ---- */

struct hand {
    struct link_worker worker;
    struct link_port *port;
    struct queue come;
    struct list here;
    struct link_name names[WORK_KINDS_N][2];
};

static inline void on_deliver(void *user, struct link_work *work)
{
    struct hand *hand = user;

    (void)queue_push(&hand->come, &work->node);
}

static inline void on_delivered(void *user) { (void)user; }

/* Orchestrators "flow" and "child", activity "greet", entity "counter". */
static inline void hand_attach(struct hand *hand, struct link *link, uint32_t credits,
                               uint32_t credits_max)
{
    static const char *const names[WORK_KINDS_N][2] = {
        {"flow", "child"}, {"greet", NULL}, {"counter", NULL}};

    *hand = (struct hand){.worker = {.deliver = on_deliver, .delivered = on_delivered}};
    queue_init(&hand->come, SIZE_MAX);
    list_init(&hand->here);
    hand->worker.user = hand;
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        hand->worker.credits[kind] = credits;
        hand->worker.credits_max[kind] = credits_max;
        hand->worker.names[kind] = hand->names[kind];
        for (size_t n = 0; n < 2 && names[kind][n] != NULL; n++) {
            hand->names[kind][n].name = TEXT(names[kind][n]);
            hand->worker.names_n[kind]++;
        }
    }
    EXPECT_STATUS(OK, link_attach(link, &hand->worker, &hand->port));
}

static inline struct link_work *hand_take_within(struct hand *hand, int64_t timeout_ns)
{
    int64_t end_ns = clock_mono_ns() + timeout_ns;

    (void)queue_take_all(&hand->come, &hand->here, 0);
    while (list_is_empty(&hand->here)) {
        int64_t left_ns = end_ns - clock_mono_ns();
        if (left_ns <= 0) return NULL;
        (void)queue_take_all(&hand->come, &hand->here, left_ns);
    }
    return container_of(list_pop_front(&hand->here), struct link_work, node);
}

static inline struct link_work *hand_take(struct hand *hand, enum work_kind kind)
{
    struct link_work *work = hand_take_within(hand, SOON_NS);

    EXPECT(work != NULL);
    EXPECT_STATUS(OK, work->status);
    EXPECT_EQ(kind, work->kind);
    return work;
}

static inline void hand_detach(struct hand *hand)
{
    struct link_work *work;

    link_detach(hand->port);
    while ((work = hand_take_within(hand, 1)) != NULL) link_abandon(work, true, "");
    link_flush(hand->port);
    link_port_free(hand->port);
    queue_release(&hand->come);
}

static inline void answer(struct hand *hand, struct link_work *work)
{
    link_answer(work);
    link_flush(hand->port);
}

/* ---- orchestrators, by hand ---- */

static inline struct action *actions_of(struct link_work *work, uint32_t n)
{
    struct action *actions = arena_alloc_zero(&work->arena, n * sizeof *actions);

    EXPECT(actions != NULL);
    work->answer.actions = actions;
    work->answer.actions_n = n;
    return actions;
}

static inline struct action task_action(int32_t id, const char *input)
{
    return (struct action){
        .kind = ACTION_SCHEDULE_TASK, .id = id, .name = TEXT("greet"), .input = SOME(input)};
}

static inline struct action complete_action(int32_t id, const char *output)
{
    return (struct action){
        .kind = ACTION_COMPLETE, .id = id, .status = STATUS_COMPLETED, .input = SOME(output)};
}

static inline void answer_one(struct hand *hand, struct link_work *work, struct action action)
{
    *actions_of(work, 1) = action;
    answer(hand, work);
}

static inline uint32_t count(struct bytes events, enum event_kind kind)
{
    struct reader r = reader_make(events);
    struct event_head head;
    struct bytes event;
    uint32_t n = 0;

    while (strings_next(&r, &event)) {
        if (event_peek(event, &head) == OK && head.kind == kind) n++;
    }
    return n;
}

/* ---- clients ---- */

static inline void start_flow(struct link *link, const char *id)
{
    struct link_start start = {.name = TEXT("flow"), .id = TEXT(id), .input = SOME("\"in\"")};

    EXPECT_STATUS(OK, link_start(link, &start, NULL, why));
}

struct seen {
    uint32_t n;
    enum orchestration_status status;
    char id[LINK_ID_SIZE];
    char name[64];
    char version[64];
    char input[64];
    char output[64];
    char custom[64];
    char state[64];
    char failure[128];
    struct bytes tag;
    uint8_t tag_bytes[64];
    int64_t created_ns;
    bool is_terminal;
};

static inline void note(char *to, size_t size, struct bytes value)
{
    (void)snprintf(to, size, "%.*s", (int)value.len, (const char *)value.ptr);
}

static inline enum status on_view(void *user, const struct instance_view *view)
{
    struct seen *seen = user;
    struct reader tags = reader_make(view->tags);
    struct bytes tag;

    seen->n++;
    seen->status = view->status;
    seen->created_ns = view->created_ns;
    seen->is_terminal = view->is_terminal;
    note(seen->id, sizeof seen->id, key_id(view->key));
    note(seen->name, sizeof seen->name, view->name);
    note(seen->version, sizeof seen->version, view->version.value);
    note(seen->input, sizeof seen->input, view->input.value);
    note(seen->output, sizeof seen->output, view->output.value);
    note(seen->custom, sizeof seen->custom, view->custom_status.value);
    note(seen->state, sizeof seen->state, view->entity_state.value);
    note(seen->failure, sizeof seen->failure, failure_message(view->failure.value));
    if (strings_next(&tags, &tag) && tag.len <= sizeof seen->tag_bytes) {
        memcpy(seen->tag_bytes, tag.ptr, tag.len);
        seen->tag = bytes_make(seen->tag_bytes, tag.len);
    }
    return OK;
}

static inline void expect_output(struct link *link, const char *id, const char *output)
{
    struct seen seen = {0};

    EXPECT_STATUS(OK, link_get(link, TEXT(id), 20000, on_view, &seen, why));
    EXPECT_EQ(STATUS_COMPLETED, seen.status);
    EXPECT_TEXT(output, seen.output);
}

struct world {
    struct server_process server;
    struct link *link;
    struct hand hand;
};

static struct world world;

static inline void world_open(void)
{
    server_process_start(&world.server);
    EXPECT_STATUS(OK, link_remote_open(world.server.address, BYTES_NONE, &world.link));
    hand_attach(&world.hand, world.link, 4, 4);
}

/* What a failed test left behind is ended first. */
static inline void world_begin(const char *flag, const char *value)
{
    server_process_kill(&world.server);
    world = (struct world){.server = {.more = {flag, value}}};
    world_open();
}

static inline void world_end(void)
{
    hand_detach(&world.hand);
    link_close(world.link);
    server_process_kill(&world.server);
}

#endif

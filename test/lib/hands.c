/* SPDX-License-Identifier: Apache-2.0
 *
 * See hands.h.
 */
#include "test/lib/hands.h"

#include "base/assert.h"
#include "base/clock.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_NS ((int64_t)20 * NS_PER_S)

/* ---- reading work items ---- */

static void read_instance(const struct pb_field *field, struct work *w)
{
    struct pb_reader r = pb_sub(field);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1) w->id = f.bytes;
        if (f.number == 2) EXPECT(pb_get_string_value(&f, &w->execution_id));
    }
}

static void read_turn(const struct pb_field *field, struct work *w)
{
    struct pb_reader r = pb_sub(field);
    struct pb_field f;

    w->kind = WORK_TURN;
    while (pb_next(&r, &f)) {
        if (f.number == 1) w->id = f.bytes;
        if (f.number == 2) EXPECT(pb_get_string_value(&f, &w->execution_id));
        if (f.number == 3) w->past_n++;
        if (f.number == 4) w->fresh_n++;
        if (f.number == 5) {
            EXPECT_BYTES(test_hex("0a00"), f.bytes);
            w->has_entity_parameters = true;
        }
        if (f.number == 6) w->is_streamed = pb_bool(&f);
    }
    EXPECT(!r.failed);
}

static void read_task(const struct pb_field *field, struct work *w)
{
    struct pb_reader r = pb_sub(field);
    struct pb_field f;

    w->kind = WORK_TASK;
    while (pb_next(&r, &f)) {
        if (f.number == 1) w->name = f.bytes;
        if (f.number == 2) w->version.has = pb_get_string_value(&f, &w->version.value);
        if (f.number == 3) w->input.has = pb_get_string_value(&f, &w->input.value);
        if (f.number == 4) read_instance(&f, w);
        if (f.number == 5) w->task_id = pb_int32(&f);
        if (f.number == 7) w->tags = f.bytes;
    }
    EXPECT(!r.failed);
}

static void on_message(void *user, struct client_call *call, struct bytes message)
{
    struct hand *hand = user;
    struct pb_field f;

    (void)call;
    if (bytes_equal(message, test_hex("2200"))) {
        hand->pings_n++;
        return;
    }
    struct work *w = arena_alloc_zero(&hand->arena, sizeof *w);
    if (hand->work == NULL) hand->work = calloc(HAND_WORK_MAX, sizeof *hand->work);
    assert(w != NULL);
    assert(hand->work != NULL);
    assert(hand->work_n < HAND_WORK_MAX);
    w->hand = hand;
    w->message = arena_copy(&hand->arena, message);
    struct pb_reader r = pb_reader_make(w->message);
    while (pb_next(&r, &f)) {
        if (f.number == 1) read_turn(&f, w);
        if (f.number == 2) read_task(&f, w);
        if (f.number == 10) w->token = f.bytes;
    }
    EXPECT(!r.failed);
    hand->work[hand->work_n++] = w;
}

static void on_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct hand *hand = user;

    (void)call;
    hand->call = NULL;
    hand->code = code;
    (void)snprintf(hand->text, sizeof hand->text, "%s", text);
}

/* ---- streams ---- */

struct link *served_start(struct served *s)
{
    served_init(s);
    served_open(s, test_directory(), 1, false);
    return served_link(s, NULL);
}

struct service_stats served_stats(struct served *s)
{
    struct service_stats stats;

    service_stats(s->service, &stats);
    return stats;
}

void hand_open(struct hand *hand, struct link *link, struct bytes message)
{
    *hand = (struct hand){.link = link};
    arena_init(&hand->arena, mem_process(), 512);
    struct client_request request = {
        .path = "/TaskHubSidecarService/GetWorkItems",
        .message = message,
        .on_message = on_message,
        .on_end = on_end,
        .user = hand,
    };
    EXPECT_STATUS(OK,
                  client_begin(link->client, served_now_ns(link->served), &request, &hand->call));
    served_turn(link->served);
}

void hand_cancel(struct hand *hand)
{
    if (hand->call != NULL) client_cancel(hand->call);
    hand->call = NULL;
    if (hand->link->conn != NULL) served_turn(hand->link->served);
}

void hand_close(struct hand *hand)
{
    hand_cancel(hand);
    arena_release(&hand->arena);
    free(hand->work);
}

void served_linger_ms(struct served *s, int64_t ms)
{
    int64_t until_ns = clock_mono_ns() + ms * 1000000;

    served_turn(s);
    while (clock_mono_ns() < until_ns) {
        struct pollfd wait = {.fd = s->bell_fd, .events = POLLIN};
        (void)poll(&wait, 1, 1);
        served_turn(s);
    }
}

struct work *hand_await(struct hand *hand, unsigned n)
{
    struct served *s = hand->link->served;
    int64_t until_ns = clock_mono_ns() + PATIENCE_NS;

    served_turn(s);
    while (hand->work_n < n) {
        served_linger_ms(s, 1);
        if (clock_mono_ns() > until_ns)
            test_fail(__FILE__, __LINE__, "%u of %u pieces of work in 20 s", hand->work_n, n);
    }
    return hand->work[n - 1];
}

/* ---- calls ---- */

enum grpc_code link_ask(struct link *link, const char *rpc, struct bytes message, char *text)
{
    struct answer a;

    answer_init(&a);
    served_ask(link, rpc, message, &a);
    if (text != NULL) (void)snprintf(text, CLIENT_TEXT_SIZE, "%s", a.text);
    answer_release(&a);
    return a.code;
}

static enum grpc_code ask_and_release(struct link *link, const char *rpc, struct buffer *message)
{
    EXPECT(!message->failed);
    enum grpc_code code = link_ask(link, rpc, buffer_view(message), NULL);
    buffer_release(message);
    return code;
}

void link_start(struct link *link, const char *id, const char *name, struct bytes input)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, bytes_of_text(id));
    pb_put_bytes(&b, 2, bytes_of_text(name));
    pb_put_string_value(&b, 4, input, true);
    EXPECT_EQ(GRPC_OK, ask_and_release(link, "StartInstance", &b));
}

int link_status(struct link *link, const char *id)
{
    struct buffer b;
    struct answer a;
    struct pb_field f;
    struct pb_field g;
    int status = -1;

    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, bytes_of_text(id));
    answer_init(&a);
    served_ask(link, "GetInstance", buffer_view(&b), &a);
    buffer_release(&b);
    EXPECT_EQ(GRPC_OK, a.code);
    struct pb_reader r = pb_reader_make(buffer_view(&a.message));
    while (pb_next(&r, &f)) {
        if (f.number != 2) continue;
        status = 0;
        struct pb_reader sub = pb_sub(&f);
        while (pb_next(&sub, &g)) {
            if (g.number == 4) status = pb_int32(&g);
        }
    }
    answer_release(&a);
    return status;
}

void put_schedule(struct buffer *response, int32_t id, const char *name, const char *version,
                  struct bytes input)
{
    struct pb_mark action = pb_begin(response, 2, 64);
    pb_put_int32(response, 1, id);
    struct pb_mark task = pb_begin(response, 2, 64);
    pb_put_bytes(response, 1, bytes_of_text(name));
    if (version != NULL) pb_put_string_value(response, 2, bytes_of_text(version), true);
    pb_put_string_value(response, 3, input, true);
    pb_end(response, task);
    pb_end(response, action);
}

void put_finish(struct buffer *response, int32_t id, struct bytes result)
{
    struct pb_mark action = pb_begin(response, 2, 64);
    pb_put_int32(response, 1, id);
    struct pb_mark complete = pb_begin(response, 6, 64);
    pb_put_varint(response, 1, 1); /* COMPLETED */
    pb_put_string_value(response, 2, result, true);
    pb_end(response, complete);
    pb_end(response, action);
}

enum grpc_code hand_schedule(struct link *link, const struct work *turn, int32_t id,
                             const char *name, bool is_tokenless)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, turn->id);
    put_schedule(&b, id, name, NULL, BYTES_LITERAL("\"in\""));
    if (!is_tokenless) pb_put_bytes(&b, 4, turn->token);
    return ask_and_release(link, "CompleteOrchestratorTask", &b);
}

enum grpc_code hand_finish(struct link *link, const struct work *turn, bool is_tokenless)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, turn->id);
    put_finish(&b, 1000000, BYTES_LITERAL("\"end\""));
    if (!is_tokenless) pb_put_bytes(&b, 4, turn->token);
    return ask_and_release(link, "CompleteOrchestratorTask", &b);
}

enum grpc_code hand_finish_with_token(struct link *link, const char *id, struct bytes token)
{
    struct work turn = {.id = bytes_of_text(id), .token = token};

    return hand_finish(link, &turn, false);
}

enum grpc_code hand_finish_task(struct link *link, const struct work *task, bool is_tokenless)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, task->id);
    pb_put_plain_int32(&b, 2, task->task_id);
    pb_put_string_value(&b, 3, BYTES_LITERAL("\"out\""), true);
    if (!is_tokenless) pb_put_bytes(&b, 5, task->token);
    return ask_and_release(link, "CompleteActivityTask", &b);
}

enum grpc_code hand_abandon(struct link *link, const struct work *work)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, work->token);
    return ask_and_release(link,
                           work->kind == WORK_TURN ? "AbandonTaskOrchestratorWorkItem"
                                                   : "AbandonTaskActivityWorkItem",
                           &b);
}

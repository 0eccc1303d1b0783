/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the Durable Task service in one line each, for tests that use served.h. Answers live in
 * the arena of the asker.
 */
#ifndef TEST_LIB_ASKING_H
#define TEST_LIB_ASKING_H

#include "test/lib/served.h"
#include "test/lib/test.h"
#include "wire/message.h"
#include "wire/pb.h"

/* One of it per test; everything of it is freed by asker_release(). */
struct asker {
    struct served served;
    struct link *link;
    struct answer answer;
    struct buffer message;
    struct arena arena;
};

/* A server with a worker, and one connection. */
static inline void asker_open(struct asker *a, uint32_t shards_n)
{
    served_open(&a->served, test_directory(), shards_n, true);
    a->link = served_link(&a->served, NULL);
    answer_init(&a->answer);
    buffer_init(&a->message, mem_process());
    arena_init(&a->arena, mem_process(), 4096);
}

static inline void asker_init(struct asker *a, uint32_t shards_n)
{
    served_init(&a->served);
    asker_open(a, shards_n);
}

static inline void asker_release(struct asker *a)
{
    answer_release(&a->answer);
    buffer_release(&a->message);
    arena_release(&a->arena);
    served_close(&a->served);
}

/* Sends a->message and expects the code. */
static inline void ask_expect(struct asker *a, const char *rpc, enum grpc_code code,
                              const char *file, int line)
{
    served_ask(a->link, rpc, buffer_view(&a->message), &a->answer);
    if (a->answer.code == code) return;
    test_fail(file, line, "%s: expected %s, got %s (%s)", rpc, grpc_code_name(code),
              grpc_code_name(a->answer.code), a->answer.text);
}
#define ASK(a, rpc, code) ask_expect(a, rpc, code, __FILE__, __LINE__)

static inline struct buffer *ask_new(struct asker *a)
{
    buffer_clear(&a->message);
    return &a->message;
}

static inline void put_text(struct buffer *b, uint32_t number, const char *text)
{
    if (text != NULL) pb_put_bytes(b, number, bytes_of_text(text));
}
static inline void put_value(struct buffer *b, uint32_t number, const char *text)
{
    if (text != NULL) pb_put_string_value(b, number, bytes_of_text(text), true);
}

/* Decodes the last answer; fails the test when it is not one. */
static inline void *ask_decode(struct asker *a, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *out = NULL;

    EXPECT_EQ(1, a->answer.messages_n);
    EXPECT_STATUS(OK, message_decode(type, buffer_view(&a->answer.message), &a->arena, &out));
    return out;
}

static inline void ask_start(struct asker *a, const char *id, const char *name, const char *input,
                             enum grpc_code code, const char *file, int line)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    put_text(b, 2, name);
    put_value(b, 4, input);
    ask_expect(a, "StartInstance", code, file, line);
}
#define START(a, id, name, input) ask_start(a, id, name, input, GRPC_OK, __FILE__, __LINE__)

static inline GetInstanceResponse *ask_look(struct asker *a, const char *rpc, const char *id,
                                            bool with_payloads)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    pb_put_plain_varint(b, 2, with_payloads);
    ask_expect(a, rpc, GRPC_OK, __FILE__, __LINE__);
    return ask_decode(a, &get_instance_response__descriptor);
}
#define GET(a, id) ask_look(a, "GetInstance", id, true)
#define AWAIT(a, id) ask_look(a, "WaitForInstanceCompletion", id, true)

/* An id, a text, a flag: Terminate, Suspend, Resume, Rewind. */
static inline void ask_steer(struct asker *a, const char *rpc, const char *id, const char *text,
                             bool flag, enum grpc_code code, const char *file, int line)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    put_value(b, 2, text);
    pb_put_plain_varint(b, 3, flag);
    ask_expect(a, rpc, code, file, line);
}
#define STEER(a, rpc, id, text, code) ask_steer(a, rpc, id, text, false, code, __FILE__, __LINE__)

#endif

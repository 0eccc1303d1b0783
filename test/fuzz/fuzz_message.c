/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as any message of the services. The first byte chooses one of the 29 requests or 29
 * answers, from OWN on one of our own service's 3 and 3; the rest is decoded. What is accepted must
 * encode, and its encoding must be a fixed point: accepted again, and encoded to the same bytes.
 * What the check lets pass, protobuf-c must not refuse.
 */
#include "base/arena.h"
#include "base/assert.h"
#include "base/mem.h"
#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OWN 0xf0

static const ProtobufCMessageDescriptor *type_of(uint8_t choice)
{
    const ProtobufCServiceDescriptor *service =
        choice < OWN ? &task_hub_sidecar_service__descriptor : &norn__v1__supervision__descriptor;
    const unsigned index = choice % (2 * service->n_methods);

    if (index < service->n_methods) return service->methods[index].input;
    return service->methods[index - service->n_methods].output;
}

static void decode_and_encode(const ProtobufCMessageDescriptor *type, struct bytes bytes,
                              struct arena *arena, struct buffer *out)
{
    ProtobufCMessage *message = NULL;

    assert(message_decode(type, bytes, arena, &message) == OK);
    assert(message != NULL);
    assert(message->descriptor == type);
    assert(message_encode(message, out) == OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct buffer first;
    struct buffer second;

    if (size == 0) return 0;
    const ProtobufCMessageDescriptor *type = type_of(data[0]);
    const struct bytes bytes = bytes_make(data + 1, size - 1);
    if (size > MESSAGE_FIELDS_MAX) return 0; /* to decode has a lower limit than to check */
    if (message_check(type, bytes) != OK) return 0;

    arena_init(&arena, mem_process(), 4096);
    buffer_init(&first, mem_process());
    buffer_init(&second, mem_process());
    decode_and_encode(type, bytes, &arena, &first);
    decode_and_encode(type, buffer_view(&first), &arena, &second);
    assert(bytes_equal(buffer_view(&first), buffer_view(&second)));
    buffer_release(&second);
    buffer_release(&first);
    arena_release(&arena);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a service does with a call (grpc.h).
 */
#include "net/state.h"

#include "base/assert.h"
#include "base/mem.h"

int64_t grpc_deadline_ns(const struct grpc_call *call) { return call->deadline_ns; }

void grpc_set_user(struct grpc_call *call, void *user) { call->user = user; }

void *grpc_user(const struct grpc_call *call) { return call->user; }

bool grpc_is_beside(const struct grpc_call *call, const struct grpc_call *other)
{
    return call->h2 != NULL && call->h2 == other->h2;
}

bool grpc_is_closed(const struct grpc_call *call) { return call->is_closed; }

size_t grpc_queued(const struct grpc_call *call) { return call_queued(call); }

bool grpc_is_full(struct grpc_call *call) { return call_tell_full(call); }

enum status grpc_send(struct grpc_call *call, struct bytes message)
{
    struct h2 *h2 = call->h2;

    assert(call->is_handled);
    if (call->is_closed) return E_CLOSED;
    assert(!call->is_ended);
    if (message.len > UINT32_MAX) return E_NOMEM;
    if (call_make_room(call, PREFIX_SIZE + message.len) != OK) return E_NOMEM;
    if (!call->is_begun && answer_begin(call) != OK) return E_NOMEM;

    uint32_t size = (uint32_t)message.len;
    const uint8_t prefix[PREFIX_SIZE] = {0, (uint8_t)(size >> 24), (uint8_t)(size >> 16),
                                         (uint8_t)(size >> 8), (uint8_t)size};
    call_enqueue(call, bytes_make(prefix, sizeof prefix));
    call_enqueue(call, message);
    answer_resume(call);
    conn_wake(h2->conn);
    return OK;
}

void grpc_finish(struct grpc_call *call, enum grpc_code code, const char *text)
{
    assert(call->is_handled);
    if (call->is_stream_open && !call->is_ended) answer_end(call, code, text);
    call_handled(call);
}

void grpc_answer(struct grpc_call *call, struct bytes message)
{
    if (call_is_too_much(call, message.len)) {
        call->h2->counters->answers_too_large++;
        grpc_finish(call, GRPC_UNAVAILABLE, "earlier answers have not been taken yet");
        return;
    }
    enum status status = grpc_send(call, message);

    if (status == E_NOMEM)
        grpc_finish(call, GRPC_UNAVAILABLE, "out of memory");
    else
        grpc_finish(call, GRPC_OK, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a request, and walking its answer.
 */
#include "stream/request.h"

#include "base/assert.h"

void stream_request_init(struct stream_request *request, enum stream_request_kind kind,
                         size_t size_max)
{
    *request = (struct stream_request){.kind = kind};
    mem_init(&request->mem, size_max);
    buffer_init(&request->answer, &request->mem);
    buffer_init(&request->wants, &request->mem);
    list_node_init(&request->node);
    list_node_init(&request->waiting);
    heap_node_init(&request->due);
}

void stream_request_release(struct stream_request *request)
{
    buffer_release(&request->answer);
    buffer_release(&request->wants);
    mem_release(&request->mem);
}

void stream_request_again(struct stream_request *request)
{
    assert(!request->is_waiting);
    buffer_clear(&request->answer);
    buffer_clear(&request->wants);
    request->want_at = 0;
    request->items_n = 0;
    request->is_read = false;
    request->wait_until_ns = 0;
    request->status = OK;
    request->text[0] = '\0';
    request->has_more = false;
}

bool stream_answer_next(struct reader *at, struct stream_message *out)
{
    size_t size;

    if (reader_left(at) == 0) return false;
    enum status status = stream_message_read(bytes_make(at->at, reader_left(at)), out, &size);
    assert(status == OK); /* checked when it was put there */
    (void)reader_take(at, size);
    return true;
}

bool stream_answer_next_letter(struct reader *at, struct bytes *stream, struct stream_message *out)
{
    if (reader_left(at) == 0) return false;
    *stream = reader_bytes(at);
    return stream_answer_next(at, out);
}

bool stream_answer_next_delivery(struct reader *at, struct stream_delivery *out)
{
    if (reader_left(at) == 0) return false;
    struct bytes token = reader_bytes(at);
    bool is_token = stream_token_parse(token, &out->token);
    assert(is_token);
    out->delivery = out->token.delivery;
    out->until_ns = reader_signed(at);
    return stream_answer_next(at, &out->message);
}

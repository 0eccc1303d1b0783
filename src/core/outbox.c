/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between instances. Every one takes the same way, whether the receiver lives in this
 * partition or another: it gets the next number for its partition and stays here until that
 * partition says that it has it durably. What arrives twice or out of turn is recognised by its
 * number, so each message is applied once.
 */
#include "core/state.h"

#include "base/mem.h"
#include "base/planted.h"

/* As in every layer that places instances: see partition_of(). */
static uint32_t partition_for(const struct core *c, struct bytes key)
{
    return (uint32_t)(bytes_hash(key) % c->options.partitions_n);
}

static void effect_send(struct core *c, uint32_t to, const struct letter *letter)
{
    assert(to < c->options.partitions_n);
    assert(letter->seq > 0);
    assert(letter->seq <= c->peers[to].sent_seq);
    struct effect *e = effect_new(c, EFFECT_SEND);
    e->send.to = to;
    e->send.seq = letter->seq;
    e->send.kind = letter->kind;
    e->send.target = copy_must(c->out->arena, letter->target);
    e->send.execution = copy_must(c->out->arena, letter->execution);
    e->send.event = copy_must(c->out->arena, letter->event);
}

void outbox_send(struct core *c, enum message_kind kind, struct bytes target,
                 struct bytes execution, struct bytes event)
{
    assert(event.len > 0);
    assert(key_is_valid(target)); /* or the receiver would refuse it */
    assert(execution.len == 0 || execution.len == EXECUTION_ID_SIZE);
    uint32_t to = partition_for(c, target);
    struct record record = {
        .kind = RECORD_SEND,
        .peer = to,
        .message_seq = c->peers[to].sent_seq + 1,
        .message = kind,
        .target = target,
        .peer_execution = execution,
        .event = event,
    };
    emit(c, &record);
    assert(c->peers[to].last != NULL);
    assert(c->peers[to].last->seq == record.message_seq);
    effect_send(c, to, c->peers[to].last);
}

static struct bytes behind(uint8_t **at, struct bytes value)
{
    if (value.len > 0) memcpy(*at, value.ptr, value.len);
    struct bytes copy = bytes_make(*at, value.len);
    *at += value.len;
    return copy;
}

static void letter_add(struct core *c, uint32_t to, const struct record *record)
{
    struct peer *peer = &c->peers[to];
    size_t size =
        sizeof(struct letter) + record->target.len + record->peer_execution.len + record->event.len;
    struct letter *letter = mem_take(c->mem, size);
    assert(letter != NULL);
    uint8_t *at = (uint8_t *)(letter + 1);
    *letter = (struct letter){.seq = record->message_seq, .kind = record->message, .size = size};
    letter->target = behind(&at, record->target);
    letter->execution = behind(&at, record->peer_execution);
    letter->event = behind(&at, record->event);
    assert(at == (uint8_t *)letter + size);
    assert(peer->last == NULL || peer->last->seq < letter->seq);
    assert(letter->seq <= peer->sent_seq);
    assert((peer->first == NULL) == (peer->last == NULL));
    if (peer->last == NULL) {
        peer->first = letter;
        peer->resend_at_ms = now_ms(c) + c->options.resend_ms;
    } else {
        peer->last->next = letter;
    }
    peer->last = letter;
    c->letters_n++;
}

static void letters_drop(struct core *c, struct peer *peer, uint64_t upto_seq)
{
    while (peer->first != NULL && peer->first->seq <= upto_seq) {
        struct letter *letter = peer->first;
        assert(c->letters_n > 0);
        peer->first = letter->next;
        if (peer->first == NULL) peer->last = NULL;
        mem_give(c->mem, letter, letter->size);
        c->letters_n--;
    }
    assert((peer->first == NULL) == (peer->last == NULL));
    peer->resend_at_ms = now_ms(c) + c->options.resend_ms;
}

void outbox_apply(struct core *c, const struct record *record)
{
    assert(record->peer < c->options.partitions_n);
    struct peer *peer = &c->peers[record->peer];
    if (record->kind == RECORD_SEND) {
        assert(record->message_seq == peer->sent_seq + 1);
        peer->sent_seq = record->message_seq;
        letter_add(c, record->peer, record);
    } else if (record->kind == RECORD_SENT) {
        letters_drop(c, peer, record->message_seq);
    } else {
        assert(record->kind == RECORD_RECEIVED);
        assert(record->message_seq == peer->received_seq + 1);
        peer->received_seq = record->message_seq;
    }
}

void outbox_release(struct core *c)
{
    for (uint32_t p = 0; p < c->options.partitions_n; p++) {
        letters_drop(c, &c->peers[p], UINT64_MAX);
    }
    assert(c->letters_n == 0);
}

/* A bounded part of what waits: the rest follows when this has arrived. */
#define RESEND_N_MAX 64u

void outbox_resend(struct core *c, bool everything)
{
    if (c->letters_n == 0) return;
    assert(c->out != NULL);
    for (uint32_t p = 0; p < c->options.partitions_n; p++) {
        struct peer *peer = &c->peers[p];
        if (peer->first == NULL || (!everything && peer->resend_at_ms > now_ms(c))) continue;
        peer->resend_at_ms = now_ms(c) + c->options.resend_ms;
        uint32_t n = 0;
        for (const struct letter *l = peer->first; l != NULL && n < RESEND_N_MAX;
             l = l->next, n++) {
            effect_send(c, p, l);
        }
    }
}

size_t outbox_resend_size(const struct core *c)
{
    size_t size = 0;
    if (c->letters_n == 0) return 0;
    for (uint32_t p = 0; p < c->options.partitions_n; p++) {
        uint32_t n = 0;
        for (const struct letter *l = c->peers[p].first; l != NULL && n < RESEND_N_MAX;
             l = l->next, n++) {
            size += l->size + 256;
        }
    }
    assert(size > 0); /* there is a letter */
    return size;
}

int64_t outbox_wake_ms(const struct core *c)
{
    if (c->letters_n == 0) return INT64_MAX;
    int64_t wake_ms = INT64_MAX;
    for (uint32_t p = 0; p < c->options.partitions_n; p++) {
        const struct peer *peer = &c->peers[p];
        if (peer->first != NULL && peer->resend_at_ms < wake_ms) wake_ms = peer->resend_at_ms;
    }
    assert(wake_ms < INT64_MAX); /* there is a letter: somebody must get it */
    return wake_ms;
}

void outbox_snapshot(const struct core *c, struct buffer *out)
{
    uint32_t letters_n = 0;
    buffer_varint(out, c->options.partitions_n);
    for (uint32_t p = 0; p < c->options.partitions_n; p++) {
        const struct peer *peer = &c->peers[p];
        uint32_t n = 0;
        for (const struct letter *l = peer->first; l != NULL; l = l->next) n++;
        letters_n += n;
        buffer_varint(out, peer->sent_seq);
        buffer_varint(out, peer->received_seq);
        if (planted("lose_outbox")) n = 0;
        buffer_varint(out, n);
        for (const struct letter *l = peer->first; n > 0 && l != NULL; l = l->next) {
            buffer_varint(out, l->seq);
            buffer_u8(out, (uint8_t)l->kind);
            buffer_bytes(out, l->target);
            buffer_bytes(out, l->execution);
            buffer_bytes(out, l->event);
        }
    }
    assert(letters_n == c->letters_n);
}

static bool letter_load(struct core *c, uint32_t p, struct reader *in)
{
    struct record record = {.kind = RECORD_SEND, .peer = p};
    record.message_seq = reader_varint(in);
    record.message = (enum message_kind)reader_u8(in);
    record.target = reader_bytes(in);
    record.peer_execution = reader_bytes(in);
    record.event = reader_bytes(in);
    const struct peer *peer = &c->peers[p];
    uint64_t after = peer->last == NULL ? 0 : peer->last->seq;
    if (in->failed || !key_is_valid(record.target)) return false;
    if (record.message_seq <= after || record.message_seq > peer->sent_seq) return false;
    letter_add(c, p, &record);
    return true;
}

enum status outbox_load(struct core *c, struct reader *in)
{
    if (reader_varint(in) != c->options.partitions_n) return E_CORRUPT;
    for (uint32_t p = 0; p < c->options.partitions_n; p++) {
        assert(c->peers[p].first == NULL);
        c->peers[p].sent_seq = reader_varint(in);
        c->peers[p].received_seq = reader_varint(in);
        uint64_t n = reader_varint(in);
        for (; n > 0; n--) {
            if (!letter_load(c, p, in)) return E_CORRUPT;
        }
    }
    return in->failed ? E_CORRUPT : OK;
}

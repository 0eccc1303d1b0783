/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes from outside <-> the types that protoc-c generates from durable_task.proto
 * and norn.proto.
 *
 * protobuf-c is careful with lengths and little else: it recurses as deep as the bytes say, knows
 * no UTF-8, ends a text at its first NUL, takes a bool of any wire type, and its merge of a
 * submessage that comes twice loses plain and unknown fields of the first. So nothing reaches it
 * before message_check(), which walks the bytes with the descriptor and refuses
 *
 *  - what pb.h refuses (overlong varints and tags, lengths beyond the end, groups, field number 0);
 *  - a known field with another wire type than its own (a repeated number may be packed or not);
 *  - text that is not UTF-8 or has a NUL in it: the generated types cannot hold one, and silently
 *    shortening it would change what a client sent (JSON writes it as an escape anyway);
 *  - a singular submessage that comes twice. The standard says merge; no serializer writes it;
 *  - more nesting or more fields than the limits below; there are two of fields, because to check
 *    costs less than to decode.
 *
 * A plain field that comes twice, and two members of a oneof, are as in the standard: the last
 * counts.
 *
 * Unknown fields are kept: decode and encode give back the same set of them, byte for byte, after
 * the known fields of their message.
 */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include "base/bytes.h"
#include "base/status.h"

#include "wire/durable_task.pb-c.h"
#include "wire/norn.pb-c.h"

struct arena;

/* Levels, the outermost message being the first. Only failure chains and property values nest
 * freely; our own messages need 9. */
#define MESSAGE_DEPTH_MAX 64

/* Fields in all, known and unknown, at every level, each element of a packed field being one. When
 * a message is decoded it bounds the time and, at some 200 bytes each, the memory of one made of
 * nothing but empty parts. */
#define MESSAGE_FIELDS_MAX 100000

/* The same when a message is only checked, which takes time and no memory: some tens of
 * nanoseconds each. A turn may have 100,000 actions (LIMIT_ACTIONS_N of the core), and an action
 * that schedules a task with version, input, trace context and two tags has 19 fields: such answers
 * pass, however many actions they have. */
#define MESSAGE_CHECK_FIELDS_MAX 2000000

/* What one decoded message may take from its arena. Text is copied, so a message of more bytes than
 * this is refused as well. */
#define MESSAGE_MEMORY_MAX ((size_t)64 << 20)

/* OK, or E_INVALID (malformed), or E_LIMIT (nesting, or MESSAGE_CHECK_FIELDS_MAX). Allocates
 * nothing. For callers who go on with pb.h on the bytes themselves. */
enum status message_check(const ProtobufCMessageDescriptor *type, struct bytes bytes);

/* The same check with MESSAGE_FIELDS_MAX, and then the generated type: cast *out to it. It lives in
 * the arena, borrows nothing of `bytes`, and is freed with the arena only (never by protobuf-c).
 * OK, E_INVALID, E_LIMIT (also: memory_max), E_NOMEM. Otherwise than OK the arena may have
 * grown. */
enum status message_decode(const ProtobufCMessageDescriptor *type, struct bytes bytes,
                           struct arena *arena, ProtobufCMessage **out);
enum status message_decode_within(const ProtobufCMessageDescriptor *type, struct bytes bytes,
                                  struct arena *arena, size_t memory_max, ProtobufCMessage **out);

/* Appends the encoding. OK, or E_NOMEM: nothing was appended and b->failed is set. The message is
 * one of ours or decoded above: at most MESSAGE_DEPTH_MAX levels, no cycles. */
enum status message_encode(const ProtobufCMessage *message, struct buffer *b);

#endif

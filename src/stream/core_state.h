/* SPDX-License-Identifier: Apache-2.0
 *
 * The core of the streams from inside: what its files use of each other.
 */
#ifndef STREAM_CORE_STATE_H
#define STREAM_CORE_STATE_H

#include "base/assert.h"
#include "base/mem.h"
#include "stream/core.h"
#include "stream/letter.h"

/* Writes the record and applies it. E_NOMEM: neither. */
enum status stream_emit(struct stream_core *core, const struct stream_record *record);
/* A record about one message of a partition. */
enum status stream_emit_about(struct stream_core *core, enum stream_record_kind kind,
                              const struct stream_partition *partition, uint64_t offset,
                              int64_t until_ns);

/* The answer of a step that refuses, with words. */
__attribute__((format(printf, 3, 4))) enum status stream_refuse(struct stream_request *request,
                                                                enum status status,
                                                                const char *format, ...);
/* The stream and partition of a request; NULL, and it is refused. */
struct stream *stream_of_request(struct stream_core *core, struct stream_request *request);
struct stream_partition *stream_partition_of_request(struct stream_core *core,
                                                     struct stream_request *request,
                                                     uint32_t partition);
/* E_NOMEM. */
enum status stream_want(struct stream_request *request, const struct stream_want *want);

/* Makes room for a message of this size in the partition and in the frame: appending it then
 * cannot fail. */
enum status stream_make_room(struct stream_core *core, struct stream_partition *partition,
                             size_t size);
/* Room was made. Answers its offset. */
uint64_t stream_append_message(struct stream_core *core, struct stream_partition *partition,
                               const struct stream_message *message);
/* Where a message with this key goes. */
struct stream_partition *stream_choose_partition(struct stream *stream, bool has_key,
                                                 struct bytes key);

/* E_NOMEM. */
enum status stream_letters_make_room(struct stream_core *core);
/* In apply: a message of stream 0. E_CORRUPT, E_NOMEM. */
enum status stream_letters_add(struct stream_core *core, const struct stream_message *message);
void stream_letters_forget(struct stream_core *core, uint64_t id);
void stream_letters_forget_stream(struct stream_core *core, uint32_t number);

/* In apply: one of the kinds DELIVERED to DONE. E_CORRUPT, E_NOMEM. */
enum status stream_apply_queue(struct stream_core *core, const struct stream_record *record);
/* The queue changed what it waits for. */
void stream_queue_relink(struct stream_core *core, struct stream_queue *q);

/* Handlers: as stream_core_step() by kind; false = nothing yet. */
bool stream_on_receive(struct stream_core *core, struct stream_request *request);
void stream_on_lock(struct stream_core *core, struct stream_request *request);
bool stream_on_read(struct stream_core *core, struct stream_request *request);
bool stream_on_group_read(struct stream_core *core, struct stream_request *request);
void stream_on_checkpoint(struct stream_core *core, struct stream_request *request);
void stream_on_seek(struct stream_core *core, struct stream_request *request);
void stream_on_group_delete(struct stream_core *core, struct stream_request *request);
void stream_on_set(struct stream_core *core, struct stream_request *request);
void stream_on_delete(struct stream_core *core, struct stream_request *request);
void stream_on_append(struct stream_core *core, struct stream_request *request);
void stream_on_letters(struct stream_core *core, struct stream_request *request);
void stream_on_letter(struct stream_core *core, struct stream_request *request);
void stream_on_letter_change(struct stream_core *core, struct stream_request *request);
void stream_on_letter_discard(struct stream_core *core, struct stream_request *request);
void stream_on_dead_letter(struct stream_core *core, struct stream_request *request);
void stream_on_bury(struct stream_core *core, struct stream_request *request);
/* The lock that the token of the request is for; NULL, and it is refused. */
struct stream_partition *stream_lock_of_request(struct stream_core *core,
                                                struct stream_request *request);

/* A stream with its partitions, not listed anywhere; NULL without memory. */
struct stream *stream_make(struct stream_core *core, uint32_t number, struct bytes name,
                           const struct stream_settings *settings);
void stream_destroy(struct stream_core *core, struct stream *stream);
/* E_NOMEM: nothing has changed. */
enum status stream_grow(struct stream_core *core, struct stream *stream, uint32_t partitions_n);
void stream_list(struct stream_core *core, struct stream *stream);
enum status stream_group_set(struct stream_core *core, struct stream *stream, struct bytes name,
                             uint32_t partition, uint64_t offset);

#endif

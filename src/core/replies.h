/* SPDX-License-Identifier: Apache-2.0
 *
 * The reply channel (S14): who starts an orchestration with the tag REPLY_TO_TAG has its progress
 * posted to that URL. The core only decides that there is something to tell, and writes it down in
 * the same commit as what it tells of: as the start of an orchestration of its own, REPLY_NAME in
 * the hub REPLY_HUB, sent through the outbox. Whoever runs those (the server) posts their input to
 * the URL in their tag REPLY_URL_TAG until somebody hears it. So a reply is as durable as its
 * cause, sleeps on disk between tries, and holds up nobody.
 *
 *      created ──> "received"           ended ──> "completed", "failed" or "compensated"
 *
 * "compensated" is an end with the custom status REPLY_COMPENSATED, whatever its status: every SDK
 * can set it when it has undone its work. An end that is not "completed" otherwise is "failed":
 * terminated and canceled ones too, their status tells.
 *
 * The id of a reply is <execution id>-<event>: the same for every try, another for everything else.
 */
#ifndef CORE_REPLIES_H
#define CORE_REPLIES_H

#include "core/event.h"

#define REPLY_TO_TAG "norn.replyTo"
#define REPLY_CORRELATION_TAG "norn.correlationId"
#define REPLY_HUB "norn"
#define REPLY_NAME "norn.reply"
#define REPLY_URL_TAG "norn.post"
#define REPLY_COMPENSATED "\"compensated\""

/* Longer URLs are not posted to; longer correlation ids, messages of failures and outputs are cut
 * or left away. */
#define REPLY_URL_SIZE_MAX ((size_t)2048)
#define REPLY_CORRELATION_SIZE_MAX ((size_t)1024)
#define REPLY_MESSAGE_SIZE_MAX ((size_t)4096)
#define REPLY_OUTPUT_SIZE_MAX ((size_t)64 << 10)

/* tags: strings of raw map entries. The value borrows from them. */
struct maybe tags_find(struct bytes tags, struct bytes name);
/* Appends one; temporary is overwritten. */
void tags_add(struct buffer *tags, struct buffer *temporary, struct bytes name, struct bytes value);

/* What is posted. */
struct reply_note {
    const char *event;
    struct bytes hub;
    struct bytes id;
    struct bytes name;
    struct maybe correlation_id;
    enum orchestration_status status;
    int64_t time_ns;
    struct maybe output;
    struct maybe failure; /* raw TaskFailureDetails */
};
/* As JSON, appended. */
void reply_note_write(struct buffer *out, const struct reply_note *note);

#endif

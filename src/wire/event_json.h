/* SPDX-License-Identifier: Apache-2.0
 *
 * A history event as JSON, with all it has:
 *
 *      {"eventId":0,"timestamp":"2026-11-15T10:00:00.123456789Z","taskScheduled":{"name":"Charge"}}
 */
#ifndef WIRE_EVENT_JSON_H
#define WIRE_EVENT_JSON_H

#include "base/bytes.h"
#include "base/status.h"

/* Appends one object, without newline. E_INVALID: it is no event. E_NOMEM. */
enum status event_json_write(struct bytes event, struct buffer *out);

struct json_reader;
/* The way back: reads one object and appends the bytes of the event. Fields that the protocol does
 * not have are passed over. E_INVALID: it is no event. E_NOMEM. */
enum status event_json_read(struct json_reader *r, struct buffer *out);

#endif

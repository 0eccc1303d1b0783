/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of streams as JSON, and what their routes share.
 */
#ifndef REST_STREAM_JSON_H
#define REST_STREAM_JSON_H

#include "rest/stream_desk.h"

/* "value" as it is when it is JSON, else "base64". */
void write_message_value(struct json *j, enum stream_value_kind kind, struct bytes value);
/* offset, time, key, value; into an open object. */
void write_message_fields(struct json *j, const struct stream_message *message);
/* "items" of a read's answer. */
void write_messages(struct json *j, const struct stream_request *request);
/* "key":number */
void write_number_of(struct json *j, const char *key, uint64_t value);

/* A number of the path; false: answered. */
bool ask_path_number(struct ask *ask, unsigned n, const char *what, uint64_t max, uint64_t *out);
/* No body, or an empty object; false: answered. */
bool body_is_empty(struct ask *ask);
/* A duration in a body; absent: untouched. False: answered. */
bool field_duration_ms(struct ask *ask, const char *name, const struct body_value *value,
                       int64_t max_ms, int64_t *out);
/* A number in a body; absent: untouched. False: answered. */
bool body_count(struct ask *ask, const char *name, const struct body_value *value, int64_t min,
                int64_t max, int64_t *out);

/* The errand of an ask whose first path parameter is a stream's name. NULL: answered. */
struct stream_errand *ask_stream_errand(struct ask *ask, enum stream_request_kind kind);
/* done() of reads: items and next, with is_group the position too. */
void stream_errand_read_done(struct stream_errand *errand);

#endif

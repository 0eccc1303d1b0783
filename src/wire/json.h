/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes JSON text, value by value; the writer puts the commas. There is no tree: what is written
 * is at once in the buffer.
 *
 *     json_object_begin(&j);
 *     json_key(&j, "rate");
 *     json_double(&j, 20.5);
 *     json_object_end(&j);      ->  {"rate":20.5}
 *
 * Whatever the bytes of a text are, the result is valid: what is not UTF-8 becomes U+FFFD, one for
 * each maximal part of a broken sequence. A call that cannot be right (a value in an object without
 * its key, an end without a begin) is a bug of the caller and asserted. Without memory the buffer
 * says so (`failed`).
 */
#ifndef WIRE_JSON_H
#define WIRE_JSON_H

#include "base/bytes.h"

#define JSON_DEPTH_MAX 64

struct json {
    struct buffer *out; /* outlives the writer */
    unsigned depth;     /* open objects and arrays */
    uint64_t is_object; /* a bit per level: object or array */
    uint64_t has_items; /* a bit per level: the next item needs a comma */
    bool has_key;       /* a key was written, its value was not */
    bool is_done;       /* the one outermost value is complete */
};

/* Appends to out. */
void json_init(struct json *j, struct buffer *out);

void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);

/* Before each value in an object. */
void json_key(struct json *j, const char *key);
void json_key_bytes(struct json *j, struct bytes key);

void json_text(struct json *j, const char *text);
void json_bytes(struct json *j, struct bytes text);
void json_int64(struct json *j, int64_t value);
void json_uint64(struct json *j, uint64_t value);
/* With as few digits as read back to the same number, whatever the locale; null for what JSON has
 * no number for (infinity, NaN). */
void json_double(struct json *j, double value);
void json_bool(struct json *j, bool value);
void json_null(struct json *j);
/* A value that is JSON already, as it is; the caller has checked it. */
void json_raw(struct json *j, struct bytes value);

#endif

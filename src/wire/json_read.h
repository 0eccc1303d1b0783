/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads JSON text, value by value; the reader minds the commas. There is no tree.
 *
 *     json_read_begin(&r);                          {
 *     while (json_read_item(&r)) {                      "rate": 20, "name": "x" }
 *         json_read_key(&r, &key);
 *         if (json_peek(&r) == JSON_NUMBER) json_read_int64(&r, &n);
 *         else json_skip(&r);
 *     }
 *
 * What is not as the standard has it (RFC 8259), or not as the caller asks for it, sets `failed`;
 * from then on every read answers false, so that a loop ends and the caller checks once.
 */
#ifndef WIRE_JSON_READ_H
#define WIRE_JSON_READ_H

#include "base/bytes.h"

/* More than the server takes (rest/scan.h): a payload stands some levels deep in its answers. */
#define JSON_READ_DEPTH_MAX 256u

struct json_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
    unsigned depth; /* open objects and arrays */
    /* a bit per level: object or array; the next item comes after a comma */
    uint64_t is_object[JSON_READ_DEPTH_MAX / 64];
    uint64_t has_items[JSON_READ_DEPTH_MAX / 64];
};

enum json_type {
    JSON_NONE, /* the end, or nothing that begins a value */
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_OBJECT,
    JSON_ARRAY,
};

/* Borrows text. */
struct json_reader json_reader_make(struct bytes text);

/* What comes next. */
enum json_type json_peek(struct json_reader *r);

/* An object or array begins. Deeper than JSON_READ_DEPTH_MAX fails. */
bool json_read_begin(struct json_reader *r);
/* Whether there is one more in it; false: it has ended, and is left. */
bool json_read_item(struct json_reader *r);
/* Of the next value in an object; replaces what is in key. */
bool json_read_key(struct json_reader *r, struct buffer *key);

bool json_read_null(struct json_reader *r);
bool json_read_bool(struct json_reader *r, bool *out);
/* A whole number that fits; others fail. */
bool json_read_int64(struct json_reader *r, int64_t *out);
/* Replaces what is in out by the UTF-8 of the string. Halves of surrogate pairs fail; so does a
 * buffer without memory. */
bool json_read_string(struct json_reader *r, struct buffer *out);
/* Any value. */
bool json_skip(struct json_reader *r);

#endif

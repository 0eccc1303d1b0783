/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON value as it stands in an answer: a piece of the text, looked into on demand. There is no
 * tree; the answers are small, and a payload is printed byte for byte as it came.
 */
#ifndef CLI_VALUE_H
#define CLI_VALUE_H

#include "base/arena.h"
#include "wire/json_read.h"

struct value {
    enum json_type type; /* JSON_NONE: there is no such value */
    struct bytes raw;    /* borrowed from the text, without space around it */
};

#define VALUE_NONE ((struct value){JSON_NONE, BYTES_NONE})

/* The whole text is one JSON value; else JSON_NONE, and *at (may be NULL) is the offset where it
 * stops to be JSON. */
struct value value_parse(struct bytes text, size_t *at);

/* Of an object; VALUE_NONE when it has no such member or is none. "a.b" is the b of the a. */
struct value value_member(struct value object, const char *path);

/* Members of an object, items of an array.
 *
 *     struct value_cursor cursor = value_begin(list);
 *     while (value_next(&cursor, arena)) ... cursor.key, cursor.value
 */
struct value_cursor {
    struct json_reader reader;
    bool is_object;
    bool is_begun;
    const char *key; /* in the arena; NULL in an array */
    struct value value;
};
struct value_cursor value_begin(struct value whole);
/* arena is for keys alone and may be NULL for an array. */
bool value_next(struct value_cursor *cursor, struct arena *arena);
size_t value_count(struct value whole);

/* A string's text, anything else as it stands; "" for VALUE_NONE and null. NUL-terminated, in the
 * arena; never NULL. */
const char *value_text(struct arena *arena, struct value v);
/* The text of a member. */
const char *member_text(struct arena *arena, struct value object, const char *path);
/* False, and untouched, when it is no whole number. */
bool value_int64(struct value v, int64_t *out);
int64_t member_int64(struct value object, const char *path, int64_t otherwise);
bool member_is_true(struct value object, const char *path);
/* An RFC 3339 text. */
bool value_time(struct arena *arena, struct value v, int64_t *out_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over JSON text (RFC 8259) in one pass and without a tree: what is between two places of the
 * text is the value. Faster than reading it, and as strict, because payloads are kept as they came.
 * The text must be UTF-8: that is checked once for the whole of it, by utf8_problem_at().
 */
#ifndef REST_SCAN_H
#define REST_SCAN_H

#include "base/arena.h"
#include "wire/json_read.h"

#define SCAN_DEPTH_MAX 192u
/* Whoever reads our answers finds a payload some levels deep in them. */
_Static_assert(SCAN_DEPTH_MAX + 16 <= JSON_READ_DEPTH_MAX, "what is taken can be read again");

struct scan {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    const char *problem; /* NULL = none so far; `at` is where */
};

struct scan scan_make(struct bytes text);
/* Over white space; 0 at the end, else the next byte. */
uint8_t scan_peek(struct scan *s);
/* This byte comes next, after white space; else a problem. */
bool scan_byte(struct scan *s, uint8_t byte, const char *problem);
/* Any value, all of it. */
bool scan_value(struct scan *s, struct bytes *raw);
/* A string; inner: what stands between the quotes. */
bool scan_string(struct scan *s, struct bytes *inner, bool *has_escapes);
/* What a string with escapes means; in the arena. False: half a surrogate pair, a NUL, or no
 * memory; *problem says which. */
bool scan_decode(struct bytes inner, struct arena *arena, struct bytes *out, const char **problem);
static inline size_t scan_offset(const struct scan *s) { return (size_t)(s->at - s->start); }

/* SIZE_MAX: it is UTF-8; else where it is not. */
size_t utf8_problem_at(struct bytes text);

#endif

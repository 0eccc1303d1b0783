/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of an HTTP/1.1 request (RFC 9112), read strictly: what two readers could understand
 * differently is refused, because there may be another reader in front of us. No I/O, no memory.
 * HTTP/2 shares what is the same there.
 */
#ifndef NET_H1_HEAD_H
#define NET_H1_HEAD_H

#include "base/bytes.h"
#include "net/refusal.h"

#define HEAD_SIZE_MAX (8 * 1024)
#define HEAD_FIELDS_N_MAX 64

/* A piece of the head, by place, since the buffer may move. */
struct head_span {
    uint16_t at;
    uint16_t len;
};
_Static_assert(HEAD_SIZE_MAX <= UINT16_MAX, "places in the head fit");

struct head_field {
    struct head_span name;
    struct head_span value;
};

struct head {
    struct head_span method;
    struct head_span path;
    struct head_span query;
    struct head_field fields[HEAD_FIELDS_N_MAX];
    uint16_t fields_n;
    uint64_t body_size; /* content-length, 0 without */
    bool is_chunked;    /* the body comes in chunks (h1_chunk.h) instead */
    bool is_1_0;        /* HTTP/1.0: knows no chunks */
    bool is_close;      /* the connection ends after the answer */
    bool is_continue_expected;
};

/* Where the search for the end of a head goes on when more bytes have come. */
struct head_search {
    size_t at;
    size_t line_at;
};

/* Looks for the empty line. Answers REFUSAL_NONE and *size (with the empty line) when it was found,
 * REFUSAL_NONE and *size = 0 when more must come, else why it is refused. */
enum http_refusal head_find(struct head_search *search, struct bytes bytes, size_t *size);

/* head: as found. Answers REFUSAL_NONE, or why it is refused. */
enum http_refusal head_parse(struct bytes head, struct head *out);

/* By lower-case name; empty when it is not there. Borrowed from `bytes`, where the head is. */
struct bytes head_field_value(const struct head *head, struct bytes bytes, const char *name);

/* "/path?query" or "*", cut in two. False when it is neither, or has what may not stand there. */
bool head_split_target(struct bytes target, struct bytes *path, struct bytes *query);
/* Decimal digits and nothing else, below 10^18. */
bool head_parse_size(struct bytes value, uint64_t *out);
/* Only what may stand in a field's value: no control characters but tab. */
bool head_is_value(struct bytes value);
/* Only what may stand in a method or a field's name. */
bool head_is_token(struct bytes value);
/* Without the spaces and tabs around it. */
struct bytes head_trim(struct bytes value);
/* The same letters, upper or lower case. word: lower case. */
bool head_is_word(struct bytes value, const char *word);

#endif

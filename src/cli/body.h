/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON body of a request, member by member; what has no value is left out.
 */
#ifndef CLI_BODY_H
#define CLI_BODY_H

#include "cli/session.h"
#include "wire/json.h"

struct body {
    struct buffer text;
    struct json json;
    bool is_empty;
};

void body_begin(struct body *b);
/* NULL: left out. */
void body_text(struct body *b, const char *key, const char *value);
/* JSON, byte for byte; empty: left out. */
void body_raw(struct body *b, const char *key, struct bytes value);
void body_number(struct body *b, const char *key, uint64_t value);
/* Only when true. */
void body_flag(struct body *b, const char *key, bool value);
/* A whole number when it is one, else a text. */
void body_number_or_text(struct body *b, const char *key, const char *value);
/* The object, copied to the arena; nothing at all when it has no member and may_be_empty. */
struct bytes body_end(struct body *b, struct cli *cli, bool may_be_empty);

#endif

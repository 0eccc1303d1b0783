/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON body of a request, member by member; what has no value is left out.
 */
#ifndef CLI_FORM_H
#define CLI_FORM_H

#include "cli/session.h"
#include "wire/json.h"

struct form {
    struct buffer text;
    struct json json;
    bool is_empty;
};

void form_begin(struct form *b);
/* NULL: left out. */
void form_text(struct form *b, const char *key, const char *value);
/* JSON, byte for byte; empty: left out. */
void form_raw(struct form *b, const char *key, struct bytes value);
void form_number(struct form *b, const char *key, uint64_t value);
/* Only when true. */
void form_flag(struct form *b, const char *key, bool value);
/* A whole number when it is one, else a text. */
void form_number_or_text(struct form *b, const char *key, const char *value);
/* The object, copied to the arena; nothing at all when it has no member and may_be_empty. */
struct bytes form_end(struct form *b, struct cli *cli, bool may_be_empty);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * See form.h.
 */
#include "cli/form.h"

#include "base/mem.h"

#include <string.h>

void form_begin(struct form *b)
{
    buffer_init(&b->text, mem_process());
    json_init(&b->json, &b->text);
    json_object_begin(&b->json);
    b->is_empty = true;
}

void form_text(struct form *b, const char *key, const char *value)
{
    if (value == NULL) return;
    json_key(&b->json, key);
    json_text(&b->json, value);
    b->is_empty = false;
}

void form_raw(struct form *b, const char *key, struct bytes value)
{
    if (value.len == 0) return;
    json_key(&b->json, key);
    json_raw(&b->json, value);
    b->is_empty = false;
}

void form_number(struct form *b, const char *key, uint64_t value)
{
    json_key(&b->json, key);
    json_uint64(&b->json, value);
    b->is_empty = false;
}

void form_flag(struct form *b, const char *key, bool value)
{
    if (!value) return;
    json_key(&b->json, key);
    json_bool(&b->json, true);
    b->is_empty = false;
}

void form_number_or_text(struct form *b, const char *key, const char *value)
{
    struct value v = value_parse(bytes_of_text(value), NULL);
    int64_t number = 0;

    if (value_int64(v, &number))
        form_raw(b, key, v.raw);
    else
        form_text(b, key, value);
}

struct bytes form_end(struct form *b, struct cli *cli, bool may_be_empty)
{
    json_object_end(&b->json);
    struct bytes kept = BYTES_NONE;
    if (!(b->is_empty && may_be_empty)) kept = arena_copy(&cli->arena, buffer_view(&b->text));
    buffer_release(&b->text);
    return kept;
}

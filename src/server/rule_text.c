/* SPDX-License-Identifier: Apache-2.0
 *
 * See rule_text.h.
 */
#include "server/rule_text.h"

struct bytes rule_trim(struct bytes text)
{
    while (text.len > 0 && text.ptr[0] == ' ') text = bytes_make(text.ptr + 1, text.len - 1);
    while (text.len > 0 && text.ptr[text.len - 1] == ' ') text.len--;
    return text;
}

struct bytes rule_split(struct bytes *text, char separator)
{
    struct bytes part = *text;
    const uint8_t *at = text->len == 0 ? NULL : memchr(text->ptr, separator, text->len);

    if (at == NULL) {
        *text = BYTES_NONE;
    } else {
        part.len = (size_t)(at - text->ptr);
        *text = bytes_make(at + 1, text->len - part.len - 1);
    }
    return rule_trim(part);
}

bool rule_number(struct bytes text, uint32_t *out)
{
    uint64_t value = 0;

    if (text.len == 0 || text.len > 9) return false;
    for (size_t n = 0; n < text.len; n++) {
        if (text.ptr[n] < '0' || text.ptr[n] > '9') return false;
        value = 10 * value + (uint64_t)(text.ptr[n] - '0');
    }
    *out = (uint32_t)value;
    return true;
}

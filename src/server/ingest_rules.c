/* SPDX-License-Identifier: Apache-2.0
 *
 * See ingest_rules.h.
 */
#include "server/ingest_rules.h"

#include "base/assert.h"

static struct bytes trim(struct bytes text)
{
    while (text.len > 0 && text.ptr[0] == ' ') text = bytes_make(text.ptr + 1, text.len - 1);
    while (text.len > 0 && text.ptr[text.len - 1] == ' ') text.len--;
    return text;
}

/* The part before the separator, which goes; all of it when there is none. */
static struct bytes split(struct bytes *text, char separator)
{
    struct bytes part = *text;
    const uint8_t *at = text->len == 0 ? NULL : memchr(text->ptr, separator, text->len);

    if (at == NULL) {
        *text = BYTES_NONE;
    } else {
        part.len = (size_t)(at - text->ptr);
        *text = bytes_make(at + 1, text->len - part.len - 1);
    }
    return trim(part);
}

static bool read_number(struct bytes text, uint32_t *out)
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

static bool read_limit(struct bytes limit, struct backlog_rule *rule)
{
    struct bytes name = split(&limit, '=');
    uint32_t value;

    if (!read_number(trim(limit), &value)) return false;
    if (bytes_equal(name, BYTES_LITERAL("active")) && !rule->has_active_max) {
        rule->has_active_max = true;
        rule->active_max = value;
        return true;
    }
    if (bytes_equal(name, BYTES_LITERAL("rate")) && !rule->has_rate) {
        rule->has_rate = true;
        rule->rate = value;
        return true;
    }
    return false;
}

static bool read_rule(struct bytes text, struct backlog_rule *out)
{
    *out = (struct backlog_rule){.name = split(&text, ':')};
    if (out->name.len == 0 || text.len == 0 || text.ptr[text.len - 1] == ',') return false;
    while (text.len > 0) {
        if (!read_limit(split(&text, ','), out)) return false;
    }
    return true;
}

static bool is_there_twice(struct bytes text, struct bytes name)
{
    uint32_t n = 0;

    while (text.len > 0) {
        struct bytes rule = split(&text, ';');
        if (bytes_equal(split(&rule, ':'), name)) n++;
    }
    return n > 1;
}

bool ingest_rules_count(struct bytes text, uint64_t *out)
{
    struct bytes left = text;
    struct backlog_rule rule;
    uint64_t n = 0;

    if (trim(text).len == 0) left = BYTES_NONE;
    while (left.len > 0) {
        if (!read_rule(split(&left, ';'), &rule) || n == INGEST_RULES_N_MAX) return false;
        if (is_there_twice(text, rule.name)) return false;
        n++;
    }
    *out = n;
    return true;
}

void ingest_rules_read(struct bytes text, struct backlog_rule *out)
{
    if (trim(text).len == 0) return;
    while (text.len > 0) {
        bool is_read = read_rule(split(&text, ';'), out++);
        assert(is_read);
    }
}

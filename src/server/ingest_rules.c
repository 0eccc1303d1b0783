/* SPDX-License-Identifier: Apache-2.0
 *
 * See ingest_rules.h.
 */
#include "server/ingest_rules.h"

#include "base/assert.h"
#include "server/rule_text.h"

static bool read_limit(struct bytes limit, struct backlog_rule *rule)
{
    struct bytes name = rule_split(&limit, '=');
    uint32_t value;

    if (!rule_number(rule_trim(limit), &value)) return false;
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
    *out = (struct backlog_rule){.name = rule_split(&text, ':')};
    if (out->name.len == 0 || text.len == 0 || text.ptr[text.len - 1] == ',') return false;
    while (text.len > 0) {
        if (!read_limit(rule_split(&text, ','), out)) return false;
    }
    return true;
}

static bool is_there_twice(struct bytes text, struct bytes name)
{
    uint32_t n = 0;

    while (text.len > 0) {
        struct bytes rule = rule_split(&text, ';');
        if (bytes_equal(rule_split(&rule, ':'), name)) n++;
    }
    return n > 1;
}

bool ingest_rules_count(struct bytes text, uint64_t *out)
{
    struct bytes left = text;
    struct backlog_rule rule;
    uint64_t n = 0;

    if (rule_trim(text).len == 0) left = BYTES_NONE;
    while (left.len > 0) {
        if (!read_rule(rule_split(&left, ';'), &rule) || n == INGEST_RULES_N_MAX) return false;
        if (is_there_twice(text, rule.name)) return false;
        n++;
    }
    *out = n;
    return true;
}

void ingest_rules_read(struct bytes text, struct backlog_rule *out)
{
    if (rule_trim(text).len == 0) return;
    while (text.len > 0) {
        bool is_read = read_rule(rule_split(&text, ';'), out++);
        assert(is_read);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See policy_rules.h.
 */
#include "server/policy_rules.h"

#include "base/assert.h"
#include "base/units.h"
#include "server/rule_text.h"

#include <stdio.h>
#include <strings.h>

#define TIME_MS_MAX ((int64_t)36500 * 24 * 3600 * 1000)

/* ---- values ---- */

static bool read_time(struct bytes text, int64_t *out)
{
    return duration_parse(text, out) && *out <= TIME_MS_MAX;
}

static bool read_switch(struct bytes text, bool *out)
{
    *out = bytes_equal(text, BYTES_LITERAL("true"));
    return *out || bytes_equal(text, BYTES_LITERAL("false"));
}

static bool read_resort(struct bytes text, enum last_resort *out)
{
    bool is_park = bytes_equal(text, BYTES_LITERAL("park"));

    *out = is_park ? RESORT_PARK : RESORT_FAIL;
    return is_park || bytes_equal(text, BYTES_LITERAL("fail"));
}

/* ---- words ---- */

#define WORDS(X)                                                                                   \
    X(complete_by, read_time, complete_by_ms)                                                      \
    X(retries_failures, read_switch, retries_failures)                                             \
    X(first_threshold, rule_number, first_threshold)                                               \
    X(retry_delay, read_time, retry_delay_ms)                                                      \
    X(retry_delay_max, read_time, retry_delay_max_ms)                                              \
    X(second_threshold, rule_number, second_threshold)                                             \
    X(extended_wait, read_time, extended_ms)                                                       \
    X(last_resort, read_resort, last_resort)

enum word {
#define X(word, read, member) WORD_##word,
    WORDS(X)
#undef X
};

/* said: a bit for each word that was. */
static bool read_word(struct bytes text, struct policy *policy, uint32_t *said)
{
    struct bytes word = rule_split(&text, '=');
    struct bytes value = rule_trim(text);

#define X(name, read, member)                                                                      \
    if (bytes_equal(word, BYTES_LITERAL(#name))) {                                                 \
        if ((*said >> WORD_##name & 1) != 0) return false;                                         \
        *said |= 1u << WORD_##name;                                                                \
        return read(value, &policy->member);                                                       \
    }
    WORDS(X)
#undef X
    return false;
}

static bool read_rule(struct bytes text, struct policy_rule *out)
{
    uint32_t said = 0;

    *out = (struct policy_rule){.name = rule_split(&text, ':'), .policy = policy_default};
    if (out->name.len == 0 || text.len == 0 || text.ptr[text.len - 1] == ',') return false;
    while (text.len > 0) {
        if (!read_word(rule_split(&text, ','), &out->policy, &said)) return false;
    }
    /* who names only the first has no extended wait in mind */
    if ((said >> WORD_second_threshold & 1) == 0) {
        out->policy.second_threshold = out->policy.first_threshold;
    }
    return out->policy.second_threshold >= out->policy.first_threshold;
}

/* ---- all of it ---- */

static bool is_same_name(struct bytes a, struct bytes b)
{
    return a.len == b.len && strncasecmp((const char *)a.ptr, (const char *)b.ptr, a.len) == 0;
}

static bool is_there_twice(struct bytes text, struct bytes name)
{
    uint32_t n = 0;

    while (text.len > 0) {
        struct bytes rule = rule_split(&text, ';');
        if (is_same_name(rule_split(&rule, ':'), name)) n++;
    }
    return n > 1;
}

bool policy_rules_count(struct bytes text, uint64_t *out)
{
    struct bytes left = rule_trim(text);
    struct policy_rule rule;
    uint64_t n = 0;

    while (left.len > 0) {
        if (!read_rule(rule_split(&left, ';'), &rule) || n == POLICY_RULES_N_MAX) return false;
        if (is_there_twice(text, rule.name)) return false;
        n++;
    }
    *out = n;
    return true;
}

void policy_rules_read(struct bytes text, struct policy_rule *list, struct policy_rules *out)
{
    struct bytes left = rule_trim(text);

    *out = (struct policy_rules){.list = list, .otherwise = policy_default};
    while (left.len > 0) {
        struct policy_rule rule;
        bool is_read = read_rule(rule_split(&left, ';'), &rule);
        assert(is_read);
        if (bytes_equal(rule.name, BYTES_LITERAL("*")))
            out->otherwise = rule.policy;
        else
            list[out->n++] = rule;
    }
}

const struct policy *policy_rules_find(void *user, struct bytes name)
{
    const struct policy_rules *rules = user;

    for (size_t n = 0; n < rules->n; n++) {
        if (is_same_name(rules->list[n].name, name)) return &rules->list[n].policy;
    }
    return &rules->otherwise;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See units.h.
 */
#include "server/units.h"

#include <stddef.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit durations[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
};
static const struct unit sizes[] = {
    {"", 1},
    {"B", 1},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
};

/* The number at the start of text; *rest: what follows it. */
static bool digits_read(const char *text, const char **rest, uint64_t *out)
{
    uint64_t value = 0;
    const char *at = text;

    if (*at < '0' || *at > '9') return false;
    for (; (*at >= '0' && *at <= '9') || *at == '_'; at++) {
        if (*at == '_') {
            if (at[1] < '0' || at[1] > '9') return false;
            continue;
        }
        if (__builtin_mul_overflow(value, UINT64_C(10), &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) return false;
    }
    *rest = at;
    *out = value;
    return true;
}

static bool number_read(const char *text, const struct unit *units, size_t units_n, uint64_t *out)
{
    const char *rest;
    uint64_t value;

    if (!digits_read(text, &rest, &value)) return false;
    for (size_t i = 0; i < units_n; i++) {
        if (strcmp(rest, units[i].name) != 0) continue;
        if (__builtin_mul_overflow(value, units[i].factor, &value)) return false;
        *out = value;
        return true;
    }
    return false;
}

bool count_read(const char *text, uint64_t *out) { return number_read(text, sizes, 1, out); }

bool duration_read(const char *text, uint64_t *out_ms)
{
    return number_read(text, durations, sizeof durations / sizeof durations[0], out_ms);
}

bool size_read(const char *text, uint64_t *out)
{
    return number_read(text, sizes, sizeof sizes / sizeof sizes[0], out);
}

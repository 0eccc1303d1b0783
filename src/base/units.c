/* SPDX-License-Identifier: Apache-2.0
 *
 * See units.h.
 */
#include "base/units.h"

#include "base/assert.h"

#include <stdio.h>

/* In tables from the smallest on. */
struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit durations[] = {
    {"ms", 1}, {"s", MS_PER_S}, {"m", MS_PER_MINUTE}, {"h", MS_PER_HOUR}, {"d", MS_PER_DAY},
};
static const struct unit sizes[] = {
    {"B", 1},
    {"", 1},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
};

/* ---- reading ---- */

static bool is_digit(struct bytes text, size_t at)
{
    return at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9';
}

/* The number at the start of the text; *rest: what follows it. */
static bool take_number(struct bytes text, struct bytes *rest, uint64_t *out)
{
    uint64_t value = 0;
    size_t at = 0;

    if (!is_digit(text, 0)) return false;
    for (; is_digit(text, at) || (at < text.len && text.ptr[at] == '_'); at++) {
        if (text.ptr[at] == '_') {
            if (!is_digit(text, at + 1)) return false;
            continue;
        }
        if (__builtin_mul_overflow(value, UINT64_C(10), &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(text.ptr[at] - '0'), &value)) return false;
    }
    *rest = bytes_make(text.ptr + at, text.len - at);
    *out = value;
    return true;
}

static bool parse(struct bytes text, const struct unit *units, size_t units_n, uint64_t *out)
{
    struct bytes rest;
    uint64_t value;

    if (!take_number(text, &rest, &value)) return false;
    for (size_t n = 0; n < units_n; n++) {
        if (!bytes_equal(rest, bytes_of_text(units[n].name))) continue;
        if (__builtin_mul_overflow(value, units[n].factor, &value)) return false;
        *out = value;
        return true;
    }
    return false;
}

bool count_parse(struct bytes text, uint64_t *out) { return parse(text, &sizes[1], 1, out); }

bool decimal_parse(struct bytes text, uint64_t max, uint64_t *out)
{
    uint64_t value;

    if (!count_parse(text, &value) || value > max) return false;
    if (memchr(text.ptr, '_', text.len) != NULL) return false; /* that is for people */
    *out = value;
    return true;
}

bool size_parse(struct bytes text, uint64_t *out)
{
    return parse(text, sizes, sizeof sizes / sizeof sizes[0], out);
}

bool duration_parse(struct bytes text, int64_t *out_ms)
{
    uint64_t ms;

    if (!parse(text, durations, sizeof durations / sizeof durations[0], &ms) || ms > INT64_MAX)
        return false;
    *out_ms = (int64_t)ms;
    return true;
}

/* ---- writing ---- */

static void format(uint64_t value, const struct unit *units, size_t units_n, char out[UNITS_SIZE])
{
    size_t n = value == 0 ? 0 : units_n - 1;

    while (value % units[n].factor != 0) n--;
    (void)snprintf(out, UNITS_SIZE, "%llu%s", (unsigned long long)(value / units[n].factor),
                   units[n].name);
}

void duration_format(int64_t ms, char out[static UNITS_SIZE])
{
    assert(ms >= 0);
    format((uint64_t)ms, durations, sizeof durations / sizeof durations[0], out);
}

void size_format(uint64_t size, char out[static UNITS_SIZE])
{
    format(size, sizes, sizeof sizes / sizeof sizes[0], out);
}

void duration_describe(int64_t ms_n, char out[static UNITS_SIZE])
{
    long long ms = (long long)ms_n;

    if (ms < MS_PER_S)
        (void)snprintf(out, UNITS_SIZE, "%lldms", ms);
    else if (ms < MS_PER_MINUTE)
        (void)snprintf(out, UNITS_SIZE, "%lld.%llds", ms / MS_PER_S, ms % MS_PER_S / 100);
    else if (ms < MS_PER_HOUR)
        (void)snprintf(out, UNITS_SIZE, "%lldm%02llds", ms / MS_PER_MINUTE,
                       ms % MS_PER_MINUTE / MS_PER_S);
    else if (ms < MS_PER_DAY)
        (void)snprintf(out, UNITS_SIZE, "%lldh%02lldm", ms / MS_PER_HOUR,
                       ms % MS_PER_HOUR / MS_PER_MINUTE);
    else
        (void)snprintf(out, UNITS_SIZE, "%lldd%lldh", ms / MS_PER_DAY,
                       ms % MS_PER_DAY / MS_PER_HOUR);
}

void size_describe(uint64_t size, char out[static UNITS_SIZE])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned long long whole = size;
    unsigned long long rest = 0;
    size_t unit = 0;

    for (; whole >= 1024; whole /= 1024, unit++) rest = whole % 1024;
    if (unit == 0 || whole >= 100)
        (void)snprintf(out, UNITS_SIZE, "%llu %s", whole, names[unit]);
    else
        (void)snprintf(out, UNITS_SIZE, "%llu.%llu %s", whole, rest * 10 / 1024, names[unit]);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See when.h.
 */
#include "cli/when.h"

#include "base/clock.h"
#include "base/moment.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* A day or a time; made RFC 3339 here, which is strict. */
static bool time_of_text(const char *text, int64_t *out_ns)
{
    static const char midnight[] = "T00:00:00Z";
    enum { DAY_LEN = 10 }; /* "2026-11-15" */
    char full[64];

    int len = snprintf(full, sizeof full, "%s%s", text, strlen(text) == DAY_LEN ? midnight : "");
    if (len >= (int)sizeof full) return false;
    if (len > DAY_LEN && full[DAY_LEN] == ' ') full[DAY_LEN] = 'T';
    return time_parse(bytes_make(full, (size_t)len), out_ns);
}

bool when_parse(const char *text, int64_t now_ns, bool is_ahead, int64_t *out_ns)
{
    int64_t ms = 0;
    int64_t ns = now_ns;

    if (duration_parse(bytes_of_text(text), &ms)) {
        if (__builtin_mul_overflow(ms, is_ahead ? NS_PER_MS : -NS_PER_MS, &ns)) return false;
        if (__builtin_add_overflow(now_ns, ns, &ns)) return false;
    } else if (strcmp(text, "now") != 0 && !time_of_text(text, &ns)) {
        return false;
    }
    if (ns < 0) return false;
    *out_ns = ns;
    return true;
}

void when_format(int64_t time_ns, int64_t now_ns, char out[static WHEN_SIZE])
{
    bool is_ahead = time_ns > now_ns;
    int64_t ms = (is_ahead ? time_ns - now_ns : now_ns - time_ns) / NS_PER_MS;
    const char *unit = "d";
    int64_t n = ms / MS_PER_DAY;

    if (ms < MS_PER_S) {
        (void)snprintf(out, WHEN_SIZE, "now");
        return;
    }
    if (ms < MS_PER_MINUTE) {
        unit = "s";
        n = ms / MS_PER_S;
    } else if (ms < MS_PER_HOUR) {
        unit = "m";
        n = ms / MS_PER_MINUTE;
    } else if (ms < 2 * MS_PER_DAY) {
        unit = "h";
        n = ms / MS_PER_HOUR;
    }
    (void)snprintf(out, WHEN_SIZE, is_ahead ? "in %lld%s" : "%lld%s ago", (long long)n, unit);
}

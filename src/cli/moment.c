/* SPDX-License-Identifier: Apache-2.0
 *
 * See moment.h.
 */
#include "cli/moment.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MS_PER_S INT64_C(1000)
#define MS_PER_M (60 * MS_PER_S)
#define MS_PER_H (60 * MS_PER_M)
#define MS_PER_D (24 * MS_PER_H)
#define MS_MAX (36525 * MS_PER_D)

bool duration_parse(const char *text, int64_t *out_ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", MS_PER_S}, {"m", MS_PER_M}, {"h", MS_PER_H}, {"d", MS_PER_D}};
    int64_t value = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (*at - '0');
        if (value > MS_MAX) return false;
    }
    if (at == text) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(at, units[i].name) != 0) continue;
        if (value > MS_MAX / units[i].ms) return false;
        *out_ms = value * units[i].ms;
        return true;
    }
    return false;
}

/* ---- RFC 3339 ---- */

/* So many digits; moves over them. */
static bool digits_read(const char **at, int n, int *out)
{
    *out = 0;
    for (; n > 0; n--, ++*at) {
        if (**at < '0' || **at > '9') return false;
        *out = *out * 10 + (**at - '0');
    }
    return true;
}

static bool byte_read(const char **at, const char *among)
{
    if (**at == '\0' || strchr(among, **at) == NULL) return false;
    ++*at;
    return true;
}

/* "Z" or "+01:30". */
static bool offset_read(const char **at, int64_t *out_s)
{
    int hours;
    int minutes;
    char sign = **at;

    if (byte_read(at, "Zz")) return true;
    if (!byte_read(at, "+-") || !digits_read(at, 2, &hours) || !byte_read(at, ":") ||
        !digits_read(at, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *out_s = (hours * 60 + minutes) * (sign == '-' ? -60 : 60);
    return true;
}

static bool clock_read(const char **at, struct tm *tm, int64_t *fraction_ns)
{
    int64_t unit_ns = NS_PER_S;

    if (!digits_read(at, 2, &tm->tm_hour) || !byte_read(at, ":") ||
        !digits_read(at, 2, &tm->tm_min) || !byte_read(at, ":") || !digits_read(at, 2, &tm->tm_sec))
        return false;
    if (tm->tm_hour > 23 || tm->tm_min > 59 || tm->tm_sec > 60) return false;
    if (!byte_read(at, ".")) return true;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        unit_ns /= 10;
        *fraction_ns += unit_ns * (**at - '0');
    }
    return *at > first;
}

static bool instant_parse(const char *text, int64_t *out_ns)
{
    struct tm tm = {0};
    int64_t fraction_ns = 0;
    int64_t offset_s = 0;
    const char *at = text;

    if (!digits_read(&at, 4, &tm.tm_year) || !byte_read(&at, "-") ||
        !digits_read(&at, 2, &tm.tm_mon) || !byte_read(&at, "-") ||
        !digits_read(&at, 2, &tm.tm_mday))
        return false;
    if (*at != '\0' && !(byte_read(&at, "Tt ") && clock_read(&at, &tm, &fraction_ns) &&
                         offset_read(&at, &offset_s)))
        return false;
    if (*at != '\0' || tm.tm_year < 1970 || tm.tm_year > 2261) return false;
    int day = tm.tm_mday;
    int month = tm.tm_mon - 1;
    tm.tm_year -= 1900;
    tm.tm_mon = month;
    int64_t seconds = (int64_t)timegm(&tm);
    if (tm.tm_mday != day || tm.tm_mon != month) return false; /* no such day */
    *out_ns = (seconds - offset_s) * NS_PER_S + fraction_ns;
    return true;
}

bool moment_parse(const char *text, int64_t now_ns, bool is_ahead, int64_t *out_ns)
{
    int64_t ms = 0;

    if (strcmp(text, "now") == 0) {
        *out_ns = now_ns;
        return true;
    }
    if (!duration_parse(text, &ms)) return instant_parse(text, out_ns);
    int64_t ns = ms * NS_PER_MS;
    *out_ns = is_ahead ? now_ns + ns : now_ns - ns;
    return *out_ns >= 0;
}

void moment_format(int64_t time_ns, char out[static MOMENT_SIZE])
{
    struct tm tm;
    time_t seconds = (time_t)(time_ns / NS_PER_S);
    int64_t fraction_ns = time_ns % NS_PER_S;

    if (fraction_ns < 0) {
        fraction_ns += NS_PER_S;
        seconds--;
    }
    if (gmtime_r(&seconds, &tm) == NULL) memset(&tm, 0, sizeof tm);
    size_t len = strftime(out, MOMENT_SIZE - 12, "%Y-%m-%dT%H:%M:%S", &tm);
    if (fraction_ns % 1000 != 0)
        (void)snprintf(out + len, MOMENT_SIZE - len, ".%09dZ", (int)fraction_ns);
    else if (fraction_ns % NS_PER_MS != 0)
        (void)snprintf(out + len, MOMENT_SIZE - len, ".%06dZ", (int)(fraction_ns / 1000));
    else if (fraction_ns != 0)
        (void)snprintf(out + len, MOMENT_SIZE - len, ".%03dZ", (int)(fraction_ns / NS_PER_MS));
    else
        (void)snprintf(out + len, MOMENT_SIZE - len, "Z");
}

void moment_format_relative(int64_t time_ns, int64_t now_ns, char out[static MOMENT_SIZE])
{
    bool is_ahead = time_ns > now_ns;
    int64_t ms = (is_ahead ? time_ns - now_ns : now_ns - time_ns) / NS_PER_MS;
    const char *unit = "d";
    int64_t n = ms / MS_PER_D;

    if (ms < MS_PER_S) {
        (void)snprintf(out, MOMENT_SIZE, "now");
        return;
    }
    if (ms < MS_PER_M) {
        unit = "s";
        n = ms / MS_PER_S;
    } else if (ms < MS_PER_H) {
        unit = "m";
        n = ms / MS_PER_M;
    } else if (ms < 2 * MS_PER_D) {
        unit = "h";
        n = ms / MS_PER_H;
    }
    (void)snprintf(out, MOMENT_SIZE, is_ahead ? "in %lld%s" : "%lld%s ago", (long long)n, unit);
}

void duration_format(int64_t duration_ns, char out[static MOMENT_SIZE])
{
    long long ms = (long long)(duration_ns / NS_PER_MS);

    if (ms < MS_PER_S)
        (void)snprintf(out, MOMENT_SIZE, "%lldms", ms);
    else if (ms < MS_PER_M)
        (void)snprintf(out, MOMENT_SIZE, "%lld.%llds", ms / MS_PER_S, ms % MS_PER_S / 100);
    else if (ms < MS_PER_H)
        (void)snprintf(out, MOMENT_SIZE, "%lldm%02llds", ms / MS_PER_M, ms % MS_PER_M / MS_PER_S);
    else if (ms < MS_PER_D)
        (void)snprintf(out, MOMENT_SIZE, "%lldh%02lldm", ms / MS_PER_H, ms % MS_PER_H / MS_PER_M);
    else
        (void)snprintf(out, MOMENT_SIZE, "%lldd%lldh", ms / MS_PER_D, ms % MS_PER_D / MS_PER_H);
}

void size_format(uint64_t size, char out[static MOMENT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    uint64_t rest = 0;

    for (; size >= 1024; size /= 1024, unit++) rest = size % 1024;
    if (unit == 0 || size >= 100)
        (void)snprintf(out, MOMENT_SIZE, "%llu %s", (unsigned long long)size, units[unit]);
    else
        (void)snprintf(out, MOMENT_SIZE, "%llu.%llu %s", (unsigned long long)size,
                       (unsigned long long)(rest * 10 / 1024), units[unit]);
}

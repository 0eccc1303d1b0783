/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of the query and of headers, read where they are needed.
 */
#include "rest/state.h"

#include "base/clock.h"

#define WAIT_MAX_S 60u

void ask_bad_parameter(struct ask *ask, const char *name, const char *what)
{
    ask_problem(ask, PROBLEM_BAD_PARAMETER, NULL, "the parameter '%s' %s", name, what);
}

bool ask_read_bool(struct ask *ask, const char *name, bool *out)
{
    struct maybe text = ask_parameter(ask, name);

    if (!text.has) return true;
    bool is_true = bytes_equal(text.value, BYTES_LITERAL("true"));
    if (!is_true && !bytes_equal(text.value, BYTES_LITERAL("false"))) {
        ask_bad_parameter(ask, name, "must be true or false");
        return false;
    }
    *out = is_true;
    return true;
}

static bool number_read(struct bytes text, int64_t *out)
{
    return decimal_parse(text, INT64_MAX, (uint64_t *)out);
}

bool ask_read_number(struct ask *ask, const char *name, int64_t min, int64_t max, int64_t *out)
{
    struct maybe text = ask_parameter(ask, name);
    int64_t value;

    if (!text.has) return true;
    if (!number_read(text.value, &value) || value < min || value > max) {
        ask_problem(ask, PROBLEM_BAD_PARAMETER, NULL,
                    "the parameter '%s' must be a number from %lld to %lld", name, (long long)min,
                    (long long)max);
        return false;
    }
    *out = value;
    return true;
}

bool ask_read_duration_ms(struct ask *ask, const char *name, int64_t max_ms, int64_t *out)
{
    struct maybe text = ask_parameter(ask, name);
    int64_t ms;

    if (!text.has) return true;
    if (!duration_parse(text.value, &ms) || ms > max_ms) {
        ask_problem(ask, PROBLEM_BAD_PARAMETER, NULL,
                    "the parameter '%s' must be a duration like 250ms, 10s, 5m or 2h, at most %lld "
                    "ms",
                    name, (long long)max_ms);
        return false;
    }
    *out = ms;
    return true;
}

bool time_or_ago_read(struct bytes text, int64_t wall_ns, int64_t *ns)
{
    int64_t ms, ago_ns;

    if (time_parse(text, ns)) return true;
    if (!duration_parse(text, &ms) || __builtin_mul_overflow(ms, NS_PER_MS, &ago_ns)) return false;
    return !__builtin_sub_overflow(wall_ns, ago_ns, ns);
}

/* Preferences have commas or semicolons between them; what is not understood is ignored, as the
 * standard wants it (RFC 7240). */
unsigned ask_prefers_wait(const struct ask *ask)
{
    struct bytes rest = http_header(ask->exchange, "prefer");

    while (rest.len > 0) {
        size_t len = 0;
        while (len < rest.len && rest.ptr[len] != ',' && rest.ptr[len] != ';') len++;
        struct bytes one = bytes_make(rest.ptr, len);
        size_t over = len < rest.len ? len + 1 : len;
        rest = bytes_make(rest.ptr + over, rest.len - over);
        while (one.len > 0 && one.ptr[0] == ' ') one = bytes_make(one.ptr + 1, one.len - 1);
        while (one.len > 0 && one.ptr[one.len - 1] == ' ') one.len--;
        if (!bytes_start_with(one, BYTES_LITERAL("wait="))) continue;
        int64_t seconds;
        if (!number_read(bytes_make(one.ptr + 5, one.len - 5), &seconds)) continue;
        return seconds > WAIT_MAX_S ? WAIT_MAX_S : (unsigned)seconds;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a time, a duration or a size: what is taken is written such that it reads back as
 * the same.
 */
#include "base/assert.h"
#include "base/moment.h"
#include "base/units.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_moment(struct bytes text)
{
    struct moment m, again;
    char written[MOMENT_SIZE];
    int64_t ns;

    if (!moment_parse(text, &m)) return;
    assert(m.nanos >= 0 && m.nanos < 1000000000);
    for (int digits_n = MOMENT_SHORTEST; digits_n <= 9; digits_n++) {
        size_t len = moment_format(m, digits_n, written);
        if (len == 0) return; /* an offset led out of the years with four digits */
        assert(moment_parse(bytes_make(written, len), &again));
        assert(again.seconds == m.seconds);
        assert(again.nanos <= m.nanos);
        if (digits_n == MOMENT_SHORTEST || digits_n == 9) assert(again.nanos == m.nanos);
    }
    if (!moment_to_ns(m, &ns)) return;
    again = moment_of_ns(ns);
    assert(again.seconds == m.seconds && again.nanos == m.nanos);
}

static void check_duration(struct bytes text)
{
    char written[UNITS_SIZE];
    int64_t ms, again;

    if (!duration_parse(text, &ms)) return;
    assert(ms >= 0);
    duration_describe(ms, written);
    duration_format(ms, written);
    assert(duration_parse(bytes_of_text(written), &again));
    assert(ms == again);
}

static void check_size(struct bytes text)
{
    char written[UNITS_SIZE];
    uint64_t size, again;

    if (count_parse(text, &size)) assert(size_parse(text, &again) && again == size);
    if (!size_parse(text, &size)) return;
    size_describe(size, written);
    size_format(size, written);
    assert(size_parse(bytes_of_text(written), &again));
    assert(size == again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_make(data, size);

    check_moment(text);
    check_duration(text);
    check_size(text);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_report.h.
 */
#include "cmd/bench_report.h"

#include "base/mem.h"

#include <stdio.h>

void put_count(struct json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_uint64(j, value);
}

void put_number(struct json *j, const char *key, double value)
{
    json_key(j, key);
    json_double(j, value);
}

void put_target(struct json *j, const char *key, bool is_reached)
{
    json_key(j, key);
    json_text(j, is_reached ? "reached" : "missed");
}

void put_fsync(struct json *j, const struct histogram *fsync_us)
{
    put_count(j, "fsync_p50_us", histogram_at(fsync_us, 500));
    put_count(j, "fsync_p99_us", histogram_at(fsync_us, 990));
}

double ms_at(const struct histogram *us, uint32_t per_mille)
{
    return (double)histogram_at(us, per_mille) / 1000;
}

void bench_report_begin(struct bench_report *r, const char *name)
{
    buffer_init(&r->text, mem_process());
    json_init(&r->json, &r->text);
    json_object_begin(&r->json);
    json_key(&r->json, "benchmark");
    json_text(&r->json, name);
}

/* One line per member: the object is flat but for short arrays. */
static void print_lines(struct bytes json)
{
    bool in_text = false;
    int depth = 0;
    for (size_t n = 1; n + 1 < json.len; n++) {
        char c = (char)json.ptr[n];
        if (c == '"')
            in_text = !in_text;
        else if (c == '[')
            depth++;
        else if (c == ']')
            depth--;
        if (c == ',' && !in_text && depth == 0)
            putchar('\n');
        else if (c == ':' && !in_text)
            fputs("  ", stdout);
        else if (c != '"')
            putchar(c);
    }
    putchar('\n');
}

void bench_report_end(struct bench_report *r, bool as_json)
{
    json_object_end(&r->json);
    if (as_json)
        printf("%.*s\n", (int)r->text.len, (const char *)r->text.ptr);
    else
        print_lines(buffer_view(&r->text));
    buffer_release(&r->text);
}

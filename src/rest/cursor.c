/* SPDX-License-Identifier: Apache-2.0
 *
 * See cursor.h. The text is the time in 16 hexadecimal digits and the id in as many as it needs, so
 * that it can stand in a URL as it is.
 */
#include "rest/cursor.h"

#include "core/limits.h"
#include "host/rows.h"

#define TIME_DIGITS 16
/* The letter says the version and the order, which a cursor is good for. */
#define OLDEST_LETTER 'k'
#define NEWEST_LETTER 'n'

static const char digits[] = "0123456789abcdef";

void cursor_write_rows(struct json *j, const struct request *request, size_t n)
{
    char text[1 + TIME_DIGITS + 2 * LIMIT_ID_SIZE];
    size_t len = 0;

    if (n == 0 || (n == request->rows_n && !request->has_more)) return;
    const struct instance_view *last = &request->rows[n - 1];
    struct bytes id = key_id(last->key);
    uint64_t time = (uint64_t)view_time_ms(last, request->query.by_completion);
    assert(id.len <= LIMIT_ID_SIZE);
    text[len++] = request->query.newest_first ? NEWEST_LETTER : OLDEST_LETTER;
    for (int shift = 60; shift >= 0; shift -= 4) text[len++] = digits[time >> shift & 15];
    for (size_t i = 0; i < id.len; i++) {
        text[len++] = digits[id.ptr[i] >> 4];
        text[len++] = digits[id.ptr[i] & 15];
    }
    write_text_of(j, "next", bytes_make(text, len));
}

static int digit_value(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The id into `id`, of LIMIT_ID_SIZE bytes. */
static bool position_read(struct bytes text, uint64_t *time, uint8_t *id, size_t *id_size)
{
    if (text.len < 1 + TIME_DIGITS + 2) return false;
    if (text.ptr[0] != OLDEST_LETTER && text.ptr[0] != NEWEST_LETTER) return false;
    if (text.len > 1 + TIME_DIGITS + 2 * LIMIT_ID_SIZE || text.len % 2 == 0) return false;
    *time = 0;
    *id_size = 0;
    for (size_t n = 1; n < text.len; n++) {
        int digit = digit_value(text.ptr[n]);
        size_t of_id = n - 1 - TIME_DIGITS;
        if (digit < 0) return false;
        if (n <= TIME_DIGITS) {
            *time = *time << 4 | (uint64_t)digit;
        } else if (of_id % 2 == 0) {
            id[*id_size] = (uint8_t)(digit << 4);
        } else {
            id[*id_size] = (uint8_t)(id[*id_size] | digit);
            ++*id_size;
        }
    }
    return true;
}

bool cursor_read_rows(struct errand *errand, struct maybe cursor, struct request_query *query)
{
    uint8_t id[LIMIT_ID_SIZE];
    size_t id_size;
    uint64_t time;

    if (!cursor.has || cursor.value.len == 0) return true;
    if (!position_read(cursor.value, &time, id, &id_size)) {
        ask_bad_parameter(errand_ask(errand), "cursor",
                          "is not one that this server gave: begin again without one");
        return false;
    }
    if ((cursor.value.ptr[0] == NEWEST_LETTER) != query->newest_first) {
        ask_bad_parameter(errand_ask(errand), "cursor",
                          "is of a list in the other order: give the same order with every page");
        return false;
    }
    query->has_after = true;
    query->after_ms = (int64_t)time;
    query->after_id = errand_copy(errand, bytes_make(id, id_size));
    if (query->after_id.len == id_size) return true;
    ask_busy(errand_ask(errand));
    return false;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_ingest.h: nothing that was acknowledged may be missing. The list tells of a thousand
 * with one question; an id that is not in it is asked for by itself before it is called lost.
 */
#include "cmd/bench_ingest.h"

#include "base/mem.h"
#include "wire/json_read.h"

#include <stdio.h>

#define PAGE_N 1000
#define ASKED_AT_ONCE 100u

struct walk {
    const struct ingest_load *load;
    struct ingest_check *out;
    uint64_t *listed; /* a bit for each start */
    struct buffer key;
    struct buffer text;
    struct buffer cursor; /* of the next page; empty at the end */
};

/* The number in an id of this run; false for others. */
static bool read_number(const struct walk *walk, struct bytes id, uint64_t *out)
{
    struct bytes prefix = bytes_of_text(walk->load->prefix);
    uint64_t number = 0;
    if (id.len != prefix.len + 9 || !bytes_start_with(id, prefix)) return false;
    for (size_t n = prefix.len + 1; n < id.len; n++) {
        uint8_t c = id.ptr[n];
        if (c >= '0' && c <= '9')
            number = number << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            number = number << 4 | (uint64_t)(c - 'a' + 10);
        else
            return false;
    }
    *out = number;
    return number < walk->load->starts;
}

static void read_instance(struct walk *walk, struct json_reader *r)
{
    uint64_t number = 0;
    bool is_ours = false;
    bool is_completed = false;
    json_read_begin(r);
    while (json_read_item(r)) {
        json_read_key(r, &walk->key);
        bool is_id = bytes_equal(buffer_view(&walk->key), BYTES_LITERAL("id"));
        bool is_status = bytes_equal(buffer_view(&walk->key), BYTES_LITERAL("status"));
        if (!is_id && !is_status) {
            json_skip(r);
            continue;
        }
        json_read_string(r, &walk->text);
        if (is_id) is_ours = read_number(walk, buffer_view(&walk->text), &number);
        if (is_status)
            is_completed = bytes_equal(buffer_view(&walk->text), BYTES_LITERAL("completed"));
    }
    if (r->failed || !is_ours || (walk->listed[number / 64] >> (number % 64) & 1) != 0) return;
    walk->listed[number / 64] |= UINT64_C(1) << (number % 64);
    if (ingest_is_acked(walk->load, number)) walk->out->completed += is_completed;
}

static bool read_page(struct walk *walk, struct bytes body)
{
    struct json_reader r = json_reader_make(body);
    buffer_clear(&walk->cursor);
    json_read_begin(&r);
    while (json_read_item(&r)) {
        json_read_key(&r, &walk->key);
        if (bytes_equal(buffer_view(&walk->key), BYTES_LITERAL("items"))) {
            json_read_begin(&r);
            while (json_read_item(&r)) read_instance(walk, &r);
        } else if (bytes_equal(buffer_view(&walk->key), BYTES_LITERAL("next"))) {
            json_read_string(&r, &walk->cursor);
        } else {
            json_skip(&r);
        }
    }
    return !r.failed;
}

/* False when the server has no list, or stopped in the middle: then the rest is asked for. */
static bool walk_list(struct walk *walk, struct ingest_reader *reader)
{
    char path[1024];
    do {
        int n = snprintf(path, sizeof path,
                         "/v1/instances?hub=%s&idPrefix=%s-&limit=%d&payloads=false%s%.*s",
                         walk->load->settings.hub, walk->load->prefix, PAGE_N,
                         walk->cursor.len > 0 ? "&cursor=" : "", (int)walk->cursor.len,
                         (const char *)walk->cursor.ptr);
        if (n < 0 || (size_t)n >= sizeof path) return false;
        if (ingest_get(reader, path) != 200) return false;
        if (!read_page(walk, buffer_view(&reader->body))) return false;
        walk->out->is_listed = true;
    } while (walk->cursor.len > 0);
    return true;
}

/* The next acknowledged start from `number` on that is not in the list. */
static uint64_t next_unlisted(const struct walk *walk, uint64_t number)
{
    const struct ingest_load *load = walk->load;
    while (number < load->starts && (!ingest_is_acked(load, number) ||
                                     (walk->listed[number / 64] >> (number % 64) & 1) != 0))
        number++;
    return number;
}

static bool ask_each(struct walk *walk, struct ingest_reader *reader)
{
    char line[512];
    char id[INGEST_ID_SIZE];
    struct buffer requests;
    struct ingest_check *out = walk->out;
    bool is_answered = true;
    buffer_init(&requests, mem_process());
    for (uint64_t number = next_unlisted(walk, 0); number < walk->load->starts && is_answered;) {
        uint32_t asked_n = 0;
        buffer_clear(&requests);
        for (; asked_n < ASKED_AT_ONCE && number < walk->load->starts; asked_n++) {
            ingest_id(walk->load, number, id);
            int n = snprintf(line, sizeof line,
                             "GET /v1/instances/%s?hub=%s&payloads=false HTTP/1.1\r\n"
                             "Host: %s\r\n\r\n",
                             id, walk->load->settings.hub, walk->load->target.text);
            buffer_append(&requests, line, (size_t)n);
            number = next_unlisted(walk, number + 1);
        }
        is_answered = ingest_send(reader, buffer_view(&requests));
        for (; asked_n > 0 && is_answered; asked_n--) {
            unsigned status = ingest_receive(reader);
            is_answered = status == 200 || status == 404;
            out->unlisted += status == 200 && out->is_listed;
            out->lost += status == 404;
        }
    }
    buffer_release(&requests);
    return is_answered;
}

bool ingest_check_run(const struct ingest_load *load, struct ingest_reader *reader,
                      struct ingest_check *out)
{
    struct walk walk = {.load = load, .out = out};
    size_t size = load->starts / 8 + 8;
    *out = (struct ingest_check){0};
    walk.listed = mem_take_zero(mem_process(), size);
    if (walk.listed == NULL) return false;
    buffer_init(&walk.key, mem_process());
    buffer_init(&walk.text, mem_process());
    buffer_init(&walk.cursor, mem_process());
    (void)walk_list(&walk, reader);
    bool is_good = ask_each(&walk, reader);
    out->found = load->acked - out->lost;
    if (!is_good) fputs("norn bench ingest: the ids could not be read back\n", stderr);
    buffer_release(&walk.key);
    buffer_release(&walk.text);
    buffer_release(&walk.cursor);
    mem_give(mem_process(), walk.listed, size);
    return is_good;
}

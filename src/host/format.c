/* SPDX-License-Identifier: Apache-2.0
 *
 * See format.h.
 */
#include "host/format.h"

#include "base/assert.h"
#include "store/io.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMAT_PATH "format"
#define FORMAT_SIZE_MAX 1000

/* "name value\n": takes it off *text. False when it is not there. */
static bool take_line(struct bytes *text, const char *name, int base, uint64_t *out)
{
    char line[64];
    size_t name_len = strlen(name);

    const uint8_t *stop = text->len == 0 ? NULL : memchr(text->ptr, '\n', text->len);
    if (stop == NULL) return false;
    size_t len = (size_t)(stop - text->ptr);
    if (len >= sizeof line || len < name_len + 2) return false;
    memcpy(line, text->ptr, len);
    line[len] = '\0';
    if (memcmp(line, name, name_len) != 0 || line[name_len] != ' ') return false;
    char *end = NULL;
    *out = strtoull(line + name_len + 1, &end, base);
    if (end != line + len || line[name_len + 1] == '-') return false;
    *text = bytes_make(stop + 1, text->len - len - 1);
    return true;
}

static enum status parse(struct bytes text, uint32_t version, struct format *out)
{
    uint64_t found, partitions_n, shards_n, key[2];

    if (!take_line(&text, "norn", 10, &found)) return E_CORRUPT;
    if (found > version) return E_VERSION;
    bool is_read = take_line(&text, "partitions", 10, &partitions_n) &&
                   take_line(&text, "shards", 10, &shards_n) &&
                   take_line(&text, "mac-key-0", 16, &key[0]) &&
                   take_line(&text, "mac-key-1", 16, &key[1]);
    if (!is_read || found == 0 || partitions_n == 0 || partitions_n > UINT32_MAX || shards_n == 0 ||
        shards_n > partitions_n) {
        return E_CORRUPT;
    }
    *out = (struct format){
        (uint32_t)found, (uint32_t)partitions_n, (uint32_t)shards_n, {key[0], key[1]}};
    return OK;
}

enum status format_read(struct io *io, struct mem *mem, uint32_t version, struct format *out)
{
    struct buffer text;

    buffer_init(&text, mem);
    enum status status = io_read_file(io, FORMAT_PATH, FORMAT_SIZE_MAX, &text);
    if (status == E_LIMIT) status = E_CORRUPT;
    if (status == OK) status = parse(buffer_view(&text), version, out);
    buffer_release(&text);
    return status;
}

enum status format_write(struct io *io, const struct format *format)
{
    char text[FORMAT_SIZE_MAX];

    assert(format->version > 0);
    int n = snprintf(text, sizeof text,
                     "norn %" PRIu32 "\npartitions %" PRIu32 "\nshards %" PRIu32
                     "\nmac-key-0 %016" PRIx64 "\nmac-key-1 %016" PRIx64 "\n",
                     format->version, format->partitions_n, format->shards_n, format->mac_key[0],
                     format->mac_key[1]);
    assert(n > 0 && (size_t)n < sizeof text);
    return io_write_file(io, ".", FORMAT_PATH, bytes_make(text, (size_t)n));
}

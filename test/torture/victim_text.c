/* SPDX-License-Identifier: Apache-2.0 */
#include "test/torture/victim_text.h"

#include "base/crc32c.h"
#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

size_t payload_fill(char *out, const char *id, const char *text, size_t size)
{
    size_t len = strlen(text);
    struct rng rng;

    memcpy(out, text, len);
    rng_init(&rng, bytes_hash(bytes_of_text(id)));
    for (; len < size; len++) out[len] = (char)('a' + rng_below(&rng, 26));
    return len;
}

void brief(struct bytes value, char out[BRIEF_SIZE])
{
    if (value.len < 100) {
        (void)snprintf(out, BRIEF_SIZE, "%.*s", (int)value.len, (const char *)value.ptr);
    } else {
        (void)snprintf(out, BRIEF_SIZE, "%zu bytes %08x", value.len,
                       crc32c(0, value.ptr, value.len));
    }
}

char *word_next(char **at)
{
    char *word = *at;
    char *end = word + strcspn(word, " ");

    *at = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

bool word_number(const char *word, uint64_t *out)
{
    char *end = NULL;

    errno = 0;
    unsigned long long value = strtoull(word, &end, 10);
    if (errno != 0 || end == word || *end != '\0') return false;
    *out = value;
    return true;
}

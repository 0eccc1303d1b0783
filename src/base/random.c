/* SPDX-License-Identifier: Apache-2.0
 *
 * Random bytes from the kernel. The early return values of getrandom() are the whole difficulty: a
 * signal may interrupt it, and a large request may be answered in parts.
 */
#include "base/random.h"

#include "base/assert.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

void random_fill(void *ptr, size_t len)
{
    uint8_t *at = ptr;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno == EINTR) continue;
        assert(got > 0);
        at += got;
        len -= (size_t)got;
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The file `format` of a data directory: what was decided when it was made and never changes. Text,
 * one "name value" per line; the version comes first, so that an older program understands at least
 * that.
 */
#ifndef HOST_FORMAT_H
#define HOST_FORMAT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct io;
struct mem;

struct format {
    uint32_t version;
    uint32_t partitions_n;
    uint32_t shards_n;
    uint64_t mac_key[2];
};

/* E_NOT_FOUND: a new directory. E_VERSION: a newer version than `version`. E_CORRUPT: not such a
 * file. */
enum status format_read(struct io *io, struct mem *mem, uint32_t version, struct format *out);
enum status format_write(struct io *io, const struct format *format);

#endif

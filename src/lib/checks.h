/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine would refuse is refused here first, where the user's function can still decide
 * and undo what it did: an answer that the engine refuses ends the instance at once.
 */
#ifndef LIB_CHECKS_H
#define LIB_CHECKS_H

#include "core/limits.h"
#include "lib/context.h"

/* A little less than the engine takes, so that a message with names and tokens around it fits. */
#define PAYLOAD_SIZE_MAX (LIMIT_PAYLOAD_SIZE - 4096)

/* 1 to 256 bytes of UTF-8. */
static inline bool name_is_valid(const char *name)
{
    size_t len = name != NULL ? strnlen(name, LIMIT_NAME_SIZE + 1) : 0;

    return len > 0 && len <= LIMIT_NAME_SIZE && bytes_is_utf8(bytes_make(name, len));
}

static inline bool id_is_valid(const char *id)
{
    size_t len = id != NULL ? strnlen(id, LIMIT_ID_SIZE + 1) : 0;

    return len > 0 && len <= LIMIT_ID_SIZE && bytes_is_utf8(bytes_make(id, len));
}

static inline bool payload_fits(struct norn_bytes payload)
{
    return payload.ptr == NULL || payload.len <= PAYLOAD_SIZE_MAX;
}

/* A result is larger: the failure of the function that gave it. */
static inline norn_status result_too_large(norn_context *ctx)
{
    return norn_fail(ctx, "ResultTooLarge", "the result has more than 16 MiB", true);
}

#endif

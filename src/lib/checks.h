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

/* NORN_E_LIMIT; NORN_E_INVALID: it is not UTF-8, as which the protocol, histories in JSON and
 * workers in other languages know it. */
static inline norn_status payload_check(struct norn_bytes payload)
{
    if (payload.ptr == NULL) return NORN_OK;
    if (payload.len > PAYLOAD_SIZE_MAX) return NORN_E_LIMIT;
    return bytes_is_utf8(bytes_make(payload.ptr, payload.len)) ? NORN_OK : NORN_E_INVALID;
}

/* A result that cannot be taken is the failure of the function that gave it. */
static inline norn_status result_check(norn_context *ctx, struct norn_bytes result)
{
    norn_status status = payload_check(result);

    if (status == NORN_E_LIMIT) {
        return norn_fail(ctx, "ResultTooLarge", "the result has more than 16 MiB", true);
    }
    if (status == NORN_OK) return NORN_OK;
    return norn_fail(ctx, "ResultNotUtf8", "the result is not UTF-8", true);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What every function of the user's sees, whatever it is: memory, the last failure, and where it
 * runs.
 */
#ifndef LIB_CONTEXT_H
#define LIB_CONTEXT_H

#include "base/arena.h"
#include "base/status.h"
#include "core/event.h"

#include <norn.h>

enum context_kind { CONTEXT_ORCHESTRATOR, CONTEXT_ACTIVITY, CONTEXT_ENTITY };

/* Where lines for people go. */
struct journal_lines {
    void (*log)(void *user, const char *line); /* NULL = stderr */
    void *user;
};
__attribute__((format(printf, 2, 3))) void lines_write(const struct journal_lines *lines,
                                                       const char *format, ...);

struct norn_context {
    enum context_kind kind;
    struct arena *arena; /* of norn_alloc() */
    const struct journal_lines *lines;
    bool is_out_of_memory; /* something asked for memory and got none */
    struct norn_failure error;
    struct norn_here here;
    int64_t now_ms; /* of activities and entities in a test; 0: the machine's clock */
};

/* With a final NUL, in the context's memory. NULL without. */
char *context_text(struct norn_context *ctx, struct bytes text);
/* A copy in the context's memory, followed by a NUL that its length does not count: so users may
 * read a payload as a text. False without. */
bool context_copy(struct norn_context *ctx, struct maybe value, struct maybe *out);

static inline struct maybe maybe_of(struct norn_bytes value)
{
    if (value.ptr == NULL) return (struct maybe){BYTES_NONE, false}; /* whatever its length says */
    return (struct maybe){bytes_make(value.ptr, value.len), true};
}
static inline struct norn_bytes bytes_for_user(struct maybe value)
{
    static const char empty[1] = "";
    if (!value.has) return NORN_NONE;
    return (struct norn_bytes){value.value.len > 0 ? (const void *)value.value.ptr : empty,
                               value.value.len};
}

norn_status status_for_user(enum status status);
/* "NORN_E_BUSY"; and what it means. Static. */
const char *user_status_name(norn_status status);
const char *user_status_sentence(norn_status status);

/* entity.c: the state that the present operation sees. */
struct norn_bytes entity_state(const struct norn_context *ctx);

/* What a function that answered `status` failed with: norn_fail() or the failure that it passes on,
 * else the status itself. */
struct norn_failure context_failure(const struct norn_context *ctx, norn_status status);
/* TaskFailureDetails of it, appended. */
void failure_put(struct buffer *out, const struct norn_failure *failure);
/* From TaskFailureDetails; texts in the context's memory. False without. */
bool failure_read(struct norn_context *ctx, struct bytes raw, struct norn_failure *out);

#endif

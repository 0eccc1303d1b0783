/* SPDX-License-Identifier: Apache-2.0
 *
 * The reply channel (S14): posts what core/replies.h has written down. Each reply is an
 * orchestration REPLY_NAME in the hub REPLY_HUB, and the replier is the worker that runs them:
 *
 *      its turn is given ──> POST ──2xx─────────────> completed (and purged by the core)
 *             ^                └─anything else──> a timer, ──┐
 *             └──── durable, on disk ──── longer each time ──┘ after give_up_ms: failed, and logged
 *
 * A turn is answered after its POST, so a crash in between makes the same POST again: at least
 * once, with the same Idempotency-Key. Between tries a reply costs no memory.
 *
 * One thread, with all sockets (libcurl). Receivers do not hold up each other: each has a few
 * requests under way and a short queue, and one that fails has one request and no queue until it
 * hears again.
 */
#ifndef REPLY_REPLY_H
#define REPLY_REPLY_H

#include "base/status.h"
#include "reply/allow.h"

struct engine;
struct replier;

#define REPLY_CA_SYSTEM "system" /* as ca_file: those that the system trusts */

struct reply_options {
    struct engine *engine;
    struct reply_allow allow;
    /* Of authorities whose certificates are good for https, PEM; outlives the replier. */
    const char *ca_file;
    int64_t timeout_ms; /* of one POST, connecting included */
    int64_t delay_ms;   /* before the second try; twice as long each time */
    int64_t delay_ms_max;
    int64_t give_up_ms; /* since it was written down */
};
/* Defaults; engine is NULL and nothing is allowed. */
void reply_options_init(struct reply_options *options);

/* E_NOMEM, E_UNAVAILABLE. options are copied. */
enum status replier_open(const struct reply_options *options, struct replier **out);
/* No new work; what is under way is broken off, and will be done again. Before engine_close(), not
 * on a host's thread. */
void replier_close(struct replier *r);
/* After engine_close(): until then the engine may still answer. NULL is fine. */
void replier_free(struct replier *r);

struct reply_stats {
    uint64_t heard;   /* answered with 2xx */
    uint64_t unheard; /* tries that were not */
    uint64_t given_up;
};
/* From any thread. */
void replier_stats(struct replier *r, struct reply_stats *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * `norn server`: the loop, the engine and the service as one process.
 *
 *      RUNNING ──SIGTERM──> DRAINING ──────────────> CLOSING ──────────> exit 0
 *                 streams end, work is given back,    the engine closes
 *                 calls under way are answered        on a thread of its own
 *
 * A second signal, or the drain's time being over, ends the process at once, also with 0: whatever
 * was acknowledged is durable, and the next start goes on from there.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "host/engine.h"
#include "net/conn.h"
#include "reply/reply.h"
#include "server/front.h"
#include "server/service.h"

struct config;

struct server_options {
    struct engine_options engine;   /* directory and limits */
    struct service_options service; /* mem and engine are the server's */
    struct conn_limits limits;
    struct reply_options reply; /* engine is the server's */
    const char *listen; /* addresses with commas between them; ignored when sockets are inherited */
    bool is_insecure;   /* inherited sockets may be reached from other machines */
    uint32_t connections_n_max;
    int64_t drain_ms;
    const struct front_ops *front; /* answers HTTP; NULL: the pages alone */
    int64_t begun_ns;              /* monotonic: when the process began; for the ready line */
    /* SIGHUP; on the network's thread. */
    void (*reload)(void *user);
    void *user;
};

/* All that the settings say; begun_ns, reload and user stay as they are. Texts are borrowed from
 * the config. */
void server_options_set(struct server_options *options, const struct config *config);

/* Runs until it is told to stop. Answers the exit code of the process (sysexits.h); what went wrong
 * was logged. Prints the ready line on stdout. */
int server_run(const struct server_options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A user's library for `norn replay`: one orchestrator, registered as it was (norn_register) and as
 * somebody changed it (register_changed).
 */
#include "norn.h"

static norn_status order(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    const char *second = user;
    norn_status status = norn_call(ctx, "Charge", input, 0, output);
    return status == NORN_OK ? norn_call(ctx, second, input, 0, output) : status;
}

static void add(norn_worker *worker, const char *second)
{
    (void)norn_orchestrator(worker, "Order", 0, order, (void *)(uintptr_t)second);
}

NORN_API void norn_register(norn_worker *worker);
NORN_API void register_changed(norn_worker *worker);
NORN_API void register_nothing(norn_worker *worker);

void norn_register(norn_worker *worker) { add(worker, "Ship"); }
void register_changed(norn_worker *worker) { add(worker, "Send"); }
void register_nothing(norn_worker *worker) { (void)worker; }

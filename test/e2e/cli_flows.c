/* SPDX-License-Identifier: Apache-2.0
 *
 * The orchestrators that the tests of the command line speak of: in a worker (cli_worker.c) and,
 * as a library, for `norn replay`.
 */
#include "norn.h"

#include <stdlib.h>
#include <string.h>

NORN_API void norn_register(norn_worker *worker);

/* hello: gives its input back, by way of a step. */
static norn_status hello(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    (void)user;
    return norn_call(ctx, "greet", input, NULL, output);
}

/* ship: a step, then a person; {"broken":true} has nothing to ship. */
static norn_status ship(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    struct norn_bytes data;

    (void)user;
    if (input.ptr != NULL && strstr(input.ptr, "broken") != NULL)
        return norn_fail(ctx, "OutOfStock", "there is nothing left", true);
    (void)norn_set_status(ctx, norn_text("\"packing\""));
    norn_status status = norn_call(ctx, "greet", norn_text("\"pack\""), NULL, output);
    if (status == NORN_OK) status = norn_wait_event(ctx, "approved", -1, &data);
    *output = norn_text("{\"shipped\":true}");
    return status;
}

/* family: a child that waits. */
static norn_status family(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    struct norn_call_options options = NORN_CALL_OPTIONS;

    (void)user;
    options.id = "child-1";
    norn_status status = norn_call_child(ctx, "ship", input, &options, output);
    return status == NORN_OK ? norn_sleep(ctx, 10) : status;
}

static norn_status greet(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    (void)ctx, (void)user;
    *output = input;
    return NORN_OK;
}

static norn_status counter(norn_context *ctx, const char *operation, struct norn_bytes input,
                           struct norn_bytes *output, void *user)
{
    struct norn_bytes state = norn_here(ctx)->state;
    long value = state.ptr == NULL ? 0 : strtol(state.ptr, NULL, 10);
    char *text = norn_alloc(ctx, 24);

    (void)operation, (void)user;
    if (text == NULL) return NORN_E_NOMEM;
    value += input.ptr == NULL ? 0 : strtol(input.ptr, NULL, 10);
    size_t len = 0;
    for (long rest = value; rest > 0 && len < 20; rest /= 10) len++;
    if (len == 0) len = 1;
    for (size_t n = len; n > 0; n--, value /= 10) text[n - 1] = (char)('0' + value % 10);
    *output = (struct norn_bytes){text, len};
    return norn_set_state(ctx, *output);
}

void norn_register(norn_worker *worker)
{
    (void)norn_orchestrator(worker, "hello", NULL, hello, NULL);
    (void)norn_orchestrator(worker, "ship", NULL, ship, NULL);
    (void)norn_orchestrator(worker, "family", NULL, family, NULL);
    (void)norn_activity_add(worker, "greet", 0, greet, NULL);
    (void)norn_entity_add(worker, "counter", counter, NULL);
}

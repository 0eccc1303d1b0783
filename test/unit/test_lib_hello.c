/* SPDX-License-Identifier: Apache-2.0
 *
 * The library from end to end: an engine in this process, orchestrators as C functions.
 */
#include "lib_world.h"

static norn_status say_hello(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    (void)user;
    *output = joined(ctx, "Hello ", input);
    return NORN_OK;
}

static norn_status hello_sequence(norn_context *ctx, struct norn_bytes input,
                                  struct norn_bytes *output, void *user)
{
    static const char *const cities[] = {"Tokyo", "Seattle", "London"};
    struct norn_bytes all = NORN_NONE;
    (void)input;
    (void)user;
    for (int n = 0; n < 3; n++) {
        struct norn_bytes one;
        norn_status status = norn_call(ctx, "SayHello", norn_text(cities[n]), NULL, &one);
        if (status != NORN_OK) return status;
        if (all.ptr != NULL) one = joined(ctx, ", ", one);
        char *text = norn_alloc(ctx, all.len + one.len + 1);
        if (text == NULL) return NORN_E_NOMEM;
        if (all.len > 0) memcpy(text, all.ptr, all.len);
        memcpy(text + all.len, one.ptr, one.len);
        all = (struct norn_bytes){text, all.len + one.len};
    }
    *output = all;
    return NORN_OK;
}

/* The example of every durable framework: three calls in a row. */
TEST(a_sequence_of_activities_answers)
{
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "HelloSequence", NULL, hello_sequence, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "SayHello", 0, say_hello, NULL));
    world_start(&w);
    world_begin(&w, "HelloSequence", "h-1", NULL);
    world_expect_output(&w, "h-1", "Hello Tokyo, Hello Seattle, Hello London");
    world_close(&w);
}

// SPDX-License-Identifier: Apache-2.0
//
// C++ includes the header, uses every initialiser, and registers its functions. It calls only what
// needs no engine: the rest is proven in C.
#include <norn.h>

#include <cstdio>
#include <cstring>

static norn_status orchestrator(norn_context *ctx, norn_bytes input, norn_bytes *output, void *)
{
    norn_retry retry = NORN_RETRY;
    norn_call_options options = NORN_CALL_OPTIONS;
    retry.attempts = 3;
    options.retry = &retry;
    *output = NORN_NONE;
    return norn_call(ctx, "Activity", input, &options, output);
}

int main()
{
    norn_engine_options engine_options = NORN_ENGINE_OPTIONS;
    norn_client_options client_options = NORN_CLIENT_OPTIONS;
    norn_start_options start_options = NORN_START_OPTIONS;
    norn_worker_options worker_options = NORN_WORKER_OPTIONS;
    norn_query query = NORN_QUERY;
    norn_orchestrator_fn *function = orchestrator;
    norn_engine *engine = nullptr;
    norn_client *client = nullptr;

    bool is_right = engine_options.size == sizeof engine_options &&
                    start_options.reuse == NORN_REUSE_ENDED && worker_options.log == nullptr &&
                    query.states == 0 && function != nullptr && norn_text("abc").len == 3 &&
                    NORN_NONE.ptr == nullptr;
    is_right = is_right && norn_engine_open(&engine_options, &engine, nullptr) == NORN_E_INVALID;
    is_right = is_right && norn_client_open(&client_options, &client) == NORN_E_INVALID;
    is_right = is_right && std::strncmp(norn_status_text(NORN_E_BUSY), "NORN_E_BUSY", 11) == 0;
    std::printf("%s\n", is_right ? "right" : "wrong");
    return is_right ? 0 : 1;
}

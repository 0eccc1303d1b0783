/* SPDX-License-Identifier: Apache-2.0
 *
 * Without memory every function of the library answers a status. The nth allocation fails, for n =
 * 1, 2, 3 until nothing fails any more; and whatever failed, the instances finish once there is
 * memory again, because a turn that could not be done is given back and done later.
 */
#include "lib_world.h"

#include "core/core.h"
#include "lib/memory.h"
#include "lib/worker.h"

static norn_status echo(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)user;
    *output = joined(ctx, "", input);
    return output->ptr != NULL ? NORN_OK : NORN_E_NOMEM;
}

static norn_status count(norn_context *ctx, const char *operation, struct norn_bytes input,
                         struct norn_bytes *output, void *user)
{
    (void)operation;
    (void)user;
    norn_status status = norn_set_state(ctx, input);
    *output = joined(ctx, "", input);
    return status;
}

/* Everything that asks for memory, in one program. */
static norn_status everything(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                              void *user)
{
    static const char *const locks[] = {"@count@1", NULL};
    static const char *const types[] = {"Never", NULL};
    struct norn_call_options options = NORN_CALL_OPTIONS;
    struct norn_retry retry = NORN_RETRY;
    norn_task *tasks[3];
    norn_status status;
    (void)user;
    retry.attempts = 3;
    retry.final_types = types;
    options.retry = &retry;
    if ((status = norn_set_status(ctx, norn_text("1"))) != NORN_OK) return status;
    if ((status = norn_compensate(ctx, "echo", input, &options)) != NORN_OK) return status;
    if ((status = norn_call(ctx, "echo", input, &options, NULL)) != NORN_OK) return status;
    if ((status = norn_begin_call(ctx, NORN_ACTIVITY, "echo", input, NULL, &tasks[0])) != NORN_OK)
        return status;
    if ((status = norn_begin_timer(ctx, 1, &tasks[1])) != NORN_OK) return status;
    if ((status = norn_begin_call(ctx, NORN_CHILD, "child", input, NULL, &tasks[2])) != NORN_OK)
        return status;
    if ((status = norn_when_all(ctx, tasks, 3)) != NORN_OK) return status;
    if ((status = norn_lock(ctx, locks)) != NORN_OK) return status;
    if ((status = norn_call_entity(ctx, "@count@1", "set", norn_text("x"), NULL)) != NORN_OK)
        return status;
    if ((status = norn_lock(ctx, NULL)) != NORN_OK) return status;
    if ((status = norn_send_event(ctx, norn_here(ctx)->id, "self", input)) != NORN_OK)
        return status;
    if ((status = norn_wait_event(ctx, "self", 60000, output)) != NORN_OK) return status;
    return NORN_OK;
}

static norn_status child(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    (void)user;
    return norn_call(ctx, "echo", input, NULL, output);
}

static norn_status register_all(norn_worker *worker)
{
    norn_status status = norn_orchestrator(worker, "everything", NULL, everything, NULL);
    if (status == NORN_OK) status = norn_orchestrator(worker, "child", "1", child, NULL);
    if (status == NORN_OK) status = norn_orchestrator(worker, "child", NULL, child, NULL);
    if (status == NORN_OK) status = norn_activity_add(worker, "echo", 0, echo, NULL);
    if (status == NORN_OK) status = norn_entity_add(worker, "count", count, NULL);
    return status;
}

static norn_status ignore_event(void *user, struct norn_bytes event)
{
    (void)user;
    (void)event;
    return NORN_OK;
}

static norn_status ignore_row(void *user, const struct norn_info *info)
{
    (void)user;
    (void)info;
    return NORN_OK;
}

/* Opening, registering and starting. */
TEST(opening_without_memory_is_a_status)
{
    struct world w;
    world_open(&w);
    for (uint64_t n = 1; n < 1000; n++) {
        struct norn_client_options options = NORN_CLIENT_OPTIONS;
        norn_client *client = NULL;
        norn_worker *worker = NULL;
        options.engine = w.engine;
        test_note("n %llu", (unsigned long long)n);
        memory_fail_at = n;
        norn_status status = norn_client_open(&options, &client);
        if (status == NORN_OK) status = norn_worker_open(client, NULL, &worker);
        if (status == NORN_OK) status = register_all(worker);
        if (status == NORN_OK) status = norn_worker_start(worker);
        bool is_over = memory_fail_at > 0;
        memory_fail_at = 0;
        EXPECT(status == NORN_OK || status == NORN_E_NOMEM);
        EXPECT(status == NORN_E_NOMEM || is_over);
        norn_worker_close(worker);
        norn_client_close(client);
        if (is_over) {
            EXPECT(n > 10);
            world_close(&w);
            return;
        }
    }
    test_fail(__FILE__, __LINE__, "it never succeeded");
}

/* The verbs of a client. */
TEST(asking_without_memory_is_a_status)
{
    struct world w;
    const char *tags[] = {"a", "b", NULL};
    world_open(&w);
    for (uint64_t n = 1; n < 1000; n++) {
        struct norn_start_options start = NORN_START_OPTIONS;
        struct norn_info *info = NULL;
        start.id = "i";
        start.tags = tags;
        start.reuse = NORN_REUSE_KEEP;
        memory_fail_at = n;
        norn_status status = norn_start(w.client, "everything", norn_text("x"), &start, NULL);
        if (status == NORN_OK) status = norn_get(w.client, "i", 0, &info);
        if (status == NORN_OK) status = norn_history(w.client, "i", ignore_event, NULL);
        if (status == NORN_OK) status = norn_list(w.client, NULL, ignore_row, NULL);
        bool is_over = memory_fail_at > 0;
        memory_fail_at = 0;
        EXPECT(status == (is_over ? NORN_OK : NORN_E_NOMEM));
        norn_info_free(info);
        if (is_over) {
            EXPECT(n > 5);
            world_close(&w);
            return;
        }
    }
    test_fail(__FILE__, __LINE__, "it never succeeded");
}

/* A turn or step that finds no memory is given back, and done again after the engine's delay. */
static void run_all(bool is_cold, bool has_spares)
{
    struct world w;
    uint64_t n = 1;
    uint32_t failed_n = 0;
    char id[32];
    world_open(&w);
    if (is_cold) w.worker->hot_max = 0;
    EXPECT_NORN(NORN_OK, register_all(w.worker));
    world_start(&w);
    /* full: what has ended is not kept, and all memory of the next is new */
    if (!has_spares) w.worker->turns.env.spare_n = UINT32_MAX;
    for (bool is_over = false; !is_over; n += is_cold ? 7 : 1) {
        test_note("n %llu", (unsigned long long)n);
        EXPECT(n < 5000);
        snprintf(id, sizeof id, "i-%llu", (unsigned long long)n);
        world_begin(&w, "everything", id, "payload");
        memory_fail_at = n;
        norn_status status = norn_get(w.client, id, WAIT_MS, NULL);
        is_over = memory_fail_at > 0;
        memory_fail_at = 0;
        failed_n += !is_over;
        if (status != NORN_OK) test_fail(__FILE__, __LINE__, "wait: %s", norn_status_text(status));
        struct norn_info *info = world_wait(&w, id);
        /* an activity may say NORN_E_NOMEM itself, and then that is its failure */
        if (info->state == NORN_COMPLETED)
            EXPECT_TEXT("payload", (const char *)info->output.ptr);
        else
            EXPECT_TEXT("NORN_E_NOMEM", info->failure.type);
        norn_info_free(info);
    }
    EXPECT(failed_n > 5);
    world_close(&w);
}

TEST(running_without_memory_is_done_again_later_hot) { run_all(false, false); }
TEST(running_without_memory_is_done_again_later_cold) { run_all(true, false); }
TEST(running_without_memory_is_done_again_later_in_used_memory) { run_all(false, true); }

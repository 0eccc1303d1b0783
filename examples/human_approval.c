/* SPDX-License-Identifier: Apache-2.0
 *
 * A person has to decide, and may not: whichever comes first, the event or the time, goes on. The
 * wait may last weeks; meanwhile the instance costs a few hundred bytes on disk.
 */
#include "example.h"

static norn_status ask_manager(norn_context *ctx, struct norn_bytes input,
                               struct norn_bytes *output, void *user)
{
    (void)output, (void)user;
    printf("%s: please approve %.*s\n", norn_here(ctx)->id, TEXT(input));
    return NORN_OK;
}

static norn_status expense(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    struct norn_bytes decision;

    (void)user;
    norn_status status = norn_call(ctx, "AskManager", input, NULL, NULL);
    if (status != NORN_OK) return status;
    status = norn_wait_event(ctx, "Decision", example_number(input, "waitMs"), &decision);
    if (status == NORN_E_TIMEOUT) {
        *output = norn_text("\"nobody decided: goes to the director\"");
        return NORN_OK;
    }
    if (status != NORN_OK) return status;
    /* It came from outside, so it may be anything: an orchestrator that crashes on it would do so
     * again whenever it is run. */
    if (decision.ptr == NULL || decision.len < 2) {
        return norn_fail(ctx, "BadDecision", "a decision is a JSON string", true);
    }
    *output = example_print(ctx, "\"the manager says %.*s\"", (int)decision.len - 2,
                            (const char *)decision.ptr + 1);
    return NORN_OK;
}

static void print_result(struct example *e, const char *id)
{
    struct norn_info *info = example_wait(e, id);

    printf("%s: %.*s\n", id, TEXT(info->output));
    norn_info_free(info);
}

int main(int argc, char **argv)
{
    struct example e = {0};

    example_open(&e, argc, argv);
    must(norn_orchestrator(e.worker, "Expense", NULL, expense, NULL), "register");
    must(norn_activity_add(e.worker, "AskManager", 0, ask_manager, NULL), "register");
    must(norn_worker_start(e.worker), "start");

    example_begin(&e, "Expense", "expense-1", "{\"euro\":120,\"waitMs\":30000}");
    /* An event that nobody waits for yet is kept: no need to know how far the instance is. */
    must(norn_raise(e.client, "expense-1", "Decision", norn_text("\"yes\"")), "raise");
    print_result(&e, "expense-1");

    example_begin(&e, "Expense", "expense-2", "{\"euro\":9000,\"waitMs\":300}");
    print_result(&e, "expense-2");
    example_close(&e);
    return 0;
}

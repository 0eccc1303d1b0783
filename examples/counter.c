/* SPDX-License-Identifier: Apache-2.0
 *
 * An entity: a little state with operations, each of which runs alone. Clients send operations
 * (signals), orchestrations call them and get an answer; an orchestration that needs two entities
 * to stay as they are locks both.
 */
#include "example.h"

static norn_status counter(norn_context *ctx, const char *operation, struct norn_bytes input,
                           struct norn_bytes *output, void *user)
{
    long value = example_number(norn_here(ctx)->state, NULL); /* 0 when there is none yet */

    (void)user;
    if (strcmp(operation, "add") == 0)
        value += example_number(input, NULL);
    else if (strcmp(operation, "get") != 0)
        return norn_fail(ctx, "NoSuchOperation", operation, true);
    if (value < 0) return norn_fail(ctx, "Negative", "there is not so much", true); /* undone */
    *output = example_print(ctx, "%ld", value);
    return norn_set_state(ctx, *output);
}

/* Both or none: between the look and the two additions nobody else gets in. */
static norn_status move_ten(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    static const char *const both[] = {"@counter@left", "@counter@right", NULL};
    struct norn_bytes left, right;

    (void)input, (void)user;
    norn_status status = norn_lock(ctx, both);
    if (status != NORN_OK) return status;
    status = norn_call_entity(ctx, both[0], "get", NORN_NONE, &left);
    if (status != NORN_OK) return status;
    if (example_number(left, NULL) < 10) return norn_fail(ctx, "TooLittle", "less than 10", true);
    status = norn_call_entity(ctx, both[0], "add", norn_text("-10"), &left);
    if (status != NORN_OK) return status;
    status = norn_call_entity(ctx, both[1], "add", norn_text("10"), &right);
    if (status != NORN_OK) return status;
    status = norn_lock(ctx, NULL);
    *output = example_print(ctx, "[%.*s,%.*s]", TEXT(left), TEXT(right));
    return status;
}

int main(int argc, char **argv)
{
    struct example e = {0};
    struct norn_info *info;

    example_open(&e, argc, argv);
    must(norn_entity_add(e.worker, "counter", counter, NULL), "register");
    must(norn_orchestrator(e.worker, "MoveTen", NULL, move_ten, NULL), "register");
    must(norn_worker_start(e.worker), "start");

    for (int n = 0; n < 3; n++) {
        must(norn_raise(e.client, "@counter@left", "add", norn_text("5")), "signal");
    }
    example_begin(&e, "MoveTen", "move-1", NULL); /* behind the three: messages keep their order */
    info = example_wait(&e, "move-1");
    printf("moved 10, now [left,right] is %.*s\n", TEXT(info->output));
    norn_info_free(info);

    example_begin(&e, "MoveTen", "move-2", NULL);
    info = example_wait(&e, "move-2");
    printf("once more: %s: %s\n", info->failure.type, info->failure.message);
    norn_info_free(info);

    must(norn_get(e.client, "@counter@right", 0, &info), "get");
    printf("%s is %.*s\n", info->id, TEXT(info->output));
    norn_info_free(info);
    example_close(&e);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop without end: look at something, tell what was seen, wait, again. Each round ends with
 * continue-as-new, so that the history of an instance that runs for years stays that of one round.
 * An event that comes between two rounds is not lost: what nobody has waited for is carried over.
 */
#include "example.h"

#include <time.h>

#define ROUND_MS 20
#define ROUNDS_WANTED 5

/* The tank fills up a little with every look. */
static norn_status read_level(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                              void *user)
{
    (void)user;
    *output = example_print(ctx, "%ld", 10 * example_number(input, NULL));
    return NORN_OK;
}

static norn_status monitor(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    long round = example_number(input, NULL);
    struct norn_bytes level;

    (void)user;
    norn_status status = norn_call(ctx, "ReadLevel", input, NULL, &level);
    if (status != NORN_OK) return status;
    status = norn_set_status(
        ctx, example_print(ctx, "{\"round\":%ld,\"level\":%.*s}", round, TEXT(level)));
    if (status != NORN_OK) return status;

    status = norn_wait_event(ctx, "Stop", ROUND_MS, NULL);
    if (status == NORN_E_TIMEOUT) { /* the usual case */
        return norn_continue_as_new(ctx, example_print(ctx, "%ld", round + 1));
    }
    if (status != NORN_OK) return status;
    *output = norn_text("\"stopped\"");
    return NORN_OK;
}

static norn_status count_event(void *user, struct norn_bytes event)
{
    (void)event;
    ++*(int *)user;
    return NORN_OK;
}

int main(int argc, char **argv)
{
    struct example e = {0};
    struct norn_info *info;
    long round = 0;
    int events_n = 0;

    example_open(&e, argc, argv);
    must(norn_orchestrator(e.worker, "Monitor", NULL, monitor, NULL), "register");
    must(norn_activity_add(e.worker, "ReadLevel", 0, read_level, NULL), "register");
    must(norn_worker_start(e.worker), "start");

    example_begin(&e, "Monitor", "tank-1", "1");
    for (long seen = 0; round < ROUNDS_WANTED; seen = round) {
        must(norn_get(e.client, "tank-1", 0, &info), "get");
        round = example_number(info->custom_status, "round");
        norn_info_free(info);
        if (seen < ROUNDS_WANTED && round >= ROUNDS_WANTED) printf("five rounds were seen\n");
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    must(norn_raise(e.client, "tank-1", "Stop", NORN_NONE), "raise");
    info = example_wait(&e, "tank-1");
    round = example_number(info->custom_status, "round");
    printf("%.*s, the level is 10 times the round: %s\n", TEXT(info->output),
           example_number(info->custom_status, "level") == 10 * round ? "yes" : "no");
    norn_info_free(info);

    must(norn_history(e.client, "tank-1", count_event, &events_n), "history");
    printf("its history is that of the last round: %s\n", events_n < 20 ? "yes" : "no");
    example_close(&e);
    return 0;
}

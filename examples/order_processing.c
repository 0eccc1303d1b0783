/* SPDX-License-Identifier: Apache-2.0
 *
 * The order example of the Scheduler-Agent-Supervisor pattern, complete.
 *
 *      application   submits orders, and has a reply channel: the instance "shop-1"
 *      scheduler     the orchestrator "Order": takes an order's steps one by one
 *      agent         the activities: each calls one remote service, within the complete-by time
 *      supervisor    the engine, by the policies below: who is late or fails is counted, and the
 *                    step is tried again, soon at first, then after an extended wait; beyond the
 *                    second threshold, or when no repetition can help, it waits for an operator
 *      state store   the engine's journal: who has a step, until when and how often it failed is
 *                    what norn_steps() tells
 *
 * The services fail as services do: sometimes (order-2), for good (order-3), by silence (order-4)
 * and for longer than anybody wants to wait (order-5). None of the roles keeps anything in memory
 * that matters: kill the program at any point and run it again with the same --data.
 *
 * With --server the supervisor is the server's, and its policies are a setting of it, in the same
 * words: norn server --work-policies "ChargeCard: complete_by=2s, retries_failures=true, ...".
 */
#include "example.h"

#include <stdatomic.h>
#include <time.h>

#define STEP_MS 2000 /* an agent that has not answered by then is late */
#define ORDERS_N 5

/* ---- the supervisor ---- */

static struct norn_policy make_policy(const char *activity)
{
    struct norn_policy policy = NORN_POLICY;

    policy.activity = activity;
    policy.complete_by_ms = STEP_MS;
    policy.retries_failures = true;
    policy.first_threshold = 2;
    policy.retry_delay_ms = 10;
    policy.second_threshold = 3;
    policy.extended_wait_ms = 100;
    policy.last_resort = NORN_RESORT_PARK;
    return policy;
}

/* ---- the agents ---- */

static atomic_bool is_mended[ORDERS_N + 1]; /* by the operator, order by order */

/* A remote service that works. It is told the order's id, so that a repetition is harmless. */
static norn_status call_service(norn_context *ctx, struct norn_bytes input,
                                struct norn_bytes *output, void *user)
{
    (void)ctx, (void)input, (void)user;
    *output = norn_text("0");
    return NORN_OK;
}

/* One that does not always. Answers how often it failed before. */
static norn_status charge_card(norn_context *ctx, struct norn_bytes input,
                               struct norn_bytes *output, void *user)
{
    const struct norn_here *here = norn_here(ctx);
    unsigned failures = here->attempt - 1;
    char service[32] = "good";

    (void)user;
    if (!is_mended[here->id[strlen("order-")] - '0'])
        (void)example_member(input, "service", service, sizeof service);
    if (strcmp(service, "flaky") == 0 && failures < 2)
        return norn_fail(ctx, "Unavailable", "try again", false);
    if (strcmp(service, "down") == 0) return norn_fail(ctx, "Unavailable", "try again", false);
    if (strcmp(service, "declining") == 0)
        return norn_fail(ctx, "Declined", "the card has expired", true);
    if (strcmp(service, "silent") == 0 && failures < 1) /* answers when nobody listens any more */
        (void)nanosleep(&(struct timespec){.tv_sec = STEP_MS / 1000, .tv_nsec = 300000000}, NULL);
    *output = example_print(ctx, "%u", failures);
    return NORN_OK;
}

/* ---- the scheduler ---- */

static norn_status reply(norn_context *ctx, struct norn_bytes input)
{
    char to[64];

    (void)example_member(input, "replyTo", to, sizeof to);
    return norn_send_event(ctx, to, "OrderReply",
                           example_print(ctx, "{\"orderId\":\"%s\",\"processState\":\"Processed\"}",
                                         norn_here(ctx)->id));
}

static norn_status order(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    static const char *const steps[] = {"ReserveStock", "ChargeCard", "ShipOrder"};
    long failures = 0;

    (void)user;
    for (size_t n = 0; n < 3; n++) {
        struct norn_bytes failed;
        norn_status status = norn_call(ctx, steps[n], input, NULL, &failed);
        if (status != NORN_OK) return status;
        failures += example_number(failed, NULL);
    }
    norn_status status =
        norn_set_status(ctx, example_print(ctx, "{\"failureCount\":%ld}", failures));
    if (status != NORN_OK) return status;
    *output = norn_text("\"Processed\"");
    return reply(ctx, input);
}

/* ---- the application ---- */

/* Its reply channel: gets what became of its orders, each reply once, whatever restarts. */
static norn_status shop(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    long processed_n = 0, errors_n = 0;
    char state[32];

    (void)user;
    while (processed_n < example_number(input, NULL)) {
        struct norn_bytes data;
        norn_status status = norn_wait_event(ctx, "OrderReply", -1, &data);
        if (status != NORN_OK) return status;
        (void)example_member(data, "processState", state, sizeof state);
        if (strcmp(state, "Processed") == 0)
            processed_n++;
        else
            errors_n++;
    }
    *output = example_print(ctx, "{\"processed\":%ld,\"errors\":%ld}", processed_n, errors_n);
    return NORN_OK;
}

/* The order's own number is the instance's id: whoever submits it twice has submitted it once. */
static void submit(struct example *e, const char *id, const char *service)
{
    struct norn_start_options options = NORN_START_OPTIONS;
    char input[128];

    options.id = id;
    options.reuse = NORN_REUSE_NEVER;
    (void)snprintf(input, sizeof input, "{\"replyTo\":\"shop-1\",\"service\":\"%s\"}", service);
    norn_status status = norn_start(e->client, "Order", norn_text(input), &options, NULL);
    if (status != NORN_E_EXISTS) must(status, id);
    printf("%s: %s\n", id, status == NORN_OK ? "accepted" : "is here already");
}

/* ---- the operator ---- */

/* What is known of an order: of its open step, or of the end. */
struct row {
    char locked_by[32];
    int64_t complete_by_ms;
    const char *process_state;
    long failure_count;
};

static norn_status read_step(void *user, const struct norn_step *step)
{
    static const char *const states[] = {"Pending", "Processing", "Pending", "Error"};
    struct row *row = user;

    row->process_state = states[step->process];
    row->complete_by_ms = step->complete_by_ms;
    row->failure_count = step->failures;
    if (step->locked_by != 0)
        (void)snprintf(row->locked_by, sizeof row->locked_by, "worker-%u", step->locked_by);
    return NORN_OK;
}

static struct row read_row(struct example *e, const char *id)
{
    struct row row = {.locked_by = "-", .process_state = "Pending"};
    struct norn_info *info;

    must(norn_get(e->client, id, 0, &info), id);
    if (info->state == NORN_COMPLETED) {
        row.process_state = "Processed";
        row.failure_count = example_number(info->custom_status, "failureCount");
    } else {
        must(norn_steps(e->client, id, read_step, &row), id);
    }
    norn_info_free(info);
    return row;
}

static void print_row(struct example *e, const char *id)
{
    struct row row = read_row(e, id);
    char by[32] = "-";
    time_t at = row.complete_by_ms / 1000;
    struct tm parts;

    if (at != 0 && gmtime_r(&at, &parts) != NULL) (void)strftime(by, sizeof by, "%H:%M:%S", &parts);
    printf("%-8s  %-11s  %-10s  %-12s  %12ld\n", id, row.locked_by, by, row.process_state,
           row.failure_count);
}

static void print_orders(struct example *e, int first, int last)
{
    printf("\nOrderID   LockedBy     CompleteBy  ProcessState  FailureCount\n");
    for (int n = first; n <= last; n++) {
        char id[32];
        (void)snprintf(id, sizeof id, "order-%d", n);
        print_row(e, id);
    }
    printf("\n");
}

/* Looks until the order is in that state, or has ended: an earlier run may have done that. */
static bool wait_for_state(struct example *e, const char *id, const char *wanted)
{
    for (;;) {
        const char *state = read_row(e, id).process_state;
        if (strcmp(state, wanted) == 0) return true;
        if (strcmp(state, "Processed") == 0) return false;
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

/* The shop is told, the cause is mended, and the step is tried again. */
static void resubmit(struct example *e, const char *id)
{
    char told[100];

    if (!wait_for_state(e, id, "Error")) return;
    (void)snprintf(told, sizeof told, "{\"orderId\":\"%s\",\"processState\":\"Error\"}", id);
    must(norn_raise(e->client, "shop-1", "OrderReply", norn_text(told)), "shop-1");
    printf("operator: %s is mended and submitted again\n", id);
    is_mended[id[strlen("order-")] - '0'] = true;
    must(norn_control(e->client, id, NORN_RESUBMIT, norn_text("mended")), id);
}

static void open_all(struct example *e, int argc, char **argv)
{
    static struct norn_policy policies[3];

    /* of the engine inside; a server has them in its settings */
    policies[0] = make_policy("ReserveStock");
    policies[1] = make_policy("ChargeCard");
    policies[2] = make_policy("ShipOrder");
    e->policies = policies;
    e->policies_n = 3;
    example_open(e, argc, argv);
    must(norn_orchestrator(e->worker, "Order", NULL, order, NULL), "register");
    must(norn_orchestrator(e->worker, "Shop", NULL, shop, NULL), "register");
    must(norn_activity_add(e->worker, "ReserveStock", 0, call_service, NULL), "register");
    must(norn_activity_add(e->worker, "ChargeCard", 0, charge_card, NULL), "register");
    must(norn_activity_add(e->worker, "ShipOrder", 0, call_service, NULL), "register");
    must(norn_worker_start(e->worker), "start");
}

int main(int argc, char **argv)
{
    struct example e = {0};

    open_all(&e, argc, argv);
    example_begin(&e, "Shop", "shop-1", "5");
    submit(&e, "order-4", "silent");
    (void)wait_for_state(&e, "order-4", "Processing"); /* an agent has it, and says nothing */
    (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    print_orders(&e, 4, 4);

    submit(&e, "order-1", "good");
    submit(&e, "order-1", "good");
    submit(&e, "order-2", "flaky");
    submit(&e, "order-3", "declining");
    submit(&e, "order-5", "down");
    (void)wait_for_state(&e, "order-1", "Processed");
    (void)wait_for_state(&e, "order-2", "Processed");
    (void)wait_for_state(&e, "order-3", "Error");
    (void)wait_for_state(&e, "order-4", "Processed"); /* late once, then tried again */
    (void)wait_for_state(&e, "order-5", "Error");
    print_orders(&e, 1, ORDERS_N);

    resubmit(&e, "order-3");
    resubmit(&e, "order-5");
    struct norn_info *info = example_wait(&e, "shop-1");
    printf("shop: %.*s\n", TEXT(info->output));
    norn_info_free(info);
    print_orders(&e, 1, ORDERS_N);
    example_close(&e);
    return 0;
}

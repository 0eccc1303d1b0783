/* SPDX-License-Identifier: Apache-2.0
 *
 * The order example of the Scheduler-Agent-Supervisor pattern, complete.
 *
 *      application   submits orders, and has a reply channel: the instance "shop-1"
 *      scheduler     the orchestrator "Order": takes an order's steps one by one and keeps its row
 *      agent         the activities: each calls one remote service, within the complete-by time
 *      supervisor    attempt() and recover(): who is late or fails is counted, and the step is
 *                    tried again; beyond the threshold, or when no repetition can help, the order
 *                    is put in Error and waits for an operator
 *      state store   the instance: its row is its custom status, its history is what happened
 *
 * The services fail as services do: sometimes (order-2), for good (order-3), by silence (order-4)
 * and for longer than anybody wants to wait (order-5). None of the roles keeps anything in memory
 * that matters: kill the program at any point and run it again with the same --data.
 */
#include "example.h"

#include <time.h>

#define STEP_MS 2000   /* an agent that has not answered by then is late */
#define FAILURES_MAX 3 /* since the last submission: then it is the operator's turn */
#define ORDERS_N 5

struct order {
    const char *id;
    char reply_to[64];
    char service[32]; /* how the remote services behave for this order */
    char locked_by[64];
    int64_t complete_by_ms;
    const char *process_state; /* Pending, Processing, Processed or Error */
    long failure_count;        /* only grows */
};

/* ---- the agents ---- */

/* Stands for a remote service. It is told the order's id, so that a repetition is harmless. */
static norn_status call_service(norn_context *ctx, struct norn_bytes input,
                                struct norn_bytes *output, void *user)
{
    char service[32];
    long failures = example_number(input, "failureCount");

    (void)output, (void)user;
    (void)example_member(input, "service", service, sizeof service);
    if (strcmp(service, "flaky") == 0 && failures < 2)
        return norn_fail(ctx, "Unavailable", "try again", false);
    if (strcmp(service, "down") == 0) return norn_fail(ctx, "Unavailable", "try again", false);
    if (strcmp(service, "declining") == 0)
        return norn_fail(ctx, "Declined", "the card has expired", true);
    if (strcmp(service, "silent") == 0 && failures < 1) /* answers when nobody listens any more */
        (void)nanosleep(&(struct timespec){.tv_sec = STEP_MS / 1000, .tv_nsec = 300000000}, NULL);
    return NORN_OK;
}

/* Who has the order now: not deterministic, therefore an activity, whose answer is durable. */
static norn_status take_order(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                              void *user)
{
    (void)input;
    *output = example_print(ctx, "%s", (const char *)user);
    return NORN_OK;
}

/* ---- the row of the order, and the reply channel ---- */

static norn_status keep_row(norn_context *ctx, const struct order *o)
{
    return norn_set_status(
        ctx, example_print(ctx,
                           "{\"orderId\":\"%s\",\"lockedBy\":\"%s\",\"completeBy\":%lld,"
                           "\"processState\":\"%s\",\"failureCount\":%ld}",
                           o->id, o->locked_by, (long long)o->complete_by_ms, o->process_state,
                           o->failure_count));
}

static norn_status reply(norn_context *ctx, const struct order *o)
{
    return norn_send_event(ctx, o->reply_to, "OrderReply",
                           example_print(ctx, "{\"orderId\":\"%s\",\"processState\":\"%s\"}", o->id,
                                         o->process_state));
}

/* ---- the supervisor ---- */

/* One attempt of a step. NORN_E_TIMEOUT: no answer by the complete-by time; one that comes later is
 * in the history, and nobody waits for it. */
static norn_status attempt(norn_context *ctx, struct order *o, const char *step)
{
    norn_task *either[2]; /* the agent's answer or the end of its time */
    struct norn_bytes who;
    size_t first = 0;

    norn_status status = norn_call(ctx, "TakeOrder", NORN_NONE, NULL, &who);
    if (status != NORN_OK) return status;
    (void)snprintf(o->locked_by, sizeof o->locked_by, "%.*s", TEXT(who));
    o->process_state = "Processing";
    o->complete_by_ms = norn_now(ctx) + STEP_MS;
    status = keep_row(ctx, o);
    if (status != NORN_OK) return status;

    struct norn_bytes input =
        example_print(ctx, "{\"orderId\":\"%s\",\"service\":\"%s\",\"failureCount\":%ld}", o->id,
                      o->service, o->failure_count);
    status = norn_begin_call(ctx, NORN_ACTIVITY, step, input, NULL, &either[0]);
    if (status != NORN_OK) return status;
    status = norn_begin_timer(ctx, STEP_MS, &either[1]);
    if (status != NORN_OK) return status;
    status = norn_when_any(ctx, either, 2, &first);
    if (status != NORN_OK) return status;
    if (first == 1) return NORN_E_TIMEOUT;
    status = norn_cancel(ctx, either[1]);
    return status == NORN_OK ? norn_await(ctx, either[0], NULL) : status;
}

/* After a failure: unlocked, counted, and Pending again after a while; or Error, until an operator
 * has mended the cause and submits the order again. */
static norn_status recover(norn_context *ctx, struct order *o, bool is_final,
                           long *since_submission)
{
    struct norn_bytes mended;

    o->locked_by[0] = '\0';
    o->complete_by_ms = 0;
    o->failure_count++;
    bool is_pending = !is_final && ++*since_submission <= FAILURES_MAX;
    o->process_state = is_pending ? "Pending" : "Error";
    norn_status status = keep_row(ctx, o);
    if (status != NORN_OK) return status;
    if (is_pending) return norn_sleep(ctx, 10 << *since_submission);

    status = reply(ctx, o);
    if (status != NORN_OK) return status;
    status = norn_wait_event(ctx, "Resubmit", -1, &mended);
    if (status != NORN_OK) return status;
    (void)example_member(mended, "service", o->service, sizeof o->service);
    *since_submission = 0;
    return NORN_OK;
}

/* ---- the scheduler ---- */

static norn_status order(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    static const char *const steps[] = {"ReserveStock", "ChargeCard", "ShipOrder"};
    struct order o = {.id = norn_here(ctx)->id, .process_state = "Pending"};

    (void)user;
    (void)example_member(input, "service", o.service, sizeof o.service);
    (void)example_member(input, "replyTo", o.reply_to, sizeof o.reply_to);
    for (size_t n = 0; n < 3; n++) {
        long since_submission = 0;
        for (;;) {
            norn_status status = attempt(ctx, &o, steps[n]);
            if (status == NORN_OK) break;
            if (status != NORN_E_FAILED && status != NORN_E_TIMEOUT) return status;
            bool is_final = status == NORN_E_FAILED && norn_here(ctx)->failure.is_final;
            status = recover(ctx, &o, is_final, &since_submission);
            if (status != NORN_OK) return status;
        }
    }
    o.locked_by[0] = '\0';
    o.complete_by_ms = 0;
    o.process_state = "Processed";
    norn_status status = keep_row(ctx, &o);
    if (status != NORN_OK) return status;
    *output = norn_text("\"Processed\"");
    return reply(ctx, &o);
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

static void print_row(struct norn_bytes row)
{
    char id[32], who[64], state[32], by[32] = "-";
    time_t at = example_number(row, "completeBy") / 1000;
    struct tm parts;

    if (at != 0 && gmtime_r(&at, &parts) != NULL) (void)strftime(by, sizeof by, "%H:%M:%S", &parts);
    (void)example_member(row, "lockedBy", who, sizeof who);
    printf("%-8s  %-11s  %-10s  %-12s  %12ld\n", example_member(row, "orderId", id, sizeof id),
           who[0] != '\0' ? who : "-", by, example_member(row, "processState", state, sizeof state),
           example_number(row, "failureCount"));
}

static void print_orders(struct example *e)
{
    printf("\nOrderID   LockedBy     CompleteBy  ProcessState  FailureCount\n");
    for (int n = 1; n <= ORDERS_N; n++) {
        struct norn_info *info;
        char id[32];
        (void)snprintf(id, sizeof id, "order-%d", n);
        must(norn_get(e->client, id, 0, &info), id);
        print_row(info->custom_status);
        norn_info_free(info);
    }
    printf("\n");
}

/* Looks until the order is in that state, or has ended: an earlier run may have done that. */
static bool wait_for_state(struct example *e, const char *id, const char *wanted)
{
    char state[32];

    for (;;) {
        struct norn_info *info;
        must(norn_get(e->client, id, 0, &info), id);
        (void)example_member(info->custom_status, "processState", state, sizeof state);
        bool is_over = info->state == NORN_COMPLETED;
        norn_info_free(info);
        if (is_over || strcmp(state, wanted) == 0) return strcmp(state, wanted) == 0;
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static void resubmit(struct example *e, const char *id)
{
    if (!wait_for_state(e, id, "Error")) return;
    printf("operator: %s is mended and submitted again\n", id);
    must(norn_raise(e->client, id, "Resubmit", norn_text("{\"service\":\"good\"}")), id);
}

static void open_all(struct example *e, int argc, char **argv)
{
    static char scheduler[] = "scheduler-1";

    example_open(e, argc, argv);
    must(norn_orchestrator(e->worker, "Order", NULL, order, NULL), "register");
    must(norn_orchestrator(e->worker, "Shop", NULL, shop, NULL), "register");
    must(norn_activity_add(e->worker, "TakeOrder", 0, take_order, scheduler), "register");
    must(norn_activity_add(e->worker, "ReserveStock", 0, call_service, NULL), "register");
    must(norn_activity_add(e->worker, "ChargeCard", 0, call_service, NULL), "register");
    must(norn_activity_add(e->worker, "ShipOrder", 0, call_service, NULL), "register");
    must(norn_worker_start(e->worker), "start");
}

int main(int argc, char **argv)
{
    struct example e;

    open_all(&e, argc, argv);
    example_begin(&e, "Shop", "shop-1", "5");
    submit(&e, "order-4", "silent");
    (void)wait_for_state(&e, "order-4", "Processing"); /* an agent has it, and says nothing */
    struct norn_info *info;
    must(norn_get(e.client, "order-4", 0, &info), "order-4");
    printf("\nOrderID   LockedBy     CompleteBy  ProcessState  FailureCount\n");
    print_row(info->custom_status);
    printf("\n");
    norn_info_free(info);

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
    print_orders(&e);

    resubmit(&e, "order-3");
    resubmit(&e, "order-5");
    info = example_wait(&e, "shop-1");
    printf("shop: %.*s\n", TEXT(info->output));
    norn_info_free(info);
    print_orders(&e);
    example_close(&e);
    return 0;
}

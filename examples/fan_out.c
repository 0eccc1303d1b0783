/* SPDX-License-Identifier: Apache-2.0
 *
 * Fan out, fan in: ten activities at once, and their sum. The worker runs at most four of them at a
 * time, whatever is begun; a crash in the middle repeats only what has not answered.
 */
#include "example.h"

#include <stdatomic.h>
#include <time.h>

#define PARTS_N 10
#define AT_ONCE_MAX 4

static atomic_int running_n;
static atomic_int running_max;

static norn_status square(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    int now_n = atomic_fetch_add(&running_n, 1) + 1;
    int seen = atomic_load(&running_max);
    long number = example_number(input, NULL);

    (void)user;
    while (now_n > seen && !atomic_compare_exchange_weak(&running_max, &seen, now_n)) continue;
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* hard work */
    *output = example_print(ctx, "%ld", number * number);
    atomic_fetch_sub(&running_n, 1);
    return NORN_OK;
}

static norn_status sum_of_squares(norn_context *ctx, struct norn_bytes input,
                                  struct norn_bytes *output, void *user)
{
    norn_task *parts[PARTS_N];
    long parts_n = example_number(input, NULL);
    long sum = 0;

    (void)user;
    if (parts_n > PARTS_N) return norn_fail(ctx, "TooMany", "at most 10 parts", true);
    for (long n = 0; n < parts_n; n++) { /* begun, not waited for */
        norn_status status = norn_begin_call(ctx, NORN_ACTIVITY, "Square",
                                             example_print(ctx, "%ld", n + 1), NULL, &parts[n]);
        if (status != NORN_OK) return status;
    }
    norn_status status = norn_when_all(ctx, parts, (size_t)parts_n);
    if (status != NORN_OK) return status;
    for (long n = 0; n < parts_n; n++) {
        struct norn_bytes part;
        status = norn_await(ctx, parts[n], &part); /* there already */
        if (status != NORN_OK) return status;
        sum += example_number(part, NULL);
    }
    *output = example_print(ctx, "%ld", sum);
    return NORN_OK;
}

int main(int argc, char **argv)
{
    struct example e = {0};

    example_open(&e, argc, argv);
    must(norn_orchestrator(e.worker, "SumOfSquares", NULL, sum_of_squares, NULL), "register");
    must(norn_activity_add(e.worker, "Square", AT_ONCE_MAX, square, NULL), "register");
    must(norn_worker_start(e.worker), "start");

    example_begin(&e, "SumOfSquares", "sum-1", "10");
    struct norn_info *info = example_wait(&e, "sum-1");
    printf("1 + 4 + 9 + ... + 100 = %.*s\n", TEXT(info->output));
    printf("several at once: %s\n", atomic_load(&running_max) > 1 ? "yes" : "no");
    printf("more than %d at once: %s\n", AT_ONCE_MAX,
           atomic_load(&running_max) > AT_ONCE_MAX ? "yes" : "no");
    norn_info_free(info);
    example_close(&e);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Coroutines on one stack: what they have there survives that others use it.
 */
#include "test/lib/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "lib/coroutine.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct walker {
    struct coroutine coroutine;
    int id;
    int steps_n;
    int sum;
};

/* Addresses on the stack are the same after every wait, and so is what is there. */
__attribute__((noinline)) static int walk(struct walker *w, int depth)
{
    volatile int own[50];
    volatile int *where = own;
    for (int n = 0; n < 50; n++) own[n] = w->id * 1000 + depth * 50 + n;
    if (depth < w->id % 7) return walk(w, depth + 1) + own[3] - w->id * 1000 - depth * 50 - 3;
    for (int n = 0; n < w->steps_n; n++) {
        coroutine_suspend(&w->coroutine);
        EXPECT(where == own);
        for (int i = 0; i < 50; i++) EXPECT_EQ(w->id * 1000 + depth * 50 + i, own[i]);
    }
    return w->id;
}

static void start(void *user)
{
    struct walker *w = user;
    w->sum = walk(w, 0);
}

#define WALKERS_N 100
TEST(what_is_on_the_stack_survives_that_others_use_it)
{
    static struct walker walkers[WALKERS_N];
    struct mem mem;
    struct coroutine_stack *stack;
    int running_n = WALKERS_N;
    mem_init(&mem, SIZE_MAX);
    EXPECT_STATUS(OK, coroutine_stack_open(&mem, 1, &stack));
    for (int n = 0; n < WALKERS_N; n++) {
        walkers[n] = (struct walker){.id = n + 1, .steps_n = n % 13};
        coroutine_init(&walkers[n].coroutine, stack, &mem, start, &walkers[n]);
    }
    while (running_n > 0) {
        for (int n = 0; n < WALKERS_N; n++) {
            struct walker *w = &walkers[n];
            if (w->coroutine.is_ended) continue;
            coroutine_resume(&w->coroutine);
            if (w->coroutine.is_ended) {
                running_n--;
                EXPECT_EQ(w->id, w->sum);
            } else {
                EXPECT_STATUS(OK, coroutine_park(&w->coroutine));
            }
        }
    }
    for (int n = 0; n < WALKERS_N; n++) coroutine_release(&walkers[n].coroutine);
    size_t used = coroutine_stack_used_max(stack);
    EXPECT(used > 7 * 50 * sizeof(int));
    EXPECT(used < COROUTINE_STACK_SIZE_MIN);
    coroutine_stack_close(stack);
    mem_release(&mem);
}

TEST(one_that_is_dropped_in_the_middle_leaves_the_stack_to_others)
{
    struct mem mem;
    struct coroutine_stack *stack;
    struct walker a = {.id = 5, .steps_n = 9}, b = {.id = 6, .steps_n = 1};
    mem_init(&mem, SIZE_MAX);
    EXPECT_STATUS(OK, coroutine_stack_open(&mem, 1, &stack));
    coroutine_init(&a.coroutine, stack, &mem, start, &a);
    coroutine_init(&b.coroutine, stack, &mem, start, &b);
    coroutine_resume(&a.coroutine);
    coroutine_release(&a.coroutine); /* not parked */
    coroutine_resume(&b.coroutine);
    coroutine_resume(&b.coroutine);
    EXPECT(b.coroutine.is_ended);
    coroutine_release(&b.coroutine);
    coroutine_stack_close(stack);
    mem_release(&mem);
}

/* Without memory it stays where it is, and can be dropped. */
TEST(parking_without_memory_is_a_status)
{
    struct mem mem;
    struct coroutine_stack *stack;
    struct walker a = {.id = 5, .steps_n = 2};
    mem_init(&mem, SIZE_MAX);
    EXPECT_STATUS(OK, coroutine_stack_open(&mem, 1, &stack));
    coroutine_init(&a.coroutine, stack, &mem, start, &a);
    coroutine_resume(&a.coroutine);
    mem.fail_at = 1;
    EXPECT_STATUS(E_NOMEM, coroutine_park(&a.coroutine));
    coroutine_resume(&a.coroutine);
    EXPECT_STATUS(OK, coroutine_park(&a.coroutine));
    coroutine_release(&a.coroutine);
    coroutine_stack_close(stack);
    mem_release(&mem);
}

__attribute__((noinline)) static int dig(volatile int *above, int depth)
{
    volatile int own[100];
    own[0] = depth + (above != NULL ? above[0] : 0);
    if (depth > 100000) return own[0];
    return dig(own, depth + 1) + own[0];
}

static void overflow(void *user)
{
    (void)user;
    (void)dig(NULL, 0);
}

/* The page below the stack belongs to nobody: a program that needs too much stops there. */
TEST(a_stack_that_is_too_small_ends_the_process_and_nothing_else)
{
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        struct mem mem;
        struct coroutine_stack *stack;
        struct coroutine c;
        mem_init(&mem, SIZE_MAX);
        if (coroutine_stack_open(&mem, 1, &stack) != OK) _exit(3);
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(3);
        coroutine_init(&c, stack, &mem, overflow, NULL);
        coroutine_resume(&c);
        _exit(0);
    }
    int status = 0;
    EXPECT_EQ(pid, waitpid(pid, &status, 0));
    EXPECT(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0));
    EXPECT(!WIFEXITED(status) || WEXITSTATUS(status) != 3);
}

/* A resume with both copies, as between two turns. Printed, not judged: sanitizers take their
 * time. */
TEST(a_resume_is_cheap)
{
    struct mem mem;
    struct coroutine_stack *stack;
    struct walker a = {.id = 1, .steps_n = 100001}, b = {.id = 2, .steps_n = 100001};
    mem_init(&mem, SIZE_MAX);
    EXPECT_STATUS(OK, coroutine_stack_open(&mem, 1, &stack));
    coroutine_init(&a.coroutine, stack, &mem, start, &a);
    coroutine_init(&b.coroutine, stack, &mem, start, &b);
    int64_t began_ns = clock_mono_ns();
    for (int n = 0; n < 50000; n++) {
        coroutine_resume(&a.coroutine);
        EXPECT_STATUS(OK, coroutine_park(&a.coroutine));
        coroutine_resume(&b.coroutine);
        EXPECT_STATUS(OK, coroutine_park(&b.coroutine));
    }
    printf("# %lld ns for a resume, with both copies and the checks of the test\n",
           (long long)((clock_mono_ns() - began_ns) / 100000));
    coroutine_release(&a.coroutine);
    coroutine_release(&b.coroutine);
    coroutine_stack_close(stack);
    mem_release(&mem);
}

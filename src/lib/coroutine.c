/* SPDX-License-Identifier: Apache-2.0
 *
 * See coroutine.h. Switching is a dozen instructions: the registers that a called function must
 * keep are pushed, the stack pointer is changed, and they are popped again. swapcontext() would do
 * it with two system calls for a signal mask that nobody here changes; it is the way on processors
 * for which there is no assembly below.
 *
 * The sanitizers have to be told. AddressSanitizer knows which stack is in use, and has marks about
 * every frame in its shadow memory, which are moved with the frames. ThreadSanitizer keeps a call
 * stack for every fiber. valgrind must know that this memory is a stack.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_STACK */
#include "lib/coroutine.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#endif
#ifdef HAS_TSAN
#include <sanitizer/tsan_interface.h>
#endif
/* AddressSanitizer is there when the program was built with it, whether or not this library was. */
extern __attribute__((weak)) void __sanitizer_start_switch_fiber(void **fake_stack, const void *low,
                                                                 size_t size);
extern __attribute__((weak)) void __sanitizer_finish_switch_fiber(void *fake_stack,
                                                                  const void **low, size_t *size);
extern __attribute__((weak)) void __asan_get_shadow_mapping(size_t *scale, size_t *offset);
extern __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *ptr,
                                                                size_t size);
#if defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define HAS_VALGRIND 1
#endif
#endif
#if !defined(__x86_64__) || defined(NORN_USE_UCONTEXT)
#define USES_UCONTEXT 1
#include <ucontext.h>
#endif

#define PAINT UINT64_C(0x5a17c0de5a17c0de)

#define MEASURE_EVERY_N 1000u

/* Wide, because one large frame jumps over a page, into whatever is mapped below; it costs address
 * space only. */
#define GUARD_SIZE ((size_t)1 << 20)

struct coroutine_stack {
    struct mem *mem;
    uint8_t *map; /* the guard, then the stack */
    size_t map_size;
    uint8_t *low; /* the stack */
    uint8_t *top;
    struct coroutine *occupant; /* whose frames are on it; NULL = nobody's */
    struct coroutine *running;
    void *home_sp; /* of who resumed */
    void *home_fiber;
    void *home_fake; /* AddressSanitizer's, of who resumed */
    const void *home_low;
    size_t home_size;
    uint64_t resumes_n;
    uint64_t measure_at; /* resume after which its use is measured again */
    size_t used_max;
#ifdef HAS_VALGRIND
    unsigned valgrind_id;
#endif
#ifdef USES_UCONTEXT
    ucontext_t home;
#endif
};

/* ---- the switch ---- */

static _Noreturn void enter(struct coroutine *c);

#ifdef USES_UCONTEXT

#define BELOW_SP 256 /* the frame that swapcontext() returns to may reach below the context */

/* makecontext() takes ints only. */
static void enter_split(unsigned high, unsigned low)
{
    enter((struct coroutine *)(((uintptr_t)high << 32) | low));
}

/* The context lies on the stack itself and moves with the frames; sp is its address. */
static void *prepare(struct coroutine *c)
{
    uintptr_t number = (uintptr_t)c;
    ucontext_t *context = (ucontext_t *)(void *)(c->stack->top - sizeof *context - 64);

    (void)getcontext(context);
    context->uc_stack.ss_sp = c->stack->low;
    context->uc_stack.ss_size = (size_t)((uint8_t *)context - c->stack->low);
    context->uc_link = NULL;
    makecontext(context, (void (*)(void))enter_split, 2, (unsigned)(number >> 32),
                (unsigned)number);
    return context;
}

static void switch_in(struct coroutine *c)
{
    (void)swapcontext(&c->stack->home, (ucontext_t *)c->sp);
}

static void switch_out(struct coroutine *c)
{
    ucontext_t here;

    c->sp = &here;
    (void)swapcontext(&here, &c->stack->home);
}

#else

#define BELOW_SP 0

/* void switch_stacks(void **old_sp, void *new_sp) */
void coroutine_switch_stacks(void **old_sp, void *new_sp);
void coroutine_first_frame(void);
__asm__(".text\n"
        ".hidden coroutine_switch_stacks\n"
        ".globl coroutine_switch_stacks\n"
        ".type coroutine_switch_stacks, @function\n"
        "coroutine_switch_stacks:\n"
        "    endbr64\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size coroutine_switch_stacks, .-coroutine_switch_stacks\n"
        /* where a fresh one begins: its struct is in r12, the function in r13 */
        ".hidden coroutine_first_frame\n"
        ".globl coroutine_first_frame\n"
        ".type coroutine_first_frame, @function\n"
        "coroutine_first_frame:\n"
        "    endbr64\n"
        "    movq %r12, %rdi\n"
        "    xorl %ebp, %ebp\n"
        "    callq *%r13\n"
        "    ud2\n"
        ".size coroutine_first_frame, .-coroutine_first_frame\n");

/* What coroutine_switch_stacks() pops: r15 r14 r13 r12 rbx rbp, then the address to return to. */
static void *prepare(struct coroutine *c)
{
    uint64_t *top = (uint64_t *)(void *)c->stack->top;
    uint64_t *sp = top - 11; /* after the ret it is a multiple of 16 again, as at a call */

    memset(sp, 0, 11 * sizeof *sp);
    sp[2] = (uint64_t)(uintptr_t)enter;
    sp[3] = (uint64_t)(uintptr_t)c;
    sp[6] = (uint64_t)(uintptr_t)coroutine_first_frame;
    return sp;
}

static void switch_in(struct coroutine *c) { coroutine_switch_stacks(&c->stack->home_sp, c->sp); }

static void switch_out(struct coroutine *c) { coroutine_switch_stacks(&c->sp, c->stack->home_sp); }

#endif

/* ---- what the sanitizers are told ---- */

static bool has_asan(void)
{
    return __sanitizer_start_switch_fiber != NULL && __sanitizer_finish_switch_fiber != NULL &&
           __asan_get_shadow_mapping != NULL && __asan_unpoison_memory_region != NULL;
}

static void tell_entering(struct coroutine *c)
{
    struct coroutine_stack *s = c->stack;

    if (has_asan()) {
        __sanitizer_start_switch_fiber(&s->home_fake, s->low, (size_t)(s->top - s->low));
    }
#ifdef HAS_TSAN
    s->home_fiber = __tsan_get_current_fiber();
    if (c->fiber == NULL) c->fiber = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(c->fiber, 0);
#endif
}

static void tell_entered(struct coroutine *c)
{
    struct coroutine_stack *s = c->stack;

    if (has_asan()) __sanitizer_finish_switch_fiber(c->fake, &s->home_low, &s->home_size);
}

static void tell_leaving(struct coroutine *c)
{
    struct coroutine_stack *s = c->stack;

    if (has_asan()) {
        __sanitizer_start_switch_fiber(c->is_ended ? NULL : &c->fake, s->home_low, s->home_size);
    }
#ifdef HAS_TSAN
    __tsan_switch_to_fiber(s->home_fiber, 0);
#endif
}

static void tell_left(struct coroutine_stack *s)
{
    if (has_asan()) __sanitizer_finish_switch_fiber(s->home_fake, NULL, NULL);
}

/* One byte of shadow for eight of memory. */
static uint8_t *shadow_of(const void *address)
{
    size_t scale = 0;
    size_t offset = 0;

    __asan_get_shadow_mapping(&scale, &offset);
    assert(scale == 3);
    return (uint8_t *)(((uintptr_t)address >> scale) + offset);
}

static size_t shadow_size(size_t len) { return has_asan() ? len / 8 : 0; }

/* Frames as they are, marks between their variables included: no sanitizer looks on. */
#if defined(__clang__)
#define UNSEEN __attribute__((no_sanitize("address", "thread"), noinline))
#else
#define UNSEEN __attribute__((no_sanitize_address, no_sanitize_thread, noinline))
#endif
UNSEEN static void copy_words(void *to, const void *from, size_t len)
{
#ifndef HAS_TSAN
    if (!has_asan()) {
        memcpy(to, from, len);
        return;
    }
#endif
    volatile uint64_t *t = to; /* not memcpy(), which looks at the marks */
    const volatile uint64_t *f = from;
    for (size_t n = 0; n < len / 8; n++) t[n] = f[n];
}

UNSEEN static size_t count_paint(const struct coroutine_stack *s)
{
    const volatile uint64_t *word = (const volatile uint64_t *)(const void *)s->low;
    size_t n = 0;
    size_t words_n = (size_t)(s->top - s->low) / 8;

    while (n < words_n && word[n] == PAINT) n++;
    return n * 8;
}

/* Nobody's frames are on it any more: no marks about them either. */
static void stack_clean(struct coroutine_stack *s)
{
    if (has_asan()) __asan_unpoison_memory_region(s->low, (size_t)(s->top - s->low));
#ifdef HAS_VALGRIND
    VALGRIND_MAKE_MEM_DEFINED(s->low, s->top - s->low);
#endif
}

/* ---- stacks ---- */

enum status coroutine_stack_open(struct mem *mem, size_t size, struct coroutine_stack **out)
{
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    struct coroutine_stack *s = mem_take_zero(mem, sizeof *s);

    if (s == NULL) return E_NOMEM;
    if (size < COROUTINE_STACK_SIZE_MIN) size = COROUTINE_STACK_SIZE_MIN;
    size = (size + page_size - 1) / page_size * page_size;
    s->mem = mem;
    s->map_size = size + GUARD_SIZE;
    s->map = mmap(NULL, s->map_size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (s->map == MAP_FAILED || mprotect(s->map, GUARD_SIZE, PROT_NONE) != 0) {
        if (s->map != MAP_FAILED) (void)munmap(s->map, s->map_size);
        mem_give(mem, s, sizeof *s);
        return E_NOMEM;
    }
    s->low = s->map + GUARD_SIZE;
    s->top = s->low + size;
    for (uint64_t *word = (uint64_t *)(void *)s->low; (uint8_t *)word < s->top; word++) {
        *word = PAINT;
    }
#ifdef HAS_VALGRIND
    s->valgrind_id = VALGRIND_STACK_REGISTER(s->low, s->top);
#endif
    *out = s;
    return OK;
}

void coroutine_stack_close(struct coroutine_stack *s)
{
    assert(s->occupant == NULL);
    stack_clean(s);
#ifdef HAS_VALGRIND
    VALGRIND_STACK_DEREGISTER(s->valgrind_id);
#endif
    (void)munmap(s->map, s->map_size);
    mem_give(s->mem, s, sizeof *s);
}

size_t coroutine_stack_size(const struct coroutine_stack *s) { return (size_t)(s->top - s->low); }

/* What was once used stays without paint, so that a look now and then misses nothing; each one has
 * to read all that was never used. */
size_t coroutine_stack_used_max(struct coroutine_stack *s)
{
    if (s->resumes_n < s->measure_at) return s->used_max;
    s->measure_at =
        s->resumes_n + (s->resumes_n < MEASURE_EVERY_N ? s->resumes_n : MEASURE_EVERY_N);
#ifdef HAS_VALGRIND
    VALGRIND_DISABLE_ERROR_REPORTING; /* to read below the frames is wrong anywhere else */
#endif
    s->used_max = (size_t)(s->top - s->low) - count_paint(s);
#ifdef HAS_VALGRIND
    VALGRIND_ENABLE_ERROR_REPORTING;
#endif
    return s->used_max;
}

/* ---- coroutines ---- */

void coroutine_init(struct coroutine *c, struct coroutine_stack *stack, struct mem *mem,
                    coroutine_fn *fn, void *user)
{
    *c = (struct coroutine){.stack = stack, .mem = mem, .fn = fn, .user = user};
}

void coroutine_release(struct coroutine *c)
{
    assert(c->stack->running == NULL);
    if (c->stack->occupant == c) {
        c->stack->occupant = NULL;
        stack_clean(c->stack);
    }
#ifdef HAS_TSAN
    if (c->fiber != NULL) __tsan_destroy_fiber(c->fiber);
    c->fiber = NULL;
#endif
    mem_give(c->mem, c->saved, c->saved_size);
    c->saved = NULL;
}

static _Noreturn void enter(struct coroutine *c)
{
    tell_entered(c);
    c->fn(c->user);
    c->is_ended = true;
    tell_leaving(c);
    switch_out(c);
    unreachable("an ended coroutine goes on");
}

static void restore(struct coroutine *c)
{
    struct coroutine_stack *s = c->stack;
    size_t len = c->saved_len;

    assert(s->occupant == NULL);
    stack_clean(s);
    if (!c->is_started) {
        c->is_started = true;
        c->sp = prepare(c);
    } else {
        assert(c->saved != NULL);
        copy_words(s->top - len, c->saved, len);
        if (has_asan()) copy_words(shadow_of(s->top - len), c->saved + len, shadow_size(len));
    }
    s->occupant = c;
}

/* What this thread is within. */
static _Thread_local const struct coroutine *running_here;

bool coroutine_is_running(const struct coroutine *c) { return running_here == c; }

bool coroutine_is_any_running(void) { return running_here != NULL; }

void coroutine_resume(struct coroutine *c)
{
    struct coroutine_stack *s = c->stack;

    assert(!c->is_ended);
    assert(s->running == NULL);
    if (s->occupant != c) restore(c);
    s->running = c;
    running_here = c;
    s->resumes_n++;
    tell_entering(c);
    switch_in(c);
    tell_left(s);
    s->running = NULL;
    running_here = NULL;
    if (!c->is_ended) return;
    s->occupant = NULL;
    stack_clean(s);
}

void coroutine_suspend(struct coroutine *c)
{
    assert(c->stack->running == c);
    tell_leaving(c);
    switch_out(c);
    tell_entered(c);
}

enum status coroutine_park(struct coroutine *c)
{
    struct coroutine_stack *s = c->stack;

    assert(s->running == NULL);
    if (s->occupant != c) return OK;
    /* 64: shadow in whole words, for whole lines of the cache */
    const uint8_t *from = (const uint8_t *)(((uintptr_t)c->sp - BELOW_SP) & ~(uintptr_t)63);
    size_t len = (size_t)(s->top - from);
    size_t size = len + shadow_size(len);
    if (size > c->saved_size) {
        uint8_t *larger = mem_take(c->mem, size);
        if (larger == NULL) return E_NOMEM;
        mem_give(c->mem, c->saved, c->saved_size);
        c->saved = larger;
        c->saved_size = size;
    }
    copy_words(c->saved, from, len);
    if (has_asan()) copy_words(c->saved + len, shadow_of(from), shadow_size(len));
    c->saved_len = len;
    s->occupant = NULL;
    stack_clean(s);
    return OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that can stop in the middle. All coroutines of a thread run on ONE stack, with a guard
 * page at its end; when one is put aside, what it has on the stack is copied out, and copied back
 * to the same addresses before it goes on.
 *
 *      fresh ──resume──> RUNNING <──suspend / resume──> WAITING (its frames are on the stack)
 *                         │   ^                            │ park: copied out
 *                         │   └──resume: copied back── PARKED
 *                         └──returns──> ENDED
 *
 * Why one stack: a waiting orchestrator has a few hundred bytes of frames. A stack of its own would
 * cost each at least two pages and, for the guard page, two entries in the process's memory map, of
 * which Linux allows some 65,000: a hundred thousand waiting ones would not be possible. The copy
 * costs about 50 ns for a kilobyte. The price: nobody but the coroutine itself may use an address
 * on its stack, and the limit of the stack is one for all.
 *
 * Everything here belongs to one thread.
 */
#ifndef LIB_COROUTINE_H
#define LIB_COROUTINE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mem;
struct coroutine_stack;

#define COROUTINE_STACK_SIZE_MIN ((size_t)16 << 10)

/* size: rounded up to pages. E_NOMEM. */
enum status coroutine_stack_open(struct mem *mem, size_t size, struct coroutine_stack **out);
/* All its coroutines are released. */
void coroutine_stack_close(struct coroutine_stack *stack);
/* How deep the stack was used at most since it was opened; up to 1,000 resumes ago. */
size_t coroutine_stack_used_max(struct coroutine_stack *stack);
size_t coroutine_stack_size(const struct coroutine_stack *s);

typedef void coroutine_fn(void *user);

struct coroutine {
    struct coroutine_stack *stack;
    struct mem *mem; /* of the copy */
    coroutine_fn *fn;
    void *user;
    void *sp;       /* while it does not run */
    uint8_t *saved; /* while it is parked: from sp to the stack's top */
    size_t saved_size;
    size_t saved_len;
    bool is_started;
    bool is_ended;
    void *fiber; /* of ThreadSanitizer */
    void *fake;  /* AddressSanitizer's stack of frames that are not on this one */
};

/* Takes nothing yet. */
void coroutine_init(struct coroutine *c, struct coroutine_stack *stack, struct mem *mem,
                    coroutine_fn *fn, void *user);
/* What it had is dropped without a word, wherever it is. Not from within. */
void coroutine_release(struct coroutine *c);

/* Runs it until it suspends or ends. Another one that is on the stack must have been parked, or be
 * at its end (asserted). */
void coroutine_resume(struct coroutine *c);
/* From within: back to who resumed it. */
void coroutine_suspend(struct coroutine *c);
/* The caller is within it. Any thread may ask. */
bool coroutine_is_running(const struct coroutine *c);
/* The caller is within one. */
bool coroutine_is_any_running(void);
/* Makes the stack free for others. E_NOMEM: it is still on the stack; release it. */
enum status coroutine_park(struct coroutine *c);

#endif

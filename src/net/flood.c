/* SPDX-License-Identifier: Apache-2.0
 *
 * Token buckets of one connection.
 */
#include "net/flood.h"

#include "base/assert.h"
#include "base/clock.h"

static void bucket_init(struct bucket *b, uint32_t burst, uint32_t per_s, int64_t now_ns)
{
    *b = (struct bucket){.tokens = burst, .burst = burst, .per_s = per_s, .filled_ns = now_ns};
}

void flood_init(struct flood *f, uint32_t resets_burst, uint32_t resets_per_s, int64_t now_ns)
{
#define X(name, burst, per_s) bucket_init(&f->buckets[FLOOD_##name], burst, per_s, now_ns);
    FLOODS(X)
#undef X
    bucket_init(&f->buckets[FLOOD_RESET], resets_burst, resets_per_s, now_ns);
}

static void bucket_fill(struct bucket *b, int64_t now_ns)
{
    if (b->per_s == 0 || now_ns <= b->filled_ns) return;

    int64_t token_ns = NS_PER_S / b->per_s;
    if (token_ns == 0) token_ns = 1;
    int64_t earned = (now_ns - b->filled_ns) / token_ns;
    if (earned >= (int64_t)(b->burst - b->tokens)) {
        b->tokens = b->burst;
        b->filled_ns = now_ns;
    } else {
        b->tokens += (uint32_t)earned;
        b->filled_ns += earned * token_ns; /* the rest of a token is not lost */
    }
}

bool flood_take(struct flood *f, enum flood_kind kind, int64_t now_ns)
{
    struct bucket *b = &f->buckets[kind];

    assert(b->tokens <= b->burst);
    /* The clock is only looked at when it can make a difference. */
    if (b->tokens < b->burst / 2 + 1) bucket_fill(b, now_ns);
    if (b->tokens == 0) return false;
    b->tokens--;
    return true;
}

void flood_earn(struct flood *f, enum flood_kind kind)
{
    struct bucket *b = &f->buckets[kind];

    if (b->tokens < b->burst) b->tokens++;
}

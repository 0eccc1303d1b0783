/* SPDX-License-Identifier: Apache-2.0
 *
 * See backlog.h. Entries are numbers into blocks, so that links have four bytes and a growing
 * backlog never moves. Each is in three lists: the chain of its hash, the line of its name (by
 * order), and the list by age (by place in the journal).
 */
#include "core/backlog.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/siphash.h"

#define NONE UINT32_MAX
#define BLOCK_N 1024u
#define BLOCK_SIZE (BLOCK_N * sizeof(struct entry))
#define NAMES_IDLE_N 1024u         /* kept although nothing of them is there */
#define LINES_N_MAX 10000u         /* names that may wait */
#define TURN_N 16u                 /* admitted of one name before the next has its turn */
#define BURST_NS (100 * NS_PER_MS) /* a rate may be ahead of itself by so much */
#define FLOOR_DIVISOR 64u          /* a name has at least this part of all, whatever others do */
#define REFILL_DIVISOR 16u         /* a name is refilled when this part of its limit is free, */
#define REFILL_N_MAX 64u           /* or so many */
#define HELD_ACTIVE_N 16u          /* of a served name, while memory is full */

struct entry {
    uint64_t hash;
    uint64_t order;
    uint64_t lsn;
    struct backlog_name *name;
    uint32_t offset;
    uint32_t size;
    uint32_t partition;
    uint32_t chain; /* next with the same slot */
    uint32_t next;  /* in the line of its name; of a free one: the next free one */
    uint32_t prev;
    uint32_t age_next; /* by place in the journal */
    uint32_t age_prev;
};
_Static_assert(sizeof(struct entry) == 64, "a waiting start costs one cache line");

struct backlog {
    struct backlog_options options;
    struct entry **blocks;
    size_t blocks_n;
    size_t blocks_max;
    uint32_t free;
    uint32_t *slots; /* first of each chain; power of two */
    size_t slots_n;
    uint32_t age_first;
    uint32_t age_last;
    uint64_t n;
    uint64_t size;
    uint64_t active_n;
    uint64_t order_last;
    uint64_t deferred_n;
    uint64_t admitted_n;
    enum backlog_hold hold;
    uint32_t workers_changed_n; /* from 1 on */
    bool has_rates;
    uint64_t *partition_n; /* how many of each wait */
    struct map names;
    struct list all_names;
    struct list lines; /* names that wait, the next to have its turn first */
    size_t lines_n;
};

static struct entry *at(const struct backlog *b, uint32_t number)
{
    assert(number < b->blocks_n * BLOCK_N);
    return &b->blocks[number / BLOCK_N][number % BLOCK_N];
}

enum status backlog_new(const struct backlog_options *options, struct backlog **out)
{
    assert(options->mem != NULL);
    assert(options->partitions_n > 0);
    struct backlog *b = mem_take_zero(options->mem, sizeof *b);
    if (b == NULL) return E_NOMEM;
    b->options = *options;
    if (b->options.hash_mask == 0) b->options.hash_mask = UINT64_MAX;
    b->partition_n = mem_take_zero(options->mem, options->partitions_n * sizeof(uint64_t));
    if (b->partition_n == NULL) {
        mem_give(options->mem, b, sizeof *b);
        return E_NOMEM;
    }
    b->workers_changed_n = 1;
    b->has_rates = options->rate_by_name > 0;
    for (size_t n = 0; n < options->rules_n; n++) {
        if (options->rules[n].has_rate && options->rules[n].rate > 0) b->has_rates = true;
    }
    b->free = b->age_first = b->age_last = NONE;
    map_init(&b->names, options->mem, options->seed[0], options->seed[1]);
    list_init(&b->all_names);
    list_init(&b->lines);
    *out = b;
    return OK;
}

static void blocks_release(struct backlog *b)
{
    struct mem *mem = b->options.mem;
    assert(b->n == 0);
    assert(b->size == 0);
    assert(b->lines_n == 0);
    assert(b->age_first == NONE);
    assert(b->age_last == NONE);
    for (size_t n = 0; n < b->blocks_n; n++) mem_give(mem, b->blocks[n], BLOCK_SIZE);
    mem_give(mem, b->blocks, b->blocks_max * sizeof(struct entry *));
    mem_give(mem, b->slots, b->slots_n * sizeof(uint32_t));
    b->blocks = NULL;
    b->slots = NULL;
    b->blocks_n = b->blocks_max = b->slots_n = 0;
    b->free = NONE;
}

static void name_free(struct backlog *b, struct backlog_name *name)
{
    assert(name->active_n == 0);
    assert(name->waiting_n == 0);
    assert(name->first == NONE);
    assert(name->last == NONE);
    assert(!list_is_linked(&name->line));
    map_remove(&b->names, &name->node);
    list_remove(&name->all);
    mem_give(b->options.mem, name, sizeof *name + name->name.len);
}

void backlog_free(struct backlog *b)
{
    struct mem *mem = b->options.mem;
    assert(b->n == 0); /* its cores have dropped them */
    assert(b->active_n == 0);
    while (!list_is_empty(&b->all_names)) {
        name_free(b, container_of(list_first(&b->all_names), struct backlog_name, all));
    }
    assert(b->names.n == 0);
    assert(list_is_empty(&b->lines));
    map_release(&b->names);
    blocks_release(b);
    mem_give(mem, b->partition_n, b->options.partitions_n * sizeof(uint64_t));
    mem_give(mem, b, sizeof *b);
}

uint64_t backlog_n(const struct backlog *b) { return b->n; }
uint64_t backlog_size(const struct backlog *b) { return b->size; }
uint64_t backlog_active_n(const struct backlog *b) { return b->active_n; }
uint64_t backlog_deferred_n(const struct backlog *b) { return b->deferred_n; }
uint64_t backlog_admitted_n(const struct backlog *b) { return b->admitted_n; }
void backlog_hold(struct backlog *b, enum backlog_hold hold) { b->hold = hold; }

size_t backlog_memory(const struct backlog *b)
{
    assert(b->blocks_n <= b->blocks_max);
    assert((b->slots_n & (b->slots_n - 1)) == 0);
    return b->blocks_n * BLOCK_SIZE + b->blocks_max * sizeof(struct entry *) +
           b->slots_n * sizeof(uint32_t);
}

/* ---- names ---- */

static struct backlog_name *name_find(const struct backlog *b, struct bytes name)
{
    struct map_node *node = map_find(&b->names, name);
    return node == NULL ? NULL : container_of(node, struct backlog_name, node);
}

static void limits_of(const struct backlog *b, struct bytes name, uint32_t *active_max,
                      uint32_t *rate)
{
    *active_max = b->options.active_max_by_name;
    *rate = b->options.rate_by_name;
    for (size_t n = 0; n < b->options.rules_n; n++) {
        const struct backlog_rule *rule = &b->options.rules[n];
        if (!bytes_equal(rule->name, name)) continue;
        if (rule->has_active_max) *active_max = rule->active_max;
        if (rule->has_rate) *rate = rule->rate;
    }
}

/* Memory for it was reserved before the step. */
static struct backlog_name *name_obtain(struct backlog *b, struct bytes name)
{
    struct backlog_name *known = name_find(b, name);
    if (known != NULL) return known;
    struct backlog_name *made = mem_take_zero(b->options.mem, sizeof *made + name.len);
    assert(made != NULL);
    if (name.len > 0) memcpy(made + 1, name.ptr, name.len);
    made->name = bytes_make(made + 1, name.len);
    made->node.key = made->name;
    made->first = made->last = NONE;
    made->is_sorted = true;
    limits_of(b, made->name, &made->active_max, &made->rate);
    map_insert(&b->names, &made->node);
    list_push_back(&b->all_names, &made->all);
    return made;
}

/* A few are kept: most names come again. One with a rate remembers how much of it is used. */
static void name_settle(struct backlog *b, struct backlog_name *name)
{
    if (name->active_n > 0 || name->waiting_n > 0) return;
    if (b->names.n > NAMES_IDLE_N && name->rate == 0) name_free(b, name);
}

struct backlog_name *backlog_enter(struct backlog *b, struct bytes name)
{
    struct backlog_name *known = name_obtain(b, name);
    known->active_n++;
    b->active_n++;
    assert(known->active_n <= b->active_n);
    return known;
}

void backlog_leave(struct backlog *b, struct backlog_name *name)
{
    assert(name->active_n > 0);
    assert(b->active_n >= name->active_n);
    name->active_n--;
    b->active_n--;
    name_settle(b, name);
}

/* ---- admission ---- */

void backlog_workers_changed(struct backlog *b)
{
    if (++b->workers_changed_n == 0) b->workers_changed_n = 1;
}

/* Asked once for each change of the workers: there may be many, with many names each. */
static void find_served(const struct backlog *b, struct backlog_name *name, struct bytes text)
{
    if (b->hold == BACKLOG_FREE || name->served_at == b->workers_changed_n) return;
    name->is_served = b->options.is_served != NULL && b->options.is_served(b->options.user, text);
    name->served_at = b->workers_changed_n;
}

/* How many of this name may be active while something is full. */
static uint64_t held_max(const struct backlog *b, const struct backlog_name *name)
{
    if (b->hold == BACKLOG_FREE) return UINT64_MAX;
    if (b->hold == BACKLOG_ALL || !name->is_served) return 0;
    return b->hold == BACKLOG_SINGLE ? 1 : HELD_ACTIVE_N;
}

/* How many more of this name may be active, those that are picked already counted. */
static uint64_t room_of(const struct backlog *b, const struct backlog_name *name, uint64_t picked_n)
{
    assert(name->active_n <= b->active_n);
    uint64_t name_n = name->active_n + name->picked_n;
    uint64_t name_max = held_max(b, name);
    if (name->active_max > 0 && name->active_max < name_max) name_max = name->active_max;
    uint64_t room = name_n < name_max ? name_max - name_n : 0;
    if (b->options.active_max == 0) return room;
    uint64_t all_n = b->active_n + picked_n;
    uint64_t all_room = all_n < b->options.active_max ? b->options.active_max - all_n : 0;
    uint64_t floor_n = b->options.active_max / FLOOR_DIVISOR;
    uint64_t floor_room = name_n < floor_n ? floor_n - name_n : 0;
    if (all_room < floor_room) all_room = floor_room;
    assert(all_room <= b->options.active_max);
    return room < all_room ? room : all_room;
}

static bool rate_allows(const struct backlog_name *name, int64_t now_ns)
{
    return name->rate == 0 || name->rate_at_ns - now_ns <= BURST_NS;
}

static void rate_take(struct backlog_name *name, int64_t now_ns)
{
    if (name->rate == 0) return;
    if (name->rate_at_ns < now_ns) name->rate_at_ns = now_ns;
    name->rate_at_ns += NS_PER_S / name->rate;
    assert(name->rate_at_ns >= now_ns);
}

bool backlog_admits(const struct backlog *b, struct bytes name, int64_t now_ns)
{
    struct backlog_name unknown = {0};
    struct backlog_name *known = name_find(b, name);
    if (b->hold == BACKLOG_ALL || b->hold == BACKLOG_SINGLE) return false; /* in its turn */
    if (known == NULL) {
        limits_of(b, name, &unknown.active_max, &unknown.rate);
        known = &unknown;
    }
    find_served(b, known, name);
    assert(known->picked_n == 0); /* that is of a pick, which is over */
    return known->waiting_n == 0 && room_of(b, known, 0) > 0 && rate_allows(known, now_ns);
}

const char *backlog_problem(const struct backlog *b, struct bytes name, size_t size)
{
    assert(b->lines_n <= b->n); /* who is in line waits */
    assert(b->lines_n <= b->names.n);
    if (b->n >= b->options.waiting_max)
        return "the backlog is full: as many starts wait as may (ingest.backlog_max); try again "
               "later";
    if (b->size + size > b->options.size_max || size > UINT32_MAX)
        return "the backlog is full: the starts that wait are as large as they may be "
               "(ingest.backlog_size_max); try again later";
    const struct backlog_name *known = name_find(b, name);
    if ((known == NULL || known->waiting_n == 0) && b->lines_n >= LINES_N_MAX)
        return "the backlog is full: starts of 10,000 different names wait; try again later";
    return NULL;
}

void backlog_took(struct backlog *b, struct bytes name, int64_t now_ns)
{
    struct backlog_name *known = name_find(b, name);
    if (known != NULL) rate_take(known, now_ns);
}

uint64_t backlog_new_order(const struct backlog *b, int64_t now_ns)
{
    assert(now_ns > 0);
    uint64_t order = (uint64_t)now_ns > b->order_last ? (uint64_t)now_ns : b->order_last + 1;
    assert(order > b->order_last);
    return order;
}

/* It is worth reading some of this name back. A few at a time would make the reads small. */
static bool is_ready(const struct backlog *b, const struct backlog_name *name, int64_t now_ns)
{
    assert(name->waiting_n > 0);
    uint64_t room = room_of(b, name, 0);
    if (room == 0 || !rate_allows(name, now_ns)) return false;
    uint64_t limit = name->active_max > 0 ? name->active_max : b->options.active_max;
    uint64_t wanted = (limit + REFILL_DIVISOR - 1) / REFILL_DIVISOR;
    if (wanted > REFILL_N_MAX) wanted = REFILL_N_MAX;
    if (b->hold != BACKLOG_FREE && wanted > HELD_ACTIVE_N / 4) wanted = HELD_ACTIVE_N / 4;
    if (wanted > name->waiting_n) wanted = name->waiting_n;
    return room >= wanted || name->active_n == 0;
}

static void waiting_of(const struct entry *e, struct queued *out)
{
    assert(e->order > 0);
    assert(e->lsn > 0);
    *out = (struct queued){
        .order = e->order,
        .lsn = e->lsn,
        .offset = e->offset,
        .size = e->size,
        .partition = e->partition,
    };
}

size_t backlog_pick(struct backlog *b, int64_t now_ns, uint64_t upto_lsn, struct queued *out,
                    size_t n_max)
{
    size_t n = 0;
    size_t idle_n = 0; /* names in a row that had none to give */
    if (b->hold == BACKLOG_ALL) return 0;
    if (b->hold == BACKLOG_SINGLE && n_max > 1) n_max = 1;
    for (struct list *l = list_first(&b->lines); l != NULL; l = list_next(&b->lines, l)) {
        struct backlog_name *name = container_of(l, struct backlog_name, line);
        find_served(b, name, name->name);
        assert(name->waiting_n > 0);
        assert(name->first != NONE);
        name->picked_n = 0;
        name->pick_next = name->first;
    }
    while (n < n_max && idle_n < b->lines_n) {
        struct list *line = list_pop_front(&b->lines);
        list_push_back(&b->lines, line);
        struct backlog_name *name = container_of(line, struct backlog_name, line);
        idle_n++;
        if (name->picked_n == 0 && !is_ready(b, name, now_ns)) continue;
        for (size_t turn = 0; turn < TURN_N && n < n_max && name->pick_next != NONE; turn++) {
            const struct entry *e = at(b, name->pick_next);
            if (e->lsn > upto_lsn || room_of(b, name, n) == 0 || !rate_allows(name, now_ns)) break;
            waiting_of(e, &out[n++]);
            name->picked_n++;
            rate_take(name, now_ns);
            name->pick_next = e->next;
            idle_n = 0;
        }
    }
    for (struct list *l = list_first(&b->lines); l != NULL; l = list_next(&b->lines, l)) {
        container_of(l, struct backlog_name, line)->picked_n = 0;
    }
    assert(n <= n_max);
    assert(n <= b->n);
    return n;
}

int64_t backlog_wake_ns(const struct backlog *b, int64_t now_ns)
{
    int64_t wake_ns = INT64_MAX;
    if (b->hold == BACKLOG_ALL || !b->has_rates) return wake_ns;
    for (struct list *l = list_first(&b->lines); l != NULL; l = list_next(&b->lines, l)) {
        const struct backlog_name *name = container_of(l, struct backlog_name, line);
        if (rate_allows(name, now_ns) || room_of(b, name, 0) == 0) continue;
        int64_t at_ns = name->rate_at_ns - BURST_NS;
        assert(at_ns > now_ns); /* else the rate would allow it */
        if (at_ns < wake_ns) wake_ns = at_ns;
    }
    return wake_ns;
}

/* ---- entries ---- */

bool backlog_reserve(struct backlog *b)
{
    struct mem *mem = b->options.mem;
    if (b->free != NONE) return true;
    if (b->blocks_n == b->blocks_max) {
        size_t wanted = b->blocks_max == 0 ? 64 : 2 * b->blocks_max;
        struct entry **blocks = mem_resize(mem, b->blocks, b->blocks_max * sizeof(struct entry *),
                                           wanted * sizeof(struct entry *));
        if (blocks == NULL) return false;
        b->blocks = blocks;
        b->blocks_max = wanted;
    }
    assert(b->blocks_n < b->blocks_max);
    assert(b->blocks_n < UINT32_MAX / BLOCK_N); /* NONE is no number */
    struct entry *block = mem_take(mem, BLOCK_SIZE);
    if (block == NULL) return false;
    uint32_t first = (uint32_t)(b->blocks_n * BLOCK_N);
    for (uint32_t n = 0; n < BLOCK_N; n++) block[n].next = n + 1 < BLOCK_N ? first + n + 1 : NONE;
    b->blocks[b->blocks_n++] = block;
    b->free = first;
    return true;
}

uint64_t backlog_hash(const struct backlog *b, struct bytes key)
{
    return siphash64(b->options.seed, key) & b->options.hash_mask;
}

static uint32_t *slot_of(const struct backlog *b, uint64_t hash)
{
    assert(b->slots_n > 0);
    /* the upper bits too: a test may leave only some */
    return &b->slots[(hash ^ hash >> 32) & (b->slots_n - 1)];
}

/* Without memory the chains only get longer. */
static void slots_grow(struct backlog *b)
{
    if (b->n < b->slots_n) return;
    size_t wanted = b->slots_n == 0 ? BLOCK_N : 2 * b->slots_n;
    uint32_t *slots = b->slots_n == 0 ? mem_take(b->options.mem, wanted * sizeof *slots)
                                      : mem_take_optional(b->options.mem, wanted * sizeof *slots);
    assert(slots != NULL || b->slots_n > 0); /* the first table is small: reserved */
    if (slots == NULL) return;
    mem_give(b->options.mem, b->slots, b->slots_n * sizeof *slots);
    b->slots = slots;
    b->slots_n = wanted;
    memset(slots, 0xff, wanted * sizeof *slots);
    for (uint32_t number = b->age_first; number != NONE; number = at(b, number)->age_next) {
        struct entry *e = at(b, number);
        uint32_t *slot = slot_of(b, e->hash);
        e->chain = *slot;
        *slot = number;
    }
}

static uint32_t find_number(const struct backlog *b, uint64_t hash, uint64_t order)
{
    if (b->slots_n == 0) return NONE;
    uint32_t number = *slot_of(b, hash);
    while (number != NONE) {
        const struct entry *e = at(b, number);
        if (e->hash == hash && e->order == order) return number;
        number = e->chain;
    }
    return NONE;
}

bool backlog_get(const struct backlog *b, uint64_t hash, uint64_t order, struct queued *out)
{
    uint32_t number = find_number(b, hash, order);
    if (number == NONE) return false;
    waiting_of(at(b, number), out);
    return true;
}

bool backlog_find(const struct backlog *b, uint64_t hash, uint64_t after_order, struct queued *out)
{
    const struct entry *best = NULL;
    if (b->n == 0) return false;
    for (uint32_t number = *slot_of(b, hash); number != NONE; number = at(b, number)->chain) {
        const struct entry *e = at(b, number);
        if (e->hash != hash || e->order <= after_order) continue;
        if (best == NULL || e->order < best->order) best = e;
    }
    if (best != NULL) waiting_of(best, out);
    return best != NULL;
}

static void age_link(struct backlog *b, uint32_t number)
{
    struct entry *e = at(b, number);
    assert((b->age_first == NONE) == (b->age_last == NONE));
    e->age_next = NONE;
    e->age_prev = b->age_last;
    if (b->age_last == NONE) {
        b->age_first = number;
    } else {
        const struct entry *last = at(b, b->age_last);
        assert(last->lsn < e->lsn || (last->lsn == e->lsn && last->offset < e->offset));
        at(b, b->age_last)->age_next = number;
    }
    b->age_last = number;
}

static void age_unlink(struct backlog *b, const struct entry *e)
{
    uint32_t *from_prev = e->age_prev == NONE ? &b->age_first : &at(b, e->age_prev)->age_next;
    uint32_t *from_next = e->age_next == NONE ? &b->age_last : &at(b, e->age_next)->age_prev;
    assert(at(b, *from_prev) == e);
    assert(at(b, *from_next) == e);
    *from_prev = e->age_next;
    *from_next = e->age_prev;
}

/* At the end; out of order only during recovery, where carried ones come late: see
 * backlog_sort(). */
static void line_link(struct backlog *b, uint32_t number)
{
    struct entry *e = at(b, number);
    struct backlog_name *name = e->name;
    assert((name->first == NONE) == (name->waiting_n == 0));
    assert((name->last == NONE) == (name->waiting_n == 0));
    e->next = NONE;
    e->prev = name->last;
    if (name->last == NONE) {
        name->first = number;
    } else {
        if (at(b, name->last)->order > e->order) name->is_sorted = false;
        at(b, name->last)->next = number;
    }
    name->last = number;
    if (name->waiting_n++ == 0) {
        list_push_back(&b->lines, &name->line);
        b->lines_n++;
    }
}

static void line_unlink(struct backlog *b, const struct entry *e)
{
    struct backlog_name *name = e->name;
    uint32_t *from_prev = e->prev == NONE ? &name->first : &at(b, e->prev)->next;
    uint32_t *from_next = e->next == NONE ? &name->last : &at(b, e->next)->prev;
    assert(at(b, *from_prev) == e);
    assert(at(b, *from_next) == e);
    *from_prev = e->next;
    *from_next = e->prev;
    assert(name->waiting_n > 0);
    if (--name->waiting_n > 0) return;
    assert(name->first == NONE);
    assert(b->lines_n > 0);
    name->is_sorted = true;
    list_remove(&name->line);
    b->lines_n--;
    name_settle(b, name);
}

void backlog_add(struct backlog *b, uint64_t hash, const struct queued *waiting, struct bytes name)
{
    assert(waiting->order > 0);
    assert(waiting->lsn > 0);
    /* One that comes for the first time has the largest order, and need not be looked for. */
    bool is_known = waiting->order <= b->order_last;
    uint32_t number = is_known ? find_number(b, hash, waiting->order) : NONE;
    bool is_new = number == NONE;
    if (is_new) {
        slots_grow(b);
        number = b->free;
        assert(number != NONE); /* reserved before */
        b->free = at(b, number)->next;
    }
    struct entry *e = at(b, number);
    if (!is_new) {
        age_unlink(b, e);
        assert(b->size >= e->size);
        b->size -= e->size;
    }
    e->lsn = waiting->lsn;
    e->offset = waiting->offset;
    e->size = waiting->size;
    b->size += e->size;
    age_link(b, number);
    if (!is_new) return;
    uint32_t *slot = slot_of(b, hash);
    e->hash = hash;
    e->order = waiting->order;
    e->partition = waiting->partition;
    e->name = name_obtain(b, name);
    e->chain = *slot;
    *slot = number;
    line_link(b, number);
    assert(e->partition < b->options.partitions_n);
    b->partition_n[e->partition]++;
    b->n++;
    b->deferred_n++;
    if (e->order > b->order_last) b->order_last = e->order;
    assert(b->n <= b->deferred_n);
}

static void entry_remove(struct backlog *b, uint32_t number)
{
    struct entry *e = at(b, number);
    uint32_t *chain = slot_of(b, e->hash);
    while (*chain != number) chain = &at(b, *chain)->chain; /* it is in it: at() asserts that */
    *chain = e->chain;
    age_unlink(b, e);
    line_unlink(b, e);
    assert(b->n > 0);
    assert(b->partition_n[e->partition] > 0);
    assert(b->size >= e->size);
    b->partition_n[e->partition]--;
    b->size -= e->size;
    e->next = b->free;
    b->free = number;
    /* the memory of a flood goes with it */
    if (--b->n == 0 && b->blocks_n > 1) blocks_release(b);
}

bool backlog_remove(struct backlog *b, uint64_t hash, uint64_t order)
{
    uint32_t number = find_number(b, hash, order);
    if (number == NONE) return false;
    entry_remove(b, number);
    b->admitted_n++;
    assert(b->admitted_n <= b->deferred_n);
    return true;
}

void backlog_drop(struct backlog *b, uint32_t partition)
{
    assert(partition < b->options.partitions_n);
    uint32_t number = b->partition_n[partition] == 0 ? NONE : b->age_first;
    while (number != NONE) {
        uint32_t next = at(b, number)->age_next;
        if (at(b, number)->partition == partition) entry_remove(b, number);
        number = b->n == 0 ? NONE : next;
    }
    assert(b->partition_n[partition] == 0);
}

/* ---- lines ---- */

/* Merges two chains of `next`, each ended by NONE. */
static uint32_t merge(const struct backlog *b, uint32_t x, uint32_t y)
{
    uint32_t first = NONE;
    uint32_t *to = &first;
    while (x != NONE && y != NONE) {
        assert(at(b, x)->name == at(b, y)->name);
        uint32_t *from = at(b, x)->order < at(b, y)->order ? &x : &y;
        *to = *from;
        *from = at(b, *from)->next;
        to = &at(b, *to)->next;
    }
    *to = x != NONE ? x : y;
    return first;
}

#define SORT_LEVELS_N 32

/* Merge sort over the links: it takes no memory. */
static void line_sort(struct backlog *b, struct backlog_name *name)
{
    uint32_t sorted[SORT_LEVELS_N]; /* chains of 2^level, or NONE */
    uint64_t sorted_n = 0;
    assert(!name->is_sorted);
    for (int n = 0; n < SORT_LEVELS_N; n++) sorted[n] = NONE;
    uint32_t number = name->first;
    while (number != NONE) {
        uint32_t one = number;
        number = at(b, number)->next;
        at(b, one)->next = NONE;
        int level = 0;
        for (; level < SORT_LEVELS_N - 1 && sorted[level] != NONE; level++) {
            one = merge(b, sorted[level], one);
            sorted[level] = NONE;
        }
        sorted[level] = one;
    }
    uint32_t all = NONE;
    for (int n = 0; n < SORT_LEVELS_N; n++) all = merge(b, sorted[n], all);
    name->first = all;
    uint32_t prev = NONE;
    for (; all != NONE; all = at(b, all)->next) {
        at(b, all)->prev = prev;
        prev = all;
        sorted_n++;
    }
    assert(sorted_n == name->waiting_n);
    name->last = prev;
    name->is_sorted = true;
}

void backlog_sort(struct backlog *b)
{
    for (struct list *l = list_first(&b->lines); l != NULL; l = list_next(&b->lines, l)) {
        struct backlog_name *name = container_of(l, struct backlog_name, line);
        if (!name->is_sorted) line_sort(b, name);
    }
}

uint64_t backlog_oldest_order(const struct backlog *b)
{
    uint64_t oldest = 0;
    for (struct list *l = list_first(&b->lines); l != NULL; l = list_next(&b->lines, l)) {
        uint64_t order = at(b, container_of(l, struct backlog_name, line)->first)->order;
        if (oldest == 0 || order < oldest) oldest = order;
    }
    assert((oldest == 0) == (b->n == 0));
    return oldest;
}

/* ---- by age ---- */

uint64_t backlog_lsn(const struct backlog *b)
{
    assert((b->age_first == NONE) == (b->n == 0));
    return b->age_first == NONE ? UINT64_MAX : at(b, b->age_first)->lsn;
}

uint64_t backlog_partition_lsn(const struct backlog *b, uint32_t partition)
{
    assert(partition < b->options.partitions_n);
    if (b->partition_n[partition] == 0) return UINT64_MAX;
    assert(b->partition_n[partition] <= b->n);
    uint32_t number = b->age_first;
    while (at(b, number)->partition != partition) number = at(b, number)->age_next;
    return at(b, number)->lsn;
}

size_t backlog_oldest(const struct backlog *b, uint64_t upto_lsn, struct queued *out, size_t n_max)
{
    size_t n = 0;
    uint32_t number = b->age_first;
    for (; number != NONE && n < n_max; number = at(b, number)->age_next) {
        if (at(b, number)->lsn > upto_lsn) break;
        waiting_of(at(b, number), &out[n++]);
    }
    assert(n <= b->n);
    return n;
}

/* ---- for people ---- */

/* The first of a line whose order is larger. */
/* The first of a line that is listed. */
static uint32_t line_after(const struct backlog *b, const struct backlog_name *name, uint64_t order,
                           bool newest_first)
{
    uint32_t number = newest_first ? name->last : name->first;
    while (number != NONE && newest_first && at(b, number)->order >= order)
        number = at(b, number)->prev;
    while (number != NONE && !newest_first && at(b, number)->order <= order)
        number = at(b, number)->next;
    return number;
}

uint64_t backlog_last_order(const struct backlog *b) { return b->order_last; }

static bool is_listed_before(const struct backlog *b, uint32_t x, uint32_t y, bool newest_first)
{
    return newest_first ? at(b, x)->order > at(b, y)->order : at(b, x)->order < at(b, y)->order;
}

/* The next to be listed at the front: below `where` something may come before it. */
static void sink(const struct backlog *b, uint32_t *heap, size_t heap_n, size_t where,
                 bool newest_first)
{
    assert(where < heap_n || heap_n == 0);
    for (;;) {
        size_t next = where;
        for (size_t child = 2 * where + 1; child <= 2 * where + 2 && child < heap_n; child++) {
            if (is_listed_before(b, heap[child], heap[next], newest_first)) next = child;
        }
        if (next == where) return;
        uint32_t number = heap[where];
        heap[where] = heap[next];
        heap[next] = number;
        where = next;
    }
}

enum status backlog_list(const struct backlog *b, uint64_t after_order, bool newest_first,
                         struct bytes name, struct queued *out, size_t n_max, size_t *n)
{
    size_t heap_n = 0;
    size_t heap_size = (b->lines_n + 1) * sizeof(uint32_t);
    uint32_t *heap = mem_take(b->options.mem, heap_size); /* the next of each line */
    if (heap == NULL) return E_NOMEM;
    for (struct list *l = list_first(&b->lines); l != NULL; l = list_next(&b->lines, l)) {
        const struct backlog_name *line = container_of(l, struct backlog_name, line);
        if (name.len > 0 && !bytes_equal(name, line->name)) continue;
        uint32_t number = line_after(b, line, after_order, newest_first);
        if (number != NONE) heap[heap_n++] = number;
    }
    assert(heap_n <= b->lines_n);
    for (size_t where = heap_n / 2; where-- > 0;) sink(b, heap, heap_n, where, newest_first);
    size_t found_n = 0;
    while (heap_n > 0 && found_n < n_max) {
        const struct entry *e = at(b, heap[0]);
        uint32_t next = newest_first ? e->prev : e->next;
        waiting_of(e, &out[found_n++]);
        heap[0] = next != NONE ? next : heap[--heap_n];
        sink(b, heap, heap_n, 0, newest_first);
    }
    assert(found_n <= b->n);
    mem_give(b->options.mem, heap, heap_size);
    *n = found_n;
    return OK;
}

static void name_view(const struct backlog *b, const struct backlog_name *name,
                      struct backlog_name_view *out)
{
    assert((name->first == NONE) == (name->waiting_n == 0));
    *out = (struct backlog_name_view){
        .name = name->name,
        .active_n = name->active_n,
        .waiting_n = name->waiting_n,
        .oldest_order = name->first == NONE ? 0 : at(b, name->first)->order,
    };
}

bool backlog_name(const struct backlog *b, struct bytes name, struct backlog_name_view *out)
{
    const struct backlog_name *known = name_find(b, name);
    if (known != NULL) name_view(b, known, out);
    return known != NULL;
}

static bool comes_before(const struct backlog_name *x, const struct backlog_name_view *y)
{
    if (x->waiting_n != y->waiting_n) return x->waiting_n > y->waiting_n;
    return x->active_n > y->active_n;
}

size_t backlog_names(const struct backlog *b, struct backlog_name_view *out, size_t n_max)
{
    size_t n = 0;
    for (struct list *l = list_first(&b->all_names); l != NULL; l = list_next(&b->all_names, l)) {
        const struct backlog_name *name = container_of(l, struct backlog_name, all);
        if (name->active_n == 0 && name->waiting_n == 0) continue;
        size_t where = n;
        while (where > 0 && comes_before(name, &out[where - 1])) where--;
        if (where == n_max) continue;
        size_t moved = (n < n_max ? n : n_max - 1) - where;
        memmove(&out[where + 1], &out[where], moved * sizeof *out);
        name_view(b, name, &out[where]);
        if (n < n_max) n++;
    }
    assert(n <= n_max);
    assert(n <= b->names.n);
    return n;
}

/* ---- invariants ---- */

uint64_t backlog_digest(const struct backlog *b, uint32_t partition)
{
    uint64_t digest = 0;
    assert(partition < b->options.partitions_n);
    for (uint32_t number = b->age_first; number != NONE; number = at(b, number)->age_next) {
        const struct entry *e = at(b, number);
        if (e->partition != partition) continue;
        uint64_t fields[4] = {e->order, e->lsn, e->offset, e->size};
        digest += bytes_hash(bytes_make(fields, sizeof fields)) ^ bytes_hash(e->name->name);
    }
    return digest;
}

static uint64_t check_line(const struct backlog *b, const struct backlog_name *name)
{
    uint64_t n = 0;
    uint32_t prev = NONE;
    for (uint32_t number = name->first; number != NONE; number = at(b, number)->next) {
        const struct entry *e = at(b, number);
        assert(e->name == name);
        assert(e->prev == prev);
        assert(prev == NONE || !name->is_sorted || at(b, prev)->order <= e->order);
        assert(e->order <= b->order_last);
        assert(find_number(b, e->hash, e->order) == number);
        prev = number;
        n++;
    }
    assert(prev == name->last);
    assert(n == name->waiting_n);
    assert((n > 0) == list_is_linked(&name->line));
    return n;
}

void backlog_check(const struct backlog *b)
{
    uint64_t waiting_n = 0;
    uint64_t active_n = 0;
    uint64_t size = 0;
    uint64_t of_partitions_n = 0;
    size_t lines_n = 0;
    for (struct list *l = list_first(&b->all_names); l != NULL; l = list_next(&b->all_names, l)) {
        const struct backlog_name *name = container_of(l, struct backlog_name, all);
        waiting_n += check_line(b, name);
        active_n += name->active_n;
        if (name->waiting_n > 0) lines_n++;
    }
    assert(waiting_n == b->n);
    assert(lines_n == b->lines_n);
    for (uint32_t p = 0; p < b->options.partitions_n; p++) of_partitions_n += b->partition_n[p];
    assert(of_partitions_n == b->n);
    assert(active_n == b->active_n);
    uint64_t n = 0;
    for (uint32_t number = b->age_first; number != NONE; number = at(b, number)->age_next) {
        size += at(b, number)->size;
        n++;
    }
    assert(n == b->n);
    assert(size == b->size);
}

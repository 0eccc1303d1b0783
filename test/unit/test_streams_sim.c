/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and queues under a random load, with crashes of the process and of the power and with
 * calls of the disk that fail, against a model that knows what was acknowledged. SEEDS and SEED in
 * the environment choose how many and which.
 *
 * What must hold, whatever happens:
 *   - a message that was acknowledged is at its offset with its value, for ever;
 *   - one that was not is there once or not at all, and of one append all or none;
 *   - a group stands at its last acknowledged checkpoint, or at one that was on its way;
 *   - a message of the queue has one consumer at a time, delivery counts never go back, and what
 *     was completed never comes again;
 *   - in the end every message was completed or is a dead letter, and none is both.
 */
#include "base/clock.h"
#include "base/log.h"
#include "stream/check.h"
#include "test/lib/stream_world.h"
#include "test/lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#define PARTITIONS_N 3u
#define MESSAGES_MAX 3000u
#define CALLS_N 12u
#define BATCH_MAX 5u
#define STEPS_N 300u
#define LOCK_MS 5000

enum fate { NEVER_SENT, UNKNOWN, KNOWN };

struct message {
    enum fate fate;
    uint32_t append; /* which append it was of */
    bool is_seen;    /* since the last recovery */
    bool is_completed;
    uint32_t endings_n; /* complete and dead-letter, asked for and not refused */
    bool is_letter;
    int64_t locked_until_ns; /* by what was acknowledged; 0 = not */
    uint32_t delivery;
    uint32_t partition;
    uint64_t offset; /* KNOWN, or seen */
};

struct held {
    struct stream_token token;
    uint32_t message;
};

struct ask {
    struct stream_call call;
    bool is_busy;
    struct stream_append items[BATCH_MAX];
    char values[BATCH_MAX][40];
    char keys[BATCH_MAX][8];
    uint32_t first; /* message */
    uint32_t n;
    uint32_t message; /* of a lock */
    uint64_t offset;
};

struct model {
    struct stream_world w;
    uint64_t seed;
    struct rng rng;
    struct message messages[MESSAGES_MAX];
    uint32_t messages_n;
    uint32_t appends_n;
    struct ask asks[CALLS_N];
    struct held held[MESSAGES_MAX];
    uint32_t held_n;
    uint64_t position;     /* of the group in partition 0: acknowledged */
    uint64_t position_max; /* on its way */
};

static struct model m;

static uint32_t number_of(struct bytes value)
{
    char text[64];

    EXPECT(value.len < sizeof text);
    memcpy(text, value.ptr, value.len);
    text[value.len] = '\0';
    unsigned number = MESSAGES_MAX;
    EXPECT(sscanf(text, "{\"n\":%u", &number) == 1);
    EXPECT(number < m.messages_n);
    return number;
}

/* ---- asking ---- */

static void ask_begin(struct ask *ask, enum stream_request_kind kind)
{
    stream_call_init(&ask->call, kind, "s");
    ask->is_busy = true;
}

static void ask_append(struct ask *ask)
{
    if (m.messages_n + BATCH_MAX > MESSAGES_MAX) return;
    ask_begin(ask, STREAM_REQUEST_APPEND);
    ask->n = 1 + (uint32_t)rng_below(&m.rng, BATCH_MAX);
    ask->first = m.messages_n;
    for (uint32_t i = 0; i < ask->n; i++) {
        uint32_t number = m.messages_n++;
        (void)snprintf(ask->values[i], sizeof ask->values[i], "{\"n\":%u,\"pad\":\"%.*s\"}", number,
                       (int)rng_below(&m.rng, 15), "...............");
        (void)snprintf(ask->keys[i], sizeof ask->keys[i], "k%u", (unsigned)rng_below(&m.rng, 9));
        ask->items[i] = (struct stream_append){
            .has_key = rng_chance(&m.rng, 700),
            .value = bytes_of_text(ask->values[i]),
            .partition = -1,
        };
        if (ask->items[i].has_key) ask->items[i].key = bytes_of_text(ask->keys[i]);
        m.messages[number] = (struct message){.fate = UNKNOWN, .append = m.appends_n};
    }
    m.appends_n++;
    ask->call.request.append.items = ask->items;
    ask->call.request.append.n = ask->n;
}

static void ask_lock(struct ask *ask)
{
    if (m.held_n == 0) return;
    uint64_t at = rng_below(&m.rng, m.held_n);
    struct held held = m.held[at];
    uint64_t dice = rng_below(&m.rng, 100);
    enum stream_request_kind kind = STREAM_REQUEST_COMPLETE;
    if (dice < 30) kind = STREAM_REQUEST_ABANDON;
    if (dice < 12) kind = STREAM_REQUEST_RENEW;
    if (dice < 6) kind = STREAM_REQUEST_DEAD_LETTER;
    ask_begin(ask, kind);
    ask->message = held.message;
    ask->call.request.lock.token = held.token;
    ask->call.request.lock.lock_ms = kind == STREAM_REQUEST_RENEW ? LOCK_MS : 0;
    m.held[at] = m.held[--m.held_n];
    if (kind == STREAM_REQUEST_COMPLETE || kind == STREAM_REQUEST_DEAD_LETTER) {
        m.messages[held.message].endings_n++;
    }
    /* From now on it may be somebody else's. */
    if (kind == STREAM_REQUEST_ABANDON) m.messages[held.message].locked_until_ns = 0;
}

static void ask_something(struct ask *ask)
{
    uint64_t dice = rng_below(&m.rng, 100);

    if (dice < 40) {
        ask_append(ask);
    } else if (dice < 60) {
        ask_begin(ask, STREAM_REQUEST_RECEIVE);
        ask->call.request.receive.limit = 1 + (uint32_t)rng_below(&m.rng, 4);
        ask->call.request.receive.lock_ms = LOCK_MS;
        ask->call.request.receive.wait_ms = rng_chance(&m.rng, 300) ? 2000 : 0;
    } else if (dice < 85) {
        ask_lock(ask);
    } else if (dice < 92) {
        ask_begin(ask, STREAM_REQUEST_CHECKPOINT);
        ask->call.request.read.group = BYTES_LITERAL("g");
        ask->offset = m.position + rng_below(&m.rng, 3);
        if (ask->offset > m.position_max) m.position_max = ask->offset;
        ask->call.request.read.offset = ask->offset;
    } else {
        ask_begin(ask, STREAM_REQUEST_READ);
        ask->call.request.read.partition = (uint32_t)rng_below(&m.rng, PARTITIONS_N);
        ask->call.request.read.from_kind = STREAM_FROM_FIRST;
        ask->call.request.read.limit = 1 + (uint32_t)rng_below(&m.rng, 50);
        ask->call.request.read.of = (uint32_t)rng_below(&m.rng, 3);
    }
    if (ask->is_busy && !stream_call_post(&m.w, &ask->call)) {
        /* Refused: as if it had never been asked. */
        ask->call.request.status = E_UNAVAILABLE;
        ask->call.is_done = true;
    }
}

/* ---- what is answered ---- */

static void on_append(struct ask *ask)
{
    if (ask->call.request.status == E_CLOSED) return; /* nobody knows */
    for (uint32_t i = 0; i < ask->n; i++) {
        struct message *message = &m.messages[ask->first + i];
        message->fate = NEVER_SENT;
        if (ask->call.request.status != OK) continue;
        message->fate = KNOWN;
        message->partition = ask->items[i].at_partition;
        message->offset = ask->items[i].at_offset;
    }
}

static void on_receive(struct ask *ask)
{
    struct stream_delivery delivery;
    struct reader at = reader_make(buffer_view(&ask->call.request.answer));

    if (ask->call.request.status != OK) return;
    while (stream_answer_next_delivery(&at, &delivery)) {
        uint32_t number = number_of(delivery.message.value);
        struct message *message = &m.messages[number];
        EXPECT(message->fate != NEVER_SENT);
        EXPECT(!message->is_completed);
        EXPECT(!message->is_letter);
        EXPECT(delivery.delivery > message->delivery);
        /* Whoever had it was late, gave it back, or may have completed it unheard. */
        EXPECT(message->locked_until_ns <= m.w.wall_ns);
        message->delivery = delivery.delivery;
        message->locked_until_ns = delivery.until_ns;
        if (m.held_n < MESSAGES_MAX) m.held[m.held_n++] = (struct held){delivery.token, number};
    }
}

static void on_lock(struct ask *ask)
{
    struct message *message = &m.messages[ask->message];

    bool is_ending = ask->call.request.kind == STREAM_REQUEST_COMPLETE ||
                     ask->call.request.kind == STREAM_REQUEST_DEAD_LETTER;
    if (ask->call.request.status == E_STALE && is_ending) {
        message->endings_n--;
        return;
    }
    if (ask->call.request.status != OK) return;
    EXPECT(!message->is_completed);
    EXPECT(!message->is_letter);
    enum stream_request_kind kind = ask->call.request.kind;
    if (kind == STREAM_REQUEST_COMPLETE) message->is_completed = true;
    if (kind == STREAM_REQUEST_DEAD_LETTER) message->is_letter = true;
    if (kind == STREAM_REQUEST_RENEW) {
        message->locked_until_ns = ask->call.request.lock.until_ns;
    }
}

static void on_answer(struct ask *ask)
{
    enum status status = ask->call.request.status;
    enum stream_request_kind kind = ask->call.request.kind;

    if (kind == STREAM_REQUEST_APPEND) on_append(ask);
    if (kind == STREAM_REQUEST_RECEIVE) on_receive(ask);
    if (kind == STREAM_REQUEST_COMPLETE || kind == STREAM_REQUEST_ABANDON ||
        kind == STREAM_REQUEST_RENEW || kind == STREAM_REQUEST_DEAD_LETTER) {
        on_lock(ask);
    }
    if (kind == STREAM_REQUEST_CHECKPOINT && status == OK) {
        EXPECT(ask->call.request.position >= m.position);
        m.position = ask->call.request.position;
    }
    EXPECT(status != E_CORRUPT);
    stream_call_release(&ask->call);
    ask->is_busy = false;
}

/* In the order of the answers. */
static void collect(void)
{
    for (;;) {
        struct ask *next = NULL;
        for (uint32_t i = 0; i < CALLS_N; i++) {
            struct ask *ask = &m.asks[i];
            if (!ask->is_busy || !ask->call.is_done) continue;
            if (next == NULL || ask->call.order < next->call.order) next = ask;
        }
        if (next == NULL) return;
        on_answer(next);
    }
}

/* ---- looking at everything ---- */

static void check_messages(void)
{
    uint64_t append_seen_n[MESSAGES_MAX] = {0};
    uint64_t append_n[MESSAGES_MAX] = {0};

    for (uint32_t i = 0; i < m.messages_n; i++) m.messages[i].is_seen = false;
    for (uint32_t p = 0; p < PARTITIONS_N; p++) {
        uint64_t from = 0;
        for (bool is_end = false; !is_end;) {
            struct stream_call call;
            struct stream_message message;
            stream_call_init(&call, STREAM_REQUEST_READ, "s");
            call.request.read.partition = p;
            call.request.read.offset = from;
            EXPECT_STATUS(OK, stream_call_run(&m.w, &call));
            struct reader at = reader_make(buffer_view(&call.request.answer));
            while (stream_answer_next(&at, &message)) {
                struct message *known = &m.messages[number_of(message.value)];
                EXPECT(message.offset == from++);
                EXPECT(!known->is_seen);
                EXPECT(known->fate != NEVER_SENT);
                if (known->fate == KNOWN) {
                    EXPECT_EQ(known->partition, p);
                    EXPECT_EQ(known->offset, message.offset);
                }
                known->is_seen = true;
                known->partition = p;
                known->offset = message.offset;
            }
            is_end = call.request.items_n == 0;
            stream_call_release(&call);
        }
    }
    for (uint32_t i = 0; i < m.messages_n; i++) {
        struct message *message = &m.messages[i];
        EXPECT(message->fate != KNOWN || message->is_seen);
        append_n[message->append]++;
        if (message->is_seen) append_seen_n[message->append]++;
    }
    for (uint32_t i = 0; i < m.appends_n; i++) {
        EXPECT(append_seen_n[i] == 0 || append_seen_n[i] == append_n[i]);
    }
    /* Nothing comes to light later. */
    for (uint32_t i = 0; i < m.messages_n; i++) {
        m.messages[i].fate = m.messages[i].is_seen ? KNOWN : NEVER_SENT;
    }
}

static void check_group(void)
{
    struct stream_call call;

    stream_call_init(&call, STREAM_REQUEST_GROUP_READ, "s");
    call.request.read.group = BYTES_LITERAL("g");
    EXPECT_STATUS(OK, stream_call_run(&m.w, &call));
    EXPECT(call.request.position >= m.position);
    EXPECT(call.request.position <= m.position_max);
    m.position = m.position_max = call.request.position;
    stream_call_release(&call);
}

/* Letters: each of a message that nobody completed, and each once. */
static void check_letters(bool is_end)
{
    uint64_t after = 0;
    bool has_after = false;
    bool is_there[MESSAGES_MAX] = {0};

    for (bool has_more = true; has_more;) {
        struct stream_call call;
        struct stream_message message;
        struct stream_letter_content letter;
        struct bytes name;
        stream_call_init(&call, STREAM_REQUEST_LETTERS, "");
        call.request.letter.id = after;
        call.request.letter.has_after = has_after;
        call.request.letter.limit = 7;
        EXPECT_STATUS(OK, stream_call_run(&m.w, &call));
        struct reader at = reader_make(buffer_view(&call.request.answer));
        while (stream_answer_next_letter(&at, &name, &message)) {
            EXPECT(stream_letter_read(message.value, &letter));
            uint32_t number = number_of(letter.value);
            EXPECT(!is_there[number]);
            EXPECT(!m.messages[number].is_completed);
            is_there[number] = true;
            after = letter.id;
            has_after = true;
        }
        has_more = call.request.has_more;
        stream_call_release(&call);
    }
    for (uint32_t i = 0; i < m.messages_n; i++) {
        if (m.messages[i].is_letter) EXPECT(is_there[i]);
        m.messages[i].is_letter = is_there[i];
        if (is_end && m.messages[i].is_seen) {
            EXPECT(m.messages[i].is_completed || m.messages[i].is_letter ||
                   m.messages[i].endings_n > 0);
        }
    }
}

/* ---- faults ---- */

static void recover(void)
{
    for (int tries = 0;; tries++) {
        enum status status = stream_world_open(&m.w);
        if (status == OK) break;
        /* The fault that was planned may come while recovering, and then the process is lost once
         * more. Anything else is a bug. */
        test_note("recovery: %s", m.w.damage);
        EXPECT(tries < 3);
        EXPECT(status == E_IO || status == E_NOSPACE);
        m.w.s = NULL;
        stream_world_crash(&m.w, rng_chance(&m.rng, 500));
    }
}

static void on_damage(void *user, enum streams_part part, const char *what)
{
    (void)user;
    test_note("SEED=%llu, part %d: %s", (unsigned long long)m.seed, (int)part, what);
}

/* What a crash leaves is no damage, whenever it came. */
static void expect_undamaged(void)
{
    struct streams_report report;

    EXPECT_STATUS(OK, streams_check(m.w.disk, &m.w.mem, on_damage, NULL, &report));
}

static void crash(void)
{
    bool is_power = rng_chance(&m.rng, 500);

    stream_world_crash(&m.w, is_power);
    expect_undamaged();
    collect(); /* E_CLOSED */
    for (uint32_t i = 0; i < CALLS_N; i++) EXPECT(!m.asks[i].is_busy);
    if (rng_chance(&m.rng, 300)) {
        struct store_fault_plan plan = {
            .fault = rng_chance(&m.rng, 500) ? FAULT_CRASH : FAULT_TEAR,
            .on = FAULT_ON_ANY,
            .at = 1 + rng_below(&m.rng, 60),
            .seed = rng_u64(&m.rng),
        };
        if (plan.fault == FAULT_TEAR) plan.on = FAULT_ON_WRITE;
        store_fault_plan(m.w.disk, &plan);
    }
    recover();
}

static void plan_fault(void)
{
    static const enum store_fault faults[] = {FAULT_FAIL, FAULT_NOSPACE, FAULT_TEAR, FAULT_CRASH,
                                              FAULT_CRASH_AFTER};
    struct store_fault_plan plan = {
        .fault = faults[rng_below(&m.rng, 5)],
        .on = FAULT_ON_ANY,
        .at = 1 + rng_below(&m.rng, 40),
        .seed = rng_u64(&m.rng),
    };

    if (plan.fault == FAULT_TEAR || plan.fault == FAULT_NOSPACE) plan.on = FAULT_ON_WRITE;
    store_fault_plan(m.w.disk, &plan);
}

/* ---- one seed ---- */

static void make_stream(void)
{
    struct stream_call call;

    stream_call_init(&call, STREAM_REQUEST_SET, "s");
    call.request.set.settings.partitions_n = PARTITIONS_N;
    call.request.set.settings.deliveries_max = 4;
    call.request.set.mask = STREAM_SET_PARTITIONS | STREAM_SET_DELIVERIES;
    EXPECT_STATUS(OK, stream_call_run(&m.w, &call));
    stream_call_release(&call);
}

static void settle(void)
{
    store_fault_plan(m.w.disk, &(struct store_fault_plan){0});
    for (int i = 0; i < 3; i++) {
        if (m.w.is_fatal || store_fault_is_crashed(m.w.disk)) crash();
        store_fault_plan(m.w.disk, &(struct store_fault_plan){0});
        stream_world_advance(&m.w, 3000); /* those that wait give up */
        collect();
    }
    if (m.w.is_fatal || m.w.s == NULL) crash();
    for (uint32_t i = 0; i < CALLS_N; i++) EXPECT(!m.asks[i].is_busy);
}

/* Until nothing is left in the queue. */
static void drain(void)
{
    for (int idle_n = 0; idle_n < 3;) {
        struct ask *ask = &m.asks[0];
        ask_begin(ask, STREAM_REQUEST_RECEIVE);
        ask->call.request.receive.limit = 50;
        ask->call.request.receive.lock_ms = LOCK_MS;
        EXPECT(stream_call_post(&m.w, &ask->call));
        stream_world_run(&m.w);
        EXPECT(ask->call.is_done);
        idle_n = ask->call.request.items_n == 0 ? idle_n + 1 : 0;
        m.held_n = 0;
        on_answer(ask);
        while (m.held_n > 0) {
            struct held held = m.held[--m.held_n];
            ask_begin(ask, STREAM_REQUEST_COMPLETE);
            ask->message = held.message;
            ask->call.request.lock.token = held.token;
            EXPECT_STATUS(OK, stream_call_run(&m.w, &ask->call));
            on_answer(ask);
        }
        stream_world_advance(&m.w, 2 * LOCK_MS);
    }
}

static void run_seed(uint64_t seed)
{
    test_note("SEED=%llu", (unsigned long long)seed);
    memset(&m, 0, sizeof m);
    m.seed = seed;
    rng_init(&m.rng, seed * 2 + 1);
    stream_world_init(&m.w, seed);
    EXPECT_STATUS(OK, stream_world_open(&m.w));
    make_stream();
    uint32_t crash_per_mille = rng_chance(&m.rng, 200) ? 0 : (uint32_t)rng_below(&m.rng, 30);
    for (uint32_t i = 0; i < STEPS_N; i++) {
        struct ask *ask = &m.asks[rng_below(&m.rng, CALLS_N)];
        if (!ask->is_busy) ask_something(ask);
        for (uint64_t n = rng_below(&m.rng, 6); n > 0; n--) (void)stream_world_step(&m.w);
        if (rng_chance(&m.rng, 50)) m.w.wall_ns += (int64_t)rng_below(&m.rng, 3000) * NS_PER_MS;
        collect();
        if (crash_per_mille > 0 && rng_chance(&m.rng, 10)) plan_fault();
        bool is_lost = m.w.is_fatal || store_fault_is_crashed(m.w.disk);
        if (!is_lost && !rng_chance(&m.rng, crash_per_mille)) continue;
        crash();
        if (rng_chance(&m.rng, 500)) continue;
        settle();
        check_messages();
        check_group();
        check_letters(false);
    }
    settle();
    check_messages();
    check_group();
    drain();
    check_letters(true);
    uint64_t before;
    uint64_t after;
    EXPECT_STATUS(OK, streams_digest(m.w.s, &before));
    stream_world_crash(&m.w, true);
    expect_undamaged();
    EXPECT_STATUS(OK, stream_world_open(&m.w));
    EXPECT_STATUS(OK, streams_digest(m.w.s, &after));
    EXPECT(before == after);
    stream_world_release(&m.w);
}

TEST(streams_keep_their_word_under_any_load_and_crash)
{
    const char *seeds = getenv("SEEDS");
    const char *seed = getenv("SEED");

    log_set_level((enum log_level)(LOG_ERROR + 1)); /* disks are full and broken on purpose */
    if (seed != NULL) {
        run_seed(strtoull(seed, NULL, 10));
        return;
    }
    uint64_t n = seeds == NULL ? 150 : strtoull(seeds, NULL, 10);
    for (uint64_t i = 1; i <= n; i++) run_seed(i);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "test/torture/client.h"

#include "base/assert.h"
#include "base/clock.h"
#include "test/lib/test.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define WINDOW_N 32u   /* changes under way at once */
#define LIVE_MAX 1500u /* instances that may exist; no new ones beyond */
#define LIVE_KEPT 150u /* proven ones left after a heal */
#define STARTS_PER_LIFE 200u
#define HEAL_MS 60000
#define LOG_SHOWN 4000

static const char *const verb_names[] = {
    [VERB_START] = "start", [VERB_RAISE] = "raise", [VERB_TERMINATE] = "terminate",
    [VERB_PURGE] = "purge", [VERB_WAIT] = "wait",   [VERB_HISTORY] = "history",
    [VERB_LIST] = "list",
};

/* Which programs, how often, and how large: n and x of their input. */
static const struct kind {
    enum program program;
    uint32_t weight;
    int64_t n_least, n_most;
    int64_t x_least, x_most;
    uint32_t size_most;
} kinds[] = {
    {PROGRAM_sequence, 20, 1, 4, 1, 1000, 0},  {PROGRAM_fan, 12, 1, 6, 1, 1000, 0},
    {PROGRAM_collect, 14, 1, 4, 0, 0, 0},      {PROGRAM_collect, 4, ENDLESS_N, ENDLESS_N, 0, 0, 0},
    {PROGRAM_collect_loop, 14, 2, 5, 1, 2, 0}, {PROGRAM_timers, 8, 1, 2, 1, 150, 0},
    {PROGRAM_family, 6, 1, 2, 1, 1, 0},        {PROGRAM_crowd, 5, 1, 3, 1, 1000, 0},
    {PROGRAM_loop, 8, 1, 4, 1, 1000, 0},       {PROGRAM_caught, 3, 1, 9, 0, 0, 0},
    {PROGRAM_uncaught, 3, 1, 9, 0, 0, 0},      {PROGRAM_bereaved, 3, 1, 9, 0, 0, 0},
    {PROGRAM_self, 5, 1, 3, 1, 1000, 0},       {PROGRAM_echo, 8, 1, 9, 1, 9, 40000},
};
#define KINDS_N (sizeof kinds / sizeof kinds[0])

/* A failed test leaves its client behind: found here, it is not reported as a leak beside the
 * failure. */
static struct client *clients;

struct client *client_new(uint64_t seed)
{
    struct client *c = calloc(1, sizeof *c);
    assert(c != NULL);
    c->next = clients;
    clients = c;
    ledger_init(&c->ledger);
    rng_init(&c->rng, seed);
    return c;
}

void client_free(struct client *c)
{
    assert(clients == c);
    clients = c->next;
    ledger_release(&c->ledger);
    free(c->live);
    free(c);
}

/* ---- trouble ---- */

static void show_log(const char *directory)
{
    char path[PATH_MAX];
    static char text[LOG_SHOWN + 1];

    cage_log_path(directory, path);
    FILE *stream = fopen(path, "r");
    if (stream == NULL) return;
    if (fseek(stream, -LOG_SHOWN, SEEK_END) != 0) rewind(stream);
    size_t len = fread(text, 1, LOG_SHOWN, stream);
    text[len] = '\0';
    (void)fclose(stream);
    printf("# the end of the victim's log:\n");
    for (char *line = text, *end; *line != '\0'; line = end) {
        end = line + strcspn(line, "\n");
        printf("#   %.*s\n", (int)(end - line), line);
        if (*end == '\n') end++;
    }
}

_Noreturn void client_fail(const struct cage_plan *plan, const char *what)
{
    show_log(plan->directory);
    cage_keep();
    test_fail(__FILE__, __LINE__, "%s", what);
}

void client_expect_alive(const struct client *c, const struct cage_plan *plan)
{
    if (!c->cage.has_ended) return;
    client_fail(plan, c->closed[0] != '\0' ? c->closed : "the victim ended by itself");
}

/* ---- commands ---- */

static void slots_clear(struct client *c)
{
    c->slots_free_n = 0;
    for (uint32_t i = SLOTS_N; i > 0; i--) {
        c->slots[i - 1].is_used = false;
        c->slots_free[c->slots_free_n++] = i - 1;
    }
    c->changes_n = c->waits_n = 0;
    for (size_t i = 0; i < c->live_n; i++) c->live[i]->is_busy = c->live[i]->is_waited = false;
}

static bool is_change(enum verb verb)
{
    return verb == VERB_START || verb == VERB_RAISE || verb == VERB_TERMINATE || verb == VERB_PURGE;
}

static void tell(struct client *c, enum verb verb, struct account *a)
{
    assert(c->slots_free_n > 0);
    uint32_t number = c->slots_free[--c->slots_free_n];
    struct slot *slot = &c->slots[number];
    const char *id = a == NULL ? "-" : a->id;
    const char *name = verb_names[verb];
    char words[BRIEF_SIZE];

    *slot = (struct slot){.is_used = true, .verb = verb, .account = a};
    if (is_change(verb)) {
        assert(!a->is_busy);
        a->is_busy = true;
        c->changes_n++;
    }
    switch (verb) {
    case VERB_START:
        ledger_tell_start(a);
        cage_tell(&c->cage, "%u %s %s %s %u %s", number, name, id, program_name(a->program),
                  a->size, a->input);
        return;
    case VERB_RAISE:
        slot->number = ledger_tell_raise(a);
        cage_tell(&c->cage, "%u %s %s %u", number, name, id, slot->number);
        return;
    case VERB_TERMINATE:
        ledger_tell_terminate(a);
        account_last_words(a, words);
        cage_tell(&c->cage, "%u %s %s %s", number, name, id, words);
        return;
    case VERB_PURGE: ledger_tell_purge(a); break;
    case VERB_WAIT:
        a->is_waited = true;
        c->waits_n++;
        break;
    case VERB_HISTORY:
    case VERB_LIST: break;
    }
    cage_tell(&c->cage, "%u %s %s", number, name, id);
}

/* ---- answers ---- */

static enum status status_read(const char *name)
{
#define X(status, text)                                                                            \
    if (strcmp(name, #status) == 0) return status;
    STATUSES(X)
#undef X
    test_fail(__FILE__, __LINE__, "no status: %s", name);
}

static void hear_answer(struct client *c, const struct slot *slot, enum status status, char *rest)
{
    struct ledger *l = &c->ledger;
    struct account *a = slot->account;

    switch (slot->verb) {
    case VERB_START:
        if (status != OK && status != E_EXISTS) c->refused = status;
        ledger_hear_start(l, a, status);
        return;
    case VERB_RAISE: ledger_hear_raise(l, a, slot->number, status); return;
    case VERB_TERMINATE: ledger_hear_terminate(l, a, status); return;
    case VERB_PURGE: ledger_hear_purge(l, a, status); return;
    case VERB_WAIT:
        a->is_waited = false;
        c->waits_n--;
        if (status == OK) ledger_hear_wait(l, a, rest);
        return;
    case VERB_HISTORY:
        if (status == OK)
            ledger_hear_history(l, a, rest);
        else
            test_fail(__FILE__, __LINE__, "%s: no history: %s", a->id, status_name(status));
        return;
    case VERB_LIST: EXPECT_STATUS(OK, status); return;
    }
}

static void hear_line(struct client *c, char *line)
{
    uint64_t number = 0;

    if (line[0] == '!') test_fail(__FILE__, __LINE__, "the victim says: %s", line);
    if (strncmp(line, "closed ", 7) == 0) {
        (void)snprintf(c->closed, sizeof c->closed, "%s", line);
        return;
    }
    if (line[0] == '+') {
        ledger_hear_row(&c->ledger, line + 2);
        return;
    }
    bool is_number = word_number(word_next(&line), &number);
    EXPECT(is_number && number < SLOTS_N && c->slots[number].is_used);
    struct slot slot = c->slots[number];
    c->slots[number].is_used = false;
    c->slots_free[c->slots_free_n++] = (uint32_t)number;
    if (is_change(slot.verb)) {
        slot.account->is_busy = false;
        c->changes_n--;
    }
    enum status status = status_read(word_next(&line));
    hear_answer(c, &slot, status, line);
}

/* One line, when one comes in time. */
static bool hear(struct client *c, int timeout_ms)
{
    char line[VICTIM_LINE_MAX];

    if (!cage_hear(&c->cage, timeout_ms, line)) return false;
    hear_line(c, line);
    return true;
}

/* ---- load ---- */

static void live_add(struct client *c, struct account *a)
{
    if (c->live_n == c->live_size) {
        c->live_size = c->live_size == 0 ? 256 : 2 * c->live_size;
        c->live = realloc(c->live, c->live_size * sizeof(struct account *));
        assert(c->live != NULL);
    }
    c->live[c->live_n++] = a;
}

/* Without those that are known not to be there. */
static void live_sweep(struct client *c)
{
    size_t kept_n = 0;

    for (size_t i = 0; i < c->live_n; i++) {
        struct account *a = c->live[i];
        if (account_may_exist(a) || a->is_busy || a->is_waited) c->live[kept_n++] = a;
    }
    c->live_n = kept_n;
}

static const struct kind *kind_draw(struct rng *rng)
{
    uint64_t total = 0;

    for (size_t i = 0; i < KINDS_N; i++) total += kinds[i].weight;
    uint64_t at = rng_below(rng, total);
    size_t i = 0;
    while (at >= kinds[i].weight) at -= kinds[i++].weight;
    return &kinds[i];
}

static struct account *start_new(struct client *c)
{
    const struct kind *kind = kind_draw(&c->rng);
    enum program program = c->blob_size > 0 ? PROGRAM_echo : kind->program;
    uint32_t size = c->blob_size;
    char id[48], input[32];

    if (size == 0 && kind->size_most > 0) size = (uint32_t)rng_below(&c->rng, kind->size_most);
    (void)snprintf(id, sizeof id, "%s-%llu-%llu", program_name(program),
                   (unsigned long long)c->lives, (unsigned long long)c->starts++);
    (void)snprintf(input, sizeof input, "%lld %lld",
                   (long long)rng_between(&c->rng, kind->n_least, kind->n_most),
                   (long long)rng_between(&c->rng, kind->x_least, kind->x_most));
    struct account *a = ledger_add(&c->ledger, id, program, input, size);
    live_add(c, a);
    tell(c, VERB_START, a);
    return a;
}

static bool may_raise(const struct account *a)
{
    return account_may_exist(a) && account_collects(a) && !a->is_ended && a->raised_n < RAISED_MAX;
}
static bool may_terminate(const struct account *a) { return account_may_exist(a) && !a->is_ended; }
static bool may_purge(const struct account *a) { return account_may_exist(a) && a->is_proven; }
static bool may_start_again(const struct account *a)
{
    return a->start == UNKNOWN && a->purge == NEVER && !a->is_ended && !a->is_waited;
}
static bool may_wait(const struct account *a)
{
    return account_may_exist(a) && !a->is_ended && !a->is_waited;
}

/* A live one that allows it and has no change under way; NULL when a few tries find none. */
static struct account *pick(struct client *c, bool (*allows)(const struct account *))
{
    for (int i = 0; i < 20 && c->live_n > 0; i++) {
        struct account *a = c->live[rng_below(&c->rng, c->live_n)];
        if (!a->is_busy && allows(a)) return a;
    }
    return NULL;
}

static void tell_some(struct client *c)
{
    static const struct {
        uint32_t weight;
        enum verb verb;
        bool (*allows)(const struct account *);
    } choices[] = {
        {20, VERB_RAISE, may_raise}, {4, VERB_TERMINATE, may_terminate},
        {8, VERB_PURGE, may_purge},  {8, VERB_START, may_start_again},
        {20, VERB_WAIT, may_wait},
    };
    uint64_t at = rng_below(&c->rng, 100);
    size_t i = 0;

    while (i < 5 && at >= choices[i].weight) at -= choices[i++].weight;
    if (i == 5) {
        if (c->starts_left == 0 || c->live_n >= LIVE_MAX) return;
        c->starts_left--;
        (void)start_new(c);
        return;
    }
    struct account *a = pick(c, choices[i].allows);
    if (a != NULL && c->slots_free_n > WINDOW_N) tell(c, choices[i].verb, a);
}

void client_begin(struct client *c, const struct cage_plan *plan)
{
    c->lives++;
    c->closed[0] = '\0';
    c->starts_left = STARTS_PER_LIFE;
    live_sweep(c);
    slots_clear(c);
    cage_open(&c->cage, plan);
}

bool client_load(struct client *c, int64_t for_ms)
{
    int64_t end_ns = clock_mono_ns() + for_ms * NS_PER_MS;

    while (!c->cage.has_ended && clock_mono_ns() < end_ns) {
        for (uint32_t i = 0; i < 4 && c->changes_n < WINDOW_N; i++) tell_some(c);
        (void)hear(c, c->changes_n < WINDOW_N ? 0 : 2);
        if (c->starts_left == 0) (void)hear(c, 1);
    }
    return !c->cage.has_ended;
}

int client_end(struct client *c)
{
    while (hear(c, HEAL_MS)) {
    }
    if (!c->cage.has_ended) test_fail(__FILE__, __LINE__, "the victim does not end");
    return cage_close(&c->cage);
}

void client_kill(struct client *c)
{
    cage_signal(&c->cage, SIGKILL);
    cage_let_go(&c->cage); /* a tracer that is killed leaves its victim alone */
    (void)client_end(c);
}

/* ---- healing ---- */

static uint32_t unanswered_n(const struct client *c) { return SLOTS_N - c->slots_free_n; }

/* Waits until all is answered but the waits. */
static void settle(struct client *c, const struct cage_plan *plan, int64_t end_ns)
{
    while (unanswered_n(c) > c->waits_n) {
        if (clock_mono_ns() > end_ns) client_fail(plan, "the victim does not answer");
        if (!hear(c, 100)) client_expect_alive(c, plan);
    }
}

/* Gives a live instance what it needs to end. */
static void push_on(struct client *c, struct account *a)
{
    if (a->is_ended || a->is_busy || !account_may_exist(a)) return;
    if (!a->is_waited) tell(c, VERB_WAIT, a);
    if (!account_collects(a) || c->changes_n >= WINDOW_N) return;
    bool has_all = account_is_endless(a) || a->raised_n == RAISED_MAX;
    if (!has_all)
        tell(c, VERB_RAISE, a);
    else if (a->terminate != DONE)
        tell(c, VERB_TERMINATE, a);
}

static bool have_all_ended(const struct client *c)
{
    for (size_t i = 0; i < c->live_n; i++) {
        if (account_may_exist(c->live[i]) && !c->live[i]->is_ended) return false;
    }
    return true;
}

static _Noreturn void fail_stuck(struct client *c, const struct cage_plan *plan)
{
    int shown_n = 0;

    for (size_t i = 0; i < c->live_n && shown_n < 5; i++) {
        const struct account *a = c->live[i];
        if (!account_may_exist(a) || a->is_ended) continue;
        printf("# it does not end: %s with input %s\n", a->id, a->input);
        shown_n++;
    }
    client_fail(plan, "not everything ends");
}

static void end_all(struct client *c, const struct cage_plan *plan, int64_t end_ns)
{
    while (!have_all_ended(c)) {
        if (clock_mono_ns() > end_ns) fail_stuck(c, plan);
        client_expect_alive(c, plan);
        for (size_t i = 0; i < c->live_n; i++) push_on(c, c->live[i]);
        (void)hear(c, 5);
        while (hear(c, 0)) {
        }
    }
    settle(c, plan, end_ns);
}

/* Again when children are still running: nobody waits for those of a terminated parent. */
static void look(struct client *c, const struct cage_plan *plan, int64_t end_ns)
{
    for (;;) {
        ledger_look(&c->ledger);
        tell(c, VERB_LIST, NULL);
        settle(c, plan, end_ns);
        if (c->ledger.unfinished_n == 0) break;
        if (clock_mono_ns() > end_ns) client_fail(plan, "children do not end");
    }
    ledger_looked(&c->ledger);
    live_sweep(c);
}

static void prove_all(struct client *c, const struct cage_plan *plan, int64_t end_ns)
{
    char effects[PATH_MAX];

    cage_effects_path(plan->directory, effects);
    ledger_read_effects(&c->ledger, effects);
    for (size_t i = 0; i < c->live_n; i++) {
        if (c->live[i]->is_proven) continue;
        tell(c, VERB_HISTORY, c->live[i]);
        while (unanswered_n(c) > WINDOW_N && hear(c, 100)) {
        }
        client_expect_alive(c, plan);
    }
    settle(c, plan, end_ns);
}

static void purge_most(struct client *c, const struct cage_plan *plan, int64_t end_ns)
{
    for (size_t n = c->live_n; n > LIVE_KEPT; n--) {
        struct account *a = pick(c, may_purge);
        if (a != NULL) tell(c, VERB_PURGE, a);
        while (c->changes_n >= WINDOW_N && hear(c, 100)) {
        }
        client_expect_alive(c, plan);
    }
    settle(c, plan, end_ns);
    live_sweep(c);
}

void client_heal(struct client *c, const struct cage_plan *plan)
{
    int64_t end_ns = clock_mono_ns() + HEAL_MS * NS_PER_MS;

    client_begin(c, plan);
    end_all(c, plan, end_ns);
    look(c, plan, end_ns);
    struct account *fresh = start_new(c);
    settle(c, plan, end_ns);
    EXPECT_EQ(DONE, fresh->start);
    end_all(c, plan, end_ns);
    EXPECT(fresh->is_ended);
    prove_all(c, plan, end_ns);
    purge_most(c, plan, end_ns);
    if (rng_chance(&c->rng, 500)) {
        client_kill(c);
        return;
    }
    cage_let_go(&c->cage);
    int how = client_end(c);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) client_fail(plan, "the victim does not close");
}

/* ---- for the test programs ---- */

uint64_t torture_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value = 0;

    return text != NULL && word_number(text, &value) ? value : otherwise;
}

void torture_directory(char *out) { (void)snprintf(out, PATH_MAX, "%s/data", test_directory()); }

void client_report(const struct client *c)
{
    const struct ledger *l = &c->ledger;

    printf("# %llu lives; acknowledged: %llu starts, %llu events, %llu terminations, %llu purges; "
           "seen: %llu ends, %llu histories\n",
           (unsigned long long)c->lives, (unsigned long long)l->counts.started,
           (unsigned long long)l->counts.raised, (unsigned long long)l->counts.terminated,
           (unsigned long long)l->counts.purged, (unsigned long long)l->counts.ended,
           (unsigned long long)l->counts.histories);
}

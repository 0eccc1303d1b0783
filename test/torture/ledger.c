/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules are in check_ended() (what an instance may end with), ledger_looked() (what must be
 * there) and ledger_hear_history() (what it must have done); the rest is book-keeping.
 */
#include "test/torture/ledger.h"

#include "base/arena.h"
#include "base/assert.h"
#include "test/lib/test.h"
#include "test/torture/cage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A line of the file of side effects. */
struct effect_line {
    struct map_node node;
    struct list all;
    size_t size;
    char text[];
};

#define VIOLATION(a, ...)                                                                          \
    do {                                                                                           \
        char what_[400];                                                                           \
        (void)snprintf(what_, sizeof what_, __VA_ARGS__);                                          \
        violation(a, __LINE__, what_);                                                             \
    } while (0)

static _Noreturn void violation(const struct account *a, int line, const char *what)
{
    static const char *const names[] = {[NEVER] = "never", [UNKNOWN] = "unknown", [DONE] = "done"};

    printf("# %s: %s %s + %u bytes; start %s, terminate %s, purge %s, events told %llx done %llx\n",
           a->id, program_name(a->program), a->input, a->size, names[a->start], names[a->terminate],
           names[a->purge], (unsigned long long)a->raised_told, (unsigned long long)a->raised_done);
    if (a->is_ended) printf("# it had ended with: %s\n", a->state);
    cage_keep();
    test_fail(__FILE__, line, "%s", what);
}

/* ---- accounts ---- */

void ledger_init(struct ledger *l)
{
    *l = (struct ledger){0};
    mem_init(&l->mem, SIZE_MAX);
    map_init(&l->accounts, &l->mem, 1, 2);
    map_init(&l->effects, &l->mem, 3, 4);
    list_init(&l->all);
    list_init(&l->effect_lines);
}

void ledger_release(struct ledger *l)
{
    struct list *n;

    while ((n = list_pop_front(&l->all)) != NULL) {
        mem_give(&l->mem, container_of(n, struct account, all), sizeof(struct account));
    }
    while ((n = list_pop_front(&l->effect_lines)) != NULL) {
        struct effect_line *e = container_of(n, struct effect_line, all);
        mem_give(&l->mem, e, e->size);
    }
    map_release(&l->accounts);
    map_release(&l->effects);
    mem_release(&l->mem);
}

struct account *ledger_add(struct ledger *l, const char *id, enum program program,
                           const char *input, uint32_t size)
{
    struct account *a = mem_take_zero(&l->mem, sizeof *a);
    assert(a != NULL);
    (void)snprintf(a->id, sizeof a->id, "%s", id);
    (void)snprintf(a->input, sizeof a->input, "%s", input);
    a->program = program;
    a->size = size;
    a->node.key = bytes_of_text(a->id);
    map_insert(&l->accounts, &a->node);
    list_push_back(&l->all, &a->all);
    return a;
}

static struct account *ledger_find(const struct ledger *l, const char *id)
{
    struct map_node *node = map_find(&l->accounts, bytes_of_text(id));

    return node == NULL ? NULL : container_of(node, struct account, node);
}

bool account_may_exist(const struct account *a) { return a->start != NEVER && a->purge != DONE; }

bool account_collects(const struct account *a)
{
    return a->program == PROGRAM_collect || a->program == PROGRAM_collect_loop;
}

bool account_is_endless(const struct account *a)
{
    return account_collects(a) && plan_read(bytes_of_text(a->input)).n >= ENDLESS_N;
}

void account_last_words(const struct account *a, char *out)
{
    (void)snprintf(out, BRIEF_SIZE, "stopped %s", a->id);
}

/* ---- what was told ---- */

void ledger_tell_start(struct account *a)
{
    a->is_retried = a->start != NEVER;
    a->start = UNKNOWN;
}

uint32_t ledger_tell_raise(struct account *a)
{
    assert(a->raised_n < RAISED_MAX);
    a->raised_told |= UINT64_C(1) << a->raised_n;
    return a->raised_n++;
}

void ledger_tell_terminate(struct account *a)
{
    if (a->terminate == NEVER) a->terminate = UNKNOWN;
}

void ledger_tell_purge(struct account *a) { a->purge = UNKNOWN; }

/* ---- what was answered ---- */

/* The engine promises that nothing was done. What it says while it closes promises nothing. */
static bool is_refusal(enum status status) { return status != E_CLOSED && status != E_IO; }

/* An instance that must be there is said not to be. */
static void check_absence(const struct account *a, const char *verb)
{
    if (a->start == DONE && a->purge == NEVER) {
        VIOLATION(a, "%s: its start was acknowledged, and it is not there", verb);
    }
}

void ledger_hear_start(struct ledger *l, struct account *a, enum status status)
{
    if (status == OK || (status == E_EXISTS && a->is_retried)) {
        a->start = DONE;
        l->counts.started++;
    } else if (status == E_EXISTS) {
        VIOLATION(a, "it exists before its first start");
    } else if (is_refusal(status) && !a->is_retried) {
        a->start = NEVER;
    }
}

void ledger_hear_raise(struct ledger *l, struct account *a, uint32_t number, enum status status)
{
    uint64_t bit = UINT64_C(1) << number;

    if (status == OK) {
        a->raised_done |= bit;
        l->counts.raised++;
    } else if (is_refusal(status)) {
        a->raised_told &= ~bit;
    }
    if (status == E_NOT_FOUND) check_absence(a, "raise");
}

void ledger_hear_terminate(struct ledger *l, struct account *a, enum status status)
{
    if (status == OK) {
        a->terminate = DONE;
        l->counts.terminated++;
    } else if (status == E_NOT_FOUND) {
        check_absence(a, "terminate");
    }
}

void ledger_hear_purge(struct ledger *l, struct account *a, enum status status)
{
    if (status == E_PRECONDITION) VIOLATION(a, "its purge was refused: it has not ended");
    if (status == OK || status == E_NOT_FOUND) {
        a->purge = DONE;
        l->counts.purged++;
    }
}

/* ---- what an instance may end with ---- */

/* The numbers of events, in the order the instance has taken them. */
static void check_events(const struct account *a, const char *output)
{
    struct bytes rest = bytes_of_text(output);
    uint64_t taken = 0;
    int64_t last = -1;
    int64_t number = 0;
    int64_t n = 0;

    for (; number_next(&rest, &number); n++) {
        if (number >= RAISED_MAX) VIOLATION(a, "took an event that nobody raised: %s", output);
        if (number <= last) VIOLATION(a, "took events twice or out of order: %s", output);
        taken |= UINT64_C(1) << number;
        last = number;
    }
    if (n != plan_read(bytes_of_text(a->input)).n) {
        VIOLATION(a, "took another number of events: %s", output);
    }
    if ((taken & ~a->raised_told) != 0)
        VIOLATION(a, "took an event that nobody raised: %s", output);
    uint64_t before_last = (UINT64_C(1) << last) - 1;
    if ((a->raised_done & before_last & ~taken) != 0) {
        VIOLATION(a, "an acknowledged event was lost: %s", output);
    }
}

static void check_output(const struct account *a, const char *status, const char *output)
{
    struct mem mem;
    struct arena arena;
    char wanted[BRIEF_SIZE] = "";

    mem_init(&mem, SIZE_MAX);
    arena_init(&arena, &mem, 4096);
    char *payload = arena_alloc(&arena, a->size + sizeof a->input);
    assert(payload != NULL);
    struct bytes input = bytes_make(payload, payload_fill(payload, a->id, a->input, a->size));
    struct expectation expected = program_expect(a->program, input, &arena);
    if (expected.is_exact) brief(expected.output, wanted);
    arena_release(&arena);
    mem_release(&mem);

    if (strcmp(status, orchestration_status_name(expected.status)) != 0) {
        VIOLATION(a, "ended with %s %s", status, output);
    }
    if (expected.is_exact && strcmp(wanted, output) != 0) {
        VIOLATION(a, "ended with \"%s\" instead of \"%s\"", output, wanted);
    }
    if (account_collects(a)) check_events(a, output);
}

static bool is_ended_status(const char *status)
{
    return strcmp(status, "COMPLETED") == 0 || strcmp(status, "FAILED") == 0 ||
           strcmp(status, "TERMINATED") == 0;
}

/* state: execution, status, output of an instance that has ended. */
static void check_ended(const struct account *a, const char *state)
{
    char copy[sizeof a->state];
    char *at = copy;
    char words[BRIEF_SIZE];

    (void)snprintf(copy, sizeof copy, "%s", state);
    (void)word_next(&at);
    const char *status = word_next(&at);
    if (a->is_ended && strcmp(a->state, state) != 0) VIOLATION(a, "it has changed to: %s", state);
    if (strcmp(status, "TERMINATED") != 0) {
        if (account_is_endless(a)) VIOLATION(a, "ended without termination: %s", state);
        check_output(a, status, at);
        return;
    }
    account_last_words(a, words);
    if (a->terminate == NEVER) VIOLATION(a, "terminated by nobody: %s", state);
    if (strcmp(at, words) != 0) VIOLATION(a, "terminated with another output: %s", state);
}

static void note_ended(struct ledger *l, struct account *a, const char *state)
{
    check_ended(a, state);
    if (!a->is_ended) l->counts.ended++;
    a->is_ended = true;
    (void)snprintf(a->state, sizeof a->state, "%s", state);
}

void ledger_hear_wait(struct ledger *l, struct account *a, const char *state)
{
    if (strcmp(state, "gone") != 0) {
        if (a->start == UNKNOWN) a->start = DONE;
        note_ended(l, a, state);
        return;
    }
    check_absence(a, "wait");
    if (a->start == UNKNOWN) a->start = NEVER;
}

/* ---- a look ---- */

void ledger_look(struct ledger *l)
{
    l->looks++;
    l->unfinished_n = 0;
}

/* Children have no account; they stand or fall with their parent's. */
static void hear_child(struct ledger *l, const char *id, const char *parent_id)
{
    const struct account *parent = ledger_find(l, parent_id);

    if (parent == NULL) test_fail(__FILE__, __LINE__, "%s was started by nobody", id);
    if (parent->start == NEVER) VIOLATION(parent, "it has a child: %s", id);
    if (parent->purge == DONE) VIOLATION(parent, "it was purged, its child is still there: %s", id);
}

void ledger_hear_row(struct ledger *l, char *row)
{
    const char *id = word_next(&row);
    const char *parent = word_next(&row);
    char state[256];

    (void)snprintf(state, sizeof state, "%s", row);
    (void)word_next(&row);
    bool is_ended = is_ended_status(word_next(&row));
    if (!is_ended) l->unfinished_n++;
    if (strcmp(parent, "-") != 0) {
        hear_child(l, id, parent);
        return;
    }
    struct account *a = ledger_find(l, id);
    if (a == NULL) test_fail(__FILE__, __LINE__, "%s was started by nobody", id);
    if (a->look == l->looks) VIOLATION(a, "it is there twice");
    if (a->start == NEVER)
        VIOLATION(a, "its start was refused or lost, and it is there: %s", state);
    if (a->purge == DONE) VIOLATION(a, "it was purged, and it is there: %s", state);
    a->look = l->looks;
    if (is_ended)
        note_ended(l, a, state);
    else if (a->is_ended)
        VIOLATION(a, "it goes on: %s", state);
    else if (a->terminate == DONE)
        VIOLATION(a, "it was terminated, and goes on: %s", state);
}

void ledger_looked(struct ledger *l)
{
    for (struct list *n = list_first(&l->all); n != NULL; n = list_next(&l->all, n)) {
        struct account *a = container_of(n, struct account, all);
        bool is_there = a->look == l->looks;
        if (!is_there) check_absence(a, "list");
        if (a->start == UNKNOWN) a->start = is_there ? DONE : NEVER;
        if (a->purge == UNKNOWN) a->purge = is_there ? NEVER : DONE;
        if (a->terminate == UNKNOWN && is_there && !a->is_ended) a->terminate = NEVER;
    }
}

/* ---- what it has done ---- */

#define STEPS_MAX 128

struct steps {
    int begun[STEPS_MAX]; /* kind of the event that began it; 0 = nothing */
    int ended_n[STEPS_MAX];
    int started_n;
    int completed_n;
};

/* Which kind of event begins what this kind ends; 0 = it ends nothing. */
static int begun_by(int kind)
{
    if (kind == EVENT_TASK_COMPLETED || kind == EVENT_TASK_FAILED) return EVENT_TASK_SCHEDULED;
    if (kind == EVENT_CHILD_COMPLETED || kind == EVENT_CHILD_FAILED) return EVENT_CHILD_CREATED;
    return kind == EVENT_TIMER_FIRED ? EVENT_TIMER_CREATED : 0;
}

static void check_effect(const struct ledger *l, const struct account *a, int task)
{
    char line[160];

    (void)snprintf(line, sizeof line, "%s %.*s %d", a->id, (int)strcspn(a->state, " "), a->state,
                   task);
    if (map_find(&l->effects, bytes_of_text(line)) == NULL) {
        VIOLATION(a, "activity %d has a result, and was never executed", task);
    }
}

static void note_event(const struct ledger *l, const struct account *a, struct steps *s, int kind,
                       int id, int ref)
{
    if (kind == EVENT_EXECUTION_STARTED) s->started_n++;
    if (kind == EVENT_EXECUTION_COMPLETED) s->completed_n++;
    if (kind == EVENT_TASK_SCHEDULED || kind == EVENT_CHILD_CREATED ||
        kind == EVENT_TIMER_CREATED) {
        if (id < 0 || id >= STEPS_MAX || s->begun[id] != 0) VIOLATION(a, "step %d began twice", id);
        s->begun[id] = kind;
    }
    int begun = begun_by(kind);
    if (begun == 0) return;
    if (ref < 0 || ref >= STEPS_MAX || s->begun[ref] != begun) {
        VIOLATION(a, "a result of kind %d for step %d, which did not begin", kind, ref);
    }
    if (++s->ended_n[ref] > 1) VIOLATION(a, "step %d was applied twice", ref);
    if (begun == EVENT_TASK_SCHEDULED) check_effect(l, a, ref);
}

void ledger_hear_history(struct ledger *l, struct account *a, char *history)
{
    struct steps steps = {0};
    bool is_terminated = strstr(a->state, " TERMINATED ") != NULL;

    assert(a->is_ended);
    while (*history != '\0') {
        const char *word = word_next(&history);
        int kind = 0, id = 0, ref = 0;
        int n = sscanf(word, "%d:%d:%d", &kind, &id, &ref);
        if (n != 3) VIOLATION(a, "what is this in its history: %s", word);
        note_event(l, a, &steps, kind, id, ref);
    }
    if (steps.started_n != 1) VIOLATION(a, "it was started %d times", steps.started_n);
    if (!is_terminated && steps.completed_n != 1) {
        VIOLATION(a, "it was completed %d times", steps.completed_n);
    }
    for (int i = 0; i < STEPS_MAX; i++) {
        if (!is_terminated && steps.begun[i] != 0 && steps.ended_n[i] != 1) {
            VIOLATION(a, "it ended although step %d had not", i);
        }
    }
    a->is_proven = true;
    l->counts.histories++;
}

static void add_effect(struct ledger *l, struct bytes line)
{
    if (map_find(&l->effects, line) != NULL) return; /* at least once is the promise */
    struct effect_line *e = mem_take(&l->mem, sizeof *e + line.len);
    assert(e != NULL);
    *e = (struct effect_line){.size = sizeof *e + line.len};
    memcpy(e->text, line.ptr, line.len);
    e->node.key = bytes_make(e->text, line.len);
    map_insert(&l->effects, &e->node);
    list_push_back(&l->effect_lines, &e->all);
}

void ledger_read_effects(struct ledger *l, const char *path)
{
    FILE *stream = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    ssize_t len;

    if (stream == NULL && errno == ENOENT) return; /* no life has come so far */
    assert(stream != NULL);
    int failed = fseek(stream, l->effects_at, SEEK_SET);
    assert(failed == 0);
    while ((len = getline(&line, &size, stream)) > 0 && line[len - 1] == '\n') {
        add_effect(l, bytes_make(line, (size_t)len - 1));
        l->effects_at = ftell(stream);
    }
    free(line);
    (void)fclose(stream);
}

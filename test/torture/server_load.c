/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_load.h: the calls. Each is begun, and its end notes what it was answered.
 */
#include "test/torture/server_load.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <stdio.h>
#include <stdlib.h>

#define WAIT_MS 3000
#define HEAL_MS 30000
#define CONNECT_AGAIN_NS (20 * NS_PER_MS)
#define KEPT_N 60u      /* instances that a heal leaves */
#define CHANGES_MAX 24u /* under way at once; the rest of the ops is for those that wait */
#define OPEN_MAX 400u   /* instances that have not ended; no new ones beyond */
#define PAGE_N 50u

/* verb, path */
#define VERBS(X)                                                                                   \
    X(START, "StartInstance")                                                                      \
    X(RAISE, "RaiseEvent")                                                                         \
    X(STOP, "RaiseEvent")                                                                          \
    X(TERMINATE, "TerminateInstance")                                                              \
    X(PURGE, "PurgeInstances")                                                                     \
    X(SIGNAL, "SignalEntity")                                                                      \
    X(WAIT, "WaitForInstanceCompletion")                                                           \
    X(GET, "GetInstance")                                                                          \
    X(QUERY, "QueryInstances")

enum verb {
#define X(name, path) VERB_##name,
    VERBS(X)
#undef X
};
static const char *const verb_paths[] = {
#define X(name, path) "/TaskHubSidecarService/" path,
    VERBS(X)
#undef X
};

struct op {
    struct load *load;
    bool is_used;
    enum verb verb;
    struct account *account;
    size_t signal; /* index */
    uint32_t event;
    struct buffer answer;
    uint64_t moment; /* when it was begun */
};

/* ---- life ---- */

/* A failed test leaves its load behind: found here, it is not reported as a leak beside it. */
static struct load *loads;

struct load *load_new(uint64_t seed)
{
    struct load *l = calloc(1, sizeof *l);

    assert(l != NULL);
    loads = l;
    rng_init(&l->rng, seed);
    EXPECT_STATUS(OK, client_sockets_open(mem_process(), 64, &l->sockets));
    l->ops = calloc(LOAD_OPS_N, sizeof *l->ops);
    assert(l->ops != NULL);
    for (unsigned n = 0; n < LOAD_OPS_N; n++) {
        l->ops[n].load = l;
        buffer_init(&l->ops[n].answer, mem_process());
    }
    return l;
}

void load_free(struct load *l)
{
    assert(loads == l);
    loads = NULL;
    for (unsigned n = 0; n < l->workers_n; n++) flow_worker_close(&l->workers[n]);
    for (unsigned n = 0; n < LOAD_CLIENTS_N; n++) caller_close(&l->clients[n]);
    client_sockets_close(l->sockets);
    for (unsigned n = 0; n < LOAD_OPS_N; n++) buffer_release(&l->ops[n].answer);
    for (size_t i = 0; i < l->accounts_n; i++) {
        free(l->accounts[i]->output);
        free(l->accounts[i]);
    }
    free(l->accounts);
    free(l->signals);
    free(l->ops);
    free(l);
}

void load_add_worker(struct load *l, const struct flow_manner *manner)
{
    assert(l->workers_n < LOAD_WORKERS_MAX);
    flow_worker_open(&l->workers[l->workers_n++], l->sockets, &l->rng, manner);
}

/* What there is to look at after a failure. */
static void show_trouble(const struct load *l)
{
    char command[2 * PATH_MAX + 32];
    const char *keep = getenv("TORTURE_KEEP");
    int data_len = (int)strlen(l->server.log_path) - 4; /* without ".log" */

    real_server_show_log(&l->server);
    if (keep == NULL || data_len <= 0) return;
    (void)snprintf(command, sizeof command, "cp -r '%.*s' '%s'", data_len, l->server.log_path,
                   keep);
    if (system(command) != 0) printf("# the data could not be kept in %s\n", keep);
}

void load_check(struct load *l)
{
    real_server_expect_alive(&l->server);
    for (unsigned n = 0; n < l->workers_n; n++) {
        if (l->workers[n].odd[0] != '\0') ledger_wrong(l, "worker %u: %s", n, l->workers[n].odd);
    }
    if (l->wrong[0] == '\0') return;
    show_trouble(l);
    test_fail(__FILE__, __LINE__, "%s", l->wrong);
}

void load_report(const struct load *l)
{
    printf("# acknowledged: %llu starts, %llu events, %llu signals, %llu ends, %llu purges; "
           "%llu waits, %llu lists\n",
           (unsigned long long)l->acknowledged.starts, (unsigned long long)l->acknowledged.events,
           (unsigned long long)l->acknowledged.signals, (unsigned long long)l->acknowledged.ends,
           (unsigned long long)l->acknowledged.purges, (unsigned long long)l->acknowledged.waits,
           (unsigned long long)l->acknowledged.lists);
    for (unsigned n = 0; n < l->workers_n; n++) {
        const struct flow_worker *w = &l->workers[n];
        printf("# worker %u: %llu items, %llu answered, %llu acknowledged, %llu crashes\n", n,
               (unsigned long long)w->items_n, (unsigned long long)w->answered_n,
               (unsigned long long)w->acknowledged_n, (unsigned long long)w->crashes_n);
    }
}

/* ---- the end of a call ---- */

static void see_answer(struct op *op)
{
    struct load *l = op->load;
    struct seen seen;

    if (!seen_read(buffer_view(&op->answer), &seen)) {
        ledger_wrong(l, "%s: an answer that cannot be read", op->account->id);
        return;
    }
    ledger_see(l, op->account, &seen, op->moment);
    if (op->verb == VERB_WAIT && seen.exists && !status_is_final(seen.status))
        ledger_wrong(l, "%s: a wait for its end was answered with status %d", op->account->id,
                     seen.status);
    if (op->verb == VERB_WAIT) l->acknowledged.waits++;
    if (op->account->start != WORD_UNKNOWN) return;
    if (seen.exists)
        op->account->start = WORD_ACKNOWLEDGED; /* who has seen it may rely on it */
    else
        op->account->is_absent = true; /* the connection that asked for it is gone */
}

static void see_page(struct op *op)
{
    struct load *l = op->load;
    struct pb_reader r = pb_reader_make(buffer_view(&op->answer));
    struct pb_field f;
    struct seen seen;

    while (pb_next(&r, &f)) {
        if (f.number != 1 || !seen_read_state(f.bytes, &seen)) continue;
        if (memchr(seen.id.ptr, ':', seen.id.len) != NULL) continue; /* a child */
        struct account *a = ledger_find(l, seen.id);
        if (a == NULL)
            ledger_wrong(l, "the list has %.*s, which was never started", (int)seen.id.len,
                         (const char *)seen.id.ptr);
        else
            ledger_see(l, a, &seen, op->moment);
    }
    l->acknowledged.lists++;
}

/* A change was answered: OK, or not at all. Other answers are wrong. */
static enum word word_of(struct op *op, enum grpc_code code, const char *text)
{
    if (code == GRPC_OK) return WORD_ACKNOWLEDGED;
    if (code == GRPC_RESOURCE_EXHAUSTED && op->load->may_refuse) {
        op->load->refused_n++;
        return WORD_UNKNOWN;
    }
    if (code != GRPC_UNAVAILABLE && code != GRPC_CANCELLED)
        ledger_wrong(op->load, "%s of %s: %s %s", verb_paths[op->verb],
                     op->account == NULL ? "an entity" : op->account->id, grpc_code_name(code),
                     text);
    return WORD_UNKNOWN;
}

static bool is_change(enum verb verb) { return verb <= VERB_PURGE; }

static void note_change(struct op *op, enum word word)
{
    struct load *l = op->load;
    struct account *a = op->account;
    uint64_t one = word == WORD_ACKNOWLEDGED ? 1 : 0;

    switch (op->verb) {
    case VERB_START: a->start = word, l->acknowledged.starts += one; break;
    case VERB_RAISE: a->events[op->event] = word, l->acknowledged.events += one; break;
    case VERB_STOP:
    case VERB_TERMINATE: a->end = word, l->acknowledged.ends += one; break;
    case VERB_PURGE:
        a->purge = word;
        a->purged_at = l->moment;
        l->acknowledged.purges += one;
        break;
    case VERB_SIGNAL:
        l->signals[op->signal].word = word;
        l->acknowledged.signals += one;
        break;
    case VERB_WAIT:
    case VERB_GET:
    case VERB_QUERY: break;
    }
}

static void op_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct op *op = user;
    struct load *l = op->load;

    (void)call;
    op->is_used = false;
    l->ops_n--;
    if (is_change(op->verb)) op->account->is_busy = false;
    if (op->verb == VERB_WAIT) op->account->is_waited = false;
    if (is_change(op->verb) || op->verb == VERB_SIGNAL) {
        note_change(op, word_of(op, code, text));
    } else if (code == GRPC_OK) {
        if (op->verb == VERB_QUERY)
            see_page(op);
        else
            see_answer(op);
    } else if (code != GRPC_DEADLINE_EXCEEDED) {
        bool may_be_gone = op->account != NULL && op->account->start != WORD_ACKNOWLEDGED;
        bool may_be_purged = op->account != NULL && op->account->purge != WORD_NONE;
        if (code == GRPC_NOT_FOUND && (may_be_gone || may_be_purged)) return;
        (void)word_of(op, code, text);
    }
}

static void op_message(void *user, struct client_call *call, struct bytes message)
{
    struct op *op = user;

    (void)call;
    buffer_append_bytes(&op->answer, message);
}

/* ---- the beginning of a call ---- */

static struct caller *pick_client(struct load *l)
{
    struct caller *c = &l->clients[rng_below(&l->rng, LOAD_CLIENTS_N)];

    return c->client == NULL || client_is_closing(c->client) ? NULL : c;
}

/* What a flow reads, and spaces. */
static void write_input(struct buffer *out, const char *words, size_t blob_size)
{
    struct pb_mark input = pb_begin(out, 4, blob_size + 40);
    struct pb_mark value = pb_begin(out, 1, blob_size + 30);
    buffer_append_bytes(out, bytes_of_text(words));
    if (blob_size > 0 && buffer_reserve(out, blob_size)) {
        memset(out->ptr + out->len, ' ', blob_size);
        out->len += blob_size;
    }
    pb_end(out, value);
    pb_end(out, input);
}

static void write_request(struct load *l, struct op *op, struct buffer *out)
{
    const struct account *a = op->account;
    char text[FLOW_ID_SIZE];

    buffer_clear(out);
    if (a != NULL) pb_put_bytes(out, 1, bytes_of_text(a->id));
    switch (op->verb) {
    case VERB_START:
        pb_put_bytes(out, 2, bytes_of_text(flow_name(a->flow)));
        (void)snprintf(text, sizeof text, "%llu %u", (unsigned long long)a->number, a->n);
        write_input(out, text, l->blob_size);
        break;
    case VERB_RAISE:
        pb_put_bytes(out, 2, BYTES_LITERAL("go"));
        (void)snprintf(text, sizeof text, "%u", op->event);
        pb_put_string_value(out, 3, bytes_of_text(text), true);
        break;
    case VERB_STOP: pb_put_bytes(out, 2, BYTES_LITERAL("stop")); break;
    case VERB_TERMINATE:
        pb_put_string_value(out, 2, BYTES_LITERAL("\"over\""), true);
        pb_put_varint(out, 3, 1);
        break;
    case VERB_PURGE: pb_put_varint(out, 3, 1); break;
    case VERB_SIGNAL: {
        uint64_t number = l->signals[op->signal].number;
        flow_entity_id(number, text);
        pb_put_bytes(out, 1, bytes_of_text(text));
        pb_put_bytes(out, 2, BYTES_LITERAL("keep"));
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)number);
        pb_put_string_value(out, 3, bytes_of_text(text), true);
        flow_request_id(number, text);
        pb_put_bytes(out, 4, bytes_of_text(text));
        break;
    }
    case VERB_WAIT:
    case VERB_GET: pb_put_varint(out, 2, 1); break;
    case VERB_QUERY: {
        struct pb_mark query = pb_begin(out, 1, 20);
        pb_put_varint(out, 5, l->has_blobs ? 2 : PAGE_N);
        pb_put_varint(out, 8, 1);
        pb_end(out, query);
        break;
    }
    }
}

/* False when nobody can be asked now: nothing was told. */
static bool tell(struct load *l, enum verb verb, struct account *a, size_t index)
{
    struct caller *c = pick_client(l);
    struct op *op = l->ops;

    if (c == NULL || l->ops_n == LOAD_OPS_N) return false;
    while (op->is_used) op++;
    op->verb = verb;
    op->account = a;
    op->signal = index;
    op->event = (uint32_t)index;
    op->moment = ++l->moment;
    buffer_clear(&op->answer);
    write_request(l, op, &c->message);
    struct client_request request = {
        .path = verb_paths[verb],
        .message = buffer_view(&c->message),
        .timeout_ms = verb == VERB_WAIT ? WAIT_MS : 0,
        .on_message = op_message,
        .on_end = op_end,
        .user = op,
    };
    if (client_begin(c->client, client_sockets_now_ns(l->sockets), &request, NULL) != OK)
        return false;
    op->is_used = true;
    l->ops_n++;
    if (is_change(verb)) a->is_busy = true;
    if (verb == VERB_WAIT) a->is_waited = true;
    uint64_t ends = l->acknowledged.ends;
    note_change(op, WORD_UNDER_WAY);
    assert(ends == l->acknowledged.ends);
    return true;
}

/* ---- load ---- */

static struct account *pick(struct load *l)
{
    /* the newest most often: what is old has ended */
    if (l->accounts_n == 0) return NULL;
    uint64_t newest = l->accounts_n < 200 ? l->accounts_n : 200;
    size_t from = rng_chance(&l->rng, 800) ? l->accounts_n - newest : 0;
    return l->accounts[(size_t)rng_between(&l->rng, (int64_t)from, (int64_t)l->accounts_n - 1)];
}

static void start_one(struct load *l)
{
    if (pick_client(l) == NULL) return;
    struct account *a = ledger_add(l);
    l->has_blobs = l->has_blobs || l->blob_size > 0;
    (void)snprintf(a->id, sizeof a->id, "t-%llu", (unsigned long long)(l->accounts_n - 1));
    a->flow = (enum flow)rng_below(&l->rng, FLOWS_N);
    a->n = (uint32_t)rng_between(&l->rng, 1, a->flow == FLOW_fan ? 14 : 5);
    if (a->flow == FLOW_keeper) {
        struct signal_sent *s = ledger_add_signal(l);
        s->account = a;
        s->word = WORD_UNKNOWN;
        a->number = s->number;
    }
    while (!tell(l, VERB_START, a, 0)) { /* another client */
        if (l->ops_n == LOAD_OPS_N) return;
        client_sockets_turn(l->sockets, 1);
        real_server_expect_alive(&l->server);
        bool has_client = false;
        for (unsigned n = 0; n < LOAD_CLIENTS_N; n++) {
            has_client = has_client ||
                         (l->clients[n].client != NULL && !client_is_closing(l->clients[n].client));
        }
        if (!has_client) return;
    }
}

static void signal_one(struct load *l)
{
    if (pick_client(l) == NULL) return;
    struct signal_sent *s = ledger_add_signal(l);
    size_t index = (size_t)(s - l->signals);
    (void)tell(l, VERB_SIGNAL, NULL, index);
}

/* Something that fits this instance. */
static void touch(struct load *l, struct account *a, bool is_quiet)
{
    bool is_there = a->start == WORD_ACKNOWLEDGED && a->purge == WORD_NONE;

    if (is_there && !a->has_ended && !a->is_waited && rng_chance(&l->rng, 300)) {
        (void)tell(l, VERB_WAIT, a, 0);
    } else if (a->start != WORD_UNDER_WAY && a->purge != WORD_UNDER_WAY &&
               rng_chance(&l->rng, 150)) {
        (void)tell(l, VERB_GET, a, 0);
    } else if (a->is_busy || !is_there || is_quiet) {
        return;
    } else if (a->has_ended) {
        if (rng_chance(&l->rng, 100)) (void)tell(l, VERB_PURGE, a, 0);
    } else if (a->flow == FLOW_collect && a->end == WORD_NONE) {
        if (a->events_n < EVENTS_MAX && rng_chance(&l->rng, 850)) {
            if (tell(l, VERB_RAISE, a, a->events_n)) a->events_n++;
        } else {
            (void)tell(l, VERB_STOP, a, 0);
        }
    } else if (a->flow != FLOW_collect && a->end == WORD_NONE && rng_chance(&l->rng, 30)) {
        (void)tell(l, VERB_TERMINATE, a, 0);
    }
}

static size_t open_n(const struct load *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->accounts_n; i++) {
        const struct account *a = l->accounts[i];
        if (!a->has_ended && !a->is_absent && a->purge == WORD_NONE) n++;
    }
    return n;
}

static void connect_clients(struct load *l)
{
    int64_t now_ns = clock_mono_ns();

    for (unsigned n = 0; n < LOAD_CLIENTS_N; n++) {
        struct caller *c = &l->clients[n];
        if (c->client != NULL && client_is_over(c->client)) caller_close(c);
        if (c->client == NULL && l->server.pid != 0 && now_ns >= l->connect_ns &&
            !caller_open(c, l->sockets, l->server.address, ""))
            l->connect_ns = now_ns + CONNECT_AGAIN_NS;
    }
}

static void tick(struct load *l)
{
    const char *address = l->server.pid != 0 ? l->server.address : NULL;

    client_sockets_turn(l->sockets, 2);
    connect_clients(l);
    for (unsigned n = 0; n < l->workers_n; n++) flow_worker_tick(&l->workers[n], address);
}

void load_run(struct load *l, int64_t ms, bool is_quiet)
{
    int64_t end_ns = clock_mono_ns() + ms * NS_PER_MS;
    bool is_full = open_n(l) >= OPEN_MAX;

    while (clock_mono_ns() < end_ns) {
        tick(l);
        for (unsigned n = 0; n < 6 && l->ops_n < CHANGES_MAX; n++) {
            if (!is_quiet && !is_full && rng_chance(&l->rng, 350))
                start_one(l);
            else if (!is_quiet && rng_chance(&l->rng, 100))
                signal_one(l);
            else if (!is_quiet && rng_chance(&l->rng, 20))
                (void)tell(l, VERB_QUERY, NULL, 0);
            else if (l->accounts_n > 0)
                touch(l, pick(l), is_quiet);
        }
        load_check(l);
    }
}

static uint64_t acknowledged_n(const struct load *l)
{
    return l->acknowledged.starts + l->acknowledged.events + l->acknowledged.signals +
           l->acknowledged.ends + l->acknowledged.purges;
}

void load_run_to_answer(struct load *l, int64_t ms)
{
    int64_t end_ns = clock_mono_ns() + ms * NS_PER_MS;
    uint64_t before = acknowledged_n(l);

    for (unsigned n = 0; n < 12; n++) start_one(l);
    while (acknowledged_n(l) == before && clock_mono_ns() < end_ns)
        client_sockets_turn(l->sockets, 1);
}

void load_lose(struct load *l)
{
    int64_t end_ns = clock_mono_ns() + 5000 * NS_PER_MS;

    /* what it had said is still in the sockets */
    while (l->ops_n > 0 && clock_mono_ns() < end_ns) client_sockets_turn(l->sockets, 5);
    EXPECT_EQ(0, l->ops_n);
    for (unsigned n = 0; n < LOAD_CLIENTS_N; n++) caller_close(&l->clients[n]);
    for (unsigned n = 0; n < l->workers_n; n++) flow_worker_tick(&l->workers[n], NULL);
    load_check(l);
}

/* ---- heal ---- */

/* Tells what brings this instance nearer to a known end; true when there is nothing left. */
static bool settle(struct load *l, struct account *a)
{
    if (a->is_absent) return true;
    if (a->is_busy || a->is_waited) return false;
    if (a->purge == WORD_ACKNOWLEDGED) return true;
    if (a->purge == WORD_UNKNOWN || a->start == WORD_NONE) {
        /* a purge is told again until it is acknowledged; a start that was never told is nothing */
        if (a->start == WORD_NONE)
            a->is_absent = true;
        else
            (void)tell(l, VERB_PURGE, a, 0);
        return false;
    }
    if (a->has_ended) return true;
    if (a->start == WORD_UNKNOWN) {
        (void)tell(l, VERB_GET, a, 0);
        return false;
    }
    bool needs_end = a->flow == FLOW_collect || a->flow == FLOW_endless;
    if (needs_end && a->end != WORD_ACKNOWLEDGED)
        (void)tell(l, a->flow == FLOW_collect ? VERB_STOP : VERB_TERMINATE, a, 0);
    else
        (void)tell(l, VERB_WAIT, a, 0);
    return false;
}

/* For people: what is known of an instance that does not end, and the kinds of its events. */
static void show_stuck(struct load *l, const struct account *a)
{
    struct caller *c = &l->clients[0];
    struct pb_field f;

    printf("# %s: a %s of %u; start %d, end %d, purge %d, %u events\n", a->id, flow_name(a->flow),
           a->n, (int)a->start, (int)a->end, (int)a->purge, a->events_n);
    printf("# work ready: %g turns; leases %g\n",
           real_server_metric(&l->server, "norn_engine_work_ready{kind=\"orchestration\"}"),
           real_server_metric(&l->server, "norn_work_items_in_flight"));
    if (c->client == NULL) return;
    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, bytes_of_text(a->id));
    enum grpc_code code =
        caller_ask_within(c, "StreamInstanceHistory", buffer_view(&c->message), 5000);
    printf("# its history (%s):", grpc_code_name(code));
    struct pb_reader r = pb_reader_make(buffer_view(&c->answer));
    while (pb_next(&r, &f)) {
        struct pb_reader event = pb_sub(&f);
        struct pb_field g;
        while (pb_next(&event, &g)) {
            if (g.number > 2) printf(" %u", g.number);
        }
    }
    printf("\n");
}

static void heal_instances(struct load *l)
{
    int64_t end_ns = clock_mono_ns() + HEAL_MS * NS_PER_MS;
    size_t left = 1;

    while (left > 0) {
        tick(l);
        left = l->ops_n;
        for (size_t i = 0; i < l->accounts_n; i++) {
            struct account *a = l->accounts[i];
            if (l->ops_n == LOAD_OPS_N && !a->is_busy) {
                left++;
                break;
            }
            if (settle(l, a)) continue;
            left++;
        }
        load_check(l);
        if (left == 0 || clock_mono_ns() < end_ns) continue;
        for (size_t i = 0; i < l->accounts_n; i++) {
            if (!settle(l, l->accounts[i])) show_stuck(l, l->accounts[i]);
        }
        show_trouble(l);
        test_fail(__FILE__, __LINE__, "%zu are stuck", left);
    }
}

static void get_entity(struct load *l, const char *id, struct buffer *state)
{
    struct caller *c = &l->clients[0];
    struct pb_field f;
    struct pb_field g;
    struct bytes text = BYTES_NONE;

    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, bytes_of_text(id));
    pb_put_varint(&c->message, 2, 1);
    EXPECT_EQ(GRPC_OK, caller_ask(c, "GetEntity", buffer_view(&c->message)));
    struct pb_reader r = pb_reader_make(buffer_view(&c->answer));
    while (pb_next(&r, &f)) {
        if (f.number != 2) continue;
        struct pb_reader entity = pb_sub(&f);
        while (pb_next(&entity, &g)) {
            if (g.number == 5) (void)pb_get_string_value(&g, &text);
        }
    }
    buffer_clear(state);
    buffer_append_bytes(state, text);
}

static void heal_entities(struct load *l)
{
    struct buffer state;
    int64_t end_ns = clock_mono_ns() + HEAL_MS * NS_PER_MS;

    buffer_init(&state, mem_process());
    for (uint64_t n = 0; n < FLOW_ENTITIES_N;) {
        char id[FLOW_ID_SIZE];
        flow_entity_id(n, id);
        get_entity(l, id, &state);
        if (ledger_see_entity(l, id, buffer_view(&state), clock_mono_ns() > end_ns)) n++;
        tick(l);
        load_check(l);
    }
    buffer_release(&state);
}

/* ---- lists ---- */

/* One page: appends a line for each to out; the token of the next page into token. */
static bool list_page(struct load *l, struct buffer *token, struct buffer *out)
{
    struct caller *c = &l->clients[0];
    struct pb_field f;
    struct seen seen;
    struct bytes next = BYTES_NONE;

    buffer_clear(&c->message);
    struct pb_mark query = pb_begin(&c->message, 1, 40);
    pb_put_varint(&c->message, 5, PAGE_N);
    if (token->len > 0) pb_put_string_value(&c->message, 6, buffer_view(token), true);
    pb_put_varint(&c->message, 8, 1);
    pb_end(&c->message, query);
    EXPECT_EQ(GRPC_OK, caller_ask(c, "QueryInstances", buffer_view(&c->message)));
    struct pb_reader r = pb_reader_make(buffer_view(&c->answer));
    while (pb_next(&r, &f)) {
        if (f.number == 2) (void)pb_get_string_value(&f, &next);
        if (f.number != 1) continue;
        EXPECT(seen_read_state(f.bytes, &seen));
        struct account *a = ledger_find(l, seen.id);
        bool is_child = memchr(seen.id.ptr, ':', seen.id.len) != NULL;
        if (a == NULL && !is_child)
            ledger_wrong(l, "the list has %.*s, which was never started", (int)seen.id.len,
                         (const char *)seen.id.ptr);
        if (a != NULL) {
            if (a->is_listed) ledger_wrong(l, "%s is listed twice", a->id);
            a->is_listed = true;
            ledger_see(l, a, &seen, ++l->moment);
        }
        if (!status_is_final(seen.status))
            ledger_wrong(l, "%.*s is listed with status %d when all has ended", (int)seen.id.len,
                         (const char *)seen.id.ptr, seen.status);
        buffer_append_bytes(out, seen.id);
        buffer_u8(out, ' ');
        buffer_u8(out, (uint8_t)('0' + seen.status));
        buffer_u8(out, ' ');
        buffer_append_bytes(out, seen.output);
        buffer_u8(out, '\n');
    }
    buffer_clear(token);
    buffer_append_bytes(token, next);
    return token->len > 0;
}

char *load_list(struct load *l)
{
    struct buffer token;
    struct buffer out;

    buffer_init(&token, mem_process());
    buffer_init(&out, mem_process());
    while (l->clients[0].client == NULL) tick(l);
    for (size_t i = 0; i < l->accounts_n; i++) l->accounts[i]->is_listed = false;
    while (list_page(l, &token, &out)) continue;
    for (size_t i = 0; i < l->accounts_n; i++) {
        struct account *a = l->accounts[i];
        bool must = !a->is_absent && a->purge != WORD_ACKNOWLEDGED;
        if (must != a->is_listed)
            ledger_wrong(l, "%s is %s the list", a->id, must ? "not in" : "in");
    }
    for (uint64_t n = 0; n < FLOW_ENTITIES_N; n++) {
        char id[FLOW_ID_SIZE];
        struct buffer state;
        buffer_init(&state, mem_process());
        flow_entity_id(n, id);
        get_entity(l, id, &state);
        buffer_append_bytes(&out, bytes_of_text(id));
        buffer_u8(&out, ' ');
        buffer_append_bytes(&out, buffer_view(&state));
        buffer_u8(&out, '\n');
        buffer_release(&state);
    }
    load_check(l);
    char *text = calloc(1, out.len + 1);
    assert(text != NULL);
    memcpy(text, out.ptr, out.len);
    buffer_release(&token);
    buffer_release(&out);
    return text;
}

/* Only what is still there is of interest to later cycles. */
static void purge_most(struct load *l)
{
    size_t there = 0;

    for (size_t i = l->accounts_n; i > 0; i--) {
        struct account *a = l->accounts[i - 1];
        if (a->is_absent || a->purge != WORD_NONE) continue;
        if (++there <= KEPT_N) continue;
        while (!tell(l, VERB_PURGE, a, 0)) {
            tick(l);
            load_check(l);
        }
    }
    heal_instances(l);
}

void load_heal(struct load *l)
{
    heal_instances(l);
    heal_entities(l);
    free(load_list(l));
    purge_most(l);
    free(load_list(l));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A client does one thing at a time: it thinks, chooses, sends, waits for the answer or for its
 * patience to end, and remembers. In phase 2 it visits each of its instances until that has ended.
 */
#include "test/sim/sim_client.h"

#include "base/assert.h"
#include "base/mem.h"
#include "test/sim/sim_entity.h"
#include "test/sim/sim_feed.h"
#include "test/sim/sim_import.h"
#include "test/sim/sim_network.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_reply.h"
#include "test/sim/sim_subject.h"
#include "test/sim/sim_wire.h"

#include <string.h>

#define PATIENCE_NS (5 * NS_PER_S)
#define DRAIN_AFTER_NS (120 * NS_PER_S) /* whatever was on its way has arrived or is lost by then */

#define REPLY_PATIENCE_NS (3600 * NS_PER_S) /* many times what the longest wait for a try is */

struct client {
    struct crowd *crowd;
    struct world *w;
    uint32_t index;
    uint32_t hub;
    struct port port;
    struct moment think;
    struct subject **subjects;
    uint32_t subjects_n;
    uint32_t draining; /* phase 2: the subject that is visited next */
    /* the present exchange */
    enum request_kind kind;
    struct subject *subject;
    struct raise *raise;
    struct note *note;
    /* a scan */
    bool is_scanning;
    uint64_t scan;
    struct node *scan_node;
    bool scan_finished_only;
    bool scan_by_name;
    enum program scan_program;
    bool has_position;
    int64_t position_ms;
    struct arena position;
    struct bytes position_id;
};

/* An instance that needs help in phase 2, whosoever it is: one with garbage in it is terminated,
 * one that the engine has parked is resumed. */
struct patient {
    struct list node;
    size_t size;
    size_t key_len;
    bool is_tainted;
    bool is_parked;
    uint8_t key[];
};

struct crowd {
    struct world *w;
    struct client clients[CLIENTS_MAX];
    uint32_t n;
    struct map subjects;
    struct list patients;
    int64_t values; /* of events: each is raised once */
    uint64_t ids;
    uint64_t scans;
    bool is_draining;
    int64_t ended_ns;    /* since when there is nothing to do; 0 = not looked yet */
    bool is_settled;     /* all subjects, children and orphans have ended */
    struct moment watch; /* asks for that now and then */
    struct port doctor;  /* looks after the patients */
};

struct bytes crowd_hub(uint32_t index)
{
    return index == 0 ? BYTES_LITERAL("alpha") : BYTES_LITERAL("beta");
}

static struct subject *subject_find(struct crowd *c, struct bytes key)
{
    struct map_node *node = map_find(&c->subjects, key);

    return node == NULL ? NULL : container_of(node, struct subject, by_key);
}

struct bytes crowd_draw_key(struct crowd *c, struct rng *rng)
{
    const struct client *client = &c->clients[rng_below(rng, c->n)];

    if (client->subjects_n == 0) return BYTES_NONE;
    return client->subjects[rng_below(rng, client->subjects_n)]->key;
}

static void client_think(struct client *client)
{
    struct world *w = client->w;
    int64_t span_ms = client->crowd->is_draining ? 1 : chance_span(&w->rng, w->options.think_ms);

    moment_after(w, &client->think, span_ms * NS_PER_MS);
}

/* ---- sending ---- */

static struct call *client_call(struct client *client, enum request_kind kind, struct subject *s)
{
    struct call *call = call_make(client->w, kind);

    client->kind = kind;
    client->subject = s;
    client->raise = NULL;
    call_set_key(call, s->key);
    return call;
}

static void client_send(struct client *client, struct call *call)
{
    sim_say(client->w, SIM_LOG_FULL, "client", "%u sends %d %.*s", client->index,
            (int)call->request.kind, (int)call->request.key.len,
            (const char *)call->request.key.ptr);
    port_send(&client->port, call, node_of_key(client->w, call->request.key), PATIENCE_NS);
}

static void send_plain(struct client *client, enum request_kind kind, struct subject *s)
{
    client_send(client, client_call(client, kind, s));
}

static void send_start(struct client *client, struct subject *s, enum reuse reuse)
{
    struct world *w = client->w;
    struct call *call = client_call(client, REQUEST_START, s);
    struct input_start *start = &call->request.start;

    start->name = bytes_of_text(program_name(s->program));
    start->input = maybe_some(call_copy(call, s->input));
    start->tags = call_copy(call, s->tags);
    start->reuse = reuse;
    if (reuse == REUSE_REPLACE || reuse == REUSE_IGNORE) {
        start->reuse_mask = (1u << STATUS_TERMINATED) | (uint32_t)rng_below(&w->rng, 256);
    }
    if (rng_chance(&w->rng, 100)) {
        struct env *env = &node_of_key(w, s->key)->env;
        start->has_scheduled = true;
        start->scheduled_ms =
            env->ops->wall_ns(env) / NS_PER_MS + rng_between(&w->rng, -1000, 10000);
    }
    s->is_gone = false;
    s->starts_loose++; /* until its answer says otherwise */
    client_send(client, call);
}

static void send_raise(struct client *client, struct subject *s)
{
    struct call *call = client_call(client, REQUEST_RAISE, s);
    struct raise *r = &s->raises[s->raises_n++];

    *r = (struct raise){.value = ++client->crowd->values};
    client->raise = r;
    call->request.client.name = BYTES_LITERAL("n");
    call->request.client.data =
        maybe_some(text_make(&call->parcel->arena, "%lld", (long long)r->value));
    client_send(client, call);
}

static void send_control(struct client *client, enum request_kind kind, struct subject *s)
{
    struct world *w = client->w;
    struct call *call = client_call(client, kind, s);

    s->controls_loose++;
    s->is_standing = false;
    if (kind == REQUEST_TERMINATE) s->was_terminated = true;
    if (kind == REQUEST_PURGE) s->was_purged = true;
    if (kind == REQUEST_SUSPEND) s->was_suspended = true;
    if (kind == REQUEST_REWIND) s->was_rewound = true;
    if (kind == REQUEST_RESTART) s->was_restarted = true;
    if (kind == REQUEST_REWIND || kind == REQUEST_RESTART) {
        s->starts_loose++;
        s->is_finished = false;
        s->is_gone = false;
    }
    if (kind == REQUEST_PURGE) s->is_finished = false;
    call->request.client.data = maybe_some(BYTES_LITERAL("because"));
    call->request.client.recurse = rng_chance(&w->rng, 500);
    client_send(client, call);
}

static void send_wait(struct client *client, struct subject *s)
{
    struct call *call = client_call(client, REQUEST_WAIT, s);

    call->request.wait.until_finished = rng_chance(&client->w->rng, 500);
    client_send(client, call);
}

/* The one step of a parked program has the id 1. */
static void send_resubmit(struct client *client, struct subject *s)
{
    struct call *call = client_call(client, REQUEST_RESUBMIT, s);

    s->controls_loose++;
    call->request.client.task_id = 1;
    client_send(client, call);
}

/* To an entity. False when enough have been sent. */
static bool send_signal(struct client *client)
{
    struct world *w = client->w;
    struct note *note = ledger_note(w->ledger, client->index, client->hub);
    struct bytes hub = crowd_hub(client->hub);

    if (note == NULL) return false;
    uint64_t dice = rng_below(&w->rng, 100);
    struct call *call = call_make(w, REQUEST_SIGNAL);
    struct input_signal *signal = &call->request.signal;
    struct arena *arena = &call->parcel->arena;
    client->kind = REQUEST_SIGNAL;
    client->subject = NULL;
    client->note = note;
    call->request.key = text_make(arena, "%.*s/@log@%u", (int)hub.len, (const char *)hub.ptr,
                                  (unsigned)rng_below(&w->rng, LOGS_N));
    signal->operation = dice < 80 ? BYTES_LITERAL("note") : BYTES_LITERAL("pass");
    signal->input = maybe_some(text_make(arena, "%lld", (long long)note->value));
    if (dice >= 60) {
        struct env *env = &node_of_key(w, call->request.key)->env;
        note->is_delayed = true;
        signal->has_scheduled = dice % 2 == 0;
        signal->scheduled_ms = env->ops->wall_ns(env) / NS_PER_MS +
                               rng_between(&w->rng, -1000, dice % 4 == 0 ? 600000 : 5000);
    }
    if (dice >= 95) { /* to one that forgets it */
        note->value = -note->value;
        call->request.key = text_make(arena, "%.*s/@brief@0", (int)hub.len, (const char *)hub.ptr);
    }
    client_send(client, call);
    return true;
}

/* ---- new subjects ---- */

static struct subject *relay_target(struct client *client)
{
    for (int tries = 0; tries < 5 && client->subjects_n > 0; tries++) {
        struct subject *s = client->subjects[rng_below(&client->w->rng, client->subjects_n)];
        if (subject_wants_events(s) && s->raises_n < RAISES_MAX / 2) return s;
    }
    return NULL;
}

static struct bytes echo_input(struct client *client, struct arena *arena)
{
    uint8_t bytes[300];
    size_t len = (size_t)rng_below(&client->w->rng, sizeof bytes);

    rng_fill(&client->w->rng, bytes, len);
    /* over gRPC a payload is a text */
    for (size_t i = 0; client->w->front != NULL && i < len; i++) bytes[i] = 32 + bytes[i] % 95;
    return arena_copy(arena, bytes_make(bytes, len));
}

static struct bytes draw_input(struct client *client, enum program *program, struct arena *arena,
                               struct raise **relayed)
{
    struct rng *rng = &client->w->rng;
    long long n = rng_between(rng, 1, 6);
    long long x = rng_between(rng, 0, 1000);

    if (*program == PROGRAM_echo) return echo_input(client, arena);
    if (*program == PROGRAM_relay) {
        struct subject *target = relay_target(client);
        if (target == NULL) {
            *program = PROGRAM_sequence;
        } else {
            struct raise *r = &target->raises[target->raises_n++];
            *r = (struct raise){.value = ++client->crowd->values, .is_relayed = true};
            *relayed = r;
            struct bytes id = key_id(target->key);
            return text_make(arena, "0 %lld %.*s", (long long)r->value, (int)id.len,
                             (const char *)id.ptr);
        }
    }
    if (*program == PROGRAM_fan) n = rng_between(rng, 1, 20);
    if (*program == PROGRAM_either) n = rng_between(rng, 1, 5000);
    if (*program == PROGRAM_timers) x = rng_between(rng, 1, client->w->options.timer_ms_max);
    if (*program == PROGRAM_family) {
        n = rng_between(rng, 1, 3);
        x = rng_between(rng, 0, 2);
    }
    if (*program == PROGRAM_collect_loop) {
        n = rng_between(rng, 2, 12);
        x = rng_between(rng, 1, 4);
    }
    return text_make(arena, "%lld %lld", n, x);
}

static void start_new(struct client *client)
{
    struct crowd *c = client->crowd;
    struct arena arena;
    enum program program = program_draw(&client->w->rng);

    arena_init(&arena, mem_process(), 1024);
    struct raise *relayed = NULL;
    struct bytes input = draw_input(client, &program, &arena, &relayed);
    struct bytes hub = crowd_hub(client->hub);
    struct bytes key = text_make(&arena, "%.*s/c%u-%llu", (int)hub.len, (const char *)hub.ptr,
                                 client->index, (unsigned long long)++c->ids);
    struct subject *s = subject_new(client->w, key, program, input);
    s->is_remote = client->port.wire != NULL;
    if (rng_chance(&client->w->rng, client->w->options.reply_share)) {
        s->tags = reply_tags(&s->arena, s->key);
    }
    if (relayed != NULL) relayed->relay = s;
    arena_release(&arena);
    map_insert(&c->subjects, &s->by_key);
    client->subjects[client->subjects_n++] = s;
    send_start(client, s, REUSE_NEVER);
}

/* ---- scans (S25) ---- */

static bool is_in_scan(const struct client *client, const struct subject *s)
{
    if (!s->is_acked || subject_is_disturbed(s) || s->starts_loose > 0) return false;
    if (node_of_key(client->w, s->key) != client->scan_node) return false;
    if (client->scan_by_name && s->program != client->scan_program) return false;
    return !client->scan_finished_only || s->is_finished;
}

/* Its lists go over gRPC: see wire_has_rpc(). */
static bool is_wired(const struct client *client)
{
    return client->port.wire != NULL && client->w->options.shards_n == 1;
}

static void scan_page(struct client *client)
{
    struct world *w = client->w;
    struct call *call = call_make(w, REQUEST_QUERY);
    struct request_query *q = &call->request.query;

    client->kind = REQUEST_QUERY;
    client->subject = NULL;
    q->hub = crowd_hub(client->hub);
    q->id_prefix = text_make(&call->parcel->arena, "c%u-", client->index);
    q->limit = 1 + (uint32_t)rng_below(&w->rng, 80);
    q->terminal_only = client->scan_finished_only;
    q->by_completion = client->scan_finished_only;
    q->newest_first = client->scan % 2 == 1 && !is_wired(client); /* gRPC has no word for it */
    if (client->scan_by_name) q->name = bytes_of_text(program_name(client->scan_program));
    q->has_after = client->has_position;
    q->after_ms = client->position_ms;
    q->after_id = call_copy(call, client->position_id);
    port_send(&client->port, call, client->scan_node, PATIENCE_NS);
}

static void scan_begin(struct client *client)
{
    struct world *w = client->w;

    client->is_scanning = true;
    client->scan = ++client->crowd->scans;
    client->scan_node = w->nodes[rng_below(&w->rng, w->options.shards_n)];
    client->scan_finished_only = rng_chance(&w->rng, 300);
    client->scan_by_name = rng_chance(&w->rng, 300) && !is_wired(client);
    client->scan_program = (enum program)rng_below(&w->rng, PROGRAMS_N);
    client->has_position = false;
    client->position_ms = 0;
    client->position_id = BYTES_NONE;
    for (uint32_t i = 0; i < client->subjects_n; i++) {
        struct subject *s = client->subjects[i];
        s->scan = is_in_scan(client, s) ? client->scan : 0;
        s->scan_seen_n = 0;
    }
    scan_page(client);
}

static bool is_own(const struct client *client, const struct subject *s)
{
    for (uint32_t i = 0; i < client->subjects_n; i++) {
        if (client->subjects[i] == s) return true;
    }
    return false;
}

static void scan_row(struct client *client, const struct instance_view *row)
{
    struct subject *s = subject_find(client->crowd, row->key);

    if (s == NULL) return; /* a child */
    if (!is_own(client, s)) return;
    if (s->scan_seen_n++ > 0 && !subject_is_disturbed(s) && s->starts_loose == 0) {
        sim_fail(client->w, "S25 list", "%.*s stands twice in a list", (int)s->key.len,
                 (const char *)s->key.ptr);
    }
}

static void scan_end(struct client *client)
{
    client->is_scanning = false;
    for (uint32_t i = 0; i < client->subjects_n; i++) {
        const struct subject *s = client->subjects[i];
        if (s->scan != client->scan || s->scan_seen_n == 1 || subject_is_disturbed(s)) continue;
        sim_fail(client->w, "S25 list", "%.*s stands %u times in a list", (int)s->key.len,
                 (const char *)s->key.ptr, s->scan_seen_n);
    }
}

static void on_scan_answer(struct client *client, const struct answer *a)
{
    if (a->outcome != OUTCOME_ANSWER || a->status != OK) {
        client->is_scanning = false;
        client_think(client);
        return;
    }
    for (size_t i = 0; i < a->rows_n; i++) scan_row(client, &a->rows[i]);
    if (a->has_more && a->rows_n > 0) {
        const struct instance_view *last = &a->rows[a->rows_n - 1];
        int64_t at_ns = client->scan_finished_only ? last->completed_ns : last->created_ns;
        client->has_position = true;
        client->position_ms = at_ns / NS_PER_MS;
        arena_reset(&client->position);
        client->position_id =
            arena_copy(&client->position, a->token.len > 0 ? a->token : key_id(last->key));
        scan_page(client);
        return;
    }
    if (a->has_more) sim_fail(client->w, "S25 list", "an empty page says there is more");
    scan_end(client);
    client_think(client);
}

/* ---- answers ---- */

static bool is_loose(const struct answer *a)
{
    return a->outcome == OUTCOME_UNKNOWN || a->was_doubled;
}

static void on_start_answer(struct subject *s, const struct answer *a)
{
    bool was_loose = s->starts_loose > 1;

    if (!is_loose(a)) s->starts_loose--;
    if (a->outcome != OUTCOME_ANSWER) return;
    if (a->status == OK) s->is_acked = true;
    /* Exists: by an attempt of ours whose answer was lost. */
    if (a->status == E_EXISTS && !s->is_acked) {
        if (!was_loose && !a->was_doubled) {
            sim_fail(s->w, "S14 exists", "%.*s exists before it was started", (int)s->key.len,
                     (const char *)s->key.ptr);
        }
        s->is_acked = true;
    }
}

static void on_raise_answer(struct raise *r, const struct answer *a)
{
    r->is_doubled = a->was_doubled;
    bool is_done = a->outcome == OUTCOME_ANSWER && a->status == OK;
    r->is_acked = is_done && a->text[0] == '\0' && !r->is_dropped;
    r->is_refused = !is_done && !is_loose(a);
}

static void on_signal_answer(struct note *note, const struct answer *a)
{
    bool is_done = a->outcome == OUTCOME_ANSWER && a->status == OK;

    note->is_doubled = a->was_doubled;
    note->is_acked = is_done && note->value > 0;
    note->is_refused = !is_done && !is_loose(a);
}

static void on_control_answer(struct client *client, struct subject *s, const struct answer *a)
{
    bool is_new_run = client->kind == REQUEST_REWIND || client->kind == REQUEST_RESTART;

    if (is_loose(a)) return;
    s->controls_loose--;
    if (is_new_run) s->starts_loose--;
    if (a->outcome != OUTCOME_ANSWER) return;
    if (client->kind == REQUEST_PURGE && a->status == OK && a->purged_n > 0 &&
        s->controls_loose == 0) {
        s->is_gone = true;
    }
}

static void on_answer(struct port *port, const struct answer *a)
{
    struct client *client = container_of(port, struct client, port);
    struct subject *s = client->subject;

    if (client->kind == REQUEST_QUERY) {
        on_scan_answer(client, a);
        return;
    }
    if (client->kind == REQUEST_SIGNAL) {
        on_signal_answer(client->note, a);
        client_think(client);
        return;
    }
    bool is_read = a->outcome == OUTCOME_ANSWER && a->status == OK;
    if (client->kind == REQUEST_START) {
        on_start_answer(s, a);
    } else if (client->kind == REQUEST_RAISE) {
        on_raise_answer(client->raise, a);
    } else if (client->kind == REQUEST_GET || client->kind == REQUEST_WAIT) {
        if (is_read) subject_see(s, a->has_view ? &a->view : NULL);
    } else if (client->kind == REQUEST_HISTORY) {
        if (is_read) subject_see_history(s, a->events);
    } else {
        on_control_answer(client, s, a);
    }
    client_think(client);
}

/* ---- phase 1: choosing ---- */

static void disturb(struct client *client, struct subject *s)
{
    static const enum request_kind kinds[] = {REQUEST_SUSPEND, REQUEST_RESUME,  REQUEST_TERMINATE,
                                              REQUEST_PURGE,   REQUEST_REWIND,  REQUEST_RESTART,
                                              REQUEST_START,   REQUEST_SUSPEND, REQUEST_RESUME};
    enum request_kind kind = kinds[rng_below(&client->w->rng, sizeof kinds / sizeof kinds[0])];

    if (kind != REQUEST_START) {
        send_control(client, kind, s);
        return;
    }
    s->was_restarted = true; /* or replaced, or left alone: all may be */
    s->is_finished = false;
    send_start(client, s, (enum reuse)rng_below(&client->w->rng, 4));
}

static void do_something(struct client *client)
{
    struct world *w = client->w;
    uint64_t dice = rng_below(&w->rng, 100);
    bool has_room = client->subjects_n < w->options.subjects_max;

    if (client->subjects_n == 0 || (has_room && dice < 45)) {
        start_new(client);
        return;
    }
    if (dice >= 90 && dice < 98 && send_signal(client)) return;
    if (dice >= 98) {
        scan_begin(client);
        return;
    }
    struct subject *s = client->subjects[rng_below(&w->rng, client->subjects_n)];
    if (!s->is_acked)
        send_start(client, s, REUSE_NEVER);
    else if (rng_chance(&w->rng, w->options.disturb_rate))
        disturb(client, s);
    else if (subject_wants_events(s) && !s->is_finished && s->raises_n < RAISES_MAX / 2)
        send_raise(client, s);
    else if (s->program == PROGRAM_parked && dice < 70)
        send_resubmit(client, s);
    else if (dice < 65)
        send_plain(client, REQUEST_HISTORY, s);
    else if (dice < 75)
        send_wait(client, s);
    else
        send_plain(client, REQUEST_GET, s);
}

/* ---- phase 2: seeing them to their end ---- */

/* What an instance that has not ended may wait for. Every other visit only looks; looking does
 * not wake a sleeper. */
static void nudge(struct client *client, struct subject *s, bool has_ended)
{
    s->visits_n++;
    if (!s->is_acked)
        send_start(client, s, REUSE_NEVER);
    else if (has_ended || s->visits_n % 2 == 1)
        send_plain(client, REQUEST_GET, s);
    else if (s->is_tainted)
        send_control(client, REQUEST_TERMINATE, s);
    else if (s->was_suspended && s->visits_n % 8 == 2)
        send_control(client, REQUEST_RESUME, s);
    else if (s->program == PROGRAM_parked)
        send_resubmit(client, s);
    else if (subject_wants_events(s) && s->raises_n < RAISES_MAX)
        send_raise(client, s);
    else
        send_plain(client, REQUEST_GET, s);
}

/* Visits a subject that is due, or thinks until one is. */
static void drain_one(struct client *client)
{
    struct world *w = client->w;
    int64_t passed_ns = w->now_ns - w->options.load_ms * NS_PER_MS;
    int64_t next_ns = INT64_MAX;

    for (uint32_t left = client->subjects_n; left > 0; left--) {
        struct subject *s = client->subjects[client->draining++ % client->subjects_n];
        struct instance_view view;
        if (s->is_settled) continue;
        struct shadow *shadow = node_of_key(w, s->key)->shadow;
        bool is_there = shadow_view(shadow, s->key, &view);
        bool has_ended =
            is_there ? view.is_terminal : s->was_purged && !shadow_waits(shadow, s->key);
        s->is_settled = s->is_acked && has_ended && (s->is_finished || !is_there);
        if (s->is_settled) continue;
        if (s->visit_ns <= w->now_ns) {
            s->visit_ns = w->now_ns + 50 * NS_PER_MS + (s->visits_n > 60 ? passed_ns / 16 : 0);
            nudge(client, s, has_ended);
            return;
        }
        if (s->visit_ns < next_ns) next_ns = s->visit_ns;
    }
    if (next_ns != INT64_MAX) moment_after(w, &client->think, next_ns - w->now_ns);
}

static void on_think(struct moment *m)
{
    struct client *client = container_of(m, struct client, think);
    int64_t drain_ns = client->w->options.load_ms * NS_PER_MS + DRAIN_AFTER_NS;

    if (client->crowd->is_draining && client->w->now_ns < drain_ns)
        return; /* the watch comes back */
    if (client->crowd->is_draining)
        drain_one(client);
    else
        do_something(client);
}

/* ---- garbage ---- */

static struct patient *patient_find(const struct crowd *c, struct bytes key)
{
    for (struct list *at = list_first(&c->patients); at != NULL; at = list_next(&c->patients, at)) {
        struct patient *p = container_of(at, struct patient, node);
        if (bytes_equal(bytes_make(p->key, p->key_len), key)) return p;
    }
    return NULL;
}

static struct patient *patient_make(struct crowd *c, struct bytes key)
{
    struct patient *p = patient_find(c, key);

    if (p != NULL) return p;
    p = mem_take_zero(mem_process(), sizeof *p + key.len);
    assert(p != NULL);
    p->size = sizeof *p + key.len;
    p->key_len = key.len;
    memcpy(p->key, key.ptr, key.len);
    list_push_back(&c->patients, &p->node);
    return p;
}

/* Somebody who runs and should not, or should and does not. */
static struct patient *patient_next(const struct crowd *c)
{
    for (struct list *at = list_first(&c->patients); at != NULL; at = list_next(&c->patients, at)) {
        struct patient *p = container_of(at, struct patient, node);
        struct bytes key = bytes_make(p->key, p->key_len);
        struct instance_view view;
        if (!p->is_tainted && !p->is_parked) continue;
        if (shadow_view(node_of_key(c->w, key)->shadow, key, &view) && !view.is_terminal) return p;
    }
    return NULL;
}

static void on_doctor(struct port *port, const struct answer *a)
{
    (void)port; /* the watch looks whether it helped */
    (void)a;
}

void crowd_park(struct crowd *c, struct bytes key, bool is_parked)
{
    patient_make(c, key)->is_parked = is_parked;
}

void crowd_taint(struct crowd *c, struct bytes key)
{
    struct bytes at = key;
    struct instance_view view;
    struct arena arena;

    patient_make(c, key)->is_tainted = true;
    arena_init(&arena, mem_process(), 512);
    /* Up the tree: a parent may fail because its child does. */
    for (int level = 0; level < 10; level++) {
        struct subject *s = subject_find(c, at);
        if (s != NULL) s->is_tainted = true;
        if (!shadow_view(node_of_key(c->w, at)->shadow, at, &view) || view.parent_id.len == 0)
            break;
        struct bytes hub = key_hub(at);
        at = text_make(&arena, "%.*s/%.*s", (int)hub.len, (const char *)hub.ptr,
                       (int)view.parent_id.len, (const char *)view.parent_id.ptr);
    }
    arena_release(&arena);
}

void crowd_drop(struct crowd *c, struct bytes key, struct bytes value)
{
    struct subject *s = subject_find(c, key);
    int64_t number = 0;

    if (s == NULL || !number_next(&value, &number)) return;
    for (uint32_t i = 0; i < s->raises_n; i++) {
        if (s->raises[i].value == number) s->raises[i].is_dropped = true;
    }
}

bool crowd_was_rewound(struct crowd *c, struct bytes key)
{
    const struct subject *s = subject_find(c, key);

    return s == NULL || s->was_rewound || crowd_is_tainted(c, key);
}

bool crowd_is_tainted(const struct crowd *c, struct bytes key)
{
    const struct patient *p = patient_find(c, key);

    return p != NULL && p->is_tainted;
}

/* ---- the crowd ---- */

static enum status count_running(void *user, const struct instance_view *view)
{
    uint32_t *n = user;

    if (view->is_entity ? entity_is_busy(view) : !view->is_purged && !view->is_terminal) (*n)++;
    return OK;
}

static uint32_t running_n(struct crowd *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->w->options.shards_n; i++) {
        shadow_each(c->w->nodes[i]->shadow, count_running, &n);
    }
    return n;
}

static bool all_settled(struct crowd *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        for (uint32_t k = 0; k < c->clients[i].subjects_n; k++) {
            if (!c->clients[i].subjects[k]->is_settled) return false;
        }
    }
    return true;
}

static void on_watch(struct moment *m)
{
    struct crowd *c = container_of(m, struct crowd, watch);
    struct patient *p = patient_next(c);

    for (uint32_t i = 0; i < c->n; i++) {
        struct client *client = &c->clients[i];
        if (!client->port.is_waiting && !moment_is_set(&client->think)) {
            moment_after(c->w, &client->think, NS_PER_MS);
        }
    }
    if (p != NULL && !c->doctor.is_waiting) {
        struct call *call = call_make(c->w, p->is_tainted ? REQUEST_TERMINATE : REQUEST_RESUME);
        call_set_key(call, bytes_make(p->key, p->key_len));
        port_send(&c->doctor, call, node_of_key(c->w, call->request.key), PATIENCE_NS);
    }
    bool is_moved = feeds_are_finished(c->w->feeds) && mover_is_finished(c->w->mover);
    bool has_ended = is_moved && all_settled(c) && running_n(c) == 0;
    if (!has_ended || c->ended_ns == 0) c->ended_ns = c->w->now_ns;
    /* The last replies may still be on their way between partitions. */
    bool is_late = c->w->now_ns - c->ended_ns > REPLY_PATIENCE_NS;
    c->is_settled = has_ended && (receiver_has_heard_all(c->w->receiver) || is_late);
    /* Seldom enough that sleeping for days is cheap, often enough at first. */
    int64_t passed_ns = c->w->now_ns - c->w->options.load_ms * NS_PER_MS;
    if (!c->is_settled) moment_after(c->w, m, NS_PER_S + passed_ns / 16);
}

struct crowd *crowd_new(struct world *w)
{
    struct crowd *c = mem_take_zero(mem_process(), sizeof *c);

    assert(c != NULL);
    c->w = w;
    c->n = w->options.clients_n;
    map_init(&c->subjects, mem_process(), 3, 4);
    list_init(&c->patients);
    moment_init(&c->watch, on_watch);
    port_init(&c->doctor, w, on_doctor);
    for (uint32_t i = 0; i < c->n; i++) {
        struct client *client = &c->clients[i];
        client->crowd = c;
        client->w = w;
        client->index = i;
        client->hub = i % w->options.hubs_n;
        client->subjects = mem_take_zero(mem_process(), w->options.subjects_max * sizeof(void *));
        assert(client->subjects != NULL);
        arena_init(&client->position, mem_process(), 256);
        port_init(&client->port, w, on_answer);
        if (rng_chance(&w->rng, w->options.wire_share)) {
            client->port.wire = wire_new(w, crowd_hub(client->hub));
        }
        moment_init(&client->think, on_think);
    }
    return c;
}

void crowd_start(struct crowd *c)
{
    for (uint32_t i = 0; i < c->n; i++) client_think(&c->clients[i]);
}

void crowd_drain(struct crowd *c)
{
    c->is_draining = true;
    for (uint32_t i = 0; i < c->n; i++) moment_cancel(c->w, &c->clients[i].think);
    moment_after(c->w, &c->watch, DRAIN_AFTER_NS);
}

bool crowd_is_finished(struct crowd *c) { return c->is_settled; }

static enum status report_running(void *user, const struct instance_view *view)
{
    struct node *n = user;
    struct buffer why;

    if (view->is_purged || view->is_terminal) return OK;
    if (view->is_entity && !entity_is_busy(view)) return OK;
    buffer_init(&why, mem_process());
    bool is_hot = n->is_up &&
                  core_why(host_core(n->host, partition_of(view->key, n->w->options.partitions_n)),
                           view->key, &why);
    sim_say(n->w, SIM_LOG_NONE, n->name, "%.*s %s %s, %u events, %u unread, locked by '%.*s': %.*s",
            (int)view->key.len, (const char *)view->key.ptr,
            orchestration_status_name(view->status), is_hot ? "in memory" : "not in memory",
            view->history_n, view->inbox_n, (int)view->locked_by.len,
            view->locked_by.len == 0 ? "" : (const char *)view->locked_by.ptr, (int)why.len,
            why.len == 0 ? "" : (const char *)why.ptr);
    buffer_release(&why);
    return OK;
}

_Noreturn void crowd_report_unfinished(struct crowd *c)
{
    for (uint32_t i = 0; i < c->w->options.shards_n; i++) {
        shadow_each(c->w->nodes[i]->shadow, report_running, c->w->nodes[i]);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        for (uint32_t k = 0; k < c->clients[i].subjects_n; k++) {
            struct subject *s = c->clients[i].subjects[k];
            if (s->is_settled) continue;
            sim_fail(c->w, "L1 finish", "%.*s (%s) does not end", (int)s->key.len,
                     (const char *)s->key.ptr, program_name(s->program));
        }
    }
    sim_fail(c->w, "L1 finish", "%u instances do not end", running_n(c));
}

void crowd_check_end(struct crowd *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        for (uint32_t k = 0; k < c->clients[i].subjects_n; k++) {
            struct subject *s = c->clients[i].subjects[k];
            struct instance_view view;
            bool is_there = shadow_view(node_of_key(c->w, s->key)->shadow, s->key, &view);
            subject_check_end(s, is_there ? &view : NULL);
        }
    }
}

void crowd_free(struct crowd *c)
{
    struct list *at = NULL;

    for (uint32_t i = 0; i < c->n; i++) {
        struct client *client = &c->clients[i];
        port_cancel(&client->port);
        wire_free(client->port.wire);
        moment_cancel(c->w, &client->think);
        arena_release(&client->position);
        for (uint32_t k = 0; k < client->subjects_n; k++) subject_free(client->subjects[k]);
        mem_give(mem_process(), client->subjects, c->w->options.subjects_max * sizeof(void *));
    }
    while ((at = list_pop_front(&c->patients)) != NULL) {
        struct patient *p = container_of(at, struct patient, node);
        mem_give(mem_process(), p, p->size);
    }
    port_cancel(&c->doctor);
    moment_cancel(c->w, &c->watch);
    map_release(&c->subjects);
    mem_give(mem_process(), c, sizeof *c);
}

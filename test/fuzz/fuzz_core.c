/* SPDX-License-Identifier: Apache-2.0
 *
 * Any sequence of inputs against the core. The bytes are read as a small program: starts, control,
 * work taken and answered (with sensible actions, and with raw bytes as an OrchestratorResponse),
 * time, messages that are delivered, lost, doubled and forged, crashes, evictions. The oracle is
 * the kit: after every step the invariants hold, the records fold to the same state in a shadow
 * core, and every instance survives snapshot and load.
 */
#include "base/assert.h"
#include "test/lib/entity_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS_MAX 96
#define SLOTS_N 4

struct script {
    struct kit *k;
    struct reader r;
    const struct effect_work *turns[SLOTS_N];
    const struct effect_work *tasks[SLOTS_N];
    const struct effect_work *batches[SLOTS_N];
    uint64_t forged_seq;
};

static uint8_t next(struct script *s) { return reader_left(&s->r) > 0 ? reader_u8(&s->r) : 0; }

static const char *next_key(struct script *s)
{
    static const char *const keys[] = {"h/a", "h/b", "h/c", "h/d", "i/a", "h/@e@1", "h/@e@2"};
    return keys[next(s) % 7];
}

static const char *next_id(struct script *s)
{
    static const char *const ids[] = {"a", "b", "c", "d", "", "nobody"};
    return ids[next(s) % 6];
}

static const char *next_name(struct script *s)
{
    static const char *const names[] = {"o", "t", "u", "p"};
    return names[next(s) % 4];
}

static const char *next_payload(struct script *s)
{
    static const char *const payloads[] = {NULL, "", "1",
                                           "a longer one, so that arenas grow a little"};
    return payloads[next(s) % 4];
}

/* Raw bytes of the input itself. */
static struct bytes next_raw(struct script *s)
{
    size_t len = next(s);
    if (len > reader_left(&s->r)) len = reader_left(&s->r);
    return reader_take(&s->r, len);
}

/* Every choice is read before it is used: the order of arguments is not C's to promise. */
static struct action next_action(struct script *s)
{
    int32_t id = (int32_t)(next(s) % 16) - 1;
    int64_t at_ms = kit_now_ms(s->k) + (int64_t)(next(s) % 8) * 500 - 1000;
    uint8_t kind = next(s);
    const char *name = next_name(s);
    const char *payload = next_payload(s);
    const char *target = next_id(s);
    uint8_t more = next(s);
    struct action action;
    switch (kind % 13) {
    case 0: return act_task(id, name, payload);
    case 1: return act_timer(id, at_ms);
    case 2: return act_child(id, name, target, payload);
    case 3: return act_event(id, target, name, payload);
    case 4: return act_complete(id, payload);
    case 5: return act_fail(id, "no");
    case 6: return act_terminate(id, target, payload, more % 2 == 0);
    case 7:
        action = act_complete(id, payload);
        action.status = (enum orchestration_status)(more % 9);
        return action;
    case 8: return act_call(id, more % 2 == 0 ? "@e@1" : "@E@2", name, name);
    case 9: return act_signal(id, "@e@1", name, name, more % 3 == 0 ? at_ms : 0);
    case 10: return act_lock(id, name, more % 2 == 0 ? "@e@2 @e@1" : "@e@2");
    case 11: return act_unlock(id, name, more % 2 == 0 ? "@e@1" : "@e@2");
    default:
        action = act_continue(id, payload);
        if (more % 2 == 0) action.carryover = next_raw(s);
        return action;
    }
}

static void start(struct script *s)
{
    uint8_t flags = next(s);
    struct input_start start = {.key = bytes_of_text(next_key(s))};
    start.name = bytes_of_text(next_name(s));
    start.input = maybe_text(next_payload(s));
    start.has_scheduled = (flags & 1) != 0;
    start.scheduled_ms = kit_now_ms(s->k) + (int64_t)next(s) * 100 - 1000;
    start.reuse = (enum reuse)((flags >> 1) % 5);
    start.reuse_mask = next(s);
    if (flags & 128) start.version = maybe_text("1");
    kit_start_with(s->k, start);
}

static void control(struct script *s)
{
    const char *key = next_key(s);
    uint8_t what = next(s);
    const char *name = next_name(s);
    const char *payload = next_payload(s);
    uint8_t more = next(s);
    switch (what % 8) {
    case 0: kit_raise(s->k, key, name, payload); break;
    case 1: kit_terminate(s->k, key, payload, more % 2 == 0); break;
    case 2: kit_suspend(s->k, key, payload); break;
    case 3: kit_resume(s->k, key, payload); break;
    case 4: kit_rewind(s->k, key, payload); break;
    case 5: kit_restart(s->k, key); break;
    case 6: kit_purge(s->k, key); break;
    case 7: kit_resubmit(s->k, key, (int32_t)(more % 16) - 1); break;
    }
}

static void take(struct script *s)
{
    const char *name = next_name(s);
    s->k->worker = next(s);
    s->k->is_without_past = s->k->worker % 2 == 0;
    if (next(s) % 2 == 0)
        s->turns[next(s) % SLOTS_N] = kit_take_turn(s->k, name);
    else
        s->tasks[next(s) % SLOTS_N] = kit_take_task(s->k, name);
}

/* Work that was taken, answered before or not: answers may come twice and late. */
static void answer_turn(struct script *s)
{
    const struct effect_work *work = s->turns[next(s) % SLOTS_N];
    struct action actions[4];
    uint8_t shape = next(s);
    if (work == NULL) return;
    if (shape == 255) {
        struct orchestrator_answer answer;
        struct bytes raw = next_raw(s);
        if (orchestrator_answer_decode(raw, &s->k->arena, &answer) == OK) {
            kit_answer_with(s->k, work, &answer);
        }
        return;
    }
    uint32_t n = shape % 5;
    for (uint32_t i = 0; i < n; i++) actions[i] = next_action(s);
    struct orchestrator_answer answer = {.actions = actions, .actions_n = n};
    if (shape & 64) answer.custom_status = maybe_text(next_payload(s));
    if (shape & 128) answer.trace = maybe_some(next_raw(s));
    if (shape & 32) {
        kit_answer_plain(s->k, next_key(s), actions, n);
    } else {
        kit_answer_with(s->k, work, &answer);
    }
}

static void answer_task(struct script *s)
{
    const struct effect_work *work = s->tasks[next(s) % SLOTS_N];
    uint8_t what = next(s);
    const char *key = next_key(s);
    const char *payload = next_payload(s);
    uint8_t more = next(s);
    if (work == NULL) return;
    switch (what % 5) {
    case 0: kit_task_done(s->k, work, payload); break;
    case 1: kit_task_failed(s->k, work, "busy", more % 2 == 0); break;
    case 2: kit_abandon(s->k, work, more % 2 == 0 ? NULL : "refused"); break;
    case 3: kit_renew(s->k, work, more * 10); break;
    case 4: kit_task_done_plain(s->k, key, (int32_t)(more % 16) - 1, payload); break;
    }
}

static void entity(struct script *s)
{
    const char *key = next_key(s);
    const struct effect_work **slot = &s->batches[next(s) % SLOTS_N];
    uint8_t what = next(s);
    const char *payload = next_payload(s);
    switch (what % 6) {
    case 0: kit_signal(s->k, key, "op", payload); break;
    case 1: kit_signal_at(s->k, key, "op", kit_now_ms(s->k) + what * 10); break;
    case 2: *slot = kit_take_entity(s->k, "e"); break;
    case 3:
        if (*slot != NULL) KIT_DONE(s->k, *slot, payload, "", "!no", "x");
        break;
    case 4:
        if (*slot != NULL) kit_abandon(s->k, *slot, "busy");
        break;
    case 5: {
        const struct entity_answer *answer = NULL;
        struct bytes raw = next_raw(s);
        if (*slot != NULL && entity_answer_decode(raw, &s->k->arena, &answer) == OK)
            kit_entity_answer(s->k, *slot, what < 128, answer);
        break;
    }
    }
}

static void network(struct script *s)
{
    uint32_t parcels_n = kit_parcels_n(s->k);
    uint8_t what = next(s);
    s->k->is_held = (what & 128) != 0;
    if (parcels_n == 0) return;
    uint32_t at = next(s) % parcels_n;
    switch (what % 4) {
    case 0: kit_deliver_at(s->k, at); break;
    case 1: kit_drop_at(s->k, at); break;
    case 2: kit_duplicate_at(s->k, at); break;
    case 3: kit_deliver(s->k); break;
    }
}

/* What no partition of ours would send. */
static void forge(struct script *s)
{
    struct input in = {.kind = INPUT_PARTITION_MESSAGE};
    in.message.from = next(s) % 2;
    in.message.seq = ++s->forged_seq + next(s) % 2;
    in.message.kind = (enum message_kind)(next(s) % 11);
    in.message.target = bytes_of_text(next_key(s));
    if (next(s) % 2 == 0) in.message.target = next_raw(s);
    in.message.execution = next(s) % 2 == 0 ? next_raw(s) : BYTES_NONE;
    in.message.event = next_raw(s);
    kit_step(s->k, next(s) % 2, &in);
}

static void one_step(struct script *s)
{
    const char *key = NULL;
    struct instance_view view;
    switch (next(s) % 19) {
    case 0: start(s); break;
    case 1:
    case 2: control(s); break;
    case 3:
    case 4:
    case 5: take(s); break;
    case 6:
    case 7:
    case 8: answer_turn(s); break;
    case 9:
    case 10: answer_task(s); break;
    case 11: kit_tick_by(s->k, next(s) * 16); break;
    case 12: network(s); break;
    case 13: forge(s); break;
    case 14: kit_crash(s->k, next(s) % 2); break;
    case 15:
        key = next_key(s);
        if (kit_view(s->k, key, &view)) kit_evict(s->k, key);
        break;
    default: entity(s); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script s = {.k = kit_new(2, 1), .r = reader_make(bytes_make(data, size))};
    struct policy parks = {.complete_by_ms = 500,
                           .first_threshold = 1,
                           .retry_delay_ms = 50,
                           .retry_delay_max_ms = 100,
                           .second_threshold = 2,
                           .extended_ms = 800,
                           .last_resort = RESORT_PARK,
                           .retries_failures = true};
    struct policy fails = {.complete_by_ms = 300, .retry_delay_ms = 50, .retry_delay_max_ms = 100};
    kit_policy(s.k, "t", parks);
    kit_policy(s.k, "u", fails);
    /* snapshots after every step are slow: every fourth program, and at the end of each */
    s.k->is_thorough = next(&s) % 4 == 0;
    for (int n = 0; n < STEPS_MAX && reader_left(&s.r) > 0; n++) one_step(&s);
    s.k->is_thorough = true;
    kit_tick_once(s.k, s.k->now_ns);
    s.k->parcels = NULL; /* whatever is under way is lost */
    kit_free(s.k);
    return 0;
}

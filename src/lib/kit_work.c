/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece of work from the engine, done on the spot by the same code that a worker's threads run.
 * See kit.h.
 */
#include "lib/kit.h"

#include "base/clock.h"
#include "lib/blocked.h"

#include <sys/stat.h>

static bool copy(struct arena *arena, struct bytes value, struct bytes *out)
{
    *out = arena_copy(arena, value);
    return out->len == value.len;
}

static bool copy_maybe(struct arena *arena, struct maybe value, struct maybe *out)
{
    out->has = value.has;
    return copy(arena, value.value, &out->value);
}

static bool fill_task(struct link_work *work, const struct effect_work *given)
{
    struct event_scheduled scheduled;
    struct bytes event;

    if (!copy(&work->arena, given->scheduled, &event)) return false;
    if (event_scheduled_decode(event, &work->arena, &scheduled) != OK) return false;
    work->task_id = given->ref.task_id;
    work->failures = given->ref.attempt;
    work->input = scheduled.input;
    work->tags = scheduled.tags;
    work->complete_by_ms = given->complete_by_ms;
    return true;
}

static bool fill(struct link_work *work, const struct effect_work *given)
{
    struct arena *arena = &work->arena;

    work->kind = given->ref.kind;
    memcpy(work->execution_id, given->ref.execution_id, EXECUTION_ID_SIZE);
    if (!copy(arena, given->name, &work->name)) return false;
    if (!copy_maybe(arena, given->version, &work->version)) return false;
    if (given->ref.kind == WORK_TASK) return fill_task(work, given);
    work->history_n = given->history_n;
    work->base = given->ref.base;
    work->has_past = given->history_n == 0;
    return copy(arena, given->fresh, &work->fresh) && copy_maybe(arena, given->state, &work->state);
}

struct kit_work *kit_work_new(struct norn_test *t, const struct effect_work *given)
{
    struct kit_work *w = mem_take_zero(&t->mem, sizeof *w);

    if (w == NULL) return NULL;
    assert(given->ref.key.len <= sizeof w->key);
    memcpy(w->key, given->ref.key.ptr, given->ref.key.len);
    w->ref = given->ref;
    w->ref.key = bytes_make(w->key, given->ref.key.len);
    link_work_init(&w->work);
    w->work.port = &t->port;
    w->work.id = key_id(w->ref.key);
    w->work.now_ms = t->now_ms;
    if (fill(&w->work, given)) return w;
    kit_work_free(t, w);
    return NULL;
}

void kit_work_free(struct norn_test *t, struct kit_work *w)
{
    link_work_release(&w->work);
    mem_give(&t->mem, w, sizeof *w);
}

enum status kit_work_answer(struct norn_test *t, struct kit_work *w)
{
    static const enum input_kind kinds[] = {
        [WORK_TURN] = INPUT_WORKER_TURN_DONE,
        [WORK_TASK] = INPUT_WORKER_TASK_DONE,
        [WORK_ENTITY] = INPUT_WORKER_ENTITY_DONE,
    };
    struct input in = {.kind = kinds[w->ref.kind]};

    in.done = (struct input_worker_done){
        .has_ref = true,
        .ref = w->ref,
        .answer = &w->work.answer,
        .result = w->work.result,
        .failure = w->work.failure,
        .entity = &w->work.entity,
    };
    enum status status = kit_step(t, &in);
    kit_work_free(t, w);
    return status;
}

static enum status refuse(struct norn_test *t, struct kit_work *w, const char *what)
{
    kit_say(t, "%s '%.*s' is not registered%s", what, (int)w->work.name.len,
            (const char *)w->work.name.ptr,
            w->work.kind == WORK_TASK ? ", and norn_test_activity() does not say how it answers"
                                      : "");
    kit_work_free(t, w);
    return E_NOT_FOUND;
}

/* ---- turns ---- */

static void drop_hot(struct norn_test *t)
{
    size_t n_max = t->hot.n_max;

    hot_release(&t->hot);
    hot_init(&t->hot, &t->mem, n_max);
}

static bool fetch_past(struct norn_test *t, struct kit_work *w)
{
    struct buffer past;

    if (w->work.has_past) return true;
    buffer_init(&past, &t->mem);
    bool is_there = core_history(t->core, w->ref.key, &past);
    assert(is_there); /* nothing leaves memory */
    bool is_copied = !past.failed && copy(&w->work.arena, buffer_view(&past), &w->work.past);
    buffer_release(&past);
    w->work.has_past = is_copied;
    return is_copied;
}

static enum status find_or_make(struct norn_test *t, struct kit_work *w, struct orchestration **out)
{
    struct link_work *work = &w->work;

    *out = hot_take(&t->hot, work);
    if (*out != NULL) return OK;
    const struct function *f =
        registry_find(&t->worker->registry, WORK_TURN, work->name, work->version);
    if (f == NULL) return E_NOT_FOUND;
    if (!fetch_past(t, w)) return E_NOMEM;
    *out = orchestration_new(&t->env, &f->code, work);
    return *out != NULL ? OK : E_NOMEM;
}

/* Of this process: each is a folder here, which is a link. 0 when nobody knows. */
static uint64_t threads_n(void)
{
    struct stat tasks;

    return stat("/proc/self/task", &tasks) == 0 ? (uint64_t)tasks.st_nlink : 0;
}

/* One that has ended by now is not seen, and one of somebody else's in this moment is; so it is a
 * line, and not a failure. */
static void report_threads(struct norn_test *t, const struct orchestration *o, uint64_t before_n)
{
    if (threads_n() <= before_n) return;
    lines_write(&t->lines,
                "orchestrator '%s' started a thread, or somebody else did during its turn: an "
                "orchestrator must not, because at replay it would be started again; let an "
                "activity do that",
                o->code->name);
}

static enum status do_turn(struct norn_test *t, struct kit_work *w, struct orchestration *o,
                           uint64_t *events_n, bool *has_ended)
{
    struct blocked_probe probe;
    uint64_t before_n = threads_n();

    blocked_begin(&probe);
    int64_t began_ns = clock_mono_ns();
    enum status status = orchestration_turn(o, &w->work, events_n, has_ended);
    blocked_end(&probe, o, began_ns);
    report_threads(t, o, before_n);
    return status;
}

static enum status run_turn(struct norn_test *t, struct kit_work *w)
{
    struct orchestration *o = NULL;
    uint64_t events_n = 0;
    bool has_ended = false;

    t->turns_n++;
    if (t->crash_at == KIT_CRASH_ALWAYS || t->crash_at == t->turns_n) drop_hot(t);
    enum status status = find_or_make(t, w, &o);
    if (status == E_NOT_FOUND) return refuse(t, w, "orchestrator");
    if (status == OK) status = do_turn(t, w, o, &events_n, &has_ended);
    if (status == OK) status = kit_calls_add(t, &w->work.answer);
    if (status != OK) {
        if (o != NULL) orchestration_free(o);
        kit_work_free(t, w);
        return status;
    }
    uint64_t base_next = link_next_base(&w->work, events_n);
    status = kit_work_answer(t, w);
    if (status == OK && !has_ended)
        hot_put(&t->hot, o, base_next);
    else
        orchestration_free(o);
    return status;
}

/* ---- activities ---- */

static const struct norn_test_reply *next_reply(struct norn_test *t, struct bytes name)
{
    for (struct kit_script *s = t->scripts; s != NULL; s = s->next) {
        if (!bytes_equal(s->name, name)) continue;
        size_t at = s->asked_n < s->replies_n ? s->asked_n : s->replies_n - 1;
        s->asked_n++;
        return &s->replies[at];
    }
    return NULL;
}

static bool put_failure(struct link_work *work, const struct norn_test_reply *reply)
{
    struct norn_failure failure = {
        .type = reply->failure_type,
        .message = reply->failure_message,
        .is_final = reply->is_final,
    };
    struct buffer bytes;

    buffer_init(&bytes, &work->mem);
    failure_put(&bytes, &failure);
    bool is_put = !bytes.failed && copy(&work->arena, buffer_view(&bytes), &work->failure.value);
    work->failure.has = true;
    buffer_release(&bytes);
    return is_put;
}

static bool run_reply(struct norn_test *t, struct link_work *work,
                      const struct norn_test_reply *reply)
{
    struct function f = {.kind = WORK_TASK, .activity = reply->fn, .user = reply->user};

    if (reply->failure_type != NULL && reply->fn == NULL) return put_failure(work, reply);
    if (reply->fn == NULL) {
        work->result = maybe_of(reply->output); /* the test's own copy: it lives longer */
        return true;
    }
    f.code.name = arena_text(&work->arena, work->name);
    return f.code.name != NULL && activity_run(&f, work, &t->lines);
}

/* Soonest first; of the same time the older one. */
static void put_off(struct norn_test *t, struct kit_work *w, int64_t delay_ms)
{
    struct list *before = list_first(&t->late);

    w->answer_at_ms =
        delay_ms < 0 || delay_ms > KIT_END_MS - t->now_ms ? INT64_MAX : t->now_ms + delay_ms;
    while (before != NULL &&
           container_of(before, struct kit_work, node)->answer_at_ms <= w->answer_at_ms) {
        before = list_next(&t->late, before);
    }
    list_insert_before(&w->node, before != NULL ? before : &t->late);
}

static enum status run_task(struct norn_test *t, struct kit_work *w)
{
    struct link_work *work = &w->work;
    const struct norn_test_reply *reply = next_reply(t, work->name);
    bool is_done = false;

    if (reply != NULL) {
        is_done = run_reply(t, work, reply);
    } else {
        const struct function *f =
            registry_find(&t->worker->registry, WORK_TASK, work->name, work->version);
        if (f == NULL) return refuse(t, w, "activity");
        is_done = activity_run(f, work, &t->lines);
    }
    if (!is_done) {
        kit_work_free(t, w);
        return E_NOMEM;
    }
    if (reply == NULL || reply->delay_ms == 0) return kit_work_answer(t, w);
    put_off(t, w, reply->delay_ms);
    return OK;
}

/* ---- entities ---- */

static enum status run_entity(struct norn_test *t, struct kit_work *w)
{
    const struct function *f =
        registry_find(&t->worker->registry, WORK_ENTITY, w->work.name, MAYBE_NONE);

    if (f == NULL) return refuse(t, w, "entity");
    if (entity_run(f, &w->work, &t->lines)) return kit_work_answer(t, w);
    kit_work_free(t, w);
    return E_NOMEM;
}

enum status kit_work_run(struct norn_test *t, struct kit_work *w)
{
    switch (w->ref.kind) {
    case WORK_TURN: return run_turn(t, w);
    case WORK_TASK: return run_task(t, w);
    case WORK_ENTITY: return run_entity(t, w);
    }
    unreachable("no such kind of work");
}

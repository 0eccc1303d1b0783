/* SPDX-License-Identifier: Apache-2.0
 *
 * What workers answer: Complete*Task and Abandon*WorkItem.
 *
 * An answer names its work by the completion token it was given, or, from workers that know no
 * tokens, by instance and task id; then it is for whom the work was given to last. Whether it still
 * counts is for the engine to say, which drops what is out of date and answers OK: a worker can do
 * nothing about it, and some of them reconnect or retry on any error.
 *
 * An answer that cannot be used is refused, and its work given back at once: most workers only log
 * the error, and nobody else would ever do it.
 */
#include "base/planted.h"
#include "server/work.h"
#include "wire/pb.h"

/* What an answer says about itself. */
struct answer {
    enum work_kind kind;
    struct bytes message;
    struct bytes instance_id;
    struct bytes token; /* empty = none */
    int32_t task_id;
    bool is_partial;
    bool has_index;
    int32_t index;
    bool wants_again; /* requiresHistory, requiresState */

    /* Whose it is: what the request says, and the lease, when there is one. */
    struct work_ref ref;
    bool has_ref;
    struct lease *lease;
};

/* ---- reading ---- */

/* OrchestratorResponse: 1 instanceId, 4 completionToken, 7 requiresHistory, 8 isPartial,
 * 9 chunkIndex {1} */
static void read_turn_field(const struct pb_field *f, struct answer *a)
{
    struct pb_reader sub;
    struct pb_field part;

    if (f->number == 1) a->instance_id = f->bytes;
    if (f->number == 4) a->token = f->bytes;
    if (f->number == 7) a->wants_again = pb_bool(f);
    if (f->number == 8) a->is_partial = pb_bool(f);
    if (f->number != 9) return;
    a->has_index = true;
    a->index = 0;
    sub = pb_sub(f);
    while (pb_next(&sub, &part)) {
        if (part.number == 1) a->index = pb_int32(&part);
    }
}

/* ActivityResponse: 1 instanceId, 2 taskId, 5 completionToken */
static void read_task_field(const struct pb_field *f, struct answer *a)
{
    if (f->number == 1) a->instance_id = f->bytes;
    if (f->number == 2) a->task_id = pb_int32(f);
    if (f->number == 5) a->token = f->bytes;
}

/* EntityBatchResult: 5 completionToken, 7 requiresState */
static void read_entity_field(const struct pb_field *f, struct answer *a)
{
    if (f->number == 5) a->token = f->bytes;
    if (f->number == 7) a->wants_again = pb_bool(f);
}

/* As far as it can be read: a broken answer should still tell whose it is. */
static struct answer answer_read(enum work_kind kind, struct bytes message)
{
    struct answer a = {.kind = kind, .message = message};
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        switch (kind) {
        case WORK_TURN: read_turn_field(&f, &a); break;
        case WORK_TASK: read_task_field(&f, &a); break;
        case WORK_ENTITY: read_entity_field(&f, &a); break;
        }
    }
    return a;
}

/* ---- whose it is ---- */

enum found { FOUND, FOUND_STALE, FOUND_NAMELESS, FOUND_NOMEM };

/* The work that a token names, if it is of this kind and hub. */
static enum found read_token(struct service *s, struct arena *arena, enum work_kind kind,
                             struct bytes hub, struct bytes token, struct work_ref *ref)
{
    enum status status = token_read(token, desk_engine(s->desk)->mac_key, arena, ref);

    if (status == E_NOMEM) return FOUND_NOMEM;
    if (status != OK || ref->kind != kind || !bytes_equal(key_hub(ref->key), hub)) {
        return FOUND_STALE;
    }
    return FOUND;
}

static bool is_of_connection(const struct lease *lease, const struct grpc_call *call)
{
    const struct work_stream *stream = lease->stream;

    return stream != NULL && stream->call != NULL && grpc_is_beside(stream->call, call);
}

/* Which of the dispatches of a task an answer without token is for. Each has one answer, so none is
 * taken that has one already. Workers answer on the connection that the work came on, and, when
 * they were given it twice, in that order; what came over another one is for the newest. */
static struct lease *choose(struct lease *newest, const struct grpc_call *call)
{
    struct lease *oldest_beside = NULL;
    struct lease *newest_free = NULL;

    for (struct lease *lease = newest; lease != NULL; lease = lease->older) {
        if (lease->is_claimed) continue;
        if (newest_free == NULL) newest_free = lease;
        if (is_of_connection(lease, call)) oldest_beside = lease;
    }
    if (oldest_beside != NULL) return oldest_beside;
    return newest_free != NULL ? newest_free : newest;
}

static enum found answer_find(struct service *s, struct errand *errand, struct bytes hub,
                              struct answer *a)
{
    struct request *request = &errand->request;

    if (a->token.len > 0 && !(planted("ignore_token") && a->instance_id.len > 0)) {
        enum found found = read_token(s, &errand->arena, a->kind, hub, a->token, &a->ref);
        if (found != FOUND) return found;
        a->has_ref = true;
        errand->hash = lease_hash(&s->workers, &a->ref);
        a->lease = lease_of_hashed(&s->workers, &a->ref, errand->hash);
        request->key = a->ref.key;
        return FOUND;
    }
    if (a->instance_id.len == 0) return FOUND_NAMELESS;
    request->key = key_make(&errand->arena, hub, a->instance_id);
    if (request->key.ptr == NULL) return FOUND_NOMEM;
    a->lease = choose(lease_find(&s->workers, a->kind, request->key, a->task_id), errand->call);
    if (a->lease == NULL) return FOUND;
    errand->hash = a->lease->node.hash;
    a->ref = a->lease->ref;
    a->ref.key = request->key;
    a->has_ref = true;
    return FOUND;
}

/* ---- how it ends ---- */

static const struct work_ref *ref_of(const struct request *request)
{
    if (request->kind == REQUEST_ABANDON) return &request->lease.ref;
    return request->worker_done.has_ref ? &request->worker_done.ref : NULL;
}

static void answer_done(struct errand *errand)
{
    struct service *s = errand_service(errand);
    struct work_chunks *chunks = errand->user;
    enum status status = errand->request.status;
    const struct work_ref *ref = ref_of(&errand->request);

    if (work_status_passes(status) && (int64_t)errand->number > s->now_ns &&
        !s->workers.is_stopped) {
        work_post_later(s, errand);
        return;
    }
    /* it may be gone by now: looked for again */
    struct lease *lease = ref == NULL ? NULL : lease_of_hashed(&s->workers, ref, errand->hash);
    if (status == OK) {
        chunks_free(s, chunks);
        if (lease != NULL) lease_end(s, lease);
    } else {
        chunks_return(s, lease, chunks);
        if (lease != NULL) {
            lease->is_complete = lease->is_claimed = false;
            lease_orphan(s, lease);
        }
    }
    errand_answer(errand);
}

static void post_answer(struct service *s, struct errand *errand)
{
    errand->done = answer_done;
    errand->number = (uint64_t)(s->now_ns + WORK_ANSWER_NS);
    work_post(s, errand);
}

/* OK, though nothing is done. */
static void answer_nothing(struct errand *errand)
{
    struct grpc_call *call = errand->call;

    errand_free(errand);
    grpc_answer(call, BYTES_NONE);
}

/* Its work, when it is known, does not stay with a worker that takes it for done. */
static void refuse(struct service *s, struct errand *errand, const struct answer *a,
                   enum status status, const char *reason)
{
    struct grpc_call *call = errand->call;

    errand_free(errand);
    if (status == E_NOMEM) {
        bool is_answered = a->lease != NULL && (a->lease->is_complete || a->lease->is_claimed);
        if (a->lease != NULL && !is_answered) lease_orphan(s, a->lease);
        call_fail_busy(s, call);
        return;
    }
    if (a->lease != NULL) {
        lease_give_back(s, a->lease, status == E_LIMIT ? GIVE_PARKED : GIVE_ABANDONED, reason);
    }
    call_fail(s, call, status == E_INVALID ? GRPC_INVALID_ARGUMENT : GRPC_RESOURCE_EXHAUSTED, "%s",
              reason);
}

/* ---- the three kinds ---- */

static const char *decode_turn(struct errand *errand, struct bytes response, enum status *status)
{
    struct orchestrator_answer *answer = arena_alloc_zero(&errand->arena, sizeof *answer);

    *status = E_NOMEM;
    if (answer == NULL) return "";
    *status = orchestrator_answer_decode(response, &errand->arena, answer);
    errand->request.worker_done.answer = answer;
    if (*status == E_LIMIT) return "the answer has more than 100,000 actions";
    return "the OrchestratorResponse has an action that cannot be read, or one without a kind";
}

/* ActivityResponse: 3 result, 4 failureDetails */
static const char *decode_task(struct errand *errand, struct bytes response, enum status *status)
{
    struct input_worker_done *done = &errand->request.worker_done;
    struct pb_reader r = pb_reader_make(response);
    struct pb_field f;

    *status = OK;
    while (pb_next(&r, &f)) {
        if (f.number == 3) done->result.has = pb_get_string_value(&f, &done->result.value);
        if (f.number == 4) done->failure = maybe_some(f.bytes);
    }
    return "";
}

static const char *decode_entity(struct errand *errand, struct bytes result, enum status *status)
{
    *status = entity_answer_decode(result, &errand->arena, &errand->request.worker_done.entity);
    if (*status == E_LIMIT) return "the answer has too many results or actions";
    return "the EntityBatchResult has a result or an action that cannot be read";
}

struct answer_kind {
    enum request_kind request;
    const ProtobufCMessageDescriptor *type;
    /* Into the request. What is wrong, unless *status is OK. */
    const char *(*decode)(struct errand *errand, struct bytes message, enum status *status);
};

static const struct answer_kind answer_kinds[WORK_KINDS_N] = {
    [WORK_TURN] = {REQUEST_TURN_DONE, &orchestrator_response__descriptor, decode_turn},
    [WORK_TASK] = {REQUEST_TASK_DONE, &activity_response__descriptor, decode_task},
    [WORK_ENTITY] = {REQUEST_ENTITY_DONE, &entity_batch_result__descriptor, decode_entity},
};

/* ---- parts ---- */

static bool is_part(const struct answer *a)
{
    return a->kind == WORK_TURN && (a->is_partial || (a->has_index && a->index > 0));
}

static const char *part_problem(enum status status)
{
    if (status == E_INVALID) return "a part of the answer is missing: chunkIndex goes 0, 1, 2, ...";
    if (status == E_LIMIT) return "the parts of the answer have more than 64 MiB together";
    return "there are too many large answers under way: this work is offered again later";
}

/* Keeps a part. True, with the whole answer in *message and in errand->user, when it was the last
 * one; otherwise the call is finished. */
static bool take_part(struct service *s, struct errand *errand, struct answer *a,
                      struct bytes *message)
{
    struct lease *lease = a->lease;

    /* Nobody has it, so the parts before are gone, or never counted. */
    if (lease == NULL) {
        s->stats.stale_answers++;
        answer_nothing(errand);
        return false;
    }
    if (lease->is_complete) { /* the last part again: its worker did not wait for the answer */
        refuse(s, errand, a, E_NOMEM, "");
        return false;
    }
    int32_t next = lease->chunks == NULL ? 0 : lease->chunks->next;
    enum status status = chunks_add(s, lease, a->has_index ? a->index : next, a->message);
    if (status != OK && status != E_EXISTS) {
        refuse(s, errand, a, status, part_problem(status));
        return false;
    }
    if (a->is_partial || status == E_EXISTS) {
        answer_nothing(errand);
        return false;
    }
    struct work_chunks *chunks = chunks_take(lease);
    lease->is_complete = true;
    errand->user = chunks;
    *message = buffer_view(&chunks->bytes);
    return true;
}

/* ---- complete ---- */

static void post_complete(struct service *s, struct errand *errand, struct answer *a)
{
    struct input_worker_done *done = &errand->request.worker_done;
    struct bytes message = a->message;
    enum status status;

    if (is_part(a)) {
        if (!take_part(s, errand, a, &message)) return;
    } else {
        message = arena_copy(&errand->arena, a->message);
        if (message.len != a->message.len) {
            refuse(s, errand, a, E_NOMEM, "");
            return;
        }
    }
    done->has_ref = a->has_ref;
    done->ref = a->ref;
    done->key = errand->request.key;
    done->task_id = a->task_id;
    const char *problem = answer_kinds[a->kind].decode(errand, message, &status);
    if (status != OK) {
        chunks_free(s, errand->user);
        if (a->lease != NULL) a->lease->is_complete = false;
        refuse(s, errand, a, status, problem);
        return;
    }
    /* Two answers that name the same task are for two dispatches of it. */
    if (a->lease != NULL && a->token.len == 0) a->lease->is_claimed = true;
    post_answer(s, errand);
}

static void complete(struct service *s, struct grpc_call *call, enum work_kind kind,
                     struct bytes message)
{
    struct answer a = answer_read(kind, message);
    struct bytes hub;

    if (!call_hub(s, call, &hub)) return;
    struct errand *errand = errand_new(s->desk, answer_kinds[kind].request, call);
    if (errand == NULL) {
        call_fail_busy(s, call);
        return;
    }
    enum found found = answer_find(s, errand, hub, &a);
    if (found == FOUND_NOMEM) {
        refuse(s, errand, &a, E_NOMEM, "");
    } else if (!call_check(s, call, answer_kinds[kind].type, message)) {
        errand_free(errand);
        if (a.lease != NULL) {
            lease_give_back(s, a.lease, GIVE_ABANDONED, "the worker's answer was malformed");
        }
    } else if (found == FOUND_NAMELESS) {
        refuse(s, errand, &a, E_INVALID,
               "the answer names no work: it has neither completionToken nor instanceId");
    } else if (found == FOUND_STALE) {
        s->stats.stale_answers++;
        answer_nothing(errand);
    } else if (a.wants_again) {
        /* It had everything. Another try, perhaps by another worker, is all that can be done. */
        answer_nothing(errand);
        if (a.lease != NULL) {
            lease_give_back(s, a.lease, GIVE_ABANDONED, "the worker asked for what it was given");
        }
    } else {
        post_complete(s, errand, &a);
    }
}

void rpc_complete_orchestrator(struct service *s, struct grpc_call *call, struct bytes message)
{
    complete(s, call, WORK_TURN, message);
}

void rpc_complete_activity(struct service *s, struct grpc_call *call, struct bytes message)
{
    complete(s, call, WORK_TASK, message);
}

void rpc_complete_entity(struct service *s, struct grpc_call *call, struct bytes message)
{
    complete(s, call, WORK_ENTITY, message);
}

/* ---- abandon ---- */

/* All three requests: 1 completionToken. */
static struct bytes abandoned_token(struct bytes message)
{
    struct pb_reader r = pb_reader_make(message);
    struct bytes token = BYTES_NONE;
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1) token = f.bytes;
    }
    return token;
}

static void abandon(struct service *s, struct grpc_call *call, enum work_kind kind,
                    const ProtobufCMessageDescriptor *type, struct bytes message)
{
    struct bytes hub;
    struct work_ref ref;

    if (!call_check(s, call, type, message)) return;
    if (!call_hub(s, call, &hub)) return;
    struct errand *errand = errand_new(s->desk, REQUEST_ABANDON, call);
    if (errand == NULL) {
        call_fail_busy(s, call);
        return;
    }
    struct bytes token = abandoned_token(message);
    enum found found = read_token(s, &errand->arena, kind, hub, token, &ref);
    if (found == FOUND_NOMEM) {
        errand_free(errand);
        call_fail_busy(s, call);
    } else if (found != FOUND) {
        s->stats.stale_answers++;
        answer_nothing(errand);
    } else {
        errand->request.key = ref.key;
        errand->hash = lease_hash(&s->workers, &ref);
        errand->request.lease.ref = ref;
        errand->request.lease.reason = BYTES_LITERAL("abandoned by the worker");
        post_answer(s, errand);
    }
}

void rpc_abandon_activity(struct service *s, struct grpc_call *call, struct bytes message)
{
    abandon(s, call, WORK_TASK, &abandon_activity_task_request__descriptor, message);
}

void rpc_abandon_orchestrator(struct service *s, struct grpc_call *call, struct bytes message)
{
    abandon(s, call, WORK_TURN, &abandon_orchestration_task_request__descriptor, message);
}

void rpc_abandon_entity(struct service *s, struct grpc_call *call, struct bytes message)
{
    abandon(s, call, WORK_ENTITY, &abandon_entity_task_request__descriptor, message);
}

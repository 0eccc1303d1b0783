/* SPDX-License-Identifier: Apache-2.0
 *
 * WaitForInstanceStart and WaitForInstanceCompletion. A waiting call costs one errand with the key;
 * the engine answers it when the instance is there. When its caller goes away the call ends at
 * once, and the errand when the engine has answered the CANCEL: until then the engine has it.
 *
 *      waiting ──answered──> freed
 *         │ caller gone, drain
 *         v
 *      its call is finished ──CANCEL posted──> answered E_TIMEOUT ──> freed
 *                      │ the engine is full
 *                      └─> uncancelled, tried again at the next tick
 */
#include "server/state.h"

/* Behind grpc_user(); in the errand's arena. */
struct wait {
    struct call_user user;
    struct errand *errand;
};

static void on_answer(struct errand *errand)
{
    struct service *s = errand_service(errand);

    if (list_is_linked(&errand->of_user)) list_remove(&errand->of_user);
    if (errand->call != NULL) s->stats.waiting_n--;
    errand_answer(errand);
}

/* A waiting errand keeps the key and nothing else: thousands of them wait. */
static void wait_post(struct service *s, struct errand *errand, struct bytes hub, struct bytes id)
{
    struct grpc_call *call = errand->call;
    uint8_t key[512];
    size_t size = hub.len + 1 + id.len;

    if (size > sizeof key) {
        call_fail(s, call, GRPC_INVALID_ARGUMENT, "the instance id is too long: at most 256 bytes");
        errand_free(errand);
        return;
    }
    memcpy(key, hub.ptr, hub.len);
    key[hub.len] = '/';
    if (id.len > 0) memcpy(key + hub.len + 1, id.ptr, id.len);
    arena_release(&errand->arena);
    arena_init(&errand->arena, &errand->mem, size + sizeof(struct wait) + 64);
    buffer_release(&errand->reply);

    struct wait *wait = arena_alloc_zero(&errand->arena, sizeof *wait);
    errand->request.key = arena_copy(&errand->arena, bytes_make(key, size));
    if (wait == NULL || errand->request.key.ptr == NULL || !errand_post(errand, -1)) {
        call_fail_busy(s, call);
        errand_free(errand);
        return;
    }
    wait->user.kind = CALL_WAIT;
    wait->errand = errand;
    grpc_set_user(call, wait);
    list_push_back(&s->waiting, &errand->of_user);
    s->stats.waiting_n++;
}

static void wait_begin(struct service *s, struct grpc_call *call, struct bytes message,
                       bool until_finished)
{
    struct bytes hub;
    struct bytes id;
    struct errand *errand = call_begin_get(s, call, REQUEST_WAIT, message, &hub, &id);

    if (errand == NULL) return;
    errand->request.wait.until_finished = until_finished;
    errand->done = on_answer;
    wait_post(s, errand, hub, id);
}

void rpc_wait_start(struct service *s, struct grpc_call *call, struct bytes message)
{
    wait_begin(s, call, message, false);
}

void rpc_wait_completion(struct service *s, struct grpc_call *call, struct bytes message)
{
    wait_begin(s, call, message, true);
}

/* ---- the caller is gone ---- */

/* Takes it from its call, which the caller finishes. */
static void wait_cancel(struct service *s, struct errand *errand)
{
    grpc_set_user(errand->call, NULL);
    errand->call = NULL;
    s->stats.waiting_n--;
    list_remove(&errand->of_user);
    if (!errand_cancel(errand)) list_push_back(&s->uncancelled, &errand->of_user);
}

void wait_closed(struct service *s, struct grpc_call *call)
{
    const struct wait *wait = grpc_user(call);

    wait_cancel(s, wait->errand);
    grpc_finish(call, GRPC_CANCELLED, NULL); /* nobody reads it: it frees the slot */
}

void waits_drain(struct service *s)
{
    struct list *node;

    while ((node = list_first(&s->waiting)) != NULL) {
        struct errand *errand = container_of(node, struct errand, of_user);
        struct grpc_call *call = errand->call;
        wait_cancel(s, errand);
        call_fail(s, call, GRPC_UNAVAILABLE, "the server is shutting down: ask again");
    }
}

bool waits_retry(struct service *s)
{
    struct list *node;

    while ((node = list_first(&s->uncancelled)) != NULL) {
        struct errand *errand = container_of(node, struct errand, of_user);
        if (!errand_cancel(errand)) return false;
        list_remove(node);
    }
    return true;
}

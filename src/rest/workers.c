/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/workers: who takes work now: gRPC streams, and polls that wait. A poll that was answered
 * is in no list, whatever its agent does with the work.
 */
#include "rest/agents.h"

#include "host/dispatcher.h"

struct listing {
    struct ask *ask;
    struct json j;
};

static void write_since(struct listing *l, int64_t opened_ns)
{
    write_time_of(&l->j, "since", rest_wall_ns() - (rest_now(l->ask) - opened_ns));
}

static void write_names(struct json *j, const struct worker_filter *filters, size_t n)
{
    for (size_t i = 0; i < n; i++) json_bytes(j, filters[i].name);
}

static void write_in_flight(struct json *j, const uint32_t in_flight[WORK_KINDS_N])
{
    json_key(j, "inFlight");
    json_object_begin(j);
    json_key(j, "turns");
    json_uint64(j, in_flight[WORK_TURN]);
    json_key(j, "tasks");
    json_uint64(j, in_flight[WORK_TASK]);
    json_key(j, "entities");
    json_uint64(j, in_flight[WORK_ENTITY]);
    json_object_end(j);
}

static void write_head(struct listing *l, uint32_t id, const char *kind, struct bytes hub)
{
    json_object_begin(&l->j);
    json_key(&l->j, "id");
    json_uint64(&l->j, id);
    json_key(&l->j, "kind");
    json_text(&l->j, kind);
    json_key(&l->j, "hub");
    json_bytes(&l->j, hub);
}

static void write_stream(void *user, const struct service_worker *view)
{
    struct listing *l = user;
    const struct worker *w = view->worker;

    write_head(l, view->id, "grpc", w->hub);
    if (w->name.len > 0) write_text_of(&l->j, "worker", w->name);
    if (w->has_filters) { /* without, it takes everything */
        json_key(&l->j, "names");
        json_array_begin(&l->j);
        write_names(&l->j, w->turn_filters, w->turn_filters_n);
        write_names(&l->j, w->task_filters, w->task_filters_n);
        write_names(&l->j, w->entity_filters, w->entity_filters_n);
        json_array_end(&l->j);
    }
    write_in_flight(&l->j, view->in_flight);
    write_since(l, view->opened_ns);
    json_object_end(&l->j);
}

static void write_agent(void *user, const struct agent_view *view)
{
    struct listing *l = user;
    const uint32_t nothing[WORK_KINDS_N] = {0};

    write_head(l, view->id, "http", view->hub);
    if (view->worker.len > 0) write_text_of(&l->j, "worker", view->worker);
    json_key(&l->j, "names");
    json_array_begin(&l->j);
    json_bytes(&l->j, view->name);
    json_array_end(&l->j);
    write_in_flight(&l->j, nothing);
    write_since(l, view->since_ns);
    json_object_end(&l->j);
}

static void get_workers(struct ask *ask)
{
    struct listing l = {.ask = ask};

    buffer_clear(&ask->text);
    json_init(&l.j, &ask->text);
    json_object_begin(&l.j);
    json_key(&l.j, "items");
    json_array_begin(&l.j);
    if (ask->rest->options.service != NULL)
        service_each_worker(ask->rest->options.service, write_stream, &l);
    agents_each(ask->rest->agents, write_agent, &l);
    json_array_end(&l.j);
    json_object_end(&l.j);
    if (ask->text.failed)
        ask_busy(ask);
    else
        ask_json(ask, 200, buffer_view(&ask->text));
}

const struct route routes_workers[] = {
    {"GET", "/v1/workers", get_workers, NULL, ROUTE_PLAIN, "listWorkers"},
    {0},
};

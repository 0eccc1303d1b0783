/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/stats: what `norn top` shows, and /openapi.json. Counters only grow; who wants rates asks
 * twice.
 */
#include "rest/state.h"

#include "host/host.h"

struct stats_wait {
    struct vitals_asker asker;
    struct ask *ask;
};

static void put_number(struct json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_uint64(j, value);
}

static void put_counters(struct json *j, const struct host_stats *h)
{
    json_key(j, "counters");
    json_object_begin(j);
    put_number(j, "started", h->core.started);
    put_number(j, "finished", h->core.finished);
    put_number(j, "turns", h->core.turns);
    put_number(j, "tasksDone", h->core.tasks_done);
    put_number(j, "timersFired", h->core.timers_fired);
    put_number(j, "entityBatches", h->core.entity_batches);
    put_number(j, "staleAnswers", h->core.stale_answers);
    put_number(j, "lateAnswers", h->core.late_answers);
    put_number(j, "droppedMessages", h->core.dropped_messages);
    put_number(j, "alerts", h->core.alerts);
    put_number(j, "requests", h->requests);
    put_number(j, "frames", h->frames);
    put_number(j, "frameBytes", h->frame_bytes);
    put_number(j, "deferred", h->deferred);
    put_number(j, "admitted", h->admitted);
    put_number(j, "evicted", h->evicted);
    put_number(j, "loaded", h->loaded);
    json_object_end(j);
}

static void put_gauges(struct json *j, const struct host_stats *h)
{
    json_key(j, "instances");
    json_object_begin(j);
    put_number(j, "pending", h->gauges.pending);
    put_number(j, "running", h->gauges.running);
    put_number(j, "suspended", h->gauges.suspended);
    put_number(j, "ended", h->gauges.ended);
    put_number(j, "entities", h->gauges.entities);
    put_number(j, "parked", h->gauges.parked);
    put_number(j, "active", h->active);
    put_number(j, "inMemory", h->instances_hot);
    put_number(j, "archived", h->instances_archived);
    json_object_end(j);
    json_key(j, "backlog");
    json_object_begin(j);
    put_number(j, "waiting", h->backlog);
    put_number(j, "bytes", h->backlog_size);
    put_number(j, "oldestMs", (uint64_t)h->backlog_age_ms);
    if (h->held_by != NULL) {
        json_key(j, "heldBy");
        json_text(j, h->held_by);
    }
    json_object_end(j);
    json_key(j, "work");
    json_object_begin(j);
    put_number(j, "turns", h->gauges.ready[WORK_TURN]);
    put_number(j, "tasks", h->gauges.ready[WORK_TASK]);
    put_number(j, "entities", h->gauges.ready[WORK_ENTITY]);
    json_object_end(j);
    json_key(j, "store");
    json_object_begin(j);
    put_number(j, "journalBytes", h->journal_bytes);
    put_number(j, "memoryBytes", h->mem_used);
    put_number(j, "commitP50Us", histogram_at(&h->commit_ns, 500) / 1000);
    put_number(j, "commitP99Us", histogram_at(&h->commit_ns, 990) / 1000);
    if (h->disk_free != UINT64_MAX) put_number(j, "diskFreeBytes", h->disk_free);
    json_key(j, "isDiskFull");
    json_bool(j, h->is_disk_full);
    json_object_end(j);
}

static void put_service(struct json *j, const struct rest *r)
{
    struct service_stats stats = {0};

    if (r->options.service != NULL) service_stats(r->options.service, &stats);
    json_key(j, "service");
    json_object_begin(j);
    put_number(j, "grpcCalls", stats.calls);
    put_number(j, "grpcFailed", stats.failed);
    put_number(j, "workers", stats.workers_n);
    put_number(j, "workInFlight", stats.leases_n);
    put_number(j, "httpRequests", r->stats.requests);
    put_number(j, "httpOpen", r->stats.open_n);
    json_key(j, "httpAnswers");
    json_object_begin(j);
    put_number(j, "2xx", r->stats.answers[2]);
    put_number(j, "3xx", r->stats.answers[3]);
    put_number(j, "4xx", r->stats.answers[4]);
    put_number(j, "5xx", r->stats.answers[5]);
    json_object_end(j);
    json_object_end(j);
}

static void on_vitals(struct vitals_asker *asker, const struct host_stats *stats)
{
    struct ask *ask = container_of(asker, struct stats_wait, asker)->ask;
    struct json j;

    if (stats == NULL) {
        ask_problem(ask, PROBLEM_TOO_BUSY, "try again in a moment", "the engine does not answer");
        return;
    }
    buffer_clear(&ask->text);
    json_init(&j, &ask->text);
    json_object_begin(&j);
    write_time_of(&j, "time", rest_wall_ns());
    put_counters(&j, stats);
    put_gauges(&j, stats);
    put_service(&j, ask->rest);
    json_object_end(&j);
    if (ask->text.failed)
        ask_busy(ask);
    else
        ask_json(ask, 200, buffer_view(&ask->text));
}

static void get_stats(struct ask *ask)
{
    struct stats_wait *wait = arena_alloc_zero(&ask->arena, sizeof *wait);

    if (wait == NULL) {
        ask_busy(ask);
        return;
    }
    wait->ask = ask;
    wait->asker.answer = on_vitals;
    vitals_ask(ask->rest->options.vitals, rest_now(ask), &wait->asker);
}

static void get_openapi(struct ask *ask) { ask_json(ask, 200, rest_openapi()); }

const struct route routes_stats[] = {
    {"GET", "/v1/stats", get_stats, NULL, ROUTE_PLAIN, "getStats"},
    {"GET", "/openapi.json", get_openapi, NULL, ROUTE_PLAIN, "getOpenapi"},
    {0},
};

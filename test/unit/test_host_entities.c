/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities in a host: signalled, worked on, archived, listed and recovered as any instance, and
 * never mistaken for an orchestration.
 */
#include "test/unit/host_world.h"

static enum status signal_at(struct world *w, const char *id, const char *operation, int64_t at_ms)
{
    struct ask a;

    ask_init(&a, w, REQUEST_SIGNAL, id);
    a.request.signal.operation = bytes_of_text(operation);
    a.request.signal.has_scheduled = at_ms != 0;
    a.request.signal.scheduled_ms = at_ms;
    ask_run(&a);
    EXPECT(a.is_done);
    return a.request.status;
}

static enum status signal(struct world *w, const char *id) { return signal_at(w, id, "add", 0); }

/* "3" or "none", with "+n" for a backlog of n. */
static char seen[64];
static void see(struct request *r)
{
    const struct instance_view *v = r->view;

    (void)snprintf(seen, sizeof seen, "none");
    if (v != NULL && v->entity_state.has) {
        (void)snprintf(seen, sizeof seen, "%.*s", (int)v->entity_state.value.len,
                       (const char *)v->entity_state.value.ptr);
    }
    if (v != NULL && v->backlog_n > 0) {
        size_t len = strlen(seen);
        (void)snprintf(seen + len, sizeof seen - len, "+%u", v->backlog_n);
    }
    ask_done(r);
}

static const char *state_of(struct world *w, const char *id)
{
    struct ask a;

    ask_init(&a, w, REQUEST_GET, id);
    a.request.done = see;
    ask_run(&a);
    EXPECT(a.is_done);
    EXPECT_STATUS(OK, a.request.status);
    return seen;
}

static void archive_all(struct world *w)
{
    world_advance_ms(w, 2 * w->options.idle_evict_ms);
    EXPECT_EQ(0, world_stats(w).instances_hot);
}

/* Through eviction and crash, the state is what was acknowledged. */
TEST(an_entity_survives_eviction_and_crash)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, signal(&w, "@counter@a"));
    EXPECT_STATUS(OK, signal(&w, "@counter@a"));
    EXPECT_TEXT("2", state_of(&w, "@counter@a"));
    archive_all(&w);
    EXPECT_TEXT("2", state_of(&w, "@counter@a"));
    EXPECT_STATUS(OK, signal(&w, "@counter@a"));
    EXPECT_TEXT("3", state_of(&w, "@counter@a"));
    world_crash(&w);
    world_open(&w);
    EXPECT_TEXT("3", state_of(&w, "@counter@a"));
    EXPECT_STATUS(E_INVALID, signal(&w, "@counter"));
    world_release(&w);
}

/* What a worker held when the process went is given again. */
TEST(a_batch_that_was_out_is_given_again)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    w.holds_work = true;
    EXPECT_STATUS(OK, signal(&w, "@counter@a"));
    EXPECT_TEXT("none+1", state_of(&w, "@counter@a"));
    world_crash(&w);
    w.holds_work = false;
    world_open(&w);
    world_pump(&w);
    EXPECT_TEXT("1", state_of(&w, "@counter@a"));
    world_release(&w);
}

/* A signal that waits for its time wakes its entity from the archive. */
TEST(a_sleeping_entity_wakes_for_its_signal)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, signal(&w, "@counter@a"));
    EXPECT_STATUS(OK, signal_at(&w, "@counter@a", "add", w.now_ns / NS_PER_MS + NAP_MS));
    archive_all(&w);
    EXPECT_TEXT("1+1", state_of(&w, "@counter@a"));
    world_crash(&w);
    world_open(&w);
    world_advance_ms(&w, NAP_MS + 1000);
    EXPECT_TEXT("2", state_of(&w, "@counter@a"));
    world_release(&w);
}

/* An entity that is deleted leaves nothing, in memory and in the archive, and can begin again. */
TEST(a_deleted_entity_is_gone_everywhere)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, signal(&w, "@counter@a"));
    archive_all(&w);
    EXPECT_STATUS(OK, signal_at(&w, "@counter@a", "forget", 0));
    EXPECT_TEXT("none", state_of(&w, "@counter@a"));
    archive_all(&w);
    world_crash(&w);
    world_open(&w);
    EXPECT_TEXT("none", state_of(&w, "@counter@a"));
    EXPECT_STATUS(OK, signal(&w, "@counter@a"));
    EXPECT_TEXT("1", state_of(&w, "@counter@a"));
    world_release(&w);
}

static bool has_payloads;
static void see_rows(struct request *r)
{
    has_payloads = r->rows_n > 0;
    for (size_t i = 0; i < r->rows_n; i++) {
        EXPECT(r->rows[i].is_entity == r->query.entities);
        if (r->rows[i].entity_state.value.len == 0) has_payloads = false;
    }
    ask_done(r);
}

static const char *list(struct world *w, struct request_query query)
{
    static struct ask a;

    ask_init(&a, w, REQUEST_QUERY, "");
    a.request.query = query;
    a.request.query.hub = BYTES_LITERAL("h");
    if (query.limit == 0) a.request.query.limit = 100;
    a.request.done = see_rows;
    ask_run(&a);
    EXPECT(a.is_done);
    EXPECT_STATUS(OK, a.request.status);
    return a.rows;
}

/* The two kinds never meet in a list, wherever each one is. */
TEST(entities_and_orchestrations_are_listed_apart)
{
    struct world w;
    struct request_query entities = {.entities = true};
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, signal(&w, "@counter@old"));
    EXPECT_STATUS(OK, world_start(&w, "old", "seq1"));
    archive_all(&w);
    int64_t middle_ms = w.now_ns / NS_PER_MS;
    EXPECT_STATUS(OK, signal(&w, "@counter@new"));
    EXPECT_STATUS(OK, world_start(&w, "new", "wait"));
    EXPECT_STATUS(OK, signal_at(&w, "@other@later", "add", middle_ms + NAP_MS));

    EXPECT_TEXT("old new ", list(&w, (struct request_query){0}));
    EXPECT_TEXT("", list(&w, (struct request_query){.id_prefix = BYTES_LITERAL("@")}));
    EXPECT_TEXT("@counter@old @counter@new ", list(&w, entities));
    EXPECT(!has_payloads);
    entities.want_payloads = true;
    EXPECT_TEXT("@counter@old @counter@new ", list(&w, entities));
    EXPECT(has_payloads);
    entities.want_transient = true;
    EXPECT_TEXT("@counter@old @counter@new @other@later ", list(&w, entities));
    entities.id_prefix = BYTES_LITERAL("@other@");
    EXPECT_TEXT("@other@later ", list(&w, entities));
    entities = (struct request_query){.entities = true, .from_ms = middle_ms};
    EXPECT_TEXT("@counter@new ", list(&w, entities));
    entities = (struct request_query){.entities = true, .to_ms = middle_ms};
    EXPECT_TEXT("@counter@old ", list(&w, entities));
    EXPECT_STATUS(OK, signal(&w, "@counter@old")); /* changed again: no longer an old one */
    EXPECT_TEXT("", list(&w, entities));
    world_release(&w);
}

/* What is for orchestrations is refused in words; purging needs force. */
TEST(an_entity_is_not_purged_by_mistake)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, signal(&w, "@counter@a"));
    ask_init(&a, &w, REQUEST_PURGE, "@counter@a");
    ask_run(&a);
    EXPECT_STATUS(E_PRECONDITION, a.request.status);
    ask_init(&a, &w, REQUEST_TERMINATE, "@counter@a");
    ask_run(&a);
    EXPECT_STATUS(E_INVALID, a.request.status);
    EXPECT_TEXT("1", state_of(&w, "@counter@a"));
    EXPECT_STATUS(E_INVALID, world_start(&w, "@counter@a", "seq1"));
    world_release(&w);
}

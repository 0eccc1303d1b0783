/* SPDX-License-Identifier: Apache-2.0
 *
 * Many instances started and waited for together: each has its own status, and nobody waits for
 * ever.
 */
#include "lib_world.h"

#include "lib/memory.h"

#define MANY 600 /* more than two parts of a call */

static norn_status echo(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)user;
    *output = joined(ctx, "", input);
    return NORN_OK;
}

static norn_status sleeper(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    (void)input;
    (void)user;
    return norn_wait_event(ctx, "go", -1, output);
}

static void begin(struct world *w)
{
    world_open(w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "echo", NULL, echo, NULL));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "sleeper", NULL, sleeper, NULL));
    world_start(w);
}

struct lent {
    struct norn_start_options options;
    char id[40];
};

static struct norn_job job_of(const char *name, const char *input, struct lent *lent)
{
    struct norn_job job = {.name = name, .input = norn_text(input), .status = NORN_E_FAILED};
    if (lent == NULL) return job;
    lent->options.size = sizeof lent->options;
    lent->options.id = lent->id;
    job.options = &lent->options;
    return job;
}

static norn_status keep_event(void *user, struct norn_bytes event)
{
    char *text = user;
    size_t len = strlen(text);
    snprintf(text + len, 4000 - len, "%.*s\n", (int)event.len, (const char *)event.ptr);
    return NORN_OK;
}

/* Those with n % 3 == 1 have a tag, "tag-n". */
static void expect_tags(struct world *w, const struct norn_job *job, int n)
{
    char text[4000] = "", tag[24];
    EXPECT_NORN(NORN_OK, norn_history(w->client, job->id, keep_event, text));
    snprintf(tag, sizeof tag, "\"tag-%d\"", n);
    EXPECT((strstr(text, tag) != NULL) == (n % 3 == 1));
    const char *found = strstr(text, "\"tag-");
    if (n % 3 == 1)
        EXPECT(found != NULL && strstr(found + 1, "\"tag-") == NULL);
    else
        EXPECT(found == NULL);
}

/* Every job gets its own input, id and tags, whichever part of the call it is in. */
TEST(many_jobs_are_started_and_end)
{
    static struct norn_job jobs[MANY];
    static struct lent lent[MANY];
    static char inputs[MANY][16];
    static char values[MANY][16];
    static const char *tags[MANY][3];
    struct world w;
    begin(&w);
    for (int n = 0; n < MANY; n++) {
        snprintf(inputs[n], sizeof inputs[n], "\"%d\"", n);
        snprintf(lent[n].id, sizeof lent[n].id, "j-%d", n);
        jobs[n] = job_of("echo", inputs[n], n % 3 == 0 ? NULL : &lent[n]);
        if (n % 3 != 1) continue;
        snprintf(values[n], sizeof values[n], "tag-%d", n);
        tags[n][0] = "number";
        tags[n][1] = values[n];
        lent[n].options.tags = tags[n];
    }
    EXPECT_NORN(NORN_OK, norn_start_many(w.client, jobs, MANY));
    EXPECT_NORN(NORN_OK, norn_wait_many(w.client, jobs, MANY, WAIT_MS));
    for (int n = 0; n < MANY; n++) {
        struct norn_info *info = NULL;
        EXPECT_NORN(NORN_OK, jobs[n].status);
        if (n % 3 != 0) EXPECT_TEXT(lent[n].id, jobs[n].id);
        EXPECT_NORN(NORN_OK, norn_get(w.client, jobs[n].id, 0, &info));
        EXPECT_EQ(NORN_COMPLETED, info->state);
        EXPECT_TEXT(inputs[n], (const char *)info->output.ptr);
        norn_info_free(info);
        if (n < 6 || n > MANY - 6) expect_tags(&w, &jobs[n], n);
    }
    world_close(&w);
}

TEST(a_job_that_fails_fails_alone)
{
    struct lent lent[4] = {{.id = "taken"}, {.id = "free"}, {.id = "late"}, {.id = ""}};
    struct norn_job jobs[4];
    struct world w;
    begin(&w);
    world_begin(&w, "sleeper", "taken", NULL);
    jobs[0] = job_of("echo", "0", &lent[0]);
    lent[0].options.reuse = NORN_REUSE_NEVER;
    jobs[1] = job_of(NULL, "1", &lent[1]);
    jobs[2] = job_of("echo", "2", &lent[2]);
    jobs[3] = job_of("", "3", NULL);
    EXPECT_NORN(NORN_E_EXISTS, norn_start_many(w.client, jobs, 4));
    EXPECT(norn_client_error(w.client)[0] != '\0');
    EXPECT_NORN(NORN_E_EXISTS, jobs[0].status);
    EXPECT_NORN(NORN_E_INVALID, jobs[1].status);
    EXPECT_NORN(NORN_OK, jobs[2].status);
    EXPECT_NORN(NORN_E_INVALID, jobs[3].status);

    /* those that were not started are not waited for: "taken" has not ended */
    EXPECT_NORN(NORN_OK, norn_wait_many(w.client, jobs, 4, WAIT_MS));
    EXPECT_NORN(NORN_E_EXISTS, jobs[0].status);
    EXPECT_NORN(NORN_OK, jobs[2].status);
    world_expect_output(&w, "late", "2");

    snprintf(jobs[1].id, sizeof jobs[1].id, "nobody");
    jobs[1].status = NORN_OK;
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_wait_many(w.client, jobs, 4, -1));
    EXPECT_NORN(NORN_E_NOT_FOUND, jobs[1].status);
    EXPECT_NORN(NORN_OK, jobs[2].status);

    EXPECT_NORN(NORN_OK, norn_start_many(w.client, NULL, 0));
    EXPECT_NORN(NORN_OK, norn_wait_many(w.client, NULL, 0, -1));
    EXPECT_NORN(NORN_E_INVALID, norn_start_many(NULL, jobs, 1));
    EXPECT_NORN(NORN_E_INVALID, norn_start_many(w.client, NULL, 1));
    EXPECT_NORN(NORN_E_INVALID, norn_wait_many(w.client, NULL, 1, -1));
    world_close(&w);
}

/* Its request must be gone when the call returns: the memory that it borrows is. */
TEST(the_time_is_over_for_those_that_have_not_ended)
{
    struct lent lent[3] = {{.id = "a"}, {.id = "b"}, {.id = "c"}};
    struct norn_job jobs[3];
    struct world w;
    begin(&w);
    for (int n = 0; n < 3; n++) jobs[n] = job_of(n == 1 ? "echo" : "sleeper", "1", &lent[n]);
    EXPECT_NORN(NORN_OK, norn_start_many(w.client, jobs, 3));
    world_expect_output(&w, "b", "1");
    EXPECT_NORN(NORN_E_TIMEOUT, norn_wait_many(w.client, jobs, 3, 30));
    EXPECT_NORN(NORN_E_TIMEOUT, jobs[0].status);
    EXPECT_NORN(NORN_OK, jobs[1].status);
    EXPECT_NORN(NORN_E_TIMEOUT, jobs[2].status);

    jobs[0].status = jobs[2].status = NORN_OK;
    EXPECT_NORN(NORN_E_TIMEOUT, norn_wait_many(w.client, jobs, 3, 0));
    jobs[0].status = jobs[2].status = NORN_OK;
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "a", "go", norn_text("1")));
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "c", "go", norn_text("1")));
    EXPECT_NORN(NORN_OK, norn_wait_many(w.client, jobs, 3, WAIT_MS));
    world_close(&w);
}

TEST(many_jobs_without_memory_are_a_status)
{
    const char *tags[] = {"a", "1", NULL};
    struct lent lent[2] = {{.id = "x"}, {.id = "y"}};
    struct norn_job jobs[2];
    struct world w;
    if (getenv("NORN") != NULL) return;
    begin(&w);
    world_close_worker(&w); /* it asks for memory, too */
    for (uint64_t n = 1; n < 100; n++) {
        for (int i = 0; i < 2; i++) {
            jobs[i] = job_of("echo", "1", &lent[i]);
            lent[i].options.tags = tags;
            lent[i].options.reuse = NORN_REUSE_KEEP;
        }
        memory_fail_at = n;
        norn_status status = norn_start_many(w.client, jobs, 2);
        bool has_started = status == NORN_OK;
        if (has_started) status = norn_wait_many(w.client, jobs, 2, 1);
        bool is_over = memory_fail_at > 0;
        memory_fail_at = 0;
        EXPECT_NORN(is_over ? NORN_E_TIMEOUT : NORN_E_NOMEM, status);
        if (!is_over) continue;
        EXPECT(n > 4);
        world_close(&w);
        return;
    }
    test_fail(__FILE__, __LINE__, "it never succeeded");
}

/* Several clients' crowds are answered by the same thread. */
static struct world *shared;
static void *start_and_wait(void *user)
{
    struct norn_job jobs[40];
    for (int round = 0; round < 5; round++) {
        for (int n = 0; n < 40; n++) jobs[n] = job_of("echo", "1", NULL);
        if (norn_start_many(shared->client, jobs, 40) != NORN_OK) return user;
        /* a time that is over while they end, too */
        norn_status status = norn_wait_many(shared->client, jobs, 40, round % 2 == 0 ? -1 : 3);
        if (status != NORN_OK && (round % 2 == 0 || status != NORN_E_TIMEOUT)) return user;
    }
    return NULL;
}

TEST(threads_wait_for_their_own_jobs)
{
    static char name[] = "failed";
    pthread_t threads[4];
    struct world w;
    begin(&w);
    shared = &w;
    for (int n = 0; n < 4; n++)
        EXPECT_EQ(0, pthread_create(&threads[n], NULL, start_and_wait, name));
    for (int n = 0; n < 4; n++) {
        void *failed;
        pthread_join(threads[n], &failed);
        EXPECT(failed == NULL);
    }
    world_close(&w);
}

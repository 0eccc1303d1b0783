/* SPDX-License-Identifier: Apache-2.0
 *
 * Three activities, one after the other, and what is written down about it: the history, beside the
 * one that the first article about Durable Functions printed for the same program. That one has 16
 * rows, because it also notes the end of every turn (OrchestratorCompleted). Here a turn is one
 * record that is written as a whole, so its end needs no row.
 */
#include "example.h"

static norn_status say_hello(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    (void)user;
    if (input.len < 2) return norn_fail(ctx, "BadInput", "a name in quotes is wanted", true);
    *output =
        example_print(ctx, "\"Hello %.*s!\"", (int)input.len - 2, (const char *)input.ptr + 1);
    return NORN_OK;
}

static norn_status hello_sequence(norn_context *ctx, struct norn_bytes input,
                                  struct norn_bytes *output, void *user)
{
    static const char *const cities[] = {"\"Tokyo\"", "\"Seattle\"", "\"London\""};
    struct norn_bytes greeting[3];

    (void)input, (void)user;
    for (int n = 0; n < 3; n++) {
        norn_status status =
            norn_call(ctx, "E1_SayHello", norn_text(cities[n]), NULL, &greeting[n]);
        if (status != NORN_OK) return status;
    }
    *output = example_print(ctx, "[%.*s,%.*s,%.*s]", TEXT(greeting[0]), TEXT(greeting[1]),
                            TEXT(greeting[2]));
    return NORN_OK;
}

/* ---- the two histories, side by side ---- */

static const struct row {
    const char *name; /* of the event */
    const char *key;  /* of ours, in JSON */
} article[] = {
#define STARTED                                                                                    \
    {                                                                                              \
        "OrchestratorStarted", "orchestratorStarted"                                               \
    }
#define COMPLETED                                                                                  \
    {                                                                                              \
        "OrchestratorCompleted", "orchestratorCompleted"                                           \
    }
    STARTED,
    {"ExecutionStarted", "executionStarted"},
    {"TaskScheduled", "taskScheduled"},
    COMPLETED,
    STARTED,
    {"TaskCompleted", "taskCompleted"},
    {"TaskScheduled", "taskScheduled"},
    COMPLETED,
    STARTED,
    {"TaskCompleted", "taskCompleted"},
    {"TaskScheduled", "taskScheduled"},
    COMPLETED,
    STARTED,
    {"TaskCompleted", "taskCompleted"},
    {"ExecutionCompleted", "executionCompleted"},
    COMPLETED,
};
#define ARTICLE_N (sizeof article / sizeof *article)

struct table {
    size_t row_n; /* of the article, printed so far */
    int event_n;  /* ours, likewise */
};

static bool is_event(struct norn_bytes event, const char *key)
{
    char text[64];
    int len = snprintf(text, sizeof text, "\"%s\":{", key);
    return memmem(event.ptr, event.len, text, (size_t)len) != NULL;
}

/* Rows of the article that we do not have stand alone. */
static norn_status print_event(void *user, struct norn_bytes event)
{
    struct table *t = user;
    char text[80];

    while (t->row_n < ARTICLE_N && !is_event(event, article[t->row_n].key)) {
        printf("%2zu  %-22s  -\n", t->row_n + 1, article[t->row_n].name);
        t->row_n++;
    }
    if (t->row_n == ARTICLE_N) return NORN_E_FAILED; /* one that the article does not have */
    const struct row *row = &article[t->row_n++];
    (void)example_member(event, "name", text, sizeof text); /* of the activity or orchestrator */
    printf("%2zu  %-22s  %2d  %s%s%s\n", t->row_n, row->name, ++t->event_n, row->name,
           text[0] != '\0' ? " " : "", text);
    return NORN_OK;
}

int main(int argc, char **argv)
{
    struct example e = {0};
    struct table table = {0};

    example_open(&e, argc, argv);
    must(norn_orchestrator(e.worker, "E1_HelloSequence", NULL, hello_sequence, NULL), "register");
    must(norn_activity_add(e.worker, "E1_SayHello", 0, say_hello, NULL), "register");
    must(norn_worker_start(e.worker), "start");

    example_begin(&e, "E1_HelloSequence", "hello-1", NULL);
    struct norn_info *info = example_wait(&e, "hello-1");
    printf("%.*s\n\n", TEXT(info->output));
    norn_info_free(info);

    printf("    the article                 norn\n");
    must(norn_history(e.client, "hello-1", print_event, &table), "history");
    for (; table.row_n < ARTICLE_N; table.row_n++) {
        printf("%2zu  %-22s  -\n", table.row_n + 1, article[table.row_n].name);
    }
    example_close(&e);
    return 0;
}

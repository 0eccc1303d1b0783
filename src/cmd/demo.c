/* SPDX-License-Identifier: Apache-2.0
 *
 * norn demo: the hello sequence, an orchestration of three activities, in an embedded engine, with
 * its history as it is stored. Run it twice: the second run finds the first one's instance still
 * there.
 */
#include "cmd/command.h"
#include "cmd/local_worker.h"

#include "base/mem.h"
#include "base/moment.h"

#include <stdio.h>
#include <sys/stat.h>

static const char *const cities[] = {"\"Tokyo\"", "\"Seattle\"", "\"London\""};
static const char *const greetings[] = {"\"Hello Tokyo!\"", "\"Hello Seattle!\"",
                                        "\"Hello London!\""};
#define CITIES_N 3

static struct maybe text(const char *value) { return maybe_some(bytes_of_text(value)); }

/* The orchestrator: say hello to each city, one after the other. */
static void turn(void *user, const struct effect_work *work, struct local_turn *out)
{
    (void)user;
    struct reader r = reader_make(work->fresh);
    struct bytes one;
    int32_t done = 0;
    while (strings_next(&r, &one)) {
        struct event_head head;
        if (event_head_decode(one, &head) == OK && head.kind == EVENT_TASK_COMPLETED)
            done = head.ref;
    }
    struct action *a = &out->actions[out->actions_n++];
    *a = (struct action){.id = done + 1};
    if (done < CITIES_N) {
        a->kind = ACTION_SCHEDULE_TASK;
        a->name = BYTES_LITERAL("hello");
        a->input = text(cities[done]);
    } else {
        a->kind = ACTION_COMPLETE;
        a->status = STATUS_COMPLETED;
        a->input = text("[\"Hello Tokyo!\",\"Hello Seattle!\",\"Hello London!\"]");
    }
}

/* The activity. */
static struct maybe hello(void *user, struct bytes name, struct maybe input)
{
    (void)user;
    (void)name;
    for (size_t n = 0; n < CITIES_N; n++) {
        if (bytes_equal(input.value, bytes_of_text(cities[n]))) return text(greetings[n]);
    }
    return MAYBE_NONE;
}

/* ---- showing ---- */

static void print_event(size_t number, struct bytes event)
{
    struct event_head head;
    struct event_scheduled scheduled;
    struct arena arena;
    char time[MOMENT_SIZE];
    if (event_head_decode(event, &head) != OK) return;
    (void)moment_format(moment_of_ns(head.time_ns), 3, time);
    printf("  %2zu  %.12s  %-20s", number, time + strlen("2026-11-15T"), event_name(head.kind));
    if (head.id >= 0) printf("  id %d", head.id);
    if (head.ref >= 0) printf("  of %d", head.ref);
    arena_init(&arena, mem_process(), 256);
    if (head.kind == EVENT_TASK_SCHEDULED &&
        event_scheduled_decode(event, &arena, &scheduled) == OK) {
        printf("  %.*s(%.*s)", (int)scheduled.name.len, (const char *)scheduled.name.ptr,
               (int)scheduled.input.value.len, (const char *)scheduled.input.value.ptr);
    }
    arena_release(&arena);
    putchar('\n');
}

static void print_history(struct request *request)
{
    struct reader r = reader_make(request->events);
    struct bytes one;
    size_t n = 0;
    puts("Its history, as it is stored:\n");
    while (strings_next(&r, &one)) print_event(++n, one);
}

static void print_result(struct request *request)
{
    const struct instance_view *view = request->view;
    if (view == NULL) return;
    printf("The instance hello-1 is %s with the result\n\n  %.*s\n\n",
           orchestration_status_name(view->status), (int)view->output.value.len,
           (const char *)view->output.value.ptr);
}

static enum status demonstrate(struct engine *engine)
{
    struct request start = {.kind = REQUEST_START, .key = BYTES_LITERAL("default/hello-1")};
    start.start.name = BYTES_LITERAL("E1_HelloSequence");
    start.start.reuse = REUSE_NEVER;
    enum status status = engine_call(engine, &start);
    if (status == E_EXISTS)
        puts("An earlier run has left the instance hello-1 here; this is what it did.\n");
    else if (status != OK)
        return status;

    struct request wait = {.kind = REQUEST_WAIT, .key = start.key, .done = print_result};
    wait.wait.until_finished = true;
    status = engine_call(engine, &wait);
    struct request history = {.kind = REQUEST_HISTORY, .key = start.key, .done = print_history};
    if (status == OK) status = engine_call(engine, &history);
    return status;
}

int demo_run(const struct command *command, int argc, char **argv)
{
    const char *data = "norn-data";
    const struct option_spec specs[] = {
        OPTION_TEXT("data", "DIR", "data directory", "./norn-data", &data),
    };
    int exit_code = EXIT_CODE_OK;
    if (!options_read(command, specs, 1, argc, argv, &exit_code)) return exit_code;

    struct engine_options options;
    struct engine *engine = NULL;
    struct local_worker *worker = NULL;
    char problem[ENGINE_DAMAGE_SIZE];
    engine_options_init(&options);
    options.directory = data;
    enum status status = engine_open(&options, problem, &engine);
    if (status != OK) {
        fprintf(stderr, "norn demo: %s\n", problem);
        return status == E_BUSY ? EXIT_CODE_UNREACHABLE : EXIT_CODE_FAILED;
    }
    struct local_program program = {.hub = BYTES_LITERAL("default"), .turn = turn, .task = hello};
    status = local_worker_open(engine, &program, &worker);
    if (status == OK) status = demonstrate(engine);
    local_worker_close(worker);
    engine_close(engine);
    local_worker_free(worker);
    if (status != OK) {
        fprintf(stderr, "norn demo: %s\n", status_text(status));
        return EXIT_CODE_FAILED;
    }
    printf("\nEverything above is durable in %s. Where to go next:\n"
           "  norn bench engine     how fast this machine is\n"
           "  make sim SEED=7       the same engine through crashes and torn writes\n"
           "  ARCHITECTURE.md       how it works\n",
           data);
    return EXIT_CODE_OK;
}

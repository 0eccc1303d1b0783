/* SPDX-License-Identifier: Apache-2.0
 *
 * norn trace: an instance, its steps and its children as a tree.
 *
 *     order-7  ship  running  3m12s
 *     ├─ charge          completed  1.2s
 *     ├─ timer           in 2m
 *     └─ order-7:5  pack  running  12s
 *        └─ label        running  11s
 *
 * On a terminal the tree is drawn again as it changes, until the instance has ended. Elsewhere it
 * is printed once; with --follow each line is printed when it changes.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/instance.h"
#include "cli/pages.h"
#include "cli/verbs.h"
#include "cli/when.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 12u
#define STEPS_MAX 10000u
#define INSTANCES_MAX 200u
#define PREFIX_SIZE 128
#define POLL_MS 500

enum step_kind { STEP_TASK, STEP_CHILD, STEP_TIMER, STEP_EVENT };

struct step {
    struct step *next;
    enum step_kind kind;
    int64_t id;
    const char *name;
    const char *child_id; /* "" unless it is a child */
    const char *status;   /* "running", "completed", "failed", ... */
    const char *error;
    int64_t begun_ns;
    int64_t ended_ns; /* 0: not yet */
    int64_t fires_ns; /* of a timer */
};

struct trace {
    struct cli *cli;
    struct buffer out; /* the tree, a line each */
    unsigned instances_n;
    unsigned depth_max;
    bool is_ended; /* the root is */
};

/* ---- from events to steps ---- */

static struct step *step_find(struct step *steps, int64_t id)
{
    for (; steps != NULL; steps = steps->next) {
        if (steps->id == id && steps->kind != STEP_EVENT) return steps;
    }
    return NULL;
}

static struct step *step_add(struct trace *trace, struct step ***last, enum step_kind kind,
                             struct value event, int64_t time_ns)
{
    struct arena *arena = &trace->cli->arena;
    struct step *step = arena_alloc_zero(arena, sizeof *step);

    if (step == NULL) return NULL;
    step->kind = kind;
    step->id = member_int64(event, "eventId", -1);
    step->name = member_text(arena, event, "name");
    step->child_id = kind == STEP_CHILD ? member_text(arena, event, "instanceId") : "";
    step->status = "running";
    step->error = "";
    step->begun_ns = time_ns;
    if (kind == STEP_TIMER) (void)value_time(arena, value_member(event, "fireAt"), &step->fires_ns);
    **last = step;
    *last = &step->next;
    return step;
}

static void step_end(struct trace *trace, struct step *steps, struct value event, const char *field,
                     const char *status, int64_t time_ns)
{
    /* the first one is number 0, which the protocol leaves out */
    struct step *step = step_find(steps, member_int64(event, field, 0));

    if (step == NULL) return;
    step->status = status;
    step->ended_ns = time_ns;
    struct value failure = value_member(event, "failure");
    if (failure.type == JSON_OBJECT) step->error = failure_text(trace->cli, failure);
}

static void take_event(struct trace *trace, struct step **steps, struct step ***last,
                       struct value event)
{
    struct arena *arena = &trace->cli->arena;
    const char *type = member_text(arena, event, "type");
    int64_t time_ns = 0;

    (void)value_time(arena, value_member(event, "time"), &time_ns);
    if (strcmp(type, "taskScheduled") == 0) {
        (void)step_add(trace, last, STEP_TASK, event, time_ns);
    } else if (strcmp(type, "subOrchestrationInstanceCreated") == 0) {
        (void)step_add(trace, last, STEP_CHILD, event, time_ns);
    } else if (strcmp(type, "timerCreated") == 0) {
        (void)step_add(trace, last, STEP_TIMER, event, time_ns);
    } else if (strcmp(type, "eventRaised") == 0) {
        struct step *step = step_add(trace, last, STEP_EVENT, event, time_ns);
        if (step != NULL) step->ended_ns = time_ns;
        if (step != NULL) step->status = "completed";
    } else if (strcmp(type, "taskCompleted") == 0 ||
               strcmp(type, "subOrchestrationInstanceCompleted") == 0) {
        step_end(trace, *steps, event, "taskScheduledId", "completed", time_ns);
    } else if (strcmp(type, "taskFailed") == 0 ||
               strcmp(type, "subOrchestrationInstanceFailed") == 0) {
        step_end(trace, *steps, event, "taskScheduledId", "failed", time_ns);
    } else if (strcmp(type, "timerFired") == 0) {
        step_end(trace, *steps, event, "timerId", "completed", time_ns);
    }
}

static int steps_read(struct trace *trace, const char *id, struct step **steps)
{
    struct cli *cli = trace->cli;
    struct step **last = steps;
    const char *path =
        url_parameter(&cli->arena, cli_instance_path(cli, id, "history"), "limit", "1000");
    struct pages pages = pages_begin(cli, path);

    *steps = NULL;
    for (size_t n = 0; n < STEPS_MAX && pages_next(&pages); n++)
        take_event(trace, steps, &last, pages.item);
    return pages.code;
}

/* ---- lines ---- */

static void put_colored(struct trace *trace, const char *text, enum color color)
{
    struct buffer *out = &trace->out;
    const struct terminal *terminal = &trace->cli->terminal;
    bool is_plain = color == COLOR_NONE;

    buffer_append_bytes(out, bytes_of_text(is_plain ? "" : terminal_color(terminal, color)));
    text_clean(out, bytes_of_text(text));
    buffer_append_bytes(out, bytes_of_text(is_plain ? "" : terminal_color(terminal, COLOR_NONE)));
}

/* "  completed  1.2s  OutOfStock: ..." */
static void put_state(struct trace *trace, const char *status, int64_t begun_ns, int64_t ended_ns,
                      const char *error)
{
    char text[UNITS_SIZE];

    buffer_append(&trace->out, "  ", 2);
    put_colored(trace, status, status_color(status));
    if (begun_ns > 0) {
        int64_t taken_ns = (ended_ns > 0 ? ended_ns : clock_wall_ns()) - begun_ns;
        duration_describe(taken_ns / NS_PER_MS, text);
        buffer_append(&trace->out, "  ", 2);
        put_colored(trace, text, COLOR_GRAY);
    }
    if (error[0] != '\0') {
        buffer_append(&trace->out, "  ", 2);
        put_colored(trace, error, COLOR_RED);
    }
    buffer_u8(&trace->out, '\n');
}

static void put_timer(struct trace *trace, const struct step *step)
{
    char text[WHEN_SIZE];

    if (step->ended_ns > 0 || step->fires_ns == 0) {
        put_colored(trace, "timer", COLOR_NONE);
        put_state(trace, step->status, step->begun_ns, step->ended_ns, "");
        return;
    }
    when_format(step->fires_ns, clock_wall_ns(), text);
    buffer_format(&trace->out, "timer  fires %s\n", text);
}

static int put_instance(struct trace *trace, const char *id, const char *prefix, unsigned depth);

static int put_step(struct trace *trace, const struct step *step, const char *prefix,
                    unsigned depth)
{
    char deeper[PREFIX_SIZE];
    bool is_last = step->next == NULL;

    buffer_append_bytes(&trace->out, bytes_of_text(prefix));
    buffer_append_bytes(&trace->out, bytes_of_text(is_last ? "└─ " : "├─ "));
    if (step->kind == STEP_TIMER) {
        put_timer(trace, step);
        return EXIT_CODE_OK;
    }
    if (step->kind == STEP_CHILD && depth < trace->depth_max && step->child_id[0] != '\0') {
        (void)snprintf(deeper, sizeof deeper, "%s%s", prefix, is_last ? "   " : "│  ");
        return put_instance(trace, step->child_id, deeper, depth + 1);
    }
    if (step->kind == STEP_EVENT) buffer_append(&trace->out, "event ", 6);
    put_colored(trace, step->name, COLOR_NONE);
    put_state(trace, step->status, step->begun_ns, step->ended_ns, step->error);
    return EXIT_CODE_OK;
}

/* The line of the instance, where the caller has written what stands before it, and all below. */
static int put_instance(struct trace *trace, const char *id, const char *prefix, unsigned depth)
{
    struct cli *cli = trace->cli;
    struct step *steps = NULL;
    int64_t begun_ns = 0;
    int64_t ended_ns = 0;
    const char *path = cli_instance_path(cli, id, NULL);
    struct ask ask = {.path = url_parameter(&cli->arena, path, "payloads", "false"),
                      .needs = "status"};

    int code = depth == 0 ? cli_ask(cli, &ask) : cli_try(cli, &ask, NULL);
    put_colored(trace, id, COLOR_BOLD);
    if (depth > 0 && code == EXIT_CODE_NOT_FOUND) { /* purged: the rest of the tree is worth it */
        buffer_format(&trace->out, "  is gone\n");
        return EXIT_CODE_OK;
    }
    if (code != EXIT_CODE_OK) return depth == 0 ? code : cli_problem(cli, &ask);
    const char *status = member_text(&cli->arena, ask.value, "status");
    (void)value_time(&cli->arena, value_member(ask.value, "createdAt"), &begun_ns);
    (void)value_time(&cli->arena, value_member(ask.value, "completedAt"), &ended_ns);
    buffer_append(&trace->out, "  ", 2);
    text_clean(&trace->out, bytes_of_text(member_text(&cli->arena, ask.value, "name")));
    put_state(trace, status, begun_ns, ended_ns,
              failure_text(cli, value_member(ask.value, "failure")));
    if (depth == 0) trace->is_ended = status_is_ended(status);
    if (trace->instances_n++ >= INSTANCES_MAX) return EXIT_CODE_OK;
    code = steps_read(trace, id, &steps);
    for (; steps != NULL && code == EXIT_CODE_OK; steps = steps->next)
        code = put_step(trace, steps, prefix, depth);
    return code;
}

static int trace_make(struct trace *trace, const char *id)
{
    buffer_clear(&trace->out);
    trace->instances_n = 0;
    return put_instance(trace, id, "", 0);
}

/* ---- live ---- */

/* What fits on the screen: the last lines, where the work is. Answers how many lines were drawn. */
static unsigned draw(const struct terminal *terminal, const struct buffer *tree, unsigned drawn_n)
{
    unsigned n = 0;
    size_t at = 0;

    for (size_t i = 0; i < tree->len; i++) n += tree->ptr[i] == '\n';
    for (; n > terminal->height - 1 && at < tree->len; at++) n -= tree->ptr[at] == '\n';
    if (drawn_n > 0) (void)printf("\033[%uA\033[J", drawn_n);
    (void)fputs("\033[?7l", stdout); /* a long line is one line: it is cut by the terminal */
    (void)fwrite(tree->ptr + at, 1, tree->len - at, stdout);
    (void)fputs("\033[?7h", stdout);
    (void)fflush(stdout);
    return n;
}

static int trace_live(struct trace *trace, const char *id)
{
    unsigned drawn_n = 0;
    int code = EXIT_CODE_OK;

    do {
        struct arena kept = cli_arena_swap(trace->cli);
        code = trace_make(trace, id);
        cli_arena_restore(trace->cli, kept);
        if (code == EXIT_CODE_OK) drawn_n = draw(&trace->cli->terminal, &trace->out, drawn_n);
        if (trace->is_ended || code != EXIT_CODE_OK) break;
        if (cli_time_left_ms(trace->cli, 1) == 0) return EXIT_CODE_TIMEOUT;
        cli_sleep_ms(POLL_MS);
    } while (true);
    return code;
}

/* Without how long it takes, which changes all the time: "├─ charge  running". */
static struct bytes line_key(struct bytes line)
{
    const uint8_t *last = NULL;

    for (size_t n = 1; n < line.len; n++) {
        bool is_gap = line.ptr[n] == ' ' && line.ptr[n - 1] == ' ';
        if (is_gap) last = line.ptr + n;
    }
    return last == NULL ? line : bytes_make(line.ptr, (size_t)(last - line.ptr));
}

static bool was_printed(const struct buffer *before, struct bytes line)
{
    size_t first = 0;

    for (size_t at = 0; at < before->len; at++) {
        if (before->ptr[at] != '\n') continue;
        struct bytes old = bytes_make(before->ptr + first, at - first);
        if (bytes_equal(line_key(old), line_key(line))) return true;
        first = at + 1;
    }
    return false;
}

static int trace_lines(struct trace *trace, const char *id)
{
    struct buffer before;
    int code = EXIT_CODE_OK;

    buffer_init(&before, mem_process());
    for (;;) {
        struct arena kept = cli_arena_swap(trace->cli);
        code = trace_make(trace, id);
        cli_arena_restore(trace->cli, kept);
        size_t first = 0;
        for (size_t at = 0; at < trace->out.len && code == EXIT_CODE_OK; at++) {
            if (trace->out.ptr[at] != '\n') continue;
            struct bytes line = bytes_make(trace->out.ptr + first, at - first);
            if (!was_printed(&before, line))
                (void)printf("%.*s\n", (int)line.len, (const char *)line.ptr);
            first = at + 1;
        }
        (void)fflush(stdout);
        if (trace->is_ended || code != EXIT_CODE_OK) break;
        buffer_append_bytes(&before, buffer_view(&trace->out));
        if (cli_time_left_ms(trace->cli, 1) == 0) code = EXIT_CODE_TIMEOUT;
        if (code != EXIT_CODE_OK) break;
        cli_sleep_ms(POLL_MS);
    }
    buffer_release(&before);
    return code;
}

int verb_trace(const struct command *command, int argc, char **argv)
{
    bool is_following = false;
    bool is_once = false;
    uint64_t depth = DEPTH_MAX;
    const struct option_spec specs[] = {
        {.name = "follow", .letter = 'f', .help = "until it has ended", .flag = &is_following},
        OPTION_FLAG("once", "as it is now, also on a terminal", &is_once),
        OPTION_NUMBER("depth", "N", "levels of children", "12", &depth, 0, DEPTH_MAX),
    };
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, specs, 3, argc, argv, &code)) return code;
    if (!cli_is_table(&cli))
        return cli_close(&cli, cli_no_format(&cli, "table; norn history has the events as JSON"));
    struct trace trace = {.cli = &cli, .depth_max = (unsigned)depth};
    const char *id = cli.words.items[0];
    buffer_init(&trace.out, mem_process());
    if (cli.terminal.is_terminal && !is_once) {
        code = trace_live(&trace, id);
    } else if (is_following) {
        code = trace_lines(&trace, id);
    } else {
        code = trace_make(&trace, id);
        if (code == EXIT_CODE_OK) print_buffer(&trace.out);
    }
    buffer_release(&trace.out);
    return cli_close(&cli, code);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * norn purge and norn batch: many instances, by the same filters as norn list.
 *
 * What is changed is exactly what was shown: the matching ids are listed first, once, and then
 * changed one after the other. One that has changed in between is refused by the server by its
 * state, and counted as such.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/form.h"
#include "cli/filters.h"
#include "cli/instance.h"
#include "cli/pages.h"
#include "cli/progress.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#define SAMPLE_N 5u
#define PURGE_TIMEOUT "20s"

/* ---- preview ---- */

struct preview {
    uint64_t n;
    bool is_exact;
    struct value sample; /* ids */
};

static void print_preview(struct cli *cli, const struct preview *preview, const char *verb)
{
    struct value_cursor cursor = value_begin(preview->sample);
    size_t shown = 0;

    cli_say(cli, "%s%llu instance%s to %s", preview->is_exact ? "" : "at least ",
            (unsigned long long)preview->n, preview->n == 1 ? "" : "s", verb);
    while (shown < SAMPLE_N && value_next(&cursor, &cli->arena)) {
        struct buffer id;
        buffer_init(&id, mem_process());
        text_clean(&id, bytes_of_text(value_text(&cli->arena, cursor.value)));
        cli_say(cli, "%s%.*s", shown++ == 0 ? ": " : ", ", (int)id.len, (const char *)id.ptr);
        buffer_release(&id);
    }
    cli_say(cli, shown < preview->n && shown > 0 ? ", ...\n" : "\n");
}

/* ---- purge by filter: the server does it, piece by piece ---- */

static struct bytes purge_body(struct cli *cli, const struct filters *filters, bool is_recursive,
                               bool is_preview)
{
    struct form body;

    form_begin(&body);
    filters_write(filters, &body.json);
    form_flag(&body, "recurse", is_recursive);
    if (is_preview)
        form_flag(&body, "dryRun", true);
    else
        form_text(&body, "timeout", PURGE_TIMEOUT);
    return form_end(&body, cli, false);
}

static int purge_preview(struct cli *cli, const struct filters *filters, bool is_recursive,
                         struct preview *out, struct value *answer)
{
    struct ask ask = {
        .method = "POST", .path = cli_path(cli, "/v1/instances:purge"), .needs = "matches"};

    ask.body = purge_body(cli, filters, is_recursive, true);
    int code = cli_ask(cli, &ask);
    if (code != EXIT_CODE_OK) return code;
    *out = (struct preview){.n = (uint64_t)member_int64(ask.value, "matches", 0),
                            .is_exact = member_is_true(ask.value, "isExact"),
                            .sample = value_member(ask.value, "sample")};
    *answer = ask.value;
    return EXIT_CODE_OK;
}

static int purge_all(struct cli *cli, const struct filters *filters, bool is_recursive,
                     uint64_t total)
{
    struct progress progress;
    uint64_t purged = 0;
    bool is_complete = false;
    int code = EXIT_CODE_OK;

    progress_begin(&progress, "purged", total, cli->is_quiet);
    while (!is_complete && code == EXIT_CODE_OK) {
        struct ask ask = {.method = "POST",
                          .path = cli_path(cli, "/v1/instances:purge"),
                          .needs = "purged isComplete"};
        ask.body = purge_body(cli, filters, is_recursive, false);
        code = cli_ask(cli, &ask);
        purged += (uint64_t)member_int64(ask.value, "purged", 0);
        is_complete = member_is_true(ask.value, "isComplete");
        progress_show(&progress, purged);
        if (code == EXIT_CODE_OK && !is_complete && cli_time_left_ms(cli, 1) == 0)
            code = cli_fail(cli, EXIT_CODE_TIMEOUT, "timeout", "the time is over; there are more",
                            NULL);
    }
    progress_end(&progress);
    (void)printf(cli_is_json(cli) ? "{\"purged\":%llu}\n" : "%llu\n", (unsigned long long)purged);
    return code;
}

static int purge_by_filter(struct cli *cli, struct filters *filters, bool is_recursive,
                           bool is_preview)
{
    struct preview preview;
    struct value answer = VALUE_NONE;
    char question[96];
    int code;

    if (!filters_resolve(cli, filters, &code)) return code;
    code = purge_preview(cli, filters, is_recursive, &preview, &answer);
    if (code != EXIT_CODE_OK) return code;
    if (is_preview) {
        print_preview(cli, &preview, "purge");
        if (cli_is_json(cli))
            print_json(cli, answer);
        else
            (void)printf("%llu\n", (unsigned long long)preview.n);
        return EXIT_CODE_OK;
    }
    if (preview.n > 0) {
        if (!cli->is_yes) print_preview(cli, &preview, "purge");
        (void)snprintf(question, sizeof question, "Purge %s%llu?",
                       preview.is_exact ? "" : "at least ", (unsigned long long)preview.n);
        if (!cli_confirm(cli, question, &code)) return code;
    }
    return purge_all(cli, filters, is_recursive, preview.n);
}

static int purge_ids(struct cli *cli, bool is_recursive, bool is_forced)
{
    int first = EXIT_CODE_OK;

    for (size_t n = 0; n < cli->words.n; n++) {
        const char *id = cli->words.items[n];
        struct ask ask = {
            .method = "DELETE", .path = cli_path(cli, "/v1/instances/%s", id), .needs = "purged"};
        ask.path = url_parameter(&cli->arena, ask.path, "recurse", is_recursive ? "true" : NULL);
        ask.path = url_parameter(&cli->arena, ask.path, "force", is_forced ? "true" : NULL);
        int code = ask_done(cli, &ask, "purged", id);
        if (first == EXIT_CODE_OK) first = code;
    }
    return first;
}

int verb_purge(const struct command *command, int argc, char **argv)
{
    struct filters filters = {0};
    struct option_spec specs[FILTERS_N + 3];
    bool is_recursive = false;
    bool is_forced = false;
    bool is_preview = false;
    struct cli cli;
    int code;

    filters_specs(&filters, specs);
    specs[FILTERS_N] =
        (struct option_spec){.name = "recurse", .help = "children too", .flag = &is_recursive};
    specs[FILTERS_N + 1] = (struct option_spec){
        .name = "force", .help = "by id: one that has not ended too", .flag = &is_forced};
    specs[FILTERS_N + 2] = (struct option_spec){
        .name = "dry-run", .help = "only show how many and which", .flag = &is_preview};
    if (!cli_open(&cli, command, specs, FILTERS_N + 3, argc, argv, &code)) return code;
    bool has_filters = !filters_are_empty(&filters);
    if (cli.words.n > 0 && has_filters)
        code = cli_fail(&cli, EXIT_CODE_USAGE, "bad-words", "give ids or filters, not both", NULL);
    else if (cli.words.n == 0 && !has_filters)
        code = cli_fail(&cli, EXIT_CODE_USAGE, "bad-words", "purge what? give ids or filters",
                        "norn purge --status completed --completed-to 7d");
    else if (cli.words.n > 0 && is_preview)
        code = cli_fail(&cli, EXIT_CODE_USAGE, "bad-words", "--dry-run is for filters", NULL);
    else if (cli.words.n > 0)
        code = purge_ids(&cli, is_recursive, is_forced);
    else
        code = purge_by_filter(&cli, &filters, is_recursive, is_preview);
    return cli_close(&cli, code);
}

/* ---- the other verbs: one request for each ---- */

struct many {
    struct cli *cli;
    const char *verb;
    struct bytes body;
    struct buffer ids; /* each with a newline */
    uint64_t n;
    uint64_t done_n;
    uint64_t refused_n;
    struct progress progress;
};

/* All ids that match, before anything is changed. */
static int collect(struct many *many, const char *path)
{
    struct cli *cli = many->cli;

    path = url_parameter(&cli->arena, path, "payloads", "false");
    struct pages pages = pages_begin(cli, url_parameter(&cli->arena, path, "limit", "1000"));
    while (!many->ids.failed && pages_next(&pages)) {
        const char *id = member_text(&cli->arena, pages.item, "id");
        buffer_append(&many->ids, id, strlen(id) + 1);
        many->n++;
    }
    return many->ids.failed ? cli_fail(cli, EXIT_CODE_FAILED, "no-memory", "out of memory", NULL)
                            : pages.code;
}

static int change_one(struct many *many, const char *id)
{
    struct cli *cli = many->cli;
    const char *why = "";
    bool is_purge = strcmp(many->verb, "purge") == 0;
    struct ask ask = {.method = is_purge ? "DELETE" : "POST",
                      .path = cli_instance_path(cli, id, is_purge ? NULL : many->verb),
                      .body = many->body,
                      .needs = is_purge ? "purged" : "id"};

    int code = cli_try(cli, &ask, &why);
    if (code == EXIT_CODE_OK) {
        many->done_n++;
        if (cli->format == FORMAT_NAME) (void)puts(id);
        return EXIT_CODE_OK;
    }
    if (code == EXIT_CODE_UNREACHABLE || code == EXIT_CODE_TIMEOUT)
        return cli_failf(cli, code, "unreachable", "%s: %s", cli->server, why);
    many->refused_n++;
    (void)cli_failf(cli, 0, "refused", "%s: %s", id, why);
    return EXIT_CODE_OK;
}

static int change_all(struct many *many)
{
    const char *id = (const char *)many->ids.ptr;
    int code = EXIT_CODE_OK;

    progress_begin(&many->progress, "done", many->n, many->cli->is_quiet);
    for (uint64_t n = 0; n < many->n && code == EXIT_CODE_OK; n++) {
        struct arena kept = cli_arena_swap(many->cli);
        code = change_one(many, id);
        cli_arena_restore(many->cli, kept);
        progress_show(&many->progress, n + 1);
        id += strlen(id) + 1;
    }
    progress_end(&many->progress);
    return code;
}

static void print_many(struct many *many)
{
    struct cli *cli = many->cli;

    if (cli_is_json(cli))
        (void)printf("{\"matches\":%llu,\"done\":%llu,\"refused\":%llu}\n",
                     (unsigned long long)many->n, (unsigned long long)many->done_n,
                     (unsigned long long)many->refused_n);
    else if (cli->format != FORMAT_NAME)
        (void)printf("%llu done, %llu refused\n", (unsigned long long)many->done_n,
                     (unsigned long long)many->refused_n);
}

static void preview_many(struct many *many)
{
    const char *id = (const char *)many->ids.ptr;
    struct buffer sample;
    struct json j;
    struct preview preview = {.n = many->n, .is_exact = true};

    buffer_init(&sample, mem_process());
    json_init(&j, &sample);
    json_array_begin(&j);
    for (uint64_t n = 0; n < many->n && n < SAMPLE_N; n++) {
        json_text(&j, id);
        id += strlen(id) + 1;
    }
    json_array_end(&j);
    preview.sample = value_parse(buffer_view(&sample), NULL);
    print_preview(many->cli, &preview, many->verb);
    buffer_release(&sample);
}

/* Without a word on the status, those that the verb can be meant for. */
static const char *status_for(const char *verb)
{
    if (strcmp(verb, "terminate") == 0) return "pending,running,suspended";
    if (strcmp(verb, "suspend") == 0) return "pending,running";
    if (strcmp(verb, "resume") == 0) return "suspended";
    if (strcmp(verb, "rewind") == 0) return "failed";
    return "completed,failed,terminated,canceled";
}

static int batch_change(struct cli *cli, struct filters *filters, const char *verb,
                        const char *reason, bool is_preview)
{
    struct many many = {.cli = cli, .verb = verb};
    struct form body;
    char question[96];
    int code;

    if (!filters_resolve(cli, filters, &code)) return code;
    if (filters->status == NULL) filters->status = status_for(verb);
    form_begin(&body);
    form_text(&body, "reason", reason);
    many.body = form_end(&body, cli, true);
    buffer_init(&many.ids, mem_process());
    code = collect(&many, filters_query(cli, cli_path(cli, "/v1/instances"), filters));
    if (code == EXIT_CODE_OK && (is_preview || (many.n > 0 && !cli->is_yes))) preview_many(&many);
    if (code == EXIT_CODE_OK && !is_preview && many.n > 0) {
        (void)snprintf(question, sizeof question, "%s %llu?", verb, (unsigned long long)many.n);
        if (cli_confirm(cli, question, &code)) code = change_all(&many);
    }
    if (code == EXIT_CODE_OK && is_preview && cli->format != FORMAT_JSON)
        (void)printf("%llu\n", (unsigned long long)many.n);
    else if (code == EXIT_CODE_OK)
        print_many(&many);
    if (code == EXIT_CODE_OK && many.refused_n > 0) code = EXIT_CODE_FAILED;
    buffer_release(&many.ids);
    return code;
}

static int batch_run(const struct command *command, int argc, char **argv, const char *verb)
{
    struct filters filters = {0};
    struct option_spec specs[FILTERS_N + 2];
    const char *reason = NULL;
    bool is_preview = false;
    struct cli cli;
    int code;

    filters_specs(&filters, specs);
    specs[FILTERS_N] = (struct option_spec){
        .name = "dry-run", .help = "only show how many and which", .flag = &is_preview};
    specs[FILTERS_N + 1] = (struct option_spec){
        .name = "reason", .value = "TEXT", .help = "kept in the histories", .string = &reason};
    bool has_reason = strcmp(verb, "restart") != 0 && strcmp(verb, "purge") != 0;
    if (!cli_open(&cli, command, specs, FILTERS_N + (has_reason ? 2 : 1), argc, argv, &code))
        return code;
    if (filters_are_empty(&filters))
        code = cli_fail(&cli, EXIT_CODE_USAGE, "bad-words", "which? give at least one filter",
                        "norn help filters");
    else
        code = batch_change(&cli, &filters, verb, reason, is_preview);
    return cli_close(&cli, code);
}

int verb_batch_terminate(const struct command *command, int argc, char **argv)
{
    return batch_run(command, argc, argv, "terminate");
}

int verb_batch_suspend(const struct command *command, int argc, char **argv)
{
    return batch_run(command, argc, argv, "suspend");
}

int verb_batch_resume(const struct command *command, int argc, char **argv)
{
    return batch_run(command, argc, argv, "resume");
}

int verb_batch_rewind(const struct command *command, int argc, char **argv)
{
    return batch_run(command, argc, argv, "rewind");
}

int verb_batch_restart(const struct command *command, int argc, char **argv)
{
    return batch_run(command, argc, argv, "restart");
}

int verb_batch_purge(const struct command *command, int argc, char **argv)
{
    return batch_run(command, argc, argv, "purge");
}

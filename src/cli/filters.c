/* SPDX-License-Identifier: Apache-2.0
 *
 * See filters.h.
 */
#include "cli/filters.h"

#include "base/moment.h"
#include "cli/when.h"

#include <stddef.h>
#include <string.h>

/* option, member of struct filters, parameter of the server, is a time, value, help */
#define FILTERS(X)                                                                                 \
    X("status", status, "status", false, "STATUS", "one or more, with commas")                     \
    X("name", name, "name", false, "NAME", "of this orchestrator")                                 \
    X("id-prefix", id_prefix, "idPrefix", false, "TEXT", "whose id begins so")                     \
    X("from", from, "from", true, "TIME", "created since")                                         \
    X("to", to, "to", true, "TIME", "created before")                                              \
    X("completed-from", completed_from, "completedFrom", true, "TIME", "ended since")              \
    X("completed-to", completed_to, "completedTo", true, "TIME", "ended before")                   \
    X("tag", tag, "tag", false, "KEY[=VALUE]", "with this tag")                                    \
    X("error", error, "error", false, "TEXT", "whose failure's text contains it")

void filters_specs(struct filters *f, struct option_spec out[static FILTERS_N])
{
    size_t n = 0;

#define X(option, member, parameter, is_time, takes, text_for_people)                              \
    out[n++] = (struct option_spec){                                                               \
        .name = option, .value = takes, .help = text_for_people, .string = &f->member};
    FILTERS(X)
#undef X
    out[n] = (struct option_spec){
        .name = "parked", .help = "that wait for an operator", .flag = &f->is_parked};
}

static bool resolve(struct cli *cli, const char *option, const char **text, int *exit_code)
{
    int64_t time_ns = 0;
    char full[MOMENT_SIZE];

    if (*text == NULL) return true;
    if (!when_parse(*text, cli->now_ns, false, &time_ns)) {
        *exit_code =
            cli_failf(cli, EXIT_CODE_USAGE, "bad-time",
                      "--%s %s: give a time such as 2026-11-15T12:00:00Z, 2026-11-15 or 2h (ago)",
                      option, *text);
        return false;
    }
    *text = arena_text(&cli->arena, bytes_make(full, time_format(time_ns, full)));
    return *text != NULL;
}

bool filters_resolve(struct cli *cli, struct filters *f, int *exit_code)
{
#define X(option, member, parameter, is_time, takes, text_for_people)                              \
    if (is_time && !resolve(cli, option, &f->member, exit_code)) return false;
    FILTERS(X)
#undef X
    return true;
}

bool filters_are_empty(const struct filters *f)
{
#define X(option, member, parameter, is_time, takes, text_for_people)                              \
    if (f->member != NULL) return false;
    FILTERS(X)
#undef X
    return !f->is_parked;
}

const char *filters_query(struct cli *cli, const char *path, const struct filters *f)
{
#define X(option, member, parameter, is_time, takes, text_for_people)                              \
    path = url_parameter(&cli->arena, path, parameter, f->member);
    FILTERS(X)
#undef X
    return url_parameter(&cli->arena, path, "parked", f->is_parked ? "true" : NULL);
}

void filters_write(const struct filters *f, struct json *j)
{
#define X(option, member, parameter, is_time, takes, text_for_people)                              \
    if (f->member != NULL) {                                                                       \
        json_key(j, parameter);                                                                    \
        json_text(j, f->member);                                                                   \
    }
    FILTERS(X)
#undef X
    if (!f->is_parked) return;
    json_key(j, "parked");
    json_text(j, "true"); /* a text, as all of them */
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See instance.h.
 */
#include "cli/instance.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define WAIT_MS 30000
#define CAUSES_MAX 8

const struct column instance_columns[] = {
    {"ID", "id", COLUMN_KEY, false},
    {"NAME", "name", COLUMN_TEXT, false},
    {"STATUS", "status", COLUMN_STATUS, false},
    {"CREATED", "createdAt", COLUMN_TIME, false},
    {"UPDATED", "updatedAt", COLUMN_TIME, false},
    {"CUSTOM STATUS", "customStatus", COLUMN_JSON, true},
    {"ERROR", "failure.message", COLUMN_TEXT, false},
    {"COMPLETED", "completedAt", COLUMN_TIME, true},
    {"VERSION", "version", COLUMN_TEXT, true},
    {"PARENT", "parentId", COLUMN_TEXT, true},
    {"TAGS", "tags", COLUMN_JSON, true},
};
const size_t instance_columns_n = sizeof instance_columns / sizeof instance_columns[0];

bool status_is_ended(const char *status)
{
    return strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0 ||
           strcmp(status, "terminated") == 0 || strcmp(status, "canceled") == 0;
}

int instance_wait(struct cli *cli, const char *id, struct value *out)
{
    for (;;) {
        int64_t left_ms = cli_time_left_ms(cli, WAIT_MS);
        int64_t begun_ns = clock_mono_ns();
        struct ask ask = {.path = cli_path(cli, "/v1/instances/%s", id),
                          .wait_s = (uint64_t)left_ms / 1000,
                          .needs = "status"};
        ask.timeout_ms = 10000; /* beyond the wait: the answer "not yet" is better than none */
        int code = cli_ask(cli, &ask);
        if (code != EXIT_CODE_OK) return code;
        *out = ask.value;
        if (status_is_ended(member_text(&cli->arena, ask.value, "status"))) return EXIT_CODE_OK;
        if (cli_time_left_ms(cli, 1000) == 0) break;
        /* one that answers at once whatever it is asked must not be asked in a circle */
        if (clock_mono_ns() - begun_ns < 100 * NS_PER_MS) cli_sleep_ms(cli_time_left_ms(cli, 100));
    }
    return cli_failf(cli, EXIT_CODE_TIMEOUT, "timeout", "the time is over; %s is still %s", id,
                     member_text(&cli->arena, *out, "status"));
}

const char *failure_text(struct cli *cli, struct value failure)
{
    struct buffer text;

    buffer_init(&text, mem_process());
    for (unsigned n = 0; failure.type == JSON_OBJECT && n < CAUSES_MAX; n++) {
        const char *type = member_text(&cli->arena, failure, "type");
        if (n > 0) buffer_format(&text, "; because of ");
        buffer_append_bytes(&text, bytes_of_text(type));
        if (type[0] != '\0') buffer_append(&text, ": ", 2);
        buffer_append_bytes(&text, bytes_of_text(member_text(&cli->arena, failure, "message")));
        failure = value_member(failure, "inner");
    }
    const char *kept = arena_text(&cli->arena, buffer_view(&text));
    buffer_release(&text);
    return kept == NULL ? "" : kept;
}

int instance_print_result(struct cli *cli, struct value instance)
{
    const char *status = member_text(&cli->arena, instance, "status");
    const char *id = member_text(&cli->arena, instance, "id");
    struct value output = value_member(instance, "output");

    if (strcmp(status, "completed") == 0) {
        if (output.type != JSON_NONE) print_json(cli, output);
        return EXIT_CODE_OK;
    }
    const char *why = failure_text(cli, value_member(instance, "failure"));
    if (why[0] == '\0') why = value_text(&cli->arena, output);
    return cli_failf(cli, EXIT_CODE_FAILED, "instance-failed", "%s is %s%s%s", id, status,
                     why[0] == '\0' ? "" : ": ", why);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * norn history, norn events: what has happened, and what happens.
 */
#include "base/mem.h"
#include "base/moment.h"
#include "base/text.h"
#include "cli/instance.h"
#include "cli/pages.h"
#include "cli/sse.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

/* A comment line comes every 15 s: silence for longer is a broken connection. */
#define SILENCE_MS 60000
#define DETAIL_WIDTH 100u

/* ---- events as lines ---- */

static bool is_head_field(const char *key)
{
    static const char *const fields[] = {"eventId", "type", "time", "name"};

    for (size_t n = 0; n < sizeof fields / sizeof fields[0]; n++) {
        if (strcmp(key, fields[n]) == 0) return true;
    }
    return false;
}

/* All that has no column of its own: "result=42 taskScheduledId=3". */
static const char *event_detail(struct cli *cli, struct value event)
{
    struct buffer text;
    struct value_cursor cursor = value_begin(event);

    buffer_init(&text, mem_process());
    while (value_next(&cursor, &cli->arena)) {
        if (cursor.key == NULL || is_head_field(cursor.key)) continue;
        if (text.len > 0) buffer_u8(&text, ' ');
        buffer_append_bytes(&text, bytes_of_text(cursor.key));
        buffer_u8(&text, '=');
        buffer_append_bytes(&text, cursor.value.raw);
    }
    const char *kept = arena_text(&cli->arena, buffer_view(&text));
    buffer_release(&text);
    return kept == NULL ? "" : kept;
}

static void event_row(struct cli *cli, struct table *table, struct value event)
{
    const char *id = member_text(&cli->arena, event, "eventId");
    const char *type = member_text(&cli->arena, event, "type");
    bool is_failure = strstr(type, "Failed") != NULL || strstr(type, "erminated") != NULL;

    table_cell_add(table, strcmp(id, "-1") == 0 ? "" : id, COLOR_GRAY);
    table_cell_add(table, cell_time(cli, value_member(event, "time")), COLOR_NONE);
    table_cell_add(table, type, is_failure ? COLOR_RED : COLOR_CYAN);
    table_cell_add(table, member_text(&cli->arena, event, "name"), COLOR_NONE);
    table_cell_add(table, event_detail(cli, event), COLOR_NONE);
}

static void event_table(struct cli *cli, struct table *table)
{
    table_init(table, &cli->arena, &cli->terminal);
    table_column_add(table, (struct table_column){.title = "#", .is_right = true});
    table_column_add(table, (struct table_column){.title = "TIME"});
    table_column_add(table, (struct table_column){.title = "EVENT", .is_key = true});
    table_column_add(table, (struct table_column){.title = "NAME", .is_key = true});
    table_column_add(table, (struct table_column){.title = "DETAIL"});
}

/* As it comes: columns of fixed width, since nobody knows what follows. */
static void event_line(struct cli *cli, struct value event)
{
    struct buffer line;
    const char *id = member_text(&cli->arena, event, "eventId");
    char time[MOMENT_SIZE] = "";
    int64_t time_ns = 0;

    if (value_time(&cli->arena, value_member(event, "time"), &time_ns))
        (void)time_format(time_ns, time);
    buffer_init(&line, mem_process());
    buffer_format(&line, "%4s  %-30s  %-32s  ", strcmp(id, "-1") == 0 ? "" : id, time,
                  member_text(&cli->arena, event, "type"));
    text_clean(&line, bytes_of_text(member_text(&cli->arena, event, "name")));
    buffer_append(&line, "  ", 2);
    unsigned used = 72;
    unsigned width = cli->terminal.width > used + 20 ? cli->terminal.width - used : DETAIL_WIDTH;
    if (cli->terminal.width == 0)
        text_clean(&line, bytes_of_text(event_detail(cli, event)));
    else
        (void)text_clean_cut(&line, bytes_of_text(event_detail(cli, event)), width);
    while (line.len > 0 && line.ptr[line.len - 1] == ' ') line.len--;
    buffer_u8(&line, '\n');
    print_buffer(&line);
    (void)fflush(stdout);
    buffer_release(&line);
}

/* ---- history ---- */

static const struct column history_columns[] = {
    {"#", "eventId", COLUMN_KEY, false},    {"TIME", "time", COLUMN_TIME, false},
    {"EVENT", "type", COLUMN_TEXT, false},  {"NAME", "name", COLUMN_TEXT, false},
    {"INPUT", "input", COLUMN_JSON, false}, {"RESULT", "result", COLUMN_JSON, false},
};

static int history_table(struct cli *cli, const char *path)
{
    struct table table;
    struct buffer text;
    struct pages pages = pages_begin(cli, path);

    event_table(cli, &table);
    while (pages_next(&pages)) event_row(cli, &table, pages.item);
    if (pages.code != EXIT_CODE_OK) return pages.code;
    buffer_init(&text, mem_process());
    table_print(&table, &text);
    print_buffer(&text);
    buffer_release(&text);
    return EXIT_CODE_OK;
}

/* ---- as it happens ---- */

/* False: the event cannot be read. */
typedef bool follow_fn(struct cli *cli, const struct sse_event *event, bool *is_end);

/* What is left of a connection that broke; its error has been told. */
static void reset(struct cli *cli)
{
    http_client_close(&cli->http);
    http_client_init(&cli->http, mem_process(), &cli->url);
}

/* One connection, until it breaks, the time is over or fn has seen the end. */
static int follow_once(struct cli *cli, const char *path, char *last_id, size_t last_id_size,
                       follow_fn *fn, bool *is_end)
{
    char headers[256] = "Accept: text/event-stream\r\n";
    struct sse_reader reader;
    struct sse_event event;
    struct http_reply reply;

    if (last_id[0] != '\0')
        (void)snprintf(headers, sizeof headers,
                       "Accept: text/event-stream\r\nLast-Event-ID: %s\r\n", last_id);
    struct http_call call = {.method = "GET", .path = path, .headers = headers};
    call.timeout_ms = cli_time_left_ms(cli, 30000);
    enum status status = http_client_begin(&cli->http, &call, &reply);
    if (status == OK && reply.status == 200 && !reply.is_events) {
        reset(cli);
        return cli_bad_answer(cli, NULL, path);
    }
    if (status == OK && reply.status != 200) {
        struct ask ask = {.path = path};
        reset(cli);
        return cli_ask(cli, &ask); /* once more, to hear why */
    }
    bool is_read = true;
    sse_init(&reader, &cli->http);
    while (status == OK && is_read && !*is_end) {
        int64_t left_ms = cli_time_left_ms(cli, SILENCE_MS);
        if (left_ms == 0) break;
        struct arena kept = cli_arena_swap(cli);
        status = sse_next(&reader, &event, left_ms);
        if (status == OK) {
            (void)snprintf(last_id, last_id_size, "%s", event.id);
            is_read = fn(cli, &event, is_end);
        }
        cli_arena_restore(cli, kept);
    }
    sse_release(&reader);
    int code = EXIT_CODE_OK;
    if (!is_read)
        code = cli_bad_answer(cli, NULL, path);
    else if (!*is_end && cli_time_left_ms(cli, 1) == 0)
        code = EXIT_CODE_TIMEOUT;
    else if (!*is_end && status != E_CLOSED && status != E_TIMEOUT)
        code = cli_unreachable(cli, status);
    reset(cli);
    return code;
}

/* Goes on where it was after a break. */
static int follow(struct cli *cli, const char *path, follow_fn *fn)
{
    char last_id[128] = "";
    bool is_end = false;
    int code = EXIT_CODE_OK;

    while (code == EXIT_CODE_OK && !is_end) {
        code = follow_once(cli, path, last_id, sizeof last_id, fn, &is_end);
        if (code == EXIT_CODE_OK && !is_end) cli_sleep_ms(500);
    }
    return code;
}

static bool follow_history(struct cli *cli, const struct sse_event *event, bool *is_end)
{
    if (strcmp(event->event, "end") == 0) *is_end = true;
    if (strcmp(event->event, "history") != 0) return true;
    struct value v = value_parse(event->data, NULL);
    if (v.type != JSON_OBJECT) return false;
    if (cli_is_table(cli)) {
        event_line(cli, v);
        return true;
    }
    (void)printf("%.*s\n", (int)v.raw.len, (const char *)v.raw.ptr);
    (void)fflush(stdout);
    return true;
}

int verb_history(const struct command *command, int argc, char **argv)
{
    bool is_following = false;
    const struct option_spec specs[] = {
        {.name = "follow",
         .letter = 'f',
         .help = "what comes as well, until it has ended",
         .flag = &is_following},
    };
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, specs, 1, argc, argv, &code)) return code;
    const char *id = cli.words.items[0];
    const char *path = cli_path(&cli, "/v1/instances/%s/history", id);
    if (is_following)
        code = follow(&cli, cli_path(&cli, "/v1/instances/%s/events", id), follow_history);
    else if (cli_is_table(&cli))
        code = history_table(&cli, path);
    else
        code = print_list(&cli, path, history_columns,
                          sizeof history_columns / sizeof history_columns[0], PAGING_ALL, "");
    return cli_close(&cli, code);
}

/* ---- changes of all instances ---- */

static bool follow_events(struct cli *cli, const struct sse_event *event, bool *is_end)
{
    struct value v = value_parse(event->data, NULL);
    struct buffer line;
    const char *status = member_text(&cli->arena, v, "status");
    char time[MOMENT_SIZE] = "";
    int64_t time_ns = 0;

    (void)is_end;
    if (v.type != JSON_OBJECT) return false;
    if (cli_is_json(cli)) {
        (void)printf("{\"event\":\"%s\",\"data\":%.*s}\n", event->event, (int)v.raw.len,
                     (const char *)v.raw.ptr);
        (void)fflush(stdout);
        return true;
    }
    if (strcmp(event->event, "gap") == 0) {
        cli_say(cli, "some events were missed here\n");
        return true;
    }
    if (value_time(&cli->arena, value_member(v, "time"), &time_ns))
        (void)time_format(time_ns, time);
    buffer_init(&line, mem_process());
    buffer_format(&line, "%-30s  %s%-10s%s  ", time,
                  terminal_color(&cli->terminal, status_color(status)),
                  strcmp(event->event, "alert") == 0 ? "ALERT" : status,
                  terminal_color(&cli->terminal, COLOR_NONE));
    text_clean(&line, bytes_of_text(member_text(&cli->arena, v, "id")));
    buffer_append(&line, "  ", 2);
    text_clean(&line, bytes_of_text(member_text(&cli->arena, v, "name")));
    text_clean(&line, bytes_of_text(member_text(&cli->arena, v, "text")));
    buffer_u8(&line, '\n');
    print_buffer(&line);
    (void)fflush(stdout);
    buffer_release(&line);
    return true;
}

int verb_events(const struct command *command, int argc, char **argv)
{
    const char *name = NULL;
    const char *id_prefix = NULL;
    const char *status = NULL;
    const struct option_spec specs[] = {
        OPTION_TEXT("name", "NAME", "of this orchestrator", NULL, &name),
        OPTION_TEXT("id-prefix", "TEXT", "whose id begins so", NULL, &id_prefix),
        OPTION_TEXT("status", "STATUS", "that become this", NULL, &status),
    };
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, specs, 3, argc, argv, &code)) return code;
    const char *path = url_parameter(&cli.arena, cli_path(&cli, "/v1/events"), "name", name);
    path = url_parameter(&cli.arena, path, "idPrefix", id_prefix);
    path = url_parameter(&cli.arena, path, "status", status);
    code = follow(&cli, path, follow_events);
    return cli_close(&cli,
                     code == EXIT_CODE_TIMEOUT ? EXIT_CODE_OK : code); /* it has no other end */
}

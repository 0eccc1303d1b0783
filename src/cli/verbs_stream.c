/* SPDX-License-Identifier: Apache-2.0
 *
 * norn stream: named streams of messages, their partitions and the groups that read them.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/body.h"
#include "cli/print.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#define N(array) (sizeof(array) / sizeof(array)[0])

static const struct column stream_columns[] = {
    {"NAME", "name", COLUMN_KEY, false},
    {"PARTITIONS", "partitions", COLUMN_NUMBER, false},
    {"RETENTION", "retention", COLUMN_TEXT, false},
    {"WORKFLOW", "workflow", COLUMN_TEXT, false},
    {"MESSAGES", "messages", COLUMN_NUMBER, false},
    {"BYTES", "bytes", COLUMN_SIZE, false},
    {"MAX DELIVERIES", "maxDeliveries", COLUMN_NUMBER, true},
    {"LOCK", "lock", COLUMN_TEXT, true},
};

static const struct column message_columns[] = {
    {"OFFSET", "offset", COLUMN_KEY, false},
    {"TIME", "time", COLUMN_TIME, false},
    {"KEY", "key", COLUMN_TEXT, false},
    {"VALUE", "value", COLUMN_JSON, false},
};

int verb_stream_list(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    struct ask ask = {.path = "/v1/streams"};
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK)
        print_items(&cli, ask.value, stream_columns, N(stream_columns), "there are no streams");
    return cli_close(&cli, code);
}

/* ---- one ---- */

static const struct column show_columns[] = {
    {"name", "name", COLUMN_KEY, false},
    {"retention", "retention", COLUMN_TEXT, false},
    {"retention size", "retentionBytes", COLUMN_SIZE, false},
    {"workflow", "workflow", COLUMN_TEXT, false},
    {"max deliveries", "maxDeliveries", COLUMN_NUMBER, false},
    {"lock", "lock", COLUMN_TEXT, false},
};
static const struct column partition_columns[] = {
    {"PARTITION", "partition", COLUMN_KEY, false},
    {"FIRST", "first", COLUMN_NUMBER, false},
    {"NEXT", "next", COLUMN_NUMBER, false},
    {"BYTES", "bytes", COLUMN_SIZE, false},
};
static const struct column group_columns[] = {
    {"GROUP", "group", COLUMN_KEY, false},
    {"NAME", "name", COLUMN_KEY, false},
    {"PARTITION", "partition", COLUMN_NUMBER, false},
    {"POSITION", "position", COLUMN_NUMBER, false},
    {"LAG", "lag", COLUMN_NUMBER, false},
};

/* The columns that at least one of the items has: groups look different at different places. */
static size_t columns_present(const struct column *columns, size_t n, struct value items,
                              struct column *out)
{
    size_t kept = 0;

    for (size_t c = 0; c < n; c++) {
        struct value_cursor cursor = value_begin(items);
        while (value_next(&cursor, NULL)) {
            if (value_member(cursor.value, columns[c].field).type == JSON_NONE) continue;
            out[kept++] = columns[c];
            break;
        }
    }
    return kept;
}

static void print_part(struct cli *cli, const struct column *columns, size_t n, struct value items)
{
    struct column present[8];
    size_t present_n = columns_present(columns, n, items, present);
    struct printer p;
    struct value_cursor cursor = value_begin(items);

    if (present_n == 0) return;
    (void)putchar('\n');
    printer_begin(&p, cli, present, present_n);
    while (value_next(&cursor, NULL)) printer_item(&p, cursor.value);
    printer_end(&p);
}

int verb_stream_show(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    struct ask ask = {.path = cli_path(&cli, "/v1/streams/%s", cli.words.items[0])};
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) {
        print_object(&cli, show_columns, N(show_columns), ask.value);
        if (cli.format == FORMAT_TABLE || cli.format == FORMAT_WIDE) {
            print_part(&cli, partition_columns, N(partition_columns),
                       value_member(ask.value, "partitions"));
            print_part(&cli, group_columns, N(group_columns), value_member(ask.value, "groups"));
        }
    }
    return cli_close(&cli, code);
}

int verb_stream_create(const struct command *command, int argc, char **argv)
{
    uint64_t partitions = 0;
    uint64_t retention_bytes = 0;
    uint64_t deliveries = 0;
    const char *retention = NULL;
    const char *workflow = NULL;
    const char *lock = NULL;
    const struct option_spec specs[] = {
        {.name = "partitions",
         .value = "N",
         .help = "can grow later, not shrink",
         .number = &partitions,
         .least = 1,
         .most = 4096},
        {.name = "retention",
         .value = "DURATION",
         .help = "how long messages stay",
         .string = &retention},
        {.name = "retention-bytes",
         .value = "SIZE",
         .help = "how much stays; 64M, 1G",
         .number = &retention_bytes,
         .least = 1,
         .most = INT64_MAX},
        {.name = "workflow",
         .value = "NAME",
         .help = "each message starts one instance of it",
         .string = &workflow},
        {.name = "max-deliveries",
         .value = "N",
         .help = "then it is a dead letter",
         .number = &deliveries,
         .least = 1,
         .most = 1000000},
        {.name = "lock",
         .value = "DURATION",
         .help = "how long a receiver has a message",
         .string = &lock},
    };
    struct cli cli;
    struct body body;
    int code;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    body_begin(&body);
    if (partitions > 0) body_number(&body, "partitions", partitions);
    body_text(&body, "retention", retention);
    if (retention_bytes > 0) body_number(&body, "retentionBytes", retention_bytes);
    body_text(&body, "workflow", workflow);
    if (deliveries > 0) body_number(&body, "maxDeliveries", deliveries);
    body_text(&body, "lock", lock);
    const char *name = cli.words.items[0];
    struct ask ask = {.method = "PUT", .body = body_end(&body, &cli, false)};
    ask.path = cli_path(&cli, "/v1/streams/%s", name);
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK)
        print_done(&cli, ask.status == 201 ? "created" : "changed", name, ask.value);
    return cli_close(&cli, code);
}

int verb_stream_delete(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    char question[320];
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    const char *name = cli.words.items[0];
    struct ask ask = {.path = cli_path(&cli, "/v1/streams/%s", name)};
    code = cli_ask(&cli, &ask);
    (void)snprintf(question, sizeof question, "Delete the stream %.200s with all its messages?",
                   name);
    if (code == EXIT_CODE_OK && cli_confirm(&cli, question, &code)) {
        ask.method = "DELETE";
        code = cli_ask(&cli, &ask);
        if (code == EXIT_CODE_OK) print_done(&cli, "deleted", name, ask.value);
    }
    return cli_close(&cli, code);
}

/* ---- messages ---- */

int verb_stream_append(const struct command *command, int argc, char **argv)
{
    const char *key = NULL;
    const char *partition = NULL;
    bool is_lines = false;
    const struct option_spec specs[] = {
        {.name = "key",
         .value = "TEXT",
         .help = "of the message; chooses the partition",
         .string = &key},
        {.name = "partition", .value = "N", .help = "this one", .string = &partition},
        {.name = "lines",
         .help = "the file has a line {\"key\":..,\"value\":..} for each message: all or none",
         .flag = &is_lines},
    };
    struct cli cli;
    struct ask ask = {.method = "POST"};
    int code = EXIT_CODE_OK;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    const char *value = cli.words.items[1];
    bool is_read = is_lines
                       ? cli_read_file(&cli, value[0] == '@' ? value + 1 : value, &ask.body, &code)
                       : cli_payload(&cli, value, &ask.body, &code);
    if (!is_read) return cli_close(&cli, code);
    ask.type = is_lines ? "application/x-ndjson" : "application/json";
    const char *path = cli_path(&cli, "/v1/streams/%s", cli.words.items[0]);
    path = url_parameter(&cli.arena, path, "key", key);
    ask.path = url_parameter(&cli.arena, path, "partition", partition);
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) {
        if (cli.format == FORMAT_JSON || cli.format == FORMAT_JSONL)
            print_json(&cli, ask.value);
        else if (is_lines)
            cli_say(&cli, "appended %s\n", member_text(&cli.arena, ask.value, "appended"));
        else
            cli_say(&cli, "appended to partition %s at offset %s\n",
                    member_text(&cli.arena, ask.value, "partition"),
                    member_text(&cli.arena, ask.value, "offset"));
    }
    return cli_close(&cli, code);
}

/* Without a group: by offset. With one: where the group stands. */
static void read_request(struct cli *cli, struct ask *ask, const char *group, const char *partition,
                         const char *from, uint64_t limit, const char *wait)
{
    char count[24];
    struct body body;
    const char *stream = cli->words.items[0];

    (void)snprintf(count, sizeof count, "%llu", (unsigned long long)limit);
    if (group == NULL) {
        const char *path = cli_path(cli, "/v1/streams/%s/partitions/%s", stream, partition);
        path = url_parameter(&cli->arena, path, "from", from);
        path = url_parameter(&cli->arena, path, "limit", count);
        ask->path = url_parameter(&cli->arena, path, "wait", wait);
        return;
    }
    body_begin(&body);
    body_number_or_text(&body, "partition", partition);
    body_number(&body, "max", limit);
    body_text(&body, "wait", wait);
    ask->method = "POST";
    ask->body = body_end(&body, cli, false);
    ask->path = cli_path(cli, "/v1/streams/%s/groups/%s/read", stream, group);
}

int verb_stream_read(const struct command *command, int argc, char **argv)
{
    const char *partition = "0";
    const char *from = NULL;
    const char *group = NULL;
    const char *wait = NULL;
    uint64_t limit = 100;
    const struct option_spec specs[] = {
        {.name = "partition", .value = "N", .help = "which", .text = "0", .string = &partition},
        {.name = "from", .value = "OFFSET", .help = "first, next or an offset", .string = &from},
        {.name = "group",
         .value = "NAME",
         .help = "read on where this group stands",
         .string = &group},
        {.name = "limit",
         .letter = 'n',
         .value = "N",
         .help = "at most",
         .text = "100",
         .number = &limit,
         .least = 1,
         .most = 1000},
        {.name = "wait",
         .value = "DURATION",
         .help = "for messages when there are none",
         .string = &wait},
    };
    struct cli cli;
    struct ask ask = {.timeout_ms = 90000};
    int code;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    read_request(&cli, &ask, group, partition, from, limit, wait);
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) {
        print_items(&cli, ask.value, message_columns, N(message_columns), "there are no messages");
        cli_say(&cli, "next offset: %s\n", member_text(&cli.arena, ask.value, "next"));
    }
    return cli_close(&cli, code);
}

/* ---- groups ---- */

int verb_stream_groups(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    const char *group = cli_word(&cli, 1);
    struct ask ask = {.path = cli_path(&cli, "/v1/streams/%s", cli.words.items[0])};
    if (group != NULL)
        ask.path = cli_path(&cli, "/v1/streams/%s/groups/%s", cli.words.items[0], group);
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK && (cli.format == FORMAT_TABLE || cli.format == FORMAT_WIDE)) {
        struct value items = value_member(ask.value, group == NULL ? "groups" : "partitions");
        if (items.type == JSON_NONE) items = value_member(ask.value, "items");
        struct column present[8];
        size_t n = columns_present(group_columns, N(group_columns), items, present);
        struct printer p;
        struct value_cursor cursor = value_begin(items);
        printer_begin(&p, &cli, present, n);
        while (n > 0 && value_next(&cursor, NULL)) printer_item(&p, cursor.value);
        printer_end(&p);
        if (p.items_n == 0) cli_say(&cli, "there are no groups\n");
    } else if (code == EXIT_CODE_OK) {
        print_json(&cli, group == NULL ? value_member(ask.value, "groups") : ask.value);
    }
    return cli_close(&cli, code);
}

static int group_post(const struct command *command, int argc, char **argv, const char *verb,
                      const char *field, const char *done)
{
    const char *partition = "0";
    const struct option_spec specs[] = {
        {.name = "partition", .value = "N", .help = "which", .text = "0", .string = &partition},
    };
    struct cli cli;
    struct body body;
    int code;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    body_begin(&body);
    body_number_or_text(&body, "partition", partition);
    body_number_or_text(&body, field, cli.words.items[2]);
    struct ask ask = {.method = "POST", .body = body_end(&body, &cli, false)};
    ask.path =
        cli_path(&cli, "/v1/streams/%s/groups/%s/%s", cli.words.items[0], cli.words.items[1], verb);
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) print_done(&cli, done, cli.words.items[1], ask.value);
    return cli_close(&cli, code);
}

int verb_stream_checkpoint(const struct command *command, int argc, char **argv)
{
    return group_post(command, argc, argv, "checkpoint", "offset", "checkpointed");
}

int verb_stream_seek(const struct command *command, int argc, char **argv)
{
    return group_post(command, argc, argv, "seek", "to", "moved");
}

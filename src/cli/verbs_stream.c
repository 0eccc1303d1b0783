/* SPDX-License-Identifier: Apache-2.0
 *
 * norn stream: named streams of messages, their partitions and the groups that read them.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/form.h"
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
    return list_run(command, argc, argv, "/v1/streams", stream_columns, N(stream_columns),
                    "there are no streams");
}

/* ---- one ---- */

static const struct column show_columns[] = {
    {"name", "name", COLUMN_KEY, false},
    {"messages", "messages", COLUMN_NUMBER, false},
    {"size", "bytes", COLUMN_SIZE, false},
    {"dead letters", "deadLetters", COLUMN_NUMBER, false},
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
    {"PARTITION", "partition", COLUMN_NUMBER, false},
    {"POSITION", "position", COLUMN_NUMBER, false},
    {"LAG", "lag", COLUMN_NUMBER, false},
    {"LOCKED", "locked", COLUMN_NUMBER, true},
    {"WAITING", "waiting", COLUMN_NUMBER, true},
};

/* {"group":"g","partition":0,...}: one row of what a partition says of its groups. */
static void print_group(struct printer *p, const char *group, struct value partition,
                        struct value position)
{
    struct form row;
    struct value_cursor members = value_begin(position);

    form_begin(&row);
    form_text(&row, "group", group);
    form_raw(&row, "partition", value_member(partition, "partition").raw);
    while (value_next(&members, &p->cli->arena))
        if (members.key != NULL) form_raw(&row, members.key, members.value.raw);
    printer_item(p, value_parse(form_end(&row, p->cli, false), NULL));
}

/* The groups of all partitions, or one of them. Answers how many rows there were. */
static size_t print_groups(struct cli *cli, struct value stream, const char *only)
{
    struct printer p;
    struct value_cursor partitions = value_begin(value_member(stream, "items"));

    printer_begin(&p, cli, group_columns, N(group_columns));
    while (value_next(&partitions, NULL)) {
        struct value_cursor groups = value_begin(value_member(partitions.value, "groups"));
        while (value_next(&groups, &cli->arena)) {
            bool is_meant = groups.key != NULL && (only == NULL || strcmp(only, groups.key) == 0);
            if (is_meant) print_group(&p, groups.key, partitions.value, groups.value);
        }
    }
    printer_end(&p);
    return p.items_n;
}

static int stream_get(struct cli *cli, struct ask *ask)
{
    *ask =
        (struct ask){.path = cli_path(cli, "/v1/streams/%s", cli->words.items[0]), .needs = "name"};
    return cli_ask(cli, ask);
}

int verb_stream_show(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    struct ask ask;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    code = stream_get(&cli, &ask);
    if (code == EXIT_CODE_OK) {
        print_object(&cli, show_columns, N(show_columns), ask.value);
        if (cli_is_table(&cli)) {
            (void)putchar('\n');
            print_items(&cli, ask.value, partition_columns, N(partition_columns), "");
            (void)putchar('\n');
            (void)print_groups(&cli, ask.value, NULL);
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
        OPTION_NUMBER("partitions", "N", "can grow later, not shrink", NULL, &partitions, 1, 4096),
        OPTION_TEXT("retention", "DURATION", "how long messages stay", NULL, &retention),
        OPTION_NUMBER("retention-bytes", "SIZE", "how much stays; 64M, 1G", NULL, &retention_bytes,
                      1, INT64_MAX),
        OPTION_TEXT("workflow", "NAME", "each message starts one instance of it", NULL, &workflow),
        OPTION_NUMBER("max-deliveries", "N", "then it is a dead letter", NULL, &deliveries, 1,
                      1000000),
        OPTION_TEXT("lock", "DURATION", "how long a receiver has a message", NULL, &lock),
    };
    struct cli cli;
    struct form body;
    int code;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    form_begin(&body);
    if (partitions > 0) form_number(&body, "partitions", partitions);
    form_text(&body, "retention", retention);
    if (retention_bytes > 0) form_number(&body, "retentionBytes", retention_bytes);
    form_text(&body, "workflow", workflow);
    if (deliveries > 0) form_number(&body, "maxDeliveries", deliveries);
    form_text(&body, "lock", lock);
    const char *name = cli.words.items[0];
    struct ask ask = {.method = "PUT", .body = form_end(&body, &cli, false)};
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
        code = ask_done(&cli, &ask, "deleted", name);
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
        OPTION_TEXT("key", "TEXT", "of the message; chooses the partition", NULL, &key),
        OPTION_TEXT("partition", "N", "this one", NULL, &partition),
        OPTION_FLAG("lines",
                    "the file has a line {\"key\":..,\"value\":..} for each message: all or none",
                    &is_lines),
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
    ask.needs = is_lines ? "appended" : "offset";
    const char *path = cli_path(&cli, "/v1/streams/%s", cli.words.items[0]);
    path = url_parameter(&cli.arena, path, "key", key);
    ask.path = url_parameter(&cli.arena, path, "partition", partition);
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK) {
        if (cli_is_json(&cli))
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
    struct form body;
    const char *stream = cli->words.items[0];

    (void)snprintf(count, sizeof count, "%llu", (unsigned long long)limit);
    if (group == NULL) {
        const char *path = cli_path(cli, "/v1/streams/%s/partitions/%s", stream, partition);
        path = url_parameter(&cli->arena, path, "from", from);
        path = url_parameter(&cli->arena, path, "limit", count);
        ask->path = url_parameter(&cli->arena, path, "wait", wait);
        return;
    }
    form_begin(&body);
    form_number_or_text(&body, "partition", partition);
    form_number(&body, "max", limit);
    form_text(&body, "wait", wait);
    ask->method = "POST";
    ask->body = form_end(&body, cli, false);
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
        OPTION_TEXT("partition", "N", "which", "0", &partition),
        OPTION_TEXT("from", "OFFSET", "first, next or an offset", NULL, &from),
        OPTION_TEXT("group", "NAME", "read on where this group stands", NULL, &group),
        {.name = "limit",
         .letter = 'n',
         .value = "N",
         .help = "at most",
         .text = "100",
         .number = &limit,
         .least = 1,
         .most = 1000},
        OPTION_TEXT("wait", "DURATION", "for messages when there are none", NULL, &wait),
    };
    struct cli cli;
    struct ask ask = {.timeout_ms = 90000, .needs = "items"};
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
    struct ask ask;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    const char *group = cli_word(&cli, 1);
    code = stream_get(&cli, &ask);
    if (code == EXIT_CODE_OK && print_groups(&cli, ask.value, group) == 0 && group != NULL)
        code =
            cli_failf(&cli, EXIT_CODE_NOT_FOUND, "group-not-found",
                      "there is no group '%s'; one is there from its first checkpoint on", group);
    return cli_close(&cli, code);
}

static int group_post(const struct command *command, int argc, char **argv, const char *verb,
                      const char *field, const char *done)
{
    const char *partition = "0";
    const struct option_spec specs[] = {
        OPTION_TEXT("partition", "N", "which", "0", &partition),
    };
    struct cli cli;
    struct form body;
    int code;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    form_begin(&body);
    form_number_or_text(&body, "partition", partition);
    form_number_or_text(&body, field, cli.words.items[2]);
    struct ask ask = {.method = "POST", .body = form_end(&body, &cli, false)};
    ask.path =
        cli_path(&cli, "/v1/streams/%s/groups/%s/%s", cli.words.items[0], cli.words.items[1], verb);
    code = ask_done(&cli, &ask, done, cli.words.items[1]);
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

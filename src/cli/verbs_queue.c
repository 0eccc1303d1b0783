/* SPDX-License-Identifier: Apache-2.0
 *
 * norn queue: the messages of a stream with competing consumers. norn dead-letter: those nobody
 * could take.
 */
#include "cli/form.h"
#include "cli/print.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#define N(array) (sizeof(array) / sizeof(array)[0])

static const struct column received_columns[] = {
    {"TOKEN", "token", COLUMN_KEY, false},
    {"PARTITION", "partition", COLUMN_NUMBER, true},
    {"OFFSET", "offset", COLUMN_NUMBER, false},
    {"KEY", "key", COLUMN_TEXT, false},
    {"DELIVERY", "delivery", COLUMN_NUMBER, false},
    {"LOCKED UNTIL", "lockedUntil", COLUMN_TIME, false},
    {"VALUE", "value", COLUMN_JSON, false},
};

int verb_queue_receive(const struct command *command, int argc, char **argv)
{
    uint64_t max = 1;
    const char *wait = NULL;
    const char *lock = NULL;
    const char *consumer = NULL;
    const struct option_spec specs[] = {
        OPTION_NUMBER("max", "N", "at most", "1", &max, 1, 1000),
        OPTION_TEXT("wait", "DURATION", "for a message when there is none", NULL, &wait),
        OPTION_TEXT("lock", "DURATION", "nobody else gets it so long", NULL, &lock),
        OPTION_TEXT("consumer", "NAME", "who takes it", NULL, &consumer),
    };
    struct cli cli;
    struct form body;
    int code;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    form_begin(&body);
    form_number(&body, "max", max);
    form_text(&body, "wait", wait);
    form_text(&body, "lock", lock);
    form_text(&body, "consumer", consumer);
    struct ask ask = {.method = "POST", .body = form_end(&body, &cli, false), .timeout_ms = 90000};
    ask.needs = "items";
    ask.path = cli_path(&cli, "/v1/queues/%s/receive", cli.words.items[0]);
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK)
        print_items(&cli, ask.value, received_columns, N(received_columns), "there is no message");
    return cli_close(&cli, code);
}

static int settle(const struct command *command, int argc, char **argv, const char *verb,
                  const char *done, const char *option, const char *help)
{
    const char *value = NULL;
    const struct option_spec specs[] = {
        OPTION_TEXT(option == NULL ? "" : option,
                    option != NULL && strcmp(option, "lock") == 0 ? "DURATION" : "TEXT", help, NULL,
                    &value),
    };
    struct cli cli;
    struct form body;
    int code;

    if (!cli_open(&cli, command, specs, option == NULL ? 0 : 1, argc, argv, &code)) return code;
    form_begin(&body);
    if (option != NULL) form_text(&body, option, value);
    struct ask ask = {.method = "POST", .body = form_end(&body, &cli, true)};
    ask.path = cli_path(&cli, "/v1/queues/%s/messages/%s/%s", cli.words.items[0],
                        cli.words.items[1], verb);
    code = ask_done(&cli, &ask, done, cli.words.items[1]);
    return cli_close(&cli, code);
}

int verb_queue_complete(const struct command *command, int argc, char **argv)
{
    return settle(command, argc, argv, "complete", "completed", NULL, NULL);
}

int verb_queue_abandon(const struct command *command, int argc, char **argv)
{
    return settle(command, argc, argv, "abandon", "abandoned", NULL, NULL);
}

int verb_queue_renew(const struct command *command, int argc, char **argv)
{
    return settle(command, argc, argv, "renew", "renewed", "lock", "from now on");
}

int verb_queue_dead_letter(const struct command *command, int argc, char **argv)
{
    return settle(command, argc, argv, "dead-letter", "dead-lettered", "reason",
                  "kept with the message");
}

/* ---- dead letters ---- */

static const struct column dead_columns[] = {
    {"ID", "id", COLUMN_KEY, false},
    {"STREAM", "stream", COLUMN_TEXT, false},
    {"PARTITION", "partition", COLUMN_NUMBER, true},
    {"OFFSET", "offset", COLUMN_NUMBER, true},
    {"KEY", "key", COLUMN_TEXT, false},
    {"TIME", "time", COLUMN_TIME, false},
    {"DELIVERIES", "deliveries", COLUMN_NUMBER, true},
    {"SIZE", "size", COLUMN_SIZE, true},
    {"REASON", "reason", COLUMN_TEXT, false},
};
static const struct column dead_show_columns[] = {
    {"id", "id", COLUMN_KEY, false},
    {"stream", "stream", COLUMN_TEXT, false},
    {"partition", "partition", COLUMN_NUMBER, false},
    {"offset", "offset", COLUMN_NUMBER, false},
    {"key", "key", COLUMN_TEXT, false},
    {"time", "time", COLUMN_TIME, false},
    {"deliveries", "deliveries", COLUMN_NUMBER, false},
    {"size", "size", COLUMN_SIZE, false},
    {"reason", "reason", COLUMN_TEXT, false},
    {"value", "value", COLUMN_JSON, false},
    {"base64", "base64", COLUMN_TEXT, false},
};

int verb_dead_letter_list(const struct command *command, int argc, char **argv)
{
    const char *stream = NULL;
    struct paging paging = PAGING_DEFAULT;
    const struct option_spec specs[] = {
        OPTION_TEXT("stream", "NAME", "of this stream", NULL, &stream),
        PAGING_SPECS(paging),
    };
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    const char *path = url_parameter(&cli.arena, "/v1/dead-letters", "stream", stream);
    code =
        print_list(&cli, path, dead_columns, N(dead_columns), paging, "there are no dead letters");
    return cli_close(&cli, code);
}

int verb_dead_letter_show(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    struct ask ask = {.path = cli_path(&cli, "/v1/dead-letters/%s", cli.words.items[0]),
                      .needs = "id"};
    code = cli_ask(&cli, &ask);
    if (code == EXIT_CODE_OK)
        print_object(&cli, dead_show_columns, N(dead_show_columns), ask.value);
    return cli_close(&cli, code);
}

int verb_dead_letter_edit(const struct command *command, int argc, char **argv)
{
    const char *key = NULL;
    const char *value = NULL;
    const struct option_spec specs[] = {
        OPTION_TEXT("key", "TEXT", "its key from now on", NULL, &key),
        OPTION_TEXT("value", "JSON", "its value from now on; @file or -", NULL, &value),
    };
    struct cli cli;
    struct form body;
    struct bytes json;
    int code;

    if (!cli_open(&cli, command, specs, N(specs), argc, argv, &code)) return code;
    if (key == NULL && value == NULL)
        return cli_close(&cli, cli_fail(&cli, EXIT_CODE_USAGE, "bad-words",
                                        "what is to change? give --key or --value", NULL));
    if (!cli_payload(&cli, value, &json, &code)) return cli_close(&cli, code);
    form_begin(&body);
    form_text(&body, "key", key);
    form_raw(&body, "value", json);
    struct ask ask = {.method = "PUT", .body = form_end(&body, &cli, false)};
    ask.path = cli_path(&cli, "/v1/dead-letters/%s", cli.words.items[0]);
    code = ask_done(&cli, &ask, "edited", cli.words.items[0]);
    return cli_close(&cli, code);
}

static int each_letter(const struct command *command, int argc, char **argv, bool is_resubmit)
{
    struct cli cli;
    char question[64];
    int code;
    int first = EXIT_CODE_OK;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    (void)snprintf(question, sizeof question, "Discard %zu for ever?", cli.words.n);
    if (!is_resubmit && !cli_confirm(&cli, question, &code)) return cli_close(&cli, code);
    for (size_t n = 0; n < cli.words.n; n++) {
        const char *id = cli.words.items[n];
        struct ask ask = {.method = is_resubmit ? "POST" : "DELETE"};
        ask.path = is_resubmit ? cli_path(&cli, "/v1/dead-letters/%s/resubmit", id)
                               : cli_path(&cli, "/v1/dead-letters/%s", id);
        code = ask_done(&cli, &ask, is_resubmit ? "resubmitted" : "discarded", id);
        if (first == EXIT_CODE_OK) first = code;
    }
    return cli_close(&cli, first);
}

int verb_dead_letter_resubmit(const struct command *command, int argc, char **argv)
{
    return each_letter(command, argc, argv, true);
}

int verb_dead_letter_discard(const struct command *command, int argc, char **argv)
{
    return each_letter(command, argc, argv, false);
}

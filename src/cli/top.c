/* SPDX-License-Identifier: Apache-2.0
 *
 * norn top: what the server does now. Counters become rates by asking twice; whatever else the
 * server tells is shown as it stands, so that a newer server shows more with an older norn.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/print.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#define FIGURES_MAX 256
#define NAME_SIZE 64

/* A number of /v1/stats with its path: "counters.started". */
struct figure {
    char name[NAME_SIZE];
    int64_t value;
};

struct sample {
    struct figure figures[FIGURES_MAX];
    size_t n;
    int64_t at_ns;
};

static void collect(struct cli *cli, struct sample *sample, struct value v, const char *prefix)
{
    struct value_cursor cursor = value_begin(v);

    while (cursor.is_object && value_next(&cursor, &cli->arena)) {
        char name[NAME_SIZE];
        int64_t number = 0;
        if (cursor.key == NULL) continue;
        (void)snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".",
                       cursor.key);
        if (cursor.value.type == JSON_OBJECT) collect(cli, sample, cursor.value, name);
        if (!value_int64(cursor.value, &number) || sample->n == FIGURES_MAX) continue;
        struct figure *figure = &sample->figures[sample->n++];
        memcpy(figure->name, name, sizeof name);
        figure->value = number;
    }
}

static int sample_take(struct cli *cli, struct sample *sample)
{
    struct ask ask = {.path = "/v1/stats", .needs = "counters"};

    int code = cli_ask(cli, &ask);
    sample->n = 0;
    sample->at_ns = clock_mono_ns();
    if (code == EXIT_CODE_OK) collect(cli, sample, ask.value, "");
    return code;
}

static bool figure_find(const struct sample *sample, const char *name, int64_t *out)
{
    for (size_t n = 0; n < sample->n; n++) {
        if (strcmp(sample->figures[n].name, name) != 0) continue;
        *out = sample->figures[n].value;
        return true;
    }
    return false;
}

/* Per second between two samples; false for what does not only grow. */
static bool rate_of(const struct sample *before, const struct sample *now, const char *name,
                    double *out)
{
    int64_t old = 0;
    int64_t new = 0;
    double elapsed_s = (double)(now->at_ns - before->at_ns) / 1e9;

    bool is_counter = strncmp(name, "counters.", 9) == 0 || strstr(name, "Calls") != NULL ||
                      strstr(name, "Requests") != NULL || strstr(name, "httpAnswers") != NULL;
    if (!is_counter || elapsed_s <= 0 || !figure_find(before, name, &old) ||
        !figure_find(now, name, &new) || new < old)
        return false;
    *out = (double)(new - old) / elapsed_s;
    return true;
}

static void figure_row(struct table *table, const struct sample *before, const struct sample *now,
                       const struct figure *figure)
{
    char text[UNITS_SIZE];
    double rate = 0;
    size_t len = strlen(figure->name);
    bool is_size = len > 5 && strcmp(figure->name + len - 5, "Bytes") == 0 && figure->value >= 0;

    table_cell_add(table, figure->name, COLOR_NONE);
    if (is_size)
        size_describe((uint64_t)figure->value, text);
    else
        (void)snprintf(text, sizeof text, "%lld", (long long)figure->value);
    table_cell_add(table, text, COLOR_NONE);
    text[0] = '\0';
    if (rate_of(before, now, figure->name, &rate)) (void)snprintf(text, sizeof text, "%.1f", rate);
    table_cell_add(table, text, rate > 0 ? COLOR_GREEN : COLOR_GRAY);
}

static void print_json_sample(const struct sample *before, const struct sample *now)
{
    bool is_first = true;

    (void)putchar('{');
    for (size_t n = 0; n < now->n; n++) {
        double rate = 0;
        (void)printf("%s\"%s\":%lld", is_first ? "" : ",", now->figures[n].name,
                     (long long)now->figures[n].value);
        is_first = false;
        if (rate_of(before, now, now->figures[n].name, &rate))
            (void)printf(",\"%s.perSecond\":%.1f", now->figures[n].name, rate);
    }
    (void)puts("}");
}

static unsigned print_table(struct cli *cli, const struct sample *before, const struct sample *now,
                            bool is_live, unsigned drawn_n)
{
    struct table table;
    struct buffer text;

    table_init(&table, &cli->arena, &cli->terminal);
    table_column_add(&table, (struct table_column){.title = "WHAT", .is_key = true});
    table_column_add(&table, (struct table_column){.title = "NOW", .is_right = true});
    table_column_add(&table, (struct table_column){.title = "PER SECOND", .is_right = true});
    /* drawn again and again, it must fit: what is nothing goes first */
    for (size_t n = 0; n < now->n; n++) {
        bool is_full = is_live && table.rows_n + 2 >= cli->terminal.height;
        if (!is_full && !(is_live && now->figures[n].value == 0))
            figure_row(&table, before, now, &now->figures[n]);
    }
    buffer_init(&text, mem_process());
    if (drawn_n > 0) buffer_format(&text, "\033[%uA\033[J", drawn_n);
    table_print(&table, &text);
    print_buffer(&text);
    buffer_release(&text);
    (void)fflush(stdout);
    return (unsigned)table.rows_n + 1;
}

int verb_top(const struct command *command, int argc, char **argv)
{
    int64_t every_ms = 1000;
    uint64_t count = 0;
    const struct option_spec specs[] = {
        {.name = "every",
         .value = "DURATION",
         .help = "how often",
         .text = "1s",
         .duration_ms = &every_ms},
        {.name = "count",
         .letter = 'n',
         .value = "N",
         .help = "so many times; once when there is no terminal, for ever on one",
         .number = &count,
         .least = 1,
         .most = 1000000000},
    };
    struct cli cli;
    struct sample samples[2];
    unsigned drawn_n = 0;
    int code;

    if (!cli_open(&cli, command, specs, 2, argc, argv, &code)) return code;
    bool is_live = cli.terminal.is_terminal && cli.format == FORMAT_TABLE;
    if (count == 0) count = is_live ? UINT64_MAX : 1;
    code = sample_take(&cli, &samples[0]);
    for (uint64_t n = 0; n < count && code == EXIT_CODE_OK; n++) {
        cli_sleep_ms(cli_time_left_ms(&cli, every_ms));
        if (cli_time_left_ms(&cli, 1) == 0) break;
        struct arena kept = cli_arena_swap(&cli);
        code = sample_take(&cli, &samples[1]);
        if (code == EXIT_CODE_OK && cli_is_json(&cli))
            print_json_sample(&samples[0], &samples[1]);
        else if (code == EXIT_CODE_OK)
            drawn_n = print_table(&cli, &samples[0], &samples[1], is_live, is_live ? drawn_n : 0);
        cli_arena_restore(&cli, kept);
        samples[0] = samples[1];
    }
    return cli_close(&cli, code);
}

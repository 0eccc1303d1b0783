/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of `norn server`: where a value comes from, what is refused and with which words.
 */
#include "server/config.h"
#include "server/ingest_rules.h"
#include "server/policy_rules.h"

#include "base/log.h"
#include "base/mem.h"
#include "server/address.h"
#include "server/server.h"
#include "test/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct config config;
static struct buffer problems;

static void begin(void)
{
    buffer_init(&problems, mem_process());
    EXPECT_STATUS(OK, config_init(&config, mem_process()));
}

static void end(void)
{
    config_release(&config);
    buffer_release(&problems);
}

static enum status read_text(const char *text)
{
    return config_read_text(&config, "norn.conf", bytes_of_text(text), &problems);
}

static const char *problem_text(void)
{
    buffer_u8(&problems, '\0');
    EXPECT(!problems.failed);
    return (const char *)problems.ptr;
}

/* The one problem that a text has. */
static void expect_problem(const char *expected, const char *text)
{
    begin();
    EXPECT_STATUS(E_INVALID, read_text(text));
    EXPECT_TEXT(expected, problem_text());
    end();
}

/* ---- values ---- */

TEST(only_this_machine_is_loopback)
{
    const char *const loopback[] = {"127.0.0.1:4001", "127.8.9.1:1", "[::1]:4001",
                                    "localhost:4001"};
    const char *const reachable[] = {"0.0.0.0:4001",     "[::]:4001",      "10.0.0.1:4001",
                                     "example.org:4001", "128.0.0.1:4001", "localhost.org:1"};
    const char *const wrong[] = {
        "",         "127.0.0.1", ":4001",   "127.0.0.1:", "[::1]",      "127.0.0.1:65536",
        "::1:4001", "[::1:4001", "[]:4001", "a b:4001",   "host:99999", "host:1x"};

    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        test_note("%s", loopback[i]);
        EXPECT(address_is_valid(loopback[i]));
        EXPECT(address_is_loopback(loopback[i]));
    }
    for (size_t i = 0; i < sizeof reachable / sizeof reachable[0]; i++) {
        test_note("%s", reachable[i]);
        EXPECT(address_is_valid(reachable[i]));
        EXPECT(!address_is_loopback(reachable[i]));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        test_note("%s", wrong[i]);
        EXPECT(!address_is_valid(wrong[i]));
        EXPECT(!address_is_loopback(wrong[i]));
    }
}

/* ---- the file ---- */

TEST(a_file_sets_what_it_names_and_nothing_else)
{
    begin();
    EXPECT_STATUS(OK, read_text("# a comment\n"
                                "[server]\n"
                                "listen = \"127.0.0.1:4002\" # behind a value\n"
                                "data='C:\\no escapes'\r\n"
                                "insecure = true\n"
                                "\n"
                                "  [ log ]  \n"
                                "\tlevel\t=\t\"warn\"\n"
                                "[work]\n"
                                "ping = \"1m\"\n"
                                "in_flight_max = 1_000\n"
                                "history_size_max = 8192\n"
                                "[store]\n"
                                "hot_memory_max = \"64MiB\""));
    EXPECT_EQ(0, problems.len);
    EXPECT_TEXT("127.0.0.1:4002", config_text(&config, CONFIG_server_listen));
    EXPECT_TEXT("C:\\no escapes", config_text(&config, CONFIG_server_data));
    EXPECT_EQ(1, config_number(&config, CONFIG_server_insecure));
    EXPECT_EQ(LOG_WARN, config_number(&config, CONFIG_log_level));
    EXPECT_EQ(60000, config_number(&config, CONFIG_work_ping));
    EXPECT_EQ(1000, config_number(&config, CONFIG_work_in_flight_max));
    EXPECT_EQ(8192, config_number(&config, CONFIG_work_history_size_max));
    EXPECT_EQ(64 << 20, config_number(&config, CONFIG_store_hot_memory_max));
    EXPECT_EQ(SOURCE_FILE, config.values[CONFIG_work_ping].source);
    EXPECT_EQ(10, config.values[CONFIG_work_ping].line);
    EXPECT_EQ(SOURCE_DEFAULT, config.values[CONFIG_work_grace].source);
    EXPECT_EQ(5000, config_number(&config, CONFIG_work_grace));
    end();
}

TEST(what_is_unknown_is_an_error_with_its_line_and_the_nearest_name)
{
    expect_problem("norn.conf:2: there is no \"lissten\" in [server]; did you mean \"listen\" of "
                   "[server]?\n",
                   "[server]\nlissten = \"127.0.0.1:1\"\n");
    expect_problem("norn.conf:2: there is no \"level\" in [server]; it belongs to [log]\n",
                   "[server]\nlevel = \"info\"\n");
    expect_problem("norn.conf:3: there is no \"colour_of_the_walls\" in [log]; norn server --help "
                   "lists all settings\n",
                   "\n[log]\ncolour_of_the_walls = 3\n");
    expect_problem("norn.conf:1: there is no section [serwer]; did you mean [server]?\n",
                   "[serwer]\nlisten = \"127.0.0.1:1\"\n");
}

/* The file stays valid TOML, so that another reader can replace ours. */
TEST(values_are_written_as_toml_wants_them)
{
    expect_problem("norn.conf:2: write a duration in quotes, with its unit: \"30s\"\n",
                   "[work]\nping = 30s\n");
    expect_problem("norn.conf:2: write a size in quotes: \"16MiB\"\n",
                   "[server]\nmessage_size_max = 16MiB\n");
    expect_problem("norn.conf:2: write this value in quotes: \"...\"\n", "[log]\nlevel = info\n");
    expect_problem("norn.conf:2: write a number without quotes\n",
                   "[work]\nworkers_max = \"10\"\n");
    expect_problem("norn.conf:2: write true or false without quotes\n",
                   "[server]\ninsecure = \"true\"\n");
}

TEST(broken_lines_are_refused)
{
    expect_problem("norn.conf:1: a key before the first [section]\n", "listen = \"a:1\"\n");
    expect_problem("norn.conf:2: a line is a [section], key = value, or a # comment\n",
                   "[server]\nlisten\n");
    expect_problem("norn.conf:1: a section is written [name], alone on its line\n", "[server\n");
    expect_problem("norn.conf:1: a section is written [name], alone on its line\n",
                   "[server] x = 1\n");
    expect_problem("norn.conf:1: a section's name has letters, digits, '_' and '-'\n",
                   "[a.b]\nx = 1\n");
    expect_problem("norn.conf:2: the closing quote is missing\n", "[server]\ndata = \"x\n");
    expect_problem("norn.conf:2: something follows the value\n", "[server]\ndata = \"x\" y\n");
    expect_problem("norn.conf:2: the value is missing\n", "[server]\ndata =\n");
    expect_problem("norn.conf:2: a key has letters, digits, '_' and '-'\n",
                   "[server]\n\"data\" = \"x\"\n");
    expect_problem("norn.conf:2: after a backslash in \"...\" comes \\, \", n or t; or use '...'\n",
                   "[server]\ndata = \"\\x\"\n");
    expect_problem("norn.conf:3: \"data\" was set in line 2 already\n",
                   "[server]\ndata = \"x\"\ndata = \"y\"\n");
    expect_problem("norn.conf:3: this section was begun before; put its settings together\n",
                   "[server]\n[log]\n[server]\n");
    expect_problem("norn.conf:1: this is not text in UTF-8\n", "[server]\ndata = \"\xff\"\n");
}

TEST(values_out_of_range_are_refused_with_the_range)
{
    expect_problem("norn.conf:2: ping = 1ms is not from 100ms to 1d\n", "[work]\nping = \"1ms\"\n");
    expect_problem("norn.conf:2: workers_max = 0 is not from 1 to 1000000\n",
                   "[work]\nworkers_max = 0\n");
    expect_problem("norn.conf:2: message_size_max = 2GiB is not from 64KiB to 1GiB\n",
                   "[server]\nmessage_size_max = \"2GiB\"\n");
    expect_problem("norn.conf:2: level must be debug, info, warn or error, not \"loud\"\n",
                   "[log]\nlevel = \"loud\"\n");
    expect_problem("norn.conf:2: listen must be addresses such as 127.0.0.1:4001 or [::1]:4001, "
                   "not \"4001\"\n",
                   "[server]\nlisten = \"4001\"\n");
}

/* All at once, so that a file is not mended line by line; but not a page of them. */
TEST(every_problem_is_told_up_to_a_limit)
{
    char text[4096] = "[server]\n";
    size_t len = strlen(text);

    begin();
    for (int i = 0; i < 30; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "zzzzzzzzzzz%d = 1\n", i);
    EXPECT_STATUS(E_INVALID, read_text(text));
    size_t lines = 0;
    for (const char *at = problem_text(); *at != '\0'; at++) lines += *at == '\n';
    EXPECT_EQ(21, lines);
    end();
}

/* Whatever the bytes are, reading ends, and says something or sets something. */
TEST(any_bytes_are_read_without_harm)
{
    uint8_t bytes[64];

    for (uint32_t seed = 1; seed <= 20000; seed++) {
        uint32_t x = seed * 2654435761u;
        size_t len = seed % sizeof bytes;
        static const char letters[] = "[]server\n= \"'#\\dat.log level1\r\t";
        for (size_t i = 0; i < len; i++) {
            x = x * 1664525u + 1013904223u;
            bytes[i] = (uint8_t)letters[(x >> 16) % (sizeof letters - 1)];
        }
        test_note("seed %u", seed);
        begin();
        enum status status = config_read_text(&config, "f", bytes_make(bytes, len), &problems);
        EXPECT(status == OK || status == E_INVALID);
        EXPECT((status == E_INVALID) == (problems.len > 0));
        end();
    }
}

TEST(a_file_that_cannot_be_read_is_a_problem)
{
    char path[512];

    begin();
    (void)snprintf(path, sizeof path, "%s/none", test_directory());
    EXPECT_STATUS(E_INVALID, config_read_file(&config, path, &problems));
    EXPECT(strstr(problem_text(), "No such file") != NULL);
    end();

    begin();
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    for (int i = 0; i < 70000; i++) (void)fputc('\n', file);
    (void)fclose(file);
    EXPECT_STATUS(E_INVALID, config_read_file(&config, path, &problems));
    EXPECT(strstr(problem_text(), "larger than 64 KiB") != NULL);
    end();
}

/* ---- precedence ---- */

TEST(a_flag_wins_over_the_environment_and_that_over_the_file)
{
    char *environment[] = {"NORN_LOG_LEVEL=warn", "NORN_WORK_PING=20s", "PATH=/bin",
                           "NORN_CONFIG=/x", NULL};

    begin();
    EXPECT_STATUS(OK, read_text("[log]\nlevel = \"debug\"\n[work]\nping = \"10s\"\ngrace = "
                                "\"1s\"\n"));
    EXPECT_STATUS(OK, config_read_environment(&config, environment, &problems));
    EXPECT_STATUS(OK, config_read_flag(&config, "log-level", "error", &problems));
    EXPECT_EQ(LOG_ERROR, config_number(&config, CONFIG_log_level));
    EXPECT_EQ(20000, config_number(&config, CONFIG_work_ping));
    EXPECT_EQ(1000, config_number(&config, CONFIG_work_grace));
    EXPECT_EQ(SOURCE_FLAG, config.values[CONFIG_log_level].source);
    EXPECT_EQ(SOURCE_ENVIRONMENT, config.values[CONFIG_work_ping].source);
    EXPECT_EQ(SOURCE_FILE, config.values[CONFIG_work_grace].source);
    end();
}

TEST(a_variable_that_is_nearly_ours_is_a_problem)
{
    char *environment[] = {"NORN_SERVER_LISTENN=127.0.0.1:1", NULL};

    begin();
    EXPECT_STATUS(E_INVALID, config_read_environment(&config, environment, &problems));
    EXPECT_TEXT("NORN_SERVER_LISTENN: there is no such setting; did you mean "
                "NORN_SERVER_LISTEN?\n",
                problem_text());
    end();
}

/* Kubernetes puts these into every container beside a service named norn-server, and so on: they
 * must not keep the server from starting. */
TEST(variables_of_a_container_manager_are_left_alone)
{
    char *environment[] = {"NORN_SERVER_PORT=tcp://10.0.0.1:4001",
                           "NORN_SERVER_SERVICE_HOST=10.0.0.1",
                           "NORN_SERVER_SERVICE_PORT=4001",
                           "NORN_SERVER_PORT_4001_TCP_ADDR=10.0.0.1",
                           "NORN_WORK_PORT=tcp://10.0.0.1:1",
                           "NORN_LOG_PORT=tcp://10.0.0.1:1",
                           "NORN_STORE_PORT=tcp://10.0.0.1:1",
                           "NORN_PORT=tcp://10.0.0.1:4001",
                           NULL};

    begin();
    EXPECT_STATUS(OK, config_read_environment(&config, environment, &problems));
    EXPECT_EQ(0, problems.len);
    end();
}

TEST(flags_are_named_after_their_settings)
{
    char near[SETTING_NAME_SIZE];

    begin();
    EXPECT_STATUS(OK, config_read_flag(&config, "insecure", NULL, &problems));
    EXPECT_EQ(1, config_number(&config, CONFIG_server_insecure));
    EXPECT_STATUS(OK, config_read_flag(&config, "store-hot-memory-max", "1GiB", &problems));
    EXPECT_EQ(1 << 30, config_number(&config, CONFIG_store_hot_memory_max));
    EXPECT_STATUS(E_NOT_FOUND, config_read_flag(&config, "hot-memory", "1", &problems));
    EXPECT_STATUS(E_INVALID, config_read_flag(&config, "work-ping", "soon", &problems));
    EXPECT_TEXT("--work-ping: ping must be a duration such as 250ms, 10s, 5m or 7d, not \"soon\"\n",
                problem_text());
    setting_flag_near("lisen", near);
    EXPECT_TEXT("listen", near);
    setting_flag_near("quite-something-else", near);
    EXPECT_TEXT("", near);
    end();
}

/* ---- between settings ---- */

TEST(other_machines_are_let_in_only_on_request)
{
    begin();
    EXPECT_STATUS(OK, config_check(&config, &problems));
    EXPECT_STATUS(OK, config_read_flag(&config, "listen", "127.0.0.1:1, 0.0.0.0:2", &problems));
    EXPECT_STATUS(E_INVALID, config_check(&config, &problems));
    const char *text = problem_text();
    EXPECT(strstr(text, "--listen: 0.0.0.0:2 can be reached") != NULL);
    EXPECT(strstr(text, "--insecure") != NULL);
    EXPECT_STATUS(OK, config_read_flag(&config, "insecure", "true", &problems));
    buffer_clear(&problems);
    EXPECT_STATUS(OK, config_check(&config, &problems));
    EXPECT_STATUS(OK, config_read_flag(&config, "store-shards", "33", &problems));
    EXPECT_STATUS(E_INVALID, config_check(&config, &problems));
    EXPECT_STATUS(OK, config_read_flag(&config, "store-partitions", "64", &problems));
    EXPECT_STATUS(OK, config_check(&config, &problems));
    end();
}

/* ---- printing ---- */

/* What --print-config shows can be saved and used: it says the same. */
TEST(the_printed_settings_are_a_file_that_means_the_same)
{
    struct buffer printed, again;
    struct config copy;

    begin();
    buffer_init(&printed, mem_process());
    buffer_init(&again, mem_process());
    EXPECT_STATUS(OK, read_text("[server]\ndata = \"a \\\"b\\\\ \\t\"\n[work]\nping = \"90s\"\n"));
    EXPECT_STATUS(OK, config_read_flag(&config, "insecure", NULL, &problems));
    config_print(&config, &printed);
    EXPECT_STATUS(OK, config_init(&copy, mem_process()));
    EXPECT_STATUS(OK, config_read_text(&copy, "copy", buffer_view(&printed), &problems));
    for (enum setting s = 0; s < SETTINGS_N; s++) {
        EXPECT_TEXT(config_text(&config, s), config_text(&copy, s));
        EXPECT_EQ(SOURCE_FILE, copy.values[s].source);
    }
    buffer_u8(&printed, '\0');
    const char *text = (const char *)printed.ptr;
    EXPECT(strstr(text, "# norn.conf:4\n") != NULL);
    EXPECT(strstr(text, "# --insecure\n") != NULL);
    EXPECT(strstr(text, "# default\n") != NULL);
    config_release(&copy);
    buffer_release(&again);
    buffer_release(&printed);
    end();
}

/* The page of settings is made from the table: a setting that is not there cannot be found. */
TEST(the_documentation_lists_every_setting_as_it_is)
{
    struct buffer rows, page;
    const char *root = getenv("NORN_SOURCE_DIR");
    char path[512];

    (void)snprintf(path, sizeof path, "%s/docs/configuration.md", root == NULL ? "." : root);
    buffer_init(&rows, mem_process());
    buffer_init(&page, mem_process());
    config_print_reference(&rows);
    FILE *file = fopen(path, "r");
    EXPECT(file != NULL);
    for (int c; (c = fgetc(file)) != EOF;) buffer_u8(&page, (uint8_t)c);
    (void)fclose(file);
    buffer_u8(&rows, '\0');
    buffer_u8(&page, '\0');
    if (strstr((const char *)page.ptr, (const char *)rows.ptr) == NULL)
        printf("# docs/configuration.md must have these rows:\n%s", (const char *)rows.ptr);
    EXPECT(strstr((const char *)page.ptr, (const char *)rows.ptr) != NULL);
    buffer_release(&rows);
    buffer_release(&page);
}

/* The table repeats the defaults of the parts, for people; it must not say something else. */
TEST(the_defaults_are_those_of_the_parts)
{
    struct server_options options = {0};
    struct engine_options engine;
    struct service_options service;
    struct conn_limits limits;

    begin();
    server_options_set(&options, &config);
    engine_options_init(&engine);
    service_options_init(&service);
    conn_limits_init(&limits);
    EXPECT_TEXT("norn-data", options.engine.directory);
    EXPECT_EQ(engine.journal_segment_size, options.engine.journal_segment_size);
    EXPECT_EQ(engine.archive_segment_size, options.engine.archive_segment_size);
    EXPECT_EQ(0, options.engine.host.partitions_n); /* as it was made, or as the engine decides */
    EXPECT_EQ(0, options.engine.host.shards_n);
    EXPECT_EQ(engine.host.hot_bytes_max, options.engine.host.hot_bytes_max);
    EXPECT_EQ(engine.host.idle_evict_ms, options.engine.host.idle_evict_ms);
    EXPECT_EQ(engine.host.horizon_ms, options.engine.host.horizon_ms);
    EXPECT_EQ(engine.host.archive_lag_max, options.engine.host.archive_lag_max);
    EXPECT_EQ(engine.host.archive_every_ms, options.engine.host.archive_every_ms);
    EXPECT_EQ(engine.host.archive_batch_n, options.engine.host.archive_batch_n);
    EXPECT_EQ(engine.host.disk_free_min, options.engine.host.disk_free_min);
    EXPECT_EQ(engine.host.active_max, options.engine.host.active_max);
    EXPECT_EQ(engine.host.active_max_by_name, options.engine.host.active_max_by_name);
    EXPECT_EQ(engine.host.rate_by_name, options.engine.host.rate_by_name);
    EXPECT_EQ(0, options.engine.host.backlog_rules_n);
    EXPECT(options.engine.host.policy == NULL);
    EXPECT_EQ(engine.host.backlog_n_max, options.engine.host.backlog_n_max);
    EXPECT_EQ(engine.host.backlog_size_max, options.engine.host.backlog_size_max);
    EXPECT_EQ(service.message_size_max, options.service.message_size_max);
    EXPECT_EQ(service.history_size_max, options.service.history_size_max);
    EXPECT_EQ(service.ping_ms, options.service.ping_ms);
    EXPECT_EQ(service.grace_ms, options.service.grace_ms);
    EXPECT_EQ(service.workers_n_max, options.service.workers_n_max);
    EXPECT_EQ(service.in_flight_n_max, options.service.in_flight_n_max);
    EXPECT_EQ(limits.message_size_max, options.limits.message_size_max);
    EXPECT_EQ(8000, options.drain_ms);
    EXPECT_TEXT("127.0.0.1:4001", options.listen);
    EXPECT(!options.is_insecure);
    end();
}

TEST(every_setting_reaches_its_part)
{
    struct server_options o = {0};

    begin();
    EXPECT_STATUS(
        OK, read_text("[server]\ndata = \"d\"\nlisten = \"[::1]:7\"\ninsecure = true\n"
                      "drain_timeout = \"3s\"\nconnections_max = 11\nmessage_size_max = \"1MiB\"\n"
                      "[work]\nworkers_max = 12\nin_flight_max = 13\nhistory_size_max = 14000\n"
                      "ping = \"15s\"\ngrace = \"16s\"\n"
                      "policies = \"ship:complete_by=35s; *:first_threshold=36\"\n"
                      "[store]\npartitions = 17\nshards = 3\nhot_memory_max = \"18MiB\"\n"
                      "idle_evict = \"19s\"\ntimer_horizon = \"20s\"\n"
                      "journal_segment_size = \"21MiB\"\narchive_segment_size = \"22MiB\"\n"
                      "archive_lag_max = \"23MiB\"\narchive_every = \"24ms\"\n"
                      "archive_batch = 25\ndisk_free_min = \"26MiB\"\n"
                      "[ingest]\nactive_max = 27\nactive_max_by_name = 28\nrate_by_name = 29\n"
                      "by_name = \"ship:active=30,rate=31; bill : rate = 32\"\n"
                      "backlog_max = 33\nbacklog_size_max = \"34MiB\"\n"));
    server_options_set(&o, &config);
    EXPECT_TEXT("d", o.engine.directory);
    EXPECT_TEXT("[::1]:7", o.listen);
    EXPECT(o.is_insecure);
    EXPECT_EQ(3000, o.drain_ms);
    EXPECT_EQ(11, o.connections_n_max);
    EXPECT_EQ(1 << 20, o.limits.message_size_max);
    EXPECT_EQ(1 << 20, o.service.message_size_max);
    EXPECT_EQ(12, o.service.workers_n_max);
    EXPECT_EQ(13, o.service.in_flight_n_max);
    EXPECT_EQ(14000, o.service.history_size_max);
    EXPECT_EQ(15000, o.service.ping_ms);
    EXPECT_EQ(16000, o.service.grace_ms);
    const struct host_options *host = &o.engine.host;
    EXPECT_EQ(35000, host->policy(host->policy_user, BYTES_LITERAL("Ship"))->complete_by_ms);
    EXPECT_EQ(36, host->policy(host->policy_user, BYTES_LITERAL("bill"))->first_threshold);
    EXPECT_EQ(17, o.engine.host.partitions_n);
    EXPECT_EQ(3, o.engine.host.shards_n);
    EXPECT_EQ(18 << 20, o.engine.host.hot_bytes_max);
    EXPECT_EQ(19000, o.engine.host.idle_evict_ms);
    EXPECT_EQ(20000, o.engine.host.horizon_ms);
    EXPECT_EQ(21 << 20, o.engine.journal_segment_size);
    EXPECT_EQ(22 << 20, o.engine.archive_segment_size);
    EXPECT_EQ(23 << 20, o.engine.host.archive_lag_max);
    EXPECT_EQ(24, o.engine.host.archive_every_ms);
    EXPECT_EQ(25, o.engine.host.archive_batch_n);
    EXPECT_EQ(26 << 20, o.engine.host.disk_free_min);
    EXPECT_EQ(27, o.engine.host.active_max);
    EXPECT_EQ(28, o.engine.host.active_max_by_name);
    EXPECT_EQ(29, o.engine.host.rate_by_name);
    EXPECT_EQ(2, o.engine.host.backlog_rules_n);
    const struct backlog_rule *rule = o.engine.host.backlog_rules;
    EXPECT(bytes_equal(BYTES_LITERAL("ship"), rule[0].name));
    EXPECT_EQ(30, rule[0].active_max);
    EXPECT_EQ(31, rule[0].rate);
    EXPECT(bytes_equal(BYTES_LITERAL("bill"), rule[1].name));
    EXPECT(!rule[1].has_active_max);
    EXPECT_EQ(32, rule[1].rate);
    EXPECT_EQ(33, o.engine.host.backlog_n_max);
    EXPECT_EQ(34 << 20, o.engine.host.backlog_size_max);
    end();
}

/* Limits by name are read strictly: a slip of the pen must not become no limit. */
TEST(limits_by_name_are_read_strictly)
{
    static const char *const wrong[] = {
        "ship",
        "ship:",
        "ship:active",
        "ship:active=",
        "ship:active=x",
        ":active=1",
        "ship:active=-1",
        "ship:speed=1",
        "ship:active=1,",
        "a:active=1;;",
        "a:rate=1,rate=2",
        "a:rate=1;a:active=2",
        "a:active=1 2",
        "a:active=9999999999",
    };
    for (size_t n = 0; n < sizeof wrong / sizeof wrong[0]; n++) {
        uint64_t rules_n = 0;
        test_note("%s", wrong[n]);
        EXPECT(!ingest_rules_count(bytes_of_text(wrong[n]), &rules_n));
    }
    uint64_t rules_n = 7;
    EXPECT(ingest_rules_count(BYTES_LITERAL("  "), &rules_n));
    EXPECT_EQ(0, rules_n);
}

/* So are policies: who believes that a step has an end when it has none waits for ever. S6 */
TEST(policies_by_name_are_read_strictly)
{
    static const char *const wrong[] = {
        "ship",
        "ship:",
        "ship:complete_by",
        "ship:complete_by=",
        "ship:complete_by=10",
        "ship:complete_by=-1s",
        "ship:complete_by=99999999d",
        ":complete_by=1s",
        "ship:deadline=1s",
        "ship:complete_by=1s,",
        "ship:complete_by=1s,complete_by=2s",
        "ship:complete_by=1s; SHIP:complete_by=2s",
        "*:complete_by=1s; *:complete_by=2s",
        "ship:complete_by=1s;;",
        "ship:retries_failures=1",
        "ship:first_threshold=x",
        "ship:first_threshold=3,second_threshold=2",
        "ship:second_threshold=2", /* below the first, which is 19 */
        "ship:last_resort=undo",
    };
    for (size_t n = 0; n < sizeof wrong / sizeof wrong[0]; n++) {
        uint64_t rules_n = 0;
        test_note("%s", wrong[n]);
        EXPECT(!policy_rules_count(bytes_of_text(wrong[n]), &rules_n));
    }
    test_note("%s", "");
    uint64_t rules_n = 7;
    EXPECT(policy_rules_count(BYTES_LITERAL("  "), &rules_n));
    EXPECT_EQ(0, rules_n);
}

TEST(every_word_of_a_policy_counts)
{
    static const char text[] =
        " ship : complete_by = 10m, retries_failures=true,first_threshold=2,retry_delay=3s,"
        "retry_delay_max=4s,second_threshold=5,extended_wait=6h,last_resort=park;"
        "*:first_threshold=7 ";
    struct policy_rule list[2];
    struct policy_rules rules;
    uint64_t rules_n = 0;
    EXPECT(policy_rules_count(bytes_of_text(text), &rules_n));
    EXPECT_EQ(2, rules_n);
    policy_rules_read(bytes_of_text(text), list, &rules);
    const struct policy *ship = policy_rules_find(&rules, BYTES_LITERAL("SHIP"));
    EXPECT_EQ(600000, ship->complete_by_ms);
    EXPECT(ship->retries_failures);
    EXPECT_EQ(2, ship->first_threshold);
    EXPECT_EQ(3000, ship->retry_delay_ms);
    EXPECT_EQ(4000, ship->retry_delay_max_ms);
    EXPECT_EQ(5, ship->second_threshold);
    EXPECT_EQ(6 * 3600000, ship->extended_ms);
    EXPECT_EQ(RESORT_PARK, ship->last_resort);
    const struct policy *other = policy_rules_find(&rules, BYTES_LITERAL("shipping"));
    EXPECT_EQ(7, other->first_threshold);
    EXPECT_EQ(7, other->second_threshold); /* no extended wait was asked for */
    EXPECT_EQ(policy_default.retry_delay_ms, other->retry_delay_ms);
    EXPECT_EQ(RESORT_FAIL, other->last_resort);
    EXPECT(!other->retries_failures);
}

/* Every allocation may fail; the answer is a status and nothing leaks. */
TEST(without_memory_nothing_is_half_read)
{
    for (uint64_t n = 1;; n++) {
        struct mem mem;
        struct config c;
        struct buffer text;
        mem_init(&mem, SIZE_MAX);
        mem.fail_at = n;
        test_note("allocation %llu", (unsigned long long)n);
        buffer_init(&text, &mem);
        enum status status = config_init(&c, &mem);
        if (status == OK) {
            status = config_read_text(&c, "norn.conf",
                                      BYTES_LITERAL("[server]\ndata = \"x\"\nlisten = 1\n"), &text);
            EXPECT(status == E_NOMEM || status == E_INVALID);
            config_release(&c);
        } else {
            EXPECT_STATUS(E_NOMEM, status);
        }
        buffer_release(&text);
        bool is_over = mem.fail_at != 0;
        mem_release(&mem);
        if (is_over) break;
    }
}

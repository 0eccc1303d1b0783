/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of `norn server`. One table makes the reading, the checks, --print-config, the help
 * and docs/configuration.md.
 *
 * A value comes from four places, and the last of them that names it wins:
 *
 *      default  <  file ([section] key = value)  <  environment (NORN_SECTION_KEY)  <  flag
 *
 * The file is INI in which every line is also TOML: texts, durations and sizes stand in quotes,
 * numbers and booleans do not. Anything that is not understood is an error with its line: a setting
 * that is silently not there costs its owner a night.
 *
 * Belongs to one thread.
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include "base/arena.h"
#include "base/status.h"
#include "base/units.h"

struct backlog_rule;
struct policy_rules;

enum setting_kind {
    SETTING_TEXT,
    SETTING_ADDRESSES, /* one or more, with commas between them */
    SETTING_LEVEL,     /* enum log_level */
    SETTING_FORMAT,    /* enum log_format */
    SETTING_FLAG,
    SETTING_COUNT,
    SETTING_SIZE,     /* bytes */
    SETTING_DURATION, /* milliseconds */
    SETTING_RULES,    /* limits by name, see ingest_rules.h; may be empty */
    SETTING_POLICIES, /* of steps by name, see policy_rules.h; may be empty */
};

#define CONFIG_MS_PER_DAY ((uint64_t)MS_PER_DAY)
#define CONFIG_GIB (1ull << 30)

/* section, key, kind, default, least, most (numbers only), help */
#define SETTINGS(X)                                                                                \
    X(server, data, TEXT, "norn-data", 0, 0, "data directory; made when absent")                   \
    X(server, listen, ADDRESSES, "127.0.0.1:4001", 0, 0,                                           \
      "addresses for gRPC and HTTP, separated by commas; port 0 = any free one")                   \
    X(server, insecure, FLAG, "false", 0, 1,                                                       \
      "listen beyond this machine although there is no TLS and no authentication yet")             \
    X(server, drain_timeout, DURATION, "8s", 100, CONFIG_MS_PER_DAY,                               \
      "after the first SIGTERM: until the server stops whatever is still under way")               \
    X(server, connections_max, COUNT, "10000", 1, 1000000,                                         \
      "connections at once; more are closed as soon as they come")                                 \
    X(server, calls_max, COUNT, "4000", 1, 100000,                                                 \
      "gRPC calls at once per connection, waiting ones included; clients queue what is beyond")    \
    X(server, message_size_max, SIZE, "16MiB", 65536, CONFIG_GIB,                                  \
      "largest gRPC message taken or sent")                                                        \
    X(log, level, LEVEL, "info", 0, 0, "debug, info, warn or error; SIGHUP reads it again")        \
    X(log, format, FORMAT, "auto", 0, 0,                                                           \
      "text, json, or auto: text on a terminal and JSON lines otherwise")                          \
    X(work, workers_max, COUNT, "10000", 1, 1000000, "work streams (connected workers) at once")   \
    X(work, in_flight_max, COUNT, "10000", 1, 1000000,                                             \
      "work items per stream and kind, for workers that give no limit of their own")               \
    X(work, history_size_max, SIZE, "1MiB", 4096, CONFIG_GIB,                                      \
      "past events beyond this are streamed to workers that can, not sent with each turn")         \
    X(work, ping, DURATION, "30s", 100, CONFIG_MS_PER_DAY, "HealthPing on an idle work stream")    \
    X(work, grace, DURATION, "5s", 0, CONFIG_MS_PER_DAY,                                           \
      "until the work of a lost stream is offered to other workers")                               \
    X(work, policies, POLICIES, "", 0, 0,                                                          \
      "what is done about steps that fail or are late, by activity: "                              \
      "ship:complete_by=10m,first_threshold=3,last_resort=park; *:complete_by=1d")                 \
    X(reply, allow, TEXT, "public", 0, 0,                                                          \
      "addresses that replyTo may lead to: public, private, loopback, ranges such as "             \
      "10.1.0.0/16, or none; with commas between them")                                            \
    X(reply, ca_file, TEXT, "system", 0, 0,                                                        \
      "file with the certificates of authorities that https receivers may have theirs from, PEM; " \
      "system = those that the system trusts")                                                     \
    X(reply, timeout, DURATION, "10s", 10, CONFIG_MS_PER_DAY,                                      \
      "of one try to tell a receiver, connecting included")                                        \
    X(reply, delay, DURATION, "1s", 1, CONFIG_MS_PER_DAY,                                          \
      "before the second try; twice as long before each one after it")                             \
    X(reply, delay_max, DURATION, "10m", 1, CONFIG_MS_PER_DAY, "the longest of these")             \
    X(reply, give_up, DURATION, "24h", 0, 365 * CONFIG_MS_PER_DAY,                                 \
      "a reply that nobody heard for so long has failed")                                          \
    X(store, partitions, COUNT, "0", 0, 4096,                                                      \
      "fixed when the directory is made; 0 = as it was made, 32 for a new one")                    \
    X(store, shards, COUNT, "0", 0, 256,                                                           \
      "threads that run partitions; fixed likewise; 0 = as it was made, 1 for a new one")          \
    X(store, hot_memory_max, SIZE, "192MiB", 1048576, 1024 * CONFIG_GIB,                           \
      "memory for instances per shard; near it idle ones leave, beyond it starts wait")            \
    X(store, idle_evict, DURATION, "10s", 0, CONFIG_MS_PER_DAY,                                    \
      "an idle instance may leave memory after this")                                              \
    X(store, timer_horizon, DURATION, "1m", 1000, CONFIG_MS_PER_DAY,                               \
      "an instance that waits for a timer due later than this may leave memory")                   \
    X(store, journal_segment_size, SIZE, "64MiB", 65536, CONFIG_GIB,                               \
      "journal files; this much is reserved on disk per shard")                                    \
    X(store, archive_segment_size, SIZE, "64MiB", 65536, CONFIG_GIB,                               \
      "files of archived histories")                                                               \
    X(store, archive_lag_max, SIZE, "256MiB", 1048576, 1024 * CONFIG_GIB,                          \
      "journal not yet archived; beyond it starts wait")                                           \
    X(store, archive_every, DURATION, "500ms", 1, CONFIG_MS_PER_DAY,                               \
      "at most so long until a finished instance is in the archive")                               \
    X(store, archive_batch, COUNT, "4096", 1, 1000000, "instances per archive transaction")        \
    X(store, disk_free_min, SIZE, "256MiB", 0, 1024 * CONFIG_GIB,                                  \
      "with less space on the disk starts, events, signals and appends are refused; the rest "     \
      "goes on")                                                                                   \
    X(ingest, active_max, COUNT, "20000", 0, 100000000,                                            \
      "orchestrations with work to do at once per shard; more starts wait; 0 = no limit")          \
    X(ingest, active_max_by_name, COUNT, "10000", 0, 100000000,                                    \
      "the same for each name: so a slow workflow makes only its own wait")                        \
    X(ingest, rate_by_name, COUNT, "0", 0, 100000000,                                              \
      "starts of one name admitted per second and shard; 0 = no limit")                            \
    X(ingest, by_name, RULES, "", 0, 0,                                                            \
      "other limits for single names: ship:active=100,rate=50; bill:active=10")                    \
    X(ingest, backlog_max, COUNT, "2000000", 1, 1000000000,                                        \
      "starts that wait per shard; beyond it they are refused")                                    \
    X(ingest, backlog_size_max, SIZE, "4GiB", 1048576, 1024 * CONFIG_GIB,                          \
      "the same in bytes of journal")

enum setting {
#define X(section, key, kind, value, least, most, help) CONFIG_##section##_##key,
    SETTINGS(X)
#undef X
        SETTINGS_N,
};

enum config_source { SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_FLAG };

struct config {
    struct arena arena; /* of the texts */
    const char *path;   /* of the file; NULL = none */
    struct {
        const char *text; /* as it was written, without quotes */
        uint64_t number;  /* count, bytes, milliseconds, 0 or 1, or the enum's value */
        enum config_source source;
        uint32_t line; /* SOURCE_FILE: from 1 */
    } values[SETTINGS_N];
    const struct backlog_rule *rules; /* ingest.by_name; in the arena */
    size_t rules_n;
    struct policy_rules *policies; /* work.policies; in the arena */
};

/* All defaults. E_NOMEM. */
enum status config_init(struct config *c, struct mem *mem);
void config_release(struct config *c);

/* In these, `problems` gets a line for each thing that is wrong, ready for people; the answer is
 * E_INVALID when there was one, and what was right has been set. E_NOMEM. */

/* The text of a file; path: its name in messages and in --print-config, copied. */
enum status config_read_text(struct config *c, const char *path, struct bytes text,
                             struct buffer *problems);
/* Reads the file. Also E_INVALID when it cannot be read. */
enum status config_read_file(struct config *c, const char *path, struct buffer *problems);
/* environment: "NAME=value" texts, NULL at the end. A name that is nearly one of ours is a problem
 * too. */
enum status config_read_environment(struct config *c, char *const *environment,
                                    struct buffer *problems);
/* A flag, by its name without the dashes; value may be NULL for a switch. E_NOT_FOUND, without a
 * problem: no such flag. */
enum status config_read_flag(struct config *c, const char *name, const char *value,
                             struct buffer *problems);
/* What must hold between settings: at the end. */
enum status config_check(const struct config *c, struct buffer *problems);

/* The effective settings as a file that could be read again, each with where it came from. */
void config_print(const struct config *c, struct buffer *out);
/* Rows of the table in docs/configuration.md. */
void config_print_reference(struct buffer *out);
/* Lines for --help. */
void config_print_help(struct buffer *out);

const char *config_text(const struct config *c, enum setting setting);
uint64_t config_number(const struct config *c, enum setting setting);
/* "server.listen"; out has SETTING_NAME_SIZE. */
#define SETTING_NAME_SIZE 64
void setting_name(enum setting setting, char *out);
/* "listen", "log-level": the section `server` is left out. */
void setting_flag(enum setting setting, char *out);
/* It is a switch: the flag takes no value. */
bool setting_is_switch(enum setting setting);
/* The flag nearest to name, "" when none is near; for "did you mean". */
void setting_flag_near(const char *name, char *out);

/* ---- config_file.c and config.c share these ---- */

/* E_NOT_FOUND: unknown. */
enum status setting_find(struct bytes section, struct bytes key, enum setting *out);
enum setting_kind setting_kind(enum setting setting);
bool config_has_section(struct bytes name);
/* One value. where: "norn.conf:3", begins the problem's line. */
enum status config_set(struct config *c, enum setting setting, enum config_source source,
                       uint32_t line, struct bytes value, const char *where,
                       struct buffer *problems);
/* Says that there is no such section or key, with the nearest that there is. */
void config_unknown(struct bytes section, struct bytes key, const char *where,
                    struct buffer *problems);

#endif

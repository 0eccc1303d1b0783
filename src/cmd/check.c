/* SPDX-License-Identifier: Apache-2.0
 *
 * norn check: is everything on disk what was written?
 */
#include "cmd/check.h"

#include "cmd/command.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/print.h"
#include "host/engine.h"
#include "host/format.h"
#include "store/check.h"
#include "store/io.h"
#include "stream/check.h"
#include "wire/json.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define STREAMS "streams"
#define STREAMS_DAMAGES_N_MAX 20u

struct checking {
    struct cli *cli;
    const char *path;
    struct io *io;
    struct printer printer;
    unsigned damaged_n;
};

static const struct column columns[] = {
    {"", "result", COLUMN_STATUS, false},
    {"WHAT", "what", COLUMN_KEY, false},
    {"FOUND", "found", COLUMN_TEXT, false},
};

static void tell(struct checking *c, enum status status, const char *what, const char *found)
{
    struct buffer text;
    struct json j;

    if (status != OK) c->damaged_n++;
    buffer_init(&text, mem_process());
    json_init(&j, &text);
    json_object_begin(&j);
    json_key(&j, "result");
    json_text(&j, status == OK ? "ok" : "fail");
    json_key(&j, "what");
    json_text(&j, what);
    json_key(&j, "found");
    json_text(&j, found);
    json_object_end(&j);
    printer_item(&c->printer, value_parse(buffer_view(&text), NULL));
    buffer_release(&text);
}

static void tell_journal(struct checking *c, const char *directory, enum status status,
                         const struct journal_report *report)
{
    char found[CHECK_DAMAGE_SIZE];

    if (status != OK)
        (void)snprintf(found, sizeof found, "%s",
                       report->damage[0] == '\0' ? status_text(status) : report->damage);
    else
        (void)snprintf(found, sizeof found, "%llu frames to replay, the last is %llu%s",
                       (unsigned long long)report->frames_n, (unsigned long long)report->last_lsn,
                       report->missing_bytes > 0     ? "; a file was cut: frames may be missing"
                       : report->truncated_bytes > 0 ? "; a torn end, as after a crash"
                                                     : "");
    tell(c, status, directory, found);
}

static void check_shard(struct checking *c, uint32_t shard)
{
    struct archive_report report;
    struct journal_report journal;
    char directory[64];
    char found[CHECK_DAMAGE_SIZE];
    char size[UNITS_SIZE];

    (void)snprintf(directory, sizeof directory, "shard-%u/archive", shard);
    enum status status = archive_check(c->io, c->path, directory, mem_process(), &report);
    size_describe(report.bytes, size);
    if (status != OK)
        (void)snprintf(found, sizeof found, "%s", report.damage);
    else
        (void)snprintf(found, sizeof found, "%llu instances, %llu blocks in %llu files of %s",
                       (unsigned long long)report.rows_n, (unsigned long long)report.blocks_n,
                       (unsigned long long)report.segments_n, size);
    tell(c, status, directory, found);
    (void)snprintf(directory, sizeof directory, "shard-%u/journal", shard);
    status = journal_check(c->io, directory, report.applied_lsn, mem_process(), &journal);
    tell_journal(c, directory, status, &journal);
}

static bool has_directory(const char *root, const char *name)
{
    char path[4096];
    struct stat info;

    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* ---- streams ---- */

struct streams_told {
    struct checking *c;
    unsigned n; /* of damages */
};

static const char *name_part(enum streams_part part)
{
    switch (part) {
    case STREAMS_SNAPSHOT: return STREAMS "/snapshot";
    case STREAMS_JOURNAL: return STREAMS "/journal";
    case STREAMS_SEGMENTS: return STREAMS "/segments";
    }
    unreachable("a part of the streams");
}

static void on_damage(void *user, enum streams_part part, const char *what)
{
    struct streams_told *told = user;
    char found[CHECK_DAMAGE_SIZE];

    if (told->n++ >= STREAMS_DAMAGES_N_MAX) return;
    (void)snprintf(found, sizeof found, STREAMS "/%s", what);
    tell(told->c, E_CORRUPT, name_part(part), found);
}

static void tell_segments(struct checking *c, const struct streams_report *report)
{
    char found[CHECK_DAMAGE_SIZE];
    char obsolete[64] = "";
    char size[UNITS_SIZE];

    size_describe(report->bytes, size);
    if (report->obsolete_n > 0)
        (void)snprintf(obsolete, sizeof obsolete, "; %llu files that the next start removes",
                       (unsigned long long)report->obsolete_n);
    (void)snprintf(found, sizeof found,
                   "%llu streams, %llu groups, %llu dead letters, %llu messages in %llu files of "
                   "%s%s",
                   (unsigned long long)report->streams_n, (unsigned long long)report->groups_n,
                   (unsigned long long)report->letters_n, (unsigned long long)report->messages_n,
                   (unsigned long long)report->segments_n, size, obsolete);
    tell(c, OK, name_part(STREAMS_SEGMENTS), found);
}

/* The parts before the one that has a damage are good, those behind it were not read. */
static void check_streams(struct checking *c)
{
    struct streams_told told = {.c = c};
    struct streams_report report;
    char found[CHECK_DAMAGE_SIZE];
    struct io *io;

    (void)snprintf(found, sizeof found, "%s/" STREAMS, c->path);
    enum status status = io_posix_open(found, &io);
    if (status != OK) {
        tell(c, status, STREAMS, status_text(status));
        return;
    }
    status = streams_check(io, mem_process(), on_damage, &told, &report);
    io->ops->release(io);
    if (told.n > STREAMS_DAMAGES_N_MAX) {
        (void)snprintf(found, sizeof found, "%u damages more", told.n - STREAMS_DAMAGES_N_MAX);
        tell(c, E_CORRUPT, STREAMS, found);
    }
    if (status != OK && told.n == 0) tell(c, status, STREAMS, status_text(status));
    if (report.has_snapshot && report.has_journal_read) {
        (void)snprintf(found, sizeof found, "as of frame %llu",
                       (unsigned long long)report.snapshot_lsn);
        tell(c, OK, name_part(STREAMS_SNAPSHOT), found);
    }
    if (report.has_segments_read) tell_journal(c, name_part(STREAMS_JOURNAL), OK, &report.journal);
    if (status == OK) tell_segments(c, &report);
}

static void check_stores(struct checking *c)
{
    struct format format;
    char found[128];

    enum status status = format_read(c->io, mem_process(), ENGINE_FORMAT_VERSION, &format);
    if (status == OK)
        (void)snprintf(found, sizeof found, "version %u, %u partitions in %u shards",
                       format.version, format.partitions_n, format.shards_n);
    else
        (void)snprintf(found, sizeof found, "%s", status_text(status));
    tell(c, status, "format", found);
    for (uint32_t n = 0; status == OK && n < format.shards_n; n++) check_shard(c, n);
    if (has_directory(c->path, STREAMS)) check_streams(c);
}

static int open_directory(struct checking *c, struct io_file **lock)
{
    struct stat info;

    /* opening would make it, and the lock */
    if (stat(c->path, &info) != 0 || !S_ISDIR(info.st_mode))
        return cli_failf(c->cli, EXIT_CODE_NOT_FOUND, "no-directory", "there is no directory %s",
                         c->path);
    if (!has_directory(c->path, "shard-0"))
        return cli_failf(c->cli, EXIT_CODE_NOT_FOUND, "no-data", "%s is no data directory of norn",
                         c->path);
    enum status status = io_posix_open(c->path, &c->io);
    if (status != OK)
        return cli_failf(c->cli, EXIT_CODE_FAILED, "io", "%s: %s", c->path, status_text(status));
    status = c->io->ops->lock(c->io, "lock", lock);
    if (status == OK) return EXIT_CODE_OK;
    c->io->ops->release(c->io);
    if (status == E_BUSY)
        return cli_failf(c->cli, EXIT_CODE_UNREACHABLE, "busy",
                         "%s is in use by another process: stop it, or check a backup", c->path);
    return cli_failf(c->cli, EXIT_CODE_FAILED, "io", "%s cannot be locked: %s", c->path,
                     status_text(status));
}

int directory_check(struct cli *cli, const char *path)
{
    struct checking c = {.cli = cli, .path = path};
    struct io_file *lock = NULL;

    int code = open_directory(&c, &lock);
    if (code != EXIT_CODE_OK) return code;
    printer_begin(&c.printer, cli, columns, sizeof columns / sizeof columns[0]);
    check_stores(&c);
    printer_end(&c.printer);
    c.io->ops->close(c.io, lock);
    c.io->ops->release(c.io);
    if (c.damaged_n == 0) return EXIT_CODE_OK;
    return cli_failf(cli, EXIT_CODE_FAILED, "damaged",
                     "%s is damaged: keep it as it is, and restore a backup", path);
}

int check_run(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    log_setup(LOG_ERROR, LOG_TEXT);
    return cli_close(&cli, directory_check(&cli, cli.words.items[0]));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * norn check: is everything on disk what was written?
 */
#include "cmd/check.h"

#include "cmd/command.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/print.h"
#include "host/engine.h"
#include "host/format.h"
#include "store/check.h"
#include "store/io.h"
#include "stream/streams.h"
#include "wire/json.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define STREAMS_JOURNAL "streams/journal"
#define STREAMS_SNAPSHOT "streams/snapshot"

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

static void check_journal(struct checking *c, const char *directory, uint64_t after_lsn)
{
    struct journal_report report;
    char found[CHECK_DAMAGE_SIZE];

    enum status status = journal_check(c->io, directory, after_lsn, mem_process(), &report);
    if (status != OK)
        (void)snprintf(found, sizeof found, "%s",
                       report.damage[0] == '\0' ? status_text(status) : report.damage);
    else
        (void)snprintf(found, sizeof found, "%llu frames to replay, the last is %llu%s",
                       (unsigned long long)report.frames_n, (unsigned long long)report.last_lsn,
                       report.truncated_bytes > 0 ? "; a torn end, as after a crash" : "");
    tell(c, status, directory, found);
}

static void check_shard(struct checking *c, uint32_t shard)
{
    struct archive_report report;
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
    check_journal(c, directory, report.applied_lsn);
}

static void check_streams(struct checking *c)
{
    uint64_t lsn = 0;
    char found[64];

    enum status status = streams_check_snapshot(c->io, STREAMS_SNAPSHOT, mem_process(), &lsn);
    if (status == OK)
        (void)snprintf(found, sizeof found, "as of frame %llu", (unsigned long long)lsn);
    else
        (void)snprintf(found, sizeof found, "%s", status_text(status));
    if (status != E_NOT_FOUND) tell(c, status, STREAMS_SNAPSHOT, found);
    check_journal(c, STREAMS_JOURNAL, lsn);
}

static bool has_directory(const char *root, const char *name)
{
    char path[4096];
    struct stat info;

    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
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
    if (has_directory(c->path, STREAMS_JOURNAL)) check_streams(c);
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

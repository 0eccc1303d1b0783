/* SPDX-License-Identifier: Apache-2.0
 *
 * norn doctor: is this machine, and is that server, as they should be? One line for each question,
 * with what to do when the answer is not ok.
 */
#include "base/clock.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/print.h"
#include "cli/verbs.h"
#include "wire/json.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)
#define FILES_WANTED 4096
#define FSYNC_TRIES 50
#define DATA_DEFAULT "norn-data"
#define FSYNC_SLOW_US 20000

struct doctor {
    struct cli *cli;
    struct printer printer;
    unsigned warns_n;
    unsigned fails_n;
    bool is_reachable;
};

static const struct column columns[] = {
    {"", "result", COLUMN_STATUS, false},
    {"CHECK", "check", COLUMN_KEY, false},
    {"FOUND", "found", COLUMN_TEXT, false},
    {"WHAT TO DO", "advice", COLUMN_TEXT, false},
};

enum verdict { GOOD, WARN, BAD };

__attribute__((format(printf, 5, 6))) static void tell(struct doctor *d, enum verdict verdict,
                                                       const char *check, const char *advice,
                                                       const char *format, ...)
{
    static const char *const names[] = {[GOOD] = "ok", [WARN] = "warn", [BAD] = "fail"};
    struct buffer text;
    struct json j;
    char found[TEXT_SIZE_MAX];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(found, sizeof found, format, arguments);
    va_end(arguments);
    if (verdict == WARN) d->warns_n++;
    if (verdict == BAD) d->fails_n++;
    buffer_init(&text, mem_process());
    json_init(&j, &text);
    json_object_begin(&j);
    json_key(&j, "result");
    json_text(&j, names[verdict]);
    json_key(&j, "check");
    json_text(&j, check);
    json_key(&j, "found");
    json_text(&j, found);
    json_key(&j, "advice");
    json_text(&j, verdict == GOOD ? "" : advice);
    json_object_end(&j);
    printer_item(&d->printer, value_parse(buffer_view(&text), NULL));
    buffer_release(&text);
}

/* ---- this machine ---- */

static void check_files(struct doctor *d)
{
    struct rlimit limit = {0};

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    bool is_good = limit.rlim_cur >= FILES_WANTED;
    tell(d, is_good ? GOOD : WARN, "open files",
         "raise it where the server is started: ulimit -n 65536, or LimitNOFILE= of the unit",
         "%llu may be open", (unsigned long long)limit.rlim_cur);
}

static void check_clock(struct doctor *d)
{
    struct timex state = {0};
    int result = adjtimex(&state);
    bool is_bad = result == TIME_ERROR || (state.status & STA_UNSYNC) != 0;

    if (result < 0) {
        tell(d, WARN, "clock", "check by hand: timedatectl", "the kernel does not tell");
        return;
    }
    tell(d, is_bad ? WARN : GOOD, "clock",
         "let NTP keep it: timers and histories carry its times (systemd-timesyncd, chrony)", "%s",
         is_bad ? "not synchronised" : "synchronised");
}

static void check_space(struct doctor *d, const char *path)
{
    struct statvfs fs;
    char text[UNITS_SIZE];

    if (statvfs(path, &fs) != 0) {
        tell(d, BAD, "disk space", "name the data directory: --data", "%s: no such directory",
             path);
        return;
    }
    uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
    size_describe(left, text);
    tell(d,
         left < GIB / 4   ? BAD
         : left < 2 * GIB ? WARN
                          : GOOD,
         "disk space",
         "make room: norn purge removes what has ended; starts are refused when little is left",
         "%s left for %s", text, path);
}

static void check_permissions(struct doctor *d, const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0) return;
    bool is_open = (info.st_mode & (S_IRWXO | S_IWGRP)) != 0;
    bool is_writable = access(path, R_OK | W_OK | X_OK) == 0;
    if (!is_writable)
        tell(d, WARN, "permissions", "run the doctor as the server's user to check more",
             "%s is not ours to write", path);
    else
        tell(d, is_open ? WARN : GOOD, "permissions", "chmod 700: payloads are nobody else's",
             "%s has mode %03o", path, (unsigned)(info.st_mode & 0777));
}

static bool fsync_probe(const char *path, struct histogram *out)
{
    char name[4096];
    static const char block[4096];

    (void)snprintf(name, sizeof name, "%s/.norn-doctor-%d", path, (int)getpid());
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool is_good = true;
    histogram_init(out);
    for (int n = 0; n < FSYNC_TRIES && is_good; n++) {
        int64_t begun_ns = clock_mono_ns();
        is_good = write(fd, block, sizeof block) == (ssize_t)sizeof block && fdatasync(fd) == 0;
        histogram_add(out, (uint64_t)(clock_mono_ns() - begun_ns) / 1000);
    }
    (void)close(fd);
    (void)unlink(name);
    return is_good;
}

static void check_fsync(struct doctor *d, const char *path)
{
    struct histogram *latency_us = arena_alloc_zero(&d->cli->arena, sizeof *latency_us);

    if (latency_us == NULL || !fsync_probe(path, latency_us)) {
        tell(d, WARN, "disk latency", "run the doctor as the server's user", "cannot write to %s",
             path);
        return;
    }
    unsigned long long p50 = histogram_at(latency_us, 500);
    unsigned long long p99 = histogram_at(latency_us, 990);
    tell(d, p99 > FSYNC_SLOW_US ? WARN : GOOD, "disk latency",
         "every answer waits for one: a disk with its own cache or another machine is faster",
         "write and sync of 4 KiB: p50 %llu us, p99 %llu us", p50, p99);
}

static bool is_data_directory(const char *path)
{
    char name[4096];

    int len = snprintf(name, sizeof name, "%s/format", path);
    return len > 0 && len < (int)sizeof name && access(name, F_OK) == 0;
}

/* Only of a directory that is ours, or that somebody names to become it. */
static void check_directory(struct doctor *d, const char *given)
{
    const char *path = given == NULL ? DATA_DEFAULT : given;
    bool is_ours = is_data_directory(path);

    if (given == NULL && !is_ours) {
        tell(d, GOOD, "data directory", "", "none at ./" DATA_DEFAULT ": --data DIR looks at one");
        return;
    }
    check_space(d, path);
    if (access(path, F_OK) != 0) return;
    if (is_ours) check_permissions(d, path);
    check_fsync(d, path);
}

static void check_machine(struct doctor *d, const char *data)
{
    check_files(d);
    check_clock(d);
    check_directory(d, data);
}

/* ---- the server ---- */

static void check_server(struct doctor *d)
{
    struct cli *cli = d->cli;
    const char *why = "";
    struct ask ask = {.path = "/version", .timeout_ms = 5000, .needs = "version"};

    int code = cli_try(cli, &ask, &why);
    d->is_reachable = code == EXIT_CODE_OK;
    if (!d->is_reachable) {
        tell(d, BAD, "server", "start it: norn server; or name another: --server", "%s: %s",
             cli->server, why);
        return;
    }
    const char *version = member_text(&cli->arena, ask.value, "version");
    bool is_same = strcmp(version, NORN_VERSION) == 0;
    tell(d, is_same ? GOOD : WARN, "server", "use norn of the server's version",
         "%s runs norn %s, this is " NORN_VERSION, cli->server, version);
    ask = (struct ask){.path = "/readyz", .timeout_ms = 5000, .is_text = true};
    code = cli_try(cli, &ask, &why);
    struct bytes text = ask.value.raw;
    while (text.len > 0 && text.ptr[text.len - 1] == '\n') text.len--;
    tell(d, code == EXIT_CODE_OK ? GOOD : BAD, "ready", "its log says more", "%.*s", (int)text.len,
         text.ptr == NULL ? "" : (const char *)text.ptr);
}

static void check_work(struct doctor *d)
{
    struct cli *cli = d->cli;
    struct ask workers = {.path = "/v1/workers", .timeout_ms = 5000, .needs = "items"};
    struct ask stats = {.path = "/v1/stats", .timeout_ms = 5000};
    struct ask alerts = {.path = "/v1/alerts", .timeout_ms = 5000, .needs = "items"};

    if (cli_try(cli, &workers, NULL) == EXIT_CODE_OK) {
        size_t n = value_count(value_member(workers.value, "items"));
        tell(d, n > 0 ? GOOD : WARN, "workers", "start one: nothing runs without", "%zu connected",
             n);
    }
    if (cli_try(cli, &alerts, NULL) == EXIT_CODE_OK) {
        size_t n = value_count(value_member(alerts.value, "items"));
        tell(d, n == 0 ? GOOD : WARN, "alerts", "norn alerts shows them; norn resubmit tries again",
             "%zu wait for an operator", n);
    }
    if (cli_try(cli, &stats, NULL) == EXIT_CODE_OK) {
        int64_t waiting = member_int64(stats.value, "backlog.waiting",
                                       member_int64(stats.value, "instances.pending", 0));
        tell(d, waiting < 100000 ? GOOD : WARN, "backlog", "norn top shows whether it grows",
             "%lld wait to begin", (long long)waiting);
        int64_t p99 = member_int64(stats.value, "store.commitP99Us", 0);
        tell(d, p99 <= 2 * FSYNC_SLOW_US ? GOOD : WARN, "commits", "the server's disk is slow",
             "p99 %lld us", (long long)p99);
    }
}

int verb_doctor(const struct command *command, int argc, char **argv)
{
    const char *data = NULL;
    const struct option_spec specs[] = {
        OPTION_TEXT("data", "DIR", "the data directory, or where it will be", "./" DATA_DEFAULT,
                    &data),
    };
    struct cli cli;
    struct doctor d = {.cli = &cli};
    int code;

    if (!cli_open(&cli, command, specs, 1, argc, argv, &code)) return code;
    printer_begin(&d.printer, &cli, columns, sizeof columns / sizeof columns[0]);
    check_machine(&d, data);
    check_server(&d);
    if (d.is_reachable) check_work(&d);
    printer_end(&d.printer);
    if (d.fails_n > 0) code = d.is_reachable ? EXIT_CODE_FAILED : EXIT_CODE_UNREACHABLE;
    return cli_close(&cli, code);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * norn restore: a backup becomes a data directory. Copied file by file, synced, then verified: a
 * directory that norn restore has made is one that norn check has passed.
 */
#include "cmd/check.h"
#include "cmd/command.h"

#include "base/log.h"
#include "cli/progress.h"
#include "store/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096
#define COPY_SIZE ((size_t)1 << 20)
#define DEPTH_MAX 8u

struct copying {
    struct cli *cli;
    struct progress progress;
    uint64_t bytes;
    char *block; /* COPY_SIZE, in the arena */
};

static int refuse(struct copying *c, const char *path)
{
    return cli_failf(c->cli, EXIT_CODE_FAILED, "io", "%s: %s", path, strerror(errno));
}

static bool copy_bytes(struct copying *c, int from, int to)
{
    for (;;) {
        ssize_t n = read(from, c->block, COPY_SIZE);
        if (n < 0) return false;
        if (n == 0) return fsync(to) == 0;
        for (ssize_t at = 0; at < n;) {
            ssize_t written = write(to, c->block + at, (size_t)(n - at));
            if (written < 0) return false;
            at += written;
        }
        c->bytes += (uint64_t)n;
        progress_show(&c->progress, c->bytes);
    }
}

static int copy_file(struct copying *c, const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) return refuse(c, from);
    int out = open(to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    int code = out < 0 || !copy_bytes(c, in, out) ? refuse(c, to) : EXIT_CODE_OK;
    (void)close(in);
    if (out >= 0 && close(out) != 0 && code == EXIT_CODE_OK) code = refuse(c, to);
    return code;
}

static bool sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    bool is_synced = fsync(fd) == 0;
    (void)close(fd);
    return is_synced;
}

static int copy_folder(struct copying *c, const char *from, const char *to, unsigned depth);

static int copy_entry(struct copying *c, const char *from, const char *to, const char *name,
                      unsigned depth)
{
    char source[PATH_SIZE];
    char target[PATH_SIZE];
    struct stat info;

    if (snprintf(source, sizeof source, "%s/%s", from, name) >= PATH_SIZE ||
        snprintf(target, sizeof target, "%s/%s", to, name) >= PATH_SIZE) {
        errno = ENAMETOOLONG;
        return refuse(c, from);
    }
    if (lstat(source, &info) != 0) return refuse(c, source);
    if (S_ISREG(info.st_mode)) return copy_file(c, source, target);
    if (!S_ISDIR(info.st_mode) || depth == DEPTH_MAX)
        return cli_failf(c->cli, EXIT_CODE_FAILED, "bad-backup", "%s does not belong to a backup",
                         source);
    if (mkdir(target, 0700) != 0) return refuse(c, target);
    return copy_folder(c, source, target, depth + 1);
}

static int copy_folder(struct copying *c, const char *from, const char *to, unsigned depth)
{
    int code = EXIT_CODE_OK;
    struct dirent *entry;
    DIR *folder = opendir(from);

    if (folder == NULL) return refuse(c, from);
    while (code == EXIT_CODE_OK && (entry = readdir(folder)) != NULL) {
        bool is_link = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (is_link || (depth == 0 && strcmp(entry->d_name, "lock") == 0)) continue;
        code = copy_entry(c, from, to, entry->d_name, depth);
    }
    (void)closedir(folder);
    if (code == EXIT_CODE_OK && !sync_folder(to)) code = refuse(c, to);
    return code;
}

/* Makes it, or finds it empty. */
static int prepare_target(struct cli *cli, const char *path)
{
    if (mkdir(path, 0700) == 0) return EXIT_CODE_OK;
    /* removing what is empty and nothing else is the question and half of the answer */
    if (errno == EEXIST && rmdir(path) == 0 && mkdir(path, 0700) == 0) return EXIT_CODE_OK;
    return cli_failf(cli, EXIT_CODE_FAILED, "not-empty",
                     "%s must be absent or empty, in a directory that exists: %s", path,
                     strerror(errno));
}

/* Holds what is copied still: a server may be at work in it. NULL: nobody can be, as backups have
 * no such file, or it cannot be written, by us or by a server. */
static int hold_still(struct cli *cli, const char *path, struct io **io, struct io_file **lock)
{
    char name[PATH_SIZE];
    enum status status = E_NOT_FOUND;

    (void)snprintf(name, sizeof name, "%s/lock", path);
    *io = NULL;
    *lock = NULL;
    if (access(name, W_OK) == 0) status = io_posix_open(path, io);
    if (status == OK) status = (*io)->ops->lock(*io, "lock", lock);
    if (status != E_BUSY) return EXIT_CODE_OK;
    return cli_failf(cli, EXIT_CODE_UNREACHABLE, "busy",
                     "%s is in use by another process: stop it, or let it make a backup", path);
}

static void let_go(struct io *io, struct io_file *lock)
{
    if (lock != NULL) io->ops->close(io, lock);
    if (io != NULL) io->ops->release(io);
}

int restore_run(const struct command *command, int argc, char **argv)
{
    struct cli cli;
    char format[PATH_SIZE];
    int code;

    if (!cli_open(&cli, command, NULL, 0, argc, argv, &code)) return code;
    log_setup(LOG_ERROR, LOG_TEXT);
    const char *backup = cli.words.items[0];
    const char *target = cli.words.items[1];
    (void)snprintf(format, sizeof format, "%s/format", backup);
    if (access(format, R_OK) != 0)
        return cli_close(&cli, cli_failf(&cli, EXIT_CODE_NOT_FOUND, "no-backup",
                                         "%s is no backup of norn: %s is missing", backup, format));
    struct copying copying = {.cli = &cli, .block = arena_alloc(&cli.arena, COPY_SIZE)};
    struct io *io;
    struct io_file *lock;
    code = hold_still(&cli, backup, &io, &lock);
    if (code == EXIT_CODE_OK) code = prepare_target(&cli, target);
    progress_begin(&copying.progress, "bytes copied:", 0, cli.is_quiet);
    if (code == EXIT_CODE_OK && copying.block != NULL)
        code = copy_folder(&copying, backup, target, 0);
    progress_end(&copying.progress);
    let_go(io, lock);
    if (code == EXIT_CODE_OK) code = directory_check(&cli, target);
    return cli_close(&cli, code);
}

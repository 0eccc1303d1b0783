/* SPDX-License-Identifier: Apache-2.0
 *
 * See backup.h.
 */
#define _GNU_SOURCE /* renameat2, nftw */
#include "host/backup.h"

#include "base/assert.h"
#include "base/mem.h"
#include "store/copy.h"
#include "store/io.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096
#define PARTIAL_SUFFIX ".partial"
#define LOCK_NAME "lock" /* as of any data directory: a server would not open it meanwhile */
#define OPEN_FILES_N 16

struct making {
    struct backup *backup;
    struct mem mem;
    char partial[PATH_SIZE];
    struct hold **holds; /* of the shards, then that of what is beside */
    size_t holds_n;
    struct copy copy;
};

__attribute__((format(printf, 3, 4))) static enum status refuse(struct making *m,
                                                                enum status status,
                                                                const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(m->backup->text, sizeof m->backup->text, format, arguments);
    va_end(arguments);
    return status;
}

static enum status refuse_errno(struct making *m, const char *path)
{
    int code = errno;
    enum status status = E_IO;

    if (code == ENOSPC || code == EDQUOT) status = E_NOSPACE;
    if (code == EEXIST) status = E_EXISTS;
    if (code == ENOENT || code == ENOTDIR || code == EACCES || code == ENAMETOOLONG ||
        code == EROFS || code == EPERM)
        status = E_INVALID;
    return refuse(m, status, "%s: %s", path, strerror(code));
}

/* ---- the directory ---- */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Links are removed, not followed, and what is mounted there stays. */
static int remove_tree(const char *path)
{
    return nftw(path, remove_entry, OPEN_FILES_N, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* What this file puts into a directory, and nothing else. */
static enum status expect_ours(void *user, const char *name)
{
    size_t *names_n = user;

    *names_n += 1;
    if (strcmp(name, LOCK_NAME) == 0 || strcmp(name, "format") == 0) return OK;
    if (strcmp(name, "streams") == 0 || strncmp(name, "shard-", 6) == 0) return OK;
    return E_EXISTS;
}

/* Whether it is the rest of a backup whose process is gone: by what is in it, and because nobody
 * has its lock. Then it is removed. */
static enum status remove_rest(struct making *m)
{
    struct io *io;
    struct io_file *lock;
    size_t names_n = 0;

    enum status status = io_posix_open(m->partial, &io);
    if (status != OK) return refuse(m, status, "%s: %s", m->partial, status_text(status));
    status = io->ops->list(io, ".", expect_ours, &names_n);
    if (status == OK && names_n > 0) {
        status = io->ops->lock(io, LOCK_NAME, &lock);
        if (status == OK) {
            if (remove_tree(m->partial) != 0) status = refuse_errno(m, m->partial);
            io->ops->close(io, lock);
        }
    } else if (status == OK && rmdir(m->partial) != 0) {
        status = refuse_errno(m, m->partial); /* it had been made, and nothing more */
    }
    io->ops->release(io);
    if (status == E_BUSY)
        return refuse(m, status, "%s is in use: another process is making this backup", m->partial);
    if (status == E_EXISTS)
        return refuse(m, status, "%s is there, and is not the rest of a backup: move it away",
                      m->partial);
    if (status != OK && m->backup->text[0] == '\0')
        return refuse(m, status, "%s: %s", m->partial, status_text(status));
    return status;
}

static enum status replace_partial(struct making *m)
{
    struct stat info;

    if (lstat(m->partial, &info) != 0) return refuse_errno(m, m->partial);
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid())
        return refuse(m, E_EXISTS, "%s is there, and is not the rest of a backup: move it away",
                      m->partial);
    enum status status = remove_rest(m);
    if (status != OK) return status;
    if (mkdir(m->partial, 0700) != 0) return refuse_errno(m, m->partial);
    m->backup->has_replaced = true;
    return OK;
}

static enum status make_partial(struct making *m)
{
    const char *path = m->backup->path;
    size_t len = strlen(path);
    struct stat info;

    if (path[0] != '/') return refuse(m, E_INVALID, "the path must begin with '/'");
    if (len < 2 || path[len - 1] == '/')
        return refuse(m, E_INVALID, "the path must not end with '/'");
    int size = snprintf(m->partial, sizeof m->partial, "%s%s", path, PARTIAL_SUFFIX);
    if (size < 0 || (size_t)size >= sizeof m->partial)
        return refuse(m, E_INVALID, "the path is too long");
    if (lstat(path, &info) == 0) return refuse(m, E_EXISTS, "%s is there already", path);
    if (errno != ENOENT) return refuse_errno(m, path);
    if (mkdir(m->partial, 0700) == 0) return OK;
    return errno == EEXIST ? replace_partial(m) : refuse_errno(m, m->partial);
}

static enum status sync_parent(struct making *m)
{
    char parent[PATH_SIZE];

    (void)snprintf(parent, sizeof parent, "%s", m->backup->path);
    char *slash = strrchr(parent, '/');
    assert(slash != NULL);
    slash[slash == parent ? 1 : 0] = '\0';
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return refuse_errno(m, parent);
    enum status status = fsync(fd) == 0 ? OK : refuse_errno(m, parent);
    (void)close(fd);
    return status;
}

static enum status give_name(struct making *m)
{
    const char *path = m->backup->path;

    if (renameat2(AT_FDCWD, m->partial, AT_FDCWD, path, RENAME_NOREPLACE) != 0)
        return refuse_errno(m, path);
    return sync_parent(m);
}

/* ---- copying ---- */

static enum status copy_shard(struct copy *c, uint32_t number, uint64_t lsn)
{
    char shard[32], part[48];

    (void)snprintf(shard, sizeof shard, "shard-%u", number);
    enum status status = copy_directory(c, shard);
    (void)snprintf(part, sizeof part, "%s/archive", shard);
    if (status == OK) status = copy_archive(c, part);
    (void)snprintf(part, sizeof part, "%s/journal", shard);
    if (status == OK) status = copy_journal(c, part, lsn);
    if (status == OK) status = copy_synced(c, shard);
    return status;
}

static enum status end_hold(struct making *m, size_t n, enum status status)
{
    if (m->holds[n] == NULL) return status;
    bool was_held = hold_end(m->holds[n]);
    m->holds[n] = NULL;
    if (status == OK && !was_held)
        return refuse(m, E_TIMEOUT, "the files could not be held so long: nothing was kept");
    return status;
}

/* What is beside first: while it is held it fills memory, the engine only its journal. */
static enum status copy_all(struct making *m)
{
    struct backup *b = m->backup;
    struct copy *c = &m->copy;
    uint32_t shards_n = engine_shards_n(b->engine);
    enum status status = copy_file(c, "format");

    if (status == OK && b->beside != NULL) {
        status = b->copy_beside(c, b->beside->lsn);
        status = end_hold(m, shards_n, status);
    }
    for (uint32_t n = 0; n < shards_n && status == OK; n++) {
        status = copy_shard(c, n, m->holds[n]->lsn);
        status = end_hold(m, n, status);
    }
    if (status == OK) status = copy_synced(c, ".");
    if (status != OK && b->text[0] == '\0')
        return refuse(m, status, "%s: %s", c->failed[0] == '\0' ? "files" : c->failed,
                      status_text(status));
    return status;
}

static enum status hold_and_copy(struct making *m)
{
    enum status status = hold_all(m->holds, m->holds_n);

    if (status == E_BUSY) return refuse(m, status, "another backup is being made");
    if (status == E_TIMEOUT)
        return refuse(m, status, "the engine does not come to rest: is the disk full?");
    if (status != OK) return refuse(m, status, "the server is shutting down");
    hold_go_on(m->holds, m->holds_n);
    status = copy_all(m);
    for (size_t n = 0; n < m->holds_n; n++) status = end_hold(m, n, status);
    return status;
}

static enum status copy_to_partial(struct making *m)
{
    struct backup *b = m->backup;
    struct copy *c = &m->copy;

    *c = (struct copy){.from_root = b->directory,
                       .to_root = m->partial,
                       .mem = &m->mem,
                       .is_cancelled = b->is_cancelled};
    enum status status = io_posix_open(b->directory, &c->from);
    if (status != OK) return refuse(m, status, "%s: %s", b->directory, status_text(status));
    status = io_posix_open(m->partial, &c->to);
    if (status == OK) {
        struct io_file *lock = NULL;
        status = c->to->ops->lock(c->to, LOCK_NAME, &lock);
        if (status == OK) status = hold_and_copy(m);
        if (status == OK) status = give_name(m);
        if (lock != NULL) c->to->ops->close(c->to, lock);
        c->to->ops->release(c->to);
    }
    if (status != OK && b->text[0] == '\0')
        (void)refuse(m, status, "%s: %s", m->partial, status_text(status));
    c->from->ops->release(c->from);
    b->bytes = c->bytes;
    return status;
}

enum status backup_make(struct backup *b)
{
    struct making m = {.backup = b};
    uint32_t shards_n = engine_shards_n(b->engine);

    b->text[0] = '\0';
    mem_init(&m.mem, SIZE_MAX);
    m.holds_n = shards_n + (b->beside != NULL ? 1u : 0u);
    m.holds = mem_take(&m.mem, m.holds_n * sizeof(struct hold *));
    if (m.holds == NULL) return refuse(&m, E_NOMEM, "out of memory");
    for (uint32_t n = 0; n < shards_n; n++) m.holds[n] = engine_hold(b->engine, n);
    if (b->beside != NULL) m.holds[shards_n] = b->beside;
    enum status status = make_partial(&m);
    if (status == OK) {
        status = copy_to_partial(&m);
        if (status != OK) (void)remove_tree(m.partial);
    }
    mem_give(&m.mem, m.holds, m.holds_n * sizeof(struct hold *));
    mem_release(&m.mem);
    return status;
}

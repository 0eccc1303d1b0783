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
    if (errno == EEXIST)
        return refuse(m, E_EXISTS, "%s is there: the rest of a backup that was interrupted?",
                      m->partial);
    return refuse_errno(m, m->partial);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
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
        status = hold_and_copy(m);
        c->to->ops->release(c->to);
    } else {
        (void)refuse(m, status, "%s: %s", m->partial, status_text(status));
    }
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
        if (status == OK) status = give_name(&m);
        if (status != OK) (void)nftw(m.partial, remove_entry, OPEN_FILES_N, FTW_DEPTH | FTW_PHYS);
    }
    mem_give(&m.mem, m.holds, m.holds_n * sizeof(struct hold *));
    mem_release(&m.mem);
    return status;
}

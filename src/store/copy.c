/* SPDX-License-Identifier: Apache-2.0
 *
 * See copy.h: files and archives. The database goes through SQLite's own means: opening its file
 * by others would drop the locks that this process has on it.
 */
#include "store/copy.h"

#include "base/assert.h"
#include "base/mem.h"
#include "store/archive_sqlite_db.h"
#include "store/io.h"

#include <stdio.h>
#include <string.h>

#define BLOCK_SIZE ((size_t)256 << 10)
#define PATH_SIZE 4096
#define NAME_SIZE 160
#define DATABASE_NAME "archive.db"
#define PAGES_N 1024 /* copied between two looks at is_cancelled */

static enum status failed_at(struct copy *c, enum status status, const char *path)
{
    if (status != OK && c->failed[0] == '\0')
        (void)snprintf(c->failed, sizeof c->failed, "%s", path);
    assert(status == OK || c->failed[0] != '\0'); /* who failed can be told */
    return status;
}

enum status copy_directory(struct copy *c, const char *path)
{
    return failed_at(c, c->to->ops->make_directory(c->to, path), path);
}

enum status copy_synced(struct copy *c, const char *path)
{
    return failed_at(c, c->to->ops->sync_directory(c->to, path), path);
}

static enum status copy_blocks(struct copy *c, struct io_file *in, struct io_file *out,
                               uint8_t *block)
{
    uint64_t at = 0;

    for (;;) {
        size_t got = 0;
        if (atomic_load(c->is_cancelled)) return E_CLOSED;
        enum status status = c->from->ops->read(c->from, in, at, block, BLOCK_SIZE, &got);
        assert(got <= BLOCK_SIZE);
        if (status == OK && got > 0) status = c->to->ops->write(c->to, out, at, block, got);
        if (status != OK) return status;
        at += got;
        c->bytes += got;
        if (got < BLOCK_SIZE) return c->to->ops->datasync(c->to, out);
    }
}

enum status copy_file(struct copy *c, const char *path)
{
    struct io_file *in;
    struct io_file *out;
    uint8_t *block = mem_take(c->mem, BLOCK_SIZE);
    assert(path[0] != '/'); /* below both roots */

    if (block == NULL) return failed_at(c, E_NOMEM, path);
    enum status status = c->from->ops->open(c->from, path, IO_READ, &in);
    if (status == OK) {
        status = c->to->ops->open(c->to, path, IO_CREATE, &out);
        if (status == OK) {
            status = copy_blocks(c, in, out, block);
            c->to->ops->close(c->to, out);
        }
        c->from->ops->close(c->from, in);
    }
    mem_give(c->mem, block, BLOCK_SIZE);
    return failed_at(c, status, path);
}

struct listed {
    struct copy *copy;
    const char *directory;
    const char *suffix;
};

static enum status copy_listed(void *user, const char *name)
{
    const struct listed *l = user;
    size_t len = strlen(name);
    size_t suffix_len = strlen(l->suffix);
    char path[NAME_SIZE];

    if (len < suffix_len || strcmp(name + len - suffix_len, l->suffix) != 0) return OK;
    int size = snprintf(path, sizeof path, "%s/%s", l->directory, name);
    if (size < 0 || (size_t)size >= sizeof path) return OK; /* none of ours is so long */
    return copy_file(l->copy, path);
}

enum status copy_files(struct copy *c, const char *directory, const char *suffix)
{
    struct listed listed = {c, directory, suffix};

    return failed_at(c, c->from->ops->list(c->from, directory, copy_listed, &listed), directory);
}

/* ---- the archive ---- */

static enum status copy_pages(struct copy *c, struct db *from, struct db *to)
{
    sqlite3_backup *backup = sqlite3_backup_init(to->connection, "main", from->connection, "main");
    int code = SQLITE_OK;

    assert(from->connection != to->connection);
    if (backup == NULL) return db_status(to, sqlite3_errcode(to->connection));
    while (code == SQLITE_OK && !atomic_load(c->is_cancelled))
        code = sqlite3_backup_step(backup, PAGES_N);
    bool is_whole = code == SQLITE_DONE;
    int end = sqlite3_backup_finish(backup);
    if (is_whole && end == SQLITE_OK) return OK;
    if (end != SQLITE_OK || code != SQLITE_OK) return db_status(to, end != SQLITE_OK ? end : code);
    return E_CLOSED;
}

static enum status copy_database(struct copy *c, const char *path)
{
    struct db from;
    struct db to;
    struct io_file *file;
    char from_path[PATH_SIZE];
    char to_path[PATH_SIZE];

    int from_size = snprintf(from_path, sizeof from_path, "%s/%s", c->from_root, path);
    int to_size = snprintf(to_path, sizeof to_path, "%s/%s", c->to_root, path);
    assert(from_size > 0);
    assert(to_size > 0);
    if (from_size >= PATH_SIZE || to_size >= PATH_SIZE) return E_INVALID;
    enum status status = db_open(&from, from_path, SQLITE_OPEN_READWRITE, "");
    if (status != OK) return status;
    status = db_open(&to, to_path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                     "PRAGMA synchronous=FULL");
    if (status == OK) {
        status = copy_pages(c, &from, &to);
        db_close(&to);
    }
    db_close(&from);
    if (status == OK) status = c->to->ops->open(c->to, path, IO_WRITE, &file);
    if (status != OK) return status;
    uint64_t size = 0;
    status = c->to->ops->datasync(c->to, file);
    if (status == OK) status = c->to->ops->size(c->to, file, &size);
    c->to->ops->close(c->to, file);
    c->bytes += size;
    return status;
}

enum status copy_archive(struct copy *c, const char *directory)
{
    char path[NAME_SIZE];

    int size = snprintf(path, sizeof path, "%s/%s", directory, DATABASE_NAME);
    assert(size > 0);
    assert((size_t)size < sizeof path); /* the directory has a name of ours */
    enum status status = copy_directory(c, directory);
    if (status == OK) status = failed_at(c, copy_database(c, path), path);
    if (status == OK) status = copy_files(c, directory, ".blobs");
    if (status == OK) status = copy_synced(c, directory);
    return status;
}

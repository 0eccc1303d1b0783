/* SPDX-License-Identifier: Apache-2.0
 *
 * Every file has its contents twice: as the process sees them and as they are on the platter; dirty
 * sectors are where they differ. At a crash each dirty sector is decided by chance: the new, the
 * old, or garbage.
 *
 * Names are kept twice as well, and between the two a list of changes in the order they were made.
 * A crash keeps a prefix of that list, which is what a journaling file system promises without a
 * directory sync; a change is a create, an unlink or a whole rename, so that a rename is never seen
 * by half.
 */
#include "test/sim/sim_disk.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define PATH_SIZE 96
#define FREE_BYTES ((uint64_t)1 << 40)

struct inode {
    struct buffer now;
    struct buffer durable;
    struct buffer dirty; /* a byte per sector of now */
    size_t dirty_from;   /* sectors outside from..to are clean */
    size_t dirty_to;
    uint32_t refs; /* names, changes and handles */
};

struct name {
    struct list node;
    char path[PATH_SIZE];
    struct inode *now; /* NULL: not there */
    struct inode *durable;
};

/* One change of names that is not durable yet: path now means inode (NULL: removed). */
struct change {
    struct list node;
    char path[PATH_SIZE];
    struct inode *inode;
    char removed[PATH_SIZE]; /* of a rename: the old name; else "" */
};

struct io_file {
    struct inode *inode;
};

struct disk {
    struct io io;
    struct world *w;
    struct list names; /* in the order they first appeared */
    struct list changes;
    uint64_t gone_at;
    bool is_gone;
    bool is_full;
    bool is_recovering;
    bool has_failed;
};

static struct disk *disk_of(struct io *io) { return container_of(io, struct disk, io); }

/* ---- inodes ---- */

static struct inode *inode_new(void)
{
    struct inode *n = mem_take_zero(mem_process(), sizeof *n);

    assert(n != NULL);
    buffer_init(&n->now, mem_process());
    buffer_init(&n->durable, mem_process());
    buffer_init(&n->dirty, mem_process());
    return n;
}

static struct inode *inode_ref(struct inode *n)
{
    if (n != NULL) n->refs++;
    return n;
}

static void inode_unref(struct inode *n)
{
    if (n == NULL) return;
    assert(n->refs > 0);
    if (--n->refs > 0) return;
    buffer_release(&n->now);
    buffer_release(&n->durable);
    buffer_release(&n->dirty);
    mem_give(mem_process(), n, sizeof *n);
}

static void inode_set(struct inode **slot, struct inode *n)
{
    (void)inode_ref(n);
    inode_unref(*slot);
    *slot = n;
}

static size_t sectors_n(size_t size) { return (size + SECTOR_SIZE - 1) / SECTOR_SIZE; }

static void buffer_resize(struct buffer *b, size_t len)
{
    if (len > b->len) {
        bool is_there = buffer_reserve(b, len - b->len);
        assert(is_there);
        memset(b->ptr + b->len, 0, len - b->len);
    }
    b->len = len;
}

static void inode_resize(struct inode *n, size_t size)
{
    buffer_resize(&n->now, size);
    buffer_resize(&n->dirty, sectors_n(size));
    if (n->dirty_to > n->dirty.len) n->dirty_to = n->dirty.len;
}

static void inode_write(struct inode *n, size_t offset, const void *ptr, size_t len)
{
    if (len == 0) return;
    if (offset + len > n->now.len) inode_resize(n, offset + len);
    memcpy(n->now.ptr + offset, ptr, len);

    size_t from = offset / SECTOR_SIZE;
    size_t to = sectors_n(offset + len);
    memset(n->dirty.ptr + from, 1, to - from);
    if (n->dirty_from == n->dirty_to) {
        n->dirty_from = from;
        n->dirty_to = to;
    }
    if (from < n->dirty_from) n->dirty_from = from;
    if (to > n->dirty_to) n->dirty_to = to;
}

/* The sector of `from` becomes that of `to`, as far as both reach. */
static void sector_copy(struct buffer *to, const struct buffer *from, size_t sector)
{
    size_t start = sector * SECTOR_SIZE;
    size_t end = start + SECTOR_SIZE;

    if (end > to->len) end = to->len;
    if (end > from->len) end = from->len;
    if (start < end) memcpy(to->ptr + start, from->ptr + start, end - start);
}

static void inode_clean(struct inode *n)
{
    if (n->dirty_to > n->dirty_from) {
        memset(n->dirty.ptr + n->dirty_from, 0, n->dirty_to - n->dirty_from);
    }
    n->dirty_from = n->dirty_to = 0;
}

static void inode_sync(struct inode *n)
{
    buffer_resize(&n->durable, n->now.len);
    for (size_t i = n->dirty_from; i < n->dirty_to; i++) {
        if (n->dirty.ptr[i] != 0) sector_copy(&n->durable, &n->now, i);
    }
    inode_clean(n);
}

/* Only where the sector was to change: a drive that spoils bytes of a sector which nobody wrote
 * is beyond what a journal of small frames can stand (SQLite calls the contrary "powersafe
 * overwrite"). */
static void garbage(struct disk *d, struct inode *n, size_t sector)
{
    size_t from = sector * SECTOR_SIZE;
    size_t to = from + SECTOR_SIZE;
    const uint8_t *now = n->now.ptr;
    uint8_t *durable = n->durable.ptr;

    if (to > n->durable.len) to = n->durable.len;
    if (to > n->now.len) to = n->now.len;
    while (from < to && now[from] == durable[from]) from++;
    while (to > from && now[to - 1] == durable[to - 1]) to--;
    if (from < to) rng_fill(&d->w->rng, durable + from, to - from);
}

/* What a crash leaves of a file. Its size is durable with its data or not at all. */
static void inode_crash(struct disk *d, struct inode *n)
{
    const uint32_t *rate = d->w->options.fault_rate;
    size_t from = n->dirty_from;
    size_t to = n->dirty_to;

    if (n->now.len > n->durable.len && rng_chance(&d->w->rng, 500)) {
        buffer_resize(&n->durable, n->now.len);
    }
    for (size_t i = from; i < to; i++) {
        if (n->dirty.ptr[i] == 0 || i * SECTOR_SIZE >= n->durable.len) continue;
        if (rng_below(&d->w->rng, 1000000) < rate[FAULT_KIND_GARBAGE_SECTOR]) {
            garbage(d, n, i);
            fault_count(d->w, FAULT_KIND_GARBAGE_SECTOR);
        } else if (rng_below(&d->w->rng, 1000000) < rate[FAULT_KIND_TORN_WRITE]) {
            sector_copy(&n->durable, &n->now, i);
            fault_count(d->w, FAULT_KIND_TORN_WRITE);
        } else {
            fault_count(d->w, FAULT_KIND_DROPPED_WRITE);
        }
    }
    inode_clean(n);
    buffer_clear(&n->now);
    buffer_append_bytes(&n->now, buffer_view(&n->durable));
    buffer_resize(&n->dirty, sectors_n(n->now.len));
}

/* ---- names ---- */

static struct name *name_find(struct disk *d, const char *path)
{
    for (struct list *at = list_first(&d->names); at != NULL; at = list_next(&d->names, at)) {
        struct name *n = container_of(at, struct name, node);
        if (strcmp(n->path, path) == 0) return n;
    }
    return NULL;
}

static struct name *name_make(struct disk *d, const char *path)
{
    struct name *n = name_find(d, path);

    if (n != NULL) return n;
    n = mem_take_zero(mem_process(), sizeof *n);
    assert(n != NULL);
    (void)snprintf(n->path, sizeof n->path, "%s", path);
    list_push_back(&d->names, &n->node);
    return n;
}

static void name_free(struct name *n)
{
    list_remove(&n->node);
    inode_unref(n->now);
    inode_unref(n->durable);
    mem_give(mem_process(), n, sizeof *n);
}

static void change_free(struct change *c)
{
    list_remove(&c->node);
    inode_unref(c->inode);
    mem_give(mem_process(), c, sizeof *c);
}

static void change_add(struct disk *d, const char *path, struct inode *inode, const char *removed)
{
    struct change *c = mem_take_zero(mem_process(), sizeof *c);

    assert(c != NULL);
    (void)snprintf(c->path, sizeof c->path, "%s", path);
    (void)snprintf(c->removed, sizeof c->removed, "%s", removed);
    c->inode = inode_ref(inode);
    list_push_back(&d->changes, &c->node);
    inode_set(&name_make(d, path)->now, inode);
    if (removed[0] != '\0') inode_set(&name_make(d, removed)->now, NULL);
}

static void change_make_durable(struct disk *d, struct change *c)
{
    inode_set(&name_make(d, c->path)->durable, c->inode);
    if (c->removed[0] != '\0') inode_set(&name_make(d, c->removed)->durable, NULL);
    change_free(c);
}

/* A name that is neither there nor expected back is forgotten. */
static void names_sweep(struct disk *d)
{
    struct list *next = NULL;

    for (struct list *at = list_first(&d->names); at != NULL; at = next) {
        struct name *n = container_of(at, struct name, node);
        next = list_next(&d->names, at);
        if (n->now == NULL && n->durable == NULL) name_free(n);
    }
}

static bool is_in_directory(const char *path, const char *directory)
{
    size_t len = strlen(directory);

    if (strcmp(directory, ".") == 0) return strchr(path, '/') == NULL;
    return strncmp(path, directory, len) == 0 && path[len] == '/' &&
           strchr(path + len + 1, '/') == NULL;
}

/* ---- the operations ---- */

/* Counts one operation; true when the process does not live to see its answer. */
static bool is_over(struct disk *d)
{
    if (d->is_gone) return true;
    if (d->gone_at == 0 || --d->gone_at > 0) return false;
    d->is_gone = true;
    return true;
}

static enum status file_new(struct inode *inode, struct io_file **out)
{
    struct io_file *file = mem_take_zero(mem_process(), sizeof *file);

    assert(file != NULL);
    file->inode = inode_ref(inode);
    *out = file;
    return OK;
}

static enum status op_open(struct io *io, const char *path, enum io_open how, struct io_file **out)
{
    struct disk *d = disk_of(io);

    if (is_over(d)) return E_IO;
    struct name *n = name_find(d, path);
    bool is_there = n != NULL && n->now != NULL;
    if (how != IO_CREATE) return is_there ? file_new(n->now, out) : E_NOT_FOUND;
    if (is_there) return E_EXISTS;
    if (d->is_full) return E_NOSPACE;
    struct inode *inode = inode_new();
    change_add(d, path, inode, "");
    return file_new(inode, out);
}

static void op_close(struct io *io, struct io_file *file)
{
    (void)io;
    inode_unref(file->inode);
    mem_give(mem_process(), file, sizeof *file);
}

static enum status op_read(struct io *io, struct io_file *file, uint64_t offset, void *ptr,
                           size_t len, size_t *got)
{
    struct disk *d = disk_of(io);
    const struct buffer *now = &file->inode->now;

    if (is_over(d)) return E_IO;
    if (d->is_recovering && fault_hits(d->w, FAULT_KIND_READ_EIO)) {
        d->has_failed = true;
        return E_IO;
    }
    size_t left = offset < now->len ? now->len - (size_t)offset : 0;
    if (len > left) len = left;
    if (len > 0) memcpy(ptr, now->ptr + offset, len);
    *got = len;
    return OK;
}

static enum status op_write(struct io *io, struct io_file *file, uint64_t offset, const void *ptr,
                            size_t len)
{
    struct disk *d = disk_of(io);

    if (d->is_gone) return E_IO;
    if (is_over(d)) {
        inode_write(file->inode, (size_t)offset, ptr, (size_t)rng_below(&d->w->rng, len + 1));
        return E_IO;
    }
    if (d->is_full && offset + len > file->inode->now.len) return E_NOSPACE;
    if (fault_hits(d->w, FAULT_KIND_WRITE_EIO)) {
        d->has_failed = true;
        return E_IO;
    }
    if (fault_hits(d->w, FAULT_KIND_SHORT_WRITE)) {
        d->has_failed = true;
        inode_write(file->inode, (size_t)offset, ptr, len / 2);
        return E_IO;
    }
    inode_write(file->inode, (size_t)offset, ptr, len);
    return OK;
}

static enum status op_datasync(struct io *io, struct io_file *file)
{
    struct disk *d = disk_of(io);

    if (is_over(d)) return E_IO;
    if (fault_hits(d->w, FAULT_KIND_SYNC_EIO)) {
        /* As Linux does it: the pages are marked clean, what the process sees is not what is
         * stored. */
        d->has_failed = true;
        inode_clean(file->inode);
        return E_IO;
    }
    inode_sync(file->inode);
    return OK;
}

static enum status op_allocate(struct io *io, struct io_file *file, uint64_t size)
{
    struct disk *d = disk_of(io);

    if (is_over(d)) return E_IO;
    if (size <= file->inode->now.len) return OK;
    if (d->is_full) return E_NOSPACE;
    inode_resize(file->inode, (size_t)size);
    return OK;
}

static enum status op_truncate(struct io *io, struct io_file *file, uint64_t size)
{
    struct disk *d = disk_of(io);
    struct inode *n = file->inode;

    if (is_over(d)) return E_IO;
    size_t old = n->now.len;
    inode_resize(n, (size_t)size);
    /* A cut that was lost by a crash shows the old contents again: the rest of the platter
     * stays. */
    if (size < old && size % SECTOR_SIZE != 0) n->dirty.ptr[size / SECTOR_SIZE] = 1;
    return OK;
}

static enum status op_size(struct io *io, struct io_file *file, uint64_t *out)
{
    if (is_over(disk_of(io))) return E_IO;
    *out = file->inode->now.len;
    return OK;
}

static enum status op_rename(struct io *io, const char *from, const char *to)
{
    struct disk *d = disk_of(io);

    if (is_over(d)) return E_IO;
    struct name *n = name_find(d, from);
    if (n == NULL || n->now == NULL) return E_NOT_FOUND;
    change_add(d, to, n->now, from);
    return OK;
}

static enum status op_unlink(struct io *io, const char *path)
{
    struct disk *d = disk_of(io);

    if (is_over(d)) return E_IO;
    struct name *n = name_find(d, path);
    if (n == NULL || n->now == NULL) return E_NOT_FOUND;
    change_add(d, path, NULL, "");
    return OK;
}

static enum status op_make_directory(struct io *io, const char *path)
{
    (void)path; /* directories are there as soon as something is in them */
    return is_over(disk_of(io)) ? E_IO : OK;
}

static enum status op_sync_directory(struct io *io, const char *path)
{
    struct disk *d = disk_of(io);
    struct list *next = NULL;

    if (is_over(d)) return E_IO;
    for (struct list *at = list_first(&d->changes); at != NULL; at = next) {
        struct change *c = container_of(at, struct change, node);
        next = list_next(&d->changes, at);
        if (is_in_directory(c->path, path)) change_make_durable(d, c);
    }
    names_sweep(d);
    return OK;
}

static enum status op_list(struct io *io, const char *path, io_list_fn *fn, void *user)
{
    struct disk *d = disk_of(io);
    struct list *next = NULL;

    if (is_over(d)) return E_IO;
    for (struct list *at = list_first(&d->names); at != NULL; at = next) {
        struct name *n = container_of(at, struct name, node);
        next = list_next(&d->names, at);
        if (n->now == NULL || !is_in_directory(n->path, path)) continue;
        const char *last = strrchr(n->path, '/');
        enum status status = fn(user, last == NULL ? n->path : last + 1);
        if (status != OK) return status;
    }
    return OK;
}

static enum status op_lock(struct io *io, const char *path, struct io_file **out)
{
    enum status status = op_open(io, path, IO_WRITE, out);

    return status == E_NOT_FOUND ? op_open(io, path, IO_CREATE, out) : status;
}

static enum status op_space(struct io *io, uint64_t *free_bytes)
{
    if (is_over(disk_of(io))) return E_IO;
    *free_bytes = disk_of(io)->is_full ? 0 : FREE_BYTES;
    return OK;
}

static void op_release(struct io *io) { (void)io; /* the disk outlives the process: disk_free() */ }

static const struct io_ops disk_ops = {
    .name = "simulated",
    .open = op_open,
    .close = op_close,
    .read = op_read,
    .write = op_write,
    .datasync = op_datasync,
    .allocate = op_allocate,
    .truncate = op_truncate,
    .size = op_size,
    .rename = op_rename,
    .unlink = op_unlink,
    .make_directory = op_make_directory,
    .sync_directory = op_sync_directory,
    .list = op_list,
    .lock = op_lock,
    .space = op_space,
    .release = op_release,
};

/* ---- the disk ---- */

struct disk *disk_new(struct world *w)
{
    struct disk *d = mem_take_zero(mem_process(), sizeof *d);

    assert(d != NULL);
    d->io.ops = &disk_ops;
    d->w = w;
    list_init(&d->names);
    list_init(&d->changes);
    return d;
}

void disk_free(struct disk *d)
{
    struct list *at = NULL;

    while ((at = list_first(&d->changes)) != NULL)
        change_free(container_of(at, struct change, node));
    while ((at = list_first(&d->names)) != NULL) name_free(container_of(at, struct name, node));
    mem_give(mem_process(), d, sizeof *d);
}

struct io *disk_io(struct disk *d) { return &d->io; }

void disk_gone_at(struct disk *d, uint64_t nth) { d->gone_at = nth; }
void disk_set_gone(struct disk *d) { d->is_gone = true; }
bool disk_is_gone(const struct disk *d) { return d->is_gone; }
void disk_set_full(struct disk *d, bool is_full) { d->is_full = is_full; }
bool disk_is_full(const struct disk *d) { return d->is_full; }
void disk_set_recovering(struct disk *d, bool is_recovering) { d->is_recovering = is_recovering; }
bool disk_has_failed(const struct disk *d) { return d->has_failed; }

/* Keeps the changes up to the first one that is lost. */
static void changes_crash(struct disk *d)
{
    const uint32_t rate = d->w->options.fault_rate[FAULT_KIND_NAME_LOST];
    bool is_lost = false;
    struct list *at = NULL;

    while ((at = list_first(&d->changes)) != NULL) {
        struct change *c = container_of(at, struct change, node);
        if (!is_lost) is_lost = rng_below(&d->w->rng, 1000000) < rate;
        if (is_lost) {
            fault_count(d->w, FAULT_KIND_NAME_LOST);
            change_free(c);
        } else {
            change_make_durable(d, c);
        }
    }
}

void disk_restart(struct disk *d)
{
    changes_crash(d);
    for (struct list *at = list_first(&d->names); at != NULL; at = list_next(&d->names, at)) {
        struct name *n = container_of(at, struct name, node);
        inode_set(&n->now, n->durable);
        if (n->now != NULL) inode_crash(d, n->now);
    }
    names_sweep(d);
    d->is_gone = false;
    d->has_failed = false;
    d->gone_at = 0;
}

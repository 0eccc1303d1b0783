/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk in memory that fails, tears and forgets.
 *
 * Contents: a file holds what the process sees. For each sector that was written since the last
 * datasync there is an undo record with the old bytes and the range that was written; a power
 * failure decides per record between old, new and garbage. Garbage is confined to the written
 * range: disks that spoil bytes of a sector which nobody wrote are beyond what a journal of small
 * frames can bear.
 *
 * Names: each path has the file it means now and the one it means on disk. What sync_directory()
 * has not confirmed is a list of operations; a power failure decides for each of them whether it
 * happened.
 */
#include "store/store_fault.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>

#define SECTOR_SIZE 512
#define PATH_SIZE_MAX 192
#define CALL_KINDS_N (FAULT_ON_ALLOCATE + 1)

struct undo {
    uint64_t sector;
    uint32_t from; /* written range within the sector */
    uint32_t to;
    uint8_t old[SECTOR_SIZE];
};

struct inode {
    struct list node;    /* in disk.inodes */
    uint32_t references; /* of names (now and durable counted apart), operations and handles */
    bool is_directory;
    bool is_locked;
    struct buffer data;
    bool is_size_unsynced;
    uint64_t size_synced; /* when is_size_unsynced */
    struct undo *undos;
    size_t undos_n;
    size_t undos_capacity;
    struct buffer undo_of; /* per sector a u32: 1 + index in undos, or 0 */
};

struct name {
    struct list node; /* in disk.names */
    char path[PATH_SIZE_MAX];
    struct inode *now;     /* NULL: absent */
    struct inode *durable; /* NULL: absent */
};

/* A change of names that is not durable. Creating has no `from`, removing no `to`. */
struct operation {
    struct list node; /* in disk.operations, oldest first */
    struct name *from;
    struct name *to;
    struct inode *inode;
};

struct io_file {
    struct inode *inode;
    uint64_t life; /* of the process that opened it */
    bool is_lock;
};

struct fault_disk {
    struct io io;
    struct mem *mem;
    uint64_t capacity;
    struct list inodes;
    struct list names;
    struct list operations;
    size_t files_n; /* open handles, of all lives */
    uint64_t life;  /* counts restarts */
    bool is_crashed;
    struct store_fault_plan plan;
    struct rng rng;
    uint64_t calls[CALL_KINDS_N];
};

static const struct io_ops fault_ops;

static struct fault_disk *disk_of(struct io *io)
{
    assert(io->ops == &fault_ops);
    return container_of(io, struct fault_disk, io);
}

/* ---- the plan ---- */

static bool is_due(struct fault_disk *d, enum store_fault_on kind, bool takes_space)
{
    struct store_fault_plan *plan = &d->plan;
    assert(kind < CALL_KINDS_N);
    assert(plan->on < CALL_KINDS_N);
    if (plan->at == 0 || plan->fault == FAULT_NONE) return false;
    if (plan->on != FAULT_ON_ANY && plan->on != kind) return false;
    if (plan->fault == FAULT_NOSPACE && !takes_space) return false;
    if (plan->at > 1) {
        plan->at--;
        return false;
    }
    if (!plan->for_ever) plan->at = 0;
    return true;
}

/* Before each call. OK: carry it out and pass the answer through after_call(). */
static enum status before_call(struct fault_disk *d, enum store_fault_on kind, bool takes_space,
                               enum store_fault *fault)
{
    *fault = FAULT_NONE;
    if (d->is_crashed) return E_IO;
    d->calls[FAULT_ON_ANY]++;
    if (kind != FAULT_ON_ANY) d->calls[kind]++;
    assert(d->calls[kind] <= d->calls[FAULT_ON_ANY]);
    if (!is_due(d, kind, takes_space)) return OK;

    *fault = d->plan.fault;
    switch (d->plan.fault) {
    case FAULT_NONE: return OK;
    case FAULT_FAIL: return E_IO;
    case FAULT_NOSPACE: return E_NOSPACE;
    case FAULT_TEAR:
        if (kind == FAULT_ON_WRITE) return OK; /* the write does it itself */
        d->is_crashed = true;
        return E_IO;
    case FAULT_CRASH: d->is_crashed = true; return E_IO;
    case FAULT_CRASH_AFTER: return OK;
    }
    unreachable("fault");
}

static enum status after_call(struct fault_disk *d, enum store_fault fault, enum status status)
{
    assert(!d->is_crashed); /* else the call would not have been carried out, as for these: */
    assert(fault != FAULT_FAIL);
    assert(fault != FAULT_NOSPACE);
    assert(fault != FAULT_CRASH);
    if (fault != FAULT_CRASH_AFTER) return status;
    d->is_crashed = true;
    return E_IO;
}

/* ---- files ---- */

/* What holds of every file between two calls. */
static void inode_check(const struct inode *inode)
{
    assert(inode->references > 0);
    assert(list_is_linked(&inode->node));
    assert(inode->data.len <= inode->data.size);
    assert(!inode->data.failed);
    assert(!inode->undo_of.failed);
    assert(inode->undos_n <= inode->undos_capacity);
    assert((inode->undos != NULL) == (inode->undos_capacity > 0));
    assert(inode->undo_of.len % sizeof(uint32_t) == 0);
    assert(inode->undos_n <= inode->undo_of.len / sizeof(uint32_t));
    assert(!inode->is_directory || inode->data.len == 0);
    assert(!inode->is_directory || !inode->is_locked);
}

static struct inode *inode_new(struct fault_disk *d, bool is_directory)
{
    struct inode *inode = mem_take_zero(d->mem, sizeof *inode);
    if (inode == NULL) return NULL;
    inode->is_directory = is_directory;
    buffer_init(&inode->data, d->mem);
    buffer_init(&inode->undo_of, d->mem);
    list_node_init(&inode->node);
    list_push_back(&d->inodes, &inode->node);
    return inode;
}

static void inode_drop(struct fault_disk *d, struct inode *inode)
{
    if (inode == NULL) return;
    assert(inode->references > 0);
    if (--inode->references > 0) return;
    assert(!inode->is_locked); /* the handle that holds the lock refers to it */
    list_remove(&inode->node);
    buffer_release(&inode->data);
    buffer_release(&inode->undo_of);
    mem_give(d->mem, inode->undos, inode->undos_capacity * sizeof *inode->undos);
    mem_give(d->mem, inode, sizeof *inode);
}

static void point(struct fault_disk *d, struct inode **where, struct inode *inode)
{
    assert(inode == NULL || inode->references < UINT32_MAX);
    if (inode != NULL) inode->references++;
    inode_drop(d, *where);
    *where = inode;
}

static void inode_forget_undos(struct inode *inode)
{
    inode->undos_n = 0;
    buffer_clear(&inode->undo_of);
    inode->is_size_unsynced = false;
}

static void size_changes(struct inode *inode)
{
    assert(!inode->is_directory);
    if (inode->is_size_unsynced) return;
    inode->is_size_unsynced = true;
    inode->size_synced = inode->data.len;
}

static uint64_t free_space(const struct fault_disk *d)
{
    uint64_t used = 0;
    for (struct list *n = list_first(&d->inodes); n != NULL; n = list_next(&d->inodes, n)) {
        used += container_of(n, struct inode, node)->data.len;
    }
    return used < d->capacity ? d->capacity - used : 0;
}

/* Zeros beyond the old end. */
static enum status inode_resize(struct fault_disk *d, struct inode *inode, uint64_t size)
{
    uint64_t old = inode->data.len;
    if (size > old) {
        if (size - old > free_space(d)) return E_NOSPACE;
        if (!buffer_reserve(&inode->data, (size_t)(size - old))) {
            inode->data.failed = false;
            return E_NOMEM;
        }
        memset(inode->data.ptr + old, 0, (size_t)(size - old));
    }
    size_changes(inode);
    inode->data.len = (size_t)size;
    inode_check(inode);
    return OK;
}

static bool undo_reserve(struct fault_disk *d, struct inode *inode, uint64_t sector)
{
    size_t need = (size_t)(sector + 1) * sizeof(uint32_t);
    if (inode->undo_of.len < need) {
        size_t more = need - inode->undo_of.len;
        if (!buffer_reserve(&inode->undo_of, more)) {
            inode->undo_of.failed = false;
            return false;
        }
        memset(inode->undo_of.ptr + inode->undo_of.len, 0, more);
        inode->undo_of.len = need;
    }
    assert(inode->undo_of.len >= need);
    assert(inode->undos_n <= inode->undos_capacity);
    if (inode->undos_n < inode->undos_capacity) return true;
    size_t capacity = inode->undos_capacity == 0 ? 8 : inode->undos_capacity * 2;
    struct undo *undos = mem_resize(d->mem, inode->undos, inode->undos_capacity * sizeof *undos,
                                    capacity * sizeof *undos);
    if (undos == NULL) return false;
    inode->undos = undos;
    inode->undos_capacity = capacity;
    assert(inode->undos_n < inode->undos_capacity);
    return true;
}

/* Bytes from..to of this sector are about to change. */
static enum status undo_remember(struct fault_disk *d, struct inode *inode, uint64_t sector,
                                 uint32_t from, uint32_t to)
{
    assert(from < to);
    assert(to <= SECTOR_SIZE);
    if (!undo_reserve(d, inode, sector)) return E_NOMEM;
    uint8_t *slot = inode->undo_of.ptr + sector * sizeof(uint32_t);
    if (load_u32(slot) == 0) {
        struct undo *undo = &inode->undos[inode->undos_n++];
        *undo = (struct undo){.sector = sector, .from = from, .to = to};
        uint64_t begin = sector * SECTOR_SIZE;
        if (begin < inode->data.len) {
            uint64_t len = inode->data.len - begin;
            memcpy(undo->old, inode->data.ptr + begin, len < SECTOR_SIZE ? len : SECTOR_SIZE);
        }
        store_u32(slot, (uint32_t)inode->undos_n);
        return OK;
    }
    assert(load_u32(slot) <= inode->undos_n);
    struct undo *undo = &inode->undos[load_u32(slot) - 1];
    assert(undo->sector == sector);
    assert(undo->from < undo->to);
    assert(undo->to <= SECTOR_SIZE);
    if (from < undo->from) undo->from = from;
    if (to > undo->to) undo->to = to;
    return OK;
}

/* Copies len bytes of a sector into the file, as far as it reaches. */
static void put_sector(struct inode *inode, uint64_t sector, const uint8_t *bytes, uint32_t from,
                       uint32_t to)
{
    assert(from < to);
    assert(to <= SECTOR_SIZE);
    uint64_t begin = sector * SECTOR_SIZE;
    if (begin + from >= inode->data.len) return;
    if (begin + to > inode->data.len) to = (uint32_t)(inode->data.len - begin);
    assert(from < to);
    memcpy(inode->data.ptr + begin + from, bytes + from, to - from);
}

/* The machine is gone: what the disk has of each sector that was not synced. */
static void inode_power_failure(struct fault_disk *d, struct inode *inode)
{
    inode_check(inode);
    uint64_t size = inode->data.len;
    if (inode->is_size_unsynced && rng_chance(&d->rng, 500)) size = inode->size_synced;
    if (size > inode->data.len) {
        /* An unsynced truncation did not happen; its undo records hold the bytes. The memory is
         * still there: a buffer never shrinks. */
        assert(size <= inode->data.size);
        memset(inode->data.ptr + inode->data.len, 0, (size_t)size - inode->data.len);
        inode->data.len = (size_t)size;
    }
    for (size_t i = 0; i < inode->undos_n; i++) {
        const struct undo *undo = &inode->undos[i];
        uint64_t choice = rng_below(&d->rng, 5);
        assert(undo->from < undo->to);
        assert(undo->to <= SECTOR_SIZE);
        if (choice < 2) {
            put_sector(inode, undo->sector, undo->old, 0, SECTOR_SIZE);
        } else if (choice == 2) {
            uint8_t garbage[SECTOR_SIZE];
            rng_fill(&d->rng, garbage, sizeof garbage);
            put_sector(inode, undo->sector, garbage, undo->from, undo->to);
        }
    }
    assert(size <= inode->data.len);
    inode->data.len = (size_t)size;
    inode_forget_undos(inode);
}

/* The kernel could not write: some pages are on disk, the others are dropped. */
static void inode_sync_failure(struct fault_disk *d, struct inode *inode)
{
    inode_check(inode);
    for (size_t i = 0; i < inode->undos_n; i++) {
        const struct undo *undo = &inode->undos[i];
        assert(undo->from < undo->to);
        assert(undo->to <= SECTOR_SIZE);
        if (rng_chance(&d->rng, 500)) continue;
        put_sector(inode, undo->sector, undo->old, undo->from, undo->to);
    }
    inode_forget_undos(inode);
}

/* ---- names ---- */

static struct name *find_name(struct fault_disk *d, const char *path)
{
    assert(path[0] != 0);
    for (struct list *n = list_first(&d->names); n != NULL; n = list_next(&d->names, n)) {
        struct name *name = container_of(n, struct name, node);
        if (strcmp(name->path, path) == 0) return name;
    }
    return NULL;
}

static struct inode *find_inode(struct fault_disk *d, const char *path)
{
    struct name *name = find_name(d, path);
    return name == NULL ? NULL : name->now;
}

/* The entry of the path, new when it was never used. */
static struct name *need_name(struct fault_disk *d, const char *path)
{
    struct name *name = find_name(d, path);
    if (name != NULL) return name;
    name = mem_take_zero(d->mem, sizeof *name);
    if (name == NULL) return NULL;
    int length = snprintf(name->path, sizeof name->path, "%s", path);
    assert(length > 0);
    assert((size_t)length < sizeof name->path);
    list_node_init(&name->node);
    list_push_back(&d->names, &name->node);
    return name;
}

/* Whether path is directly within the directory ("." is the root). */
static bool is_within(const char *directory, const char *path)
{
    assert(directory[0] != 0);
    assert(path[0] != 0);
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return strcmp(directory, ".") == 0;
    size_t length = (size_t)(slash - path);
    return strlen(directory) == length && memcmp(directory, path, length) == 0;
}

static bool has_directory(struct fault_disk *d, const char *path)
{
    if (strcmp(path, ".") == 0) return true;
    struct inode *inode = find_inode(d, path);
    return inode != NULL && inode->is_directory;
}

static bool has_parent(struct fault_disk *d, const char *path)
{
    char parent[PATH_SIZE_MAX];
    int length = snprintf(parent, sizeof parent, "%s", path);
    assert(length > 0);
    assert((size_t)length < sizeof parent);
    char *slash = strrchr(parent, '/');
    if (slash == NULL) return true;
    *slash = 0;
    return has_directory(d, parent);
}

/* Changes the names for the process and notes the change for the disk. */
static enum status change_names(struct fault_disk *d, struct name *from, struct name *to,
                                struct inode *inode)
{
    assert(inode != NULL);
    assert(from != to);
    assert(from == NULL || from->now == inode);
    struct operation *operation = mem_take_zero(d->mem, sizeof *operation);
    if (operation == NULL) return E_NOMEM;
    operation->from = from;
    operation->to = to;
    point(d, &operation->inode, inode);
    list_node_init(&operation->node);
    list_push_back(&d->operations, &operation->node);
    if (to != NULL) point(d, &to->now, inode);
    if (from != NULL) point(d, &from->now, NULL);
    inode_check(inode);
    return OK;
}

/* Takes the operation off the list; it reaches the disk or does not. */
static void finish_operation(struct fault_disk *d, struct operation *operation, bool is_durable)
{
    assert(operation->inode != NULL);
    assert(operation->from != NULL || operation->to != NULL);
    assert(operation->from != operation->to);
    list_remove(&operation->node);
    if (is_durable) {
        struct name *from = operation->from;
        if (operation->to != NULL) point(d, &operation->to->durable, operation->inode);
        if (from != NULL && from->durable == operation->inode) point(d, &from->durable, NULL);
    }
    inode_drop(d, operation->inode);
    mem_give(d->mem, operation, sizeof *operation);
}

static struct operation *oldest_operation(struct fault_disk *d)
{
    struct list *n = list_first(&d->operations);
    return n == NULL ? NULL : container_of(n, struct operation, node);
}

/* Entries that mean nothing any more; only without operations that refer to them. */
static void forget_names(struct fault_disk *d)
{
    if (!list_is_empty(&d->operations)) return;
    struct list *next;
    for (struct list *n = list_first(&d->names); n != NULL; n = next) {
        next = list_next(&d->names, n);
        struct name *name = container_of(n, struct name, node);
        if (name->now != NULL || name->durable != NULL) continue;
        list_remove(n);
        mem_give(d->mem, name, sizeof *name);
    }
}

/* ---- the calls ---- */

static enum status new_file(struct fault_disk *d, struct inode *inode, bool is_lock,
                            struct io_file **out)
{
    inode_check(inode);
    assert(!inode->is_directory);
    assert(!is_lock || !inode->is_locked); /* one has it at a time */
    struct io_file *file = mem_take_zero(d->mem, sizeof *file);
    if (file == NULL) return E_NOMEM;
    point(d, &file->inode, inode);
    file->life = d->life;
    file->is_lock = is_lock;
    d->files_n++;
    *out = file;
    return OK;
}

static enum status create_inode(struct fault_disk *d, const char *path, bool is_directory,
                                struct inode **out)
{
    assert(find_inode(d, path) == NULL);
    if (!has_parent(d, path)) return E_NOT_FOUND;
    struct name *name = need_name(d, path);
    struct inode *inode = name == NULL ? NULL : inode_new(d, is_directory);
    if (inode == NULL) return E_NOMEM;
    inode->references++; /* held here until the names refer to it or it goes again */
    enum status status = change_names(d, NULL, name, inode);
    if (status == OK) *out = inode;
    assert((find_inode(d, path) == inode) == (status == OK));
    inode_drop(d, inode);
    return status;
}

static enum status do_open(struct fault_disk *d, const char *path, enum io_open how,
                           struct io_file **out)
{
    struct inode *inode = find_inode(d, path);
    if (inode != NULL && inode->is_directory) return E_IO;
    if (how == IO_CREATE) {
        if (inode != NULL) return E_EXISTS;
        enum status status = create_inode(d, path, false, &inode);
        if (status != OK) return status;
    }
    if (inode == NULL) return E_NOT_FOUND;
    return new_file(d, inode, false, out);
}

static enum status fault_open(struct io *io, const char *path, enum io_open how,
                              struct io_file **out)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_call(d, FAULT_ON_ANY, how == IO_CREATE, &fault);
    if (status != OK) return status;
    struct io_file *file = NULL;
    status = do_open(d, path, how, &file);
    assert((file != NULL) == (status == OK));
    enum status answer = after_call(d, fault, status);
    if (answer == OK)
        *out = file;
    else if (status == OK)
        io->ops->close(io, file);
    return answer;
}

static void fault_close(struct io *io, struct io_file *file)
{
    struct fault_disk *d = disk_of(io);
    assert(d->files_n > 0);
    assert(file->life <= d->life);
    inode_check(file->inode);
    if (file->is_lock && file->life == d->life) file->inode->is_locked = false;
    inode_drop(d, file->inode);
    d->files_n--;
    mem_give(d->mem, file, sizeof *file);
}

/* Before each call on a file: one opened before a restart belongs to a process that is gone. */
static enum status before_file_call(struct fault_disk *d, const struct io_file *file,
                                    enum store_fault_on kind, bool takes_space,
                                    enum store_fault *fault)
{
    assert(file->life <= d->life);
    inode_check(file->inode);
    *fault = FAULT_NONE;
    if (file->life != d->life) return E_IO;
    return before_call(d, kind, takes_space, fault);
}

static enum status fault_read(struct io *io, struct io_file *file, uint64_t offset, void *ptr,
                              size_t len, size_t *got)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    assert(ptr != NULL || len == 0);
    enum status status = before_file_call(d, file, FAULT_ON_ANY, false, &fault);
    if (status != OK) return status;
    const struct buffer *data = &file->inode->data;
    size_t there = offset < data->len ? data->len - (size_t)offset : 0;
    size_t n = len < there ? len : there;
    if (n > 0) memcpy(ptr, data->ptr + offset, n);
    assert(n <= len);
    *got = n;
    return after_call(d, fault, OK);
}

static enum status do_write(struct fault_disk *d, struct inode *inode, uint64_t offset,
                            const uint8_t *bytes, size_t len, bool is_torn)
{
    uint64_t end = offset + len;
    assert(bytes != NULL || len == 0);
    assert(end >= offset);
    if (end > inode->data.len) {
        enum status status = inode_resize(d, inode, end);
        if (status != OK) return status;
    }
    while (offset < end) {
        uint64_t sector = offset / SECTOR_SIZE;
        uint64_t stop = (sector + 1) * SECTOR_SIZE < end ? (sector + 1) * SECTOR_SIZE : end;
        size_t n = (size_t)(stop - offset);
        assert(n > 0);
        assert(stop <= inode->data.len);
        if (!is_torn || rng_chance(&d->rng, 500)) {
            enum status status =
                undo_remember(d, inode, sector, (uint32_t)(offset - sector * SECTOR_SIZE),
                              (uint32_t)(stop - sector * SECTOR_SIZE));
            if (status != OK) return status;
            memcpy(inode->data.ptr + offset, bytes, n);
        }
        bytes += n;
        offset = stop;
    }
    inode_check(inode);
    return OK;
}

static enum status fault_write(struct io *io, struct io_file *file, uint64_t offset,
                               const void *ptr, size_t len)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_file_call(d, file, FAULT_ON_WRITE, true, &fault);
    if (status != OK) return status;
    status = do_write(d, file->inode, offset, ptr, len, fault == FAULT_TEAR);
    if (fault == FAULT_TEAR) {
        d->is_crashed = true;
        return E_IO;
    }
    return after_call(d, fault, status);
}

static enum status fault_datasync(struct io *io, struct io_file *file)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_file_call(d, file, FAULT_ON_DATASYNC, false, &fault);
    if (fault == FAULT_FAIL) inode_sync_failure(d, file->inode);
    if (status != OK) return status;
    inode_forget_undos(file->inode);
    inode_check(file->inode);
    return after_call(d, fault, OK);
}

static enum status fault_allocate(struct io *io, struct io_file *file, uint64_t size)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_file_call(d, file, FAULT_ON_ALLOCATE, true, &fault);
    if (status != OK) return status;
    if (size > file->inode->data.len) status = inode_resize(d, file->inode, size);
    assert(status != OK || file->inode->data.len >= size);
    return after_call(d, fault, status);
}

static enum status do_truncate(struct fault_disk *d, struct inode *inode, uint64_t size)
{
    for (uint64_t at = size; at < inode->data.len; at = (at / SECTOR_SIZE + 1) * SECTOR_SIZE) {
        enum status status =
            undo_remember(d, inode, at / SECTOR_SIZE, (uint32_t)(at % SECTOR_SIZE), SECTOR_SIZE);
        if (status != OK) return status;
    }
    return inode_resize(d, inode, size);
}

static enum status fault_truncate(struct io *io, struct io_file *file, uint64_t size)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_file_call(d, file, FAULT_ON_ANY, false, &fault);
    if (status != OK) return status;
    return after_call(d, fault, do_truncate(d, file->inode, size));
}

static enum status fault_size(struct io *io, struct io_file *file, uint64_t *out)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_file_call(d, file, FAULT_ON_ANY, false, &fault);
    if (status != OK) return status;
    *out = file->inode->data.len;
    return after_call(d, fault, OK);
}

static enum status do_rename(struct fault_disk *d, const char *from_path, const char *to_path)
{
    struct name *from = find_name(d, from_path);
    if (from == NULL || from->now == NULL || !has_parent(d, to_path)) return E_NOT_FOUND;
    struct name *to = need_name(d, to_path);
    if (to == NULL) return E_NOMEM;
    if (from == to) return OK;
    return change_names(d, from, to, from->now);
}

static enum status fault_rename(struct io *io, const char *from, const char *to)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_call(d, FAULT_ON_RENAME, true, &fault);
    if (status != OK) return status;
    return after_call(d, fault, do_rename(d, from, to));
}

static enum status fault_unlink(struct io *io, const char *path)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_call(d, FAULT_ON_ANY, false, &fault);
    if (status != OK) return status;
    struct name *name = find_name(d, path);
    if (name == NULL || name->now == NULL)
        status = E_NOT_FOUND;
    else
        status = change_names(d, name, NULL, name->now);
    return after_call(d, fault, status);
}

static enum status fault_make_directory(struct io *io, const char *path)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_call(d, FAULT_ON_ANY, true, &fault);
    if (status != OK) return status;
    struct inode *inode;
    if (!has_directory(d, path)) status = create_inode(d, path, true, &inode);
    return after_call(d, fault, status);
}

static bool touches(const struct operation *operation, const char *directory)
{
    assert(operation->from != NULL || operation->to != NULL);
    return (operation->from != NULL && is_within(directory, operation->from->path)) ||
           (operation->to != NULL && is_within(directory, operation->to->path));
}

/* Whether syncing the directory makes this operation durable: it is one on a name in it, or an
 * earlier one on a file whose later name is in it. */
static bool is_synced_with(struct fault_disk *d, struct operation *operation, const char *directory)
{
    assert(list_is_linked(&operation->node));
    for (struct list *n = &operation->node; n != NULL; n = list_next(&d->operations, n)) {
        const struct operation *later = container_of(n, struct operation, node);
        if (later->inode == operation->inode && touches(later, directory)) return true;
    }
    return false;
}

/* No more than was asked for: the name of the directory itself, for one, is the parent's affair. */
static void sync_names(struct fault_disk *d, const char *directory)
{
    struct list *next;
    for (struct list *n = list_first(&d->operations); n != NULL; n = next) {
        next = list_next(&d->operations, n);
        struct operation *operation = container_of(n, struct operation, node);
        if (is_synced_with(d, operation, directory)) finish_operation(d, operation, true);
    }
    forget_names(d);
}

static enum status fault_sync_directory(struct io *io, const char *path)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_call(d, FAULT_ON_DATASYNC, false, &fault);
    if (status != OK) return status;
    if (has_directory(d, path))
        sync_names(d, path);
    else
        status = E_NOT_FOUND;
    return after_call(d, fault, status);
}

static enum status do_list(struct fault_disk *d, const char *path, io_list_fn *fn, void *user)
{
    assert(fn != NULL);
    if (!has_directory(d, path)) return E_NOT_FOUND;
    for (struct list *n = list_first(&d->names); n != NULL; n = list_next(&d->names, n)) {
        struct name *name = container_of(n, struct name, node);
        if (name->now == NULL || !is_within(path, name->path)) continue;
        const char *slash = strrchr(name->path, '/');
        enum status status = fn(user, slash == NULL ? name->path : slash + 1);
        if (status != OK) return status;
    }
    return OK;
}

static enum status fault_list(struct io *io, const char *path, io_list_fn *fn, void *user)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_call(d, FAULT_ON_ANY, false, &fault);
    if (status != OK) return status;
    return after_call(d, fault, do_list(d, path, fn, user));
}

static enum status do_lock(struct fault_disk *d, const char *path, struct io_file **out)
{
    struct inode *inode = find_inode(d, path);
    if (inode == NULL) {
        enum status status = create_inode(d, path, false, &inode);
        if (status != OK) return status;
    }
    if (inode->is_locked) return E_BUSY;
    enum status status = new_file(d, inode, true, out);
    if (status == OK) inode->is_locked = true;
    return status;
}

static enum status fault_lock(struct io *io, const char *path, struct io_file **out)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_call(d, FAULT_ON_ANY, true, &fault);
    if (status != OK) return status;
    struct io_file *file = NULL;
    status = do_lock(d, path, &file);
    assert((file != NULL) == (status == OK));
    enum status answer = after_call(d, fault, status);
    if (answer == OK)
        *out = file;
    else if (status == OK)
        io->ops->close(io, file);
    return answer;
}

static enum status fault_space(struct io *io, uint64_t *free_bytes)
{
    struct fault_disk *d = disk_of(io);
    enum store_fault fault;
    enum status status = before_call(d, FAULT_ON_ANY, false, &fault);
    if (status != OK) return status;
    *free_bytes = free_space(d);
    return after_call(d, fault, OK);
}

static void fault_release(struct io *io)
{
    struct fault_disk *d = disk_of(io);
    assert(d->files_n == 0);
    for (struct operation *o = oldest_operation(d); o != NULL; o = oldest_operation(d)) {
        finish_operation(d, o, false);
    }
    for (struct list *n = list_pop_front(&d->names); n != NULL; n = list_pop_front(&d->names)) {
        struct name *name = container_of(n, struct name, node);
        point(d, &name->now, NULL);
        point(d, &name->durable, NULL);
        mem_give(d->mem, name, sizeof *name);
    }
    assert(list_is_empty(&d->operations));
    assert(list_is_empty(&d->inodes));
    mem_give(d->mem, d, sizeof *d);
}

static const struct io_ops fault_ops = {
    .name = "fault",
    .open = fault_open,
    .close = fault_close,
    .read = fault_read,
    .write = fault_write,
    .datasync = fault_datasync,
    .allocate = fault_allocate,
    .truncate = fault_truncate,
    .size = fault_size,
    .rename = fault_rename,
    .unlink = fault_unlink,
    .make_directory = fault_make_directory,
    .sync_directory = fault_sync_directory,
    .list = fault_list,
    .lock = fault_lock,
    .space = fault_space,
    .release = fault_release,
};

/* ---- for the test ---- */

enum status store_fault_disk_new(struct mem *mem, uint64_t capacity, struct io **out)
{
    assert(mem != NULL);
    assert(capacity > 0);
    struct fault_disk *d = mem_take_zero(mem, sizeof *d);
    if (d == NULL) return E_NOMEM;
    d->io.ops = &fault_ops;
    d->mem = mem;
    d->capacity = capacity;
    list_init(&d->inodes);
    list_init(&d->names);
    list_init(&d->operations);
    rng_init(&d->rng, 0);
    *out = &d->io;
    return OK;
}

void store_fault_plan(struct io *disk, const struct store_fault_plan *plan)
{
    struct fault_disk *d = disk_of(disk);
    assert(plan->on < CALL_KINDS_N);
    assert(plan->fault <= FAULT_CRASH_AFTER);
    d->plan = *plan;
    rng_init(&d->rng, plan->seed);
}

bool store_fault_is_crashed(struct io *disk) { return disk_of(disk)->is_crashed; }

/* What is the same whether the machine or only the process was gone. */
static void begin_life(struct fault_disk *d)
{
    for (struct list *n = list_first(&d->inodes); n != NULL; n = list_next(&d->inodes, n)) {
        container_of(n, struct inode, node)->is_locked = false;
    }
    d->life++;
    assert(d->life > 0); /* handles of earlier lives are told apart by it */
    d->is_crashed = false;
    d->plan = (struct store_fault_plan){0};
}

/* Whatever is in a directory whose own name was lost is lost with it. */
static void lose_orphans(struct fault_disk *d)
{
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (struct list *n = list_first(&d->names); n != NULL; n = list_next(&d->names, n)) {
            struct name *name = container_of(n, struct name, node);
            if (name->now == NULL || has_parent(d, name->path)) continue;
            point(d, &name->now, NULL);
            point(d, &name->durable, NULL);
            is_changed = true;
        }
    }
}

void store_fault_restart(struct io *disk)
{
    struct fault_disk *d = disk_of(disk);
    for (struct operation *o = oldest_operation(d); o != NULL; o = oldest_operation(d)) {
        finish_operation(d, o, rng_chance(&d->rng, 500));
    }
    assert(list_is_empty(&d->operations));
    for (struct list *n = list_first(&d->names); n != NULL; n = list_next(&d->names, n)) {
        struct name *name = container_of(n, struct name, node);
        point(d, &name->now, name->durable);
    }
    lose_orphans(d);
    forget_names(d);
    for (struct list *n = list_first(&d->inodes); n != NULL; n = list_next(&d->inodes, n)) {
        inode_power_failure(d, container_of(n, struct inode, node));
    }
    begin_life(d);
}

void store_fault_resume(struct io *disk) { begin_life(disk_of(disk)); }

uint64_t store_fault_calls(struct io *disk, enum store_fault_on on)
{
    assert(on < CALL_KINDS_N);
    return disk_of(disk)->calls[on];
}

struct buffer *store_fault_file(struct io *disk, const char *path)
{
    struct inode *inode = find_inode(disk_of(disk), path);
    if (inode != NULL) inode_check(inode);
    return inode == NULL || inode->is_directory ? NULL : &inode->data;
}

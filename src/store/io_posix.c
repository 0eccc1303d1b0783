/* SPDX-License-Identifier: Apache-2.0
 *
 * The io of a real system. All paths are resolved from the descriptor of the root, so that the
 * process may change its working directory, and nothing outside is reached by accident.
 *
 * A file is nothing but its descriptor. The handle therefore is the number itself (plus one, so
 * that it is never NULL) and is never dereferenced: opening takes no memory and needs no lock, and
 * different threads may open and use different files.
 */
#define _GNU_SOURCE /* fallocate */
#include "store/io.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FILE_MODE 0600
#define DIRECTORY_MODE 0700

struct io_posix {
    struct io io;
    int root_fd;
};

static const struct io_ops posix_ops;

static int root_of(struct io *io)
{
    assert(io->ops == &posix_ops);
    const struct io_posix *posix = container_of(io, struct io_posix, io);
    assert(posix->root_fd >= 0);
    return posix->root_fd;
}

/* From an absolute path the system would not start at the root's descriptor. */
static const char *below_root(const char *path)
{
    assert(path[0] != 0);
    assert(path[0] != '/');
    return path;
}

static struct io_file *handle_of(int fd)
{
    assert(fd >= 0);
    return (struct io_file *)((uintptr_t)fd + 1);
}

static int fd_of(const struct io_file *file)
{
    assert(file != NULL);
    uintptr_t number = (uintptr_t)file - 1;
    assert(number <= INT_MAX);
    return (int)number;
}

static enum status status_of_errno(int error)
{
    assert(error != 0);
    switch (error) {
    case ENOSPC:
    case EDQUOT: return E_NOSPACE;
    case ENOENT: return E_NOT_FOUND;
    case EEXIST: return E_EXISTS;
    case EWOULDBLOCK: return E_BUSY;
    case ENOMEM: return E_NOMEM;
    default: return E_IO;
    }
}

/* For calls that answer 0 or -1. */
static enum status status_of_result(int result)
{
    assert(result <= 0);
    assert(result >= -1);
    return result == 0 ? OK : status_of_errno(errno);
}

static int open_at(struct io *io, const char *path, int flags)
{
    int fd;
    do fd = openat(root_of(io), below_root(path), flags | O_CLOEXEC, FILE_MODE);
    while (fd < 0 && errno == EINTR);
    assert(fd >= -1);
    return fd;
}

static enum status posix_open(struct io *io, const char *path, enum io_open how,
                              struct io_file **out)
{
    int flags = 0;
    switch (how) {
    case IO_READ: flags = O_RDONLY; break;
    case IO_WRITE: flags = O_RDWR; break;
    case IO_CREATE: flags = O_RDWR | O_CREAT | O_EXCL; break;
    }
    int fd = open_at(io, path, flags);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        log_error("%s cannot be opened: %s", path, strerror(errno));
        return E_NOMEM; /* it passes, as that does */
    }
    if (fd < 0) return status_of_errno(errno);
    *out = handle_of(fd);
    return OK;
}

static void posix_close(struct io *io, struct io_file *file)
{
    (void)io;
    /* Linux has released the descriptor whatever close() answers; who needs to know that the data
     * arrived has called datasync. */
    (void)close(fd_of(file));
}

static enum status posix_read(struct io *io, struct io_file *file, uint64_t offset, void *ptr,
                              size_t len, size_t *got)
{
    (void)io;
    assert(ptr != NULL || len == 0);
    uint8_t *to = ptr;
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(fd_of(file), to + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return status_of_errno(errno);
        if (n == 0) break;
        done += (size_t)n;
    }
    assert(done <= len);
    *got = done;
    return OK;
}

static enum status posix_write(struct io *io, struct io_file *file, uint64_t offset,
                               const void *ptr, size_t len)
{
    (void)io;
    assert(ptr != NULL || len == 0);
    assert(len <= INT64_MAX);
    assert(offset <= INT64_MAX - len); /* what we write has a place; what we read may be claimed */
    const uint8_t *from = ptr;
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(fd_of(file), from + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return status_of_errno(errno);
        if (n == 0)
            return E_IO; /* never seen for a regular file; must not become an endless loop */
        done += (size_t)n;
    }
    assert(done == len);
    return OK;
}

static enum status posix_datasync(struct io *io, struct io_file *file)
{
    (void)io;
    int result;
    do result = fdatasync(fd_of(file));
    while (result < 0 && errno == EINTR);
    enum status status = status_of_result(result);
    /* The kernel now takes pages that it could not write for clean, and would show them to the next
     * process as if they were on disk. Without the cached copies it reads what is really there. */
    if (status != OK) (void)posix_fadvise(fd_of(file), 0, 0, POSIX_FADV_DONTNEED);
    return status;
}

static enum status posix_size(struct io *io, struct io_file *file, uint64_t *out)
{
    (void)io;
    struct stat stat;
    if (fstat(fd_of(file), &stat) != 0) return status_of_errno(errno);
    assert(stat.st_size >= 0);
    *out = (uint64_t)stat.st_size;
    return OK;
}

static enum status posix_truncate(struct io *io, struct io_file *file, uint64_t size)
{
    (void)io;
    assert(size <= INT64_MAX);
    int result;
    do result = ftruncate(fd_of(file), (off_t)size);
    while (result < 0 && errno == EINTR);
    return status_of_result(result);
}

/* posix_fallocate() answers the error instead of setting errno, and writes a byte per block where
 * the file system cannot allocate: slow, so it is only the second choice. */
static int allocate_blocks(int fd, off_t size)
{
    int result;
    assert(size > 0);
    do result = fallocate(fd, 0, 0, size);
    while (result < 0 && errno == EINTR);
    if (result == 0) return 0;
    if (errno != EOPNOTSUPP) return errno;

    int error;
    do error = posix_fallocate(fd, 0, size);
    while (error == EINTR);
    assert(error >= 0);
    return error;
}

static enum status posix_allocate(struct io *io, struct io_file *file, uint64_t size)
{
    uint64_t size_before;
    assert(size <= INT64_MAX);
    enum status status = posix_size(io, file, &size_before);
    if (status != OK) return status;
    if (size <= size_before) return OK;

    int error = allocate_blocks(fd_of(file), (off_t)size);
    if (error == 0) return OK;
    /* A part may have been allocated before the disk was full; give it back. */
    (void)posix_truncate(io, file, size_before);
    return status_of_errno(error);
}

static enum status posix_rename(struct io *io, const char *from, const char *to)
{
    assert(strcmp(from, to) != 0);
    return status_of_result(renameat(root_of(io), below_root(from), root_of(io), below_root(to)));
}

static enum status posix_unlink(struct io *io, const char *path)
{
    return status_of_result(unlinkat(root_of(io), below_root(path), 0));
}

static enum status posix_make_directory(struct io *io, const char *path)
{
    enum status status = status_of_result(mkdirat(root_of(io), below_root(path), DIRECTORY_MODE));
    return status == E_EXISTS ? OK : status;
}

static enum status posix_sync_directory(struct io *io, const char *path)
{
    int fd = open_at(io, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return status_of_errno(errno);
    int result;
    do result = fsync(fd);
    while (result < 0 && errno == EINTR);
    enum status status = status_of_result(result);
    (void)close(fd);
    return status;
}

/* "." and ".." are nobody's business. */
static bool is_own_name(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static enum status posix_list(struct io *io, const char *path, io_list_fn *fn, void *user)
{
    assert(fn != NULL);
    int fd = open_at(io, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return status_of_errno(errno);
    DIR *directory = fdopendir(fd);
    if (directory == NULL) {
        enum status status = status_of_errno(errno);
        (void)close(fd);
        return status;
    }

    enum status status = OK;
    while (status == OK) {
        errno = 0; /* the only way to tell the end from an error */
        struct dirent *entry = readdir(directory);
        if (entry == NULL) {
            if (errno != 0) status = status_of_errno(errno);
            break;
        }
        if (is_own_name(entry->d_name)) status = fn(user, entry->d_name);
    }
    (void)closedir(directory);
    return status;
}

/* flock() and not a file with a process number in it: the kernel drops it with the process. */
static enum status posix_lock(struct io *io, const char *path, struct io_file **out)
{
    int fd = open_at(io, path, O_RDWR | O_CREAT);
    if (fd < 0) return status_of_errno(errno);
    int result;
    do result = flock(fd, LOCK_EX | LOCK_NB);
    while (result < 0 && errno == EINTR);
    if (result != 0) {
        enum status status = status_of_errno(errno);
        (void)close(fd);
        return status;
    }
    *out = handle_of(fd);
    return OK;
}

static enum status posix_space(struct io *io, uint64_t *free_bytes)
{
    struct statvfs stat;
    if (fstatvfs(root_of(io), &stat) != 0) return status_of_errno(errno);
    *free_bytes = (uint64_t)stat.f_bavail * (uint64_t)stat.f_frsize;
    return OK;
}

static void posix_release(struct io *io)
{
    assert(io->ops == &posix_ops);
    struct io_posix *posix = container_of(io, struct io_posix, io);
    assert(posix->root_fd >= 0);
    (void)close(posix->root_fd);
    mem_give(mem_process(), posix, sizeof *posix);
}

static const struct io_ops posix_ops = {
    .name = "posix",
    .open = posix_open,
    .close = posix_close,
    .read = posix_read,
    .write = posix_write,
    .datasync = posix_datasync,
    .allocate = posix_allocate,
    .truncate = posix_truncate,
    .size = posix_size,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .make_directory = posix_make_directory,
    .sync_directory = posix_sync_directory,
    .list = posix_list,
    .lock = posix_lock,
    .space = posix_space,
    .release = posix_release,
};

enum status io_posix_open(const char *root, struct io **out)
{
    assert(root != NULL);
    if (mkdir(root, DIRECTORY_MODE) != 0 && errno != EEXIST) return status_of_errno(errno);
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return status_of_errno(errno);

    struct io_posix *posix = mem_take(mem_process(), sizeof *posix);
    if (posix == NULL) {
        (void)close(fd);
        return E_NOMEM;
    }
    posix->io.ops = &posix_ops;
    posix->root_fd = fd;
    *out = &posix->io;
    return OK;
}

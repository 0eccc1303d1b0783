/* SPDX-License-Identifier: Apache-2.0
 *
 * The file operations that the store needs, behind a small vtable: the real system (io_posix.c), a
 * disk in memory that fails, tears and forgets (store_fault.c), and the simulator's disk. Paths are
 * relative to the root the io was opened on.
 *
 * Every function answers OK, E_IO, E_NOSPACE, E_NOT_FOUND, E_EXISTS, E_BUSY (lock) or E_NOMEM.
 * Not safe for several threads at once on the same file; different files may be used by different
 * threads at the same time.
 */
#ifndef STORE_IO_H
#define STORE_IO_H

#include "base/bytes.h"
#include "base/status.h"

struct io;
struct io_file;

enum io_open {
    IO_READ,   /* existing, for reading */
    IO_WRITE,  /* existing, for reading and writing */
    IO_CREATE, /* new (E_EXISTS otherwise), for reading and writing */
};

/* name: within the directory; borrowed during the call. Anything but OK stops the listing. */
typedef enum status io_list_fn(void *user, const char *name);

struct io_ops {
    const char *name;
    enum status (*open)(struct io *io, const char *path, enum io_open how, struct io_file **out);
    void (*close)(struct io *io, struct io_file *file);
    /* All of ptr..len, or less only at the end of the file; *got says how much. */
    enum status (*read)(struct io *io, struct io_file *file, uint64_t offset, void *ptr, size_t len,
                        size_t *got);
    /* All of it, or not OK (then any part may have been written). Not durable before datasync. */
    enum status (*write)(struct io *io, struct io_file *file, uint64_t offset, const void *ptr,
                         size_t len);
    /* What was written to this file, and its size, are durable. After a failure nothing is known
     * and the caller must not try again: the kernel may have dropped the pages. */
    enum status (*datasync)(struct io *io, struct io_file *file);
    /* Extends the file to size with zeros whose blocks are really there; E_NOSPACE when they cannot
     * be had, and then the file is as before. */
    enum status (*allocate)(struct io *io, struct io_file *file, uint64_t size);
    enum status (*truncate)(struct io *io, struct io_file *file, uint64_t size);
    enum status (*size)(struct io *io, struct io_file *file, uint64_t *out);
    enum status (*rename)(struct io *io, const char *from, const char *to);
    enum status (*unlink)(struct io *io, const char *path);
    enum status (*make_directory)(struct io *io, const char *path); /* OK when it exists */
    /* Names created, renamed or removed in path are durable. "." is the root. */
    enum status (*sync_directory)(struct io *io, const char *path);
    enum status (*list)(struct io *io, const char *path, io_list_fn *fn, void *user);
    /* Takes the exclusive lock of path (created when absent) until close; E_BUSY when held. */
    enum status (*lock)(struct io *io, const char *path, struct io_file **out);
    /* Bytes still free for us on this disk. */
    enum status (*space)(struct io *io, uint64_t *free_bytes);
    void (*release)(struct io *io);
};

struct io {
    const struct io_ops *ops;
};

/* root: an existing or new directory (mode 0700); its parent must exist. The io is freed by
 * io->ops->release(). */
enum status io_posix_open(const char *root, struct io **out);

/* A new file in the place of one that a process left behind when it ended half way: nothing refers
 * to it, and what is in it is unknown. */
enum status io_create_fresh(struct io *io, const char *path, struct io_file **out);
/* The whole file into buffer (appended). E_LIMIT beyond size_max. */
enum status io_read_file(struct io *io, const char *path, size_t size_max, struct buffer *out);
/* Replaces path by a file with these contents: temporary file, datasync, rename, directory sync. */
enum status io_write_file(struct io *io, const char *directory, const char *path,
                          struct bytes contents);

#endif

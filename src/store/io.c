/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files over any io. A file is replaced by rename and never in place, so that a reader finds
 * the old or the new contents and nothing between, whatever happens on the way.
 */
#include "store/io.h"

#include "base/assert.h"

#include <stdio.h>

#define PATH_SIZE_MAX 256

static enum status read_all(struct io *io, struct io_file *file, size_t size_max,
                            struct buffer *out)
{
    uint64_t size;
    enum status status = io->ops->size(io, file, &size);
    if (status != OK) return status;
    if (size > size_max) return E_LIMIT;
    if (!buffer_reserve(out, (size_t)size)) return E_NOMEM;
    assert(size <= out->size - out->len);

    size_t got = 0;
    if (size > 0) status = io->ops->read(io, file, 0, out->ptr + out->len, (size_t)size, &got);
    if (status != OK) return status;
    assert(got <= size);
    out->len += got;
    return OK;
}

enum status io_read_file(struct io *io, const char *path, size_t size_max, struct buffer *out)
{
    struct io_file *file;
    enum status status = io->ops->open(io, path, IO_READ, &file);
    if (status != OK) return status;
    assert(file != NULL);

    status = read_all(io, file, size_max, out);
    io->ops->close(io, file);
    return status;
}

enum status io_create_fresh(struct io *io, const char *path, struct io_file **out)
{
    enum status status = io->ops->open(io, path, IO_CREATE, out);
    if (status == E_EXISTS) {
        status = io->ops->unlink(io, path);
        if (status == OK) status = io->ops->open(io, path, IO_CREATE, out);
    }
    assert(status != OK || *out != NULL);
    return status;
}

/* A new file with these contents, durable except for its name. */
static enum status write_new(struct io *io, const char *path, struct bytes contents)
{
    assert(contents.ptr != NULL || contents.len == 0);
    struct io_file *file;
    enum status status = io_create_fresh(io, path, &file);
    if (status != OK) return status;

    if (contents.len > 0) status = io->ops->write(io, file, 0, contents.ptr, contents.len);
    if (status == OK) status = io->ops->datasync(io, file);
    io->ops->close(io, file);
    return status;
}

enum status io_write_file(struct io *io, const char *directory, const char *path,
                          struct bytes contents)
{
    char temporary[PATH_SIZE_MAX];
    int length = snprintf(temporary, sizeof temporary, "%s.tmp", path);
    assert(length > 0);
    assert((size_t)length < sizeof temporary);
    assert(directory[0] != 0);

    enum status status = write_new(io, temporary, contents);
    if (status == OK) status = io->ops->rename(io, temporary, path);
    if (status != OK) {
        /* The reason to fail is already known; what stays behind is removed by the next attempt. */
        (void)io->ops->unlink(io, temporary);
        return status;
    }
    return io->ops->sync_directory(io, directory);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The io of the real system (io_posix.c) and whole files over it (io.c); the latter also on the
 * disk that fails.
 */
#include "store/io.h"

#include "base/mem.h"
#include "store/store_fault.h"
#include "test/lib/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct io *open_root(void)
{
    struct io *io;
    EXPECT_STATUS(OK, io_posix_open(test_directory(), &io));
    return io;
}

static struct io_file *open_file(struct io *io, const char *path, enum io_open how)
{
    struct io_file *file;
    EXPECT_STATUS(OK, io->ops->open(io, path, how, &file));
    return file;
}

static uint64_t size_of(struct io *io, struct io_file *file)
{
    uint64_t size;
    EXPECT_STATUS(OK, io->ops->size(io, file, &size));
    return size;
}

/* Bytes come back at their offset, and a hole before them reads as zeros. */
TEST(what_is_written_is_read)
{
    struct io *io = open_root();
    struct io_file *file = open_file(io, "f", IO_CREATE);
    EXPECT_STATUS(OK, io->ops->write(io, file, 3, "hello", 5));
    EXPECT_STATUS(OK, io->ops->datasync(io, file));
    EXPECT_EQ(8, size_of(io, file));
    uint8_t bytes[16];
    size_t got;
    EXPECT_STATUS(OK, io->ops->read(io, file, 0, bytes, sizeof bytes, &got));
    EXPECT_BYTES(bytes_make("\0\0\0hello", 8), bytes_make(bytes, got));
    EXPECT_STATUS(OK, io->ops->read(io, file, 8, bytes, sizeof bytes, &got));
    EXPECT_EQ(0, got);
    io->ops->close(io, file);
    io->ops->release(io);
}

/* Each way to open means what it says: nothing is created or overwritten by accident. */
TEST(opening_creates_only_when_asked)
{
    struct io *io = open_root();
    struct io_file *file;
    EXPECT_STATUS(E_NOT_FOUND, io->ops->open(io, "f", IO_READ, &file));
    EXPECT_STATUS(E_NOT_FOUND, io->ops->open(io, "f", IO_WRITE, &file));
    io->ops->close(io, open_file(io, "f", IO_CREATE));
    EXPECT_STATUS(E_EXISTS, io->ops->open(io, "f", IO_CREATE, &file));
    file = open_file(io, "f", IO_READ);
    EXPECT_STATUS(E_IO, io->ops->write(io, file, 0, "x", 1));
    io->ops->close(io, file);
    EXPECT_STATUS(E_NOT_FOUND, io->ops->open(io, "none/f", IO_CREATE, &file));
    io->ops->release(io);
}

/* The data of an orchestration is nobody else's business, and descriptors must not reach
 * children. */
TEST(files_are_private_and_not_inherited)
{
    struct io *io = open_root();
    struct io_file *file = open_file(io, "f", IO_CREATE);
    EXPECT_STATUS(OK, io->ops->make_directory(io, "d"));
    char path[512];
    struct stat stat_now;
    (void)snprintf(path, sizeof path, "%s/x", test_directory());
    struct io *inner;
    EXPECT_STATUS(OK, io_posix_open(path, &inner));
    EXPECT_EQ(0, stat(path, &stat_now));
    EXPECT_EQ(0700, stat_now.st_mode & 0777);

    int fd = (int)((uintptr_t)file - 1); /* the handle is the descriptor: see io_posix.c */
    EXPECT_EQ(0, fstat(fd, &stat_now));
    EXPECT_EQ(0600, stat_now.st_mode & 0777);
    EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
    inner->ops->release(inner);
    io->ops->close(io, file);
    io->ops->release(io);
}

/* Allocated blocks read as zeros, keep what was there, and are really taken from the disk. */
TEST(allocate_extends_with_zeros)
{
    struct io *io = open_root();
    struct io_file *file = open_file(io, "f", IO_CREATE);
    EXPECT_STATUS(OK, io->ops->write(io, file, 0, "abc", 3));
    EXPECT_STATUS(OK, io->ops->allocate(io, file, 1 << 20));
    EXPECT_EQ(1 << 20, size_of(io, file));
    struct stat stat_now;
    EXPECT_EQ(0, fstat((int)((uintptr_t)file - 1), &stat_now));
    EXPECT(stat_now.st_blocks * 512 >= 1 << 20);
    uint8_t bytes[8];
    size_t got;
    EXPECT_STATUS(OK, io->ops->read(io, file, 0, bytes, sizeof bytes, &got));
    EXPECT_BYTES(bytes_make("abc\0\0\0\0\0", 8), bytes_make(bytes, got));
    EXPECT_STATUS(OK, io->ops->allocate(io, file, 100)); /* never shrinks */
    EXPECT_EQ(1 << 20, size_of(io, file));
    EXPECT_STATUS(OK, io->ops->truncate(io, file, 2));
    EXPECT_EQ(2, size_of(io, file));
    io->ops->close(io, file);
    io->ops->release(io);
}

/* More than there is: the answer is "full", and the file is as before. */
TEST(allocate_beyond_the_disk_changes_nothing)
{
    struct io *io = open_root();
    struct io_file *file = open_file(io, "f", IO_CREATE);
    EXPECT_STATUS(OK, io->ops->write(io, file, 0, "abc", 3));
    uint64_t free_bytes;
    EXPECT_STATUS(OK, io->ops->space(io, &free_bytes));
    EXPECT(free_bytes > 0);
    if (free_bytes > (uint64_t)8 << 40) test_skip("the disk is larger than a file can be");
    EXPECT_STATUS(E_NOSPACE, io->ops->allocate(io, file, free_bytes + ((uint64_t)1 << 40)));
    EXPECT_EQ(3, size_of(io, file));
    io->ops->close(io, file);
    io->ops->release(io);
}

struct names {
    size_t n;
    bool has_a;
    bool has_b;
};

static enum status collect(void *user, const char *name)
{
    struct names *names = user;
    names->n++;
    if (strcmp(name, "a") == 0) names->has_a = true;
    if (strcmp(name, "b") == 0) names->has_b = true;
    return names->n == 2 && !(names->has_a && names->has_b) ? E_UNSUPPORTED : OK;
}

/* A listing has every name once and nothing else; the callback's answer ends it. */
TEST(names_are_listed_renamed_and_removed)
{
    struct io *io = open_root();
    EXPECT_STATUS(OK, io->ops->make_directory(io, "d"));
    EXPECT_STATUS(OK, io->ops->make_directory(io, "d"));
    io->ops->close(io, open_file(io, "d/a", IO_CREATE));
    io->ops->close(io, open_file(io, "d/c", IO_CREATE));
    struct names names = {0};
    EXPECT_STATUS(E_UNSUPPORTED, io->ops->list(io, "d", collect, &names));
    EXPECT_STATUS(OK, io->ops->rename(io, "d/c", "d/b"));
    EXPECT_STATUS(OK, io->ops->sync_directory(io, "d"));
    names = (struct names){0};
    EXPECT_STATUS(OK, io->ops->list(io, "d", collect, &names));
    EXPECT_EQ(2, names.n);
    EXPECT_STATUS(OK, io->ops->unlink(io, "d/a"));
    EXPECT_STATUS(E_NOT_FOUND, io->ops->unlink(io, "d/a"));
    EXPECT_STATUS(E_NOT_FOUND, io->ops->rename(io, "d/a", "d/z"));
    EXPECT_STATUS(E_NOT_FOUND, io->ops->list(io, "none", collect, &names));
    EXPECT_STATUS(E_NOT_FOUND, io->ops->sync_directory(io, "none"));
    io->ops->release(io);
}

/* The working directory may change under a library; paths must not follow it. */
TEST(paths_do_not_depend_on_the_working_directory)
{
    struct io *io = open_root();
    int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT(before >= 0);
    EXPECT_EQ(0, chdir("/"));
    io->ops->close(io, open_file(io, "f", IO_CREATE));
    EXPECT_EQ(0, fchdir(before));
    (void)close(before);
    io->ops->close(io, open_file(io, "f", IO_READ));
    io->ops->release(io);
}

/* Two servers on one directory would destroy it: the second opener is told, in this process ... */
TEST(a_lock_is_held_until_it_is_closed)
{
    struct io *io = open_root();
    struct io_file *lock;
    struct io_file *second;
    EXPECT_STATUS(OK, io->ops->lock(io, "LOCK", &lock));
    EXPECT_STATUS(E_BUSY, io->ops->lock(io, "LOCK", &second));
    io->ops->close(io, lock);
    EXPECT_STATUS(OK, io->ops->lock(io, "LOCK", &second));
    io->ops->close(io, second);
    io->ops->release(io);
}

/* Answers the status that a lock in a child process got. */
static enum status lock_in_child(const char *root)
{
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        struct io *io;
        struct io_file *lock;
        if (io_posix_open(root, &io) != OK) _exit(255);
        _exit((int)io->ops->lock(io, "LOCK", &lock)); /* dies with the lock held */
    }
    int result;
    EXPECT_EQ(child, waitpid(child, &result, 0));
    EXPECT(WIFEXITED(result));
    return (enum status)WEXITSTATUS(result);
}

/* ... and in another one; and a process that dies takes its lock with it. */
TEST(a_lock_excludes_other_processes_and_dies_with_its_own)
{
    const char *root = test_directory();
    struct io *io;
    struct io_file *lock;
    EXPECT_STATUS(OK, io_posix_open(root, &io));
    EXPECT_STATUS(OK, lock_in_child(root));
    EXPECT_STATUS(OK, io->ops->lock(io, "LOCK", &lock));
    EXPECT_STATUS(E_BUSY, lock_in_child(root));
    io->ops->close(io, lock);
    EXPECT_STATUS(OK, lock_in_child(root));
    io->ops->release(io);
}

/* A write that ends in the middle (here: a limit on the size of files) is an error and not a
 * success. */
TEST(a_short_write_is_an_error)
{
    struct io *io = open_root();
    struct io_file *file = open_file(io, "f", IO_CREATE);
    static uint8_t bytes[8192];
    struct rlimit before;
    EXPECT_EQ(0, getrlimit(RLIMIT_FSIZE, &before));
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        struct rlimit limit = {.rlim_cur = 5000, .rlim_max = before.rlim_max};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(255);
        (void)signal(SIGXFSZ, SIG_IGN);
        _exit((int)io->ops->write(io, file, 0, bytes, sizeof bytes));
    }
    int result;
    EXPECT_EQ(child, waitpid(child, &result, 0));
    EXPECT(WIFEXITED(result));
    EXPECT_STATUS(E_IO, (enum status)WEXITSTATUS(result));
    EXPECT_EQ(5000, size_of(io, file)); /* it really was a short one */
    io->ops->close(io, file);
    io->ops->release(io);
}

/* A root that cannot be had is an answer, not a crash. */
TEST(a_root_needs_its_parent)
{
    struct io *io;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/none/root", test_directory());
    EXPECT_STATUS(E_NOT_FOUND, io_posix_open(path, &io));
}

static void expect_file(struct io *io, const char *path, struct bytes expected)
{
    struct buffer contents;
    buffer_init(&contents, mem_process());
    EXPECT_STATUS(OK, io_read_file(io, path, 1000, &contents));
    EXPECT_BYTES(expected, buffer_view(&contents));
    buffer_release(&contents);
}

/* Reading appends, respects the limit, and replacing leaves nothing but the new contents. */
TEST(whole_files_are_written_and_read)
{
    struct io *io = open_root();
    struct buffer contents;
    buffer_init(&contents, mem_process());
    EXPECT_STATUS(E_NOT_FOUND, io_read_file(io, "f", 10, &contents));
    EXPECT_STATUS(OK, io_write_file(io, ".", "f", BYTES_LITERAL("first, long")));
    EXPECT_STATUS(OK, io_write_file(io, ".", "f", BYTES_LITERAL("second")));
    buffer_u8(&contents, '>');
    EXPECT_STATUS(E_LIMIT, io_read_file(io, "f", 5, &contents));
    EXPECT_STATUS(OK, io_read_file(io, "f", 6, &contents));
    EXPECT_BYTES(BYTES_LITERAL(">second"), buffer_view(&contents));
    EXPECT_STATUS(OK, io_write_file(io, ".", "empty", BYTES_NONE));
    expect_file(io, "empty", BYTES_NONE);
    buffer_release(&contents);
    io->ops->release(io);
}

/* Replaces "old" by "new" with this fault at call n; answers false when n was beyond the last
 * call. */
static bool replace_with_fault(enum store_fault fault, uint64_t n)
{
    struct io *io;
    EXPECT_STATUS(OK, store_fault_disk_new(mem_process(), 1 << 20, &io));
    EXPECT_STATUS(OK, io_write_file(io, ".", "f", BYTES_LITERAL("old")));
    uint64_t before = store_fault_calls(io, FAULT_ON_ANY);
    store_fault_plan(io, &(struct store_fault_plan){.fault = fault, .at = n, .seed = n});
    test_note("%d at call %llu", (int)fault, (unsigned long long)n);
    enum status status = io_write_file(io, ".", "f", BYTES_LITERAL("new"));
    bool is_reached = store_fault_calls(io, FAULT_ON_ANY) - before >= n;
    store_fault_restart(io);

    struct buffer *f = store_fault_file(io, "f");
    EXPECT(f != NULL);
    bool is_new = bytes_equal(BYTES_LITERAL("new"), buffer_view(f));
    EXPECT(is_new || bytes_equal(BYTES_LITERAL("old"), buffer_view(f)));
    if (status == OK) EXPECT(is_new);
    EXPECT_STATUS(OK, io_write_file(io, ".", "f", BYTES_LITERAL("again")));
    expect_file(io, "f", BYTES_LITERAL("again"));
    io->ops->release(io);
    return is_reached;
}

/* Whatever happens at whichever call: the old or the new contents, never a mixture, never
 * neither. */
TEST(replacing_a_file_is_all_or_nothing)
{
    static const enum store_fault faults[] = {FAULT_FAIL, FAULT_TEAR, FAULT_CRASH,
                                              FAULT_CRASH_AFTER};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        uint64_t n = 1;
        while (replace_with_fault(faults[i], n)) n++;
        EXPECT(n > 5);
    }
}

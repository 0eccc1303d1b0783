/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that loses power, as a library to be preloaded. kill -9 leaves the page cache whole, so it
 * says nothing about missing syncs; this does. Writes below POWER_LOSS_DIRECTORY go through, but
 * what stood in their sectors before is kept until the file is synced. When the power goes, each
 * sector that was not synced since becomes by chance what it was, what it is, or a mixture, and a
 * file that grew or shrank has by chance its old size, its new one, or one in between. Then the
 * process is gone.
 *
 *      POWER_LOSS_DIRECTORY   files below it are watched
 *      POWER_LOSS_SEED        of the choices
 *      POWER_LOSS_AT          the power goes at the nth change or sync of a watched file
 *      POWER_LOSS_EIO_AT      the nth sync of a watched file fails with EIO, see below
 *
 * Without POWER_LOSS_AT it goes by SIGUSR2. A sync that fails loses what it should have saved, as a
 * kernel does that could not write its pages; the process goes on.
 *
 * One lock around everything: the order of changes and syncs is exact, and once the power is gone
 * no thread changes anything any more. A thread may still tell the world what it knows; that must
 * then stand on a sync that was done.
 *
 * A sector is 512 bytes and never torn outside of the bytes that were written (SQLite calls it
 * powersafe overwrite). Files are known by their inode, so descriptors may come and go: open and
 * close need not be followed.
 *
 * Not modelled: directory entries. Names appear, change and vanish at once and for good; so an
 * entry whose directory was not synced is never lost (the simulator's disk loses them). Neither are
 * mmap, and the -shm files of SQLite, which it rebuilds after a crash.
 */
/* With these, pwrite and pwrite64 would be one name, and open an inline function. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SECTOR_SIZE 512
#define SLOTS_N 1024u
#define EXIT_CODE 137

/* What a sector was when its file was last synced. */
struct sector {
    struct sector *next;
    uint64_t number;
    uint8_t old[SECTOR_SIZE];
};

struct file {
    struct file *next;
    dev_t device;
    ino_t inode;
    int fd; /* our own. Closed with the file's last name only: closing any descriptor of a file
               drops its locks, and they are not ours. */
    bool is_changed;
    off_t size_synced;
    struct sector *slots[SLOTS_N];
};

static struct {
    pthread_mutex_t mutex;
    char directory[PATH_MAX];
    struct file *files;
    uint64_t random;
    uint64_t calls_n;
    uint64_t loss_at;
    uint64_t syncs_n;
    uint64_t eio_at;
} disk = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Noreturn void die(const char *what)
{
    dprintf(STDERR_FILENO, "power loss shim: %s: %s\n", what, strerror(errno));
    _exit(2);
}

/* What our functions stand before is asked of the kernel directly: there may be other libraries
 * between us and the C library (those of the sanitizers), before or after us. */
_Static_assert(sizeof(long) == 8, "offsets are one argument of a system call");

/* splitmix64 */
static uint64_t draw(uint64_t bound)
{
    disk.random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = disk.random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % bound;
}

/* ---- which files ---- */

static bool is_watched_path(const char *path)
{
    size_t len = strlen(disk.directory);
    size_t path_len = strlen(path);

    if (len == 0 || strncmp(path, disk.directory, len) != 0 || path[len] != '/') return false;
    return path_len < 4 || strcmp(path + path_len - 4, "-shm") != 0;
}

static struct file *file_find(const struct stat *info)
{
    struct file *f = disk.files;
    while (f != NULL && (f->inode != info->st_ino || f->device != info->st_dev)) f = f->next;
    return f;
}

static struct file *file_new(const char *link, const struct stat *info)
{
    struct file *f = calloc(1, sizeof *f);
    if (f == NULL) die("no memory");
    f->fd = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDWR | O_CLOEXEC, 0);
    if (f->fd < 0) die("open");
    f->device = info->st_dev;
    f->inode = info->st_ino;
    f->size_synced = info->st_size;
    f->next = disk.files;
    disk.files = f;
    return f;
}

/* NULL when fd is none of ours. */
static struct file *file_of(int fd)
{
    struct stat info;
    char link[64], path[PATH_MAX];

    if (disk.directory[0] == '\0' || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return NULL;
    struct file *f = file_find(&info);
    if (f != NULL) return f;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return NULL;
    path[len] = '\0';
    return is_watched_path(path) ? file_new(link, &info) : NULL;
}

static off_t size_of(const struct file *f)
{
    struct stat info;
    if (fstat(f->fd, &info) != 0) die("fstat");
    return info.st_size;
}

/* ---- what was ---- */

static void forget_old(struct file *f)
{
    for (size_t i = 0; i < SLOTS_N && f->is_changed; i++) {
        while (f->slots[i] != NULL) {
            struct sector *s = f->slots[i];
            f->slots[i] = s->next;
            free(s);
        }
    }
    f->is_changed = false;
}

static void keep_sector(struct file *f, uint64_t number)
{
    struct sector **slot = &f->slots[number % SLOTS_N];

    for (struct sector *s = *slot; s != NULL; s = s->next) {
        if (s->number == number) return;
    }
    struct sector *s = calloc(1, sizeof *s);
    if (s == NULL) die("no memory");
    s->number = number;
    /* beyond the end: zeros */
    if (pread64(f->fd, s->old, SECTOR_SIZE, (off64_t)(number * SECTOR_SIZE)) < 0) die("pread");
    s->next = *slot;
    *slot = s;
}

/* Before the bytes from..to of f change. */
static void keep_old(struct file *f, off_t from, off_t to)
{
    f->is_changed = true;
    for (off_t at = from - from % SECTOR_SIZE; at < to; at += SECTOR_SIZE) {
        keep_sector(f, (uint64_t)at / SECTOR_SIZE);
    }
}

/* ---- the loss ---- */

enum bias { ALL_OLD, ALL_NEW, EACH_BY_CHANCE, NEW_UP_TO };

/* A write that was under way: each byte that it changes may be anything. */
static void mix(const uint8_t *old, uint8_t *now)
{
    for (size_t i = 0; i < SECTOR_SIZE; i++) {
        if (old[i] == now[i]) continue;
        uint64_t choice = draw(8);
        if (choice < 4)
            now[i] = old[i];
        else if (choice == 4)
            now[i] = (uint8_t)draw(256);
    }
}

static void lose_sector(struct file *f, const struct sector *s, enum bias bias, uint64_t up_to)
{
    uint8_t now[SECTOR_SIZE] = {0};
    bool is_new = bias == ALL_NEW || (bias == NEW_UP_TO && s->number < up_to) ||
                  (bias == EACH_BY_CHANCE && draw(2) == 0);
    bool is_mixed = bias != ALL_OLD && bias != ALL_NEW && draw(30) == 0;

    if (is_new && !is_mixed) return;
    if (pread64(f->fd, now, SECTOR_SIZE, (off64_t)(s->number * SECTOR_SIZE)) < 0) die("pread");
    if (is_mixed)
        mix(s->old, now);
    else
        memcpy(now, s->old, SECTOR_SIZE);
    if (syscall(SYS_pwrite64, f->fd, now, SECTOR_SIZE, s->number * SECTOR_SIZE) != SECTOR_SIZE) {
        die("pwrite");
    }
}

static off_t size_after(off_t synced, off_t now)
{
    uint64_t choice = draw(3);

    if (choice == 0 || now == synced) return synced;
    if (choice == 1 || now < synced) return now;
    return synced + (off_t)draw((uint64_t)(now - synced)) / SECTOR_SIZE * SECTOR_SIZE;
}

/* Afterwards what there is counts as synced. */
static void lose_file(struct file *f)
{
    if (!f->is_changed) return;
    off_t now = size_of(f);
    off_t after = size_after(f->size_synced, now);
    enum bias bias = (enum bias)draw(4);
    uint64_t up_to = (uint64_t)(now > 0 ? draw((uint64_t)now) : 0) / SECTOR_SIZE;

    if (after > now) {
        /* What was cut off is back: with what it was, there is nothing newer. */
        bias = ALL_OLD;
    }
    for (size_t i = 0; i < SLOTS_N; i++) {
        for (const struct sector *s = f->slots[i]; s != NULL; s = s->next) {
            lose_sector(f, s, bias, up_to);
        }
    }
    if (syscall(SYS_ftruncate, f->fd, after) != 0)
        die("ftruncate"); /* restoring may have made it longer */
    f->size_synced = after;
    forget_old(f);
}

static _Noreturn void lose_power(void)
{
    for (struct file *f = disk.files; f != NULL; f = f->next) lose_file(f);
    _exit(EXIT_CODE); /* with the lock held: nothing comes after it */
}

static void *wait_for_signal(void *user)
{
    sigset_t *signals = user;
    int number = 0;

    while (sigwait(signals, &number) != 0) {
    }
    (void)pthread_mutex_lock(&disk.mutex);
    lose_power();
}

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

/* A thread takes the signal, because a handler could interrupt who has the lock. */
__attribute__((constructor)) static void begin(void)
{
    static sigset_t signals;
    pthread_t thread;
    const char *directory = getenv("POWER_LOSS_DIRECTORY");

    if (directory == NULL) return;
    (void)snprintf(disk.directory, sizeof disk.directory, "%s", directory);
    disk.random = number_of("POWER_LOSS_SEED");
    disk.loss_at = number_of("POWER_LOSS_AT");
    disk.eio_at = number_of("POWER_LOSS_EIO_AT");
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGUSR2);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* and so in all threads to come */
    if (pthread_create(&thread, NULL, wait_for_signal, &signals) != 0) die("no thread");
}

/* ---- changes ---- */

/* Takes the lock. */
static struct file *enter(int fd)
{
    (void)pthread_mutex_lock(&disk.mutex);
    return file_of(fd);
}

/* Gives the lock back, after a change of f (NULL: of another file). errno stays. */
static void leave(const struct file *f)
{
    int error = errno;

    if (f != NULL && ++disk.calls_n == disk.loss_at) lose_power();
    (void)pthread_mutex_unlock(&disk.mutex);
    errno = error;
}

static ssize_t change(int fd, const struct iovec *parts, int parts_n, off_t offset)
{
    struct file *f = enter(fd);
    size_t len = 0;

    for (int i = 0; i < parts_n; i++) len += parts[i].iov_len;
    if (f != NULL) keep_old(f, offset, offset + (off_t)len);
    ssize_t n = syscall(SYS_pwritev, fd, parts, parts_n, offset, 0);
    leave(f);
    return n;
}

EXPORT ssize_t pwrite(int fd, const void *ptr, size_t len, off_t offset)
{
    return change(fd, &(struct iovec){(void *)(uintptr_t)ptr, len}, 1, offset);
}

EXPORT ssize_t pwrite64(int fd, const void *ptr, size_t len, off64_t offset)
{
    return pwrite(fd, ptr, len, offset);
}

EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int parts_n, off_t offset)
{
    return change(fd, parts, parts_n, offset);
}

EXPORT ssize_t pwritev64(int fd, const struct iovec *parts, int parts_n, off64_t offset)
{
    return change(fd, parts, parts_n, offset);
}

EXPORT ssize_t write(int fd, const void *ptr, size_t len)
{
    struct stat info;

    /* A pipe may block: not with the lock. */
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return syscall(SYS_write, fd, ptr, len);
    struct file *f = enter(fd);
    if (f != NULL) {
        bool is_append = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
        off_t offset = is_append ? size_of(f) : lseek(fd, 0, SEEK_CUR);
        keep_old(f, offset, offset + (off_t)len);
    }
    ssize_t n = syscall(SYS_write, fd, ptr, len);
    leave(f);
    return n;
}

EXPORT int ftruncate(int fd, off_t size)
{
    struct file *f = enter(fd);

    if (f != NULL) keep_old(f, size, size_of(f)); /* nothing when it grows */
    int result = (int)syscall(SYS_ftruncate, fd, size);
    leave(f);
    return result;
}

EXPORT int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

EXPORT int fallocate(int fd, int mode, off_t offset, off_t len)
{
    struct file *f = enter(fd);

    /* mode 0 changes no byte that is there, only the size */
    if (f != NULL) keep_old(f, offset, mode == 0 ? offset : offset + len);
    int result = (int)syscall(SYS_fallocate, fd, mode, offset, len);
    leave(f);
    return result;
}

EXPORT int fallocate64(int fd, int mode, off64_t offset, off64_t len)
{
    return fallocate(fd, mode, offset, len);
}

EXPORT int posix_fallocate(int fd, off_t offset, off_t len)
{
    struct file *f = enter(fd);

    if (f != NULL) keep_old(f, offset, offset);
    int error = syscall(SYS_fallocate, fd, 0, offset, len) == 0 ? 0 : errno;
    leave(f);
    return error;
}

EXPORT int posix_fallocate64(int fd, off64_t offset, off64_t len)
{
    return posix_fallocate(fd, offset, len);
}

/* ---- syncs ---- */

static int synchronise(int fd, long system_call)
{
    struct file *f = enter(fd);
    int result;

    if (f != NULL && ++disk.calls_n == disk.loss_at) lose_power();
    if (f != NULL && ++disk.syncs_n == disk.eio_at) {
        lose_file(f);
        errno = EIO;
        result = -1;
    } else {
        result = (int)syscall(system_call, fd);
    }
    if (f != NULL && result == 0) {
        forget_old(f);
        f->size_synced = size_of(f);
    }
    leave(NULL);
    return result;
}

EXPORT int fdatasync(int fd) { return synchronise(fd, SYS_fdatasync); }
EXPORT int fsync(int fd) { return synchronise(fd, SYS_fsync); }

/* ---- names ---- */

/* The file at path loses this name: when it is its last one, nobody can find what its sectors hold.
 */
static struct file *losing_name(int dir_fd, const char *path)
{
    struct stat info;

    if (disk.directory[0] == '\0') return NULL;
    if (fstatat(dir_fd, path, &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_nlink != 1) return NULL;
    return file_find(&info);
}

static void drop(struct file *f)
{
    struct file **at = &disk.files;

    if (f == NULL) return;
    while (*at != f) at = &(*at)->next;
    *at = f->next;
    forget_old(f);
    (void)close(f->fd);
    free(f);
}

EXPORT int unlinkat(int dir_fd, const char *path, int flags)
{
    (void)pthread_mutex_lock(&disk.mutex);
    struct file *f = losing_name(dir_fd, path);
    int result = (int)syscall(SYS_unlinkat, dir_fd, path, flags);
    if (result == 0) drop(f);
    leave(NULL);
    return result;
}

EXPORT int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

EXPORT int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    (void)pthread_mutex_lock(&disk.mutex);
    struct file *f = losing_name(to_fd, to);
    int result = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
    if (result == 0) drop(f);
    leave(NULL);
    return result;
}

EXPORT int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* ---- opening: only because it can truncate ---- */

static int open_and_truncate(int dir_fd, const char *path, int flags, mode_t mode)
{
    bool truncates = (flags & O_TRUNC) != 0 && disk.directory[0] != '\0';
    int fd = (int)syscall(SYS_openat, dir_fd, path, truncates ? flags & ~O_TRUNC : flags, mode);
    struct stat info;

    if (fd < 0 || !truncates || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return fd;
    if (ftruncate(fd, 0) == 0) return fd;
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

/* The mode is there only when a file may be made. */
#define MODE_OF(flags, mode)                                                                       \
    do {                                                                                           \
        if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) {                          \
            va_list arguments_;                                                                    \
            va_start(arguments_, flags);                                                           \
            (mode) = va_arg(arguments_, mode_t);                                                   \
            va_end(arguments_);                                                                    \
        }                                                                                          \
    } while (0)

EXPORT int open(const char *path, int flags, ...)
{
    mode_t mode = 0;

    MODE_OF(flags, mode);
    return open_and_truncate(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    mode_t mode = 0;

    MODE_OF(flags, mode);
    return open_and_truncate(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int dir_fd, const char *path, int flags, ...)
{
    mode_t mode = 0;

    MODE_OF(flags, mode);
    return open_and_truncate(dir_fd, path, flags, mode);
}

EXPORT int openat64(int dir_fd, const char *path, int flags, ...)
{
    mode_t mode = 0;

    MODE_OF(flags, mode);
    return open_and_truncate(dir_fd, path, flags, mode);
}

EXPORT int creat(const char *path, mode_t mode)
{
    return open_and_truncate(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

EXPORT int creat64(const char *path, mode_t mode) { return creat(path, mode); }

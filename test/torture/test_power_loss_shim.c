/* SPDX-License-Identifier: Apache-2.0
 *
 * The power-loss shim proves something about the engine only if it really forgets: what was not
 * synced must be lost sometimes, what was synced never. Many seeds of power_loss_probe.c, and what
 * is left of its files.
 */
#define _GNU_SOURCE /* setenv */

#include "base/assert.h"
#include "test/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 8192 /* as in the probe */
#define SECTOR_SIZE 512
#define SEEDS_N 40
#define EXIT_LOST 137

struct contents {
    char bytes[4 * SIZE];
    size_t size;
};

static void set_number(const char *name, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    (void)setenv(name, text, 1);
}

static _Noreturn void become_probe(const char *directory, uint64_t seed, uint64_t loss_at,
                                   uint64_t eio_at)
{
    (void)setenv("LD_PRELOAD", SHIM_PATH, 1);
    (void)setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
    (void)setenv("POWER_LOSS_DIRECTORY", directory, 1);
    set_number("POWER_LOSS_SEED", seed);
    set_number("POWER_LOSS_AT", loss_at);
    set_number("POWER_LOSS_EIO_AT", eio_at);
    (void)execl(PROBE_PATH, PROBE_PATH, directory, (char *)NULL);
    _exit(127);
}

/* The directory with what is left. */
static const char *probe(uint64_t seed, uint64_t loss_at, uint64_t eio_at)
{
    const char *directory = test_directory();
    int how = 0;

    test_note("seed %llu", (unsigned long long)seed);
    (void)fflush(stdout);
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) become_probe(directory, seed, loss_at, eio_at);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    EXPECT(WIFEXITED(how));
    EXPECT_EQ(EXIT_LOST, WEXITSTATUS(how));
    return directory;
}

static void read_back(const char *directory, const char *name, struct contents *out)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    EXPECT(fd >= 0);
    ssize_t n = read(fd, out->bytes, sizeof out->bytes);
    (void)close(fd);
    EXPECT(n >= 0);
    out->size = (size_t)n;
}

static size_t count(const struct contents *c, char letter, size_t from, size_t to)
{
    size_t n = 0;

    for (size_t i = from; i < to && i < c->size; i++) n += c->bytes[i] == letter;
    return n;
}

/* What many losses have left. All tests look at the same ones: each costs a few real syncs. */
static struct {
    bool is_there;
    uint32_t synced_lost_n;                    /* must be 0 */
    uint32_t old_n, new_n, both_n, torn_n;     /* overwritten */
    uint32_t whole_n, cut_n;                   /* cut */
    uint32_t small_n, between_n, large_n;      /* grown */
    uint32_t replaced_lost_n, replaced_kept_n; /* renamed before it was synced */
} left;

static void look_at_synced(const char *directory)
{
    struct contents c;
    bool is_right = true;

    read_back(directory, "synced", &c);
    is_right = is_right && c.size == SIZE && count(&c, 'b', 0, SIZE / 2) == SIZE / 2 &&
               count(&c, 'a', SIZE / 2, SIZE) == SIZE / 2;
    read_back(directory, "grown", &c);
    is_right = is_right && count(&c, 'a', 0, SIZE) == SIZE;
    read_back(directory, "inside", &c);
    is_right = is_right && count(&c, 'a', 0, 100) == 100 && count(&c, 'a', 110, SIZE) == SIZE - 110;
    read_back(directory, "failing", &c);
    is_right = is_right && count(&c, 'b', 0, SIZE) == SIZE;
    left.synced_lost_n += !is_right;
}

static void look_at_overwritten(const char *directory)
{
    struct contents c;
    bool is_torn = false;

    read_back(directory, "overwritten", &c);
    size_t new_size = count(&c, 'b', 0, SIZE);
    for (size_t at = 0; at < SIZE; at += SECTOR_SIZE) {
        size_t n = count(&c, 'b', at, at + SECTOR_SIZE);
        is_torn = is_torn || (n > 0 && n < SECTOR_SIZE);
    }
    left.old_n += count(&c, 'a', 0, SIZE) == SIZE;
    left.new_n += new_size == SIZE;
    left.both_n += new_size > 0 && new_size < SIZE;
    left.torn_n += is_torn;
}

static void look_at_sizes(const char *directory)
{
    struct contents c;

    read_back(directory, "cut", &c);
    EXPECT(c.size == 1000 || c.size == SIZE);
    EXPECT_EQ(c.size, count(&c, 'a', 0, SIZE));
    left.whole_n += c.size == SIZE;
    left.cut_n += c.size == 1000;
    read_back(directory, "grown", &c);
    left.small_n += c.size == SIZE;
    left.between_n += c.size > SIZE && c.size < 2 * SIZE;
    left.large_n += c.size == 2 * SIZE;
    read_back(directory, "replaced", &c);
    left.replaced_lost_n += count(&c, 'b', 0, SIZE) < SIZE;
    left.replaced_kept_n += count(&c, 'b', 0, SIZE) == SIZE;
}

static void lose_often(void)
{
    for (uint64_t seed = 1; seed <= SEEDS_N && !left.is_there; seed++) {
        const char *directory = probe(seed, 0, 0);
        look_at_synced(directory);
        look_at_overwritten(directory);
        look_at_sizes(directory);
    }
    left.is_there = true;
    test_note("%s", "");
}

/* A sync is a promise: whatever the seed, what it covered is there. */
TEST(synced_is_never_lost)
{
    lose_often();
    EXPECT_EQ(0, left.synced_lost_n);
}

/* An overwritten file that was not synced is old, new, and something of both, depending on the
 * seed. */
TEST(unsynced_is_lost_sometimes)
{
    lose_often();
    printf("# of %d: %u old, %u new, %u of both, %u with a torn sector\n", SEEDS_N, left.old_n,
           left.new_n, left.both_n, left.torn_n);
    EXPECT(left.old_n > 0);
    EXPECT(left.new_n > 0);
    EXPECT(left.both_n > 0);
    EXPECT(left.torn_n > 0);
}

/* Neither is a new size for sure, or any size: a cut file is whole again or cut, a grown one
 * anything in between. */
TEST(unsynced_sizes_are_lost_sometimes)
{
    lose_often();
    EXPECT(left.whole_n > 0);
    EXPECT(left.cut_n > 0);
    EXPECT(left.small_n > 0);
    EXPECT(left.between_n > 0);
    EXPECT(left.large_n > 0);
}

/* A file that took another's name before it was synced has the name for sure, and its contents only
 * by chance. */
TEST(rename_before_sync_is_caught)
{
    lose_often();
    EXPECT(left.replaced_lost_n > 0);
    EXPECT(left.replaced_kept_n > 0);
}

/* A sync that fails has lost what it should have saved, at once. */
TEST(failed_sync_loses)
{
    uint32_t lost_n = 0;

    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct contents c;
        read_back(probe(seed, 0, 8), "failing", &c);
        lost_n += count(&c, 'b', 0, SIZE) < SIZE;
    }
    EXPECT(lost_n > 0);
}

/* The power goes at the call that was ordered: the first change of the first file may be lost, no
 * other file is. */
TEST(power_goes_at_the_nth_call)
{
    struct contents c;
    const char *directory = probe(1, 2, 0); /* at the sync after the first write */
    char path[PATH_MAX];

    read_back(directory, "synced", &c);
    EXPECT_EQ(0, count(&c, 'b', 0, SIZE));
    (void)snprintf(path, sizeof path, "%s/overwritten", directory);
    EXPECT(access(path, F_OK) != 0);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench.h: directory, disk and memory figures, the engine.
 */
#include "cmd/bench.h"

#include "base/clock.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool bench_directory_open(struct bench_directory *d, const char *given)
{
    d->is_ours = given == NULL;
    if (given == NULL) {
        snprintf(d->path, sizeof d->path, "norn-bench-XXXXXX");
        if (mkdtemp(d->path) == NULL) {
            fprintf(stderr, "norn bench: cannot make a directory here: %s; use --data DIR\n",
                    strerror(errno));
            return false;
        }
        return true;
    }
    snprintf(d->path, sizeof d->path, "%s", given);
    if (mkdir(d->path, 0700) == 0 || rmdir(d->path) == 0)
        return mkdir(d->path, 0700) == 0 || errno == EEXIST;
    fprintf(stderr, "norn bench: %s is not an empty directory: a benchmark needs a fresh one\n",
            given);
    return false;
}

/* Calls fn for each file and directory below path, contents before their directory. */
static void walk(const char *path,
                 void (*fn)(void *user, const char *path, const struct stat *info), void *user)
{
    struct stat info;
    if (lstat(path, &info) != 0) return;
    DIR *dir = S_ISDIR(info.st_mode) ? opendir(path) : NULL;
    for (struct dirent *entry = NULL; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char child[1024];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        int n = snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (n > 0 && (size_t)n < sizeof child) walk(child, fn, user);
    }
    if (dir != NULL) closedir(dir);
    fn(user, path, &info);
}

static void remove_one(void *user, const char *path, const struct stat *info)
{
    (void)user;
    if (S_ISDIR(info->st_mode))
        rmdir(path);
    else
        unlink(path);
}

void bench_directory_close(struct bench_directory *d)
{
    if (d->is_ours) walk(d->path, remove_one, NULL);
}

struct sum {
    const char *except;
    uint64_t bytes;
};

static void sum_one(void *user, const char *path, const struct stat *info)
{
    struct sum *sum = user;
    if (sum->except != NULL && strstr(path, sum->except) != NULL) return;
    sum->bytes += (uint64_t)info->st_blocks * 512;
}

uint64_t bench_disk_bytes(const char *path, const char *except)
{
    struct sum sum = {.except = except};
    walk(path, sum_one, &sum);
    return sum.bytes;
}

uint64_t bench_rss_bytes(pid_t pid)
{
    char path[64];
    unsigned long long size = 0;
    unsigned long long resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)(pid == 0 ? getpid() : pid));
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void bench_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* too few show as refused connections */
}

void bench_probe_fsync(const char *path, struct histogram *out)
{
    char name[600];
    static const char block[4096] = {0};
    histogram_init(out);
    snprintf(name, sizeof name, "%s/fsync-probe", path);
    int fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (posix_fallocate(fd, 0, 300 * (off_t)sizeof block) == 0 && fdatasync(fd) == 0) {
        for (off_t n = 0; n < 300; n++) {
            int64_t before_ns = clock_mono_ns();
            if (pwrite(fd, block, sizeof block, n * (off_t)sizeof block) < 0 || fdatasync(fd) != 0)
                break;
            histogram_add(out, (uint64_t)(clock_mono_ns() - before_ns) / 1000);
        }
    }
    close(fd);
    unlink(name);
}

void bench_sleep_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};
    nanosleep(&time, NULL);
}

struct engine *bench_engine_open(const char *path, int64_t idle_evict_ms)
{
    struct engine_options options;
    struct engine *engine = NULL;
    char why[ENGINE_DAMAGE_SIZE];
    engine_options_init(&options);
    options.directory = path;
    if (idle_evict_ms > 0) options.host.idle_evict_ms = idle_evict_ms;
    if (engine_open(&options, why, &engine) == OK) return engine;
    fprintf(stderr, "norn bench: %s\n", why);
    return NULL;
}

norn_engine *bench_library_open(const char *path)
{
    struct norn_engine_options options = NORN_ENGINE_OPTIONS;
    norn_engine *engine = NULL;
    const char *why = "";
    options.directory = path;
    if (norn_engine_open(&options, &engine, &why) == NORN_OK) return engine;
    fprintf(stderr, "norn bench: %s\n", why);
    return NULL;
}

struct visit {
    struct request request;
    void (*fn)(void *user);
    void *user;
    _Atomic bool is_done;
};

static void visit_done(struct request *request)
{
    struct visit *visit = container_of(request, struct visit, request);
    visit->fn(visit->user);
    visit->is_done = true;
}

void bench_on_engine(struct engine *engine, void (*fn)(void *user), void *user)
{
    struct visit visit = {.fn = fn, .user = user};
    visit.request = (struct request){.kind = REQUEST_GET, .done = visit_done};
    visit.request.key = BYTES_LITERAL("bench/nobody");
    while (!engine_post(engine, &visit.request)) bench_sleep_ms(1);
    while (!visit.is_done) bench_sleep_ms(1);
}

void bench_wait_archived(struct engine *engine)
{
    struct host_stats stats;
    uint64_t hot = UINT64_MAX;
    int64_t still_ms = 0;
    /* until nothing is hot any more, or nothing has moved for a while */
    (void)engine_stats(engine, &stats);
    for (; stats.instances_hot > 0 && still_ms < 10000; still_ms += 20) {
        if (stats.instances_hot < hot) still_ms = 0;
        hot = stats.instances_hot;
        bench_sleep_ms(20);
        (void)engine_stats(engine, &stats);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See real_server.h.
 */
#define _GNU_SOURCE /* pipe2, memmem */
#include "test/lib/real_server.h"

#include "base/assert.h"
#include "base/clock.h"
#include "test/lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READY_MS 60000
#define LOG_SHOWN 6000
#define PAGE_SIZE_MAX (256 << 10)

/* A failed test ends without its end: the next start, or the end of the program, finds it here. */
static pid_t left_behind;

static void kill_left_behind(void)
{
    if (left_behind == 0) return;
    (void)kill(left_behind, SIGKILL);
    (void)waitpid(left_behind, NULL, 0);
    left_behind = 0;
}

/* ---- starting ---- */

/* In the child. */
_Noreturn static void become_server(const struct real_server *s, const char *data,
                                    const char *const *flags, int out_fd)
{
    char listen[40];
    const char *words[REAL_SERVER_FLAGS_MAX + 8] = {
        "norn", "server", "--data", data, "--listen", listen,
    };
    unsigned words_n = 6;

    (void)snprintf(listen, sizeof listen, "127.0.0.1:%u", (unsigned)s->port);
    for (unsigned n = 0; flags != NULL && flags[n] != NULL; n++) words[words_n++] = flags[n];
    int log_fd = open(s->log_path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (log_fd < 0 || dup2(log_fd, STDERR_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0)
        _exit(127);
    execv(NORN_PATH, (char *const *)words);
    _exit(127);
}

void real_server_spawn(struct real_server *s, const char *data, const char *const *flags)
{
    static bool is_registered;
    int fds[2];

    assert(s->pid == 0);
    if (!is_registered) (void)atexit(kill_left_behind);
    is_registered = true;
    kill_left_behind();
    (void)snprintf(s->log_path, sizeof s->log_path, "%.*s.log", PATH_MAX - 8, data);
    int failed = pipe2(fds, O_CLOEXEC);
    assert(failed == 0);
    (void)fflush(stdout);
    pid_t pid = fork();
    assert(pid >= 0);
    if (pid == 0) become_server(s, data, flags, fds[1]);
    (void)close(fds[1]);
    s->pid = pid;
    s->out_fd = fds[0];
    left_behind = pid;
}

static void forget(struct real_server *s)
{
    (void)close(s->out_fd);
    s->pid = 0;
    left_behind = 0;
}

bool real_server_await(struct real_server *s)
{
    static const char words[] = " ready on 127.0.0.1:";
    char text[1024];
    size_t len = 0;
    int64_t end_ns = clock_mono_ns() + READY_MS * NS_PER_MS;

    while (clock_mono_ns() < end_ns && len + 1 < sizeof text) {
        struct pollfd poller = {.fd = s->out_fd, .events = POLLIN};
        if (poll(&poller, 1, 100) <= 0) continue;
        ssize_t size = read(s->out_fd, text + len, sizeof text - 1 - len);
        if (size <= 0) {
            (void)waitpid(s->pid, NULL, 0);
            forget(s);
            return false;
        }
        len += (size_t)size;
        text[len] = '\0';
        const char *found = strstr(text, words);
        if (found == NULL || strchr(found, ',') == NULL) continue;
        s->port = (uint16_t)strtoul(found + sizeof words - 1, NULL, 10);
        (void)snprintf(s->address, sizeof s->address, "127.0.0.1:%u", (unsigned)s->port);
        return true;
    }
    real_server_show_log(s);
    test_fail(__FILE__, __LINE__, "the server is not ready after %d s", READY_MS / 1000);
}

void real_server_start(struct real_server *s, const char *data, const char *const *flags)
{
    real_server_spawn(s, data, flags);
    if (real_server_await(s)) return;
    real_server_show_log(s);
    test_fail(__FILE__, __LINE__, "the server did not start");
}

/* ---- its end ---- */

void real_server_kill(struct real_server *s)
{
    if (s->pid == 0) return;
    (void)kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, NULL, 0);
    forget(s);
}

static void sleep_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};

    (void)nanosleep(&time, NULL);
}

void real_server_stop(struct real_server *s, int64_t timeout_ms)
{
    int how = 0;
    pid_t ended = 0;
    int64_t end_ns = clock_mono_ns() + timeout_ms * NS_PER_MS;

    assert(s->pid != 0);
    (void)kill(s->pid, SIGTERM);
    while ((ended = waitpid(s->pid, &how, WNOHANG)) == 0 && clock_mono_ns() < end_ns) sleep_ms(5);
    if (ended == 0) {
        real_server_show_log(s);
        test_fail(__FILE__, __LINE__, "it did not end within %lld ms of SIGTERM",
                  (long long)timeout_ms);
    }
    forget(s);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return;
    real_server_show_log(s);
    test_fail(__FILE__, __LINE__, "after SIGTERM it ended with %x", (unsigned)how);
}

void real_server_expect_alive(struct real_server *s)
{
    int how = 0;

    if (s->pid == 0 || waitpid(s->pid, &how, WNOHANG) == 0) return;
    forget(s);
    real_server_show_log(s);
    test_fail(__FILE__, __LINE__, "the server ended by itself: %x", (unsigned)how);
}

/* ---- figures ---- */

uint64_t real_server_rss_bytes(const struct real_server *s)
{
    char path[64];
    unsigned long long size = 0;
    unsigned long long resident = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)s->pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2) resident = 0;
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A whole answer; the connection is closed by the server at its end. */
static void fetch(const struct real_server *s, const char *request, char *out, size_t size)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(s->port)};
    size_t len = 0;

    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out[0] = '\0';
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(fd >= 0);
    struct timeval patience = {.tv_sec = 10};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0 &&
        send(fd, request, strlen(request), MSG_NOSIGNAL) > 0) {
        ssize_t got = 0;
        while (len + 1 < size && (got = recv(fd, out + len, size - 1 - len, 0)) > 0)
            len += (size_t)got;
        out[len] = '\0';
    }
    (void)close(fd);
}

double real_server_metric(const struct real_server *s, const char *name)
{
    char line[256];
    double value = -1;
    char *page = malloc(PAGE_SIZE_MAX);

    assert(page != NULL);
    fetch(s, "GET /metrics HTTP/1.1\r\nHost: norn\r\nConnection: close\r\n\r\n", page,
          PAGE_SIZE_MAX);
    (void)snprintf(line, sizeof line, "\n%s ", name);
    const char *found = strstr(page, line);
    if (found != NULL) value = strtod(found + strlen(line), NULL);
    free(page);
    return value;
}

/* ---- the log ---- */

static char *read_all(const char *path, size_t *len)
{
    FILE *file = fopen(path, "re");

    *len = 0;
    if (file == NULL) return NULL;
    (void)fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert(text != NULL);
    *len = fread(text, 1, (size_t)size, file);
    text[*len] = '\0';
    (void)fclose(file);
    return text;
}

bool real_server_has_logged(const struct real_server *s, const char *text)
{
    size_t len;
    char *log = read_all(s->log_path, &len);
    bool has = log != NULL && strstr(log, text) != NULL;

    free(log);
    return has;
}

void real_server_show_log(const struct real_server *s)
{
    size_t len;
    char *log = read_all(s->log_path, &len);

    if (log == NULL) return;
    printf("# the end of the server's log:\n");
    for (char *line = log + (len > LOG_SHOWN ? len - LOG_SHOWN : 0), *end; *line != '\0';
         line = end) {
        end = line + strcspn(line, "\n");
        printf("#   %.*s\n", (int)(end - line), line);
        if (*end == '\n') end++;
    }
    free(log);
}

bool real_server_is_sanitized(void)
{
    size_t len;
    char *program = read_all(NORN_PATH, &len);

    assert(program != NULL);
    bool is = memmem(program, len, "__asan_init", 11) != NULL;
    free(program);
    return is;
}

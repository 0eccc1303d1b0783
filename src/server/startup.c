/* SPDX-License-Identifier: Apache-2.0
 *
 * See startup.h.
 */
#include "server/startup.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "host/engine.h"
#include "server/address.h"
#include "server/notify.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

/* Files of the store and the streams, what a backup and readers of histories open, replies, pipes,
 * listeners; of a small limit a half. */
#define FDS_OF_OUR_OWN 192

uint32_t startup_prepare_process(uint32_t connections_n_max)
{
    struct rlimit limit;

    (void)signal(SIGPIPE, SIG_IGN);
    /* Until the loop takes them: recovery may be long, and a reload must not end it. */
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return connections_n_max;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    rlim_t kept = limit.rlim_cur / 2 < FDS_OF_OUR_OWN ? limit.rlim_cur / 2 : FDS_OF_OUR_OWN;
    rlim_t allowed = limit.rlim_cur - kept;
    if (allowed >= connections_n_max) return connections_n_max;
    log_warn("the limit of open files, %llu, is too low for %u connections: there will be %llu at "
             "most; raise it (LimitNOFILE, ulimit -n) or lower server.connections_max",
             (unsigned long long)limit.rlim_cur, connections_n_max, (unsigned long long)allowed);
    return allowed > 0 ? (uint32_t)allowed : 1;
}

/* ---- the data directory ---- */

int startup_exit_code_engine(enum status status)
{
    switch (status) {
    case OK: return EX_OK;
    case E_BUSY: return EX_TEMPFAIL;
    case E_CORRUPT:
    case E_VERSION: return EX_DATAERR;
    case E_INVALID: return EX_CONFIG;
    case E_IO:
    case E_NOSPACE: return EX_IOERR;
    case E_NOMEM: return EX_OSERR;
    case E_NOT_FOUND:
    case E_EXISTS:
    case E_PRECONDITION:
    case E_STALE:
    case E_LIMIT:
    case E_CLOSED:
    case E_UNAVAILABLE:
    case E_TIMEOUT:
    case E_UNSUPPORTED: return EX_SOFTWARE;
    }
    unreachable("status");
}

int startup_exit_code_listen(enum status status)
{
    return status == E_INVALID ? EX_CONFIG : status == E_NOMEM ? EX_OSERR : EX_UNAVAILABLE;
}

/* The engine tells only that reading or writing failed; the common causes deserve their own words
 * and exit codes. */
static int check_directory(const char *path)
{
    struct stat info;

    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        int code = errno == EACCES || errno == EPERM ? EX_NOPERM : EX_CANTCREAT;
        log_error("the data directory %s cannot be made: %s", path, strerror(errno));
        return code;
    }
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        log_error("the data directory %s is not a directory", path);
        return EX_CANTCREAT;
    }
    if (access(path, R_OK | W_OK | X_OK) != 0) {
        log_error("the data directory %s cannot be written: %s (we are user %u)", path,
                  strerror(errno), (unsigned)geteuid());
        return EX_NOPERM;
    }
    return EX_OK;
}

int startup_open_engine(const struct engine_options *options, struct engine **out)
{
    char problem[ENGINE_DAMAGE_SIZE] = "";

    int code = check_directory(options->directory);
    if (code != EX_OK) return code;
    enum status status = engine_open(options, problem, out);
    if (status == E_BUSY)
        log_error("%s: is another norn server running on it? Give each its own --data", problem);
    else if (status != OK)
        log_error("%s", problem[0] == '\0' ? status_text(status) : problem);
    return startup_exit_code_engine(status);
}

/* ---- sockets ---- */

bool startup_is_loopback(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;

    if (getsockname(fd, (struct sockaddr *)(void *)&address, &size) != 0) return false;
    return socket_address_is_loopback((const struct sockaddr *)(const void *)&address);
}

/* ---- ready ---- */

void startup_tell_ready(struct engine *engine, const char *directory, const char *address,
                        int64_t begun_ns)
{
    struct host_stats stats = {0};
    bool is_relative = directory[0] != '/' && directory[0] != '.';

    (void)engine_stats(engine, &stats);
    printf("norn " NORN_VERSION " ready on %s, data in %s%s (recovered %llu instances in %lld ms, "
           "started in %lld ms)\n",
           address, is_relative ? "./" : "", directory, (unsigned long long)stats.instances_hot,
           (long long)(stats.recovery_ns / NS_PER_MS),
           (long long)((clock_mono_ns() - begun_ns) / NS_PER_MS));
    if (isatty(STDOUT_FILENO) == 1) {
        printf(
            "  SDKs     a Durable Task client or worker connects to %s, without TLS\n"
            "  look     curl http://%s/metrics    (also /healthz, /readyz, /version)\n"
            "  stop     Ctrl-C drains, a second one stops at once; norn server --help for more\n",
            address, address);
    }
    (void)fflush(stdout);
    (void)notify_send("READY=1\nSTATUS=ready");
}

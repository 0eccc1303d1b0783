/* SPDX-License-Identifier: Apache-2.0
 *
 * See backup.h and host/backup.h, which does the work.
 *
 *   POST ──> thread: backup_make() ──> is_done, bell ──> joined, answered
 *
 * Who asked is who wants it: when the peer goes away the backup is given up, as when the server
 * stops.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "rest/state.h"

#include "base/mem.h"
#include "host/backup.h"
#include "rest/backup.h"
#include "rest/stream_desk.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_SIZE 4096

struct backups {
    struct rest *rest;
    struct ask *ask; /* NULL: nobody waits for it any more */
    pthread_t thread;
    bool is_running; /* it is to be joined */
    atomic_bool is_done;
    atomic_bool is_cancelled;
    struct backup backup;
    enum status status;
    char path[PATH_SIZE];
};

/* ---- its thread ---- */

static void *make(void *user)
{
    struct backups *b = user;
    struct rest *r = b->rest;

    b->status = backup_make(&b->backup);
    atomic_store(&b->is_done, true);
    r->options.wake(r->options.wake_user);
    return NULL;
}

/* ---- the network's ---- */

static enum problem problem_of_backup(enum status status)
{
    switch (status) {
    case E_INVALID: return PROBLEM_BAD_PARAMETER;
    case E_EXISTS:
    case E_BUSY: return PROBLEM_WRONG_STATE;
    case E_NOSPACE: return PROBLEM_DISK_LOW;
    case E_CLOSED: return PROBLEM_DRAINING;
    case E_NOMEM:
    case E_TIMEOUT:
    case E_UNAVAILABLE: return PROBLEM_TOO_BUSY;
    case OK:
    case E_NOT_FOUND:
    case E_PRECONDITION:
    case E_STALE:
    case E_LIMIT:
    case E_IO:
    case E_CORRUPT:
    case E_VERSION:
    case E_UNSUPPORTED: return PROBLEM_INTERNAL;
    }
    return PROBLEM_INTERNAL;
}

static void answer(struct backups *b, struct ask *ask)
{
    struct json j;

    if (b->status != OK) {
        ask_problem(ask, problem_of_backup(b->status), NULL, "%s", b->backup.text);
        return;
    }
    buffer_clear(&ask->text);
    json_init(&j, &ask->text);
    json_object_begin(&j);
    json_key(&j, "path");
    json_text(&j, b->path);
    json_key(&j, "bytes");
    json_uint64(&j, b->backup.bytes);
    json_key(&j, "replaced");
    json_bool(&j, b->backup.has_replaced);
    json_object_end(&j);
    if (ask->text.failed)
        ask_busy(ask);
    else
        ask_json(ask, 200, buffer_view(&ask->text));
}

static void join(struct backups *b)
{
    if (!b->is_running) return;
    int failed = pthread_join(b->thread, NULL);
    assert(failed == 0);
    b->is_running = false;
}

void backups_collect(struct backups *b)
{
    if (!b->is_running || !atomic_load(&b->is_done)) return;
    join(b);
    struct ask *ask = b->ask;
    b->ask = NULL;
    if (ask == NULL) return;
    ask->ops = NULL;
    answer(b, ask);
}

void backups_cancel(struct backups *b) { atomic_store(&b->is_cancelled, true); }

void backups_join(struct backups *b)
{
    backups_cancel(b);
    join(b);
}

bool backups_are_quiet(const struct backups *b) { return !b->is_running; }

static void give_up(struct ask *ask)
{
    struct backups *b = ask->user;

    ask->ops = NULL;
    b->ask = NULL;
    backups_cancel(b);
}

static void on_closed(struct ask *ask)
{
    give_up(ask);
    ask_answer(ask, 503, NULL, BYTES_NONE); /* nobody reads it */
}

static void on_drain(struct ask *ask)
{
    give_up(ask);
    ask_problem(ask, PROBLEM_DRAINING, NULL, "the server is shutting down: nothing was kept");
}

static void on_nothing(struct ask *ask) { (void)ask; }

static const struct ask_ops waiting_ops = {
    .closed = on_closed,
    .writable = on_nothing,
    .time = on_nothing,
    .drain = on_drain,
    .half_closed = ask_goes_on,
};

static void begin(struct backups *b, struct ask *ask)
{
    struct rest *r = b->rest;

    b->backup = (struct backup){
        .engine = r->options.engine,
        .directory = r->options.directory,
        .path = b->path,
        .is_cancelled = &b->is_cancelled,
    };
    if (r->streams != NULL) {
        b->backup.beside = streams_hold(stream_desk_streams(r->streams));
        b->backup.copy_beside = streams_copy;
    }
    atomic_store(&b->is_done, false);
    atomic_store(&b->is_cancelled, false);
    if (pthread_create(&b->thread, NULL, make, b) != 0) {
        ask_busy(ask);
        return;
    }
    (void)pthread_setname_np(b->thread, "backup");
    b->is_running = true;
    b->ask = ask;
    ask->user = b;
    ask->ops = &waiting_ops;
    if (ask->is_closed) on_closed(ask);
}

/* What is in the data directory is the server's: a backup there would be taken for a part of it. */
static bool is_within(const char *directory, struct bytes path)
{
    char parent[PATH_SIZE];
    char root[PATH_MAX];
    char found[PATH_MAX];
    size_t len = path.len;

    assert(len > 0 && len < sizeof parent);
    memcpy(parent, path.ptr, len);
    while (len > 1 && parent[len - 1] == '/') len--;
    while (len > 1 && parent[len - 1] != '/') len--;
    parent[len] = '\0';
    if (realpath(directory, root) == NULL) return false;
    if (realpath(parent, found) == NULL) return false; /* it is refused when it is made */
    size_t root_len = strlen(root);
    return strncmp(found, root, root_len) == 0 &&
           (found[root_len] == '/' || found[root_len] == '\0' || root_len == 1);
}

static void post_backup(struct ask *ask)
{
    struct rest *r = ask->rest;
    struct backups *b = r->backups;
    static const struct body_field fields[] = {{"path", BODY_TEXT}};
    struct body_value path;

    if (!http_is_trusted(ask->exchange)) {
        ask_problem(ask, PROBLEM_FORBIDDEN, "ask on the machine where the server runs",
                    "backups can be asked for on this machine only");
        return;
    }
    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 1, &path)) return;
    if (!path.has || path.text.len == 0 || path.text.len >= PATH_SIZE ||
        memchr(path.text.ptr, '\0', path.text.len) != NULL || path.text.ptr[0] != '/') {
        ask_problem(ask, PROBLEM_BAD_PARAMETER, "{\"path\":\"/var/backups/norn-1\"}",
                    "path must be that of a new directory, and begin with '/'");
        return;
    }
    if (r->options.engine == NULL || r->options.directory == NULL || r->options.wake == NULL) {
        ask_problem(ask, PROBLEM_UNSUPPORTED, NULL, "there is no directory to back up");
        return;
    }
    if (is_within(r->options.directory, path.text)) {
        ask_problem(ask, PROBLEM_BAD_PARAMETER, "{\"path\":\"/var/backups/norn-1\"}",
                    "path must not be within the data directory");
        return;
    }
    if (b->is_running) {
        ask_problem(ask, PROBLEM_WRONG_STATE, "wait until it is done",
                    "another backup is being made");
        return;
    }
    memcpy(b->path, path.text.ptr, path.text.len);
    b->path[path.text.len] = '\0';
    begin(b, ask);
}

const struct route routes_backup[] = {
    {"POST", "/v1/backup", post_backup, NULL, ROUTE_PLAIN, "makeBackup"},
    {0},
};

/* ---- life ---- */

struct backups *backups_new(struct rest *r)
{
    struct backups *b = mem_take_zero(r->mem, sizeof *b);

    if (b != NULL) b->rest = r;
    return b;
}

void backups_free(struct backups *b)
{
    backups_join(b);
    mem_give(b->rest->mem, b, sizeof *b);
}

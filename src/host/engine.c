/* SPDX-License-Identifier: Apache-2.0
 *
 * See engine.h. Everything of a shard (host, journal, archive, threads) is in one struct; shards
 * share nothing and hand each other messages, which are copied.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "host/engine.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/random.h"
#include "host/engine_query.h"
#include "host/env_threads.h"
#include "host/format.h"
#include "host/purger.h"
#include "host/rows.h"
#include "store/io.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

struct shard {
    struct engine *engine;
    uint32_t number;
    /* A mem belongs to one thread: each of these has its own. */
    struct mem host_mem;
    struct mem journal_mem;
    struct mem archive_mem;
    struct mem env_mem;
    struct env_threads *env;
    struct host *host;
    pthread_t thread;
};

struct engine {
    struct mem mem;
    struct io *io;
    struct io_file *lock;
    struct format format;
    struct engine_options options;
    struct shard *shards;
    uint32_t open_n; /* shards whose thread runs */
    struct purger purger;
    atomic_bool is_closing; /* purges under way make no more requests */
};

void engine_options_init(struct engine_options *options)
{
    *options = (struct engine_options){
        .journal_segment_size = (uint64_t)64 << 20,
        .archive_segment_size = (uint64_t)64 << 20,
    };
    host_options_init(&options->host);
}

/* ---- the directory ---- */

static enum status lock_directory(struct engine *e, char *damage)
{
    const char *directory = e->options.directory;

    errno = 0;
    enum status status = io_posix_open(directory, &e->io);
    if (status == OK) status = e->io->ops->lock(e->io, "lock", &e->lock);
    if (status == E_BUSY) {
        (void)snprintf(damage, ENGINE_DAMAGE_SIZE,
                       "%s is in use by another process, or twice in this one", directory);
    } else if (status != OK) {
        (void)snprintf(damage, ENGINE_DAMAGE_SIZE, "the directory %s cannot be opened: %s",
                       directory, errno != 0 ? strerror(errno) : status_text(status));
    }
    /* An instance is what is not found elsewhere; here it is a parent directory. */
    return status == E_NOT_FOUND ? E_IO : status;
}

static enum status create_format(struct engine *e)
{
    e->format = (struct format){
        .version = ENGINE_FORMAT_VERSION,
        .partitions_n = e->options.host.partitions_n,
        .shards_n = e->options.host.shards_n,
    };
    if (e->format.partitions_n == 0) e->format.partitions_n = 32;
    if (e->format.shards_n == 0) e->format.shards_n = 1;
    if (e->format.shards_n > e->format.partitions_n) return E_INVALID;
    random_fill(e->format.mac_key, sizeof e->format.mac_key);
    return format_write(e->io, &e->format);
}

static enum status find_data(void *user, const char *name)
{
    bool *is_found = user;

    if (strncmp(name, "shard-", 6) == 0 || strcmp(name, "streams") == 0) *is_found = true;
    return OK;
}

/* The format is written before anything else: where there is data and no format, it was lost, and
 * with it how the data is to be read. A new one would be a guess. */
static enum status make_format(struct engine *e, char *damage)
{
    bool is_found = false;

    enum status status = e->io->ops->list(e->io, ".", find_data, &is_found);
    if (status == OK && !is_found) return create_format(e);
    if (status == OK) {
        (void)snprintf(
            damage, ENGINE_DAMAGE_SIZE,
            "%s has data (shard-*, streams), but the file 'format', which says how it is "
            "to be read, is missing. Nothing was changed; bring it back from a backup of "
            "this directory",
            e->options.directory);
        status = E_CORRUPT;
    }
    return status;
}

static bool is_as_made(uint32_t wanted, uint32_t made) { return wanted == 0 || wanted == made; }

static enum status read_format(struct engine *e, char *damage)
{
    const struct host_options *wanted = &e->options.host;
    struct format *f = &e->format;

    enum status status = format_read(e->io, &e->mem, ENGINE_FORMAT_VERSION, f);
    if (status == E_NOT_FOUND) status = make_format(e, damage);
    if (status == OK && (!is_as_made(wanted->partitions_n, f->partitions_n) ||
                         !is_as_made(wanted->shards_n, f->shards_n))) {
        (void)snprintf(damage, ENGINE_DAMAGE_SIZE,
                       "%s was made with %u partitions and %u shards, which cannot be changed",
                       e->options.directory, f->partitions_n, f->shards_n);
        return E_INVALID;
    }
    if (status != OK && damage[0] == '\0') {
        (void)snprintf(damage, ENGINE_DAMAGE_SIZE, "%s/format: %s", e->options.directory,
                       status_text(status));
    }
    return status;
}

/* ---- messages between shards ---- */

/* A copy of a message on its way; it carries its own mem, because two threads have it one after the
 * other. */
struct crossing {
    struct request request;
    struct mem mem;
    size_t size;
};

static void crossing_done(struct request *request)
{
    struct crossing *c = container_of(request, struct crossing, request);
    struct mem mem = c->mem;

    mem_give(&mem, c, c->size);
    mem_release(&mem);
}

static struct bytes keep_bytes(uint8_t **at, struct bytes value)
{
    struct bytes copy = bytes_make(*at, value.len);

    if (value.len > 0) memcpy(*at, value.ptr, value.len);
    *at += value.len;
    return copy;
}

static struct crossing *crossing_new(size_t bytes_size)
{
    struct mem mem;

    mem_init(&mem, SIZE_MAX);
    struct crossing *c = mem_take_zero(&mem, sizeof *c + bytes_size);
    if (c == NULL) return NULL;
    c->mem = mem;
    c->size = sizeof *c + bytes_size;
    c->request.done = crossing_done;
    return c;
}

static bool send_to_shard(void *user, uint32_t to, const struct effect *effect, uint32_t from)
{
    struct shard *shard = user;
    struct engine *e = shard->engine;
    bool is_ack = effect->kind == EFFECT_ACK;
    size_t size =
        is_ack ? 0 : effect->send.target.len + effect->send.execution.len + effect->send.event.len;

    struct crossing *c = crossing_new(size);
    if (c == NULL) return false;
    struct request *r = &c->request;
    uint8_t *at = (uint8_t *)(c + 1);
    r->kind = is_ack ? REQUEST_ACK : REQUEST_MESSAGE;
    r->message.from = from;
    r->message.to = to;
    r->message.seq = is_ack ? effect->ack.seq : effect->send.seq;
    if (!is_ack) {
        r->message.kind = effect->send.kind;
        r->key = keep_bytes(&at, effect->send.target);
        r->message.execution = keep_bytes(&at, effect->send.execution);
        r->message.event = keep_bytes(&at, effect->send.event);
    }
    if (engine_post_to(e, to % e->format.shards_n, r)) return true;
    crossing_done(r);
    return false;
}

/* ---- shards ---- */

static void shard_wake(void *user)
{
    struct shard *shard = user;

    env_threads_wake(shard->env);
}

static void *shard_main(void *user)
{
    struct shard *shard = user;

    env_threads_run(shard->env, shard->host);
    return NULL;
}

static enum status open_stores(struct shard *s, struct journal **journal, struct archive **archive)
{
    struct engine *e = s->engine;
    char shard_path[32], journal_path[48], archive_path[48];

    (void)snprintf(shard_path, sizeof shard_path, "shard-%u", s->number);
    (void)snprintf(journal_path, sizeof journal_path, "%s/journal", shard_path);
    (void)snprintf(archive_path, sizeof archive_path, "%s/archive", shard_path);
    enum status status = e->io->ops->make_directory(e->io, shard_path);
    if (status == OK) status = e->io->ops->sync_directory(e->io, ".");
    if (status != OK) return status;
    struct journal_file_options journal_options = {
        .directory = journal_path,
        .segment_size = e->options.journal_segment_size,
        .mem = &s->journal_mem,
    };
    status = journal_file_open(e->io, &journal_options, journal);
    if (status != OK) return status;
    struct archive_sqlite_options archive_options = {
        .root = e->options.directory,
        .directory = archive_path,
        .segment_size = e->options.archive_segment_size,
        .mem = &s->archive_mem,
    };
    status = archive_sqlite_open(e->io, &archive_options, archive);
    if (status != OK) journal_close(*journal);
    return status;
}

static void shard_release(struct shard *s)
{
    if (s->host != NULL) host_close(s->host);
    mem_release(&s->host_mem);
    mem_release(&s->journal_mem);
    mem_release(&s->archive_mem);
    mem_release(&s->env_mem);
}

static enum status shard_open_host(struct shard *s, char *damage)
{
    struct engine *e = s->engine;
    struct journal *journal;
    struct archive *archive;

    enum status status = open_stores(s, &journal, &archive);
    if (status != OK) {
        (void)snprintf(damage, ENGINE_DAMAGE_SIZE, "the stores of shard %u cannot be opened: %s",
                       s->number, status_text(status));
        return status;
    }
    struct host_options options = e->options.host;
    options.partitions_n = e->format.partitions_n;
    options.shards_n = e->format.shards_n;
    options.shard = s->number;
    options.mac_key[0] = e->format.mac_key[0];
    options.mac_key[1] = e->format.mac_key[1];
    options.mem = &s->host_mem;
    options.wake = shard_wake;
    options.send = send_to_shard;
    options.user = s;
    return host_open(env_threads_env(s->env), journal, archive, &options, damage, &s->host);
}

static enum status shard_open(struct engine *e, uint32_t number, char *damage)
{
    struct shard *s = &e->shards[number];
    char name[16];

    s->engine = e;
    s->number = number;
    mem_init(&s->host_mem, SIZE_MAX);
    mem_init(&s->journal_mem, SIZE_MAX);
    mem_init(&s->archive_mem, SIZE_MAX);
    mem_init(&s->env_mem, SIZE_MAX);
    (void)snprintf(name, sizeof name, "%u", number);
    enum status status = env_threads_new(&s->env_mem, name, &s->env);
    if (status != OK) return status;
    status = shard_open_host(s, damage);
    if (status == OK) return OK;
    env_threads_free(s->env);
    shard_release(s);
    return status;
}

/* After all hosts are open: they send to each other. False: there is no such thread. */
static bool shard_start(struct shard *s)
{
    char title[16];

    if (pthread_create(&s->thread, NULL, shard_main, s) != 0) return false;
    (void)snprintf(title, sizeof title, "host-%u", s->number);
    (void)pthread_setname_np(s->thread, title);
    return true;
}

static void stop_shards(struct engine *e, uint32_t started_n)
{
    for (uint32_t i = 0; i < started_n; i++) env_threads_stop(e->shards[i].env);
    for (uint32_t i = 0; i < started_n; i++) {
        int failed = pthread_join(e->shards[i].thread, NULL);
        assert(failed == 0);
    }
}

static void release_shards(struct engine *e)
{
    for (; e->open_n > 0; e->open_n--) {
        env_threads_free(e->shards[e->open_n - 1].env);
        shard_release(&e->shards[e->open_n - 1]);
    }
}

/* ---- open and close ---- */

static void engine_free(struct engine *e)
{
    struct mem mem = e->mem;

    if (e->lock != NULL) e->io->ops->close(e->io, e->lock);
    if (e->io != NULL) e->io->ops->release(e->io);
    if (e->shards != NULL) mem_give(&mem, e->shards, e->format.shards_n * sizeof *e->shards);
    mem_give(&mem, e, sizeof *e);
    mem_release(&mem);
}

static enum status open_shards(struct engine *e, char *damage)
{
    e->shards = mem_take_zero(&e->mem, e->format.shards_n * sizeof *e->shards);
    if (e->shards == NULL) return E_NOMEM;
    for (; e->open_n < e->format.shards_n; e->open_n++) {
        enum status status = shard_open(e, e->open_n, damage);
        if (status == OK) continue;
        release_shards(e);
        return status;
    }
    for (uint32_t i = 0; i < e->open_n; i++) {
        if (shard_start(&e->shards[i])) continue;
        stop_shards(e, i);
        release_shards(e);
        return E_NOMEM;
    }
    return OK;
}

static bool post_purge(struct purger *p, struct request *request)
{
    struct engine *e = container_of(p, struct engine, purger);

    return !atomic_load(&e->is_closing) && engine_post(e, request);
}

static int64_t purger_now_ns(struct purger *p)
{
    (void)p;
    return clock_mono_ns();
}

enum status engine_open(const struct engine_options *options, char *damage, struct engine **out)
{
    struct mem mem;

    assert(options->directory != NULL);
    damage[0] = '\0';
    mem_init(&mem, SIZE_MAX);
    struct engine *e = mem_take_zero(&mem, sizeof *e);
    if (e == NULL) return E_NOMEM;
    e->mem = mem;
    e->options = *options;
    e->purger.post = post_purge;
    e->purger.now_ns = purger_now_ns;
    enum status status = lock_directory(e, damage);
    if (status == OK) status = read_format(e, damage);
    if (status == OK) status = open_shards(e, damage);
    if (status != OK) {
        engine_free(e);
        return status;
    }
    *out = e;
    return OK;
}

/* All stop before any is closed: until then they may send to each other. */
void engine_close(struct engine *e)
{
    atomic_store(&e->is_closing, true);
    stop_shards(e, e->open_n);
    release_shards(e);
    engine_free(e);
}

/* ---- posting ---- */

static bool is_for_one_shard(enum request_kind kind)
{
    return kind == REQUEST_WORKER_ATTACH || kind == REQUEST_WORKER_CREDIT ||
           kind == REQUEST_WORKER_DETACH || kind == REQUEST_STATS || kind == REQUEST_ALERTS ||
           kind == REQUEST_SOURCE || kind == REQUEST_BACKLOG;
}

bool engine_post_to(struct engine *e, uint32_t shard, struct request *request)
{
    assert(shard < e->format.shards_n);
    return host_post(e->shards[shard].host, request);
}

bool engine_post_to_quietly(struct engine *e, uint32_t shard, struct request *request)
{
    assert(shard < e->format.shards_n);
    return host_post_quietly(e->shards[shard].host, request);
}

void engine_wake(struct engine *e)
{
    for (uint32_t i = 0; i < e->format.shards_n; i++) host_wake(e->shards[i].host);
}

/* post: engine_post_to() or engine_post_to_quietly(). */
static bool route(struct engine *e, struct request *request,
                  bool (*post)(struct engine *e, uint32_t shard, struct request *request))
{
    uint32_t shards_n = e->format.shards_n;

    assert(shards_n == 1 || !is_for_one_shard(request->kind));
    if (shards_n == 1) return post(e, 0, request);
    if (request->kind == REQUEST_QUERY) return engine_query(e, request);
    if (request->kind == REQUEST_PURGE_WHERE) return purge_where(&e->purger, request) == OK;
    if (request->kind == REQUEST_PURGE && request->client.recurse &&
        key_is_complete(request->key)) {
        return purge_tree(&e->purger, request) == OK;
    }
    uint32_t partition = 0;
    if (request->kind == REQUEST_ACK)
        partition = request->message.to;
    else if (request->kind == REQUEST_POSITION)
        partition = request->position.partition;
    else
        partition = partition_of(request->key, e->format.partitions_n);
    return post(e, partition % shards_n, request);
}

bool engine_post(struct engine *e, struct request *request)
{
    return route(e, request, engine_post_to);
}

bool engine_post_quietly(struct engine *e, struct request *request)
{
    return route(e, request, engine_post_to_quietly);
}

/* A caller that waits, and what its request had in these places. */
struct call {
    struct queue answered;
    request_done_fn *done;
    void *user;
};

/* On the host's thread. */
static void call_done(struct request *request)
{
    struct call *call = request->user;

    request->done = call->done;
    request->user = call->user;
    if (request->done != NULL) request->done(request);
    request->view = NULL; /* all borrowed until now */
    request->rows = NULL;
    request->why = NULL;
    request->parked = NULL;
    request->events = BYTES_NONE;
    bool is_pushed = queue_push(&call->answered, &request->node);
    assert(is_pushed);
}

/* shard: shards_n means whichever the request belongs to. */
static enum status call(struct engine *e, uint32_t shard, struct request *request)
{
    struct call call = {.done = request->done, .user = request->user};
    struct list answered;

    list_init(&answered);
    queue_init(&call.answered, 1);
    request->done = call_done;
    request->user = &call;
    bool is_posted =
        shard == e->format.shards_n ? engine_post(e, request) : engine_post_to(e, shard, request);
    if (is_posted) {
        (void)queue_take_all(&call.answered, &answered, -1);
        list_remove(&request->node);
    } else {
        request->done = call.done;
        request->user = call.user;
        request->status = E_UNAVAILABLE;
    }
    queue_release(&call.answered);
    return request->status;
}

enum status engine_call(struct engine *e, struct request *request)
{
    return call(e, is_for_one_shard(request->kind) ? 0 : e->format.shards_n, request);
}

enum status engine_call_to(struct engine *e, uint32_t shard, struct request *request)
{
    assert(shard < e->format.shards_n);
    return call(e, shard, request);
}

enum status engine_stats(struct engine *e, struct host_stats *out)
{
    struct host_stats sum = HOST_STATS_NONE;

    for (uint32_t i = 0; i < e->format.shards_n; i++) {
        struct host_stats one = {0};
        struct request request = {.kind = REQUEST_STATS, .stats = &one};
        enum status status = engine_call_to(e, i, &request);
        if (status != OK) return status;
        host_stats_add(&sum, &one);
    }
    *out = sum;
    return OK;
}

struct hold *engine_hold(struct engine *e, uint32_t shard)
{
    assert(shard < e->format.shards_n);
    return host_hold(e->shards[shard].host);
}

uint32_t engine_partitions_n(const struct engine *e) { return e->format.partitions_n; }
uint32_t engine_shards_n(const struct engine *e) { return e->format.shards_n; }
const uint64_t *engine_mac_key(const struct engine *e) { return e->format.mac_key; }

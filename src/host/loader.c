/* SPDX-License-Identifier: Apache-2.0
 *
 * See loader.h. The order in which a finished job is used: loads first (they let parked requests go
 * on), then looks, sleepers and the list, each against the memory as it is then.
 */
#include "host/loader.h"

#include "base/log.h"
#include "host/rows.h"
#include "host/state.h"

#define READ_ARENA_CHUNK_SIZE ((size_t)64 << 10)
#define DUE_NOW_MS 1000       /* how far a sweep looks ahead when memory is tight */
#define DUE_RETRY_NS NS_PER_S /* after a failure */

static void run(struct job *job);
static void done(struct job *job);

enum status loader_init(struct host *h)
{
    struct loader *l = &h->loader;

    map_init(&l->loads, &h->own, h->seed[0], h->seed[1]);
    list_init(&l->wanted);
    list_init(&l->looks);
    filter_init(&l->left, &h->own);
    filter_init(&l->waits, &h->own);
    buffer_init(&l->due_key, &h->own);
    mem_init(&l->job.mem, SIZE_MAX);
    arena_init(&l->job.arena, &l->job.mem, READ_ARENA_CHUNK_SIZE);
    l->job.job = (struct job){.run = run, .done = done};
    l->job.archive = h->archive;
    return frames_init(&l->job.frames, h->journal);
}

static void load_free(struct host *h, struct load *load)
{
    assert(list_is_empty(&load->parked));
    map_remove(&h->loader.loads, &load->node);
    if (list_is_linked(&load->wanted)) list_remove(&load->wanted);
    mem_give(&h->own, load, load->size);
}

static struct load *load_of_wanted(struct list *node)
{
    return container_of(node, struct load, wanted);
}

void loader_release(struct host *h)
{
    struct loader *l = &h->loader;

    for (uint32_t i = 0; i < l->job.loads_n; i++) load_free(h, l->job.loads[i]);
    while (!list_is_empty(&l->wanted)) load_free(h, load_of_wanted(list_first(&l->wanted)));
    map_release(&l->loads);
    filter_release(&l->left);
    filter_release(&l->waits);
    buffer_release(&l->due_key);
    arena_release(&l->job.arena);
    mem_release(&l->job.mem);
    frames_release(&l->job.frames);
}

/* ---- what is wanted ---- */

static bool is_known_absent(const struct loader *l, uint64_t hash)
{
    for (uint32_t i = 0; i < l->absent_n; i++) {
        if (l->absent[i] == hash) return true;
    }
    return false;
}

/* Something that waits has its hash, and is not known to be another. */
static bool may_wait(const struct host *h, struct bytes key)
{
    const struct loader *l = &h->loader;
    struct queued waiting;
    uint64_t order = 0;

    if (backlog_n(h->backlog) == 0) return false;
    uint64_t hash = backlog_hash(h->backlog, key);
    if (!backlog_find(h->backlog, hash, 0, &waiting)) return false;
    uint64_t id = key_hash(key);
    for (uint32_t i = 0; i < READ_LOADS_N; i++) {
        if (l->strangers[i].key_hash == id && l->strangers[i].order > order)
            order = l->strangers[i].order;
    }
    return order == 0 || backlog_find(h->backlog, hash, order, &waiting);
}

static void note_stranger(struct loader *l, struct bytes key, uint64_t order)
{
    l->strangers[l->strangers_next] = (struct stranger){key_hash(key), order};
    l->strangers_next = (l->strangers_next + 1) % READ_LOADS_N;
}

bool loader_is_at_hand(const struct host *h, uint32_t index, struct bytes key)
{
    const struct loader *l = &h->loader;

    if (l->loads.n > 0 && map_find(&l->loads, key) != NULL) return false; /* behind those before */
    if (core_has(h->cores[index], key)) return true;
    if (may_wait(h, key)) return false;
    uint64_t hash = key_hash(key);
    return !filter_has(&h->filter, hash) || is_known_absent(l, hash);
}

bool loader_may_wait(const struct host *h, uint32_t index, struct bytes key)
{
    const struct loader *l = &h->loader;

    if (l->loads.n > 0 && map_find(&l->loads, key) != NULL) return false;
    return !core_has(h->cores[index], key) && may_wait(h, key);
}

bool loader_may_have(const struct host *h, struct bytes key)
{
    struct queued waiting;

    if (backlog_n(h->backlog) > 0 &&
        backlog_find(h->backlog, backlog_hash(h->backlog, key), 0, &waiting)) {
        return true;
    }
    return filter_has(&h->filter, key_hash(key));
}

static struct load *load_obtain(struct host *h, uint32_t index, struct bytes key)
{
    struct loader *l = &h->loader;
    struct map_node *node = map_find(&l->loads, key);
    if (node != NULL) return container_of(node, struct load, node);

    struct load *load = mem_take_zero(&h->own, sizeof *load + key.len);
    if (load == NULL) return NULL;
    load->size = sizeof *load + key.len;
    load->index = index;
    memcpy(load + 1, key.ptr, key.len);
    load->node.key = bytes_make(load + 1, key.len);
    list_init(&load->parked);
    map_insert(&l->loads, &load->node);
    list_push_back(&l->wanted, &load->wanted);
    return load;
}

enum status loader_load(struct host *h, uint32_t index, struct bytes key, struct request *request)
{
    struct loader *l = &h->loader;

    if (request != NULL && l->parked_n >= PARKED_N_MAX) return E_UNAVAILABLE;
    struct load *load = load_obtain(h, index, key);
    if (load == NULL) return E_NOMEM;
    if (request == NULL) return OK;
    list_push_back(&load->parked, &request->node);
    l->parked_n++;
    return OK;
}

void loader_look(struct host *h, struct request *request)
{
    struct loader *l = &h->loader;

    if (l->parked_n >= PARKED_N_MAX) {
        request_refuse(h, request, E_UNAVAILABLE, "too many requests wait for the archive");
        return;
    }
    request->number = 0; /* what waits, up to this order, is another's */
    list_push_back(&l->looks, &request->node);
    l->parked_n++;
    if (request->kind == REQUEST_WAIT) filter_add(&l->waits, (uint64_t)(uintptr_t)request);
}

/* It is not parked as a look any more. */
static void look_end(struct loader *l, const struct request *request)
{
    assert(l->parked_n > 0);
    l->parked_n--;
    if (request->kind == REQUEST_WAIT) filter_remove(&l->waits, (uint64_t)(uintptr_t)request);
    if (l->waits.n == 0) filter_clear(&l->waits); /* it sees again, if it was blind */
}

/* Only needed while the addresses could not be kept. */
static bool is_listed(const struct loader *l, const struct request *wait)
{
    for (struct list *n = list_first(&l->looks); n != NULL; n = list_next(&l->looks, n)) {
        if (n == &wait->node) return true;
    }
    return false;
}

bool loader_cancel(struct host *h, const struct request *wait)
{
    struct loader *l = &h->loader;

    if (l->waits.n == 0 || !filter_has(&l->waits, (uint64_t)(uintptr_t)wait)) return false;
    for (uint32_t i = 0; i < l->job.looks_n; i++) {
        if (l->job.looks[i].request != wait) continue;
        l->job.looks[i].is_cancelled = true;
        return false;
    }
    if (l->waits.is_blind && !is_listed(l, wait)) return false;
    struct request *known = (struct request *)(uintptr_t)wait; /* it is ours: it waits here */
    list_remove(&known->node);
    look_end(l, known);
    request_refuse(h, known, E_TIMEOUT, WAIT_OVER);
    return true;
}

void loader_left(struct host *h, uint64_t hash)
{
    if (h->loader.is_under_way) filter_add(&h->loader.left, hash);
}

/* ---- the job, in its lane ---- */

static struct archive_key key_of(struct bytes key)
{
    return (struct archive_key){key_hub(key), key_id(key)};
}

/* Only what the loader uses of a row. */
static enum status keep_due(void *user, const struct archive_row *row)
{
    struct read_job *job = user;
    struct due_row *due = arena_alloc_zero(&job->arena, sizeof *due);
    if (due == NULL) return E_NOMEM;
    due->row.partition = row->partition;
    due->row.wake_ms = row->wake_ms;
    due->row.hub = arena_copy(&job->arena, row->hub);
    due->row.id = arena_copy(&job->arena, row->id);
    due->row.snapshot = arena_copy(&job->arena, row->snapshot);
    if (due->row.hub.len != row->hub.len || due->row.id.len != row->id.len ||
        due->row.snapshot.len != row->snapshot.len) {
        return E_NOMEM;
    }
    *job->due_last = due;
    job->due_last = &due->next;
    job->due_n++;
    return OK;
}

/* The record of what waits, when it is that of the key. */
static enum status read_waiting(struct read_job *job, const struct queued *waiting,
                                struct bytes key, struct bytes *out)
{
    struct bytes bytes;
    struct record record;

    *out = BYTES_NONE;
    enum status status = frames_get(&job->frames, waiting, &bytes);
    if (status != OK) return status;
    struct reader r = reader_make(bytes);
    if (record_decode(&r, &record) != OK) return E_CORRUPT;
    if (!bytes_equal(record.key, key)) return OK;
    *out = arena_copy(&job->arena, bytes);
    return out->len == bytes.len ? OK : E_NOMEM;
}

static void run(struct job *base)
{
    struct read_job *job = container_of(base, struct read_job, job);

    for (uint32_t i = 0; i < job->loads_n; i++) {
        struct load *load = job->loads[i];
        if (load->has_waiting) {
            load->record_status = read_waiting(job, &load->waiting, load->node.key, &load->record);
            if (load->record_status != OK || load->record.len > 0) continue;
        }
        load->status =
            archive_get(job->archive, key_of(load->node.key), true, &job->arena, &load->row);
    }
    for (uint32_t i = 0; i < job->looks_n; i++) {
        struct look *look = &job->looks[i];
        if (look->has_waiting) {
            look->record_status =
                read_waiting(job, &look->waiting, look->request->key, &look->record);
            if (look->record_status != OK || look->record.len > 0) continue;
        }
        look->status =
            archive_get(job->archive, key_of(look->request->key), true, &job->arena, &look->row);
    }
    if (job->has_due) {
        job->due_status =
            archive_due(job->archive, job->due_before_ms,
                        job->has_due_after ? &job->due_after : NULL, READ_DUE_N, keep_due, job);
    }
    if (job->query != NULL) queries_read(job->query, job->archive, &job->frames);
    frames_rest(&job->frames);
}

static void done(struct job *base)
{
    struct read_job *job = container_of(base, struct read_job, job);

    container_of(job, struct loader, job)->is_done = true;
}

/* ---- sleepers ---- */

/* How far ahead sleepers are brought into memory. */
static int64_t lookahead_ms(const struct host *h)
{
    int64_t horizon_ms = h->options.horizon_ms;

    return archiver_is_tight(h) && horizon_ms > DUE_NOW_MS ? DUE_NOW_MS : horizon_ms;
}

int64_t loader_wake_ns(const struct host *h)
{
    const struct loader *l = &h->loader;

    if (l->is_under_way || h->is_stopping) return INT64_MAX;
    int64_t at_ns = (l->covered_ms - lookahead_ms(h) / 2) * NS_PER_MS;
    return at_ns > l->due_retry_ns ? at_ns : l->due_retry_ns;
}

/* Decides whether this job reads a page of sleepers. A sweep reads page after page up to one
 * target. */
static void prepare_due(struct host *h)
{
    struct loader *l = &h->loader;
    struct read_job *job = &l->job;

    job->has_due = false;
    if (h->now_ns < loader_wake_ns(h)) return;
    if (l->due_target_ms == 0) {
        l->due_target_ms = h->now_ns / NS_PER_MS + lookahead_ms(h);
        job->has_due_after = false;
        if (h->filter.n == 0) { /* the archive is empty */
            l->covered_ms = l->due_target_ms;
            l->due_target_ms = 0;
            return;
        }
    }
    job->has_due = true;
    job->due_before_ms = l->due_target_ms;
    job->due_first = NULL;
    job->due_last = &job->due_first;
    job->due_n = 0;
}

/* Remembers where the next page begins. */
static bool due_continue(struct loader *l, const struct due_row *last)
{
    struct archive_row *after = &l->job.due_after;
    size_t hub_len = last->row.hub.len;

    buffer_clear(&l->due_key);
    buffer_append_bytes(&l->due_key, last->row.hub);
    buffer_append_bytes(&l->due_key, last->row.id);
    if (l->due_key.failed) return false;
    *after = (struct archive_row){.wake_ms = last->row.wake_ms};
    after->hub = bytes_make(l->due_key.ptr, hub_len);
    after->id = bytes_make(l->due_key.ptr + hub_len, last->row.id.len);
    l->job.has_due_after = true;
    return true;
}

static enum status load_due(struct host *h, const struct due_row *due)
{
    struct loader *l = &h->loader;
    uint64_t hash = archive_key_hash((struct archive_key){due->row.hub, due->row.id});

    if (filter_has(&l->left, hash)) return OK; /* it has been in memory since, and left for later */
    if (due->row.partition >= h->options.partitions_n ||
        !host_has_partition(h, due->row.partition)) {
        return E_CORRUPT;
    }
    uint32_t index = host_index(h, due->row.partition);
    enum status status = core_load(h->cores[index], due->row.snapshot, &h->open->out);
    host_collect(h, index, NULL);
    if (status == OK) l->loaded++;
    return status == E_EXISTS ? OK : status; /* in memory, newer than the archive */
}

static void use_due(struct host *h)
{
    struct loader *l = &h->loader;
    enum status status = l->left.is_blind ? E_NOMEM : l->job.due_status;
    const struct due_row *last = NULL;

    for (const struct due_row *due = l->job.due_first; due != NULL && status == OK;
         due = due->next) {
        status = load_due(h, due);
        last = due;
    }
    bool is_last_page = l->job.due_n < READ_DUE_N;
    if (status == OK && !is_last_page && !due_continue(l, last)) status = E_NOMEM;
    if (status != OK) {
        log_warn("cannot bring sleeping instances into memory: %s", status_text(status));
        l->due_retry_ns = h->now_ns + DUE_RETRY_NS;
        l->due_target_ms = 0; /* begins again */
    } else if (is_last_page) {
        l->covered_ms = l->due_target_ms;
        l->due_target_ms = 0;
    }
}

/* ---- using what was read ---- */

/* Requests that waited for this instance go on, in the order they came. */
static void unpark(struct host *h, struct load *load)
{
    struct list parked;

    list_init(&parked);
    list_splice_back(&parked, &load->parked);
    enum status status = load->status;
    load_free(h, load); /* before the requests: they look whether it is still being loaded */
    struct list *node;
    while ((node = list_pop_front(&parked)) != NULL) {
        struct request *request = container_of(node, struct request, node);
        h->loader.parked_n--;
        if (status == OK || status == E_NOT_FOUND) {
            request_run(h, request);
        } else {
            if (request->kind == REQUEST_PURGE) purge_give_up(h, request);
            request_refuse(h, request, status, "the instance cannot be read from the archive");
        }
    }
}

/* What came in out of its turn, and has not been ended or suspended at once, is counted for the
 * rate of its name like any other. */
static void count_rate(struct host *h, uint32_t index, struct bytes bytes)
{
    struct record record;
    struct instance_view view;
    struct reader r = reader_make(bytes);

    if (h->is_dead || bytes.len == 0 || record_decode(&r, &record) != OK) return;
    if (!host_view(h, index, record.key, &view) || view.status != STATUS_PENDING) return;
    backlog_took(h->backlog, record.name, h->now_ns);
}

/* True when there is nothing more to do with what was read for it. */
static bool use_waiting(struct host *h, struct load *load)
{
    struct loader *l = &h->loader;
    struct queued next;

    if (load->record_status != OK && load->record_status != E_NOMEM) {
        list_push_back(&l->wanted, &load->wanted); /* it is answered when the host is closed */
        host_fatal(h, load->record_status,
                   "a start that waits cannot be read back from the journal");
        return true;
    }
    if (load->record_status == OK && load->record.len == 0) {
        load->checked_order = load->waiting.order;
        note_stranger(l, load->node.key, load->checked_order);
        uint64_t hash = backlog_hash(h->backlog, load->node.key);
        if (!backlog_find(h->backlog, hash, load->checked_order, &next)) return false;
        list_push_back(&l->wanted, &load->wanted);
        return true;
    }
    load->status = load->record_status;
    if (load->status == OK) {
        struct input in = {.kind = INPUT_BACKLOG_ADMIT, .record = load->record};
        load->status = host_step(h, load->index, &in, NULL);
    }
    if (load->status != OK) messages_drop(h, load->index, load->node.key);
    uint32_t index = load->index;
    struct bytes bytes = load->status == OK ? load->record : BYTES_NONE;
    unpark(h, load);
    count_rate(h, index, bytes);
    return true;
}

static void use_load(struct host *h, struct load *load)
{
    struct loader *l = &h->loader;

    if (h->is_dead) {
        list_push_back(&l->wanted, &load->wanted);
        return;
    }
    if (load->has_waiting && use_waiting(h, load)) return;
    if (load->status == OK) {
        load->status = core_load(h->cores[load->index], load->row.snapshot, &h->open->out);
        host_collect(h, load->index, NULL);
        if (load->status == OK) l->loaded++;
        if (load->status == E_EXISTS) load->status = OK; /* a sleeper that came by itself */
    } else if (load->status == E_NOT_FOUND) {
        assert(l->absent_n < READ_LOADS_N);
        l->absent[l->absent_n++] = key_hash(load->node.key);
    }
    if (load->status != OK && load->status != E_NOT_FOUND) {
        log_error("an instance cannot be read from the archive: %s (%.*s)",
                  status_text(load->status), (int)load->node.key.len,
                  (const char *)load->node.key.ptr);
        messages_drop(h, load->index, load->node.key);
    }
    unpark(h, load);
}

/* It only wants to see, wherever the instance is. Others look at what waits only, and go on with an
 * instance in memory when nothing does. */
static bool is_read(const struct request *request)
{
    return request->kind == REQUEST_GET || request->kind == REQUEST_HISTORY ||
           request->kind == REQUEST_CHILDREN || request->kind == REQUEST_WAIT;
}

/* True when it was answered, or goes on elsewhere. */
static bool look_at_waiting(struct host *h, const struct look *look)
{
    struct loader *l = &h->loader;
    struct request *request = look->request;
    struct queued waiting;
    uint64_t hash = backlog_hash(h->backlog, request->key);

    if (look->record_status != OK) {
        request_refuse(h, request, look->record_status,
                       "the instance cannot be read from the journal");
        return true;
    }
    if (look->record.len > 0) {
        if (backlog_get(h->backlog, hash, look->waiting.order, &waiting))
            request_see_waiting(h, request, look->record);
        else
            request_run(h, request); /* it has been admitted meanwhile */
        return true;
    }
    request->number = look->waiting.order;
    if (!backlog_find(h->backlog, hash, request->number, &waiting)) {
        if (is_read(request)) return false;
        note_stranger(l, request->key, request->number);
        request_run(h, request); /* it must be in memory */
        return true;
    }
    list_push_back(&l->looks, &request->node);
    l->parked_n++;
    if (request->kind == REQUEST_WAIT) filter_add(&l->waits, (uint64_t)(uintptr_t)request);
    return true;
}

static void use_look(struct host *h, const struct look *look)
{
    struct request *request = look->request;
    struct instance_view view;

    look_end(&h->loader, request);
    if (look->is_cancelled) {
        request_refuse(h, request, E_TIMEOUT, WAIT_OVER);
        return;
    }
    if (look->has_waiting && look_at_waiting(h, look)) return;
    bool is_old = filter_has(&h->loader.left, key_hash(request->key));
    if (is_old || core_view(h->cores[host_index_of(h, request->key)], request->key, &view)) {
        request_run(h, request); /* newer than what was read: looks again */
    } else if (!is_read(request)) {
        request_run(h, request); /* what waited has been admitted: it must be in memory */
    } else if (look->status == OK) {
        request_see(h, request, look->row.snapshot);
    } else if (look->status == E_NOT_FOUND) {
        request_see(h, request, BYTES_NONE);
    } else {
        request_refuse(h, request, look->status, "the instance cannot be read from the archive");
    }
}

void loader_finish(struct host *h)
{
    struct loader *l = &h->loader;
    struct read_job *job = &l->job;

    if (!l->is_done) return;
    l->is_done = false;
    l->absent_n = 0;
    for (uint32_t i = 0; i < job->loads_n; i++) use_load(h, job->loads[i]);
    job->loads_n = 0;
    messages_go_on(h);
    for (uint32_t i = 0; i < job->looks_n; i++) use_look(h, &job->looks[i]);
    job->looks_n = 0;
    if (job->has_due) use_due(h);
    if (job->query != NULL) queries_merge(h);
    job->query = NULL;
    arena_reset(&job->arena);
    l->is_under_way = false;
}

/* What waits with the hash of the key, and comes next. False: it is not durable yet. */
static bool find_waiting(const struct host *h, struct bytes key, uint64_t after_order,
                         bool *has_waiting, struct queued *waiting)
{
    *has_waiting = backlog_n(h->backlog) > 0 &&
                   backlog_find(h->backlog, backlog_hash(h->backlog, key), after_order, waiting);
    return !*has_waiting || waiting->lsn <= h->lsn_durable;
}

/* Those that must become durable first stay in the list: they are the newest, so not many stand
 * before others. */
static void take_loads(struct host *h)
{
    struct loader *l = &h->loader;
    struct list *next = list_first(&l->wanted);

    for (uint32_t n = 0; next != NULL && n < 4 * READ_LOADS_N && l->job.loads_n < READ_LOADS_N;
         n++) {
        struct load *load = load_of_wanted(next);
        next = list_next(&l->wanted, next);
        if (!find_waiting(h, load->node.key, load->checked_order, &load->has_waiting,
                          &load->waiting)) {
            continue;
        }
        load->record = BYTES_NONE;
        load->record_status = OK;
        list_remove(&load->wanted);
        l->job.loads[l->job.loads_n++] = load;
    }
}

static void take_looks(struct host *h)
{
    struct loader *l = &h->loader;
    struct list *next = list_first(&l->looks);

    for (uint32_t n = 0; next != NULL && n < 4 * READ_LOOKS_N && l->job.looks_n < READ_LOOKS_N;
         n++) {
        struct request *request = container_of(next, struct request, node);
        struct look look = {.request = request};
        next = list_next(&l->looks, next);
        if (!find_waiting(h, request->key, request->number, &look.has_waiting, &look.waiting))
            continue;
        list_remove(&request->node);
        l->job.looks[l->job.looks_n++] = look;
    }
}

void loader_turn(struct host *h)
{
    struct loader *l = &h->loader;
    struct read_job *job = &l->job;

    if (l->is_under_way || h->archiver.waits_for_loader) return;
    assert(job->loads_n == 0);
    take_loads(h);
    take_looks(h);
    prepare_due(h);
    job->query = queries_begin(h);
    if (job->loads_n == 0 && job->looks_n == 0 && !job->has_due && job->query == NULL) return;
    filter_clear(&l->left);
    l->is_under_way = true;
    h->env->ops->submit(h->env, LANE_READ, &job->job);
}

bool loader_is_quiet(const struct host *h)
{
    return !h->loader.is_under_way && h->loader.loads.n == 0 && list_is_empty(&h->loader.looks);
}

void loader_give_up(struct host *h, struct list *to)
{
    struct loader *l = &h->loader;

    for (uint32_t i = 0; i < l->job.loads_n; i++) list_splice_back(to, &l->job.loads[i]->parked);
    for (struct list *n = list_first(&l->wanted); n != NULL; n = list_next(&l->wanted, n)) {
        list_splice_back(to, &load_of_wanted(n)->parked);
    }
    for (uint32_t i = 0; i < l->job.looks_n; i++) {
        list_push_back(to, &l->job.looks[i].request->node);
    }
    l->job.looks_n = 0;
    list_splice_back(to, &l->looks);
    l->parked_n = 0;
    filter_clear(&l->waits);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a journal back; the rule is in the header. Nothing that is read is trusted before its
 * checksum held, and memory is bounded by the largest frame that fits into its file.
 */
#include "store/journal_recover.h"

#include "base/assert.h"
#include "base/mem.h"
#include "store/io.h"
#include "store/journal_frame.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOW_SIZE ((uint64_t)1 << 20)
#define SCAN_STEP ((uint64_t)64 << 10)
_Static_assert(SCAN_STEP % FRAME_ALIGNMENT == 0, "every step begins where a frame may begin");
_Static_assert(SCAN_STEP <= WINDOW_SIZE, "a step is read at once");

/* ---- the list of segments ---- */

void segment_list_release(struct segment_list *list)
{
    assert((list->entries != NULL) == (list->capacity > 0));
    assert(list->n <= list->capacity);
    mem_give(list->mem, list->entries, list->capacity * sizeof *list->entries);
    *list = (struct segment_list){.mem = list->mem};
}

bool segment_list_reserve(struct segment_list *list)
{
    assert(list->n <= list->capacity);
    if (list->n < list->capacity) return true;
    size_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
    struct segment_entry *entries = mem_resize(
        list->mem, list->entries, list->capacity * sizeof *entries, capacity * sizeof *entries);
    if (entries == NULL) return false;
    list->entries = entries;
    list->capacity = capacity;
    assert(list->n < list->capacity);
    return true;
}

void segment_list_add(struct segment_list *list, struct segment_entry entry)
{
    assert(list->n < list->capacity);
    assert(entry.first_lsn > 0);
    assert(entry.size > SEGMENT_HEADER_SIZE);
    assert(list->n == 0 || list->entries[list->n - 1].first_lsn < entry.first_lsn);
    list->entries[list->n++] = entry;
}

void segment_list_remove_first(struct segment_list *list)
{
    assert(list->n > 0);
    assert(list->n <= list->capacity);
    list->n--;
    memmove(list->entries, list->entries + 1, list->n * sizeof *list->entries);
}

/* ---- a window on a file ---- */

struct window {
    struct io *io;
    struct io_file *file;
    uint64_t size;       /* of the file */
    uint64_t at;         /* offset of the first byte of bytes */
    struct buffer bytes; /* kept from file to file */
};

/* *out: len bytes of the file, until the next call. They must be within the file. */
static enum status window_view(struct window *w, uint64_t offset, uint64_t len, const uint8_t **out)
{
    assert(w->file != NULL);
    assert(offset <= w->size);
    assert(len <= w->size - offset);
    if (offset < w->at || offset + len > w->at + w->bytes.len) {
        uint64_t want = len > WINDOW_SIZE ? len : WINDOW_SIZE;
        if (want > w->size - offset) want = w->size - offset;
        buffer_clear(&w->bytes);
        if (!buffer_reserve(&w->bytes, (size_t)want)) return E_NOMEM;
        size_t got = 0;
        enum status status =
            w->io->ops->read(w->io, w->file, offset, w->bytes.ptr, (size_t)want, &got);
        if (status != OK) return status;
        if (got != want) return E_IO; /* somebody cuts the file under our hands */
        w->bytes.len = got;
        w->at = offset;
    }
    assert(w->at <= offset);
    assert(offset + len <= w->at + w->bytes.len);
    *out = w->bytes.ptr + (offset - w->at);
    return OK;
}

/* ---- refusing ---- */

__attribute__((format(printf, 4, 5))) static enum status refuse(struct recovery *r,
                                                                uint64_t segment_lsn,
                                                                uint64_t offset, const char *format,
                                                                ...)
{
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);

    char path[SEGMENT_PATH_SIZE];
    segment_path(r->directory, segment_lsn, path);
    (void)snprintf(r->report->damage, sizeof r->report->damage,
                   "%.60s, offset %" PRIu64 ": %s. Nothing was changed; keep a copy of the "
                   "directory and restore it from a backup.",
                   path, offset, what);
    assert(r->report->damage[0] != 0); /* a refusal says why */
    return E_CORRUPT;
}

static enum status refuse_newer(struct recovery *r, uint64_t segment_lsn, uint64_t offset)
{
    char path[SEGMENT_PATH_SIZE];
    segment_path(r->directory, segment_lsn, path);
    (void)snprintf(r->report->damage, sizeof r->report->damage,
                   "%.60s, offset %" PRIu64 ": written by a newer program (this one knows format "
                   "%d). Nothing was changed; use the newer program.",
                   path, offset, JOURNAL_FORMAT_VERSION);
    assert(r->report->damage[0] != 0);
    return E_VERSION;
}

/* ---- what is behind the last frame ---- */

/* Index of the first word of 8 bytes that is not zero, or len. */
static uint64_t first_nonzero(const uint8_t *bytes, uint64_t len)
{
    uint64_t i = 0;
    while (i + 8 <= len && load_u64(bytes + i) == 0) i += 8;
    for (uint64_t k = i; k < len && k < i + 8; k++) {
        if (bytes[k] != 0) return i;
    }
    return i + 8 <= len ? i : len;
}

/* What a search behind the last frame looks for. */
struct search {
    uint64_t least_lsn;
    const uint32_t *seed; /* of the segment; NULL when it is lost */
};

/* Whether such a frame begins here. With the seed its header says so; without it, the header and
 * the payload together. */
static enum status is_later_frame(const struct search *search, struct window *w, uint64_t offset,
                                  bool *found)
{
    assert(search->least_lsn > 0);
    assert(offset % FRAME_ALIGNMENT == 0);
    assert(offset < w->size);
    *found = false;
    if (w->size - offset < FRAME_HEADER_SIZE) return OK;
    const uint8_t *bytes;
    enum status status = window_view(w, offset, FRAME_HEADER_SIZE, &bytes);
    if (status != OK) return status;

    struct frame_header header;
    if (search->seed != NULL) {
        enum frame_verdict verdict = frame_decode_header(bytes, *search->seed, &header);
        *found =
            verdict == FRAME_NEWER || (verdict == FRAME_VALID && header.lsn >= search->least_lsn);
        return OK;
    }
    if (!frame_guess_header(bytes, &header) || header.lsn < search->least_lsn) return OK;
    if (header.payload_len > w->size - offset - FRAME_HEADER_SIZE) return OK;
    status = window_view(w, offset + FRAME_HEADER_SIZE, header.payload_len, &bytes);
    if (status != OK) return status;
    *found = frame_holds(&header, bytes_make(bytes, header.payload_len));
    return OK;
}

/* Looks through the file from `offset` on. *tail_end: behind its last word that is not zero;
 * *found_at: where such a frame is, or the size of the file. */
static enum status scan_tail(const struct search *search, struct window *w, uint64_t offset,
                             uint64_t *tail_end, uint64_t *found_at)
{
    assert(offset % FRAME_ALIGNMENT == 0);
    assert(offset <= w->size);
    *tail_end = offset;
    *found_at = w->size;
    while (offset < w->size) {
        uint64_t len = w->size - offset < SCAN_STEP ? w->size - offset : SCAN_STEP;
        const uint8_t *bytes;
        enum status status = window_view(w, offset, len, &bytes);
        if (status != OK) return status;
        uint64_t zeros = first_nonzero(bytes, len);
        assert(zeros <= len);
        offset += zeros;
        if (zeros == len) continue;

        bool found;
        status = is_later_frame(search, w, offset, &found);
        if (status != OK) return status;
        if (found) {
            *found_at = offset;
            return OK;
        }
        offset = offset + 8 < w->size ? offset + 8 : w->size;
        *tail_end = offset;
    }
    assert(offset == w->size);
    assert(*tail_end <= *found_at);
    return OK;
}

/* ---- one segment ---- */

static enum status check_order(struct recovery *r, uint64_t segment_lsn, uint64_t offset,
                               const struct frame_header *header)
{
    const struct journal_position *p = &r->position;
    if (header->lsn != p->next_lsn) {
        return refuse(r, segment_lsn, offset, "frame %" PRIu64 " where %" PRIu64 " is expected",
                      header->lsn, p->next_lsn);
    }
    if (header->chain != p->chain) {
        return refuse(r, segment_lsn, offset,
                      "frame %" PRIu64 " does not continue the frame before it", header->lsn);
    }
    if (header->epoch < p->epoch) {
        return refuse(r, segment_lsn, offset,
                      "frame %" PRIu64 " has epoch %" PRIu32 " after %" PRIu32, header->lsn,
                      header->epoch, p->epoch);
    }
    if (header->time_ns < p->time_ns) {
        return refuse(r, segment_lsn, offset, "frame %" PRIu64 " is older than the frame before it",
                      header->lsn);
    }
    return OK;
}

static enum status deliver(struct recovery *r, const struct frame_header *header,
                           struct bytes payload)
{
    struct journal_report *report = r->report;
    assert(header->lsn == r->position.next_lsn); /* check_order() has seen it */
    assert(header->lsn == report->last_lsn + 1);
    assert(header->epoch >= report->last_epoch);
    assert(header->time_ns >= report->last_time_ns);
    assert(payload.len == header->payload_len);
    if (report->first_lsn == 0) report->first_lsn = header->lsn;
    report->last_lsn = header->lsn;
    report->last_epoch = header->epoch;
    report->last_time_ns = header->time_ns;
    if (header->lsn <= r->after_lsn) return OK;

    report->frames_n++;
    return r->fn(r->user, &(struct journal_frame){.lsn = header->lsn,
                                                  .epoch = header->epoch,
                                                  .time_ns = header->time_ns,
                                                  .payload = payload});
}

static enum status stop_at(struct recovery *r, const char *reason, bool *is_end)
{
    assert(reason != NULL);
    assert(!*is_end);
    r->stop_reason = reason;
    *is_end = true;
    return OK;
}

/* The frame at r->at, if there is one that holds; *is_end otherwise. */
static enum status take_frame(struct recovery *r, struct window *w, uint64_t segment_lsn,
                              bool *is_end)
{
    assert(r->at >= SEGMENT_HEADER_SIZE);
    assert(r->at % FRAME_ALIGNMENT == 0);
    assert(r->at <= w->size);
    *is_end = false;
    uint64_t left = w->size - r->at;
    if (left < FRAME_HEADER_SIZE) return stop_at(r, "the file ends", is_end);
    const uint8_t *bytes;
    enum status status = window_view(w, r->at, FRAME_HEADER_SIZE, &bytes);
    if (status != OK) return status;

    struct frame_header header;
    switch (frame_decode_header(bytes, r->seed, &header)) {
    case FRAME_ABSENT: return stop_at(r, "no frame begins here", is_end);
    case FRAME_DAMAGED: return stop_at(r, "damaged frame header", is_end);
    case FRAME_NEWER: return refuse_newer(r, segment_lsn, r->at);
    case FRAME_VALID: break;
    }
    status = check_order(r, segment_lsn, r->at, &header);
    if (status != OK) return status;

    uint64_t size = frame_size(header.payload_len);
    if (size > left) return stop_at(r, "the frame is longer than the file", is_end);
    status = window_view(w, r->at, size, &bytes);
    if (status != OK) return status;
    struct bytes payload = bytes_make(bytes + FRAME_HEADER_SIZE, header.payload_len);
    if (!frame_holds(&header, payload)) return stop_at(r, "damaged payload", is_end);

    status = deliver(r, &header, payload);
    if (status != OK) return status;
    r->position = (struct journal_position){
        .next_lsn = header.lsn + 1,
        .chain = frame_chain_after(bytes),
        .epoch = header.epoch,
        .time_ns = header.time_ns,
    };
    r->at += size;
    return OK;
}

static enum status walk_frames(struct recovery *r, struct window *w, uint64_t segment_lsn)
{
    assert(w->size >= SEGMENT_HEADER_SIZE);
    r->at = SEGMENT_HEADER_SIZE;
    for (bool is_end = false; !is_end;) {
        enum status status = take_frame(r, w, segment_lsn, &is_end);
        if (status != OK) return status;
    }
    assert(r->at <= w->size);
    assert(r->stop_reason != NULL);

    /* The frame that was not taken may itself have a valid header: its payload was torn. */
    struct search search = {.least_lsn = r->position.next_lsn + 1, .seed = &r->seed};
    uint64_t found_at;
    enum status status = scan_tail(&search, w, r->at, &r->tail_end, &found_at);
    if (status != OK) return status;
    if (found_at < w->size) {
        return refuse(r, segment_lsn, r->at,
                      "frame %" PRIu64
                      " is damaged (%s), but a later frame follows at offset %" PRIu64,
                      r->position.next_lsn, r->stop_reason, found_at);
    }
    assert(r->tail_end >= r->at);
    assert(r->tail_end <= w->size);
    return OK;
}

/* The first segment says where the journal begins. */
static enum status begin_chain(struct recovery *r, const struct segment_header *header)
{
    assert(header->first_lsn > 0);
    assert(header->first_lsn == r->segments.entries[0].first_lsn);
    assert(r->report->first_lsn == 0); /* no frame was taken yet */
    if (header->first_lsn > r->after_lsn + 1) {
        return refuse(r, header->first_lsn, 0,
                      "the journal begins here, but frame %" PRIu64 " is needed", r->after_lsn + 1);
    }
    r->position = (struct journal_position){
        .next_lsn = header->first_lsn,
        .chain = header->chain,
        .epoch = header->epoch_before,
        .time_ns = header->time_before_ns,
    };
    r->report->last_lsn = header->first_lsn - 1;
    r->report->last_epoch = header->epoch_before;
    r->report->last_time_ns = header->time_before_ns;
    return OK;
}

static enum status continue_chain(struct recovery *r, size_t i, const struct segment_header *header)
{
    assert(i > 0);
    assert(i < r->segments.n);
    assert(r->stop_reason != NULL); /* the segment before was walked to its end */
    const struct journal_position *p = &r->position;
    if (header->first_lsn != p->next_lsn) {
        return refuse(r, r->segments.entries[i - 1].first_lsn, r->at,
                      "frame %" PRIu64 " is missing or damaged (%s), but the next segment begins "
                      "with %" PRIu64,
                      p->next_lsn, r->stop_reason, header->first_lsn);
    }
    if (header->chain != p->chain || header->epoch_before != p->epoch ||
        header->time_before_ns != p->time_ns) {
        return refuse(r, header->first_lsn, 0, "the segment does not continue the one before it");
    }
    return OK;
}

/* *is_whole: it has a header, and the header fits to what was read before. */
static enum status enter_segment(struct recovery *r, size_t i, struct window *w, bool *is_whole)
{
    assert(i < r->segments.n);
    uint64_t segment_lsn = r->segments.entries[i].first_lsn;
    *is_whole = false;
    if (w->size < SEGMENT_HEADER_SIZE) return OK;
    const uint8_t *bytes;
    enum status status = window_view(w, 0, SEGMENT_HEADER_SIZE, &bytes);
    if (status != OK) return status;

    struct segment_header header;
    switch (segment_decode_header(bytes, &header)) {
    case SEGMENT_DAMAGED: return OK;
    case SEGMENT_NEWER: return refuse_newer(r, segment_lsn, 0);
    case SEGMENT_VALID: break;
    }
    if (header.first_lsn != segment_lsn) {
        return refuse(r, segment_lsn, 0, "the header belongs to segment %016" PRIx64,
                      header.first_lsn);
    }
    status = i == 0 ? begin_chain(r, &header) : continue_chain(r, i, &header);
    if (status != OK) return status;
    r->seed = segment_seed(&header);
    if (header.size > w->size) r->report->missing_bytes += header.size - w->size;
    *is_whole = true;
    return OK;
}

/* A file named like a segment and without its header. Harmless only where the next segment would be
 * begun, and only without anything in it. */
static enum status judge_unborn(struct recovery *r, size_t i, struct window *w)
{
    assert(i < r->segments.n);
    assert(!r->has_unborn);
    uint64_t segment_lsn = r->segments.entries[i].first_lsn;
    if (i + 1 < r->segments.n) {
        return refuse(r, segment_lsn, 0, "damaged segment header, but later segments follow");
    }
    if (segment_lsn != r->position.next_lsn) {
        return refuse(r, segment_lsn, 0, "damaged segment header, and frame %" PRIu64 " is missing",
                      r->position.next_lsn);
    }
    struct search search = {.least_lsn = segment_lsn};
    uint64_t tail_end;
    uint64_t found_at;
    enum status status = scan_tail(&search, w, 0, &tail_end, &found_at);
    if (status != OK) return status;
    if (found_at < w->size) {
        return refuse(r, segment_lsn, 0,
                      "damaged segment header, but a frame follows at offset %" PRIu64, found_at);
    }
    r->report->truncated_bytes += tail_end;
    r->has_unborn = true;
    return OK;
}

static enum status read_open_segment(struct recovery *r, size_t i, struct window *w)
{
    assert(w->bytes.len == 0); /* nothing is left of the file before */
    enum status status = r->io->ops->size(r->io, w->file, &w->size);
    if (status != OK) return status;
    r->segments.entries[i].size = w->size;

    bool is_whole;
    status = enter_segment(r, i, w, &is_whole);
    if (status != OK) return status;
    if (!is_whole) return judge_unborn(r, i, w);
    return walk_frames(r, w, r->segments.entries[i].first_lsn);
}

static enum status read_segment(struct recovery *r, size_t i, struct window *w)
{
    const struct segment_entry *entries = r->segments.entries;
    assert(i < r->segments.n);
    assert(i == 0 || entries[i - 1].first_lsn <= entries[i].first_lsn);
    char path[SEGMENT_PATH_SIZE];
    segment_path(r->directory, entries[i].first_lsn, path);
    enum status status = r->io->ops->open(r->io, path, IO_READ, &w->file);
    if (status != OK) return status;

    buffer_clear(&w->bytes);
    w->at = 0;
    status = read_open_segment(r, i, w);
    r->io->ops->close(r->io, w->file);
    return status;
}

static enum status read_named_segment(struct recovery *r, size_t i, struct window *w)
{
    enum status status = read_segment(r, i, w);

    if (status == E_IO && r->report->damage[0] == 0) {
        char path[SEGMENT_PATH_SIZE];
        segment_path(r->directory, r->segments.entries[i].first_lsn, path);
        (void)snprintf(r->report->damage, sizeof r->report->damage, "%s cannot be read", path);
    }
    return status;
}

/* ---- the whole ---- */

static enum status collect_name(void *user, const char *name)
{
    struct recovery *r = user;
    uint64_t first_lsn;
    if (!segment_parse_name(name, &first_lsn)) return OK; /* the spare, or not ours */
    assert(first_lsn > 0);
    if (!segment_list_reserve(&r->segments)) return E_NOMEM;
    r->segments.entries[r->segments.n++] = (struct segment_entry){.first_lsn = first_lsn};
    return OK;
}

static int compare_entries(const void *a, const void *b)
{
    const struct segment_entry *x = a;
    const struct segment_entry *y = b;
    return x->first_lsn < y->first_lsn ? -1 : x->first_lsn > y->first_lsn;
}

/* What the archive has applied was durable here before. */
static enum status check_end(struct recovery *r)
{
    assert(r->position.next_lsn > 0);
    uint64_t last_lsn = r->position.next_lsn - 1;
    assert(last_lsn == r->report->last_lsn);
    if (last_lsn >= r->after_lsn) return OK;
    (void)snprintf(r->report->damage, sizeof r->report->damage,
                   "%.60s: the journal ends with frame %" PRIu64 ", but frames up to %" PRIu64
                   " have been archived. Nothing was changed; keep a copy of the directory and "
                   "restore it from a backup.",
                   r->directory, last_lsn, r->after_lsn);
    return E_CORRUPT;
}

enum status recovery_read(struct recovery *r)
{
    assert(r->fn != NULL);
    assert(r->segments.n == 0);
    assert(r->report->frames_n == 0);
    assert(r->report->last_lsn == 0);
    r->segments.mem = r->mem;
    r->position = (struct journal_position){.next_lsn = 1};

    enum status status = r->io->ops->list(r->io, r->directory, collect_name, r);
    if (status != OK) return status;
    if (r->segments.n > 1) {
        qsort(r->segments.entries, r->segments.n, sizeof *r->segments.entries, compare_entries);
    }

    struct window w = {.io = r->io};
    buffer_init(&w.bytes, r->mem);
    for (size_t i = 0; i < r->segments.n && status == OK; i++) {
        status = read_named_segment(r, i, &w);
    }
    buffer_release(&w.bytes);
    if (status != OK) return status;

    status = check_end(r);
    assert(r->tail_end >= r->at);
    if (status == OK) r->report->truncated_bytes += r->tail_end - r->at;
    return status;
}

/* ---- repairing ---- */

static enum status write_zeros(struct recovery *r, struct io_file *file, uint64_t from, uint64_t to)
{
    static const uint8_t zeros[4096];
    assert(from >= SEGMENT_HEADER_SIZE);
    assert(from <= to);
    while (from < to) {
        uint64_t len = to - from < sizeof zeros ? to - from : sizeof zeros;
        enum status status = r->io->ops->write(r->io, file, from, zeros, (size_t)len);
        if (status != OK) return status;
        from += len;
    }
    return OK;
}

static enum status remove_unborn(struct recovery *r)
{
    assert(r->has_unborn);
    assert(r->segments.n > 0);
    /* No frame is in it: it carries the number of the one to come. */
    assert(r->segments.entries[r->segments.n - 1].first_lsn == r->position.next_lsn);
    char path[SEGMENT_PATH_SIZE];
    segment_path(r->directory, r->segments.entries[r->segments.n - 1].first_lsn, path);
    enum status status = r->io->ops->unlink(r->io, path);
    if (status != OK) return status;
    r->segments.n--;
    r->has_unborn = false;
    return OK;
}

/* What was read may be in the kernel's memory only: the process before us may have been killed
 * between its write and its sync. From now on it is acted upon, so it must be as durable as if we
 * had written it ourselves; the same holds for the name of the segment. */
static enum status make_durable(struct recovery *r, struct io_file *file)
{
    enum status status = r->io->ops->datasync(r->io, file);
    if (status != OK) return status;
    return r->io->ops->sync_directory(r->io, r->directory);
}

enum status recovery_repair(struct recovery *r, struct segment *active)
{
    assert(r->report->damage[0] == 0);
    *active = (struct segment){0};
    if (r->has_unborn) {
        enum status status = remove_unborn(r);
        if (status != OK) return status;
    }
    if (r->segments.n == 0) return r->io->ops->sync_directory(r->io, r->directory);

    const struct segment_entry *last = &r->segments.entries[r->segments.n - 1];
    assert(last->first_lsn <= r->position.next_lsn);
    assert(r->tail_end <= last->size);
    char path[SEGMENT_PATH_SIZE];
    segment_path(r->directory, last->first_lsn, path);
    struct io_file *file;
    enum status status = r->io->ops->open(r->io, path, IO_WRITE, &file);
    if (status != OK) return status;

    status = write_zeros(r, file, r->at, r->tail_end);
    if (status == OK) status = make_durable(r, file);
    if (status != OK) {
        r->io->ops->close(r->io, file);
        return status;
    }
    *active = (struct segment){
        .file = file, .seed = r->seed, .size = last->size, .at = r->at, .zeroed_to = r->at};
    return OK;
}

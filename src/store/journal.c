/* SPDX-License-Identifier: Apache-2.0
 *
 * What is common to all journals: the order of calls, of LSNs, epochs and times, and that a journal
 * which failed once never answers OK again.
 */
#include "store/journal.h"

#include "base/assert.h"

enum status journal_replay(struct journal *j, uint64_t after_lsn, journal_replay_fn *fn, void *user,
                           struct journal_report *report)
{
    assert(fn != NULL);
    assert(report != NULL);
    assert(!j->is_replayed);
    *report = (struct journal_report){0};
    if (j->is_failed) return E_IO;

    enum status status = j->ops->replay(j, after_lsn, fn, user, report);
    if (status != OK) {
        j->is_failed = true;
        return status;
    }
    assert(report->last_lsn >= after_lsn);
    assert(report->first_lsn <= after_lsn + 1);
    assert(report->last_lsn <= JOURNAL_LSN_MAX);
    assert(report->frames_n == report->last_lsn - after_lsn);
    j->last_lsn = report->last_lsn;
    j->last_epoch = report->last_epoch;
    j->last_time_ns = report->last_time_ns;
    j->is_replayed = true;
    return OK;
}

enum status journal_append(struct journal *j, const struct journal_frame *frame)
{
    assert(frame->payload.ptr != NULL || frame->payload.len == 0);
    if (j->is_failed) return E_IO;
    assert(j->is_replayed);
    assert(frame->lsn == j->last_lsn + 1);
    assert(frame->time_ns >= j->last_time_ns);
    if (frame->epoch < j->last_epoch) return E_STALE;
    if (frame->payload.len > JOURNAL_FRAME_SIZE_MAX) return E_LIMIT;

    enum status status = j->ops->append(j, frame);
    if (status == E_NOSPACE || status == E_NOMEM) return status;
    if (status != OK) {
        j->is_failed = true;
        return E_IO;
    }
    j->last_lsn = frame->lsn;
    j->last_epoch = frame->epoch;
    j->last_time_ns = frame->time_ns;
    return OK;
}

enum status journal_trim(struct journal *j, uint64_t upto_lsn)
{
    if (j->is_failed) return E_IO;
    assert(j->is_replayed);
    assert(upto_lsn <= j->last_lsn);
    return j->ops->trim(j, upto_lsn);
}

void journal_usage(struct journal *j, uint64_t *bytes, bool *has_spare)
{
    assert(bytes != NULL);
    assert(has_spare != NULL);
    j->ops->usage(j, bytes, has_spare);
}

uint64_t journal_space(struct journal *j) { return j->ops->space(j); }

enum status journal_open_reader(struct journal *j, struct mem *mem, struct journal_reader **out)
{
    assert(mem != NULL);
    return j->ops->open_reader(j, mem, out);
}

enum status journal_reader_read(struct journal_reader *r, uint64_t lsn, struct buffer *out)
{
    assert(lsn > 0);
    size_t before = out->len;
    enum status status = r->ops->read(r, lsn, out);
    if (status == OK && out->failed) status = E_NOMEM;
    if (status != OK) {
        out->len = before;
        out->failed = false;
    }
    return status;
}

void journal_reader_close(struct journal_reader *r)
{
    if (r != NULL) r->ops->close(r);
}

void journal_close(struct journal *j)
{
    assert(j->ops != NULL);
    j->ops->close(j);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A journal that passes every call on to another and writes it down with its answer, one line each.
 */
#include "store/journal.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct journal_trace {
    struct journal journal;
    struct journal *inner;
    store_trace_fn *line;
    void *user;
};

static const struct journal_ops trace_ops;

static struct journal_trace *trace_of(struct journal *j)
{
    assert(j->ops == &trace_ops);
    return container_of(j, struct journal_trace, journal);
}

__attribute__((format(printf, 2, 3))) static void trace(struct journal_trace *t, const char *format,
                                                        ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(length > 0);
    assert((size_t)length < sizeof text); /* numbers and names of our own */
    t->line(t->user, text);
}

static enum status trace_replay(struct journal *j, uint64_t after_lsn, journal_replay_fn *fn,
                                void *user, struct journal_report *report)
{
    struct journal_trace *t = trace_of(j);
    enum status status = journal_replay(t->inner, after_lsn, fn, user, report);
    assert(t->inner->is_replayed == (status == OK));
    trace(t, "replay after=%" PRIu64 " -> %s frames=%" PRIu64 " last=%" PRIu64 " cut=%" PRIu64,
          after_lsn, status_name(status), report->frames_n, report->last_lsn,
          report->truncated_bytes);
    return status;
}

static enum status trace_append(struct journal *j, const struct journal_frame *frame)
{
    struct journal_trace *t = trace_of(j);
    enum status status = journal_append(t->inner, frame);
    assert((t->inner->last_lsn == frame->lsn) == (status == OK));
    trace(t, "append lsn=%" PRIu64 " epoch=%" PRIu32 " time=%" PRId64 " size=%zu -> %s", frame->lsn,
          frame->epoch, frame->time_ns, frame->payload.len, status_name(status));
    return status;
}

static enum status trace_trim(struct journal *j, uint64_t upto_lsn)
{
    struct journal_trace *t = trace_of(j);
    enum status status = journal_trim(t->inner, upto_lsn);
    trace(t, "trim upto=%" PRIu64 " -> %s", upto_lsn, status_name(status));
    j->is_failed = t->inner->is_failed;
    return status;
}

static void trace_usage(struct journal *j, uint64_t *bytes, bool *has_spare)
{
    struct journal_trace *t = trace_of(j);
    journal_usage(t->inner, bytes, has_spare);
    trace(t, "usage -> bytes=%" PRIu64 " spare=%d", *bytes, *has_spare);
}

static uint64_t trace_space(struct journal *j) { return journal_space(trace_of(j)->inner); }

/* What is read is not written down: it is read on another thread. */
static enum status trace_open_reader(struct journal *j, struct mem *mem,
                                     struct journal_reader **out)
{
    return journal_open_reader(trace_of(j)->inner, mem, out);
}

static void trace_close(struct journal *j)
{
    struct journal_trace *t = trace_of(j);
    trace(t, "close");
    journal_close(t->inner);
    mem_give(mem_process(), t, sizeof *t);
}

static const struct journal_ops trace_ops = {
    .name = "trace",
    .replay = trace_replay,
    .append = trace_append,
    .trim = trace_trim,
    .usage = trace_usage,
    .space = trace_space,
    .open_reader = trace_open_reader,
    .close = trace_close,
};

enum status journal_trace_open(struct journal *inner, store_trace_fn *line, void *user,
                               struct journal **out)
{
    assert(inner != NULL);
    assert(line != NULL);
    struct journal_trace *t = mem_take_zero(mem_process(), sizeof *t);
    if (t == NULL) return E_NOMEM;
    t->journal.ops = &trace_ops;
    t->inner = inner;
    t->line = line;
    t->user = user;
    *out = &t->journal;
    return OK;
}

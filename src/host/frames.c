/* SPDX-License-Identifier: Apache-2.0
 *
 * See frames.h.
 */
#include "host/frames.h"

#define FRAME_KEEP_SIZE ((size_t)4 << 20)

enum status frames_init(struct frames *f, struct journal *journal)
{
    mem_init(&f->mem, SIZE_MAX);
    buffer_init(&f->frame, &f->mem);
    return journal_open_reader(journal, &f->mem, &f->reader);
}

void frames_release(struct frames *f)
{
    if (f->frame.mem == NULL) return; /* never initialised */
    journal_reader_close(f->reader);
    buffer_release(&f->frame);
    mem_release(&f->mem);
}

enum status frames_get(struct frames *f, const struct queued *waiting, struct bytes *out)
{
    if (f->lsn != waiting->lsn) {
        buffer_clear(&f->frame);
        f->lsn = 0;
        enum status status = journal_reader_read(f->reader, waiting->lsn, &f->frame);
        if (status != OK) return status;
        f->lsn = waiting->lsn;
    }
    if (waiting->offset > f->frame.len || waiting->size > f->frame.len - waiting->offset) {
        return E_CORRUPT;
    }
    *out = bytes_make(f->frame.ptr + waiting->offset, waiting->size);
    return OK;
}

void frames_rest(struct frames *f)
{
    if (f->frame.size <= FRAME_KEEP_SIZE) return;
    buffer_release(&f->frame);
    f->lsn = 0;
}

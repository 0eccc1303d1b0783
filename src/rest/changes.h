/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest changes of instances, for those who read them as server-sent events. Numbered; each
 * reader stands at a number of its own and reads as fast as its peer does. What is old goes,
 * whoever has not read it: such a reader is told that there is a gap.
 *
 *      feed (hosts' threads) ──bell──> pages, oldest first ──> readers
 *
 * Nobody collects changes while nobody reads, and for a while after the last one left: so that one
 * whose connection broke can go on where it was.
 */
#ifndef REST_CHANGES_H
#define REST_CHANGES_H

#include "rest/state.h"

#define READERS_N_MAX 1000u /* streams at once; 503 beyond */

struct changes;

/* Somebody who reads, or who only wants to hear of one instance. */
struct reader_of_changes {
    struct list node; /* in changes.readers; the module's */
    /* There is something new, or there may be. May end the reader. */
    void (*news)(struct reader_of_changes *reader);
    uint64_t next;          /* the number it reads next */
    struct feed_page *page; /* where it read last; NULL: to be found */
    uint64_t page_first; /* its first number: the page is gone when that is older than the oldest */
    size_t offset;       /* in page->bytes */
};

/* E_NOMEM. feed NULL: there are never any. */
enum status changes_new(struct rest *r, struct changes **out);
void changes_free(struct changes *c);
/* After the bell. */
void changes_collect(struct changes *c);
/* When nobody has read for long enough. Answers when to call again. */
int64_t changes_tick(struct changes *c, int64_t now_ns);

/* Begins at what comes from now on. False: there are too many. */
bool changes_join(struct changes *c, struct reader_of_changes *reader);
void changes_leave(struct changes *c, struct reader_of_changes *reader);

enum changes_next {
    CHANGES_ENTRY,
    CHANGES_NONE, /* there is nothing new */
    CHANGES_GAP,  /* what it would have read is gone; it stands at what comes next */
};
/* *number: of the entry. The entry is borrowed until the next collect. */
enum changes_next changes_read(struct changes *c, struct reader_of_changes *reader,
                               struct feed_entry *entry, uint64_t *number);

/* A number as an event's id, which tells this process from others; and back. CHANGES_ID_SIZE with
 * the final NUL. */
#define CHANGES_ID_SIZE 40
void changes_id(const struct changes *c, uint64_t number, char out[CHANGES_ID_SIZE]);
/* The reader goes on behind this id. False: it is of another process, or too old: there is a
 * gap. */
bool changes_seek(struct changes *c, struct reader_of_changes *reader, struct bytes id);
/* The number of the newest there is. */
uint64_t changes_newest(const struct changes *c);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest changes of instances, for those who read them as server-sent events. Numbered; each
 * reader stands at a number of its own and reads as fast as its peer does. What is old goes,
 * whoever has not read it: such a reader is told that there is a gap.
 *
 *      feed (hosts' threads) ──bell──> pages, oldest first ──> readers, a part each, in turn
 *                                            └──by key──> watchers of one instance
 *
 * A thousand readers cost more than all else there is to do: they get a share of the thread, and
 * who does not come along with that share has gaps. Who only watches an instance reads nothing.
 *
 * Nobody collects changes while nobody reads, and for a while after the last one left: so that one
 * whose connection broke can go on where it was.
 */
#ifndef REST_CHANGES_H
#define REST_CHANGES_H

#include "rest/state.h"

#define READERS_N_MAX 1000u /* streams at once; 503 beyond */

struct changes;

struct reader_of_changes {
    struct list node; /* in changes.readers or due; the module's */
    /* There is something new, or there may be: one part of it may be read now. May end the reader.
     * True: it can go on with the next part. */
    bool (*news)(struct reader_of_changes *reader);
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
/* It can go on: its turn comes. */
void changes_wake(struct changes *c, struct reader_of_changes *reader);

enum changes_next {
    CHANGES_ENTRY,
    CHANGES_NONE, /* there is nothing new */
    CHANGES_GAP,  /* what it would have read is gone; it stands at what comes next */
};
/* *number: of the entry. The entry is borrowed until the next collect. */
enum changes_next changes_read(struct changes *c, struct reader_of_changes *reader,
                               struct feed_entry *entry, uint64_t *number);

/* The same for who reads all changes of a hub: the texts of the next few, made once for all who
 * stand at the same place. Borrowed until the next call; may be empty. Without memory there is a
 * gap. */
typedef void change_write_fn(const struct changes *c, struct buffer *out, uint64_t number,
                             const struct feed_entry *entry);
enum changes_next changes_read_texts(struct changes *c, struct reader_of_changes *reader,
                                     struct bytes hub, change_write_fn *write, struct bytes *out);

/* Somebody who wants to hear of one instance. Those of the same one are a group; the first of it,
 * who came last, may do something for all. */
struct watched;
struct watcher_of_changes {
    struct list node; /* in its group; the module's */
    struct watched *group;
    void (*news)(struct watcher_of_changes *watcher);     /* by the feed, or by the first */
    void (*is_first)(struct watcher_of_changes *watcher); /* from now on; not told when it joins */
};
/* Counts as a reader. False: there are too many, or no memory. */
bool changes_watch(struct changes *c, struct watcher_of_changes *watcher, struct bytes key);
void changes_unwatch(struct changes *c, struct watcher_of_changes *watcher);
bool changes_is_first(const struct watcher_of_changes *watcher);
void changes_tell_others(struct watcher_of_changes *watcher);
/* Another one is the first from now on, when there is one. */
void changes_step_back(struct watcher_of_changes *watcher);

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

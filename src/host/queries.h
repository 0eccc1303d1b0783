/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists. A page is what memory has, merged with what the archive has and memory has not, and with
 * the starts that wait in the journal, in the order of (time, id) or, newest first, in the other
 * one. One list is read at a time; the others wait.
 *
 * Why an instance that matches during the whole scan appears exactly once: the order is by times
 * that never change, the next page begins after the last row of this one, and at the moment of the
 * merge every instance is in memory, or left memory while the archive was read (then its last view
 * was kept), or was in the archive when that was read.
 */
#ifndef HOST_QUERIES_H
#define HOST_QUERIES_H

#include "base/mem.h"
#include "host/frames.h"
#include "host/request.h"
#include "store/archive.h"

struct host;

/* A row that may be on the page. */
struct candidate {
    struct candidate *next;
    int64_t time_ms;
    uint64_t order; /* of one that waits; else 0 */
    struct bytes id;
    struct instance_view view;
};

/* Starts that wait are read in such parts. More of one millisecond than this are not listed: a
 * turn takes a tenth of it. */
#define QUERY_WAITING_N 16384u
#define QUERY_WAITING_LEAST_N 2048u

struct query {
    struct request *request;            /* NULL: no list is being read */
    struct archive_query archive_query; /* its position moves on as the archive is read */
    uint32_t limit;
    bool want_payloads;
    /* Starts that wait in the journal and may be on the page. */
    struct queued *waiting; /* QUERY_WAITING_N, while a list is being read */
    size_t waiting_n;
    bool is_waiting_cut;      /* there are more: what is of this time, or comes */
    int64_t waiting_bound_ms; /* after it, is not on this page */
    /* The lane's, while the job is under way. */
    struct mem read_mem;
    struct arena read_arena;
    struct candidate *waiting_rows; /* from the journal */
    struct candidate *rows;         /* from the archive, last first */
    struct candidate *row_last;
    uint32_t rows_n;
    size_t read_size; /* of their snapshots */
    bool is_cut;      /* the page was as large as may be before it had all its rows */
    enum status status;
    /* The host's. */
    struct arena arena;
    struct candidate *left; /* matching ones that left memory meanwhile */
    bool is_void;           /* more than could be kept */
    struct buffer position; /* id of archive_query.after_id, once it has moved */
};

struct queries {
    struct list waiting; /* requests */
    struct query query;
};

void queries_init(struct host *h);
void queries_release(struct host *h);
void queries_add(struct host *h, struct request *request);
/* The query whose next page of the archive should be read; NULL when there is none. */
struct query *queries_begin(struct host *h);
/* In the lane: reads it. */
void queries_read(struct query *q, struct archive *archive, struct frames *frames);
/* The archive was read: answers, or goes on reading. */
void queries_merge(struct host *h);
/* It may leave memory now, perhaps while the archive is being read. NULL when no list needs it. */
struct candidate *queries_keep(struct host *h, const struct instance_view *view);
/* It has not left: memory has it, and it may leave later with another view. kept: the last one, or
 * NULL. */
void queries_keep_not(struct host *h, struct candidate *kept);
bool queries_is_quiet(const struct host *h);
void queries_give_up(struct host *h, struct list *to);

#endif

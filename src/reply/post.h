/* SPDX-License-Identifier: Apache-2.0
 *
 * POST requests with libcurl: as many as one likes, on one thread, none of which waits.
 */
#ifndef REPLY_POST_H
#define REPLY_POST_H

#include "reply/job.h"

struct posts;

/* options are borrowed. E_NOMEM. */
enum status posts_open(const struct reply_options *options, struct posts **out);
/* Those under way are broken off; their jobs are the caller's. */
void posts_close(struct posts *p);

/* Where job->url leads: "host:port", in name (size). False: job->text says what is wrong with the
 * URL. */
bool post_receiver(struct reply_job *job, char *name, size_t size);
/* E_NOMEM. The job stays where it is until posts_next() gives it back, or posts_drop(). */
enum status posts_begin(struct posts *p, struct reply_job *job);
/* One that has ended; NULL = none. Not heard: job->text says why. */
struct reply_job *posts_next(struct posts *p, bool *is_heard);
void posts_drop(struct posts *p, struct reply_job *job);

/* Waits for news, up to timeout_ms. */
void posts_wait(struct posts *p, int timeout_ms);
/* Ends a wait, or the next one; from any thread. */
void posts_wake(struct posts *p);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What all streams of server-sent events have in common.
 */
#ifndef REST_SSE_H
#define REST_SSE_H

#include "rest/state.h"

/* A comment after so much silence, so that everybody on the way knows that it lives. */
#define SSE_COMMENT_NS ((int64_t)15 * 1000 * 1000 * 1000)

void sse_begin(struct ask *ask);
/* When there was silence; sets the time of the next. */
void sse_comment(struct ask *ask);
/* HEAD: the head alone is wanted. */
bool sse_is_look(const struct ask *ask);
void sse_answer_look(struct ask *ask);
/* 503: there are too many. */
void sse_refuse(struct ask *ask);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a list goes on: its order, and the time and id of the last row that was given, as a text
 * for the client.
 * It needs no memory here and stays good over a restart; one that was forged gives a list that
 * begins elsewhere, which its forger could have had by asking.
 */
#ifndef REST_CURSOR_H
#define REST_CURSOR_H

#include "rest/state.h"

/* What does not fit a page any more begins the next one. */
#define PAGE_SIZE_MAX ((size_t)3 << 20)

/* "next", when there is more behind the first n rows of the answer. In encode(). */
void cursor_write_rows(struct json *j, const struct request *request, size_t n);
/* The position of a query, whose order is set; absent is the beginning. False: answered. */
bool cursor_read_rows(struct errand *errand, struct maybe cursor, struct request_query *query);

#endif

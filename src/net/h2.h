/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's side of one HTTP/2 connection in memory, over nghttp2. Used by conn.c, which has
 * the contracts: these are the same verbs.
 */
#ifndef NET_H2_H
#define NET_H2_H

#include "net/conn.h"

struct h2;

enum status h2_new(const struct conn_options *options, struct conn *conn, int64_t now_ns,
                   struct h2 **out);
void h2_free(struct h2 *h2, int64_t now_ns);
/* E_CLOSED: it is over but for what h2_pull() still gives. */
enum status h2_feed(struct h2 *h2, int64_t now_ns, struct bytes bytes);
bool h2_pull(struct h2 *h2, int64_t now_ns, struct buffer *out, size_t size_max);
bool h2_wants_read(const struct h2 *h2);
/* It has ended, though its last words may still wait. */
bool h2_is_ending(const struct h2 *h2);
bool h2_is_over(const struct h2 *h2);
int64_t h2_tick(struct h2 *h2, int64_t now_ns);
void h2_drain(struct h2 *h2, int64_t now_ns);

#endif

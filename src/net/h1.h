/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's side of one HTTP/1.1 connection in memory. Used by conn.c, which has the contracts:
 * these are the same verbs.
 */
#ifndef NET_H1_H
#define NET_H1_H

#include "net/conn.h"

struct h1;

enum status h1_new(const struct conn_options *options, struct conn *conn, int64_t now_ns,
                   struct h1 **out);
/* Exchanges that are open keep what they need. */
void h1_free(struct h1 *h1, int64_t now_ns);
/* E_CLOSED: it is over but for what h1_pull() still gives. */
enum status h1_feed(struct h1 *h1, int64_t now_ns, struct bytes bytes);
/* The peer has ended its side: it is over when all that it sent is answered. */
void h1_end_input(struct h1 *h1, int64_t now_ns);
bool h1_pull(struct h1 *h1, struct buffer *out);
bool h1_wants_read(const struct h1 *h1);
/* It has ended, though its last words may still wait. */
bool h1_is_ending(const struct h1 *h1);
bool h1_is_over(const struct h1 *h1);
int64_t h1_tick(struct h1 *h1, int64_t now_ns);
void h1_drain(struct h1 *h1);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection between a gRPC client outside and the server's front: what TCP is in the real world.
 * Two pipes that keep the order and bring the bytes in pieces of any size, each with room for so
 * much and no more. What can go wrong with it: it breaks at any byte, and each end is told at its
 * own time or never (then only a PING finds out); nothing passes for a while; the client does not
 * read.
 *
 *      client ──client_pull()──> up pipe ──conn_feed()──> conn (of the front)
 *             <──client_feed()── down pipe <──conn_pull()──
 *
 * A link is gone when both ends are.
 */
#ifndef TEST_SIM_SIM_LINK_H
#define TEST_SIM_SIM_LINK_H

#include "net/client.h"
#include "test/sim/sim_world.h"

struct conn;
struct link;

/* The client's end is over; the owner forgets the link. Its calls have ended before. */
typedef void link_lost_fn(void *user);

/* hub outlives the link. NULL: nobody listens. */
struct link *link_open(struct world *w, struct bytes hub, link_lost_fn *lost, void *user);
/* As client_begin(). */
enum status link_begin(struct link *l, const struct client_request *request,
                       struct client_call **out);
/* l: the call's, or NULL when its owner has closed that. */
void link_cancel(struct link *l, struct client_call *call);
/* The peer takes no new calls. */
bool link_is_closing(const struct link *l);
/* The client's process is gone, or does not want it any more: open calls end UNAVAILABLE, and the
 * owner forgets the link. Also from inside a callback. */
void link_close(struct link *l);

/* The front's process is gone. */
void link_server_gone(struct link *l);
/* Something may be pulled from the server's end. */
void link_wake_server(struct link *l);
struct conn *link_conn(struct link *l);
struct link *link_of_front(struct list *node);

/* A client that does not read for so long; one of all, by chance. */
void links_deafen_one(struct world *w, int64_t span_ns);
/* The world is healed: nothing stands still any more. What is broken stays so. */
void links_heal(struct world *w);
/* The world ends: client's ends first. */
void links_free(struct world *w);
/* Virtual time as connections see it. */
int64_t link_now_ns(const struct world *w);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients on real sockets: one poll() loop for any number of them, for tests, benchmarks and the
 * command line. No thread of its own; callbacks run inside client_sockets_turn() and
 * client_sockets_until().
 *
 * A connection that is lost ends its calls with UNAVAILABLE and stays, closed, until it is closed
 * here too; connecting again is its user's decision.
 */
#ifndef NET_CLIENT_SOCKET_H
#define NET_CLIENT_SOCKET_H

#include "net/client.h"

struct client_sockets;

/* For messages to people, with the final NUL. */
#define CLIENT_SOCKET_TEXT_SIZE 200

/* connections_n_max: client_sockets_connect() answers E_LIMIT beyond. E_NOMEM. */
enum status client_sockets_open(struct mem *mem, uint32_t connections_n_max,
                                struct client_sockets **out);
/* Closes all its clients: their calls end with CANCELLED. NULL is fine. */
void client_sockets_close(struct client_sockets *s);

/* address: "127.0.0.1:4001", "[::1]:4001", "localhost:4001". Waits until connected, up to
 * timeout_ms. options->authority is replaced by the address. E_INVALID: not an address.
 * E_UNAVAILABLE: nobody listens there. E_TIMEOUT, E_LIMIT, E_NOMEM, E_IO. text (size
 * CLIENT_SOCKET_TEXT_SIZE): what happened. */
enum status client_sockets_connect(struct client_sockets *s, const struct client_options *options,
                                   const char *address, int64_t timeout_ms, struct client **out,
                                   char *text);
/* Closes the socket and frees the client: calls end with CANCELLED. */
void client_sockets_disconnect(struct client_sockets *s, struct client *client);

/* A turn also ends when there is something to read from this one, the caller's own: an eventfd by
 * which other threads ring. Emptied by the caller. -1 = none. */
void client_sockets_watch(struct client_sockets *s, int fd);
/* Sends what waits, receives what has come, runs deadlines: waits up to timeout_ms (0 = not at all)
 * for something to come. A deadline may end the wait. */
void client_sockets_turn(struct client_sockets *s, int64_t timeout_ms);
/* Turns until is_done(user). E_TIMEOUT. */
enum status client_sockets_until(struct client_sockets *s, bool (*is_done)(void *user), void *user,
                                 int64_t timeout_ms);
/* Monotonic; of this turn: what client_begin() wants. */
int64_t client_sockets_now_ns(const struct client_sockets *s);

/* One unary call, waited for. OK, and *code and *answer (appended to) as they came; text (size
 * CLIENT_TEXT_SIZE) is the peer's. Other statuses as of client_begin(). request's callbacks and
 * user are replaced. */
enum status client_sockets_ask(struct client_sockets *s, struct client *client,
                               const struct client_request *request, struct buffer *answer,
                               enum grpc_code *code, char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of listeners: from text, to text.
 */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define LISTEN_ADDRESSES_N_MAX 4 /* of one name: localhost is 127.0.0.1 and ::1 */
#define LISTEN_ADDRESS_SIZE 64   /* "[::1]:4001" and its NUL */
#define LISTEN_TEXT_SIZE 200

/* "127.0.0.1:4001", "[::1]:4001", "localhost:4001". May ask the resolver. E_INVALID, with a
 * sentence in text (size LISTEN_TEXT_SIZE). IPv4 comes first. */
enum status listen_resolve(const char *address, struct sockaddr_storage *out, size_t *n,
                           char *text);
/* out: size LISTEN_ADDRESS_SIZE. */
void listen_text(const struct sockaddr_storage *address, char *out);
/* The peer is on this machine: 127.0.0.0/8, ::1, or the first written as the second. */
bool listen_is_local(const struct sockaddr_storage *address);
unsigned listen_port(const struct sockaddr_storage *address);
void listen_set_port(struct sockaddr_storage *address, unsigned port);

#endif

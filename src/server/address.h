/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses to listen on, as text: "127.0.0.1:4001", "[::1]:4001", "localhost:4001".
 */
#ifndef SERVER_ADDRESS_H
#define SERVER_ADDRESS_H

#include <stdbool.h>

#define ADDRESS_SIZE 256 /* of one address, with its final NUL */

struct sockaddr;

/* Takes the next address off a list separated by commas: false at its end. An address that is too
 * long is cut, and not valid any more. */
bool address_next(const char **list, char out[ADDRESS_SIZE]);

/* It has the form of an address: a host (a number, or a name of letters, digits, '-' and '.') and a
 * port from 0 to 65535. */
bool address_is_valid(const char *address);
/* Only this machine can reach it. A name other than "localhost" may be anything: false. */
bool address_is_loopback(const char *address);
/* The same of a socket's address. */
bool socket_address_is_loopback(const struct sockaddr *address);

#endif

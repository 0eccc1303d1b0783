/* SPDX-License-Identifier: Apache-2.0
 *
 * What a service manager is told and gives, without its library: the protocols are a datagram and a
 * few variables (sd_notify(3), sd_listen_fds(3)). Everything here does nothing when there is none.
 */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* "READY=1", "STOPPING=1", "STATUS=..."; lines with newlines between them. False: nobody asked for
 * it, or it could not be told, which is no reason to stop. */
bool notify_send(const char *state);
/* How often WATCHDOG=1 is wanted at least; 0 = not at all. */
int64_t notify_watchdog_ms(void);

/* Sockets that already listen are given as 3, 4, ...: how many. The variables are removed, so that
 * a second call and child processes see none. */
#define NOTIFY_FIRST_FD 3
unsigned notify_listen_fds(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Every limit of the core, with the answer at it. Sizes in bytes.
 */
#ifndef CORE_LIMITS_H
#define CORE_LIMITS_H

#include <stddef.h>

#define LIMIT_HUB_SIZE ((size_t)64)           /* E_INVALID */
#define LIMIT_ID_SIZE ((size_t)256)           /* E_INVALID; clients may choose up to LIMIT_CLIENT_ID_SIZE */
#define LIMIT_CLIENT_ID_SIZE ((size_t)100)    /* E_INVALID; leaves room for the suffixes of children */
#define LIMIT_NAME_SIZE ((size_t)256)         /* E_INVALID */
#define LIMIT_PAYLOAD_SIZE ((size_t)16 << 20) /* E_LIMIT at the edge; a worker's answer fails the instance */
#define LIMIT_INBOX_N 10000u                  /* E_LIMIT for clients; messages of others are dropped, counted */
#define LIMIT_INBOX_SIZE ((size_t)32 << 20)   /* the same */
#define LIMIT_ACTIONS_N 100000u               /* the instance fails with the reason */
#define LIMIT_HISTORY_N 200000u               /* the instance fails with the reason */
#define LIMIT_HISTORY_SIZE ((size_t)128 << 20) /* the instance fails with the reason */
#define LIMIT_LATE_N 16u                      /* late answers kept per instance; the oldest go */
#define LIMIT_REASON_SIZE ((size_t)256)       /* cut */
#define LIMIT_TICK_N 256u                     /* due things handled by one tick; the next one goes on */

#endif

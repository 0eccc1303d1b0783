/* SPDX-License-Identifier: Apache-2.0
 *
 * The date as HTTP writes it (RFC 9110, 5.6.7). No clock.
 */
#ifndef NET_DATE_H
#define NET_DATE_H

#include <stdint.h>

#define DATE_SIZE 30 /* with the final NUL */

/* "Sun, 06 Nov 1994 08:49:37 GMT". unix_s: seconds since 1970, up to the year 9999; others are
 * moved to the nearest that is. */
void date_format(int64_t unix_s, char out[DATE_SIZE]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Which addresses a reply may go to. A URL comes from whoever may start orchestrations, so the
 * server must not be made to knock at doors behind it: nothing is allowed that was not named, and
 * it is the address that is checked, at the moment it is connected to, not the name.
 *
 *      public     what is reachable from everywhere
 *      private    10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7
 *      loopback   127/8, ::1
 *      10.1.0.0/16, 2001:db8::/32, 192.168.0.7      these, whatever they are
 *
 * Everything else (link-local with the clouds' metadata services, multicast, documentation,
 * translation prefixes) is in none of the words and must be named by its range. An IPv4 address
 * inside of IPv6 (::ffff:0:0/96) is what it contains.
 *
 * Pure.
 */
#ifndef REPLY_ALLOW_H
#define REPLY_ALLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

#define REPLY_RANGES_MAX 64

struct reply_range {
    uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint8_t bits;
};

struct reply_allow {
    bool is_public;
    bool is_private;
    bool is_loopback;
    struct reply_range ranges[REPLY_RANGES_MAX];
    size_t ranges_n;
};

/* text: words and ranges with commas between them; "none" allows nothing. False: *problem is the
 * start of what is not understood, within text. */
bool reply_allow_read(struct reply_allow *allow, const char *text, const char **problem);
bool reply_is_allowed(const struct reply_allow *allow, const struct sockaddr *address);

#endif

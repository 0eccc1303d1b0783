/* SPDX-License-Identifier: Apache-2.0
 *
 * See allow.h.
 */
#include "reply/allow.h"

#include "base/bytes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum class { CLASS_PUBLIC, CLASS_PRIVATE, CLASS_LOOPBACK, CLASS_SPECIAL };

/* The first that fits counts; what fits none is public. */
static const struct {
    const char *range;
    enum class class;
} table[] = {
    {"127.0.0.0/8", CLASS_LOOPBACK},
    {"::1/128", CLASS_LOOPBACK},
    {"100.100.100.200/32", CLASS_SPECIAL}, /* a cloud's metadata in the middle of a private range */
    {"10.0.0.0/8", CLASS_PRIVATE},
    {"172.16.0.0/12", CLASS_PRIVATE},
    {"192.168.0.0/16", CLASS_PRIVATE},
    {"100.64.0.0/10", CLASS_PRIVATE},
    {"fd00:ec2::/32", CLASS_SPECIAL}, /* the same */
    {"fc00::/7", CLASS_PRIVATE},
    {"0.0.0.0/8", CLASS_SPECIAL},
    {"169.254.0.0/16", CLASS_SPECIAL},
    {"192.0.0.0/24", CLASS_SPECIAL},
    {"192.0.2.0/24", CLASS_SPECIAL},
    {"192.88.99.0/24", CLASS_SPECIAL},
    {"198.18.0.0/15", CLASS_SPECIAL},
    {"198.51.100.0/24", CLASS_SPECIAL},
    {"203.0.113.0/24", CLASS_SPECIAL},
    {"224.0.0.0/3", CLASS_SPECIAL},
    {"::ffff:0:0/96", CLASS_PUBLIC}, /* the rest of IPv4 */
    {"2001::/23", CLASS_SPECIAL},    /* Teredo and others */
    {"2001:db8::/32", CLASS_SPECIAL},
    {"2002::/16", CLASS_SPECIAL}, /* 6to4: contains any IPv4 address */
    {"3fff::/20", CLASS_SPECIAL},
    {"2000::/3", CLASS_PUBLIC},
    {"::/0", CLASS_SPECIAL}, /* NAT64, link-local, site-local, multicast, unspecified, unassigned */
};

static void map_ipv4(const void *four, uint8_t out[16])
{
    memset(out, 0, 10);
    out[10] = out[11] = 0xff;
    memcpy(out + 12, four, 4);
}

/* "10.0.0.0/8", or an address alone. */
static bool range_read(const char *text, struct reply_range *out)
{
    char address[64];
    struct in_addr four;
    const char *slash = strchr(text, '/');
    size_t len = slash == NULL ? strlen(text) : (size_t)(slash - text);
    unsigned bits = 0;
    if (len >= sizeof address) return false;
    memcpy(address, text, len);
    address[len] = '\0';
    bool is_four = inet_pton(AF_INET, address, &four) == 1;
    if (is_four)
        map_ipv4(&four, out->bytes);
    else if (inet_pton(AF_INET6, address, out->bytes) != 1)
        return false;
    unsigned bits_max = is_four ? 32 : 128;
    if (slash == NULL) bits = bits_max;
    for (const char *at = slash == NULL ? "" : slash + 1; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || bits > bits_max) return false;
        bits = bits * 10 + (unsigned)(*at - '0');
    }
    if (bits > bits_max || (slash != NULL && slash[1] == '\0')) return false;
    out->bits = (uint8_t)(is_four ? 96 + bits : bits);
    return true;
}

static bool range_has(const struct reply_range *range, const uint8_t address[16])
{
    size_t whole = range->bits / 8;
    unsigned rest = range->bits % 8;
    if (memcmp(range->bytes, address, whole) != 0) return false;
    return rest == 0 || ((range->bytes[whole] ^ address[whole]) >> (8 - rest)) == 0;
}

static enum class class_of(const uint8_t address[16]) {
    for (size_t n = 0; n < sizeof table / sizeof *table;
         n++){struct reply_range range;
              if (range_read(table[n].range, &range) && range_has(&range, address)) return table[n]
                  .class;}
return CLASS_SPECIAL;
}

static bool allow_word(struct reply_allow *allow, struct bytes word)
{
    char text[80];
    if (bytes_equal(word, BYTES_LITERAL("public"))) return allow->is_public = true;
    if (bytes_equal(word, BYTES_LITERAL("private"))) return allow->is_private = true;
    if (bytes_equal(word, BYTES_LITERAL("loopback"))) return allow->is_loopback = true;
    if (bytes_equal(word, BYTES_LITERAL("none"))) return true;
    if (word.len >= sizeof text || allow->ranges_n == REPLY_RANGES_MAX) return false;
    memcpy(text, word.ptr, word.len);
    text[word.len] = '\0';
    if (!range_read(text, &allow->ranges[allow->ranges_n])) return false;
    allow->ranges_n++;
    return true;
}

bool reply_allow_read(struct reply_allow *allow, const char *text, const char **problem)
{
    *allow = (struct reply_allow){0};
    for (const char *at = text;;) {
        at += strspn(at, " ");
        size_t len = strcspn(at, ", ");
        if (!allow_word(allow, bytes_make(at, len))) {
            *problem = at;
            return false;
        }
        at += len;
        at += strspn(at, " ");
        if (*at == '\0') return true;
        if (*at++ != ',') {
            *problem = at - 1;
            return false;
        }
    }
}

bool reply_is_allowed(const struct reply_allow *allow, const struct sockaddr *address)
{
    uint8_t bytes[16];
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        map_ipv4(&in->sin_addr, bytes);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)address;
        memcpy(bytes, &in->sin6_addr, sizeof bytes);
    } else {
        return false;
    }
    for (size_t n = 0; n < allow->ranges_n; n++) {
        if (range_has(&allow->ranges[n], bytes)) return true;
    }
    switch (class_of(bytes)) {
    case CLASS_PUBLIC: return allow->is_public;
    case CLASS_PRIVATE: return allow->is_private;
    case CLASS_LOOPBACK: return allow->is_loopback;
    case CLASS_SPECIAL: return false;
    }
    return false;
}

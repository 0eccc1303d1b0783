/* SPDX-License-Identifier: Apache-2.0
 *
 * See address.h. Nothing is resolved here: a name that a resolver decides about cannot be promised
 * to be on this machine.
 */
#include "server/address.h"

#include "base/units.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define HOST_SIZE ADDRESS_SIZE
#define PORT_MAX 65535

bool address_next(const char **list, char out[ADDRESS_SIZE])
{
    const char *at = *list;

    while (*at == ' ' || *at == ',') at++;
    if (*at == '\0') return false;
    size_t len = strcspn(at, ", ");
    *list = at + len;
    if (len >= ADDRESS_SIZE) len = ADDRESS_SIZE - 1;
    memcpy(out, at, len);
    out[len] = '\0';
    return true;
}

static bool port_is_valid(const char *text)
{
    uint64_t port;

    return strlen(text) <= 5 && decimal_parse(bytes_of_text(text), PORT_MAX, &port);
}

/* The host without brackets; *is_number6 tells whether it had them. */
static bool split(const char *address, char host[HOST_SIZE], bool *is_number6)
{
    const char *colon = strrchr(address, ':');

    if (colon == NULL || !port_is_valid(colon + 1)) return false;
    size_t len = (size_t)(colon - address);
    if (len == 0 || len >= HOST_SIZE) return false;
    *is_number6 = address[0] == '[';
    if (*is_number6) {
        if (len < 3 || address[len - 1] != ']') return false;
        address++;
        len -= 2;
    }
    memcpy(host, address, len);
    host[len] = '\0';
    return true;
}

static bool name_is_valid(const char *host)
{
    for (; *host != '\0'; host++) {
        if (!isalnum((unsigned char)*host) && *host != '-' && *host != '.') return false;
    }
    return true;
}

bool address_is_valid(const char *address)
{
    char host[HOST_SIZE];
    bool is_number6;
    struct in6_addr number;

    if (!split(address, host, &is_number6)) return false;
    return is_number6 ? inet_pton(AF_INET6, host, &number) == 1 : name_is_valid(host);
}

static bool is_loopback4(const struct in_addr *number)
{
    return (ntohl(number->s_addr) >> 24) == 127;
}

bool address_is_loopback(const char *address)
{
    char host[HOST_SIZE];
    bool is_number6;
    struct in_addr number4;
    struct in6_addr number6;

    if (!split(address, host, &is_number6)) return false;
    if (is_number6)
        return inet_pton(AF_INET6, host, &number6) == 1 && IN6_IS_ADDR_LOOPBACK(&number6);
    if (inet_pton(AF_INET, host, &number4) == 1) return is_loopback4(&number4);
    return strcmp(host, "localhost") == 0;
}

bool socket_address_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_UNIX) return true;
    if (address->sa_family == AF_INET)
        return is_loopback4(&((const struct sockaddr_in *)(const void *)address)->sin_addr);
    if (address->sa_family != AF_INET6) return false;
    const struct in6_addr *number =
        &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(number);
}

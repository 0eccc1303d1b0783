/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of listeners.
 */
#include "net/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct sockaddr_in *v4(struct sockaddr_storage *a)
{
    return (struct sockaddr_in *)(void *)a;
}
static struct sockaddr_in6 *v6(struct sockaddr_storage *a)
{
    return (struct sockaddr_in6 *)(void *)a;
}

unsigned listen_port(const struct sockaddr_storage *address)
{
    struct sockaddr_storage a = *address;

    return ntohs(a.ss_family == AF_INET6 ? v6(&a)->sin6_port : v4(&a)->sin_port);
}

void listen_set_port(struct sockaddr_storage *address, unsigned port)
{
    if (address->ss_family == AF_INET6)
        v6(address)->sin6_port = htons((uint16_t)port);
    else
        v4(address)->sin_port = htons((uint16_t)port);
}

void listen_text(const struct sockaddr_storage *address, char *out)
{
    struct sockaddr_storage a = *address;
    char host[INET6_ADDRSTRLEN] = "?";

    if (a.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6(&a)->sin6_addr, host, sizeof host);
        snprintf(out, LISTEN_ADDRESS_SIZE, "[%s]:%u", host, listen_port(&a));
    } else {
        inet_ntop(AF_INET, &v4(&a)->sin_addr, host, sizeof host);
        snprintf(out, LISTEN_ADDRESS_SIZE, "%s:%u", host, listen_port(&a));
    }
}

bool listen_is_local(const struct sockaddr_storage *address)
{
    struct sockaddr_storage a = *address;

    if (a.ss_family == AF_INET) return ntohl(v4(&a)->sin_addr.s_addr) >> 24 == 127;
    if (a.ss_family != AF_INET6) return false;
    const struct in6_addr *ip = &v6(&a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 127);
}

static bool parse_port(const char *text, unsigned *out)
{
    unsigned port = 0;

    if (*text == 0 || strlen(text) > 5) return false;
    for (const char *at = text; *at != 0; at++) {
        if (*at < '0' || *at > '9') return false;
        port = port * 10 + (unsigned)(*at - '0');
    }
    *out = port;
    return port <= 65535;
}

/* Host and port of "host:port" or "[host]:port". */
static bool split(const char *address, char *host, size_t host_size, unsigned *port)
{
    const char *colon = strrchr(address, ':');

    if (colon == NULL || !parse_port(colon + 1, port)) return false;
    size_t size = (size_t)(colon - address);
    bool is_bracketed = size >= 2 && address[0] == '[' && address[size - 1] == ']';
    if (is_bracketed) {
        address++;
        size -= 2;
    }
    if (size == 0 || size >= host_size) return false;
    memcpy(host, address, size);
    host[size] = 0;
    return (strchr(host, ':') != NULL) == is_bracketed;
}

static void take(const struct addrinfo *list, int family, unsigned port,
                 struct sockaddr_storage *out, size_t *n)
{
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        if (at->ai_family != family || *n == LISTEN_ADDRESSES_N_MAX) continue;
        struct sockaddr_storage address = {0};
        memcpy(&address, at->ai_addr, at->ai_addrlen);
        listen_set_port(&address, port);
        bool is_known = false;
        for (size_t i = 0; i < *n; i++) {
            if (memcmp(&out[i], &address, sizeof address) == 0) is_known = true;
        }
        if (!is_known) out[(*n)++] = address;
    }
}

enum status listen_resolve(const char *address, struct sockaddr_storage *out, size_t *n, char *text)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[256];
    unsigned port = 0;

    *n = 0;
    if (!split(address, host, sizeof host, &port)) {
        snprintf(text, LISTEN_TEXT_SIZE, "'%.100s' is not an address: host:port is needed",
                 address);
        return E_INVALID;
    }
    int error = getaddrinfo(host, NULL, &hints, &found);
    if (error != 0) {
        snprintf(text, LISTEN_TEXT_SIZE, "'%.100s' is not an address: %s", address,
                 gai_strerror(error));
        return E_INVALID;
    }
    take(found, AF_INET, port, out, n);
    take(found, AF_INET6, port, out, n);
    freeaddrinfo(found);
    if (*n > 0) return OK;
    snprintf(text, LISTEN_TEXT_SIZE, "'%.100s' has no address", address);
    return E_INVALID;
}

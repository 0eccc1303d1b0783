/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of servers, and paths with their parameters.
 */
#ifndef CLI_URL_H
#define CLI_URL_H

#include "base/arena.h"

#define URL_HOST_SIZE 256
#define URL_PORT_SIZE 8
#define URL_BASE_SIZE 256

/* "http://[::1]:4001/norn": host "::1", port "4001", base "/norn". */
struct url {
    char host[URL_HOST_SIZE];
    char port[URL_PORT_SIZE];
    char base[URL_BASE_SIZE]; /* before every path; "" or "/..." without a slash at its end */
};

/* Without a scheme http is meant, without a port 4001. NULL, or what is wrong with it. */
const char *url_parse(const char *text, struct url *out);

/* Appends a part of a path or a value of a parameter, percent-encoded. */
void url_encode(struct buffer *out, struct bytes part);
/* The path with one parameter more. NULL or "" as value: as it was. */
const char *url_parameter(struct arena *arena, const char *path, const char *name,
                          const char *value);

#endif

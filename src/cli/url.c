/* SPDX-License-Identifier: Apache-2.0
 *
 * See url.h.
 */
#include "cli/url.h"

#include "base/mem.h"

#include <stdio.h>

#define DEFAULT_PORT "4001"

/* "host", "host:port" or "[v6]:port", up to `len`. */
static const char *authority_parse(const char *text, size_t len, struct url *out)
{
    const char *host = text;
    const char *end = text + len;
    size_t host_len;

    if (*text == '[') {
        const char *close = memchr(text, ']', len);
        if (close == NULL) return "the ']' of the address is missing";
        host = text + 1;
        host_len = (size_t)(close - host);
        text = close + 1;
    } else {
        const char *colon = memchr(text, ':', len);
        host_len = colon == NULL ? len : (size_t)(colon - text);
        text += host_len;
    }
    if (host_len == 0 || host_len >= sizeof out->host) return "it has no host";
    memcpy(out->host, host, host_len);
    out->host[host_len] = '\0';
    if (text == end) return NULL;
    size_t port_len = (size_t)(end - text) - 1;
    if (*text != ':' || port_len == 0 || port_len > 5 || strspn(text + 1, "0123456789") < port_len)
        return "the port is not a number";
    memcpy(out->port, text + 1, port_len);
    out->port[port_len] = '\0';
    return NULL;
}

const char *url_parse(const char *text, struct url *out)
{
    *out = (struct url){.port = DEFAULT_PORT};
    const char *scheme = strstr(text, "://");
    if (scheme != NULL) {
        size_t len = (size_t)(scheme - text);
        if (len == 5 && memcmp(text, "https", 5) == 0)
            return "https is not supported yet: put a tunnel or a proxy before the server";
        if (len != 4 || memcmp(text, "http", 4) != 0) return "it must begin with http://";
        text = scheme + 3;
    }
    size_t len = strcspn(text, "/");
    if (text[strcspn(text, "?#@ ")] != '\0') return "only a host, a port and a path are understood";
    const char *problem = authority_parse(text, len, out);
    if (problem != NULL) return problem;
    size_t base_len = strlen(text + len);
    while (base_len > 0 && text[len + base_len - 1] == '/') base_len--;
    if (base_len >= sizeof out->base) return "its path is too long";
    memcpy(out->base, text + len, base_len);
    out->base[base_len] = '\0';
    return NULL;
}

void url_encode(struct buffer *out, struct bytes part)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    static const char hex[] = "0123456789ABCDEF";

    /* "." and ".." would be taken for steps in the path */
    bool is_dots =
        part.len > 0 && part.len < 3 && part.ptr[0] == '.' && part.ptr[part.len - 1] == '.';
    for (size_t n = 0; n < part.len; n++) {
        uint8_t c = part.ptr[n];
        if (c != 0 && !is_dots && memchr(plain, c, sizeof plain - 1) != NULL) {
            buffer_u8(out, c);
        } else {
            buffer_u8(out, '%');
            buffer_u8(out, (uint8_t)hex[c >> 4]);
            buffer_u8(out, (uint8_t)hex[c & 15]);
        }
    }
}

static const char *keep(struct arena *arena, struct buffer *text)
{
    const char *kept = text->failed ? NULL : arena_text(arena, buffer_view(text));

    buffer_release(text);
    return kept == NULL ? "" : kept;
}

const char *url_parameter(struct arena *arena, const char *path, const char *name,
                          const char *value)
{
    struct buffer out;

    if (value == NULL || value[0] == '\0') return path;
    buffer_init(&out, mem_process());
    buffer_append_bytes(&out, bytes_of_text(path));
    buffer_u8(&out, strchr(path, '?') == NULL ? '?' : '&');
    buffer_append_bytes(&out, bytes_of_text(name));
    buffer_u8(&out, '=');
    url_encode(&out, bytes_of_text(value));
    return keep(arena, &out);
}

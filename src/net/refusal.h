/* SPDX-License-Identifier: Apache-2.0
 *
 * Why the layer refuses a request of HTTP that no service has seen. What the peer is told about it
 * is the service's (http_service.refusal), so that it looks like all that is refused elsewhere.
 */
#ifndef NET_REFUSAL_H
#define NET_REFUSAL_H

/* name, status, what was wrong (for people) */
#define HTTP_REFUSALS(X)                                                                           \
    X(BAD_LINE, 400, "a line of the head does not end in CRLF, or has a control character")        \
    X(BAD_FIRST_LINE, 400, "the first line is not a method, a path and HTTP/1.1")                  \
    X(BAD_PATH, 400, "the path is not one")                                                        \
    X(BAD_FIELD, 400, "a header field has no name, or a name that is not valid")                   \
    X(BAD_HOST, 400, "the Host field is missing, not valid, or there twice")                       \
    X(BAD_LENGTH, 400, "the Content-Length field is not a number, or there twice")                 \
    X(BAD_CODING, 400, "the Transfer-Encoding field is not 'chunked' alone")                       \
    X(TWO_LENGTHS, 400, "Transfer-Encoding does not go with Content-Length or HTTP/1.0")           \
    X(BAD_CHUNK, 400, "the chunked body is not valid")                                             \
    X(CUT_SHORT, 400, "the connection ended within the request")                                   \
    X(TOO_SLOW, 408, "the request has not come in time")                                           \
    X(LARGE_BODY, 413, "the body is larger than this server takes")                                \
    X(LONG_PATH, 414, "the first line is longer than this server takes")                           \
    X(BAD_EXPECTATION, 417, "the Expect field is not '100-continue'")                              \
    X(LARGE_HEAD, 431, "the header fields are too large, or too many")                             \
    X(CROWDED, 503, "too much is being received at once, or memory is short")                      \
    X(UNTAKEN, 503, "too many answers wait for this peer to take them")                            \
    X(BAD_VERSION, 505,                                                                            \
      "this version of HTTP is not spoken here: HTTP/1.0, HTTP/1.1 and HTTP/2 are")

enum http_refusal {
    REFUSAL_NONE = 0,
#define X(name, status, text) REFUSAL_##name,
    HTTP_REFUSALS(X)
#undef X
};

/* Not of REFUSAL_NONE. The text is static. */
unsigned http_refusal_status(enum http_refusal why);
const char *http_refusal_text(enum http_refusal why);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a function answers when it can fail. One closed set for the whole program, so that a status
 * can travel from the disk to a client without translation; each front end maps it once (gRPC code,
 * HTTP status, exit code).
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

/* name, sentence for people */
#define STATUSES(X)                                                                                \
    X(OK, "done")                                                                                  \
    X(E_INVALID, "the request is not valid")                                                       \
    X(E_NOT_FOUND, "there is no such thing")                                                       \
    X(E_EXISTS, "it exists already")                                                               \
    X(E_PRECONDITION, "the present state does not allow it")                                       \
    X(E_STALE, "the answer belongs to work that was given up or already answered")                 \
    X(E_LIMIT, "a limit is reached")                                                               \
    X(E_NOMEM, "out of memory")                                                                    \
    X(E_NOSPACE, "the disk is full")                                                               \
    X(E_IO, "reading or writing failed")                                                           \
    X(E_CORRUPT, "stored data is damaged")                                                         \
    X(E_VERSION, "the data was written by a newer version")                                        \
    X(E_BUSY, "somebody else holds it")                                                            \
    X(E_CLOSED, "it is closed")                                                                    \
    X(E_UNAVAILABLE, "the service cannot answer now")                                              \
    X(E_TIMEOUT, "the time is over")                                                               \
    X(E_UNSUPPORTED, "this is not supported")

enum status {
#define X(name, text) name,
    STATUSES(X)
#undef X
};

/* "E_LIMIT"; static text. */
const char *status_name(enum status status);

/* "a limit is reached"; static text. */
const char *status_text(enum status status);

#endif

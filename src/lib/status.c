/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses for the user, and what each of ours becomes.
 */
#include "lib/context.h"

/* name, sentence for people */
#define NORN_STATUSES(X)                                                                           \
    X(NORN_OK, "done")                                                                             \
    X(NORN_E_INVALID, "the arguments are not valid")                                               \
    X(NORN_E_NOT_FOUND, "there is no such instance, entity or function")                           \
    X(NORN_E_EXISTS, "it exists already")                                                          \
    X(NORN_E_PRECONDITION, "its present state does not allow it")                                  \
    X(NORN_E_LIMIT, "a limit is reached")                                                          \
    X(NORN_E_NOMEM, "out of memory")                                                               \
    X(NORN_E_NOSPACE, "the disk is full")                                                          \
    X(NORN_E_IO, "reading or writing failed")                                                      \
    X(NORN_E_CORRUPT, "stored data is damaged")                                                    \
    X(NORN_E_VERSION, "the data was written by a newer version")                                   \
    X(NORN_E_BUSY, "another process has the directory")                                            \
    X(NORN_E_CLOSED, "it is closed")                                                               \
    X(NORN_E_UNAVAILABLE, "it cannot be reached, or cannot answer now: try again")                 \
    X(NORN_E_TIMEOUT, "the time is over")                                                          \
    X(NORN_E_UNSUPPORTED, "this is not supported")                                                 \
    X(NORN_E_FAILED, "an activity, child or entity failed")                                        \
    X(NORN_E_CANCELLED, "the task was cancelled")

const char *user_status_name(norn_status status)
{
    switch (status) {
#define X(name, text)                                                                              \
    case name: return #name;
        NORN_STATUSES(X)
#undef X
    }
    return "NORN_E_UNKNOWN";
}

const char *user_status_sentence(norn_status status)
{
    switch (status) {
#define X(name, text)                                                                              \
    case name: return text;
        NORN_STATUSES(X)
#undef X
    }
    return "this is no status of this version";
}

const char *norn_status_text(norn_status status)
{
    switch (status) {
#define X(name, text)                                                                              \
    case name: return #name ": " text;
        NORN_STATUSES(X)
#undef X
    }
    return "NORN_E_UNKNOWN: this is no status of this version";
}

norn_status status_for_user(enum status status)
{
    switch (status) {
    case OK: return NORN_OK;
    case E_INVALID: return NORN_E_INVALID;
    case E_NOT_FOUND: return NORN_E_NOT_FOUND;
    case E_EXISTS: return NORN_E_EXISTS;
    case E_PRECONDITION: return NORN_E_PRECONDITION;
    case E_STALE: return NORN_E_CANCELLED;
    case E_LIMIT: return NORN_E_LIMIT;
    case E_NOMEM: return NORN_E_NOMEM;
    case E_NOSPACE: return NORN_E_NOSPACE;
    case E_IO: return NORN_E_IO;
    case E_CORRUPT: return NORN_E_CORRUPT;
    case E_VERSION: return NORN_E_VERSION;
    case E_BUSY: return NORN_E_BUSY;
    case E_CLOSED: return NORN_E_CLOSED;
    case E_UNAVAILABLE: return NORN_E_UNAVAILABLE;
    case E_TIMEOUT: return NORN_E_TIMEOUT;
    case E_UNSUPPORTED: return NORN_E_UNSUPPORTED;
    }
    return NORN_E_INVALID;
}

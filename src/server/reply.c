/* SPDX-License-Identifier: Apache-2.0
 *
 * How a call ends. The codes are a promise to the SDKs, which turn them into their own exceptions
 * and decide by them whether to try again, so they are decided here and nowhere else.
 */
#include "server/state.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_SIZE 512

enum grpc_code grpc_code_of(enum status status)
{
    switch (status) {
    case OK: return GRPC_OK;
    case E_INVALID: return GRPC_INVALID_ARGUMENT;
    case E_NOT_FOUND: return GRPC_NOT_FOUND;
    case E_EXISTS: return GRPC_ALREADY_EXISTS;
    case E_PRECONDITION: return GRPC_FAILED_PRECONDITION;
    case E_STALE: return GRPC_ABORTED;
    /* The client cannot help it by trying again at once, and SDKs do that on UNAVAILABLE. */
    case E_LIMIT: return GRPC_RESOURCE_EXHAUSTED;
    /* A full disk needs a person; the protocol's own description of this code names it. */
    case E_NOSPACE: return GRPC_RESOURCE_EXHAUSTED;
    /* These pass: memory comes back, a restart is under way. Trying again is right. */
    case E_NOMEM:
    case E_CLOSED:
    case E_BUSY:
    case E_UNAVAILABLE: return GRPC_UNAVAILABLE;
    case E_TIMEOUT: return GRPC_DEADLINE_EXCEEDED;
    case E_IO: return GRPC_INTERNAL;
    case E_CORRUPT: return GRPC_DATA_LOSS;
    case E_VERSION: return GRPC_INTERNAL;
    case E_UNSUPPORTED: return GRPC_UNIMPLEMENTED;
    }
    return GRPC_INTERNAL;
}

struct service *errand_service(const struct errand *errand) { return desk_user(errand->desk); }

void call_fail(struct service *s, struct grpc_call *call, enum grpc_code code, const char *format,
               ...)
{
    char text[TEXT_SIZE];
    va_list arguments;

    assert(code != GRPC_OK);
    if (call == NULL) return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    s->stats.failed++;
    grpc_finish(call, code, text);
}

void call_fail_request(struct service *s, struct grpc_call *call, const struct request *request)
{
    call_fail(s, call, grpc_code_of(request->status), "%s",
              request->text[0] != '\0' ? request->text : status_text(request->status));
}

void call_fail_busy(struct service *s, struct grpc_call *call)
{
    call_fail(s, call, GRPC_UNAVAILABLE,
              "the server is busy: too many requests are under way; try again in a moment");
}

void errand_answer(struct errand *errand)
{
    struct grpc_call *call = errand->call;

    if (call == NULL) {
        /* nobody waits */
    } else if (errand->request.status != OK) {
        call_fail_request(errand_service(errand), call, &errand->request);
    } else if (errand->reply.failed) {
        call_fail(errand_service(errand), call, GRPC_UNAVAILABLE,
                  "out of memory for the answer: try again later, or ask for less at once");
    } else {
        grpc_answer(call, buffer_view(&errand->reply));
    }
    errand_free(errand);
}

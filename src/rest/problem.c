/* SPDX-License-Identifier: Apache-2.0
 *
 * What is answered when something cannot be done: problem documents of RFC 9457. Codes and statuses
 * are a promise to programs, so they are decided here and nowhere else; the words are for people.
 */
#include "rest/state.h"

#include <stdarg.h>
#include <stdio.h>

#define DETAIL_SIZE 600
#define PROBLEM_TYPE "application/problem+json"

static const struct {
    const char *code;
    const char *title;
    unsigned status;
} problems[] = {
#define X(name, code, status, title) {code, title, status},
    PROBLEMS(X)
#undef X
};

unsigned problem_http_status(enum problem problem) { return problems[problem].status; }

void problem_write(struct json *j, enum problem problem, const char *detail, const char *hint)
{
    char type[64];

    (void)snprintf(type, sizeof type, "urn:norn:error:%s", problems[problem].code);
    json_object_begin(j);
    json_key(j, "type");
    json_text(j, type);
    json_key(j, "title");
    json_text(j, problems[problem].title);
    json_key(j, "status");
    json_uint64(j, problems[problem].status);
    json_key(j, "code");
    json_text(j, problems[problem].code);
    if (detail != NULL && detail[0] != '\0') {
        json_key(j, "detail");
        json_text(j, detail);
    }
    if (hint != NULL) {
        json_key(j, "hint");
        json_text(j, hint);
    }
    json_object_end(j);
}

/* How long to wait before the same is worth another try, in seconds. */
static const char *retry_after(enum problem problem)
{
    if (problem == PROBLEM_DISK_LOW) return "30";
    if (problem == PROBLEM_DRAINING) return "5";
    unsigned status = problems[problem].status;
    return status == 429 || status == 503 ? "1" : NULL;
}

static const char no_memory[] = "{\"type\":\"urn:norn:error:too-busy\",\"title\":\"too much is "
                                "under way\",\"status\":503,\"code\":\"too-busy\"}\n";

static void answer(struct ask *ask, enum problem problem, const char *hint, const char *detail)
{
    unsigned status = problems[problem].status;
    struct json j;

    buffer_clear(&ask->text);
    json_init(&j, &ask->text);
    problem_write(&j, problem, detail, hint);
    buffer_u8(&ask->text, '\n');
    struct bytes body = buffer_view(&ask->text);
    const char *seconds = retry_after(problem);
    if (ask->text.failed) {
        status = 503;
        seconds = "1";
        body = bytes_make(no_memory, sizeof no_memory - 1);
    }
    if (seconds != NULL) ask_add_header(ask, "retry-after", bytes_of_text(seconds));
    ask->rest->stats.problems++;
    ask_answer(ask, status, PROBLEM_TYPE, body);
}

void ask_problem(struct ask *ask, enum problem problem, const char *hint, const char *format, ...)
{
    char detail[DETAIL_SIZE];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    answer(ask, problem, hint, detail);
}

void ask_busy(struct ask *ask)
{
    answer(ask, PROBLEM_TOO_BUSY, "try again in a moment",
           "too many requests are under way, or memory is short");
}

void exchange_busy(struct http_exchange *exchange)
{
    http_add_header(exchange, "retry-after", BYTES_LITERAL("1"));
    http_answer(exchange, 503, PROBLEM_TYPE, bytes_make(no_memory, sizeof no_memory - 1));
}

/* ---- what the network refuses ---- */

static const char hint_syntax[] = "this is not HTTP as RFC 9112 has it; a library gets it right";

/* NULL: nothing to add. */
static const char *hint_of_refusal(enum http_refusal why)
{
    switch (why) {
    case REFUSAL_NONE: break;
    case REFUSAL_BAD_LINE: return "if the client is set to https, use http";
    case REFUSAL_BAD_FIRST_LINE:
    case REFUSAL_BAD_FIELD:
    case REFUSAL_BAD_LENGTH:
    case REFUSAL_BAD_CHUNK: return hint_syntax;
    case REFUSAL_BAD_PATH: return "a path begins with '/', and has no space or '#'";
    case REFUSAL_BAD_HOST: return "send one field 'Host: name:port'";
    case REFUSAL_BAD_CODING: return "send the body as it is, with Content-Length, or chunked";
    case REFUSAL_TWO_LENGTHS: return "send either Content-Length or Transfer-Encoding: chunked";
    case REFUSAL_CUT_SHORT: return "was anything started? repeat a PUT: it is harmless";
    case REFUSAL_TOO_SLOW: return "send a request without pauses of ten seconds";
    case REFUSAL_LARGE_BODY:
        return "pass a reference to what is large, or raise server.message_size_max";
    case REFUSAL_LONG_PATH: return "a first line has up to 8 KiB";
    case REFUSAL_BAD_EXPECTATION: return "leave the Expect field out";
    case REFUSAL_LARGE_HEAD: return "send fewer or shorter header fields";
    case REFUSAL_CROWDED: return "try again in a moment";
    case REFUSAL_UNTAKEN: return "read the answers as they come, or ask for less at once";
    case REFUSAL_BAD_VERSION: break;
    }
    return NULL;
}

static enum problem problem_of_http_status(unsigned status)
{
    switch (status) {
    case 408: return PROBLEM_TOO_SLOW;
    case 413: return PROBLEM_TOO_LARGE;
    case 414: return PROBLEM_PATH_TOO_LONG;
    case 417: return PROBLEM_BAD_EXPECTATION;
    case 431: return PROBLEM_HEADERS_TOO_LARGE;
    case 503: return PROBLEM_TOO_BUSY;
    case 505: return PROBLEM_HTTP_VERSION;
    default: return PROBLEM_BAD_REQUEST;
    }
}

const char *problem_of_refusal(void *user, enum http_refusal why, struct buffer *body)
{
    struct rest *r = user;
    struct json j;

    r->stats.problems++;
    json_init(&j, body);
    problem_write(&j, problem_of_http_status(http_refusal_status(why)), http_refusal_text(why),
                  hint_of_refusal(why));
    buffer_u8(body, '\n');
    return PROBLEM_TYPE;
}

/* ---- statuses of the engine ---- */

const struct problem_map problems_of_instances = {
    .missing = PROBLEM_INSTANCE_NOT_FOUND,
    .exists = PROBLEM_INSTANCE_EXISTS,
    .full = PROBLEM_TOO_LARGE,
};

enum problem problem_of_status(const struct problem_map *map, const struct request *request)
{
    switch (request->status) {
    case OK: break;
    case E_INVALID: return PROBLEM_BAD_REQUEST;
    case E_NOT_FOUND: return map->missing;
    case E_EXISTS: return map->exists;
    case E_PRECONDITION: return PROBLEM_WRONG_STATE;
    case E_STALE: return PROBLEM_LEASE_LOST;
    case E_LIMIT: return map->full;
    case E_NOSPACE: return PROBLEM_DISK_LOW;
    case E_NOMEM:
    case E_BUSY:
    case E_TIMEOUT:
    case E_UNAVAILABLE: return PROBLEM_TOO_BUSY;
    case E_CLOSED: return PROBLEM_DRAINING;
    case E_IO:
    case E_CORRUPT:
    case E_VERSION: return PROBLEM_INTERNAL;
    case E_UNSUPPORTED: return PROBLEM_UNSUPPORTED;
    }
    return PROBLEM_INTERNAL;
}

void ask_problem_of(struct ask *ask, const struct problem_map *map, const struct request *request)
{
    enum problem problem = problem_of_status(map, request);
    const char *text = request->text[0] != '\0' ? request->text : status_text(request->status);
    struct bytes id = request->key.len > 0 ? key_id(request->key) : BYTES_NONE;
    int id_size = (int)(id.len < 256 ? id.len : 256);
    int hub_size = (int)(ask->hub.len < 64 ? ask->hub.len : 64);

    if (problem != PROBLEM_INSTANCE_NOT_FOUND && problem != PROBLEM_ENTITY_NOT_FOUND) {
        answer(ask, problem, NULL, text);
        return;
    }
    ask_problem(ask, problem, NULL, "there is no %s '%.*s' in hub '%.*s'",
                problem == PROBLEM_ENTITY_NOT_FOUND ? "entity" : "instance", id_size,
                (const char *)id.ptr, hub_size, (const char *)ask->hub.ptr);
}

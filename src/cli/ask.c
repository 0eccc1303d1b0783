/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the server, and what its refusals mean for the exit code; see session.h.
 */
#include "cli/session.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CALL_TIMEOUT_MS 30000

/* ---- paths ---- */

/* Dead letters, queues and what belongs to the whole server are in no hub; a stream has one for the
 * instances that it starts. */
static bool has_hub(const char *path)
{
    static const char *const prefixes[] = {"/v1/instances", "/v1/entities", "/v1/events",
                                           "/v1/streams"};

    for (size_t n = 0; n < sizeof prefixes / sizeof prefixes[0]; n++) {
        if (strncmp(path, prefixes[n], strlen(prefixes[n])) == 0) return true;
    }
    return false;
}

const char *cli_path(struct cli *cli, const char *format, ...)
{
    struct buffer path;
    va_list arguments;

    buffer_init(&path, mem_process());
    va_start(arguments, format);
    for (const char *at = format; *at != '\0'; at++) {
        if (at[0] == '%' && at[1] == 's') {
            url_encode(&path, bytes_of_text(va_arg(arguments, const char *)));
            at++;
        } else {
            buffer_u8(&path, (uint8_t)*at);
        }
    }
    va_end(arguments);
    const char *text = arena_text(&cli->arena, buffer_view(&path));
    buffer_release(&path);
    if (text == NULL) return "";
    bool is_default = strcmp(cli->hub, "default") == 0;
    return has_hub(text) && !is_default ? url_parameter(&cli->arena, text, "hub", cli->hub) : text;
}

const char *cli_instance_path(struct cli *cli, const char *id, const char *verb)
{
    return verb == NULL ? cli_path(cli, "/v1/instances/%s", id)
                        : cli_path(cli, "/v1/instances/%s/%s", id, verb);
}

/* ---- failures ---- */

int cli_unreachable(struct cli *cli, enum status status)
{
    char detail[640];
    const char *hint = NULL;
    int exit_code = status == E_TIMEOUT       ? EXIT_CODE_TIMEOUT
                    : status == E_UNAVAILABLE ? EXIT_CODE_UNREACHABLE
                    : status == E_CORRUPT     ? EXIT_CODE_UNREACHABLE
                                              : EXIT_CODE_FAILED;

    (void)snprintf(detail, sizeof detail, "%s: %s", cli->server, cli->http.error);
    if (status == E_UNAVAILABLE)
        hint =
            "is the server running? norn server starts one; norn help server tells which is asked";
    if (status == E_CLOSED) hint = "whether it was done is not known; look before you repeat it";
    return cli_fail(cli, exit_code,
                    status == E_TIMEOUT       ? "timeout"
                    : status == E_UNAVAILABLE ? "unreachable"
                                              : "connection-broken",
                    detail, hint);
}

static int exit_code_of(unsigned status)
{
    if (status < 300) return EXIT_CODE_OK;
    if (status == 400) return EXIT_CODE_USAGE;
    if (status == 404) return EXIT_CODE_NOT_FOUND;
    if (status == 408 || status == 504) return EXIT_CODE_TIMEOUT;
    return EXIT_CODE_FAILED;
}

int cli_problem(struct cli *cli, const struct ask *ask)
{
    const char *detail = member_text(&cli->arena, ask->value, "detail");
    const char *title = member_text(&cli->arena, ask->value, "title");
    const char *hint = member_text(&cli->arena, ask->value, "hint");
    const char *code = member_text(&cli->arena, ask->value, "code");
    int exit_code = exit_code_of(ask->status);

    if (code[0] == '\0') {
        return cli_failf(cli, exit_code, "http-error",
                         "%s answers %u to %s %s: is it a norn server of this version?",
                         cli->server, ask->status, ask->method == NULL ? "GET" : ask->method,
                         ask->path);
    }
    if (cli_is_json(cli)) {
        (void)fflush(stdout);
        (void)fprintf(stderr, "%.*s\n", (int)ask->value.raw.len, (const char *)ask->value.raw.ptr);
        return exit_code;
    }
    char later[64];
    if (hint[0] == '\0' && ask->retry_after_s > 0) {
        (void)snprintf(later, sizeof later, "try again in %u s", ask->retry_after_s);
        hint = later;
    }
    return cli_fail(cli, exit_code, code, detail[0] == '\0' ? title : detail, hint);
}

int cli_bad_answer(struct cli *cli, const char *method, const char *path)
{
    return cli_failf(cli, EXIT_CODE_FAILED, "bad-answer",
                     "the answer of %s to %s %s cannot be read: is it a norn server of this "
                     "version?",
                     cli->server, method == NULL ? "GET" : method, path);
}

/* ---- asking ---- */

static enum status call(struct cli *cli, struct ask *ask)
{
    char headers[512];
    struct http_reply reply;

    (void)snprintf(headers, sizeof headers, "Accept: application/json\r\n%s",
                   ask->headers == NULL ? "" : ask->headers);
    if (ask->wait_s > 0) {
        size_t len = strlen(headers);
        (void)snprintf(headers + len, sizeof headers - len, "Prefer: wait=%llu\r\n",
                       (unsigned long long)ask->wait_s);
    }
    struct http_call http = {.method = ask->method == NULL ? "GET" : ask->method,
                             .path = ask->path,
                             .type = ask->type,
                             .headers = headers,
                             .body = ask->body};
    http.timeout_ms =
        ask->timeout_ms > 0 ? ask->timeout_ms : cli_time_left_ms(cli, CALL_TIMEOUT_MS);
    http.timeout_ms += (int64_t)ask->wait_s * 1000;
    ask->status = 0;
    ask->value = VALUE_NONE;
    enum status status = http_client_call(&cli->http, &http, &reply);
    if (status != OK) return status;
    ask->status = reply.status;
    ask->retry_after_s = reply.retry_after_s;
    ask->is_json = reply.is_json;
    struct bytes body = arena_copy(&cli->arena, reply.body);
    ask->value = value_parse(body, NULL);
    /* lines of JSON are no single value: the caller splits them */
    if (ask->value.type == JSON_NONE && body.len > 0) ask->value = (struct value){JSON_NONE, body};
    return OK;
}

static bool is_done(const struct ask *ask)
{
    return (ask->status >= 200 && ask->status < 300) ||
           (ask->allowed != 0 && ask->status == ask->allowed);
}

static bool has_members(struct value v, const char *names)
{
    while (*names != '\0') {
        char name[32];
        size_t len = strcspn(names, " ");
        (void)snprintf(name, sizeof name, "%.*s", (int)len, names);
        if (value_member(v, name).type == JSON_NONE) return false;
        names += len;
        names += *names == ' ';
    }
    return true;
}

static bool are_objects(struct bytes lines)
{
    while (lines.len > 0) {
        const uint8_t *end = memchr(lines.ptr, '\n', lines.len);
        size_t len = end == NULL ? lines.len : (size_t)(end - lines.ptr);
        if (value_parse(bytes_make(lines.ptr, len), NULL).type != JSON_OBJECT) return false;
        lines = bytes_make(lines.ptr + len, lines.len - len);
        if (lines.len > 0) lines = bytes_make(lines.ptr + 1, lines.len - 1);
    }
    return true;
}

/* Whether a good answer is one of a norn server. */
static bool is_readable(const struct ask *ask)
{
    if (ask->is_text) return true;
    if (!ask->is_json) return false;
    if (ask->is_lines) return are_objects(ask->value.raw);
    return ask->value.type == JSON_OBJECT &&
           has_members(ask->value, ask->needs == NULL ? "" : ask->needs);
}

int cli_ask(struct cli *cli, struct ask *ask)
{
    enum status status = call(cli, ask);

    if (status != OK) return cli_unreachable(cli, status);
    if (!is_done(ask)) return cli_problem(cli, ask);
    return is_readable(ask) ? EXIT_CODE_OK : cli_bad_answer(cli, ask->method, ask->path);
}

int cli_try(struct cli *cli, struct ask *ask, const char **detail)
{
    enum status status = call(cli, ask);
    const char *why = cli->http.error;

    bool is_good = status == OK && is_done(ask);
    if (is_good && is_readable(ask)) return EXIT_CODE_OK;
    if (is_good) {
        if (detail != NULL) *detail = "its answer cannot be read: is it a norn server?";
        return EXIT_CODE_FAILED;
    }
    if (status == OK) why = member_text(&cli->arena, ask->value, "detail");
    if (status == OK && why[0] == '\0') why = member_text(&cli->arena, ask->value, "title");
    if (detail != NULL) *detail = why;
    if (status == OK) return exit_code_of(ask->status);
    return status == E_TIMEOUT ? EXIT_CODE_TIMEOUT : EXIT_CODE_UNREACHABLE;
}

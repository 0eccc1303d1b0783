/* SPDX-License-Identifier: Apache-2.0
 *
 * See context.h.
 */
#include "lib/context.h"

#include "base/mem.h"
#include "wire/pb.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_SIZE 1000
#define ALLOC_SIZE_MAX ((size_t)1 << 30)

/* ---- lines for people ---- */

static void write_line(const struct journal_lines *lines, const char *line)
{
    if (lines != NULL && lines->log != NULL)
        lines->log(lines->user, line);
    else
        (void)fprintf(stderr, "norn: %s\n", line);
}

void lines_write(const struct journal_lines *lines, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    write_line(lines, line);
}

/* The line is the thread's and not on the stack, which is small; nor in the context's memory, which
 * an orchestrator that never ends would fill with its lines. */
void norn_log(norn_context *ctx, const char *format, ...)
{
    static _Thread_local char line[LINE_SIZE];
    va_list arguments;

    if (norn_here(ctx)->is_replaying) return;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    write_line(ctx->lines, line);
}

/* ---- memory ---- */

void *norn_alloc(norn_context *ctx, size_t size)
{
    /* Too much at every time and on every machine: so it is an answer to the program, and not a
     * reason to try the turn again when there is more memory. */
    if (size > ALLOC_SIZE_MAX) return NULL;
    void *ptr = arena_alloc_zero(ctx->arena, size > 0 ? size : 1);

    if (ptr == NULL) ctx->is_out_of_memory = true;
    return ptr;
}

char *context_text(struct norn_context *ctx, struct bytes text)
{
    char *copy = arena_text(ctx->arena, text);

    if (copy == NULL) ctx->is_out_of_memory = true;
    return copy;
}

bool context_copy(struct norn_context *ctx, struct maybe value, struct maybe *out)
{
    *out = value;
    if (!value.has) return true;
    const char *copy = context_text(ctx, value.value);
    out->value.ptr = (const uint8_t *)copy;
    return copy != NULL;
}

/* ---- failures ---- */

/* Failures are stored as UTF-8. A text that is none is still better read with gaps than lost. */
static char *failure_text(norn_context *ctx, const char *text)
{
    char *copy = context_text(ctx, bytes_of_text(text));

    if (copy == NULL || bytes_is_utf8(bytes_of_text(copy))) return copy;
    for (char *c = copy; *c != '\0'; c++) {
        if ((unsigned char)*c >= 0x80) *c = '?';
    }
    return copy;
}

norn_status norn_fail(norn_context *ctx, const char *type, const char *message, bool is_final)
{
    if (type == NULL || message == NULL) return NORN_E_INVALID;
    char *type_copy = failure_text(ctx, type);
    char *message_copy = failure_text(ctx, message);
    if (type_copy == NULL || message_copy == NULL) return NORN_E_NOMEM;
    ctx->error =
        (struct norn_failure){.type = type_copy, .message = message_copy, .is_final = is_final};
    return NORN_E_FAILED;
}

struct norn_failure context_failure(const struct norn_context *ctx, norn_status status)
{
    if (status == NORN_E_FAILED && ctx->error.type != NULL) return ctx->error;
    return (struct norn_failure){
        .type = user_status_name(status),
        .message = user_status_sentence(status),
    };
}

void failure_put(struct buffer *out, const struct norn_failure *failure)
{
    failure_write(out, failure->type, bytes_of_text(failure->message), failure->is_final);
}

bool failure_read(struct norn_context *ctx, struct bytes raw, struct norn_failure *out)
{
    struct pb_reader r = pb_reader_make(raw);
    struct pb_field f;
    struct bytes type = BYTES_NONE;
    struct bytes message = BYTES_NONE;
    bool is_final = false;

    while (pb_next(&r, &f)) {
        if (f.number == 1) type = f.bytes;
        if (f.number == 2) message = f.bytes;
        if (f.number == 5) is_final = pb_bool(&f);
    }
    char *type_copy = context_text(ctx, type);
    char *message_copy = context_text(ctx, message);
    if (type_copy == NULL || message_copy == NULL) return false;
    *out = (struct norn_failure){.type = type_copy, .message = message_copy, .is_final = is_final};
    return true;
}

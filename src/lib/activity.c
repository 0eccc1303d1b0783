/* SPDX-License-Identifier: Apache-2.0
 *
 * One activity, on a thread of the pool. Its memory is the work's, which ends when the engine has
 * taken the answer.
 */
#include "lib/checks.h"
#include "core/limits.h"
#include "lib/context.h"
#include "lib/pool.h"
#include "wire/pb.h"

struct activity_run {
    struct norn_context context; /* first */
    struct link_work *work;
};

/* The value of a tag as a number; otherwise when there is none. */
static uint32_t read_tag(struct bytes tags, const char *name, uint32_t otherwise)
{
    struct reader r = reader_make(tags);
    struct bytes entry;

    while (strings_next(&r, &entry)) {
        struct pb_reader fields = pb_reader_make(entry);
        struct pb_field f;
        struct bytes key = BYTES_NONE;
        struct bytes value = BYTES_NONE;
        while (pb_next(&fields, &f)) {
            if (f.number == 1) key = f.bytes;
            if (f.number == 2) value = f.bytes;
        }
        if (!bytes_equal(key, bytes_of_text(name)) || value.len == 0 || value.len > 9) continue;
        uint32_t number = 0;
        for (size_t n = 0; n < value.len; n++) {
            if (value.ptr[n] < '0' || value.ptr[n] > '9') return otherwise;
            number = number * 10 + (uint32_t)(value.ptr[n] - '0');
        }
        return number;
    }
    return otherwise;
}

/* The execution and the first attempt of the call: the same at every attempt, and never the same
 * for two calls. */
static const char *make_key(struct norn_context *ctx, const struct link_work *work)
{
    char digits[10];
    size_t n = sizeof digits;
    uint32_t number = read_tag(work->tags, "norn.call", (uint32_t)work->task_id);
    char *key = norn_alloc(ctx, EXECUTION_TEXT_SIZE + 1 + sizeof digits + 1);

    if (key == NULL) return NULL;
    execution_id_text(work->execution_id, key);
    key[EXECUTION_TEXT_SIZE] = ':';
    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    memcpy(key + EXECUTION_TEXT_SIZE + 1, digits + n, sizeof digits - n);
    return key;
}

static bool begin(struct activity_run *run, const struct function *f, struct link_work *work,
                  const struct journal_lines *lines)
{
    struct norn_context *ctx = &run->context;

    *run = (struct activity_run){.work = work};
    ctx->kind = CONTEXT_ACTIVITY;
    ctx->arena = &work->arena;
    ctx->lines = lines;
    ctx->here.id = context_text(ctx, work->id);
    ctx->here.name = f->code.name;
    if (work->version.has) ctx->here.version = context_text(ctx, work->version.value);
    ctx->here.attempt = read_tag(work->tags, "norn.attempt", 1) + work->failures;
    ctx->here.complete_by_ms = work->complete_by_ms;
    ctx->now_ms = work->now_ms;
    ctx->here.idempotency_key = make_key(ctx, work);
    return !ctx->is_out_of_memory;
}

static bool put_failure(struct norn_context *ctx, norn_status status, struct link_work *work)
{
    struct norn_failure failure = context_failure(ctx, status);
    struct buffer bytes;

    buffer_init(&bytes, &work->mem);
    failure_put(&bytes, &failure);
    bool is_put =
        !bytes.failed && context_copy(ctx, maybe_some(buffer_view(&bytes)), &work->failure);
    buffer_release(&bytes);
    return is_put;
}

/* Here and not where it was delivered: that is the engine's thread, and others wait for it. */
static bool read_scheduled(struct link_work *work)
{
    struct event_scheduled scheduled;

    if (work->scheduled.len == 0) return true;
    if (event_scheduled_decode(work->scheduled, &work->arena, &scheduled) != OK) return false;
    work->input = scheduled.input;
    work->tags = scheduled.tags;
    return true;
}

bool activity_run(const struct function *f, struct link_work *work,
                  const struct journal_lines *lines)
{
    struct activity_run run;
    struct norn_bytes output = NORN_NONE;
    struct maybe input;

    if (!read_scheduled(work) || !begin(&run, f, work, lines)) return false;
    if (!context_copy(&run.context, work->input, &input)) return false;
    norn_status status = f->activity(&run.context, bytes_for_user(input), &output, f->user);
    if (status == NORN_OK) status = result_check(&run.context, output);
    if (status != NORN_OK) return put_failure(&run.context, status, work);
    return context_copy(&run.context, maybe_of(output), &work->result);
}

norn_status norn_heartbeat(norn_context *ctx, int64_t extend_ms)
{
    if (ctx->kind == CONTEXT_ORCHESTRATOR) return NORN_E_UNSUPPORTED;
    if (extend_ms < 0) return NORN_E_INVALID;
    if (ctx->kind == CONTEXT_ENTITY) return NORN_OK; /* its lease has no end */
    if (extend_ms > LIMIT_EXTEND_MS) extend_ms = LIMIT_EXTEND_MS;
    struct activity_run *run = container_of(ctx, struct activity_run, context);
    enum status status = link_renew(run->work, extend_ms);
    return status == E_UNSUPPORTED ? NORN_OK : status_for_user(status);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of norn_test.h, but for those that run a scenario or a history. See kit.h.
 */
#include "lib/kit.h"

#include "lib/memory.h"

#include <stdarg.h>
#include <stdio.h>

#define ARENA_SIZE 1024

void kit_say(struct norn_test *t, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(t->error, sizeof t->error, format, arguments);
    va_end(arguments);
}

/* ---- life ---- */

static enum status open_all(struct norn_test *t)
{
    enum status status = kit_engine_open(t);

    buffer_init(&t->calls, &t->mem);
    hot_init(&t->hot, &t->mem, t->worker->hot_max);
    if (status == OK) status = coroutine_stack_open(&t->mem, t->worker->stack_size, &t->stack);
    t->env = (struct orchestration_env){.mem = &t->mem, .stack = t->stack, .lines = &t->lines};
    t->turns_n = 0;
    t->started_n = 0;
    t->steps_n = 0;
    t->id[0] = '\0';
    for (struct kit_script *s = t->scripts; s != NULL; s = s->next) s->asked_n = 0;
    return status;
}

static void close_all(struct norn_test *t)
{
    norn_info_free(t->info);
    t->info = NULL;
    hot_release(&t->hot);
    orchestration_env_release(&t->env);
    if (t->stack != NULL) coroutine_stack_close(t->stack);
    t->stack = NULL;
    buffer_release(&t->calls);
    kit_engine_close(t);
}

enum status kit_reset(struct norn_test *t)
{
    close_all(t);
    return open_all(t);
}

norn_status norn_test_new(norn_test **test)
{
    const char *why;

    if (test == NULL) return NORN_E_INVALID;
    struct norn_test *t = memory_new(sizeof *t, offsetof(struct norn_test, mem));
    if (t == NULL) return NORN_E_NOMEM;
    t->link.ops = &kit_link_ops;
    t->port.link = &t->link;
    t->client.link = &t->link;
    arena_init(&t->arena, &t->mem, ARENA_SIZE);
    (void)policies_init(&t->policies, &t->mem, NULL, 0, &why);
    norn_status status = norn_worker_open(&t->client, NULL, &t->worker);
    if (status != NORN_OK) {
        memory_free(t, sizeof *t, offsetof(struct norn_test, mem));
        return status;
    }
    status = status_for_user(open_all(t));
    if (status == NORN_OK)
        *test = t;
    else
        norn_test_free(t);
    return status;
}

void norn_test_free(norn_test *test)
{
    if (test == NULL) return;
    close_all(test);
    norn_worker_close(test->worker);
    arena_release(&test->arena);
    policies_release(&test->policies, &test->mem);
    memory_free(test, sizeof *test, offsetof(struct norn_test, mem));
}

norn_worker *norn_test_worker(norn_test *test) { return test->worker; }
norn_client *norn_test_client(norn_test *test) { return &test->client; }

const char *norn_test_error(norn_test *test) { return test->error; }

/* ---- how activities answer ---- */

static bool copy_text(struct norn_test *t, const char **text)
{
    if (*text == NULL) return true;
    *text = arena_text(&t->arena, bytes_of_text(*text));
    return *text != NULL;
}

/* Present ones stay present, also when they are empty. */
static bool copy_output(struct norn_test *t, struct norn_bytes *output)
{
    if (output->ptr == NULL) return true;
    output->ptr = arena_text(&t->arena, bytes_make(output->ptr, output->len));
    return output->ptr != NULL;
}

static bool copy_reply(struct norn_test *t, struct norn_test_reply *reply)
{
    if (reply->failure_message == NULL) reply->failure_message = "";
    return copy_output(t, &reply->output) && copy_text(t, &reply->failure_type) &&
           copy_text(t, &reply->failure_message);
}

static struct kit_script *find_or_add_script(struct norn_test *t, struct bytes name)
{
    for (struct kit_script *s = t->scripts; s != NULL; s = s->next) {
        if (bytes_equal(s->name, name)) return s;
    }
    struct kit_script *s = arena_alloc_zero(&t->arena, sizeof *s);
    char *copy = arena_text(&t->arena, name);
    if (s == NULL || copy == NULL) return NULL;
    s->name = bytes_of_text(copy);
    s->next = t->scripts;
    t->scripts = s;
    return s;
}

norn_status norn_test_activity(norn_test *test, const char *name,
                               const struct norn_test_reply *replies, size_t n)
{
    if (test == NULL || name == NULL || name[0] == '\0' || replies == NULL || n == 0) {
        return NORN_E_INVALID;
    }
    if (n > SIZE_MAX / sizeof *replies) return NORN_E_LIMIT;
    struct norn_test_reply *copies = arena_alloc(&test->arena, n * sizeof *copies);
    if (copies == NULL) return NORN_E_NOMEM;
    memcpy(copies, replies, n * sizeof *copies);
    for (size_t i = 0; i < n; i++) {
        if (!copy_reply(test, &copies[i])) return NORN_E_NOMEM;
    }
    struct kit_script *script = find_or_add_script(test, bytes_of_text(name));
    if (script == NULL) return NORN_E_NOMEM;
    script->replies = copies;
    script->replies_n = n;
    script->asked_n = 0;
    return NORN_OK;
}

norn_status norn_test_policies(norn_test *test, const struct norn_policy *policies, size_t n)
{
    struct policies given;
    const char *why;

    if (test == NULL || (policies == NULL && n > 0)) return NORN_E_INVALID;
    enum status status = policies_init(&given, &test->mem, policies, n, &why);
    if (status != OK) {
        kit_say(test, "%s", why != NULL ? why : status_text(status));
        return status_for_user(status);
    }
    policies_release(&test->policies, &test->mem);
    test->policies = given;
    return NORN_OK;
}

/* ---- running ---- */

/* The functions of norn_test.h do not work from within what they run. */
static norn_status begin(norn_test *test)
{
    if (test == NULL) return NORN_E_INVALID;
    if (test->is_settling) return NORN_E_PRECONDITION;
    test->error[0] = '\0';
    test->steps_n = 0;
    return NORN_OK;
}

/* Says why, unless that is said already, and how the instance is. */
static norn_status finish(struct norn_test *t, norn_status status, const struct norn_info **info)
{
    if (status != NORN_OK) {
        if (t->error[0] == '\0') kit_say(t, "%s", norn_status_text(status));
        return status;
    }
    if (info == NULL) return NORN_OK;
    *info = NULL;
    norn_info_free(t->info);
    t->info = NULL;
    if (t->id[0] == '\0') return NORN_OK;
    status = norn_get(&t->client, t->id, 0, &t->info);
    if (status == NORN_OK) *info = t->info;
    return status;
}

norn_status norn_test_run(norn_test *test, const char *name, struct norn_bytes input,
                          const struct norn_info **info)
{
    struct norn_start_options options = NORN_START_OPTIONS;
    norn_status status = begin(test);

    if (status != NORN_OK) return status;
    (void)snprintf(test->id, sizeof test->id, "test-%u", ++test->started_n);
    options.id = test->id;
    status = norn_start(&test->client, name, input, &options, NULL);
    if (status != NORN_OK && test->error[0] == '\0') {
        kit_say(test, "%s", norn_client_error(&test->client));
    }
    return finish(test, status, info);
}

norn_status norn_test_skip(norn_test *test, int64_t ms, const struct norn_info **info)
{
    norn_status status = begin(test);

    if (status != NORN_OK) return status;
    if (ms < 0) return NORN_E_INVALID;
    int64_t most_ms = KIT_END_MS - test->now_ms;
    enum status gone = kit_go_to(test, test->now_ms + (ms < most_ms ? ms : most_ms), NULL, NULL);
    return finish(test, status_for_user(gone), info);
}

norn_status norn_test_raise(norn_test *test, const char *event, struct norn_bytes data,
                            const struct norn_info **info)
{
    norn_status status = begin(test);

    if (status != NORN_OK) return status;
    if (test->id[0] == '\0') {
        kit_say(test, "norn_test_run() has not started an instance");
        return NORN_E_PRECONDITION;
    }
    status = norn_raise(&test->client, test->id, event, data);
    if (status != NORN_OK && test->error[0] == '\0') {
        kit_say(test, "%s", norn_client_error(&test->client));
    }
    return finish(test, status, info);
}

const char *norn_test_calls(norn_test *test)
{
    buffer_u8(&test->calls, 0);
    if (test->calls.failed) return "";
    test->calls.len--;
    return (const char *)test->calls.ptr;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See example.h.
 */
#include "example.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

void must(norn_status status, const char *what)
{
    if (status == NORN_OK) return;
    fprintf(stderr, "%s: %s\n", what, norn_status_text(status));
    exit(1);
}

/* ---- opening and closing ---- */

static void open_engine(struct example *e, const char *directory)
{
    struct norn_engine_options options = NORN_ENGINE_OPTIONS;
    const char *why = "";

    options.policies = e->policies;
    options.policies_n = e->policies_n;
    if (directory == NULL) {
        (void)snprintf(e->directory, sizeof e->directory, "%s/norn-example-XXXXXX",
                       getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
        directory = mkdtemp(e->directory);
        if (directory == NULL) must(NORN_E_IO, "a new directory");
    }
    options.directory = directory;
    must(norn_engine_open(&options, &e->engine, &why), *why != '\0' ? why : directory);
}

void example_open(struct example *e, int argc, char **argv)
{
    struct norn_client_options options = NORN_CLIENT_OPTIONS;
    const char *directory = NULL;

    for (int n = 1; n < argc; n += 2) {
        bool is_server = strcmp(argv[n], "--server") == 0;
        bool is_data = strcmp(argv[n], "--data") == 0;
        if (n + 1 == argc || (!is_server && !is_data)) {
            fprintf(stderr, "usage: %s [--data DIRECTORY | --server ADDRESS]\n", argv[0]);
            exit(2);
        }
        if (is_server) options.address = argv[n + 1];
        if (is_data) directory = argv[n + 1];
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* whole lines, also of activities on other threads */
    if (options.address == NULL) open_engine(e, directory);
    options.engine = e->engine;
    must(norn_client_open(&options, &e->client), "the client");
    must(norn_worker_open(e->client, NULL, &e->worker), "the worker");
}

/* One level of folders is all there is in a data directory. */
static void remove_directory(const char *path, int depth)
{
    char name[600];
    DIR *directory = opendir(path);

    if (directory == NULL) return;
    for (struct dirent *d = readdir(directory); d != NULL; d = readdir(directory)) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
        (void)snprintf(name, sizeof name, "%s/%s", path, d->d_name);
        if (unlink(name) != 0 && depth < 4) remove_directory(name, depth + 1);
    }
    (void)closedir(directory);
    (void)rmdir(path);
}

void example_close(struct example *e)
{
    norn_worker_close(e->worker);
    norn_client_close(e->client);
    norn_engine_close(e->engine);
    if (e->directory[0] != '\0') remove_directory(e->directory, 0);
}

/* ---- instances ---- */

void example_begin(struct example *e, const char *name, const char *id, const char *input)
{
    struct norn_start_options options = NORN_START_OPTIONS;

    options.id = id;
    options.reuse = NORN_REUSE_KEEP;
    must(norn_start(e->client, name, norn_text(input), &options, NULL), id);
}

struct norn_info *example_wait(struct example *e, const char *id)
{
    struct norn_info *info = NULL;

    must(norn_get(e->client, id, 60000, &info), id);
    return info;
}

/* ---- payloads ---- */

struct norn_bytes example_print(norn_context *ctx, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int len = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = len >= 0 ? norn_alloc(ctx, (size_t)len + 1) : NULL;
    if (text == NULL) return NORN_NONE;
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)len + 1, format, arguments);
    va_end(arguments);
    return (struct norn_bytes){text, (size_t)len};
}

const char *example_member(struct norn_bytes json, const char *name, char *value, size_t size)
{
    char key[80];
    size_t n = 0;
    int key_len = snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = json.ptr != NULL ? memmem(json.ptr, json.len, key, (size_t)key_len) : NULL;

    if (found != NULL) {
        const char *end = (const char *)json.ptr + json.len;
        const char *at = found + key_len;
        bool is_quoted = at < end && *at == '"';
        for (at += is_quoted; at < end && n + 1 < size; at++) {
            if (is_quoted ? *at == '"' : *at == ',' || *at == '}') break;
            value[n++] = *at;
        }
    }
    value[n] = '\0';
    return value;
}

long example_number(struct norn_bytes json, const char *name)
{
    char text[32] = "";

    if (name != NULL)
        (void)example_member(json, name, text, sizeof text);
    else if (json.ptr != NULL)
        (void)snprintf(text, sizeof text, "%.*s", TEXT(json));
    return strtol(text, NULL, 10);
}

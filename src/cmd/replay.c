/* SPDX-License-Identifier: Apache-2.0
 *
 * norn replay: a saved history against the orchestrators in somebody's shared library. The library
 * registers what it has, as it does with its own worker, and finds the functions of libnorn in this
 * program, which exports them: so its calls and this program are one run time, whether or not it
 * was linked with libnorn.so.
 */
#include "cmd/command.h"

#include "base/bytes.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <norn_test.h>
#include <stdio.h>
#include <string.h>

#define READ_SIZE ((size_t)64 << 10)
/* The history of an instance has at most 128 MiB; as JSON it is longer. */
#define FILE_SIZE_MAX ((size_t)1 << 30)

typedef void register_fn(norn_worker *worker);

struct words {
    const char *file;
    const char *library;
    const char *entry;
};

static void complain(const char *what, const char *why)
{
    (void)fprintf(stderr, "norn replay: %s: %s\n", what, why);
}

/* "-" is the standard input. */
static bool read_file(const char *path, struct buffer *out)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t n = 1;

    if (file == NULL) {
        complain(path, "cannot be opened");
        return false;
    }
    while (n > 0 && out->len < FILE_SIZE_MAX && buffer_reserve(out, READ_SIZE)) {
        n = fread(out->ptr + out->len, 1, READ_SIZE, file);
        out->len += n;
    }
    bool is_read = n == 0 && ferror(file) == 0;
    if (file != stdin) (void)fclose(file);
    if (!is_read) complain(path, out->failed ? "there is no memory for it" : "cannot be read");
    return is_read;
}

/* A name without '/' is looked for here first, as a compiler leaves it. */
static void *open_library(const char *name)
{
    char here[4096];
    void *library = NULL;

    if (strchr(name, '/') == NULL && strlen(name) + 3 <= sizeof here) {
        (void)snprintf(here, sizeof here, "./%s", name);
        FILE *file = fopen(here, "rb");
        if (file != NULL) {
            (void)fclose(file);
            name = here;
        }
    }
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) complain("the library cannot be loaded", dlerror());
    return library;
}

static register_fn *find_entry(void *library, const char *name)
{
    register_fn *entry = NULL;
    void *symbol = dlsym(library, name);

    if (symbol == NULL) {
        (void)fprintf(stderr,
                      "norn replay: the library has no function %s: it must export "
                      "\"void %s(norn_worker *worker)\", which registers its orchestrators\n",
                      name, name);
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from an object to a function */
    return entry;
}

static int replay(register_fn *entry, struct bytes history)
{
    norn_test *test = NULL;
    norn_status status = norn_test_new(&test);

    if (status != NORN_OK) {
        complain("cannot begin", norn_status_text(status));
        return EXIT_CODE_FAILED;
    }
    entry(norn_test_worker(test));
    status = norn_test_replay(test, (struct norn_bytes){history.ptr, history.len});
    if (status == NORN_OK)
        (void)printf("OK\n");
    else if (status == NORN_E_FAILED)
        (void)printf("DIFFERENT: %s\n", norn_test_error(test));
    else
        complain("cannot be replayed", norn_test_error(test));
    norn_test_free(test);
    if (status == NORN_OK) return EXIT_CODE_OK;
    return status == NORN_E_NOT_FOUND ? EXIT_CODE_NOT_FOUND : EXIT_CODE_FAILED;
}

static int run_words(const struct words *words)
{
    struct buffer history;
    int code = EXIT_CODE_FAILED;
    register_fn *entry = NULL;

    buffer_init(&history, mem_process());
    void *library = open_library(words->library);
    if (library != NULL) entry = find_entry(library, words->entry);
    if (entry != NULL && read_file(words->file, &history)) {
        code = replay(entry, buffer_view(&history));
    }
    if (library != NULL) (void)dlclose(library);
    buffer_release(&history);
    return code;
}

int replay_run(const struct command *command, int argc, char **argv)
{
    struct words words = {.entry = "norn_register"};
    const struct option_spec specs[] = {
        OPTION_TEXT("with", "LIBRARY", "shared library with the orchestrators", NULL,
                    &words.library),
        OPTION_TEXT("entry", "FUNCTION", "its function that registers them, void (norn_worker *)",
                    "norn_register", &words.entry),
    };
    struct word_list given;
    int exit_code;

    if (!command_read(command, specs, sizeof specs / sizeof *specs, argc, argv, &given,
                      &exit_code)) {
        return exit_code;
    }
    if (words.library == NULL) {
        (void)fprintf(stderr, "norn replay: it needs --with LIBRARY; for example: %s\n",
                      command->examples);
        return EXIT_CODE_USAGE;
    }
    words.file = given.items[0];
    return run_words(&words);
}

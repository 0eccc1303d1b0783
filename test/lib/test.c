/* SPDX-License-Identifier: Apache-2.0
 *
 * The harness behind test.h. One test runs at a time, in this process; a failed expectation leaves
 * it by longjmp, so what that test had taken is lost, and the leak checker may say so beside the
 * failure.
 */
#define _GNU_SOURCE /* nftw, pipe2 */

#include "test/lib/test.h"

#include "base/arena.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SOURCE_DIR
#define SOURCE_DIR "." /* tests are started at the root of the sources */
#endif

enum outcome { PASSED, FAILED, SKIPPED };

static struct {
    struct test *first;
    struct test *last;
    jmp_buf end;
    char note[256];
    char why_skipped[256];
    char directory[PATH_MAX];
    struct mem mem;
    struct arena arena; /* what the running test got from the harness */
} state;

void test_register(struct test *test)
{
    if (state.first == NULL) {
        state.first = test;
    } else {
        state.last->next = test;
    }
    state.last = test;
}

_Noreturn void test_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;

    printf("# %s:%d: ", file, line);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    if (state.note[0] != '\0') printf("# with %s\n", state.note);
    longjmp(state.end, FAILED);
}

_Noreturn void test_skip(const char *why)
{
    (void)snprintf(state.why_skipped, sizeof state.why_skipped, "%s", why);
    longjmp(state.end, SKIPPED);
}

void test_note(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(state.note, sizeof state.note, format, arguments);
    va_end(arguments);
}

/* ---- expectations ---- */

void test_expect_eq(int64_t expected, int64_t got, const char *what, const char *file, int line)
{
    if (expected == got) return;
    test_fail(file, line, "%s: expected %lld, got %lld", what, (long long)expected, (long long)got);
}

void test_expect_status(enum status expected, enum status got, const char *what, const char *file,
                        int line)
{
    if (expected == got) return;
    test_fail(file, line, "%s: expected %s, got %s", what, status_name(expected), status_name(got));
}

void test_expect_text(const char *expected, const char *got, const char *what, const char *file,
                      int line)
{
    if (got == NULL) test_fail(file, line, "%s: expected \"%s\", got NULL", what, expected);
    if (strcmp(expected, got) == 0) return;
    test_fail(file, line, "%s:\n#   expected \"%s\"\n#   got      \"%s\"", what, expected, got);
}

static void print_hex(const char *label, struct bytes b)
{
    printf("#   %s (%zu bytes)", label, b.len);
    for (size_t i = 0; i < b.len; i++) printf("%s%02x", i % 4 == 0 ? " " : "", b.ptr[i]);
    printf("\n");
}

static size_t common_len(struct bytes a, struct bytes b)
{
    size_t n = 0;

    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n]) n++;
    return n;
}

void test_expect_bytes(struct bytes expected, struct bytes got, const char *what, const char *file,
                       int line)
{
    if (bytes_equal(expected, got)) return;
    print_hex("expected", expected);
    print_hex("got     ", got);
    test_fail(file, line, "%s: differs from byte %zu on", what, common_len(expected, got));
}

/* ---- files ---- */

static struct bytes file_read(const char *path, const char *file, int line)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) test_fail(file, line, "cannot read %s (UPDATE=1 writes it)", path);

    struct stat info;
    bool is_read = fstat(fileno(stream), &info) == 0;
    size_t size = is_read ? (size_t)info.st_size : 0;
    uint8_t *contents = arena_alloc(&state.arena, size);
    is_read = is_read && contents != NULL && fread(contents, 1, size, stream) == size;
    (void)fclose(stream);
    if (!is_read) test_fail(file, line, "cannot read %s", path);
    return bytes_make(contents, size);
}

static void file_write(const char *path, struct bytes contents, const char *file, int line)
{
    FILE *stream = fopen(path, "wb");
    if (stream == NULL) test_fail(file, line, "cannot write %s", path);

    bool is_written = fwrite(contents.ptr, 1, contents.len, stream) == contents.len;
    if (fclose(stream) != 0 || !is_written) test_fail(file, line, "cannot write %s", path);
}

/* The line of b in which `offset` lies. */
static struct bytes line_at(struct bytes b, size_t offset)
{
    size_t start = offset;
    size_t end = offset;

    while (start > 0 && b.ptr[start - 1] != '\n') start--;
    while (end < b.len && b.ptr[end] != '\n') end++;
    return b.len == 0 ? BYTES_NONE : bytes_make(b.ptr + start, end - start);
}

static void print_line(const char *label, struct bytes whole, size_t offset)
{
    struct bytes text = line_at(whole, offset);

    printf("#   %s %.*s\n", label, (int)text.len, text.len == 0 ? "" : (const char *)text.ptr);
}

void test_expect_golden(const char *name, struct bytes got, const char *file, int line)
{
    const char *root = getenv("NORN_SOURCE_DIR");
    const char *update = getenv("UPDATE");
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/test/golden/%s", root == NULL ? SOURCE_DIR : root, name);
    if (update != NULL && strcmp(update, "1") == 0) {
        file_write(path, got, file, line);
        return;
    }

    struct bytes expected = file_read(path, file, line);
    if (bytes_equal(expected, got)) return;

    size_t same = common_len(expected, got);
    size_t line_number = 1;
    for (size_t i = 0; i < same; i++) line_number += expected.ptr[i] == '\n';
    print_line("expected", expected, same);
    print_line("got     ", got, same);
    test_fail(file, line, "differs from %s in line %zu (UPDATE=1 rewrites it)", path, line_number);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void directory_remove(void)
{
    if (state.directory[0] == '\0') return;
    if (nftw(state.directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        printf("# cannot remove %s\n", state.directory);
    }
    state.directory[0] = '\0';
}

const char *test_directory(void)
{
    const char *parent = getenv("TMPDIR");
    char path[PATH_MAX];

    directory_remove();
    (void)snprintf(path, sizeof path, "%s/test-XXXXXX", parent == NULL ? "/tmp" : parent);
    if (mkdtemp(path) == NULL) test_fail(__FILE__, __LINE__, "no directory %s", path);
    memcpy(state.directory, path, sizeof path);
    return state.directory;
}

/* ---- bytes from text ---- */

static unsigned digit_value(char digit)
{
    const char digits[] = "0123456789abcdef";
    const char *at = strchr(digits, digit);

    if (digit == '\0' || at == NULL) test_fail(__FILE__, __LINE__, "'%c' is no hex digit", digit);
    return (unsigned)(at - digits);
}

struct bytes test_hex(const char *hex)
{
    size_t len = strlen(hex) / 2;
    uint8_t *out = arena_alloc(&state.arena, len);

    if (out == NULL || strlen(hex) % 2 != 0) test_fail(__FILE__, __LINE__, "no bytes: %s", hex);
    for (size_t i = 0; i < len; i++) {
        out[i] = (uint8_t)(digit_value(hex[2 * i]) << 4 | digit_value(hex[2 * i + 1]));
    }
    return bytes_make(out, len);
}

/* ---- death ---- */

static _Noreturn void die_as_asked(void (*run)(void), int stderr_fd)
{
    (void)dup2(stderr_fd, STDERR_FILENO);
    (void)signal(SIGABRT, SIG_DFL); /* no report of a sanitizer, the message is enough */
    run();
    _exit(0);
}

/* All that comes until the other end is closed, cut off at the size. */
static void read_text(int fd, char *text, size_t size)
{
    size_t len = 0;
    char rest[256];

    for (;;) {
        bool is_full = len + 1 == size;
        ssize_t n = is_full ? read(fd, rest, sizeof rest) : read(fd, text + len, size - 1 - len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if (!is_full) len += (size_t)n;
    }
    text[len] = '\0';
}

void test_expect_abort(const char *text, void (*run)(void), const char *file, int line)
{
    char said[1024];
    int ends[2];
    int how = 0;

    if (pipe2(ends, O_CLOEXEC) != 0) test_fail(file, line, "no pipe");
    (void)fflush(stdout); /* otherwise the child would print it a second time */
    pid_t child = fork();
    if (child < 0) test_fail(file, line, "no child process");
    if (child == 0) die_as_asked(run, ends[1]);

    (void)close(ends[1]);
    read_text(ends[0], said, sizeof said);
    (void)close(ends[0]);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }

    if (!WIFSIGNALED(how) || WTERMSIG(how) != SIGABRT) test_fail(file, line, "did not abort");
    if (strstr(said, text) == NULL) {
        test_fail(file, line, "aborted without saying \"%s\" but: %s", text, said);
    }
}

/* ---- running ---- */

static enum outcome outcome_of(const struct test *test)
{
    /* longjmp gives setjmp's second answer, which is never PASSED (0). */
    switch (setjmp(state.end)) {
    case PASSED: break;
    case SKIPPED: return SKIPPED;
    default: return FAILED;
    }
    test->run();
    return PASSED;
}

static enum outcome run(const struct test *test, unsigned number)
{
    state.note[0] = '\0';
    enum outcome outcome = outcome_of(test);
    directory_remove();
    arena_reset(&state.arena);

    switch (outcome) {
    case PASSED: printf("ok %u - %s\n", number, test->name); break;
    case FAILED: printf("not ok %u - %s\n", number, test->name); break;
    case SKIPPED: printf("ok %u - %s # SKIP %s\n", number, test->name, state.why_skipped); break;
    }
    return outcome;
}

static bool is_chosen(const struct test *test, int argc, char **argv)
{
    bool is_named = argc <= 1;

    for (int i = 1; i < argc; i++) is_named = is_named || strstr(test->name, argv[i]) != NULL;
    return is_named;
}

int main(int argc, char **argv)
{
    unsigned chosen_n = 0;
    unsigned failed_n = 0;
    unsigned number = 0;

    /* By lines, so that a crash does not take the results before it along. */
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    mem_init(&state.mem, SIZE_MAX);
    arena_init(&state.arena, &state.mem, 4096);

    for (const struct test *t = state.first; t != NULL; t = t->next) {
        chosen_n += is_chosen(t, argc, argv);
    }
    printf("1..%u\n", chosen_n);
    for (const struct test *t = state.first; t != NULL; t = t->next) {
        if (is_chosen(t, argc, argv) && run(t, ++number) == FAILED) failed_n++;
    }
    arena_release(&state.arena);
    mem_release(&state.mem);
    /* Nothing run is nothing proven: a misspelt name must not look like success. */
    return failed_n > 0 || chosen_n == 0 ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The test harness: a behaviour, a test, a sentence. A test program is one or more files with
 * TEST() blocks, linked with test.c, which has main(): it runs all tests, or those whose name
 * contains one of its arguments, and prints TAP. A failed expectation prints where and what, and
 * ends that test.
 */
#ifndef TEST_LIB_TEST_H
#define TEST_LIB_TEST_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct test {
    const char *name;
    const char *file;
    void (*run)(void);
    struct test *next;
};
void test_register(struct test *test);

#define TEST(test_name)                                                                            \
    static void test_name(void);                                                                   \
    static struct test test_name##_entry = {#test_name, __FILE__, test_name, 0};                   \
    __attribute__((constructor)) static void test_name##_register(void)                            \
    {                                                                                              \
        test_register(&test_name##_entry);                                                         \
    }                                                                                              \
    static void test_name(void)

/* Ends the running test as failed. */
__attribute__((format(printf, 3, 4))) _Noreturn void test_fail(const char *file, int line,
                                                               const char *format, ...);
/* Ends the running test as skipped; say why ("no clang on this machine"). */
_Noreturn void test_skip(const char *why);
/* Printed with a failure of this test from now on, e.g. "seed 17, n 4"; "" removes it. */
__attribute__((format(printf, 1, 2))) void test_note(const char *format, ...);

#define EXPECT(condition)                                                                          \
    ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "expected: %s", #condition))
#define EXPECT_EQ(expected, got)                                                                   \
    test_expect_eq((int64_t)(expected), (int64_t)(got), #got, __FILE__, __LINE__)
#define EXPECT_STATUS(expected, got) test_expect_status(expected, got, #got, __FILE__, __LINE__)
#define EXPECT_TEXT(expected, got) test_expect_text(expected, got, #got, __FILE__, __LINE__)
/* Prints both as hex on a difference. */
#define EXPECT_BYTES(expected, got) test_expect_bytes(expected, got, #got, __FILE__, __LINE__)
/* Compares with the file test/golden/<name>; UPDATE=1 in the environment rewrites it instead. The
 * sources are at NORN_SOURCE_DIR (environment, else compile definition SOURCE_DIR, else "."). */
#define EXPECT_GOLDEN(name, got) test_expect_golden(name, got, __FILE__, __LINE__)
/* run (void (*)(void)) must end its process by an assertion whose message contains text. It runs
 * in a child process, so that the test survives it. */
#define EXPECT_ABORT(text, run) test_expect_abort(text, run, __FILE__, __LINE__)

void test_expect_eq(int64_t expected, int64_t got, const char *what, const char *file, int line);
void test_expect_status(enum status expected, enum status got, const char *what, const char *file,
                        int line);
void test_expect_text(const char *expected, const char *got, const char *what, const char *file,
                      int line);
void test_expect_bytes(struct bytes expected, struct bytes got, const char *what, const char *file,
                       int line);
void test_expect_golden(const char *name, struct bytes got, const char *file, int line);
void test_expect_abort(const char *text, void (*run)(void), const char *file, int line);

/* A fresh empty directory, removed with all in it after the test or by the next call. */
const char *test_directory(void);
/* The bytes of "0a1b…" (even number of digits); owned by the harness until the test ends. */
struct bytes test_hex(const char *hex);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/help.h"
#include "cli/verbs.h"
#include "test/lib/test.h"

#include <stdio.h>

static const struct command *const tables[] = {client_commands, durable_commands, NULL};

static struct {
    bool flag;
    uint64_t number;
    const char *string;
    int64_t duration_ms;
    struct option_list list;
    struct word_list words;
    int exit_code;
} got;

static bool read_line(const char *arguments, int argc, char **argv)
{
    const struct command command = {
        .name = "test", .arguments = arguments, .summary = "s", .examples = "e"};
    const struct option_spec specs[] = {
        {.name = "flag", .letter = 'f', .flag = &got.flag},
        {.name = "number", .value = "N", .number = &got.number, .least = 1, .most = 4096},
        {.name = "output", .letter = 'o', .value = "F", .among = "json|csv", .string = &got.string},
        {.name = "wait", .value = "D", .duration_ms = &got.duration_ms},
        {.name = "tag", .value = "T", .list = &got.list},
    };

    memset(&got, 0, sizeof got);
    return command_read(&command, specs, 5, argc, argv, &got.words, &got.exit_code);
}

#define READ(arguments, ...)                                                                       \
    read_line(arguments, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)),                  \
              (char *[]){__VA_ARGS__})

TEST(options_and_words_may_be_mixed)
{
    EXPECT(READ("A [B]", "one", "--number=2K", "-o", "csv", "two", "-f", "--wait", "10s", "--tag",
                "a=1", "--tag", "b=2"));
    EXPECT_EQ(2, got.words.n);
    EXPECT_TEXT("one", got.words.items[0]);
    EXPECT_TEXT("two", got.words.items[1]);
    EXPECT_EQ(2048, got.number);
    EXPECT_TEXT("csv", got.string);
    EXPECT(got.flag);
    EXPECT_EQ(10000, got.duration_ms);
    EXPECT_EQ(2, got.list.n);
    EXPECT_TEXT("b=2", got.list.items[1]);
}

TEST(short_options_stick_together_and_to_their_value)
{
    EXPECT(READ(NULL, "-fojson"));
    EXPECT(got.flag);
    EXPECT_TEXT("json", got.string);
}

/* An id may look like an option. */
TEST(after_two_dashes_all_are_words_and_one_dash_is_one)
{
    EXPECT(READ("A...", "--flag", "-", "--", "--flag", "-x"));
    EXPECT_EQ(3, got.words.n);
    EXPECT_TEXT("-", got.words.items[0]);
    EXPECT_TEXT("-x", got.words.items[2]);
}

TEST(wrong_words_are_exit_code_2)
{
    EXPECT(!READ("A", "--nothing"));
    EXPECT_EQ(EXIT_CODE_USAGE, got.exit_code);
    EXPECT(!READ("A", "a", "-x"));
    EXPECT_EQ(EXIT_CODE_USAGE, got.exit_code);
    EXPECT(!READ("A", "a", "--number"));
    EXPECT_EQ(EXIT_CODE_USAGE, got.exit_code);
    EXPECT(!READ("A", "a", "--number", "4097"));
    EXPECT_EQ(EXIT_CODE_USAGE, got.exit_code);
    EXPECT(!READ("A", "a", "--flag=yes"));
    EXPECT_EQ(EXIT_CODE_USAGE, got.exit_code);
    EXPECT(!READ("A", "a", "--output", "xml"));
    EXPECT_EQ(EXIT_CODE_USAGE, got.exit_code);
    EXPECT(!READ("A", "a", "--wait", "10"));
    EXPECT(!READ("A", "a", "--wait", "36526d")); /* more than a hundred years */
    EXPECT_EQ(EXIT_CODE_USAGE, got.exit_code);
    EXPECT(!READ("A", "-f"));
    EXPECT_EQ(EXIT_CODE_USAGE, got.exit_code);
    EXPECT(!READ("A [B]", "a", "b", "c"));
    EXPECT_EQ(EXIT_CODE_USAGE, got.exit_code);
}

TEST(arguments_say_how_many_words)
{
    static const struct {
        const char *text;
        size_t least, most;
    } cases[] = {{NULL, 0, 0},
                 {"ID", 1, 1},
                 {"ID [NAME]", 1, 2},
                 {"ID [ID...]", 1, SIZE_MAX},
                 {"[ID...]", 0, SIZE_MAX},
                 {"A B C", 3, 3}};
    size_t least, most;

    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        arguments_count(cases[n].text, &least, &most);
        EXPECT_EQ(cases[n].least, least);
        EXPECT_EQ(cases[n].most, most);
    }
}

TEST(the_longest_name_that_fits_is_the_command)
{
    char *line[] = {"stream", "list", "x"};
    char *start[] = {"batch", "start", "f"};
    char *nothing[] = {"stream"};
    int words_n = 0;

    EXPECT_TEXT("stream list", command_find(tables, 3, line, &words_n)->name);
    EXPECT_EQ(2, words_n);
    EXPECT_TEXT("batch start", command_find(tables, 3, start, &words_n)->name);
    EXPECT(command_find(tables, 1, nothing, &words_n) == NULL);
    static const struct command shadowed[] = {
        {.name = "a b c"}, {.name = "a b"}, {.name = "a"}, {0}};
    static const struct command *const shadow[] = {shadowed, NULL};
    char *letters[] = {"a", "b", "c", "d"};
    EXPECT_TEXT("a b c", command_find(shadow, 4, letters, &words_n)->name);
    EXPECT_TEXT("a b", command_find(shadow, 2, letters, &words_n)->name);
    EXPECT(command_is_family(tables, "stream"));
    EXPECT(!command_is_family(tables, "strea"));
    EXPECT(!command_is_family(tables, "list"));
}

TEST(a_slip_of_the_pen_finds_its_command)
{
    EXPECT_TEXT("list", command_nearest(tables, "lits"));
    EXPECT_TEXT("terminate", command_nearest(tables, "termiante"));
    EXPECT_TEXT("stream list", command_nearest(tables, "stream lst"));
    EXPECT(command_nearest(tables, "quux") == NULL);
    EXPECT(command_nearest(tables, "xyz") == NULL);
}

static void count_options(void *user, const struct option_spec *specs, size_t n)
{
    size_t *total = user;

    *total += n;
    for (size_t i = 0; i < n; i++) {
        EXPECT(specs[i].help != NULL && specs[i].help[0] != '\0');
        EXPECT(specs[i].flag != NULL || specs[i].value != NULL);
        EXPECT(strcmp(specs[i].name, "help") != 0);
        for (size_t other = 0; other < i; other++) {
            EXPECT(strcmp(specs[i].name, specs[other].name) != 0);
            EXPECT(specs[i].letter == 0 || specs[i].letter != specs[other].letter);
        }
    }
}

/* The help, the manual and the completions are made of it: nothing may be missing or double. */
TEST(every_command_is_described)
{
    for (size_t t = 0; tables[t] != NULL; t++) {
        for (const struct command *c = tables[t]; c->name != NULL; c++) {
            size_t options_n = 0;
            test_note("%s", c->name);
            EXPECT(c->summary != NULL && c->examples != NULL && c->run != NULL);
            EXPECT(strncmp(c->examples, "norn ", 5) == 0);
            EXPECT(c->summary[strlen(c->summary) - 1] != '.');
            command_options(c, count_options, &options_n);
            EXPECT(options_n >= 8);
            for (const struct command *other = tables[t]; other != c; other++)
                EXPECT(strcmp(other->name, c->name) != 0);
        }
    }
}

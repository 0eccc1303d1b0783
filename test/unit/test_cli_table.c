/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "cli/table.h"
#include "test/lib/test.h"

static struct arena arena;
static struct terminal terminal;
static struct table table;

static void begin(unsigned width, bool has_color)
{
    arena_init(&arena, mem_process(), 256);
    terminal = (struct terminal){.is_terminal = width > 0, .has_color = has_color, .width = width};
    table_init(&table, &arena, &terminal);
}

static void expect(const char *wanted)
{
    struct buffer out;

    buffer_init(&out, mem_process());
    table_print(&table, &out);
    buffer_u8(&out, '\0');
    EXPECT_TEXT(wanted, (const char *)out.ptr);
    buffer_release(&out);
    arena_release(&arena);
}

static void row(const char *a, const char *b, const char *c)
{
    table_cell_add(&table, a, COLOR_NONE);
    table_cell_add(&table, b, COLOR_NONE);
    table_cell_add(&table, c, COLOR_NONE);
}

static void three_columns(void)
{
    table_column_add(&table, (struct table_column){.title = "ID", .is_key = true});
    table_column_add(&table, (struct table_column){.title = "N", .is_right = true});
    table_column_add(&table, (struct table_column){.title = "TEXT"});
}

/* A pipe gets everything: what was cut for an eye would be wrong for a program. */
TEST(without_a_terminal_nothing_is_cut)
{
    begin(0, false);
    three_columns();
    row("order-7", "5", "a text that is rather long, longer than any terminal would like it to be");
    row("x", "12345", "");
    expect("ID           N  TEXT\n"
           "order-7      5  a text that is rather long, longer than any terminal would like it to "
           "be\n"
           "x        12345\n");
}

/* The id is what people copy: other columns give way first. */
TEST(on_a_terminal_the_widest_column_gives_way_and_keys_last)
{
    begin(31, false);
    three_columns();
    row("order-with-a-long-id", "5", "this is too long");
    expect("ID                    N  TEXT\n"
           "order-with-a-long-id  5  this …\n");
    begin(20, false);
    three_columns();
    row("order-with-a-long-id", "5", "this is too long");
    expect("ID         N  TEXT\n"
           "order-wi…  5  this …\n");
}

/* An instance that is called like an escape sequence must not reach the terminal as one. */
TEST(what_could_steer_a_terminal_is_shown_and_not_sent)
{
    struct buffer out;

    buffer_init(&out, mem_process());
    text_clean(&out, BYTES_LITERAL("a\033[2J\n\t\x7f\xc2\x9b\xe2\x80\xae\xff!"));
    buffer_u8(&out, '\0');
    EXPECT_TEXT("a\\x1b[2J\\n\\t\\x7f\\x9b\\u202e\xef\xbf\xbd!", (const char *)out.ptr);
    EXPECT_EQ(text_width(bytes_of_text((const char *)out.ptr)),
              text_width(BYTES_LITERAL("a\033[2J\n\t\x7f\xc2\x9b\xe2\x80\xae\xff!")));
    buffer_release(&out);
}

TEST(columns_are_counted_as_they_are_seen)
{
    EXPECT_EQ(5, text_width(bytes_of_text("h\xc3\xa9llo")));
    EXPECT_EQ(4, text_width(bytes_of_text("\xe6\x9d\xb1\xe4\xba\xac"))); /* two wide ones */
    EXPECT_EQ(1, text_width(bytes_of_text("e\xcc\x81")));                /* e and its accent */
    EXPECT_EQ(2, text_width(bytes_of_text("\n")));
}

TEST(a_cut_never_splits_a_character)
{
    struct buffer out;

    for (unsigned width = 1; width < 8; width++) {
        buffer_init(&out, mem_process());
        unsigned used = text_clean_cut(&out, BYTES_LITERAL("\xe6\x9d\xb1\xe4\xba\xac\n!!"), width);
        test_note("width %u", width);
        EXPECT(used <= width);
        EXPECT(bytes_is_utf8(buffer_view(&out)));
        EXPECT_EQ(used, text_width(buffer_view(&out)));
        buffer_release(&out);
    }
}

TEST(colours_do_not_move_columns)
{
    begin(40, true);
    table_column_add(&table, (struct table_column){.title = "STATUS"});
    table_column_add(&table, (struct table_column){.title = "X"});
    table_cell_add(&table, "failed", COLOR_RED);
    table_cell_add(&table, "y", COLOR_NONE);
    expect("\033[1mSTATUS\033[0m  \033[1mX\033[0m\n\033[31mfailed\033[0m  y\n");
}

TEST(a_table_without_rows_is_nothing)
{
    begin(80, false);
    three_columns();
    struct buffer out;
    buffer_init(&out, mem_process());
    table_print(&table, &out);
    EXPECT_EQ(0, out.len);
    buffer_release(&out);
    arena_release(&arena);
}

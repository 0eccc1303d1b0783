/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include "test/lib/test.h"

struct item {
    char name;
    struct list node; /* not first, so that container_of has something to do */
};

static struct item make(char name)
{
    struct item item = {.name = name};

    list_node_init(&item.node);
    return item;
}

/* The names in order, read forward; backward must be the same list. */
static const char *names(const struct list *head)
{
    static char text[16];
    size_t n = 0;
    size_t back_n = 0;

    for (struct list *at = list_first(head); at != NULL; at = list_next(head, at)) {
        text[n++] = container_of(at, struct item, node)->name;
    }
    text[n] = '\0';
    for (const struct list *at = head->prev; at != head; at = at->prev) {
        back_n++;
        EXPECT(back_n <= n);
        EXPECT_EQ(text[n - back_n], container_of(at, struct item, node)->name);
    }
    EXPECT_EQ(n, back_n);
    return text;
}

/* Order is the whole promise of a list. */
TEST(pushes_keep_their_order)
{
    struct item a = make('a'), b = make('b'), c = make('c'), d = make('d');
    struct list head;

    list_init(&head);
    EXPECT_TEXT("", names(&head));
    list_push_back(&head, &b.node);
    list_push_back(&head, &d.node);
    list_push_front(&head, &a.node);
    list_insert_before(&c.node, &d.node);
    EXPECT_TEXT("abcd", names(&head));
    EXPECT(list_first(&head) == &a.node);
    EXPECT(list_last(&head) == &d.node);
}

/* Removal works at the front, in the middle and at the end, and leaves a node that can be used
 * again. */
TEST(removal_closes_the_gap)
{
    struct item a = make('a'), b = make('b'), c = make('c');
    struct list head;

    list_init(&head);
    list_push_back(&head, &a.node);
    list_push_back(&head, &b.node);
    list_push_back(&head, &c.node);
    list_remove(&b.node);
    EXPECT_TEXT("ac", names(&head));
    EXPECT(!list_is_linked(&b.node));
    list_remove(&a.node);
    list_remove(&c.node);
    EXPECT(list_is_empty(&head));
    list_push_back(&head, &b.node);
    EXPECT(list_is_linked(&b.node));
    EXPECT_TEXT("b", names(&head));
}

/* An empty list has no first, no last and nothing to pop. */
TEST(an_empty_list_answers_null)
{
    struct item a = make('a');
    struct list head;

    list_init(&head);
    EXPECT(list_first(&head) == NULL);
    EXPECT(list_last(&head) == NULL);
    EXPECT(list_pop_front(&head) == NULL);
    list_push_back(&head, &a.node);
    EXPECT(list_next(&head, &a.node) == NULL);
    EXPECT(list_pop_front(&head) == &a.node);
    EXPECT(!list_is_linked(&a.node));
    EXPECT(list_is_empty(&head));
}

/* A queue hands over all it has by a splice: nothing may be lost, doubled or left behind. */
TEST(a_splice_moves_everything_to_the_end)
{
    struct item a = make('a'), b = make('b'), c = make('c');
    struct list to, from;

    list_init(&to);
    list_init(&from);
    list_splice_back(&to, &from);
    EXPECT_TEXT("", names(&to));
    list_push_back(&from, &a.node);
    list_splice_back(&to, &from);
    list_push_back(&from, &b.node);
    list_push_back(&from, &c.node);
    list_splice_back(&to, &from);
    EXPECT_TEXT("abc", names(&to));
    EXPECT(list_is_empty(&from));
    list_splice_back(&to, &from);
    EXPECT_TEXT("abc", names(&to));
}

static void push_twice(void)
{
    struct item a = make('a');
    struct list head;

    list_init(&head);
    list_push_back(&head, &a.node);
    list_push_back(&head, &a.node);
}

static void remove_unlinked(void)
{
    struct item a = make('a');

    list_remove(&a.node);
}

/* A node in two lists corrupts both, far away and later: it must stop here. */
TEST(misuse_stops_the_process)
{
    EXPECT_ABORT("node->next == NULL", push_twice);
    EXPECT_ABORT("node->next != NULL", remove_unlinked);
}

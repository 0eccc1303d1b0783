/* SPDX-License-Identifier: Apache-2.0
 *
 * Doubly linked list whose nodes live inside the listed objects. A node that is in no list has
 * next == NULL (list_node_init), so that membership can be asked and asserted.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

/* The object of type `type` whose member `member` is at ptr. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *head) { head->next = head->prev = head; }
static inline void list_node_init(struct list *node) { node->next = node->prev = NULL; }
static inline bool list_is_linked(const struct list *node) { return node->next != NULL; }
static inline bool list_is_empty(const struct list *head) { return head->next == head; }

static inline void list_insert_before(struct list *node, struct list *where)
{
    assert(node->next == NULL);
    node->next = where;
    node->prev = where->prev;
    where->prev->next = node;
    where->prev = node;
}
static inline void list_push_back(struct list *head, struct list *node)
{
    list_insert_before(node, head);
}
static inline void list_push_front(struct list *head, struct list *node)
{
    list_insert_before(node, head->next);
}
static inline void list_remove(struct list *node)
{
    assert(node->next != NULL);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
}
/* NULL when empty. */
static inline struct list *list_first(const struct list *head)
{
    return head->next == head ? NULL : head->next;
}
static inline struct list *list_last(const struct list *head)
{
    return head->prev == head ? NULL : head->prev;
}
/* NULL at the end. */
static inline struct list *list_next(const struct list *head, const struct list *node)
{
    return node->next == head ? NULL : node->next;
}
static inline struct list *list_pop_front(struct list *head)
{
    struct list *node = list_first(head);
    if (node != NULL) list_remove(node);
    return node;
}
/* Appends all of `from` to `to`; `from` is empty afterwards. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_is_empty(from)) return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#endif

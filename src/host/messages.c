/* SPDX-License-Identifier: Apache-2.0
 *
 * See messages.h. Nothing here must not fail: an acknowledgement is what ends a message.
 */
#include "host/messages.h"

#include "host/state.h"

/* A message that waits in a line. */
struct parcel {
    struct list node;
    struct message message; /* bytes behind the struct */
    size_t size;
};

enum status messages_init(struct host *h)
{
    struct messages *m = &h->messages;

    m->lines = mem_take(&h->own, h->cores_n * sizeof *m->lines);
    if (m->lines == NULL) return E_NOMEM;
    m->lines_n = h->cores_n;
    for (uint32_t i = 0; i < m->lines_n; i++) list_init(&m->lines[i]);
    return OK;
}

static struct parcel *parcel_of(struct list *node)
{
    return container_of(node, struct parcel, node);
}

static void parcel_free(struct host *h, struct parcel *p)
{
    assert(h->messages.parcels_n > 0);
    h->messages.parcels_n--;
    h->messages.parcels_size -= p->size;
    if (list_is_linked(&p->node)) list_remove(&p->node);
    mem_give(&h->own, p, p->size);
}

void messages_release(struct host *h)
{
    struct messages *m = &h->messages;

    for (uint32_t i = 0; i < m->lines_n; i++) {
        while (!list_is_empty(&m->lines[i])) parcel_free(h, parcel_of(list_first(&m->lines[i])));
    }
    mem_give(&h->own, m->lines, m->lines_n * sizeof *m->lines);
    *m = (struct messages){0};
}

static void step_message(struct host *h, uint32_t index, const struct message *message)
{
    struct input in = {
        .kind = INPUT_PARTITION_MESSAGE,
        .message = {.from = message->from,
                    .seq = message->seq,
                    .kind = message->kind,
                    .target = message->target,
                    .execution = message->execution,
                    .event = message->event},
    };
    (void)host_step(h, index, &in, NULL); /* without memory: it comes again */
}

static struct bytes keep_bytes(uint8_t **at, struct bytes value)
{
    struct bytes copy = bytes_make(*at, value.len);

    if (value.len > 0) memcpy(*at, value.ptr, value.len);
    *at += value.len;
    return copy;
}

static bool parcel_keep(struct host *h, uint32_t index, const struct message *message)
{
    struct messages *m = &h->messages;
    size_t size =
        sizeof(struct parcel) + message->target.len + message->execution.len + message->event.len;

    if (m->parcels_n >= PARCELS_N_MAX || m->parcels_size + size > PARCELS_SIZE_MAX) return false;
    struct parcel *p = mem_take_zero(&h->own, size);
    if (p == NULL) return false;
    uint8_t *at = (uint8_t *)(p + 1);
    p->size = size;
    p->message = *message;
    p->message.target = keep_bytes(&at, message->target);
    p->message.execution = keep_bytes(&at, message->execution);
    p->message.event = keep_bytes(&at, message->event);
    list_push_back(&m->lines[index], &p->node);
    m->parcels_n++;
    m->parcels_size += size;
    return true;
}

void messages_arrive(struct host *h, uint32_t index, const struct message *message)
{
    bool is_at_hand = loader_is_at_hand(h, index, message->target);

    if (is_at_hand && list_is_empty(&h->messages.lines[index])) {
        step_message(h, index, message);
        return;
    }
    if (!parcel_keep(h, index, message)) return;
    if (!is_at_hand) (void)loader_load(h, index, message->target, NULL); /* else by line_go_on */
}

static void line_go_on(struct host *h, uint32_t index)
{
    struct list *line = &h->messages.lines[index];

    while (!list_is_empty(line)) {
        struct parcel *p = parcel_of(list_first(line));
        if (!loader_is_at_hand(h, index, p->message.target)) {
            /* It is being loaded; or it was, and has left memory again before its turn came. */
            if (loader_load(h, index, p->message.target, NULL) == OK) return;
            parcel_free(h, p); /* no memory to remember it: it comes again */
            continue;
        }
        list_remove(&p->node);
        step_message(h, index, &p->message);
        parcel_free(h, p);
    }
}

void messages_go_on(struct host *h)
{
    if (h->messages.parcels_n == 0) return;
    for (uint32_t index = 0; index < h->messages.lines_n; index++) line_go_on(h, index);
}

void messages_drop(struct host *h, uint32_t index, struct bytes target)
{
    struct list *line = &h->messages.lines[index];
    struct list *node = list_first(line);

    while (node != NULL) {
        struct parcel *p = parcel_of(node);
        node = list_next(line, node);
        if (bytes_equal(p->message.target, target)) parcel_free(h, p);
    }
}

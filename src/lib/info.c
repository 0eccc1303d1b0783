/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client learns about an instance: a copy of everything, with its own memory, because the
 * view it is made from lives only on the engine's thread.
 */
#include "lib/client.h"
#include "lib/memory.h"

#include "base/clock.h"
#include "wire/pb.h"

struct info_box {
    struct norn_info info; /* first */
    struct mem mem;        /* its own */
    struct arena arena;
    struct list node;
    bool is_out_of_memory;
};

static struct info_box *box_of(struct norn_info *info)
{
    return container_of(info, struct info_box, info);
}

struct list *info_node(struct norn_info *info) { return &box_of(info)->node; }
struct norn_info *info_of_node(struct list *node)
{
    return &container_of(node, struct info_box, node)->info;
}

static const char *copy_text(struct info_box *box, struct bytes text)
{
    const char *copy = arena_text(&box->arena, text);

    if (copy == NULL) box->is_out_of_memory = true;
    return copy;
}

static struct norn_bytes copy_maybe(struct info_box *box, struct maybe value)
{
    if (!value.has) return NORN_NONE;
    return (struct norn_bytes){copy_text(box, value.value), value.value.len};
}

static void copy_failure(struct info_box *box, struct maybe raw)
{
    struct pb_reader r = pb_reader_make(raw.value);
    struct pb_field f;
    struct bytes type = BYTES_NONE;
    struct bytes message = BYTES_NONE;

    while (pb_next(&r, &f)) {
        if (f.number == 1) type = f.bytes;
        if (f.number == 2) message = f.bytes;
        if (f.number == 5) box->info.failure.is_final = pb_bool(&f);
    }
    box->info.failure.type = copy_text(box, type);
    box->info.failure.message = copy_text(box, message);
}

/* CONTINUED_AS_NEW is never what an instance is: it goes on. */
static enum norn_state state_of(enum orchestration_status status)
{
    switch (status) {
    case STATUS_RUNNING:
    case STATUS_CONTINUED_AS_NEW: return NORN_RUNNING;
    case STATUS_COMPLETED: return NORN_COMPLETED;
    case STATUS_FAILED: return NORN_FAILED;
    case STATUS_CANCELED: return NORN_CANCELED;
    case STATUS_TERMINATED: return NORN_TERMINATED;
    case STATUS_PENDING: return NORN_PENDING;
    case STATUS_SUSPENDED: return NORN_SUSPENDED;
    }
    return NORN_RUNNING;
}

struct norn_info *info_new(const struct instance_view *view)
{
    struct info_box *box = memory_new(sizeof *box, offsetof(struct info_box, mem));

    if (box == NULL) return NULL;
    arena_init(&box->arena, &box->mem, 512);
    struct norn_info *info = &box->info;
    info->id = copy_text(box, key_id(view->key));
    info->name = copy_text(box, view->name);
    if (view->version.has) info->version = copy_text(box, view->version.value);
    info->state = state_of(view->status);
    info->input = copy_maybe(box, view->input);
    info->output = copy_maybe(box, view->is_entity ? view->entity_state : view->output);
    info->custom_status = copy_maybe(box, view->custom_status);
    copy_failure(box, view->failure);
    info->created_ms = view->created_ns / NS_PER_MS;
    info->updated_ms = view->updated_ns / NS_PER_MS;
    if (!box->is_out_of_memory) return info;
    norn_info_free(info);
    return NULL;
}

void norn_info_free(struct norn_info *info)
{
    if (info == NULL) return;
    struct info_box *box = box_of(info);
    arena_release(&box->arena);
    memory_free(box, sizeof *box, offsetof(struct info_box, mem));
}

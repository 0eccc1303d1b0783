/* SPDX-License-Identifier: Apache-2.0
 *
 * See registry.h. A sorted array: base/map.h remembers its last find, which threads would fight
 * for.
 */
#include "lib/registry.h"

#include "core/entity_id.h"
#include "core/limits.h"

void registry_init(struct registry *r, struct mem *mem)
{
    *r = (struct registry){.mem = mem};
    arena_init(&r->arena, mem, 1024);
}

void registry_release(struct registry *r)
{
    mem_give(r->mem, r->functions, r->size * sizeof(struct function *));
    arena_release(&r->arena);
    *r = (struct registry){.mem = r->mem};
}

static struct bytes version_of(const struct function *f)
{
    return f->code.version != NULL ? bytes_of_text(f->code.version) : BYTES_NONE;
}

static int compare(const struct function *f, enum work_kind kind, struct bytes name,
                   struct bytes version)
{
    if (f->kind != kind) return f->kind < kind ? -1 : 1;
    int order = bytes_compare(bytes_of_text(f->code.name), name);
    return order != 0 ? order : bytes_compare(version_of(f), version);
}

/* Where it is, or would be. */
static size_t place_of(const struct registry *r, enum work_kind kind, struct bytes name,
                       struct bytes version)
{
    size_t low = 0;
    size_t high = r->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(r->functions[middle], kind, name, version) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct function *find_exact(const struct registry *r, enum work_kind kind, struct bytes name,
                                   struct bytes version)
{
    size_t at = place_of(r, kind, name, version);

    if (at == r->n || compare(r->functions[at], kind, name, version) != 0) return NULL;
    return r->functions[at];
}

static bool make_room(struct registry *r)
{
    if (r->n < r->size) return true;
    size_t size = r->size > 0 ? 2 * r->size : 16;
    struct function **functions =
        mem_resize(r->mem, r->functions, r->size * sizeof *functions, size * sizeof *functions);
    if (functions == NULL) return false;
    r->functions = functions;
    r->size = size;
    return true;
}

static bool is_name(struct bytes name)
{
    return name.len > 0 && name.len <= LIMIT_NAME_SIZE && bytes_is_utf8(name);
}

static enum status copy_names(struct registry *r, struct function *f)
{
    char *name = arena_text(&r->arena, bytes_of_text(f->code.name));

    if (name == NULL) return E_NOMEM;
    /* an entity's is in lower case wherever it travels */
    for (char *c = name; f->kind == WORK_ENTITY && *c != '\0'; c++) {
        if (*c == '@') return E_INVALID;
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    }
    f->code.name = name;
    if (f->code.version == NULL) return OK;
    f->code.version = arena_text(&r->arena, bytes_of_text(f->code.version));
    return f->code.version != NULL ? OK : E_NOMEM;
}

enum status registry_add(struct registry *r, const struct function *given)
{
    if (given->code.name == NULL || !is_name(bytes_of_text(given->code.name))) return E_INVALID;
    if (given->code.version != NULL && !is_name(bytes_of_text(given->code.version))) {
        return E_INVALID;
    }
    if (r->n >= REGISTRY_N_MAX) return E_LIMIT;
    struct function *f = arena_alloc_zero(&r->arena, sizeof *f);
    if (f == NULL || !make_room(r)) return E_NOMEM;
    f->kind = given->kind;
    f->code = given->code;
    f->activity = given->activity;
    f->entity = given->entity;
    f->user = given->user;
    f->concurrency = given->concurrency;
    f->is_slow = true; /* until it has shown otherwise */
    list_init(&f->waiting);
    enum status status = copy_names(r, f);
    if (status != OK) return status;
    struct bytes name = bytes_of_text(f->code.name);
    if (find_exact(r, f->kind, name, version_of(f)) != NULL) return E_EXISTS;
    size_t at = place_of(r, f->kind, name, version_of(f));
    memmove(r->functions + at + 1, r->functions + at, (r->n - at) * sizeof *r->functions);
    r->functions[at] = f;
    r->n++;
    return OK;
}

/* The versions of one name stand together; the one without is first, and takes all. */
static enum status close_kind(struct registry *r, enum work_kind kind)
{
    struct link_name *names = arena_alloc_zero(&r->arena, (r->n + 1) * sizeof *names);
    struct bytes *versions = arena_alloc_zero(&r->arena, (r->n + 1) * sizeof *versions);
    size_t names_n = 0;

    if (names == NULL || versions == NULL) return E_NOMEM;
    for (size_t n = 0; n < r->n; n++) {
        const struct function *f = r->functions[n];
        if (f->kind != kind) continue;
        struct bytes name = bytes_of_text(f->code.name);
        bool is_same = names_n > 0 && bytes_equal(names[names_n - 1].name, name);
        if (!is_same) names[names_n++] = (struct link_name){.name = name, .versions = versions};
        struct link_name *last = &names[names_n - 1];
        if (f->code.version == NULL) continue;
        if (is_same && last->versions_n == 0) continue; /* any */
        *versions++ = version_of(f);
        last->versions_n++;
    }
    r->names[kind] = names;
    r->names_n[kind] = names_n;
    return OK;
}

enum status registry_close(struct registry *r)
{
    enum status status = close_kind(r, WORK_TURN);

    if (status == OK) status = close_kind(r, WORK_TASK);
    if (status == OK) status = close_kind(r, WORK_ENTITY);
    return status;
}

struct function *registry_find(const struct registry *r, enum work_kind kind, struct bytes name,
                               struct maybe version)
{
    struct function *f = NULL;

    if (version.has && kind == WORK_TURN) f = find_exact(r, kind, name, version.value);
    return f != NULL ? f : find_exact(r, kind, name, BYTES_NONE);
}

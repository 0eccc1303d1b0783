/* SPDX-License-Identifier: Apache-2.0
 *
 * The document at /openapi.json has an operation for every route, and no other.
 */
#include "rest/rest.h"
#include "test/lib/test.h"
#include "wire/json_read.h"

#include <stdio.h>
#include <string.h>

#define OPERATIONS_N_MAX 200

struct operation {
    char method[8];
    char path[120];
    char id[64];
    bool has_summary;
    bool is_known;
};

static struct operation operations[OPERATIONS_N_MAX];
static size_t operations_n;

static void copy(char *to, size_t size, const struct buffer *from)
{
    EXPECT(from->len < size);
    memcpy(to, from->ptr, from->len);
    to[from->len] = '\0';
}

static bool is_method(const struct buffer *key)
{
    static const char *const names[] = {"get", "put", "post", "delete", "patch"};

    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        if (bytes_equal(buffer_view(key), bytes_of_text(names[n]))) return true;
    }
    return false;
}

static void read_operation(struct json_reader *r, struct buffer *text, struct operation *o)
{
    EXPECT(json_read_begin(r));
    while (json_read_item(r)) {
        EXPECT(json_read_key(r, text));
        bool is_id = bytes_equal(buffer_view(text), BYTES_LITERAL("operationId"));
        o->has_summary = o->has_summary || bytes_equal(buffer_view(text), BYTES_LITERAL("summary"));
        if (!is_id) EXPECT(json_skip(r));
        if (!is_id) continue;
        EXPECT(json_read_string(r, text));
        copy(o->id, sizeof o->id, text);
    }
}

static void read_path(struct json_reader *r, struct buffer *text, const char *path)
{
    EXPECT(json_read_begin(r));
    while (json_read_item(r)) {
        EXPECT(json_read_key(r, text));
        if (!is_method(text)) {
            EXPECT(json_skip(r));
            continue;
        }
        EXPECT(operations_n < OPERATIONS_N_MAX);
        struct operation *o = &operations[operations_n++];
        copy(o->method, sizeof o->method, text);
        (void)snprintf(o->path, sizeof o->path, "%s", path);
        read_operation(r, text, o);
    }
}

static void read_document(void)
{
    struct json_reader r = json_reader_make(rest_openapi());
    struct buffer text;
    char path[120];

    buffer_init(&text, mem_process());
    operations_n = 0;
    EXPECT(json_read_begin(&r));
    while (json_read_item(&r)) {
        EXPECT(json_read_key(&r, &text));
        if (!bytes_equal(buffer_view(&text), BYTES_LITERAL("paths"))) {
            EXPECT(json_skip(&r));
            continue;
        }
        EXPECT(json_read_begin(&r));
        while (json_read_item(&r)) {
            EXPECT(json_read_key(&r, &text));
            copy(path, sizeof path, &text);
            read_path(&r, &text, path);
        }
    }
    EXPECT(!r.failed);
    buffer_release(&text);
}

static struct operation *find(const char *method, const char *path)
{
    for (size_t n = 0; n < operations_n; n++) {
        if (strcasecmp(operations[n].method, method) == 0 && strcmp(operations[n].path, path) == 0)
            return &operations[n];
    }
    return NULL;
}

TEST(every_route_is_in_the_document_and_the_other_way_round)
{
    const char *method, *pattern, *operation;

    read_document();
    for (unsigned n = 0; rest_route(n, &method, &pattern, &operation); n++) {
        struct operation *o = find(method, pattern);
        if (o == NULL)
            test_fail(__FILE__, __LINE__, "%s %s is not in the document", method, pattern);
        EXPECT_TEXT(operation, o->id);
        EXPECT(o->has_summary);
        o->is_known = true;
    }
    for (size_t n = 0; n < operations_n; n++) {
        if (!operations[n].is_known)
            test_fail(__FILE__, __LINE__, "%s %s is in the document, and no route",
                      operations[n].method, operations[n].path);
    }
}

/* Names of operations are names of functions in generated clients. */
TEST(operation_ids_are_unique)
{
    read_document();
    for (size_t a = 0; a < operations_n; a++) {
        for (size_t b = 0; b < a; b++) EXPECT(strcmp(operations[a].id, operations[b].id) != 0);
    }
}

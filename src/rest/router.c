/* SPDX-License-Identifier: Apache-2.0
 *
 * From a path to its handler. The patterns of all tables make one tree of segments when the API is
 * made; a look-up walks it once. A literal segment beats a parameter. Query parameters are those
 * that the route lists, each at most once: what is misspelt must not be ignored.
 */
#include "base/eight.h"
#include "base/nearest.h"
#include "rest/state.h"

#define HUB_SIZE_MAX 64

enum method { METHOD_GET, METHOD_PUT, METHOD_POST, METHOD_DELETE, METHODS_N };
static const char *const methods[METHODS_N] = {"GET", "PUT", "POST", "DELETE"};

struct node {
    struct bytes segment; /* static */
    struct node *children;
    struct node *next;
    struct node *parameter; /* the child for any segment */
    const struct route *routes[METHODS_N];
};

static const struct route *const tables[] = {
#define X(table) table,
    ROUTE_TABLES(X)
#undef X
};

/* ---- the tree ---- */

/* Takes the segment after the '/' that rest begins with. False at the end. */
static bool next_segment(struct bytes *rest, struct bytes *segment)
{
    if (rest->len == 0 || rest->ptr[0] != '/') return false;
    const uint8_t *from = rest->ptr + 1;
    size_t left = rest->len - 1;
    const uint8_t *slash = left == 0 ? NULL : memchr(from, '/', left);
    size_t len = slash == NULL ? left : (size_t)(slash - from);
    *segment = bytes_make(from, len);
    *rest = bytes_make(from + len, left - len);
    return true;
}

static struct node *node_child(struct node *node, struct bytes segment)
{
    for (struct node *child = node->children; child != NULL; child = child->next) {
        if (bytes_equal(child->segment, segment)) return child;
    }
    return NULL;
}

static struct node *node_make(struct rest *r, struct node *node, struct bytes segment)
{
    bool is_parameter = segment.len > 0 && segment.ptr[0] == '{';
    struct node *child = is_parameter ? node->parameter : node_child(node, segment);

    if (child != NULL) return child;
    child = arena_alloc_zero(&r->routes, sizeof *child);
    if (child == NULL) return NULL;
    child->segment = segment;
    if (is_parameter) {
        node->parameter = child;
    } else {
        child->next = node->children;
        node->children = child;
    }
    return child;
}

static enum method method_of(struct bytes name)
{
    if (bytes_equal(name, BYTES_LITERAL("HEAD"))) return METHOD_GET;
    for (enum method m = 0; m < METHODS_N; m++) {
        if (bytes_equal(name, bytes_of_text(methods[m]))) return m;
    }
    return METHODS_N;
}

static enum status route_add(struct rest *r, const struct route *route)
{
    struct bytes rest = bytes_of_text(route->pattern);
    struct bytes segment;
    struct node *node = r->root;
    enum method method = method_of(bytes_of_text(route->method));

    while (node != NULL && next_segment(&rest, &segment)) node = node_make(r, node, segment);
    if (node == NULL) return E_NOMEM;
    assert(method < METHODS_N);
    assert(node->routes[method] == NULL);
    node->routes[method] = route;
    return OK;
}

enum status router_init(struct rest *r)
{
    arena_init(&r->routes, r->mem, 4096);
    r->root = arena_alloc_zero(&r->routes, sizeof *r->root);
    if (r->root == NULL) return E_NOMEM;
    for (size_t n = 0; n < sizeof tables / sizeof tables[0]; n++) {
        for (const struct route *route = tables[n]; route->method != NULL; route++) {
            enum status status = route_add(r, route);
            if (status != OK) return status;
        }
    }
    return OK;
}

bool rest_route(unsigned n, const char **method, const char **pattern, const char **operation)
{
    for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++) {
        for (const struct route *route = tables[table]; route->method != NULL; route++) {
            if (n-- > 0) continue;
            *method = route->method;
            *pattern = route->pattern;
            *operation = route->operation;
            return true;
        }
    }
    return false;
}

/* ---- decoding ---- */

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool needs_decoding(struct bytes text, bool is_query)
{
    const uint8_t plus = is_query ? '+' : '%';
    size_t n = 0;

    for (; text.len - n >= 8; n += 8) {
        uint64_t word = load_u64(text.ptr + n);
        if ((eight_equal(word, '%') | eight_not_ascii(word) | eight_equal(word, plus)) != 0)
            return true;
    }
    for (; n < text.len; n++) {
        uint8_t c = text.ptr[n];
        if (c == '%' || c >= 0x80 || c == plus) return true;
    }
    return false;
}

bool percent_decode(struct arena *arena, struct bytes text, bool is_query, struct bytes *out)
{
    if (!needs_decoding(text, is_query)) {
        *out = text;
        return true;
    }
    uint8_t *to = arena_alloc(arena, text.len);
    size_t len = 0;
    if (to == NULL) return false;
    for (size_t n = 0; n < text.len; n++) {
        uint8_t c = text.ptr[n];
        if (is_query && c == '+') c = ' ';
        if (text.ptr[n] == '%') {
            int high = n + 2 < text.len ? hex_value(text.ptr[n + 1]) : -1;
            int low = n + 2 < text.len ? hex_value(text.ptr[n + 2]) : -1;
            if (high < 0 || low < 0) return false;
            c = (uint8_t)(high << 4 | low);
            n += 2;
        }
        if (c == '\0') return false;
        to[len++] = c;
    }
    *out = bytes_make(to, len);
    return bytes_is_utf8(*out);
}

/* ---- the path ---- */

/* The node of what is left of the path; fills in its parameters, encoded. NULL: there is none. */
static const struct node *node_find(struct ask *ask, const struct node *node, struct bytes rest,
                                    unsigned depth)
{
    struct bytes segment;
    struct bytes after = rest;

    if (rest.len == 0) return node;
    if (!next_segment(&after, &segment)) return NULL;
    for (const struct node *child = node->children; child != NULL; child = child->next) {
        if (!bytes_equal(child->segment, segment)) continue;
        const struct node *found = node_find(ask, child, after, depth);
        if (found != NULL) return found;
    }
    if (node->parameter == NULL || segment.len == 0) return NULL;
    assert(depth < PATH_PARAMETERS_N);
    ask->path[depth] = segment;
    return node_find(ask, node->parameter, after, depth + 1);
}

static bool has_routes(const struct node *node)
{
    for (enum method m = 0; m < METHODS_N; m++) {
        if (node->routes[m] != NULL) return true;
    }
    return false;
}

static bool refuse_method(struct ask *ask, const struct node *node, struct bytes method)
{
    char allow[64];
    size_t len = 0;

    for (enum method m = 0; m < METHODS_N; m++) {
        if (node->routes[m] == NULL) continue;
        const char *words[] = {methods[m], m == METHOD_GET ? "HEAD" : NULL};
        for (size_t n = 0; n < 2 && words[n] != NULL; n++) {
            size_t size = strlen(words[n]);
            if (len > 0) memcpy(allow + len, ", ", 2);
            if (len > 0) len += 2;
            memcpy(allow + len, words[n], size);
            len += size;
        }
    }
    assert(len < sizeof allow);
    ask_add_header(ask, "allow", bytes_make(allow, len));
    ask_problem(ask, PROBLEM_METHOD_NOT_ALLOWED, NULL, "%.*s does not apply here: there is %.*s",
                (int)(method.len < 20 ? method.len : 20), (const char *)method.ptr, (int)len,
                allow);
    return false;
}

static bool find_route(struct ask *ask)
{
    struct bytes path = http_path(ask->exchange);
    struct bytes method = http_method(ask->exchange);
    const struct node *node = node_find(ask, ask->rest->root, path, 0);

    if (node == NULL || !has_routes(node)) {
        ask_problem(ask, PROBLEM_ROUTE_NOT_FOUND, "/openapi.json lists what there is",
                    "there is nothing at %.*s", (int)(path.len < 300 ? path.len : 300),
                    (const char *)path.ptr);
        return false;
    }
    enum method m = method_of(method);
    if (m == METHODS_N || node->routes[m] == NULL) return refuse_method(ask, node, method);
    ask->route = node->routes[m];
    for (size_t n = 0; n < PATH_PARAMETERS_N; n++) {
        if (percent_decode(&ask->arena, ask->path[n], false, &ask->path[n])) continue;
        ask_problem(ask, PROBLEM_BAD_REQUEST, NULL,
                    "the path has an escape that is none, a NUL, or is not UTF-8");
        return false;
    }
    return true;
}

/* ---- the query ---- */

/* The next of words with spaces between them. */
static bool next_word(const char **words, struct bytes *word)
{
    while (**words == ' ') ++*words;
    size_t len = strcspn(*words, " ");
    *word = bytes_make(*words, len);
    *words += len;
    return len > 0;
}

static bool is_hub_name(struct bytes name)
{
    for (size_t n = 0; n < name.len; n++) {
        uint8_t c = name.ptr[n];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && memchr("-_.", c, 3) == NULL) return false;
    }
    return name.len > 0 && name.len <= HUB_SIZE_MAX;
}

/* Which of the route's parameters it is; -1 = none. */
static int parameter_index(const struct route *route, struct bytes name)
{
    const char *words = route->parameters == NULL ? "" : route->parameters;
    struct bytes word;

    for (int n = 0; next_word(&words, &word); n++) {
        if (bytes_equal(word, name)) return n;
    }
    return -1;
}

static bool refuse_parameter(struct ask *ask, struct bytes name)
{
    const char *words = ask->route->parameters == NULL ? "" : ask->route->parameters;
    struct bytes word;
    struct nearest nearest;

    nearest_init(&nearest, name);
    nearest_offer(&nearest, BYTES_LITERAL("hub"));
    while (next_word(&words, &word)) nearest_offer(&nearest, word);
    ask_problem(ask, PROBLEM_BAD_PARAMETER, NULL, "there is no parameter '%.*s' here%s%.*s%s",
                (int)(name.len < 100 ? name.len : 100), (const char *)name.ptr,
                nearest.best.len > 0 ? "; did you mean '" : "", (int)nearest.best.len,
                (const char *)nearest.best.ptr, nearest.best.len > 0 ? "'?" : "");
    return false;
}

static bool read_pair(struct ask *ask, struct bytes pair, bool *has_hub)
{
    const uint8_t *equals = memchr(pair.ptr, '=', pair.len);
    size_t name_len = equals == NULL ? pair.len : (size_t)(equals - pair.ptr);
    size_t value_at = equals == NULL ? pair.len : name_len + 1;
    struct bytes name, value;

    if (!percent_decode(&ask->arena, bytes_make(pair.ptr, name_len), true, &name) ||
        !percent_decode(&ask->arena, bytes_make(pair.ptr + value_at, pair.len - value_at), true,
                        &value)) {
        ask_problem(ask, PROBLEM_BAD_PARAMETER, NULL,
                    "the query has an escape that is none, a NUL, or is not UTF-8");
        return false;
    }
    bool is_hub = bytes_equal(name, BYTES_LITERAL("hub"));
    int n = is_hub ? 0 : parameter_index(ask->route, name);
    if (n < 0) return refuse_parameter(ask, name);
    assert(n < QUERY_PARAMETERS_N);
    if (is_hub ? *has_hub : ask->query[n].has) {
        ask_problem(ask, PROBLEM_BAD_PARAMETER, NULL, "the parameter '%.*s' is there twice",
                    (int)(name.len < 100 ? name.len : 100), (const char *)name.ptr);
        return false;
    }
    if (!is_hub) {
        ask->query[n] = maybe_some(value);
        return true;
    }
    *has_hub = true;
    ask->hub = value;
    if (is_hub_name(value)) return true;
    ask->hub = BYTES_LITERAL("default");
    ask_bad_parameter(ask, "hub", "must have 1 to 64 of letters, digits, '-', '_' and '.'");
    return false;
}

static bool read_query(struct ask *ask)
{
    struct bytes rest = http_query(ask->exchange);
    bool has_hub = false;

    while (rest.len > 0) {
        const uint8_t *end = memchr(rest.ptr, '&', rest.len);
        size_t len = end == NULL ? rest.len : (size_t)(end - rest.ptr);
        size_t over = end == NULL ? len : len + 1;
        struct bytes pair = bytes_make(rest.ptr, len);
        rest = bytes_make(rest.ptr + over, rest.len - over);
        if (pair.len > 0 && !read_pair(ask, pair, &has_hub)) return false;
    }
    return true;
}

struct maybe ask_parameter(const struct ask *ask, const char *name)
{
    int n = parameter_index(ask->route, bytes_of_text(name));

    assert(n >= 0);
    return ask->query[n];
}

/* ---- the body's type ---- */

/* In lower case and without parameters; "" when it is too long to be one we know. */
static void type_read(struct bytes value, char out[64])
{
    const uint8_t *semicolon = value.len == 0 ? NULL : memchr(value.ptr, ';', value.len);
    size_t len = semicolon == NULL ? value.len : (size_t)(semicolon - value.ptr);

    while (len > 0 && (value.ptr[len - 1] == ' ' || value.ptr[len - 1] == '\t')) len--;
    if (len >= 64) len = 0;
    for (size_t n = 0; n < len; n++) {
        uint8_t c = value.ptr[n];
        out[n] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    out[len] = '\0';
}

bool type_is(struct bytes value, const char *type)
{
    char text[64];

    type_read(value, text);
    return strcmp(text, type) == 0;
}

static bool is_json_type(struct bytes value)
{
    char text[64];

    type_read(value, text);
    size_t len = strlen(text);
    return strcmp(text, "application/json") == 0 ||
           (len > 5 && strcmp(text + len - 5, "+json") == 0);
}

static bool check_type(struct ask *ask)
{
    if ((ask->route->flags & ROUTE_ANY_TYPE) != 0 || ask_body(ask).len == 0) return true;
    struct bytes type = http_header(ask->exchange, "content-type");
    if (type.len == 0 || is_json_type(type)) return true;
    ask_problem(ask, PROBLEM_NOT_JSON, "send it with Content-Type: application/json",
                "the body is %.*s", (int)(type.len < 100 ? type.len : 100), (const char *)type.ptr);
    return false;
}

bool router_find(struct ask *ask) { return find_route(ask) && read_query(ask) && check_type(ask); }

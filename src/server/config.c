/* SPDX-License-Identifier: Apache-2.0
 *
 * See config.h: the table, one value, and the ways to print them. The file's grammar is in
 * config_file.c.
 */
#include "server/config.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"
#include "reply/reply.h"
#include "server/address.h"
#include "server/ingest_rules.h"
#include "server/policy_rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_PREFIX "NORN_"
/* Names further apart than this are not meant. */
#define NEAR_DISTANCE_MAX 3
/* The environment is not ours alone: a container manager puts addresses of services there, by names
 * such as NORN_SERVER_PORT. What is nearly one of ours is a slip of the pen, the rest is theirs. */
#define VARIABLE_DISTANCE_MAX 2

struct row {
    const char *section;
    const char *key;
    enum setting_kind kind;
    const char *value;
    uint64_t least;
    uint64_t most;
    const char *help;
};

static const struct row rows[SETTINGS_N] = {
#define X(section, key, kind, value, least, most, help)                                            \
    {#section, #key, SETTING_##kind, value, least, most, help},
    SETTINGS(X)
#undef X
};

/* In the order of their enums. */
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const formats[] = {"auto", "text", "json", NULL};
static const char *const switches[] = {"false", "true", NULL};
_Static_assert(LOG_DEBUG == 0 && LOG_INFO == 1 && LOG_WARN == 2 && LOG_ERROR == 3, "levels[]");
_Static_assert(LOG_AUTO == 0 && LOG_TEXT == 1 && LOG_JSON == 2, "formats[]");

/* ---- names ---- */

void setting_name(enum setting setting, char *out)
{
    (void)snprintf(out, SETTING_NAME_SIZE, "%s.%s", rows[setting].section, rows[setting].key);
}

void setting_flag(enum setting setting, char *out)
{
    const struct row *row = &rows[setting];
    bool is_server = strcmp(row->section, "server") == 0;

    (void)snprintf(out, SETTING_NAME_SIZE, "%s%s%s", is_server ? "" : row->section,
                   is_server ? "" : "-", row->key);
    for (; *out != '\0'; out++) {
        if (*out == '_') *out = '-';
    }
}

static void setting_variable(enum setting setting, char *out)
{
    const struct row *row = &rows[setting];

    (void)snprintf(out, SETTING_NAME_SIZE, ENVIRONMENT_PREFIX "%s_%s", row->section, row->key);
    for (; *out != '\0'; out++) *out = (char)toupper((unsigned char)*out);
}

bool setting_is_switch(enum setting setting) { return rows[setting].kind == SETTING_FLAG; }
enum setting_kind setting_kind(enum setting setting) { return rows[setting].kind; }

enum status setting_find(struct bytes section, struct bytes key, enum setting *out)
{
    for (enum setting s = 0; s < SETTINGS_N; s++) {
        if (!bytes_equal(section, bytes_of_text(rows[s].section))) continue;
        if (!bytes_equal(key, bytes_of_text(rows[s].key))) continue;
        *out = s;
        return OK;
    }
    return E_NOT_FOUND;
}

/* ---- "did you mean" ---- */

/* The setting whose name, as `name` writes it, is nearest; SETTINGS_N when none is near. */
static enum setting nearest(struct bytes wanted, void (*name)(enum setting, char *),
                            unsigned distance_max)
{
    enum setting best = SETTINGS_N;
    unsigned best_distance = distance_max + 1;

    for (enum setting s = 0; s < SETTINGS_N; s++) {
        char text[SETTING_NAME_SIZE];
        name(s, text);
        unsigned d = edit_distance(wanted, bytes_of_text(text));
        if (d >= best_distance) continue;
        best_distance = d;
        best = s;
    }
    return best;
}

void setting_flag_near(const char *name, char *out)
{
    enum setting near = nearest(bytes_of_text(name), setting_flag, NEAR_DISTANCE_MAX);

    out[0] = '\0';
    if (near != SETTINGS_N) setting_flag(near, out);
}

bool config_has_section(struct bytes name)
{
    for (enum setting s = 0; s < SETTINGS_N; s++) {
        if (bytes_equal(name, bytes_of_text(rows[s].section))) return true;
    }
    return false;
}

/* The section that has this key; NULL when none has. */
static const char *section_of_key(struct bytes key)
{
    for (enum setting s = 0; s < SETTINGS_N; s++) {
        if (bytes_equal(key, bytes_of_text(rows[s].key))) return rows[s].section;
    }
    return NULL;
}

static void unknown_section(struct bytes section, const char *where, struct buffer *problems)
{
    unsigned best_distance = NEAR_DISTANCE_MAX + 1;
    const char *best = NULL;

    for (enum setting s = 0; s < SETTINGS_N; s++) {
        unsigned d = edit_distance(section, bytes_of_text(rows[s].section));
        if (d < best_distance) best = rows[s].section;
        if (d < best_distance) best_distance = d;
    }
    buffer_format(problems, "%s: there is no section [%.*s]", where, (int)section.len,
                  (const char *)section.ptr);
    if (best != NULL)
        buffer_format(problems, "; did you mean [%s]?\n", best);
    else
        buffer_format(problems, "; there are [server], [log], [work], [store] and [ingest]\n");
}

void config_unknown(struct bytes section, struct bytes key, const char *where,
                    struct buffer *problems)
{
    if (!config_has_section(section)) {
        unknown_section(section, where, problems);
        return;
    }
    buffer_format(problems, "%s: there is no \"%.*s\" in [%.*s]", where, (int)key.len,
                  (const char *)key.ptr, (int)section.len, (const char *)section.ptr);

    const char *other = section_of_key(key);
    char full[2 * SETTING_NAME_SIZE];
    (void)snprintf(full, sizeof full, "%.*s.%.*s", (int)section.len, (const char *)section.ptr,
                   (int)key.len, (const char *)key.ptr);
    enum setting near = nearest(bytes_of_text(full), setting_name, NEAR_DISTANCE_MAX);
    if (other != NULL)
        buffer_format(problems, "; it belongs to [%s]\n", other);
    else if (near != SETTINGS_N)
        buffer_format(problems, "; did you mean \"%s\" of [%s]?\n", rows[near].key,
                      rows[near].section);
    else
        buffer_format(problems, "; norn server --help lists all settings\n");
}

/* ---- one value ---- */

static bool choice_read(const char *text, const char *const *names, uint64_t *out)
{
    for (uint64_t i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        *out = i;
        return true;
    }
    return false;
}

static bool addresses_are_valid(const char *list)
{
    char address[ADDRESS_SIZE];
    bool is_valid = false;

    while (address_next(&list, address)) {
        if (!address_is_valid(address)) return false;
        is_valid = true;
    }
    return is_valid;
}

/* What a value of this kind looks like. */
static const char *kind_words(enum setting_kind kind)
{
    switch (kind) {
    case SETTING_TEXT: return "a text that is not empty";
    case SETTING_ADDRESSES: return "addresses such as 127.0.0.1:4001 or [::1]:4001";
    case SETTING_LEVEL: return "debug, info, warn or error";
    case SETTING_FORMAT: return "auto, text or json";
    case SETTING_FLAG: return "true or false";
    case SETTING_COUNT: return "a whole number";
    case SETTING_SIZE: return "a size such as 64KiB or 16MiB";
    case SETTING_DURATION: return "a duration such as 250ms, 10s, 5m or 7d";
    case SETTING_RULES: return "limits by name such as ship:active=100,rate=50; bill:active=10";
    case SETTING_POLICIES:
        return "policies by name such as ship:complete_by=10m,last_resort=park; *:complete_by=1d";
    }
    unreachable("setting kind");
}

static bool value_read(enum setting_kind kind, const char *text, uint64_t *out)
{
    switch (kind) {
    case SETTING_TEXT: return text[0] != '\0';
    case SETTING_ADDRESSES: return addresses_are_valid(text);
    case SETTING_LEVEL: return choice_read(text, levels, out);
    case SETTING_FORMAT: return choice_read(text, formats, out);
    case SETTING_FLAG: return choice_read(text, switches, out);
    case SETTING_COUNT: return count_parse(bytes_of_text(text), out);
    case SETTING_SIZE: return size_parse(bytes_of_text(text), out);
    case SETTING_DURATION: return duration_parse(bytes_of_text(text), (int64_t *)out);
    case SETTING_RULES: return ingest_rules_count(bytes_of_text(text), out);
    case SETTING_POLICIES: return policy_rules_count(bytes_of_text(text), out);
    }
    unreachable("setting kind");
}

static bool is_number(enum setting_kind kind)
{
    return kind == SETTING_COUNT || kind == SETTING_SIZE || kind == SETTING_DURATION;
}

/* A limit in the unit that the value is written in. */
static void limit_print(enum setting_kind kind, uint64_t limit, struct buffer *out)
{
    char text[UNITS_SIZE];

    if (kind == SETTING_SIZE)
        size_format(limit, text);
    else if (kind == SETTING_DURATION)
        duration_format((int64_t)limit, text);
    else
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)limit);
    buffer_append_bytes(out, bytes_of_text(text));
}

static void range_problem(const struct row *row, const char *where, const char *text,
                          struct buffer *problems)
{
    buffer_format(problems, "%s: %s = %s is not from ", where, row->key, text);
    limit_print(row->kind, row->least, problems);
    buffer_format(problems, " to ");
    limit_print(row->kind, row->most, problems);
    buffer_format(problems, "\n");
}

/* Of these the number is how many they are. */
static enum status keep_rules(struct config *c, const char *text, size_t n)
{
    struct backlog_rule *rules = arena_alloc_zero(&c->arena, (n + 1) * sizeof *rules);

    if (rules == NULL) return E_NOMEM;
    ingest_rules_read(bytes_of_text(text), rules);
    c->rules = rules;
    c->rules_n = n;
    return OK;
}

static enum status keep_policies(struct config *c, const char *text, size_t n)
{
    struct policy_rules *policies = arena_alloc_zero(&c->arena, sizeof *policies);
    struct policy_rule *list = arena_alloc_zero(&c->arena, (n + 1) * sizeof *list);

    if (policies == NULL || list == NULL) return E_NOMEM;
    policy_rules_read(bytes_of_text(text), list, policies);
    c->policies = policies;
    return OK;
}

enum status config_set(struct config *c, enum setting setting, enum config_source source,
                       uint32_t line, struct bytes value, const char *where,
                       struct buffer *problems)
{
    const struct row *row = &rows[setting];
    uint64_t number = 0;

    char *text = arena_text(&c->arena, value);
    if (text == NULL) return E_NOMEM;
    if (strlen(text) != value.len || !bytes_is_utf8(value) ||
        !value_read(row->kind, text, &number)) {
        buffer_format(problems, "%s: %s must be %s, not \"%s\"\n", where, row->key,
                      kind_words(row->kind), text);
        return E_INVALID;
    }
    if (is_number(row->kind) && (number < row->least || number > row->most)) {
        range_problem(row, where, text, problems);
        return E_INVALID;
    }
    enum status status = OK;
    if (row->kind == SETTING_RULES) status = keep_rules(c, text, (size_t)number);
    if (row->kind == SETTING_POLICIES) status = keep_policies(c, text, (size_t)number);
    if (status != OK) return status;
    c->values[setting].text = text;
    c->values[setting].number = number;
    c->values[setting].source = source;
    c->values[setting].line = line;
    return OK;
}

const char *config_text(const struct config *c, enum setting setting)
{
    return c->values[setting].text;
}

uint64_t config_number(const struct config *c, enum setting setting)
{
    assert(rows[setting].kind != SETTING_TEXT);
    assert(rows[setting].kind != SETTING_ADDRESSES);
    assert(rows[setting].kind != SETTING_RULES);
    assert(rows[setting].kind != SETTING_POLICIES);
    return c->values[setting].number;
}

/* ---- sources ---- */

enum status config_init(struct config *c, struct mem *mem)
{
    *c = (struct config){0};
    arena_init(&c->arena, mem, 2048);
    for (enum setting s = 0; s < SETTINGS_N; s++) {
        struct buffer problems;
        buffer_init(&problems, mem);
        enum status status =
            config_set(c, s, SOURCE_DEFAULT, 0, bytes_of_text(rows[s].value), "default", &problems);
        buffer_release(&problems);
        assert(status != E_INVALID);
        if (status == OK) continue;
        arena_release(&c->arena);
        return status;
    }
    return OK;
}

void config_release(struct config *c) { arena_release(&c->arena); }

static enum status read_variable(struct config *c, struct bytes name, struct bytes value,
                                 struct buffer *problems)
{
    char variable[SETTING_NAME_SIZE];

    for (enum setting s = 0; s < SETTINGS_N; s++) {
        setting_variable(s, variable);
        if (!bytes_equal(name, bytes_of_text(variable))) continue;
        return config_set(c, s, SOURCE_ENVIRONMENT, 0, value, variable, problems);
    }
    enum setting near = nearest(name, setting_variable, VARIABLE_DISTANCE_MAX);
    if (near == SETTINGS_N) return OK;
    setting_variable(near, variable);
    buffer_format(problems, "%.*s: there is no such setting; did you mean %s?\n", (int)name.len,
                  (const char *)name.ptr, variable);
    return E_INVALID;
}

enum status config_read_environment(struct config *c, char *const *environment,
                                    struct buffer *problems)
{
    enum status status = OK;

    for (; *environment != NULL; environment++) {
        const char *equals = strchr(*environment, '=');
        if (equals == NULL) continue;
        struct bytes name = bytes_make(*environment, (size_t)(equals - *environment));
        if (!bytes_start_with(name, BYTES_LITERAL(ENVIRONMENT_PREFIX))) continue;
        enum status one = read_variable(c, name, bytes_of_text(equals + 1), problems);
        if (one == E_NOMEM) return one;
        if (one != OK) status = one;
    }
    return status;
}

enum status config_read_flag(struct config *c, const char *name, const char *value,
                             struct buffer *problems)
{
    char flag[SETTING_NAME_SIZE], where[SETTING_NAME_SIZE + 2];

    for (enum setting s = 0; s < SETTINGS_N; s++) {
        setting_flag(s, flag);
        if (strcmp(flag, name) != 0) continue;
        (void)snprintf(where, sizeof where, "--%s", flag);
        if (value == NULL) value = "true";
        return config_set(c, s, SOURCE_FLAG, 0, bytes_of_text(value), where, problems);
    }
    return E_NOT_FOUND;
}

/* ---- what must hold between settings ---- */

/* Where a value came from, as a problem's line begins. */
static void where_print(const struct config *c, enum setting setting, char *out, size_t size)
{
    char name[SETTING_NAME_SIZE];

    switch (c->values[setting].source) {
    case SOURCE_DEFAULT: (void)snprintf(out, size, "default"); return;
    case SOURCE_FILE: (void)snprintf(out, size, "%s:%u", c->path, c->values[setting].line); return;
    case SOURCE_ENVIRONMENT:
        setting_variable(setting, name);
        (void)snprintf(out, size, "%s", name);
        return;
    case SOURCE_FLAG:
        setting_flag(setting, name);
        (void)snprintf(out, size, "--%s", name);
        return;
    }
    unreachable("config source");
}

enum status config_check(const struct config *c, struct buffer *problems)
{
    const char *list = config_text(c, CONFIG_server_listen);
    uint64_t partitions = config_number(c, CONFIG_store_partitions);
    uint64_t shards = config_number(c, CONFIG_store_shards);
    char where[TEXT_SIZE_MAX / 2], address[ADDRESS_SIZE];
    struct reply_allow allow;
    const char *problem = NULL;
    enum status status = OK;

    where_print(c, CONFIG_server_listen, where, sizeof where);
    while (config_number(c, CONFIG_server_insecure) == 0 && address_next(&list, address)) {
        if (address_is_loopback(address)) continue;
        buffer_format(problems,
                      "%s: %s can be reached from other machines, and there is no TLS and no "
                      "authentication yet: listen on 127.0.0.1, or say --insecure if the network "
                      "is trusted\n",
                      where, address);
        status = E_INVALID;
    }
    if (!reply_allow_read(&allow, config_text(c, CONFIG_reply_allow), &problem)) {
        where_print(c, CONFIG_reply_allow, where, sizeof where);
        buffer_format(problems,
                      "%s: \"%s\" is none of public, private, loopback and none, and no range of "
                      "addresses such as 10.1.0.0/16\n",
                      where, problem);
        status = E_INVALID;
    }
    const char *ca_file = config_text(c, CONFIG_reply_ca_file);
    if (strcmp(ca_file, REPLY_CA_SYSTEM) != 0 && access(ca_file, R_OK) != 0) {
        where_print(c, CONFIG_reply_ca_file, where, sizeof where);
        buffer_format(problems, "%s: %s: %s\n", where, ca_file, strerror(errno));
        status = E_INVALID;
    }
    where_print(c, CONFIG_store_shards, where, sizeof where);
    if (shards > (partitions == 0 ? 32 : partitions)) {
        buffer_format(problems, "%s: shards = %llu is more than there are partitions\n", where,
                      (unsigned long long)shards);
        status = E_INVALID;
    }
    return status;
}

/* ---- printing ---- */

/* A text in quotes, so that it is read back as it is. */
static void quoted_print(const char *text, struct buffer *out)
{
    buffer_u8(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') buffer_u8(out, '\\');
        if (*text == '\n')
            buffer_format(out, "\\n");
        else if (*text == '\t')
            buffer_format(out, "\\t");
        else
            buffer_u8(out, (uint8_t)*text);
    }
    buffer_u8(out, '"');
}

static void value_print(enum setting_kind kind, const char *text, struct buffer *out)
{
    bool is_bare = kind == SETTING_FLAG || kind == SETTING_COUNT;

    if (is_bare)
        buffer_format(out, "%s", text);
    else
        quoted_print(text, out);
}

void config_print(const struct config *c, struct buffer *out)
{
    const char *section = "";
    char where[TEXT_SIZE_MAX / 2];

    for (enum setting s = 0; s < SETTINGS_N; s++) {
        if (strcmp(section, rows[s].section) != 0)
            buffer_format(out, "%s[%s]\n", s == 0 ? "" : "\n", rows[s].section);
        section = rows[s].section;
        size_t before = out->len;
        buffer_format(out, "%s = ", rows[s].key);
        value_print(rows[s].kind, c->values[s].text, out);
        where_print(c, s, where, sizeof where);
        size_t width = out->len - before;
        buffer_format(out, "%*s # %s\n", width < 40 ? (int)(40 - width) : 0, "", where);
    }
}

void config_print_reference(struct buffer *out)
{
    char flag[SETTING_NAME_SIZE], variable[SETTING_NAME_SIZE];

    for (enum setting s = 0; s < SETTINGS_N; s++) {
        setting_flag(s, flag);
        setting_variable(s, variable);
        buffer_format(out, "| `[%s]` `%s` | `", rows[s].section, rows[s].key);
        value_print(rows[s].kind, rows[s].value, out);
        buffer_format(out, "` | `--%s` | `%s` | %s |\n", flag, variable, rows[s].help);
    }
}

void config_print_help(struct buffer *out)
{
    char flag[SETTING_NAME_SIZE];

    for (enum setting s = 0; s < SETTINGS_N; s++) {
        setting_flag(s, flag);
        size_t width = strlen(flag);
        buffer_format(out, "  --%s%*s %s (default %s)\n", flag, width < 30 ? (int)(30 - width) : 0,
                      "", rows[s].help, rows[s].value);
    }
}

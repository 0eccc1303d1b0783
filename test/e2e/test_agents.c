/* SPDX-License-Identifier: Apache-2.0
 *
 * An agent that is nothing but curl: a C orchestrator asks for a step that no worker of the library
 * has, the agent polls for it and answers, and the server is killed in between. S3 S4
 */
#include "test/lib/server_process.h"
#include "test/lib/test.h"

#include <norn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 60000
#define TEXT_SIZE 4000

#define EXPECT_NORN(expected, got)                                                                 \
    do {                                                                                           \
        norn_status got_status = (got);                                                            \
        if (got_status != (expected))                                                              \
            test_fail(__FILE__, __LINE__, "expected %s, got %s: %s", norn_status_text(expected),   \
                      norn_status_text(got_status), norn_client_error(client));                    \
    } while (0)

static struct server_process server;
static norn_client *client;
static norn_worker *worker;
static char answer_path[320];

static norn_status ship(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)user;
    return norn_call(ctx, "pack", input, NULL, output);
}

static void open_world(void)
{
    struct norn_client_options options = NORN_CLIENT_OPTIONS;

    server = (struct server_process){.more = {"--work-grace", "200ms"}};
    server_process_start(&server);
    (void)snprintf(answer_path, sizeof answer_path, "%s.answer", server.directory);
    options.address = server.address;
    EXPECT_NORN(NORN_OK, norn_client_open(&options, &client));
    EXPECT_NORN(NORN_OK, norn_worker_open(client, NULL, &worker));
    EXPECT_NORN(NORN_OK, norn_orchestrator(worker, "ship", NULL, ship, NULL));
    EXPECT_NORN(NORN_OK, norn_worker_start(worker));
}

static void close_world(void)
{
    norn_worker_close(worker);
    norn_client_close(client);
    EXPECT_EQ(0, server_process_stop(&server));
}

/* POSTs by curl; answers the status, 0 when nobody answered. */
static unsigned post(const char *path, const char *body, char answer[TEXT_SIZE])
{
    char command[TEXT_SIZE];
    char status[8] = "";

    (void)snprintf(command, sizeof command,
                   "curl -s --max-time 40 -o '%s' -w '%%{http_code}' -X POST -H "
                   "'Content-Type: application/json' --data '%s' 'http://127.0.0.1:%u%s'",
                   answer_path, body, server.port, path);
    FILE *curl = popen(command, "r");
    EXPECT(curl != NULL);
    EXPECT(fgets(status, sizeof status, curl) != NULL);
    (void)pclose(curl);
    FILE *file = fopen(answer_path, "r");
    size_t len = file == NULL ? 0 : fread(answer, 1, TEXT_SIZE - 1, file);
    answer[len] = '\0';
    if (file != NULL) (void)fclose(file);
    return (unsigned)strtoul(status, NULL, 10);
}

static void value_of(const char *answer, const char *key, char out[600])
{
    char wanted[40];

    (void)snprintf(wanted, sizeof wanted, "\"%s\":\"", key);
    const char *at = strstr(answer, wanted);
    if (at == NULL) test_fail(__FILE__, __LINE__, "there is no %s in %s", key, answer);
    at += strlen(wanted);
    (void)snprintf(out, 600, "%.*s", (int)strcspn(at, "\""), at);
}

static void poll_once(char token[600], char key[600], char answer[TEXT_SIZE])
{
    EXPECT_EQ(200, post("/v1/agents/pack/poll", "{\"wait\":\"30s\",\"worker\":\"curl\"}", answer));
    value_of(answer, "token", token);
    value_of(answer, "idempotencyKey", key);
}

static unsigned complete(const char *token, const char *result, char answer[TEXT_SIZE])
{
    char path[700];

    (void)snprintf(path, sizeof path, "/v1/work/%s/complete", token);
    return post(path, result, answer);
}

static void start(const char *id)
{
    struct norn_start_options options = NORN_START_OPTIONS;

    options.id = id;
    EXPECT_NORN(NORN_OK, norn_start(client, "ship", norn_text("{\"lines\":3}"), &options, NULL));
}

static void expect_result(const char *id, const char *expected)
{
    struct norn_info *info = NULL;

    EXPECT_NORN(NORN_OK, norn_get(client, id, WAIT_MS, &info));
    struct norn_bytes output = info->output;
    char text[100];
    (void)snprintf(text, sizeof text, "%.*s", (int)output.len, (const char *)output.ptr);
    EXPECT_TEXT(expected, text);
    norn_info_free(info);
}

/* What the command says of instance a. */
static void expect_why(const char *part)
{
    char command[TEXT_SIZE];
    char text[TEXT_SIZE];

    (void)snprintf(command, sizeof command, "'%s' why a --server http://127.0.0.1:%u",
                   getenv("NORN"), server.port);
    FILE *why = popen(command, "r");
    EXPECT(why != NULL);
    size_t len = fread(text, 1, sizeof text - 1, why);
    text[len] = '\0';
    (void)pclose(why);
    if (strstr(text, part) == NULL) test_fail(__FILE__, __LINE__, "%s is not in %s", part, text);
}

TEST(a_step_is_done_by_curl)
{
    char token[600], key[600], answer[TEXT_SIZE];
    open_world();
    start("a");
    poll_once(token, key, answer);
    EXPECT(strstr(answer, "\"input\":{\"lines\":3}") != NULL);
    expect_why("with curl at 127.0.0.1:"); /* the name it gave, and where it asked from. S8 */
    EXPECT_EQ(200, complete(token, "{\"box\":7}", answer));
    expect_result("a", "{\"box\":7}");
    close_world();
}

/* The server dies between poll and answer: the answer counts all the same, once. */
TEST(an_answer_survives_the_death_of_the_server)
{
    char token[600], key[600], answer[TEXT_SIZE];
    open_world();
    start("a");
    poll_once(token, key, answer);
    server_process_kill(&server);
    EXPECT_EQ(0, complete(token, "1", answer));
    server_process_start(&server);
    EXPECT_EQ(200, complete(token, "{\"box\":8}", answer));
    EXPECT_EQ(409, complete(token, "{\"box\":9}", answer));
    EXPECT(strstr(answer, "lease-lost") != NULL);
    expect_result("a", "{\"box\":8}");
    close_world();
}

/* Or somebody else has it by then: the step is the same one to whoever it must not do twice. */
TEST(after_the_death_of_the_server_another_agent_may_have_it)
{
    char old_token[600], token[600], old_key[600], key[600], answer[TEXT_SIZE];
    open_world();
    start("a");
    poll_once(old_token, old_key, answer);
    server_process_kill(&server);
    server_process_start(&server);
    poll_once(token, key, answer);
    EXPECT_TEXT(old_key, key);
    EXPECT_EQ(409, complete(old_token, "1", answer));
    EXPECT_EQ(200, complete(token, "2", answer));
    expect_result("a", "2");
    close_world();
}

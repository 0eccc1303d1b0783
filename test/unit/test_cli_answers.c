/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs against a peer that answers all requests with one text: what cannot be read is never taken
 * for success, and what the server may say is read.
 */
#include "base/bytes.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/verbs.h"
#include "test/lib/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 12
#define OUT_SIZE 8192

static int listener;
static struct bytes answer;
static char server[64];
static char out[OUT_SIZE]; /* what the last run printed to both */
static char directory[256];

/* One request a connection: the verbs send small ones, in one piece. */
static void *serve(void *unused)
{
    char request[8192];

    (void)unused;
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) return NULL;
        if (read(fd, request, sizeof request) > 0)
            (void)send(fd, answer.ptr, answer.len, MSG_NOSIGNAL);
        (void)close(fd);
    }
}

static void open_listener(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    EXPECT(listen(listener, 5) == 0);
    EXPECT(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    (void)snprintf(server, sizeof server, "http://127.0.0.1:%d", ntohs(address.sin_port));
}

static void read_out(const char *path)
{
    FILE *file = fopen(path, "rb");

    EXPECT(file != NULL);
    out[fread(out, 1, sizeof out - 1, file)] = '\0';
    (void)fclose(file);
}

/* The exit code of `norn WORDS`, run in a process of its own. */
static int run(const char *line)
{
    static command_tables tables = {client_commands, NULL};
    char path[512];
    char text[512];
    char *words[WORDS_MAX];
    int n = 0;
    int taken_n = 0;
    int status = 0;

    (void)snprintf(text, sizeof text, "%s", line);
    (void)snprintf(path, sizeof path, "%s/out", directory);
    for (char *at = text; *at != '\0' && n < WORDS_MAX - 1;) {
        words[n++] = at;
        at += strcspn(at, " ");
        if (*at == ' ') *at++ = '\0';
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(words[i], "''") == 0) words[i][0] = '\0';
    }
    const struct command *command = command_find(tables, n, words, &taken_n);
    EXPECT(command != NULL);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        (void)dup2(fd, 1);
        (void)dup2(fd, 2);
        (void)setenv("NORN_SERVER", server, 1);
        (void)unsetenv("NORN_HUB");
        (void)setenv("XDG_CONFIG_HOME", directory, 1);
        int code = command->run(command, n - taken_n, words + taken_n);
        (void)fflush(NULL);
        _exit(code);
    }
    EXPECT_EQ(pid, waitpid(pid, &status, 0));
    EXPECT(WIFEXITED(status));
    read_out(path);
    return WEXITSTATUS(status);
}

static void with_answer(const char *type, const char *body, void (*fn)(void))
{
    struct buffer text;
    pthread_t thread;

    buffer_init(&text, mem_process());
    buffer_format(&text, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", type,
                  strlen(body));
    buffer_format(&text, "Connection: close\r\n\r\n");
    buffer_append_bytes(&text, bytes_of_text(body));
    answer = buffer_view(&text);
    (void)snprintf(directory, sizeof directory, "%s", test_directory());
    open_listener();
    EXPECT(pthread_create(&thread, NULL, serve, NULL) == 0);
    fn();
    (void)shutdown(listener, SHUT_RDWR);
    (void)pthread_join(thread, NULL);
    (void)close(listener);
    buffer_release(&text);
}

static void expect_no_success(void)
{
    static const char *const lines[] = {
        "terminate a -y",
        "backup /x",
        "start x",
        "run x",
        "start x --id a",
        "count",
        "list",
        "list -o json",
        "show a",
        "why a",
        "result a",
        "result a --wait",
        "history a",
        "history a -f",
        "events",
        "export a",
        "trace a",
        "suspend a",
        "raise a b",
        "purge a -y",
        "purge --status completed -y",
        "restart a",
        "resubmit a 1",
        "alerts",
        "worker list",
        "entity list",
        "entity show a b",
        "stream list",
        "stream show a",
        "stream append a 1",
        "stream read a",
        "queue receive a",
        "dead-letter list",
        "top",
        "batch terminate --name x -y",
    };

    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++) {
        int code = run(lines[n]);
        if (code != EXIT_CODE_FAILED || strstr(out, "cannot be read: is it a norn server") == NULL)
            test_note("norn %s: %d, %s", lines[n], code, out);
        EXPECT_EQ(EXIT_CODE_FAILED, code);
        EXPECT(strstr(out, "cannot be read: is it a norn server") != NULL);
    }
}

/* A proxy that asks for a password, a portal, another program on the port. */
TEST(a_page_of_html_is_no_success)
{
    with_answer("text/html", "<html>please log in</html>", expect_no_success);
}

/* Neither is JSON that says nothing, or ends in the middle. */
TEST(json_of_somebody_else_is_no_success)
{
    with_answer("application/json", "null", expect_no_success);
    with_answer("application/json", "{}", expect_no_success);
    with_answer("application/json", "{\"id\":\"a\",\"items\":[{\"status\":", expect_no_success);
    with_answer("text/plain", "{\"id\":\"a\",\"status\":\"completed\",\"items\":[],\"count\":1}",
                expect_no_success);
}

static void expect_deep(void)
{
    EXPECT_EQ(EXIT_CODE_OK, run("show a"));
    EXPECT(strstr(out, "completed") != NULL);
    EXPECT_EQ(EXIT_CODE_OK, run("result a"));
    EXPECT(strstr(out, "[[[[") != NULL);
    EXPECT_EQ(EXIT_CODE_OK, run("history a"));
    EXPECT(strstr(out, "taskCompleted") != NULL);
    EXPECT_EQ(EXIT_CODE_OK, run("export a"));
    EXPECT(strstr(out, "[[[[") != NULL);
}

/* The server takes payloads of 192 levels. */
TEST(a_deep_payload_is_shown)
{
    struct buffer body;
    char deep[2 * 192 + 1];

    memset(deep, '[', 192);
    memset(deep + 192, ']', 192);
    deep[2 * 192] = '\0';
    buffer_init(&body, mem_process());
    buffer_format(&body, "{\"id\":\"a\",\"status\":\"completed\",\"output\":%s,\"items\":[", deep);
    buffer_format(&body, "{\"eventId\":1,\"type\":\"taskCompleted\",\"result\":%s}]}", deep);
    buffer_u8(&body, 0);
    with_answer("application/json", (const char *)body.ptr, expect_deep);
    buffer_release(&body);
}

static void expect_no_export(void)
{
    char path[512];
    char line[600];
    struct stat info;

    (void)snprintf(path, sizeof path, "%s/exported", directory);
    (void)snprintf(line, sizeof line, "export a %s", path);
    EXPECT_EQ(EXIT_CODE_FAILED, run(line));
    EXPECT(strstr(out, "nothing to export") != NULL);
    EXPECT(stat(path, &info) != 0);
    EXPECT_EQ(EXIT_CODE_FAILED, run("export a"));
}

static void expect_empty(void)
{
    static const char *const lines[] = {"start x --id ''", "terminate ''", "purge '' -y",
                                        "raise a ''", "context add '' http://a:1"};

    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++) {
        test_note("norn %s", lines[n]);
        EXPECT_EQ(EXIT_CODE_USAGE, run(lines[n]));
        EXPECT(strstr(out, "is empty") != NULL);
    }
}

/* An empty word is a variable that is not set. */
TEST(an_empty_word_is_refused)
{
    with_answer("application/json", "{\"id\":\"a\",\"purged\":1}", expect_empty);
}

static void write_contexts(const char *text)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/norn/contexts.json", directory);
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL);
    (void)fputs(text, file);
    (void)fclose(file);
}

static void expect_untouched(const char *text)
{
    static const char *const lines[] = {"context add new http://a:1",
                                        "context use prod",
                                        "context remove prod",
                                        "context list",
                                        "context show",
                                        "purge a -y"};
    char path[512];

    (void)snprintf(path, sizeof path, "%s/norn/contexts.json", directory);
    write_contexts(text);
    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++) {
        test_note("norn %s", lines[n]);
        EXPECT_EQ(EXIT_CODE_USAGE, run(lines[n]));
        EXPECT(strstr(out, "contexts.json is damaged") != NULL);
    }
    read_out(path);
    EXPECT_TEXT(text, out);
}

static void expect_damaged(void)
{
    EXPECT_EQ(EXIT_CODE_OK, run("context add prod http://10.9.9.9:1"));
    EXPECT_EQ(EXIT_CODE_OK, run("context list"));
    EXPECT(strstr(out, "10.9.9.9") != NULL);
    expect_untouched("{\"current\":\"prod\",\"contexts\":{\"prod\":{\"server\":\"http://10");
    expect_untouched("");
    expect_untouched("{\"current\":\"prod\",\"contexts\":[]}");
    expect_untouched("{\"current\":\"prod\",\"contexts\":{\"prod\":1}}");
    /* who says everything needs no context */
    server[0] = '\0';
    EXPECT_EQ(EXIT_CODE_OK, run("context show --server http://a:1 --hub b"));
}

/* Contexts that cannot be read are neither taken for none nor written over. */
TEST(damaged_contexts_are_left_alone)
{
    with_answer("application/json", "{\"id\":\"a\",\"purged\":1}", expect_damaged);
}

static void expect_formats(void)
{
    static const char *const lines[] = {"trace a -o json", "trace a -o csv", "why a -o csv",
                                        "why a -o name"};

    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++) {
        test_note("norn %s", lines[n]);
        EXPECT_EQ(EXIT_CODE_USAGE, run(lines[n]));
        EXPECT(strstr(out, "there is no -o ") != NULL);
    }
    EXPECT_EQ(EXIT_CODE_OK, run("why a -o jsonl"));
    EXPECT_EQ(EXIT_CODE_FAILED, run("suspend a"));
    EXPECT(strstr(out, "a has ended, it is completed: nothing was done") != NULL);
    EXPECT_EQ(EXIT_CODE_OK, run("resume a"));
}

/* A format that a verb does not have is refused; so is to say "suspended" of one that has ended. */
TEST(what_cannot_be_is_said)
{
    with_answer("application/json", "{\"id\":\"a\",\"status\":\"completed\"}", expect_formats);
}

static void expect_waiting(void)
{
    char path[512];
    char line[600];

    (void)snprintf(path, sizeof path, "%s/lines", directory);
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL);
    (void)fputs("\n{\"name\":\"x\"}\n\n", file);
    (void)fclose(file);
    (void)snprintf(line, sizeof line, "batch start %s --timeout 1200ms", path);
    EXPECT_EQ(EXIT_CODE_TIMEOUT, run(line));
    EXPECT(strstr(out, "waiting for room") != NULL);
    EXPECT(strstr(out, "line 2 is not started") != NULL);
    EXPECT(strstr(out, "0 started, 0 refused") != NULL);
}

/* A full backlog is no refusal of each line: they wait. */
TEST(a_batch_waits_for_the_backlog)
{
    with_answer("application/x-ndjson",
                "{\"line\":1,\"problem\":{\"code\":\"backlog-full\",\"detail\":\"full\"}}\n",
                expect_waiting);
}

/* An export of nothing would be a lost one. */
TEST(an_export_of_no_events_is_no_success)
{
    with_answer("application/json", "{\"items\":[]}", expect_no_export);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of clients about one orchestration, through the whole stack: gRPC client, connection,
 * service, engine.
 */
#include "server/state.h"
#include "test/lib/asking.h"

#include <stdio.h>

static bool contains(const char *text, const char *part) { return strstr(text, part) != NULL; }

/* ---- Hello, and what is no call ---- */

#define OWN "/norn.v1.Supervision/"

TEST(hello_is_answered_and_what_is_unknown_is_unimplemented)
{
    struct asker a;
    asker_init(&a, 1);
    (void)ask_new(&a);
    ASK(&a, "Hello", GRPC_OK);
    EXPECT_EQ(1, a.answer.messages_n);
    EXPECT_EQ(0, a.answer.message.len);
    ASK(&a, "Helloo", GRPC_UNIMPLEMENTED);
    ASK(&a, OWN "Hello", GRPC_UNIMPLEMENTED); /* each service has its own calls */
    ASK(&a, "ListSteps", GRPC_UNIMPLEMENTED);
    ASK(&a, "", GRPC_UNIMPLEMENTED);
    EXPECT(contains(a.answer.text, "there is no method"));
    struct service_stats stats;
    service_stats(a.served.service, &stats);
    EXPECT_EQ(5, stats.calls);
    EXPECT_EQ(1, stats.calls_by_rpc[0]);
    EXPECT_EQ(4, stats.failed);
    EXPECT_TEXT("Hello", service_rpc_name(0));
    EXPECT_TEXT("SkipGracefulOrchestrationTerminations", service_rpc_name(28));
    EXPECT_TEXT("", service_rpc_name(32));
    asker_release(&a);
}

/* Every call is refused with a code and a sentence when its message is garbage, and the server goes
 * on. */
TEST(garbage_is_refused_by_every_call)
{
    struct asker a;
    asker_init(&a, 1);
    for (unsigned n = 0; n < 32; n++) {
        char rpc[80];
        snprintf(rpc, sizeof rpc, "%s%s", n < 29 ? "" : OWN, service_rpc_name(n));
        test_note("%s", rpc);
        buffer_append_bytes(ask_new(&a), BYTES_LITERAL("\x0a\xff\xff\xff\xff\x0f"));
        ASK(&a, rpc, GRPC_INVALID_ARGUMENT);
        EXPECT(a.answer.text[0] != '\0');
    }
    test_note("%s", "");
    ask_new(&a);
    ASK(&a, "Hello", GRPC_OK);
    asker_release(&a);
}

/* Of our own service: what is not there, is no step of, or was never given out. */
TEST(a_supervisor_is_answered_about_what_is_not_there)
{
    struct asker a;
    asker_init(&a, 1);
    put_text(ask_new(&a), 1, "nobody");
    ASK(&a, OWN "ListSteps", GRPC_NOT_FOUND);
    ASK(&a, OWN "ResubmitStep", GRPC_NOT_FOUND);
    START(&a, "a", "wait", NULL);
    put_text(ask_new(&a), 1, "a");
    ASK(&a, OWN "ListSteps", GRPC_OK);
    EXPECT_EQ(0, a.answer.message.len); /* there is none */
    pb_put_int32(&a.message, 2, 7);
    ASK(&a, OWN "ResubmitStep", GRPC_FAILED_PRECONDITION);
    EXPECT(a.answer.text[0] != '\0');
    put_text(ask_new(&a), 1, "no token");
    ASK(&a, OWN "RenewTask", GRPC_OK);
    EXPECT_BYTES(test_hex("0801"), buffer_view(&a.answer.message)); /* is_lost */
    pb_put_varint(&a.message, 2, UINT64_MAX);                       /* -1 */
    ASK(&a, OWN "RenewTask", GRPC_INVALID_ARGUMENT);
    asker_release(&a);
}

/* A NUL or half a character in a text would be another text in the engine or at the worker. */
TEST(texts_must_be_utf8_without_nul)
{
    struct asker a;
    asker_init(&a, 1);
    struct buffer *b = ask_new(&a);
    pb_put_bytes(b, 1, BYTES_LITERAL("a\0b"));
    put_text(b, 2, "done");
    ASK(&a, "StartInstance", GRPC_INVALID_ARGUMENT);
    b = ask_new(&a);
    put_text(b, 1, "a");
    put_text(b, 2, "done\xc3");
    ASK(&a, "StartInstance", GRPC_INVALID_ARGUMENT);
    EXPECT(contains(a.answer.text, "UTF-8"));
    asker_release(&a);
}

/* ---- StartInstance ---- */

TEST(a_started_instance_runs_and_shows_what_it_was_given)
{
    struct asker a;
    asker_init(&a, 1);
    struct buffer *b = ask_new(&a);
    put_text(b, 1, "order-1");
    put_text(b, 2, "done");
    put_value(b, 3, "1.2");
    put_value(b, 4, "{\"x\":1}");
    struct pb_mark mark = pb_begin(b, 8, 20); /* tags: {"team": "blue"} */
    put_text(b, 1, "team");
    put_text(b, 2, "blue");
    pb_end(b, mark);
    ASK(&a, "StartInstance", GRPC_OK);
    CreateInstanceResponse *started = ask_decode(&a, &create_instance_response__descriptor);
    EXPECT_TEXT("order-1", started->instance_id);

    GetInstanceResponse *got = AWAIT(&a, "order-1");
    EXPECT(got->exists);
    const OrchestrationState *state = got->orchestration_state;
    EXPECT_TEXT("order-1", state->instance_id);
    EXPECT_TEXT("done", state->name);
    EXPECT_TEXT("1.2", state->version->value);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED, state->orchestration_status);
    EXPECT_TEXT("{\"x\":1}", state->input->value);
    EXPECT_TEXT("\"result\"", state->output->value);
    EXPECT_TEXT("\"fine\"", state->custom_status->value);
    EXPECT(state->failure_details == NULL);
    EXPECT_EQ(32, strlen(state->execution_id->value));
    EXPECT_EQ(1, state->n_tags);
    EXPECT_TEXT("team", state->tags[0]->key);
    EXPECT_TEXT("blue", state->tags[0]->value);
    EXPECT(state->created_timestamp->seconds > 1700000000);
    EXPECT(state->last_updated_timestamp->seconds >= state->created_timestamp->seconds);
    EXPECT(state->completed_timestamp != NULL);
    EXPECT(state->scheduled_start_timestamp == NULL);
    EXPECT(state->parent_instance_id == NULL);

    got = ask_look(&a, "GetInstance", "order-1", false);
    state = got->orchestration_state;
    EXPECT(state->input == NULL && state->output == NULL && state->custom_status == NULL);
    EXPECT_TEXT("1.2", state->version->value);
    EXPECT_EQ(1, state->n_tags);
    asker_release(&a);
}

/* SDKs treat "" as no input, but what a client wrote must come back as it was. */
TEST(an_empty_input_is_not_an_absent_one)
{
    struct asker a;
    asker_init(&a, 1);
    START(&a, "empty", "nobody", "");
    START(&a, "absent", "nobody", NULL);
    GetInstanceResponse *got = GET(&a, "empty");
    EXPECT(got->orchestration_state->input != NULL);
    EXPECT_TEXT("", got->orchestration_state->input->value);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_PENDING,
              got->orchestration_state->orchestration_status);
    got = GET(&a, "absent");
    EXPECT(got->orchestration_state->input == NULL);
    asker_release(&a);
}

TEST(without_an_id_one_is_made)
{
    struct asker a;
    char first[64];
    asker_init(&a, 1);
    START(&a, NULL, "nobody", NULL);
    CreateInstanceResponse *started = ask_decode(&a, &create_instance_response__descriptor);
    EXPECT_EQ(32, strlen(started->instance_id));
    EXPECT_EQ(32, strspn(started->instance_id, "0123456789abcdef"));
    (void)snprintf(first, sizeof first, "%s", started->instance_id);
    START(&a, "", "nobody", NULL);
    started = ask_decode(&a, &create_instance_response__descriptor);
    EXPECT(strcmp(first, started->instance_id) != 0);
    EXPECT(GET(&a, first)->exists);
    EXPECT(GET(&a, started->instance_id)->exists);
    asker_release(&a);
}

TEST(a_start_that_says_nothing_valid_is_refused)
{
    struct asker a;
    char long_id[110];
    asker_init(&a, 1);
    ask_start(&a, "x", "", NULL, GRPC_INVALID_ARGUMENT, __FILE__, __LINE__);
    EXPECT(contains(a.answer.text, "name"));
    ask_start(&a, "@x", "done", NULL, GRPC_INVALID_ARGUMENT, __FILE__, __LINE__);
    ask_start(&a, "a/b", "done", NULL, GRPC_INVALID_ARGUMENT, __FILE__, __LINE__);
    memset(long_id, 'i', sizeof long_id);
    long_id[101] = '\0';
    ask_start(&a, long_id, "done", NULL, GRPC_INVALID_ARGUMENT, __FILE__, __LINE__);
    EXPECT(contains(a.answer.text, "length"));
    long_id[100] = '\0';
    START(&a, long_id, "nobody", NULL);
    struct buffer *b = ask_new(&a);
    put_text(b, 1, "x");
    put_text(b, 2, "done");
    struct pb_mark mark = pb_begin(b, 5, 10);
    pb_put_varint(b, 2, 1000000000); /* nanoseconds that are a second */
    pb_end(b, mark);
    ASK(&a, "StartInstance", GRPC_INVALID_ARGUMENT);
    EXPECT(contains(a.answer.text, "scheduledStartTimestamp"));
    asker_release(&a);
}

static void start_with_policy(struct asker *a, const char *id, const char *statuses, int action,
                              enum grpc_code code, int line)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    put_text(b, 2, "nobody");
    struct pb_mark mark = pb_begin(b, 6, 20);
    struct pb_mark list = pb_begin(b, 1, 20);
    for (; *statuses != '\0'; statuses++) buffer_varint(b, (uint64_t)(*statuses - '0'));
    pb_end(b, list);
    if (action != 0) pb_put_varint(b, 2, (uint64_t)action);
    pb_end(b, mark);
    ask_expect(a, "StartInstance", code, __FILE__, line);
}
#define WITH_POLICY(a, id, statuses, action, code)                                                 \
    start_with_policy(a, id, statuses, action, code, __LINE__)

/* Statuses: 0 RUNNING, 1 COMPLETED, 3 FAILED, 5 TERMINATED, 6 PENDING, 7 SUSPENDED. */
TEST(an_id_is_used_again_as_the_policy_says)
{
    struct asker a;
    asker_init(&a, 1);
    START(&a, "x", "nobody", NULL);
    ask_start(&a, "x", "nobody", NULL, GRPC_ALREADY_EXISTS, __FILE__, __LINE__);
    EXPECT(contains(a.answer.text, "orchestration instance already exists"));
    WITH_POLICY(&a, "x", "13", 0, GRPC_ALREADY_EXISTS);
    WITH_POLICY(&a, "x", "6", 0, GRPC_INVALID_ARGUMENT);
    EXPECT(contains(a.answer.text, "Invalid reusable statuses: cannot exclude 'Terminated' while "
                                   "also allowing reuse of running instances"));
    WITH_POLICY(&a, "x", "65", 0, GRPC_OK);
    /* Older clients: 1 = ignore, 2 = terminate. */
    WITH_POLICY(&a, "x", "0", 1, GRPC_ALREADY_EXISTS);
    char before[40];
    (void)snprintf(before, sizeof before, "%s",
                   GET(&a, "x")->orchestration_state->execution_id->value);
    WITH_POLICY(&a, "x", "6", 1, GRPC_OK);
    EXPECT_TEXT(before, GET(&a, "x")->orchestration_state->execution_id->value);
    WITH_POLICY(&a, "x", "6", 2, GRPC_OK);
    EXPECT(strcmp(before, GET(&a, "x")->orchestration_state->execution_id->value) != 0);
    WITH_POLICY(&a, "x", "6", 3, GRPC_INVALID_ARGUMENT);
    WITH_POLICY(&a, "x", "~", 0, GRPC_INVALID_ARGUMENT); /* no such status */
    /* By default a terminal one is replaced. */
    STEER(&a, "TerminateInstance", "x", NULL, GRPC_OK);
    START(&a, "x", "nobody", NULL);
    /* An empty list: nothing may be replaced. */
    STEER(&a, "TerminateInstance", "x", NULL, GRPC_OK);
    WITH_POLICY(&a, "x", "", 0, GRPC_ALREADY_EXISTS);
    asker_release(&a);
}

static GetInstanceResponse *start_at(struct asker *a, const char *id, int64_t seconds)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    put_text(b, 2, "done");
    pb_put_timestamp_parts(b, 5, seconds, 0);
    ASK(a, "StartInstance", GRPC_OK);
    return GET(a, id);
}

TEST(a_start_time_in_the_future_delays_and_1970_does_not)
{
    struct asker a;
    asker_init(&a, 1);
    GetInstanceResponse *got = start_at(&a, "later", 4000000000);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_PENDING,
              got->orchestration_state->orchestration_status);
    EXPECT_EQ(4000000000, got->orchestration_state->scheduled_start_timestamp->seconds);
    (void)start_at(&a, "epoch", 0);
    (void)start_at(&a, "past", 1000);
    got = AWAIT(&a, "epoch");
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED,
              got->orchestration_state->orchestration_status);
    got = AWAIT(&a, "past");
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED,
              got->orchestration_state->orchestration_status);
    asker_release(&a);
}

/* ---- Get ---- */

TEST(what_is_not_there_does_not_exist)
{
    struct asker a;
    asker_init(&a, 1);
    EXPECT(!GET(&a, "nothing")->exists);
    EXPECT(GET(&a, "nothing")->orchestration_state == NULL);
    EXPECT(!GET(&a, "@counter@a")->exists);
    EXPECT(!ask_look(&a, "WaitForInstanceStart", "nothing", false)->exists);
    EXPECT(!AWAIT(&a, "nothing")->exists);
    EXPECT(!AWAIT(&a, "@counter@a")->exists);
    (void)ask_new(&a);
    ASK(&a, "GetInstance", GRPC_INVALID_ARGUMENT);
    ASK(&a, "WaitForInstanceStart", GRPC_INVALID_ARGUMENT);
    asker_release(&a);
}

TEST(a_failed_one_tells_why_even_without_payloads)
{
    struct asker a;
    asker_init(&a, 1);
    START(&a, "f", "fail", "1");
    GetInstanceResponse *got = ask_look(&a, "WaitForInstanceCompletion", "f", false);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED,
              got->orchestration_state->orchestration_status);
    EXPECT_TEXT("Bad", got->orchestration_state->failure_details->error_type);
    EXPECT_TEXT("it went", got->orchestration_state->failure_details->error_message);
    EXPECT(got->orchestration_state->input == NULL);
    asker_release(&a);
}

/* ---- steering ---- */

static void raise(struct asker *a, const char *id, const char *name, enum grpc_code code, int line)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    put_text(b, 2, name);
    put_value(b, 3, "1");
    ask_expect(a, "RaiseEvent", code, __FILE__, line);
}

TEST(steering_answers_with_the_codes_that_sdks_expect)
{
    struct asker a;
    asker_init(&a, 1);
    raise(&a, "none", "e", GRPC_NOT_FOUND, __LINE__);
    raise(&a, "@e@e", "e", GRPC_NOT_FOUND, __LINE__);
    STEER(&a, "TerminateInstance", "none", "x", GRPC_NOT_FOUND);
    STEER(&a, "SuspendInstance", "none", "x", GRPC_NOT_FOUND);
    STEER(&a, "ResumeInstance", "none", "x", GRPC_NOT_FOUND);
    STEER(&a, "RewindInstance", "none", "x", GRPC_NOT_FOUND);
    STEER(&a, "SuspendInstance", "@e@e", "x", GRPC_NOT_FOUND);
    EXPECT(a.answer.text[0] != '\0');

    START(&a, "w", "wait", NULL);
    EXPECT(ask_look(&a, "WaitForInstanceStart", "w", false)->exists);
    raise(&a, "w", "go", GRPC_OK, __LINE__);
    raise(&a, "w", "", GRPC_INVALID_ARGUMENT, __LINE__);
    STEER(&a, "RewindInstance", "w", "x", GRPC_FAILED_PRECONDITION);
    EXPECT(contains(a.answer.text, "precondition"));
    STEER(&a, "SuspendInstance", "w", "pause", GRPC_OK);
    STEER(&a, "SuspendInstance", "w", "pause", GRPC_OK);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_SUSPENDED,
              GET(&a, "w")->orchestration_state->orchestration_status);
    STEER(&a, "ResumeInstance", "w", NULL, GRPC_OK);
    STEER(&a, "ResumeInstance", "w", NULL, GRPC_OK);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_RUNNING,
              GET(&a, "w")->orchestration_state->orchestration_status);
    STEER(&a, "TerminateInstance", "w", "\"enough\"", GRPC_OK);
    GetInstanceResponse *got = GET(&a, "w");
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED,
              got->orchestration_state->orchestration_status);
    EXPECT_TEXT("\"enough\"", got->orchestration_state->output->value);
    /* On what has ended everything is OK and nothing happens. */
    raise(&a, "w", "late", GRPC_OK, __LINE__);
    STEER(&a, "TerminateInstance", "w", "again", GRPC_OK);
    STEER(&a, "SuspendInstance", "w", NULL, GRPC_OK);
    STEER(&a, "ResumeInstance", "w", NULL, GRPC_OK);
    EXPECT_TEXT("\"enough\"", GET(&a, "w")->orchestration_state->output->value);
    asker_release(&a);
}

TEST(termination_reaches_children_only_when_it_is_recursive)
{
    struct asker a;
    asker_init(&a, 1);
    START(&a, "p1", "parent", "c1");
    START(&a, "p2", "parent", "c2");
    /* unknown ones are answered at once, so look until they are there */
    while (!ask_look(&a, "WaitForInstanceStart", "c1", false)->exists) continue;
    while (!ask_look(&a, "WaitForInstanceStart", "c2", false)->exists) continue;
    EXPECT_TEXT("p1", GET(&a, "c1")->orchestration_state->parent_instance_id->value);
    ask_steer(&a, "TerminateInstance", "p1", "x", true, GRPC_OK, __FILE__, __LINE__);
    ask_steer(&a, "TerminateInstance", "p2", "x", false, GRPC_OK, __FILE__, __LINE__);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED,
              AWAIT(&a, "c1")->orchestration_state->orchestration_status);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_RUNNING,
              GET(&a, "c2")->orchestration_state->orchestration_status);
    asker_release(&a);
}

TEST(a_failed_one_can_be_rewound)
{
    struct asker a;
    asker_init(&a, 1);
    START(&a, "f", "fail", NULL);
    char before[40];
    (void)snprintf(before, sizeof before, "%s",
                   AWAIT(&a, "f")->orchestration_state->execution_id->value);
    STEER(&a, "RewindInstance", "f", "mended", GRPC_OK);
    EXPECT(strcmp(before, GET(&a, "f")->orchestration_state->execution_id->value) != 0);
    asker_release(&a);
}

static const char *restart(struct asker *a, const char *id, bool has_new_id, enum grpc_code code,
                           int line)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    pb_put_plain_varint(b, 2, has_new_id);
    ask_expect(a, "RestartInstance", code, __FILE__, line);
    if (code != GRPC_OK) return "";
    return ((RestartInstanceResponse *)ask_decode(a, &restart_instance_response__descriptor))
        ->instance_id;
}

TEST(a_restart_keeps_the_id_or_gets_a_new_one)
{
    struct asker a;
    asker_init(&a, 2);
    (void)restart(&a, "none", false, GRPC_NOT_FOUND, __LINE__);
    (void)restart(&a, "none", true, GRPC_NOT_FOUND, __LINE__);
    START(&a, "w", "wait", "{\"n\":7}");
    EXPECT(ask_look(&a, "WaitForInstanceStart", "w", false)->exists);
    (void)restart(&a, "w", false, GRPC_FAILED_PRECONDITION, __LINE__);
    EXPECT(contains(a.answer.text, "running"));
    /* with a new id it may go on */
    const char *id = restart(&a, "w", true, GRPC_OK, __LINE__);
    EXPECT_EQ(32, strlen(id));
    GetInstanceResponse *got = ask_look(&a, "WaitForInstanceStart", id, true);
    EXPECT_TEXT("wait", got->orchestration_state->name);
    EXPECT_TEXT("{\"n\":7}", got->orchestration_state->input->value);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_RUNNING,
              GET(&a, "w")->orchestration_state->orchestration_status);
    STEER(&a, "TerminateInstance", "w", NULL, GRPC_OK);
    EXPECT_TEXT("w", restart(&a, "w", false, GRPC_OK, __LINE__));
    got = ask_look(&a, "WaitForInstanceStart", "w", true);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_RUNNING,
              got->orchestration_state->orchestration_status);
    EXPECT_TEXT("{\"n\":7}", got->orchestration_state->input->value);
    asker_release(&a);
}

/* ---- hubs ---- */

TEST(hubs_do_not_see_each_other)
{
    struct asker a;
    asker_init(&a, 1);
    struct link *standard = a.link;
    struct link *other = served_link(&a.served, "other");
    START(&a, "same", "nobody", "\"default\"");
    a.link = other;
    EXPECT(!GET(&a, "same")->exists);
    START(&a, "same", "nobody", "\"other\"");
    EXPECT_TEXT("\"other\"", GET(&a, "same")->orchestration_state->input->value);
    STEER(&a, "TerminateInstance", "same", NULL, GRPC_OK);
    a.link = standard;
    EXPECT_TEXT("\"default\"", GET(&a, "same")->orchestration_state->input->value);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_PENDING,
              GET(&a, "same")->orchestration_state->orchestration_status);
    /* the one without a name is called "default" */
    a.link = served_link(&a.served, "default");
    EXPECT(GET(&a, "same")->exists);
    a.link = served_link(&a.served, "a/b");
    (void)ask_new(&a);
    put_text(&a.message, 1, "same");
    ASK(&a, "GetInstance", GRPC_INVALID_ARGUMENT);
    EXPECT(contains(a.answer.text, "taskhub"));
    char name[70];
    memset(name, 'h', sizeof name);
    name[65] = '\0';
    a.link = served_link(&a.served, name);
    ASK(&a, "CreateTaskHub", GRPC_INVALID_ARGUMENT);
    name[64] = '\0';
    a.link = served_link(&a.served, name);
    EXPECT(!GET(&a, "same")->exists);
    asker_release(&a);
}

/* ---- trouble ---- */

TEST(every_status_has_its_code)
{
    EXPECT_EQ(GRPC_OK, grpc_code_of(OK));
    EXPECT_EQ(GRPC_INVALID_ARGUMENT, grpc_code_of(E_INVALID));
    EXPECT_EQ(GRPC_NOT_FOUND, grpc_code_of(E_NOT_FOUND));
    EXPECT_EQ(GRPC_ALREADY_EXISTS, grpc_code_of(E_EXISTS));
    EXPECT_EQ(GRPC_FAILED_PRECONDITION, grpc_code_of(E_PRECONDITION));
    EXPECT_EQ(GRPC_ABORTED, grpc_code_of(E_STALE));
    EXPECT_EQ(GRPC_RESOURCE_EXHAUSTED, grpc_code_of(E_LIMIT));
    EXPECT_EQ(GRPC_RESOURCE_EXHAUSTED, grpc_code_of(E_NOSPACE));
    EXPECT_EQ(GRPC_UNAVAILABLE, grpc_code_of(E_NOMEM));
    EXPECT_EQ(GRPC_UNAVAILABLE, grpc_code_of(E_BUSY));
    EXPECT_EQ(GRPC_UNAVAILABLE, grpc_code_of(E_CLOSED));
    EXPECT_EQ(GRPC_UNAVAILABLE, grpc_code_of(E_UNAVAILABLE));
    EXPECT_EQ(GRPC_DEADLINE_EXCEEDED, grpc_code_of(E_TIMEOUT));
    EXPECT_EQ(GRPC_INTERNAL, grpc_code_of(E_IO));
    EXPECT_EQ(GRPC_DATA_LOSS, grpc_code_of(E_CORRUPT));
    EXPECT_EQ(GRPC_INTERNAL, grpc_code_of(E_VERSION));
    EXPECT_EQ(GRPC_UNIMPLEMENTED, grpc_code_of(E_UNSUPPORTED));
}

/* Asks with the nth allocation of the server failing, until one call needs fewer than n. */
static void starve(struct asker *a, const char *rpc)
{
    for (uint64_t n = 1;; n++) {
        test_note("%s, allocation %u", rpc, (unsigned)n);
        EXPECT(n < 200);
        a->served.links_n = 0; /* the last one is gone */
        a->link = served_link(&a->served, NULL);
        served_turn(&a->served);
        a->served.mem.fail_at = n;
        served_ask(a->link, rpc, buffer_view(&a->message), &a->answer);
        bool is_over = a->served.mem.fail_at > 0;
        a->served.mem.fail_at = 0;
        /* refused here, or by the connection, which may be gone */
        EXPECT(!is_over || a->answer.code != GRPC_UNAVAILABLE);
        served_unlink(a->link);
        while (desk_errands_n(a->served.service->desk) > 0) served_turn(&a->served);
        if (is_over) return;
    }
}

TEST(a_server_without_memory_refuses_and_leaks_nothing)
{
    static const char *const rpcs[] = {"GetInstance",     "WaitForInstanceStart",
                                       "SuspendInstance", "StreamInstanceHistory",
                                       "RestartInstance", "PurgeInstances"};
    struct asker a;
    asker_init(&a, 1);
    START(&a, "w", "nobody", "1");
    STEER(&a, "TerminateInstance", "w", NULL, GRPC_OK);
    served_unlink(a.link);
    put_text(ask_new(&a), 1, "w");
    for (unsigned n = 0; n < sizeof rpcs / sizeof rpcs[0]; n++) starve(&a, rpcs[n]);
    struct buffer *b = ask_new(&a); /* a batch of ids */
    struct pb_mark mark = pb_begin(b, 4, 20);
    put_text(b, 1, "w");
    put_text(b, 1, "x");
    pb_end(b, mark);
    starve(&a, "PurgeInstances");
    asker_release(&a);
}

/* ---- the end ---- */

TEST(a_server_that_drains_refuses_and_sends_the_waiting_home)
{
    struct asker a;
    struct answer waiting;
    asker_init(&a, 1);
    START(&a, "w", "wait", NULL);
    answer_init(&waiting);
    struct buffer *b = ask_new(&a);
    put_text(b, 1, "w");
    served_begin(a.link, "WaitForInstanceCompletion", buffer_view(b), 0, &waiting);
    served_turn(&a.served);
    EXPECT(!waiting.is_over);
    EXPECT(!service_is_quiet(a.served.service));
    service_drain(a.served.service);
    served_await(&waiting);
    EXPECT_EQ(GRPC_UNAVAILABLE, waiting.code);
    EXPECT(contains(waiting.text, "shutting down"));
    ASK(&a, "GetInstance", GRPC_UNAVAILABLE);
    EXPECT(contains(a.answer.text, "the server is shutting down"));
    while (!service_is_quiet(a.served.service)) served_turn(&a.served);
    answer_release(&waiting);
    asker_release(&a);
}

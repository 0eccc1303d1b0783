/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, groups, queues and dead letters over a disk in memory. After every test the process is
 * lost once more, and what comes back must be what was there.
 */
#include "base/clock.h"
#include "base/log.h"
#include "stream/token.h"
#include "test/lib/stream_world.h"
#include "test/lib/test.h"

#include <stdio.h>

static struct stream_world w;

static void open_world(uint64_t seed)
{
    stream_world_init(&w, seed);
    EXPECT_STATUS(OK, stream_world_open(&w));
}

/* Memory after a crash is what it was. */
static void crash(bool is_power)
{
    uint64_t before;
    uint64_t after;

    stream_world_run(&w);
    EXPECT_STATUS(OK, streams_digest(w.s, &before));
    stream_world_crash(&w, is_power);
    enum status status = stream_world_open(&w);
    test_note("%s", w.damage);
    EXPECT_STATUS(OK, status);
    test_note("%s", "");
    EXPECT_STATUS(OK, streams_digest(w.s, &after));
    EXPECT(before == after);
}

static void close_world(void)
{
    crash(true);
    stream_world_release(&w);
}

static void expect_messages(const char *stream, uint32_t partition, uint64_t from,
                            const char *expected)
{
    static char text[100000];

    EXPECT_STATUS(OK, stream_world_read(&w, stream, partition, from, text, sizeof text));
    EXPECT_TEXT(expected, text);
}

/* ---- streams ---- */

/* What was acknowledged can be read, in its order, also after a crash. */
TEST(appended_messages_are_read_back_in_order)
{
    uint64_t offset = 99;

    open_world(1);
    EXPECT_STATUS(E_NOT_FOUND, stream_world_append(&w, "orders", NULL, "x", -1, NULL));
    EXPECT_STATUS(OK, stream_world_set(&w, "orders", 2));
    EXPECT_STATUS(OK, stream_world_append(&w, "orders", "k", "a", 1, &offset));
    EXPECT_EQ(0, offset);
    EXPECT_STATUS(OK, stream_world_append(&w, "orders", NULL, "b", 1, &offset));
    EXPECT_EQ(1, offset);
    EXPECT_STATUS(E_NOT_FOUND, stream_world_append(&w, "orders", NULL, "c", 2, &offset));
    expect_messages("orders", 1, 0, "0=a 1=b ");
    expect_messages("orders", 1, 1, "1=b ");
    expect_messages("orders", 0, 0, "");
    crash(true);
    expect_messages("orders", 1, 0, "0=a 1=b ");
    close_world();
}

/* Enough to go through chunks, several segments and snapshots, and to be cut out of the journal. */
TEST(messages_move_to_segments_and_stay_readable)
{
    static char expected[100000];
    char value[120];
    size_t at = 0;

    open_world(2);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    for (int i = 0; i < 400; i++) {
        (void)snprintf(value, sizeof value, "message %04d %.*s", i, i % 90,
                       "..........................................................................."
                       "...............");
        EXPECT_STATUS(OK, stream_world_append(&w, "s", "key", value, -1, NULL));
        at += (size_t)snprintf(expected + at, sizeof expected - at, "%d=%s ", i, value);
    }
    expect_messages("s", 0, 0, expected);
    struct stream_stats stats;
    streams_stats(w.s, &stats);
    EXPECT(stats.memory_size < 10000);
    /* 400 messages of about 100 bytes are more than the journal may keep. */
    stream_world_run(&w);
    streams_stats(w.s, &stats);
    EXPECT(stats.journal_size < 100000);
    crash(true);
    expect_messages("s", 0, 0, expected);
    crash(false);
    expect_messages("s", 0, 399, strstr(expected, "399="));
    close_world();
}

/* A message larger than what is read from a segment at once. */
TEST(a_large_message_is_read_from_its_segment)
{
    static char value[(1 << 20) + 1];

    open_world(3);
    w.options.chunks_size_max = (size_t)16 << 20;
    stream_world_crash(&w, false);
    EXPECT_STATUS(OK, stream_world_open(&w));
    memset(value, 'x', sizeof value);
    value[1 << 20] = '\0';
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, "first", -1, NULL));
    EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, value, -1, NULL));
    EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, "last", -1, NULL));
    stream_world_run(&w);
    struct stream_call call;
    stream_call_init(&call, STREAM_REQUEST_READ, "s");
    call.request.read.offset = 1;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    struct stream_message message;
    struct reader at = reader_make(buffer_view(&call.request.answer));
    EXPECT(stream_answer_next(&at, &message));
    EXPECT_EQ(1 << 20, message.value.len);
    stream_call_release(&call);
    close_world();
}

/* All or none: one bad message, and the others are not there either. */
TEST(an_append_of_many_is_all_or_none)
{
    static char large[(1 << 20) + 2];
    struct stream_append items[3] = {
        {.value = BYTES_LITERAL("a"), .partition = -1},
        {.value = bytes_make(large, sizeof large), .partition = -1},
        {.value = BYTES_LITERAL("c"), .partition = 0},
    };
    struct stream_call call;

    open_world(4);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    stream_call_init(&call, STREAM_REQUEST_APPEND, "s");
    call.request.append.items = items;
    call.request.append.n = 3;
    EXPECT_STATUS(E_LIMIT, stream_call_run(&w, &call));
    items[1].value = BYTES_LITERAL("b");
    items[2].partition = 7;
    EXPECT_STATUS(E_NOT_FOUND, stream_call_run(&w, &call));
    expect_messages("s", 0, 0, "");
    items[2].partition = 0;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    expect_messages("s", 0, 0, "0=a 1=b 2=c ");
    EXPECT_EQ(2, items[2].at_offset);
    stream_call_release(&call);
    close_world();
}

/* The same key always falls to the same partition, and each message to one of the readers. */
TEST(keys_choose_the_partition_and_the_reader)
{
    open_world(5);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 4));
    for (int i = 0; i < 40; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%d", i % 10);
        EXPECT_STATUS(OK, stream_world_append(&w, "s", key, "v", -1, NULL));
    }
    uint32_t seen_n = 0;
    for (uint32_t p = 0; p < 4; p++) {
        for (uint32_t reader = 0; reader < 3; reader++) {
            struct stream_call call;
            stream_call_init(&call, STREAM_REQUEST_READ, "s");
            call.request.read.partition = p;
            call.request.read.of = 3;
            call.request.read.reader = reader;
            EXPECT_STATUS(OK, stream_call_run(&w, &call));
            struct stream_message message;
            struct reader at = reader_make(buffer_view(&call.request.answer));
            while (stream_answer_next(&at, &message)) {
                EXPECT_EQ(p, stream_hash_share(true, message.key, 0, 4));
                EXPECT_EQ(reader, stream_hash_share(true, message.key, 0, 3));
                seen_n++;
            }
            stream_call_release(&call);
        }
    }
    EXPECT_EQ(40, seen_n);
    close_world();
}

TEST(settings_change_and_partitions_only_grow)
{
    struct stream_call call;

    open_world(6);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 3));
    EXPECT_STATUS(E_INVALID, stream_world_set(&w, "s", 2));
    EXPECT_STATUS(E_INVALID, stream_world_set(&w, "s", 1025));
    EXPECT_STATUS(E_INVALID, stream_world_set(&w, "-s", 1));
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 5));
    EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, "v", 4, NULL));
    stream_call_init(&call, STREAM_REQUEST_INFO, "s");
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    struct stream_info info;
    struct stream_partition_info partition;
    struct reader at = reader_make(buffer_view(&call.request.answer));
    EXPECT(stream_info_next(&at, &info));
    EXPECT_EQ(5, info.settings.partitions_n);
    for (int i = 0; i < 5; i++) EXPECT(stream_info_next_partition(&info, &partition));
    EXPECT_EQ(1, partition.next);
    EXPECT(!stream_info_next_partition(&info, &partition));
    stream_call_release(&call);
    close_world();
}

/* Deleting takes everything with it; a stream of the same name is another one. */
TEST(a_deleted_stream_is_gone_with_everything)
{
    struct stream_call call;

    open_world(7);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    for (int i = 0; i < 100; i++) {
        EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, "a message of some length", -1, NULL));
    }
    stream_call_init(&call, STREAM_REQUEST_DELETE, "s");
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    EXPECT_STATUS(E_NOT_FOUND, stream_call_run(&w, &call));
    stream_call_release(&call);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    expect_messages("s", 0, 0, "");
    crash(true);
    EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, "new", -1, NULL));
    expect_messages("s", 0, 0, "0=new ");
    close_world();
}

/* Old segments go by size; what is left is still in order, and the first offset tells. */
TEST(retention_by_size_drops_whole_segments)
{
    struct stream_call call;
    char value[100];

    open_world(8);
    stream_call_init(&call, STREAM_REQUEST_SET, "s");
    call.request.set.settings.retention_size = 5000;
    call.request.set.mask = STREAM_SET_RETENTION_SIZE;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    EXPECT(call.request.set.is_new);
    stream_call_release(&call);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(value, sizeof value, "message %d of those that are dropped one day", i);
        EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, value, -1, NULL));
    }
    stream_world_advance(&w, 10000);
    stream_world_advance(&w, 10000);
    stream_call_init(&call, STREAM_REQUEST_READ, "s");
    call.request.read.from_kind = STREAM_FROM_FIRST;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    struct stream_message message;
    struct reader at = reader_make(buffer_view(&call.request.answer));
    EXPECT(stream_answer_next(&at, &message));
    EXPECT(message.offset > 100);
    EXPECT(message.offset < 280);
    stream_call_release(&call);
    close_world();
}

TEST(retention_by_time_spares_what_a_queue_has_not_done)
{
    struct stream_call call;

    open_world(9);
    stream_call_init(&call, STREAM_REQUEST_SET, "s");
    call.request.set.settings.retention_ms = 60000;
    call.request.set.mask = STREAM_SET_RETENTION;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    stream_call_release(&call);
    for (int i = 0; i < 100; i++) {
        EXPECT_STATUS(
            OK, stream_world_append(&w, "s", NULL, "a message of some length ......", -1, NULL));
    }
    struct stream_call receive;
    stream_call_init(&receive, STREAM_REQUEST_RECEIVE, "s");
    receive.request.receive.lock_ms = 1000000;
    EXPECT_STATUS(OK, stream_call_run(&w, &receive));
    EXPECT_EQ(1, receive.request.items_n);
    for (int i = 0; i < 3; i++) stream_world_advance(&w, 100000);
    stream_call_init(&call, STREAM_REQUEST_READ, "s");
    call.request.read.from_kind = STREAM_FROM_FIRST;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    struct stream_message message;
    struct reader at = reader_make(buffer_view(&call.request.answer));
    EXPECT(stream_answer_next(&at, &message));
    EXPECT_EQ(0, message.offset);
    stream_call_release(&call);
    stream_call_release(&receive);
    close_world();
}

/* ---- waiting ---- */

TEST(a_read_waits_for_what_comes)
{
    struct stream_call call;

    open_world(10);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    stream_call_init(&call, STREAM_REQUEST_READ, "s");
    call.request.read.from_kind = STREAM_FROM_NEXT;
    call.request.read.wait_ms = 5000;
    EXPECT(stream_call_post(&w, &call));
    stream_world_run(&w);
    EXPECT(!call.is_done);
    EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, "v", -1, NULL));
    stream_world_run(&w);
    EXPECT(call.is_done);
    EXPECT_EQ(1, call.request.items_n);
    /* And gives up after its time, with nothing. */
    stream_request_again(&call.request);
    call.request.read.from_kind = STREAM_FROM_NEXT;
    EXPECT(stream_call_post(&w, &call));
    stream_world_run(&w);
    stream_world_advance(&w, 4000);
    EXPECT(!call.is_done);
    stream_world_advance(&w, 2000);
    EXPECT(call.is_done);
    EXPECT_STATUS(OK, call.request.status);
    EXPECT_EQ(0, call.request.items_n);
    /* Or when nobody wants it any more. */
    stream_request_again(&call.request);
    EXPECT(stream_call_post(&w, &call));
    stream_world_run(&w);
    struct stream_call cancel;
    stream_call_init(&cancel, STREAM_REQUEST_CANCEL, "s");
    cancel.request.cancel.request = &call.request;
    EXPECT_STATUS(OK, stream_call_run(&w, &cancel));
    EXPECT(call.is_done);
    EXPECT_STATUS(E_TIMEOUT, call.request.status);
    EXPECT_STATUS(E_NOT_FOUND, stream_call_run(&w, &cancel));
    stream_call_release(&cancel);
    stream_call_release(&call);
    close_world();
}

/* ---- groups ---- */

static enum status checkpoint(const char *group, uint64_t offset, uint64_t *position)
{
    struct stream_call call;

    stream_call_init(&call, STREAM_REQUEST_CHECKPOINT, "s");
    call.request.read.group = bytes_of_text(group);
    call.request.read.offset = offset;
    enum status status = stream_call_run(&w, &call);
    *position = call.request.position;
    stream_call_release(&call);
    return status;
}

/* Offset of the first message of a group's read; -1 without. */
static int64_t group_read(const char *group, uint32_t limit, uint32_t every_n, int64_t every_ms)
{
    struct stream_call call;
    struct stream_message message;
    int64_t first = -1;

    stream_call_init(&call, STREAM_REQUEST_GROUP_READ, "s");
    call.request.read.group = bytes_of_text(group);
    call.request.read.limit = limit;
    call.request.read.every_n = every_n;
    call.request.read.every_ms = every_ms;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    struct reader at = reader_make(buffer_view(&call.request.answer));
    if (stream_answer_next(&at, &message)) first = (int64_t)message.offset;
    stream_call_release(&call);
    return first;
}

/* A group goes on where its last checkpoint is, which never goes back by itself. I5 */
TEST(a_group_goes_on_from_its_checkpoint)
{
    uint64_t position;

    open_world(11);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    for (int i = 0; i < 20; i++) {
        EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, "v", -1, NULL));
    }
    EXPECT_EQ(0, group_read("g", 5, 0, 0));
    EXPECT_EQ(0, group_read("g", 5, 0, 0));
    EXPECT_STATUS(OK, checkpoint("g", 5, &position));
    EXPECT_EQ(5, position);
    EXPECT_STATUS(OK, checkpoint("g", 3, &position));
    EXPECT_EQ(5, position);
    EXPECT_STATUS(E_INVALID, checkpoint("g", 21, &position));
    EXPECT_STATUS(E_PRECONDITION, checkpoint("queue", 1, &position));
    EXPECT_EQ(5, group_read("g", 5, 0, 0));
    EXPECT_EQ(0, group_read("other", 5, 0, 0));
    crash(true);
    EXPECT_EQ(5, group_read("g", 5, 0, 0));
    struct stream_call seek;
    stream_call_init(&seek, STREAM_REQUEST_SEEK, "s");
    seek.request.read.group = BYTES_LITERAL("g");
    seek.request.read.from_kind = STREAM_FROM_FIRST;
    EXPECT_STATUS(OK, stream_call_run(&w, &seek));
    EXPECT_EQ(0, seek.request.position);
    stream_call_release(&seek);
    EXPECT_EQ(0, group_read("g", 5, 0, 0));
    close_world();
}

/* Checkpoints after n messages or t seconds; a crash replays what came after the last one. I5 */
TEST(checkpoints_come_after_n_messages_or_some_time)
{
    open_world(12);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    for (int i = 0; i < 100; i++) {
        EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, "v", -1, NULL));
    }
    EXPECT_EQ(0, group_read("g", 4, 8, 0));
    EXPECT_EQ(4, group_read("g", 4, 8, 0));
    EXPECT_EQ(8, group_read("g", 4, 8, 0)); /* 8 are done: checkpoint */
    EXPECT_EQ(12, group_read("g", 4, 8, 0));
    crash(true);
    EXPECT_EQ(8, group_read("g", 4, 8, 0));
    EXPECT_EQ(12, group_read("g", 4, 0, 5000));
    stream_world_advance(&w, 6000);
    EXPECT_EQ(16, group_read("g", 4, 0, 5000)); /* 5 s are over: checkpoint */
    crash(true);
    EXPECT_EQ(16, group_read("g", 4, 8, 0));
    close_world();
}

TEST(a_seek_by_time_finds_the_message)
{
    open_world(13);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    int64_t start_ns = w.wall_ns;
    for (int i = 0; i < 200; i++) {
        EXPECT_STATUS(
            OK, stream_world_append(&w, "s", NULL, "a message of some length.......", -1, NULL));
        stream_world_advance(&w, 1000);
    }
    crash(true);
    struct stream_call seek;
    stream_call_init(&seek, STREAM_REQUEST_SEEK, "s");
    seek.request.read.group = BYTES_LITERAL("g");
    seek.request.read.from_kind = STREAM_FROM_TIME;
    seek.request.read.time_ns = start_ns + 50 * NS_PER_S - 1;
    EXPECT_STATUS(OK, stream_call_run(&w, &seek));
    EXPECT_EQ(50, seek.request.position);
    stream_request_again(&seek.request);
    seek.request.read.time_ns = start_ns + 5000 * NS_PER_S;
    EXPECT_STATUS(OK, stream_call_run(&w, &seek));
    EXPECT_EQ(200, seek.request.position);
    stream_call_release(&seek);
    close_world();
}

/* ---- queues ---- */

struct got {
    struct stream_token token;
    uint64_t offset;
    uint32_t delivery;
};

/* How many were received. */
static uint32_t receive(uint32_t limit, struct got *out)
{
    struct stream_call call;
    struct stream_delivery delivery;
    uint32_t n = 0;

    stream_call_init(&call, STREAM_REQUEST_RECEIVE, "s");
    call.request.receive.limit = limit;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    struct reader at = reader_make(buffer_view(&call.request.answer));
    while (stream_answer_next_delivery(&at, &delivery)) {
        out[n++] = (struct got){delivery.token, delivery.message.offset, delivery.delivery};
    }
    EXPECT_EQ(call.request.items_n, n);
    stream_call_release(&call);
    return n;
}

static enum status answer(enum stream_request_kind kind, const struct got *got)
{
    struct stream_call call;

    stream_call_init(&call, kind, "s");
    call.request.lock.token = got->token;
    call.request.lock.reason = BYTES_LITERAL("it smells");
    enum status status = stream_call_run(&w, &call);
    stream_call_release(&call);
    return status;
}

static void make_queue(uint32_t messages_n, uint32_t deliveries_max)
{
    struct stream_call call;
    char value[16];

    stream_call_init(&call, STREAM_REQUEST_SET, "s");
    call.request.set.settings.deliveries_max = deliveries_max;
    call.request.set.settings.lock_ms = 10000;
    call.request.set.mask = STREAM_SET_DELIVERIES | STREAM_SET_LOCK;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    stream_call_release(&call);
    for (uint32_t i = 0; i < messages_n; i++) {
        (void)snprintf(value, sizeof value, "\"m%u\"", i);
        EXPECT_STATUS(OK, stream_world_append(&w, "s", "key", value, -1, NULL));
    }
}

/* Each message has one consumer at a time; what is complete never comes again. I6 */
TEST(competing_consumers_get_different_messages)
{
    struct got got[10];
    struct got more[10];

    open_world(14);
    make_queue(5, 3);
    EXPECT_EQ(3, receive(3, got));
    EXPECT_EQ(2, receive(5, more));
    EXPECT_EQ(0, receive(5, more + 2));
    EXPECT_EQ(0, got[0].offset);
    EXPECT_EQ(3, more[0].offset);
    /* In any order. */
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_COMPLETE, &got[2]));
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_COMPLETE, &got[0]));
    EXPECT_STATUS(E_STALE, answer(STREAM_REQUEST_COMPLETE, &got[0]));
    crash(true);
    EXPECT_EQ(0, receive(5, more + 2)); /* locks survive */
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_COMPLETE, &got[1]));
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_ABANDON, &more[0]));
    EXPECT_EQ(1, receive(5, got));
    EXPECT_EQ(3, got[0].offset);
    EXPECT_EQ(2, got[0].delivery);
    /* The token of the delivery before is worth nothing now. */
    EXPECT_STATUS(E_STALE, answer(STREAM_REQUEST_COMPLETE, &more[0]));
    close_world();
}

TEST(a_token_cannot_be_guessed)
{
    struct got got[1];

    open_world(15);
    make_queue(2, 3);
    EXPECT_EQ(1, receive(1, got));
    got[0].token.mac[3] ^= 1;
    EXPECT_STATUS(E_INVALID, answer(STREAM_REQUEST_COMPLETE, &got[0]));
    got[0].token.mac[3] ^= 1;
    got[0].token.offset = 1;
    EXPECT_STATUS(E_INVALID, answer(STREAM_REQUEST_COMPLETE, &got[0]));
    char text[STREAM_TOKEN_TEXT_SIZE];
    struct stream_token token;
    stream_token_text(&got[0].token, text);
    EXPECT(stream_token_parse(bytes_make(text, sizeof text), &token));
    EXPECT_EQ(1, token.offset);
    EXPECT(!stream_token_parse(bytes_make(text, sizeof text - 1), &token));
    close_world();
}

TEST(a_lock_that_runs_out_gives_the_message_to_another)
{
    struct got got[4];
    struct got again[4];

    open_world(16);
    make_queue(2, 3);
    EXPECT_EQ(2, receive(2, got));
    stream_world_advance(&w, 9000);
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_RENEW, &got[1]));
    w.wall_ns += 2000 * NS_PER_MS; /* nobody has looked at the locks since */
    EXPECT_STATUS(E_STALE, answer(STREAM_REQUEST_COMPLETE, &got[0]));
    EXPECT_EQ(1, receive(2, again));
    EXPECT_EQ(0, again[0].offset);
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_COMPLETE, &got[1]));
    close_world();
}

/* A consumer that waits gets what another one gives back, or what runs out. */
TEST(a_waiting_receive_gets_what_is_given_back)
{
    struct got got[1];
    struct stream_call call;

    open_world(17);
    make_queue(1, 5);
    EXPECT_EQ(1, receive(1, got));
    stream_call_init(&call, STREAM_REQUEST_RECEIVE, "s");
    call.request.receive.wait_ms = 60000;
    EXPECT(stream_call_post(&w, &call));
    stream_world_run(&w);
    EXPECT(!call.is_done);
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_ABANDON, &got[0]));
    stream_world_run(&w);
    EXPECT(call.is_done);
    EXPECT_EQ(1, call.request.items_n);
    stream_request_again(&call.request);
    EXPECT(stream_call_post(&w, &call));
    stream_world_run(&w);
    stream_world_advance(&w, 11000); /* the lock of the receive before this one */
    EXPECT(call.is_done);
    EXPECT_EQ(1, call.request.items_n);
    stream_call_release(&call);
    close_world();
}

/* More than one answer may have: the rest is as if it had never been delivered. */
TEST(what_does_not_fit_into_a_receive_is_given_to_the_next)
{
    static char value[(1 << 20) + 1];
    struct got got[10];

    stream_world_init(&w, 33);
    w.options.chunks_size_max = (size_t)64 << 20;
    EXPECT_STATUS(OK, stream_world_open(&w));
    make_queue(0, 1);
    memset(value, 'x', sizeof value - 1);
    for (int i = 0; i < 8; i++) {
        EXPECT_STATUS(OK, stream_world_append(&w, "s", NULL, value, -1, NULL));
    }
    uint32_t n = receive(8, got);
    EXPECT(n >= 2);
    EXPECT(n < 8);
    uint32_t more_n = receive(8, got);
    EXPECT(more_n >= 2);
    EXPECT_EQ(n, got[0].offset);
    EXPECT_EQ(1, got[0].delivery);
    close_world();
}

/* ---- dead letters ---- */

static uint32_t letters(uint64_t *ids, char *text, size_t size)
{
    struct stream_call call;
    struct stream_message message;
    struct stream_letter_content letter;
    struct bytes name;
    uint32_t n = 0;
    size_t at = 0;

    text[0] = '\0';
    stream_call_init(&call, STREAM_REQUEST_LETTERS, "s");
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    struct reader from = reader_make(buffer_view(&call.request.answer));
    while (stream_answer_next_letter(&from, &name, &message)) {
        EXPECT_BYTES(BYTES_LITERAL("s"), name);
        EXPECT(stream_letter_read(message.value, &letter));
        ids[n++] = letter.id;
        at += (size_t)snprintf(text + at, size - at, "%llu:%.*s:%u:%.*s ",
                               (unsigned long long)letter.offset, (int)letter.value.len,
                               (const char *)letter.value.ptr, letter.deliveries,
                               (int)letter.reason.len, (const char *)letter.reason.ptr);
    }
    stream_call_release(&call);
    return n;
}

/* After as many deliveries as there may be, or at once when a consumer says so. */
TEST(what_nobody_completes_becomes_a_dead_letter)
{
    struct got got[4];
    uint64_t ids[4];
    char text[300];

    open_world(18);
    make_queue(3, 2);
    EXPECT_EQ(1, receive(1, got));
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_DEAD_LETTER, &got[0]));
    EXPECT_STATUS(E_STALE, answer(STREAM_REQUEST_DEAD_LETTER, &got[0]));
    EXPECT_EQ(1, receive(1, got));
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_ABANDON, &got[0]));
    EXPECT_EQ(1, receive(1, got));
    EXPECT_EQ(2, got[0].delivery);
    crash(true);
    stream_world_advance(&w, 11000);
    EXPECT_EQ(2, letters(ids, text, sizeof text));
    EXPECT_TEXT("0:\"m0\":1:it smells "
                "1:\"m1\":2:delivered as often as maxDeliveries allows, never completed ",
                text);
    EXPECT_EQ(1, receive(5, got));
    EXPECT_EQ(2, got[0].offset);
    close_world();
}

TEST(letters_are_edited_resubmitted_and_discarded)
{
    struct got got[4];
    uint64_t ids[4];
    char text[300];
    struct stream_call call;

    open_world(19);
    make_queue(3, 2);
    EXPECT_EQ(3, receive(3, got));
    for (int i = 0; i < 3; i++) {
        EXPECT_STATUS(OK, answer(STREAM_REQUEST_DEAD_LETTER, &got[i]));
    }
    EXPECT_EQ(3, letters(ids, text, sizeof text));
    stream_call_init(&call, STREAM_REQUEST_LETTER_EDIT, "");
    call.request.letter.id = ids[1];
    call.request.letter.has_value = true;
    call.request.letter.value = BYTES_LITERAL("\"better\"");
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    stream_call_release(&call);
    crash(true);
    stream_call_init(&call, STREAM_REQUEST_LETTER_RESUBMIT, "");
    call.request.letter.id = ids[1];
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    EXPECT_EQ(3, call.request.offset);
    stream_request_again(&call.request);
    EXPECT_STATUS(E_NOT_FOUND, stream_call_run(&w, &call));
    stream_call_release(&call);
    stream_call_init(&call, STREAM_REQUEST_LETTER_DISCARD, "");
    call.request.letter.id = ids[0];
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    EXPECT_STATUS(E_NOT_FOUND, stream_call_run(&w, &call));
    stream_call_release(&call);
    crash(true);
    EXPECT_EQ(1, letters(ids, text, sizeof text));
    EXPECT_TEXT("2:\"m2\":1:it smells ", text);
    expect_messages("s", 0, 3, "3=\"better\" ");
    EXPECT_EQ(1, receive(5, got));
    EXPECT_EQ(3, got[0].offset);
    EXPECT_EQ(1, got[0].delivery);
    close_world();
}

/* One slow message delays nobody: its consumer keeps it, and thousands pass. I7 */
TEST(one_slow_message_delays_nobody)
{
    struct got slow[1];
    struct got got[64];
    uint32_t done_n = 0;

    open_world(20);
    make_queue(500, 5);
    EXPECT_EQ(1, receive(1, slow));
    for (uint32_t n = 1; n > 0;) {
        n = receive(64, got);
        for (uint32_t i = 0; i < n; i++) {
            EXPECT_STATUS(OK, answer(STREAM_REQUEST_COMPLETE, &got[i]));
            done_n++;
        }
    }
    EXPECT_EQ(499, done_n);
    EXPECT_STATUS(OK, answer(STREAM_REQUEST_COMPLETE, &slow[0]));
    close_world();
}

/* ---- limits ---- */

TEST(limits_are_answers)
{
    struct stream_call call;
    char key[300];

    open_world(21);
    EXPECT_STATUS(OK, stream_world_set(&w, "s", 1));
    memset(key, 'k', sizeof key);
    key[257] = '\0';
    EXPECT_STATUS(E_INVALID, stream_world_append(&w, "s", key, "v", -1, NULL));
    key[256] = '\0';
    EXPECT_STATUS(OK, stream_world_append(&w, "s", key, "v", -1, NULL));
    for (int i = 0; i < 100; i++) {
        uint64_t position;
        (void)snprintf(key, sizeof key, "g%d", i);
        EXPECT_STATUS(OK, checkpoint(key, 1, &position));
    }
    uint64_t position;
    EXPECT_STATUS(E_LIMIT, checkpoint("g100", 1, &position));
    stream_call_init(&call, STREAM_REQUEST_GROUP_DELETE, "s");
    call.request.read.group = BYTES_LITERAL("g7");
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    stream_call_release(&call);
    EXPECT_STATUS(OK, checkpoint("g100", 1, &position));
    for (int i = 0; i < 16; i++) {
        (void)snprintf(key, sizeof key, "wide-%d", i);
        EXPECT_STATUS(i < 15 ? OK : E_LIMIT, stream_world_set(&w, key, 1024));
    }
    close_world();
}

/* ---- without memory, with a broken disk ---- */

/* A day in the life, with whatever answers; then everything is well again, and all that was
 * acknowledged must be there. */
static uint32_t a_day(void)
{
    char value[64];
    uint32_t known_n = 0;
    struct stream_call call;

    for (int i = 0; i < 3 && stream_world_set(&w, "s", 1) != OK; i++) continue;
    for (int i = 0; i < 60; i++) {
        (void)snprintf(value, sizeof value, "{\"n\":%u,\"pad\":\"..............................\"}",
                       known_n);
        enum status status = stream_world_append(&w, "s", "key", value, -1, NULL);
        if (status == OK) known_n++;
        if (status == E_NOSPACE) w.wall_ns += NS_PER_S;
        if (w.is_fatal || w.s == NULL) return known_n;
    }
    stream_call_init(&call, STREAM_REQUEST_RECEIVE, "s");
    call.request.receive.limit = 5;
    enum status status = stream_call_run(&w, &call);
    struct reader at = reader_make(buffer_view(&call.request.answer));
    struct stream_delivery delivery;
    while (status == OK && stream_answer_next_delivery(&at, &delivery)) {
        struct got got = {.token = delivery.token};
        (void)answer(delivery.message.offset % 2 == 0 ? STREAM_REQUEST_COMPLETE
                                                      : STREAM_REQUEST_DEAD_LETTER,
                     &got);
        if (w.is_fatal) break;
    }
    stream_call_release(&call);
    return known_n;
}

/* Messages are numbered in the order they were acknowledged; one more may be there unheard. */
static void expect_known(uint32_t known_n)
{
    static char text[100000];
    unsigned next = 0;

    if (known_n == 0) return;
    EXPECT_STATUS(OK, stream_world_read(&w, "s", 0, 0, text, sizeof text));
    for (const char *at = text; (at = strstr(at, "{\"n\":")) != NULL; at += 5) {
        unsigned number;
        EXPECT(sscanf(at, "{\"n\":%u", &number) == 1);
        EXPECT(number == next || number + 1 == next); /* sent again after an unheard one */
        if (number == next) next++;
    }
    EXPECT(next == known_n || next == known_n + 1);
}

/* Every allocation of the day fails once: an answer, and nothing that was acknowledged is lost. */
TEST(memory_that_fails_loses_nothing)
{
    static _Atomic uint64_t fail_at;

    log_set_level((enum log_level)(LOG_ERROR + 1));
    for (uint64_t n = 1; n < 6000; n += 1 + n / 40) {
        test_note("allocation %llu", (unsigned long long)n);
        stream_world_init(&w, 31);
        w.mem.fail_any_at = &fail_at;
        fail_at = 0;
        EXPECT_STATUS(OK, stream_world_open(&w));
        fail_at = n;
        uint32_t known_n = a_day();
        bool is_over = fail_at > 0;
        fail_at = 0;
        EXPECT(known_n >= 50 || w.is_fatal);
        if (w.is_fatal)
            stream_world_crash(&w, true);
        else
            stream_world_run(&w);
        if (w.s == NULL) EXPECT_STATUS(OK, stream_world_open(&w));
        expect_known(known_n);
        crash(true);
        expect_known(known_n);
        stream_world_release(&w);
        if (is_over) return;
    }
}

/* The nth call of the disk fails, for every n. */
static void try_fault(enum store_fault fault, enum store_fault_on on)
{
    for (uint64_t n = 1; n < 3000; n += 1 + n / 25) {
        test_note("fault %d on %d, call %llu", (int)fault, (int)on, (unsigned long long)n);
        stream_world_init(&w, 32);
        EXPECT_STATUS(OK, stream_world_open(&w));
        uint64_t before = store_fault_calls(w.disk, on);
        struct store_fault_plan plan = {.fault = fault, .on = on, .at = n, .seed = n};
        store_fault_plan(w.disk, &plan);
        uint32_t known_n = a_day();
        bool is_over = store_fault_calls(w.disk, on) - before < n;
        store_fault_plan(w.disk, &(struct store_fault_plan){0});
        stream_world_crash(&w, n % 2 == 0);
        enum status status = stream_world_open(&w);
        EXPECT_STATUS(OK, status);
        expect_known(known_n);
        stream_world_release(&w);
        if (is_over) return;
    }
}

TEST(a_disk_that_fails_loses_nothing)
{
    log_set_level((enum log_level)(LOG_ERROR + 1));
    try_fault(FAULT_FAIL, FAULT_ON_ANY);
    try_fault(FAULT_NOSPACE, FAULT_ON_WRITE);
    try_fault(FAULT_TEAR, FAULT_ON_WRITE);
    try_fault(FAULT_CRASH, FAULT_ON_ANY);
    try_fault(FAULT_CRASH_AFTER, FAULT_ON_ANY);
    try_fault(FAULT_FAIL, FAULT_ON_DATASYNC);
}

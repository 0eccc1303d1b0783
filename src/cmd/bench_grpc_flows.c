/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_grpc.h: workflows that are started and waited for, as an SDK's client does it: a
 * StartInstance and, after its answer, a WaitForInstanceCompletion.
 */
#include "cmd/bench_grpc.h"

#include "base/clock.h"
#include "base/mem.h"
#include "wire/pb.h"

#include <stdio.h>

#define STATUS_COMPLETED_NUMBER 1
#define WAIT_MS 60000 /* most SDKs send a deadline with a wait */

struct bench_flow {
    struct bench_flows *flows;
    struct client *client;
    uint64_t number;
    int64_t started_ns;
    bool is_completed; /* the answer said so */
};

static void start(struct bench_flow *flow);

static struct bytes instance_id(const struct bench_flow *flow, char *out, size_t size)
{
    int len = snprintf(out, size, "%s-%llu", flow->flows->prefix, (unsigned long long)flow->number);
    return bytes_make(out, (size_t)len);
}

static void fail(struct bench_flow *flow, const char *text)
{
    struct bench_flows *flows = flow->flows;
    flows->failed++;
    flows->active--;
    /* no new one in this slot: a server that refuses would be asked for ever */
    snprintf(flows->text, sizeof flows->text, "%s", text);
}

static bool is_completed(struct bytes answer)
{
    struct pb_field field;
    struct pb_reader reader = pb_reader_make(answer);
    while (pb_next(&reader, &field)) {
        if (field.number != 2) continue;
        struct pb_field inner;
        struct pb_reader state = pb_sub(&field);
        while (pb_next(&state, &inner)) {
            if (inner.number == 4) return inner.value == STATUS_COMPLETED_NUMBER;
        }
    }
    return false;
}

static void wait_message(void *user, struct client_call *call, struct bytes message)
{
    struct bench_flow *flow = user;
    (void)call;
    flow->is_completed = is_completed(message);
}

static void wait_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct bench_flow *flow = user;
    struct bench_flows *flows = flow->flows;
    (void)call;
    if (code != GRPC_OK || !flow->is_completed) {
        fail(flow, code == GRPC_OK ? "a workflow ended otherwise than COMPLETED" : text);
        return;
    }
    if (flows->is_counting) {
        int64_t now_ns = client_sockets_now_ns(flows->sockets);
        flows->finished++;
        histogram_add(&flows->latency_us, (uint64_t)(now_ns - flow->started_ns) / 1000);
    }
    flows->active--;
    start(flow);
}

static void start_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    char id[96];
    struct bench_flow *flow = user;
    struct bench_flows *flows = flow->flows;
    (void)call;
    if (code != GRPC_OK) {
        fail(flow, text);
        return;
    }
    buffer_clear(&flows->message);
    pb_put_bytes(&flows->message, 1, instance_id(flow, id, sizeof id));
    pb_put_varint(&flows->message, 2, 1);
    struct client_request request = {
        .path = "/TaskHubSidecarService/WaitForInstanceCompletion",
        .message = buffer_view(&flows->message),
        .timeout_ms = WAIT_MS,
        .on_message = wait_message,
        .on_end = wait_end,
        .user = flow,
    };
    flow->is_completed = false;
    enum status status =
        client_begin(flow->client, client_sockets_now_ns(flows->sockets), &request, NULL);
    if (status != OK) fail(flow, status_text(status));
}

static void start(struct bench_flow *flow)
{
    char id[96];
    char input[16];
    struct bench_flows *flows = flow->flows;
    if (flows->is_stopping) return;
    flow->number = flows->started++;
    flow->started_ns = client_sockets_now_ns(flows->sockets);
    flows->active++;
    snprintf(input, sizeof input, "%u", flows->steps);
    buffer_clear(&flows->message);
    pb_put_bytes(&flows->message, 1, instance_id(flow, id, sizeof id));
    pb_put_bytes(&flows->message, 2, BYTES_LITERAL(BENCH_NAME));
    pb_put_string_value(&flows->message, 4, bytes_of_text(input), true);
    struct client_request request = {
        .path = "/TaskHubSidecarService/StartInstance",
        .message = buffer_view(&flows->message),
        .on_end = start_end,
        .user = flow,
    };
    enum status status = client_begin(flow->client, flow->started_ns, &request, NULL);
    if (status != OK) fail(flow, status_text(status));
}

bool bench_flows_open(struct bench_flows *flows, struct client_sockets *sockets,
                      const char *address, const char *hub)
{
    char text[CLIENT_SOCKET_TEXT_SIZE] = "";
    struct client_options options;
    uint32_t clients_n =
        (flows->in_flight + BENCH_SLOTS_PER_CONNECTION - 1) / BENCH_SLOTS_PER_CONNECTION;
    flows->sockets = sockets;
    flows->slots = mem_take_zero(mem_process(), flows->in_flight * sizeof *flows->slots);
    flows->clients = mem_take_zero(mem_process(), clients_n * sizeof(struct client *));
    if (flows->slots == NULL || flows->clients == NULL) return false;
    flows->clients_n = clients_n;
    buffer_init(&flows->message, mem_process());
    histogram_init(&flows->latency_us);
    snprintf(flows->prefix, sizeof flows->prefix, "bench-%u-%llx", flows->steps,
             (unsigned long long)clock_wall_ns());
    client_options_init(&options, mem_process());
    options.hub = bytes_of_text(hub);
    for (uint32_t n = 0; n < clients_n; n++) {
        enum status status =
            client_sockets_connect(sockets, &options, address, 5000, &flows->clients[n], text);
        if (status == OK) continue;
        fprintf(stderr, "norn bench grpc: no client: %s %s\n", status_text(status), text);
        return false;
    }
    for (uint32_t n = 0; n < flows->in_flight; n++) {
        flows->slots[n].flows = flows;
        flows->slots[n].client = flows->clients[n % clients_n];
        start(&flows->slots[n]);
    }
    return true;
}

void bench_flows_close(struct bench_flows *flows)
{
    flows->is_stopping = true;
    for (uint32_t n = 0; n < flows->clients_n; n++) {
        if (flows->clients[n] != NULL) client_sockets_disconnect(flows->sockets, flows->clients[n]);
    }
    if (flows->slots != NULL)
        mem_give(mem_process(), flows->slots, flows->in_flight * sizeof *flows->slots);
    if (flows->clients != NULL)
        mem_give(mem_process(), flows->clients, flows->clients_n * sizeof(struct client *));
    if (flows->message.mem != NULL) buffer_release(&flows->message);
    flows->slots = NULL;
    flows->clients = NULL;
    flows->clients_n = 0;
}

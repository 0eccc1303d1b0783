/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer of the server over a real socket, that can say anything, read or not read, and notes what
 * it is told. Frames are put into `out` with test/lib/frames.h.
 */
#ifndef TEST_E2E_ATTACKS_PEER_H
#define TEST_E2E_ATTACKS_PEER_H

#include "test/lib/frames.h"

#include <stdbool.h>

#define SERVICE "/TaskHubSidecarService/"
#define NO_STATUS (-1)

struct peer {
    int fd;
    nghttp2_hd_inflater *inflater;
    struct buffer out; /* what is to be said */
    struct buffer in;  /* received, not a whole frame yet */
    bool is_reading;   /* reads while it sends; true unless the test says otherwise */
    bool is_over;      /* the connection has ended */
    bool is_reset;     /* by RST of TCP: last words may be lost */

    uint32_t stream; /* the next one */
    unsigned goaways_n;
    uint32_t goaway_code;
    unsigned resets_n;
    uint32_t reset_code;
    unsigned acks_n; /* of PING and SETTINGS */
    unsigned ends_n; /* streams that were ended */
    uint32_t end_stream;
    int grpc_status; /* of the last answer, NO_STATUS = none */
    int http_status;
    uint64_t data_size;
    uint64_t data_frames_n;

    int64_t window; /* what it may send by the rules: peer_call() keeps them */
    int64_t stream_window;
    uint32_t window_stream; /* whose stream_window it is */
};

/* receive_size: of the socket's buffer, 0 = the system's. */
void peer_open(struct peer *p, int receive_size);
/* The same with HTTP/2's greeting said and answered: its SETTINGS, and ours acknowledged. */
void peer_greet(struct peer *p, int receive_size);
void peer_close(struct peer *p);

/* Sends what is in `out`; false when the connection has ended before. One that does not read gives
 * up when nothing went for give_up_ms: false, and what is left in `out` is forgotten. */
bool peer_send(struct peer *p, int give_up_ms);
/* Reads what comes within so long; false when the connection has ended. */
bool peer_read(struct peer *p, int within_ms);
/* Reads to the end of the connection; false when it did not come in time. */
bool peer_await_end(struct peer *p, int within_ms);

/* One call with this message on a stream of its own: its gRPC status, NO_STATUS when the stream or
 * the connection ended without. */
int peer_call(struct peer *p, const char *rpc, struct bytes message);
/* The request of such a call with a small message, put into out; answers its stream. Not counted in
 * the windows. */
uint32_t peer_put_call(struct peer *p, const char *rpc, struct bytes message);
/* Sends as DATA of the stream what the windows let, and waits for them when there is more; false
 * when the connection ended or the stream was ended by the server. */
bool peer_send_data(struct peer *p, uint32_t stream, struct bytes data, bool is_end);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of an attack: a server of its own, a healthy client beside the attacker that asks all
 * the time, and what the attack may cost. Every test prints what it did cost:
 *
 *      # rapid reset: 21000 frames, cpu 0.09 s, rss +0.3 MiB, p99 0.21 -> 0.35 ms, worst 2.1 ms
 *
 * The bounds are generous, since the machine of a test is busy: a server that is not protected
 * fails them by orders of magnitude.
 */
#ifndef TEST_E2E_ATTACKS_ATTACK_H
#define TEST_E2E_ATTACKS_ATTACK_H

#include "test/e2e/attacks/peer.h"
#include "test/e2e/attacks/target.h"
#include "test/lib/test.h"

#define CALM NGHTTP2_ENHANCE_YOUR_CALM
#define SEND_MS 10000
#define END_MS 10000

struct attack_bounds {
    int64_t rss_max;          /* growth; 0 = 16 MiB */
    int64_t cpu_ns_max;       /* in all; 0 = one second for each 100,000 frames begun */
    int64_t healthy_ms_worst; /* 0 = p99 below 500 ms */
};

/* Starts the server (extra: words of its command line, or NULL) and the healthy client, and
 * measures what is usual. */
void attack_begin(const char *name, const char *const *extra);
/* What has happened so far belongs to the preparation. */
void attack_begin_again(void);
/* Starts the instance "i" with an input of a megabyte, to be asked for. */
void attack_start_large(void);
/* Ends the healthy client, expects that all its calls were answered in time and that the bounds
 * hold, prints what was measured. frames_n: what the attacker sent. */
void attack_measure(uint64_t frames_n, struct attack_bounds bounds);
/* Stops the server. */
void attack_end(void);

/* Expects that the server has said GOAWAY with this code and closed, and that this counter of
 * norn_net_*_total is n. */
void expect_cut(struct peer *p, uint32_t code, const char *counter, uint64_t n);

#endif

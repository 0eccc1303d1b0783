/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the messages of a bound stream go: something that starts one instance for each, and
 * remembers with each start how far it has come, so that a message that comes again starts nothing.
 *
 * A starter has parts, each with its own order: of the messages of one source (a partition of a
 * stream) it takes those of one part one after the other, and refuses one whose predecessor it has
 * not seen.
 */
#ifndef STREAM_STARTER_H
#define STREAM_STARTER_H

#include "base/bytes.h"
#include "base/list.h"
#include "base/status.h"

struct streams;

#define STREAM_SOURCE_SIZE 32u

/* Made by the streams; everything in it stays until it is given back. */
struct stream_start {
    struct list node; /* the starter's until it is given back */
    struct streams *streams;
    void *user; /* the starter's */
    struct bytes hub;
    struct bytes workflow;
    struct bytes id;    /* the message's key */
    struct bytes input; /* its value, a JSON text */
    char source[STREAM_SOURCE_SIZE];
    uint64_t position; /* the message's offset + 1 */
    uint64_t after;    /* position of the last one before it in the same part; 0 = none */
    /* OK: started, durably, now or before. E_EXISTS, E_INVALID: it never can be (text says why).
     * E_STALE: the one at `after` is missing. Anything else: not now. */
    enum status status;
    char text[160];
};

/* Asks how far each part has come with a source. The same rules. */
struct stream_positions {
    struct list node;
    struct streams *streams;
    void *user;
    char source[STREAM_SOURCE_SIZE];
    uint64_t *positions; /* by part: to be filled in; 0 = nothing yet */
    enum status status;
};

struct stream_starter {
    void *user;
    uint32_t parts_n;
    uint32_t (*part_of)(void *user, struct bytes hub, struct bytes id);
    /* Takes it, and gives it back by the functions below, from any thread, not from within the
     * call. False: not now. */
    bool (*start)(void *user, struct stream_start *start);
    bool (*learn)(void *user, struct stream_positions *positions);
};

void stream_start_done(struct stream_start *start);
void stream_positions_done(struct stream_positions *positions);

#endif

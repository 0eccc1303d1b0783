/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine inside a process: a data directory, its shards, and the threads that run them. This is
 * what the server and the C library stand on.
 *
 *      data directory (0700)
 *      ├── lock                 held while the engine is open
 *      ├── format               version, partitions, shards, MAC key; written once
 *      └── shard-0/journal, shard-0/archive, shard-1/...
 */
#ifndef HOST_ENGINE_H
#define HOST_ENGINE_H

#include "host/host.h"

struct engine;

#define ENGINE_FORMAT_VERSION 1u
#define ENGINE_DAMAGE_SIZE 400

struct engine_options {
    const char *directory;         /* made when absent; its parent must exist */
    uint64_t journal_segment_size; /* bytes preallocated */
    uint64_t archive_segment_size;
    /* Limits and policies of each shard; partitions_n and shards_n as the directory has them, or 0.
     * mem, wake, send, user, shard and mac_key are the engine's. */
    struct host_options host;
};
/* Defaults; directory is NULL. */
void engine_options_init(struct engine_options *options);

/* Opens or creates the directory, recovers, and starts the threads. E_BUSY: another process has it.
 * E_VERSION: it was written by a newer program; nothing was changed. E_INVALID: partitions or
 * shards differ from those it was made with. E_CORRUPT, E_IO, E_NOSPACE, E_NOMEM. damage
 * (ENGINE_DAMAGE_SIZE): what and where, for people. */
enum status engine_open(const struct engine_options *options, char *damage, struct engine **out);
/* Finishes what was posted, archives what has finished, ends the threads. Requests that still wait
 * are answered E_CLOSED. Nobody may post any more. */
void engine_close(struct engine *e);

/* From any thread. To the shard that has the request's instance; a QUERY to all of them, merged; a
 * PURGE_WHERE and a recursive PURGE as many requests to all of them, see purger.h.
 * WORKER_*, STATS, ALERTS, SOURCE and BACKLOG are for one shard: engine_post_to(). False: full or
 * closing; the request stays the caller's. */
bool engine_post(struct engine *e, struct request *request);
bool engine_post_to(struct engine *e, uint32_t shard, struct request *request);
/* The same, but the shard does not see it until engine_wake(), which wakes it once for all of them:
 * they are taken together. */
bool engine_post_quietly(struct engine *e, struct request *request);
bool engine_post_to_quietly(struct engine *e, uint32_t shard, struct request *request);
void engine_wake(struct engine *e);
/* Posts it (WORKER_*, STATS, ALERTS: to shard 0) and waits until it is done; not from a host's
 * thread. Its done() is called as always, when it has one: that is where the answer's bytes can be
 * read. Answers the request's status, E_UNAVAILABLE when it was not taken (then done() is not
 * called). */
enum status engine_call(struct engine *e, struct request *request);
/* The same to one shard. */
enum status engine_call_to(struct engine *e, uint32_t shard, struct request *request);
/* The sum over all shards; lsn_* of shard 0. E_UNAVAILABLE. */
enum status engine_stats(struct engine *e, struct host_stats *out);

/* That of a shard, for backups; see backup.h. */
struct hold *engine_hold(struct engine *e, uint32_t shard);

uint32_t engine_partitions_n(const struct engine *e);
uint32_t engine_shards_n(const struct engine *e);
/* For completion tokens; lives as long as the engine. */
const uint64_t *engine_mac_key(const struct engine *e);

#endif

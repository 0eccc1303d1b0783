/* SPDX-License-Identifier: Apache-2.0
 *
 * What all examples need and none is about: the engine inside the program or a server, payloads
 * as texts, and an end with a sentence when something that must work does not.
 *
 *      counter                      with an engine of its own, in a new directory that is removed
 *      counter --data DIRECTORY     the same, and the directory stays
 *      counter --server ADDRESS     as client and worker of `norn server`
 */
#ifndef EXAMPLES_EXAMPLE_H
#define EXAMPLES_EXAMPLE_H

#include <norn.h>

#include <stdio.h>
#include <string.h>

struct example {
    norn_engine *engine; /* NULL with a server */
    norn_client *client;
    norn_worker *worker;
    char directory[256];                /* to be removed; "" = none */
    const struct norn_policy *policies; /* of the engine; set before it is opened */
    size_t policies_n;
};

/* Opens all three as the arguments say; zeroed before, but for the policies. Register functions,
 * then norn_worker_start(). */
void example_open(struct example *e, int argc, char **argv);
void example_close(struct example *e);

/* Ends the program unless the status is NORN_OK. */
void must(norn_status status, const char *what);

/* Starts an instance with this id; one that is there already goes on. input: JSON, NULL = none. */
void example_begin(struct example *e, const char *name, const char *id, const char *input);
/* Waits until it has ended: norn_info_free(). */
struct norn_info *example_wait(struct example *e, const char *id);

/* A payload in the memory of ctx, printed; absent without memory. */
__attribute__((format(printf, 2, 3))) struct norn_bytes example_print(norn_context *ctx,
                                                                      const char *format, ...);
/* For "%.*s". */
#define TEXT(bytes) (int)(bytes).len, (const char *)(bytes).ptr

/* The value of a member of a flat JSON object, without quotes; "" when there is none. For examples:
 * a program that means it has a JSON library. */
const char *example_member(struct norn_bytes json, const char *name, char *value, size_t size);
/* A JSON number, or the one that is a member (name not NULL). 0 when there is none. */
long example_number(struct norn_bytes json, const char *name);

#endif

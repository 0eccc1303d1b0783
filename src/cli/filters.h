/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instances are meant: the same options for list, count, purge and batch, so that what was
 * listed is what is changed.
 */
#ifndef CLI_FILTERS_H
#define CLI_FILTERS_H

#include "cli/session.h"
#include "wire/json.h"

struct filters {
    const char *status;
    const char *name;
    const char *id_prefix;
    const char *from;
    const char *to;
    const char *completed_from;
    const char *completed_to;
    const char *tag;
    const char *error;
    bool is_parked;
};

#define FILTERS_N 10

/* Writes FILTERS_N specs that fill f. */
void filters_specs(struct filters *f, struct option_spec out[static FILTERS_N]);
/* Times into RFC 3339. False after a message. */
bool filters_resolve(struct cli *cli, struct filters *f, int *exit_code);
bool filters_are_empty(const struct filters *f);
/* The path with them as parameters. */
const char *filters_query(struct cli *cli, const char *path, const struct filters *f);
/* As members of the open object. */
void filters_write(const struct filters *f, struct json *j);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * All items of a list of the server, {"items":[...],"next":...}, page after page:
 *
 *     struct pages pages = pages_begin(cli, path);
 *     while (pages_next(&pages)) ... pages.item ...
 *     if (pages.code != EXIT_CODE_OK) ... what was wrong has been said ...
 */
#ifndef CLI_PAGES_H
#define CLI_PAGES_H

#include "cli/session.h"

struct pages {
    struct value item; /* lives in the arena */
    int code;
    /* its own */
    struct cli *cli;
    const char *path;
    const char *cursor; /* of the next page; NULL: there is none */
    struct value_cursor items;
};

/* path: with the size of a page, when it matters. */
struct pages pages_begin(struct cli *cli, const char *path);
bool pages_next(struct pages *p);

#endif

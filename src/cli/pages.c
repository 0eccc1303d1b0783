/* SPDX-License-Identifier: Apache-2.0
 *
 * See pages.h.
 */
#include "cli/pages.h"

struct pages pages_begin(struct cli *cli, const char *path)
{
    return (struct pages){.code = EXIT_CODE_OK, .cli = cli, .path = path, .cursor = ""};
}

static bool page_ask(struct pages *p)
{
    struct arena *arena = &p->cli->arena;
    struct ask ask = {.path = url_parameter(arena, p->path, "cursor", p->cursor), .needs = "items"};

    p->code = cli_ask(p->cli, &ask);
    p->cursor = p->code == EXIT_CODE_OK ? member_text(arena, ask.value, "next") : "";
    if (p->cursor[0] == '\0') p->cursor = NULL;
    p->items = value_begin(value_member(ask.value, "items"));
    return p->code == EXIT_CODE_OK;
}

bool pages_next(struct pages *p)
{
    while (!value_next(&p->items, NULL)) {
        if (p->cursor == NULL || !page_ask(p)) return false;
    }
    p->item = p->items.value;
    return true;
}

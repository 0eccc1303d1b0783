/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and sentences of the statuses; both come from the one table in status.h.
 */
#include "base/status.h"

#include "base/assert.h"

struct status_entry {
    const char *name;
    const char *text;
};

static const struct status_entry entries[] = {
#define X(name, text) {#name, text},
    STATUSES(X)
#undef X
};

static const struct status_entry *status_entry(enum status status)
{
    assert((unsigned)status < sizeof entries / sizeof entries[0]);
    return &entries[status];
}

const char *status_name(enum status status) { return status_entry(status)->name; }

const char *status_text(enum status status) { return status_entry(status)->text; }

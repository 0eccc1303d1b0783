/* SPDX-License-Identifier: Apache-2.0
 *
 * How far something long has come, on the standard error: one line that is drawn again on a
 * terminal, a line every few seconds elsewhere, nothing when it is over soon.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* "purged" */
    uint64_t total;   /* 0: not known */
    bool is_quiet;
    bool is_drawing;
    bool is_drawn;
    int64_t begun_ns;
    int64_t shown_ns;
};

void progress_begin(struct progress *p, const char *what, uint64_t total, bool is_quiet);
void progress_show(struct progress *p, uint64_t n);
/* Removes the line. */
void progress_end(struct progress *p);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * See progress.h.
 */
#include "cli/progress.h"

#include "base/clock.h"
#include "cli/terminal.h"

#include <stdio.h>

#define DRAW_EVERY_NS (100 * NS_PER_MS)
#define LINE_EVERY_NS (5 * NS_PER_S)
#define BAR_WIDTH 30u

void progress_begin(struct progress *p, const char *what, uint64_t total, bool is_quiet)
{
    *p = (struct progress){.what = what, .total = total, .is_quiet = is_quiet};
    p->is_drawing = terminal_can_draw();
    p->begun_ns = clock_mono_ns();
    p->shown_ns = p->begun_ns;
}

static void draw_bar(uint64_t n, uint64_t total)
{
    unsigned filled = n >= total ? BAR_WIDTH : (unsigned)(n * BAR_WIDTH / total);

    (void)fputc('[', stderr);
    for (unsigned at = 0; at < BAR_WIDTH; at++) (void)fputc(at < filled ? '#' : '.', stderr);
    (void)fputs("] ", stderr);
}

void progress_show(struct progress *p, uint64_t n)
{
    int64_t now_ns = clock_mono_ns();
    int64_t every_ns = p->is_drawing ? DRAW_EVERY_NS : LINE_EVERY_NS;
    double elapsed_s = (double)(now_ns - p->begun_ns) / 1e9;

    if (p->is_quiet || now_ns - p->shown_ns < every_ns) return;
    p->shown_ns = now_ns;
    if (p->is_drawing) (void)fputs("\r\033[K", stderr);
    if (p->is_drawing && p->total > 0) draw_bar(n, p->total);
    (void)fprintf(stderr, "%s %llu", p->what, (unsigned long long)n);
    if (p->total > 0) (void)fprintf(stderr, " of %llu", (unsigned long long)p->total);
    if (elapsed_s > 0) (void)fprintf(stderr, ", %.0f/s", (double)n / elapsed_s);
    if (!p->is_drawing) (void)fputc('\n', stderr);
    p->is_drawn = p->is_drawing;
    (void)fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->is_drawn) (void)fputs("\r\033[K", stderr);
    p->is_drawn = false;
}

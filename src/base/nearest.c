/* SPDX-License-Identifier: Apache-2.0
 *
 * See nearest.h.
 */
#include "base/nearest.h"

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

static unsigned smallest(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;

    return least < c ? least : c;
}

unsigned edit_distance(struct bytes a, struct bytes b)
{
    unsigned row[NEAREST_SIZE_MAX + 1];

    if (a.len > NEAREST_SIZE_MAX || b.len > NEAREST_SIZE_MAX) return DISTANCE_FAR;
    for (unsigned n = 0; n <= b.len; n++) row[n] = n;
    for (size_t i = 0; i < a.len; i++) {
        unsigned diagonal = row[0]++;
        for (size_t k = 0; k < b.len; k++) {
            unsigned above = row[k + 1];
            unsigned changed = diagonal + (lower(a.ptr[i]) != lower(b.ptr[k]));
            row[k + 1] = smallest(above + 1, row[k] + 1, changed);
            diagonal = above;
        }
    }
    return row[b.len];
}

void nearest_init(struct nearest *n, struct bytes word)
{
    *n = (struct nearest){.word = word, .distance = (unsigned)(word.len / 3 + 2)};
}

void nearest_offer(struct nearest *n, struct bytes name)
{
    unsigned distance = edit_distance(n->word, name);

    if (distance >= n->distance) return;
    n->distance = distance;
    n->best = name;
}

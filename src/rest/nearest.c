/* SPDX-License-Identifier: Apache-2.0
 *
 * See nearest.h: the number of letters to change, add or leave out, whatever their case.
 */
#include "rest/nearest.h"

#define NAME_SIZE_MAX 40u

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

static unsigned smallest(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;

    return least < c ? least : c;
}

static unsigned distance_of(struct bytes a, struct bytes b)
{
    unsigned row[NAME_SIZE_MAX + 1];

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
    if (word.len > NAME_SIZE_MAX) n->distance = 0;
}

void nearest_offer(struct nearest *n, struct bytes name)
{
    if (name.len > NAME_SIZE_MAX || n->distance == 0) return;
    unsigned distance = distance_of(n->word, name);
    if (distance >= n->distance) return;
    n->distance = distance;
    n->best = name;
}

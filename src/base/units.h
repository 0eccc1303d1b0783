/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts, sizes and durations as people write and read them: "10_000"; "64KiB", "1GiB";
 * "250ms", "10s", "5m", "2h", "7d".
 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include "base/bytes.h"

#define MS_PER_S INT64_C(1000)
#define MS_PER_MINUTE (60 * MS_PER_S)
#define MS_PER_HOUR (60 * MS_PER_MINUTE)
#define MS_PER_DAY (24 * MS_PER_HOUR)

/* Digits, nothing else; single '_' between them are skipped. False, and *out untouched, also when
 * it is too large. The same for all that are parsed here. */
bool count_parse(struct bytes text, uint64_t *out);
/* For protocols: digits, nothing else, and a value of at most max. */
bool decimal_parse(struct bytes text, uint64_t max, uint64_t *out);
/* In bytes; the unit may be left out. */
bool size_parse(struct bytes text, uint64_t *out);
/* The unit must be there: nobody can guess the unit of 10. Never negative. */
bool duration_parse(struct bytes text, int64_t *out_ms);

#define UNITS_SIZE 32 /* of every text made here, with the final NUL */

/* In the largest unit that gives a whole number, so that it reads back: "90s", "36h". */
void duration_format(int64_t ms, char out[static UNITS_SIZE]);
void size_format(uint64_t size, char out[static UNITS_SIZE]);

/* Rounded down, with two units at most: "850ms", "12.3s", "3m12s", "2h05m", "7d4h". */
void duration_describe(int64_t ms, char out[static UNITS_SIZE]);
/* "512 B", "3.4 KiB", "1.2 GiB". */
void size_describe(uint64_t size, char out[static UNITS_SIZE]);

#endif

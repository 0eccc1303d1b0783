/* SPDX-License-Identifier: Apache-2.0
 *
 * Durations and sizes as people write them: "250ms", "10s", "5m", "2h", "7d"; "64KiB", "16MiB",
 * "1GiB", or plain bytes.
 */
#ifndef SERVER_UNITS_H
#define SERVER_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Digits, nothing else; single '_' between them are skipped (10_000). False, and out untouched,
 * also when it is too large. The same for all below. */
bool count_read(const char *text, uint64_t *out);
/* In milliseconds. The unit must be there: nobody can guess the unit of 10. */
bool duration_read(const char *text, uint64_t *out_ms);
/* In bytes. */
bool size_read(const char *text, uint64_t *out);

#endif

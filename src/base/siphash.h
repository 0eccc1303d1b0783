/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash: a keyed hash. SipHash-1-3 for hash tables with keys from outside: half the rounds, and
 * what a table needs, that nobody who does not know the key can make its chains long. SipHash-2-4
 * with 128 bits as the MAC of completion tokens.
 */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include "base/bytes.h"

/* SipHash-1-3. */
uint64_t siphash64(const uint64_t key[2], struct bytes data);
/* SipHash-2-4. */
void siphash128(const uint64_t key[2], struct bytes data, uint8_t out[16]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4: a keyed hash. 64 bits for hash tables with keys from outside, 128 bits as the MAC of
 * completion tokens.
 */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include "base/bytes.h"

uint64_t siphash64(const uint64_t key[2], struct bytes data);
void siphash128(const uint64_t key[2], struct bytes data, uint8_t out[16]);

#endif

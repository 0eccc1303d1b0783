/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C (Castagnoli), with the processor's instruction where it has one.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc: 0 to begin, or the result of the previous part. */
uint32_t crc32c(uint32_t crc, const void *ptr, size_t len);
/* The same by table, on any processor; the tests compare both. */
uint32_t crc32c_portable(uint32_t crc, const void *ptr, size_t len);

#endif

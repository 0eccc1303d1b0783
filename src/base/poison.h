/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells AddressSanitizer which bytes of a block we hand out ourselves may be touched, so that a use
 * after reset is found as surely as a use after free. Nothing in other builds.
 */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_IS_ON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define POISON_IS_ON 1
#endif

#ifdef POISON_IS_ON
#include <sanitizer/asan_interface.h>
#define poison(ptr, len) __asan_poison_memory_region(ptr, len)
#define unpoison(ptr, len) __asan_unpoison_memory_region(ptr, len)
#else
#define poison(ptr, len) ((void)(ptr), (void)(len))
#define unpoison(ptr, len) ((void)(ptr), (void)(len))
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * placeholder
 */
#include "test/lib/test.h"
TEST(x) {}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Task hubs: name spaces of instances. A hub is named by the call's header and exists by being
 * named; it is the first part of every key.
 */
#include "core/limits.h"
#include "server/state.h"

static bool is_hub_character(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

bool call_hub(struct service *s, struct grpc_call *call, struct bytes *hub)
{
    struct bytes name = grpc_header(call, "taskhub");
    bool is_name = name.len <= LIMIT_HUB_SIZE;

    if (name.len == 0) {
        *hub = BYTES_LITERAL("default");
        return true;
    }
    for (size_t n = 0; n < name.len && is_name; n++) is_name = is_hub_character(name.ptr[n]);
    if (!is_name) {
        call_fail(s, call, GRPC_INVALID_ARGUMENT,
                  "the header taskhub is not the name of a task hub: it must have 1 to 64 of "
                  "letters, digits, '-', '_' and '.'");
        return false;
    }
    *hub = name;
    return true;
}

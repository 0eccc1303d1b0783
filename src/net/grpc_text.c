/* SPDX-License-Identifier: Apache-2.0
 *
 * The small texts of the gRPC protocol.
 */
#include "net/state.h"

#include "base/assert.h"
#include "base/clock.h"

#define TIMEOUT_DIGITS_N_MAX 8

static int64_t unit_ns(uint8_t unit)
{
    switch (unit) {
    case 'H': return 3600 * NS_PER_S;
    case 'M': return 60 * NS_PER_S;
    case 'S': return NS_PER_S;
    case 'm': return NS_PER_MS;
    case 'u': return 1000;
    case 'n': return 1;
    default: return 0;
    }
}

bool grpc_parse_timeout(struct bytes value, int64_t *timeout_ns)
{
    if (value.len < 2 || value.len > TIMEOUT_DIGITS_N_MAX + 1) return false;

    int64_t number = 0;
    for (size_t i = 0; i + 1 < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9') return false;
        number = number * 10 + (value.ptr[i] - '0');
    }
    int64_t unit = unit_ns(value.ptr[value.len - 1]);
    if (unit == 0) return false;
    /* 99,999,999 hours do not fit: longer than anybody waits. */
    if (__builtin_mul_overflow(number, unit, timeout_ns)) *timeout_ns = INT64_MAX;
    return true;
}

void grpc_encode_text(const char *text, struct buffer *out)
{
    static const char digits[] = "0123456789ABCDEF";

    for (const char *at = text; *at != 0; at++) {
        uint8_t byte = (uint8_t)*at;
        if (byte >= 0x20 && byte <= 0x7e && byte != '%') {
            buffer_u8(out, byte);
        } else {
            buffer_u8(out, '%');
            buffer_u8(out, (uint8_t)digits[byte >> 4]);
            buffer_u8(out, (uint8_t)digits[byte & 15]);
        }
    }
}

const char *grpc_code_digits(enum grpc_code code)
{
    static const char *const digits[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                         "9", "10", "11", "12", "13", "14", "15", "16"};

    assert((size_t)code < sizeof digits / sizeof digits[0]);
    return digits[code];
}

const char *grpc_code_name(enum grpc_code code)
{
    switch (code) {
    case GRPC_OK: return "OK";
    case GRPC_CANCELLED: return "CANCELLED";
    case GRPC_UNKNOWN: return "UNKNOWN";
    case GRPC_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case GRPC_DEADLINE_EXCEEDED: return "DEADLINE_EXCEEDED";
    case GRPC_NOT_FOUND: return "NOT_FOUND";
    case GRPC_ALREADY_EXISTS: return "ALREADY_EXISTS";
    case GRPC_PERMISSION_DENIED: return "PERMISSION_DENIED";
    case GRPC_RESOURCE_EXHAUSTED: return "RESOURCE_EXHAUSTED";
    case GRPC_FAILED_PRECONDITION: return "FAILED_PRECONDITION";
    case GRPC_ABORTED: return "ABORTED";
    case GRPC_OUT_OF_RANGE: return "OUT_OF_RANGE";
    case GRPC_UNIMPLEMENTED: return "UNIMPLEMENTED";
    case GRPC_INTERNAL: return "INTERNAL";
    case GRPC_UNAVAILABLE: return "UNAVAILABLE";
    case GRPC_DATA_LOSS: return "DATA_LOSS";
    case GRPC_UNAUTHENTICATED: return "UNAUTHENTICATED";
    }
    return "UNKNOWN";
}

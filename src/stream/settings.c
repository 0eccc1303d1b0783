/* SPDX-License-Identifier: Apache-2.0
 *
 * See settings.h.
 */
#include "stream/settings.h"

#include "base/assert.h"

#include <stdio.h>

#define TEXT_SIZE 160

void stream_settings_init(struct stream_settings *settings)
{
    *settings = (struct stream_settings){
        .partitions_n = 1,
        .deliveries_max = 10,
        .lock_ms = 30000,
        .hub = "default",
    };
}

static const char *what_is_wrong(const struct stream_settings *s, uint32_t partitions_n_before)
{
    if (s->partitions_n < 1 || s->partitions_n > STREAM_PARTITIONS_N_MAX) {
        return "a stream has 1 to 1024 partitions";
    }
    if (s->partitions_n < partitions_n_before) return "partitions cannot become fewer";
    if (s->retention_ms < 0) return "the retention cannot be negative";
    if (s->deliveries_max < 1 || s->deliveries_max > STREAM_DELIVERIES_MAX) {
        return "maxDeliveries is 1 to 1000";
    }
    if (s->lock_ms < 1 || s->lock_ms > STREAM_LOCK_MS_MAX) return "a lock is 1ms to 24h";
    if (!bytes_is_utf8(bytes_of_text(s->workflow))) return "the workflow's name is not UTF-8";
    if (!stream_name_is_valid(bytes_of_text(s->hub))) return "this cannot be a hub's name";
    return NULL;
}

enum status stream_settings_change(struct stream_settings *settings,
                                   const struct stream_settings *wish, uint32_t mask, char *text)
{
    struct stream_settings new = *settings;

    if ((mask & STREAM_SET_PARTITIONS) != 0) new.partitions_n = wish->partitions_n;
    if ((mask & STREAM_SET_RETENTION) != 0) new.retention_ms = wish->retention_ms;
    if ((mask & STREAM_SET_RETENTION_SIZE) != 0) new.retention_size = wish->retention_size;
    if ((mask & STREAM_SET_DELIVERIES) != 0) new.deliveries_max = wish->deliveries_max;
    if ((mask & STREAM_SET_LOCK) != 0) new.lock_ms = wish->lock_ms;
    if ((mask & STREAM_SET_WORKFLOW) != 0)
        memcpy(new.workflow, wish->workflow, sizeof new.workflow);
    if ((mask & STREAM_SET_HUB) != 0) memcpy(new.hub, wish->hub, sizeof new.hub);
    const char *wrong = what_is_wrong(&new, settings->partitions_n);
    if (wrong != NULL) {
        (void)snprintf(text, TEXT_SIZE, "%s", wrong);
        return E_INVALID;
    }
    *settings = new;
    return OK;
}

void stream_settings_write(struct buffer *to, const struct stream_settings *s)
{
    buffer_varint(to, s->partitions_n);
    buffer_varint(to, (uint64_t)s->retention_ms);
    buffer_varint(to, s->retention_size);
    buffer_varint(to, s->deliveries_max);
    buffer_varint(to, (uint64_t)s->lock_ms);
    buffer_bytes(to, bytes_of_text(s->workflow));
    buffer_bytes(to, bytes_of_text(s->hub));
}

/* A text of at most size-1 bytes without NUL. */
static bool read_text(struct reader *from, char *to, size_t size)
{
    struct bytes text = reader_bytes(from);

    if (text.len >= size || (text.len > 0 && memchr(text.ptr, 0, text.len) != NULL)) return false;
    if (text.len > 0) memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
    return true;
}

bool stream_settings_read(struct reader *from, struct stream_settings *out)
{
    struct stream_settings s = {0};

    s.partitions_n = (uint32_t)reader_varint(from);
    s.retention_ms = (int64_t)reader_varint(from);
    s.retention_size = reader_varint(from);
    s.deliveries_max = (uint32_t)reader_varint(from);
    s.lock_ms = (int64_t)reader_varint(from);
    if (!read_text(from, s.workflow, sizeof s.workflow)) return false;
    if (!read_text(from, s.hub, sizeof s.hub)) return false;
    if (from->failed || what_is_wrong(&s, 1) != NULL) return false;
    *out = s;
    return true;
}

static bool is_alphanumeric(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool stream_name_is_valid(struct bytes name)
{
    if (name.len < 1 || name.len > STREAM_NAME_SIZE_MAX) return false;
    if (!is_alphanumeric(name.ptr[0])) return false;
    for (size_t i = 1; i < name.len; i++) {
        uint8_t c = name.ptr[i];
        if (!is_alphanumeric(c) && c != '.' && c != '_' && c != '-') return false;
    }
    return true;
}

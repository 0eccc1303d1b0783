/* SPDX-License-Identifier: Apache-2.0
 *
 * An instance as clients see it: the engine's view becomes OrchestrationState or EntityMetadata.
 * Runs on the host's thread, while the view is there, and writes each byte once.
 */
#include "server/state.h"

#include "base/moment.h"

#define NS_PER_MS 1000000

/* What a state has beside its texts. */
#define STATE_SIZE_ABOUT 160

static size_t size_about(const struct instance_view *view, bool with_payloads)
{
    size_t size = STATE_SIZE_ABOUT + view->key.len + view->name.len + view->failure.value.len +
                  view->tags.len + view->parent_id.len;

    if (!with_payloads) return size;
    return size + view->input.value.len + view->output.value.len + view->custom_status.value.len;
}

static void put_maybe(struct buffer *out, uint32_t number, struct maybe value)
{
    pb_put_string_value(out, number, value.value, value.has);
}

static void put_execution_id(struct buffer *out, uint32_t number, const uint8_t *id)
{
    static const uint8_t none[EXECUTION_ID_SIZE] = {0};
    char text[EXECUTION_TEXT_SIZE];

    if (memcmp(id, none, sizeof none) == 0) return; /* a list does not know it */
    execution_id_text(id, text);
    pb_put_string_value(out, number, bytes_make(text, sizeof text), true);
}

void view_write_state(struct buffer *out, uint32_t number, const struct instance_view *view,
                      bool with_payloads)
{
    struct pb_mark mark = pb_begin(out, number, size_about(view, with_payloads));

    pb_put_plain_bytes(out, 1, key_id(view->key));
    pb_put_plain_bytes(out, 2, view->name);
    put_maybe(out, 3, view->version);
    pb_put_plain_varint(out, 4, (uint64_t)view->status);
    if (view->scheduled_ms != 0) { /* by way of seconds: nanoseconds end in 2262 */
        struct moment at = moment_of_ms(view->scheduled_ms);
        pb_put_timestamp_parts(out, 5, at.seconds, at.nanos);
    }
    /* Some clients read these two without looking whether they are there. */
    pb_put_timestamp(out, 6, view->created_ns);
    pb_put_timestamp(out, 7, view->updated_ns);
    if (with_payloads) {
        put_maybe(out, 8, view->input);
        put_maybe(out, 9, view->output);
        put_maybe(out, 10, view->custom_status);
    }
    /* Whoever asks without payloads still wants to know why it failed. */
    if (view->failure.has) pb_put_bytes(out, 11, view->failure.value);
    put_execution_id(out, 12, view->execution_id);
    if (view->is_terminal) pb_put_timestamp(out, 13, view->completed_ns);
    pb_put_string_value(out, 14, view->parent_id, view->parent_id.len > 0);
    struct reader tags = reader_make(view->tags);
    struct bytes tag;
    while (strings_next(&tags, &tag)) pb_put_bytes(out, 15, tag);
    pb_end(out, mark);
}

void view_write_entity(struct buffer *out, uint32_t number, const struct instance_view *view,
                       bool with_state)
{
    size_t state_size = with_state ? view->entity_state.value.len : 0;
    struct pb_mark mark = pb_begin(out, number, 64 + view->key.len + state_size);

    pb_put_plain_bytes(out, 1, key_id(view->key));
    pb_put_timestamp(out, 2, view->updated_ns);
    pb_put_plain_int32(out, 3, (int32_t)view->backlog_n);
    pb_put_string_value(out, 4, view->locked_by, view->locked_by.len > 0);
    if (with_state) put_maybe(out, 5, view->entity_state);
    pb_end(out, mark);
}

void encode_get_instance(struct errand *errand)
{
    const struct instance_view *view = errand->request.view;

    if (errand->request.status != OK || view == NULL) return; /* exists = false is no bytes */
    size_t size = size_about(view, errand->flag) + 16;
    if (!buffer_reserve(&errand->reply, size)) return;
    pb_put_varint(&errand->reply, 1, 1);
    view_write_state(&errand->reply, 2, view, errand->flag);
}

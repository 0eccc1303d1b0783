/* SPDX-License-Identifier: Apache-2.0
 *
 * The two forms of an instance that is not being worked on: the core's view and the archive's row,
 * and what a filter means for them. One function makes the searchable text of a row, and the same
 * text is what a filter is compared with in memory: so a list does not depend on where an instance
 * happens to be.
 */
#ifndef HOST_ROWS_H
#define HOST_ROWS_H

#include "core/core.h"
#include "store/archive.h"

#define ROW_ERROR_SIZE_MAX 256 /* of the error text that can be searched */

/* What the archive keeps beside the snapshot, which the caller sets. Bytes in arena, but for hub
 * and id, which borrow from the view's key. E_NOMEM. */
enum status row_of_view(const struct instance_view *view, uint32_t partition, struct arena *arena,
                        struct archive_row *out);
/* As much as a row without its snapshot tells: no payloads, version, tags or execution id, and
 * times in whole milliseconds. Key in arena, the rest borrowed from row. E_NOMEM. */
enum status view_of_row(const struct archive_row *row, struct arena *arena,
                        struct instance_view *out);
/* All of the view's bytes in arena. Without payloads: input, output and custom status are absent.
 * E_NOMEM. */
enum status view_copy(const struct instance_view *view, bool with_payloads, struct arena *arena,
                      struct instance_view *out);
/* As the archive would decide, the position included; an instance that was purged matches
 * nothing. */
bool view_matches(const struct instance_view *view, const struct archive_query *query);
/* The time that a list is ordered by. */
int64_t view_time_ms(const struct instance_view *view, bool by_completion);

/* The key of a row, in arena; empty without memory. */
struct bytes row_key(struct bytes hub, struct bytes id, struct arena *arena);
/* hub '/' id, neither of them empty. */
bool key_is_complete(struct bytes key);
/* As in the filter of what the archive has. The key must be valid. */
uint64_t key_hash(struct bytes key);

#endif

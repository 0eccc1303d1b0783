/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of the streams, copied while it is held (streams_hold()): snapshot and segments as
 * they are, and the frames behind the snapshot. Segments may have more than the snapshot knows, as
 * after a crash: recovery takes that from the frames.
 */
#include "stream/segment.h"
#include "stream/state.h"

#include "store/copy.h"

#define ROOT "streams"

static enum status copy_snapshot(struct copy *c)
{
    enum status status = copy_file(c, ROOT "/" STREAM_SNAPSHOT_PATH);

    if (status != E_NOT_FOUND) return status;
    c->failed[0] = '\0'; /* there is none yet */
    return OK;
}

static enum status copy_segments(struct copy *c)
{
    enum status status = copy_directory(c, ROOT "/" STREAM_SEGMENT_DIRECTORY);

    if (status == OK) status = copy_files(c, ROOT "/" STREAM_SEGMENT_DIRECTORY, "");
    if (status == OK) status = copy_synced(c, ROOT "/" STREAM_SEGMENT_DIRECTORY);
    return status;
}

enum status streams_copy(struct copy *c, uint64_t lsn)
{
    enum status status = copy_directory(c, ROOT);

    if (status == OK) status = copy_snapshot(c);
    if (status == OK) status = copy_segments(c);
    if (status == OK) status = copy_journal(c, ROOT "/journal", lsn);
    if (status == OK) status = copy_synced(c, ROOT);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys: from the 64-bit hash of hub and id to the row. The hash alone does not decide: the row is
 * compared.
 *
 * The keys are the only thing that arrives in random order, and a B-tree of millions of them has
 * far more pages than a batch has keys: written directly, every key would write a page of 4 KiB,
 * three times (WAL, checkpoint, and its share of splits). So new keys go to keys_recent, which is
 * small enough that a batch meets the same pages again, and leave it for keys in the order of their
 * hashes, one slice of the range of hashes after the other, round and round. A slice is as large as
 * what came in, hence the work per row is constant, there is no long merge, and about
 * (keys per page / ARCHIVE_KEYS_RECENT_DIVISOR) = 7 keys share each page written.
 *
 * Measured on a prototype (rows and indexes without snapshots, keys_recent emptied all at once and
 * not by slices): while growing to 10 million rows 9 µs each instead of 13, in the last million 12
 * instead of 15; at 1 million with batches of 2,000, 8 instead of 13.
 */
#include "store/archive_sqlite.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdlib.h>

#define SIGN_BIT ((uint64_t)1 << 63)

/* SQLite's integers are signed. The rank is the place of a hash in its order, from 0 on. */
static int64_t integer_of_hash(uint64_t hash) { return (int64_t)hash; }
static int64_t integer_of_rank(uint64_t rank) { return (int64_t)(rank ^ SIGN_BIT); }

static int compare_entries(const void *left, const void *right)
{
    const struct archive_key_entry *a = left;
    const struct archive_key_entry *b = right;
    int64_t hash_a = integer_of_hash(a->hash);
    int64_t hash_b = integer_of_hash(b->hash);

    if (hash_a != hash_b) return hash_a < hash_b ? -1 : 1;
    assert(a == b || a->seq != b->seq);
    return a->seq < b->seq ? -1 : 1;
}

static enum status move_slice(struct archive_writer *w, uint64_t from_rank, uint64_t to_rank)
{
    struct db *db = &w->db;

    assert(from_rank <= to_rank);
    assert(!sqlite3_get_autocommit(db->connection)); /* copy and cut happen together */
    db_bind_integer(db, WRITER_KEYS_COPY, 1, integer_of_rank(from_rank));
    db_bind_integer(db, WRITER_KEYS_COPY, 2, integer_of_rank(to_rank));
    enum status status = db_run(db, WRITER_KEYS_COPY);
    if (status != OK) return status;
    int64_t copied_n = sqlite3_changes64(db->connection);

    db_bind_integer(db, WRITER_KEYS_CUT, 1, integer_of_rank(from_rank));
    db_bind_integer(db, WRITER_KEYS_CUT, 2, integer_of_rank(to_rank));
    status = db_run(db, WRITER_KEYS_CUT);
    if (status != OK) return status;
    int64_t moved_n = sqlite3_changes64(db->connection);
    assert(moved_n >= 0);
    if (moved_n != copied_n || (uint64_t)moved_n > w->counts.keys_recent)
        return db_damaged(db, "table keys_recent: %" PRId64 " keys copied, %" PRId64 " removed",
                          copied_n, moved_n);
    w->counts.keys_recent -= (uint64_t)moved_n;
    return OK;
}

static enum status drain(struct archive_writer *w)
{
    uint64_t limit = w->counts.rows / ARCHIVE_KEYS_RECENT_DIVISOR;
    uint64_t recent_n = w->counts.keys_recent;

    if (limit < w->keys_recent_min) limit = w->keys_recent_min;
    if (recent_n <= limit) return OK;

    /* Hashes are spread evenly: that share of their range holds about that many. */
    assert(limit > 0); /* so that a slice is less than everything */
    uint64_t width = UINT64_MAX / recent_n * (recent_n - limit);
    uint64_t from = w->drain_from;
    uint64_t to = from > UINT64_MAX - width ? UINT64_MAX : from + width;
    assert(width > 0);
    enum status status = move_slice(w, from, to);
    if (status == OK) w->drain_from = to == UINT64_MAX ? 0 : to + 1;
    return status;
}

enum status archive_keys_add(struct archive_writer *w, struct archive_key_entry *entries, size_t n)
{
    assert(n == 0 || entries != NULL);
    if (n > 0) qsort(entries, n, sizeof *entries, compare_entries);
    for (size_t i = 0; i < n;) {
        size_t some_n = n - i < ARCHIVE_MANY_N ? 1 : ARCHIVE_MANY_N;
        int to = some_n == 1 ? WRITER_KEY_ADD : WRITER_KEY_ADD_MANY;
        for (size_t k = 0; k < some_n; k++, i++) {
            assert(entries[i].seq > 0);
            assert(i == 0 || compare_entries(&entries[i - 1], &entries[i]) < 0);
            db_bind_integer(&w->db, to, 2 * (int)k + 1, integer_of_hash(entries[i].hash));
            db_bind_integer(&w->db, to, 2 * (int)k + 2, entries[i].seq);
        }
        enum status status = db_run(&w->db, to);
        if (status != OK) return status;
    }
    w->counts.keys_recent += n;
    return drain(w);
}

/* *is_removed: whether it was in this table. */
static enum status remove_from(struct archive_writer *w, int statement,
                               struct archive_key_entry entry, bool *is_removed)
{
    assert(entry.seq > 0);
    db_bind_integer(&w->db, statement, 1, integer_of_hash(entry.hash));
    db_bind_integer(&w->db, statement, 2, entry.seq);
    enum status status = db_run(&w->db, statement);
    if (status != OK) return status;
    *is_removed = db_has_changed_one(&w->db);
    return OK;
}

enum status archive_keys_remove(struct archive_writer *w, struct archive_key_entry entry)
{
    bool is_removed = false;

    enum status status = remove_from(w, WRITER_KEY_REMOVE_RECENT, entry, &is_removed);
    if (status != OK) return status;
    if (is_removed) {
        if (w->counts.keys_recent == 0)
            return db_damaged(&w->db, "table keys_recent: there are more keys than were counted");
        w->counts.keys_recent--;
        return OK;
    }
    status = remove_from(w, WRITER_KEY_REMOVE, entry, &is_removed);
    if (status != OK || is_removed) return status;
    return db_damaged(&w->db, "tables keys, keys_recent: the key of row %" PRId64 " is missing",
                      entry.seq);
}

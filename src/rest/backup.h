/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/backup: one backup at a time, made by a thread of its own.
 */
#ifndef REST_BACKUP_H
#define REST_BACKUP_H

struct backups;
struct rest;

/* NULL without memory. */
struct backups *backups_new(struct rest *r);
void backups_free(struct backups *b);
/* The bell was rung: answers when it is done. */
void backups_collect(struct backups *b);
/* Gives up the one being made, soon. */
void backups_cancel(struct backups *b);
/* The same, and waits for it. */
void backups_join(struct backups *b);
bool backups_are_quiet(const struct backups *b);

#endif

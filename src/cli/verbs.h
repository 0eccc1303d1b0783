/* SPDX-License-Identifier: Apache-2.0
 *
 * The client commands: what can be asked of a server, and of the command line itself.
 */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "cli/command.h"

/* Ended by a zeroed entry, as both tables. */
extern const struct command client_commands[];
/* The names people know from `func durable`, each another name of a client command. */
extern const struct command durable_commands[];

/* A command is run with the words behind its name, and answers its exit code. */
typedef int verb_fn(const struct command *command, int argc, char **argv);

verb_fn verb_start;
verb_fn verb_run;
verb_fn verb_result;
verb_fn verb_batch_start;
verb_fn verb_list;
verb_fn verb_count;
verb_fn verb_show;
verb_fn verb_why;
verb_fn verb_history;
verb_fn verb_trace;
verb_fn verb_events;
verb_fn verb_raise;
verb_fn verb_suspend;
verb_fn verb_resume;
verb_fn verb_terminate;
verb_fn verb_rewind;
verb_fn verb_restart;
verb_fn verb_resubmit;
verb_fn verb_purge;
verb_fn verb_batch_terminate;
verb_fn verb_batch_suspend;
verb_fn verb_batch_resume;
verb_fn verb_batch_rewind;
verb_fn verb_batch_restart;
verb_fn verb_batch_purge;
verb_fn verb_stream_list;
verb_fn verb_stream_show;
verb_fn verb_stream_create;
verb_fn verb_stream_delete;
verb_fn verb_stream_append;
verb_fn verb_stream_read;
verb_fn verb_stream_groups;
verb_fn verb_stream_checkpoint;
verb_fn verb_stream_seek;
verb_fn verb_queue_receive;
verb_fn verb_queue_complete;
verb_fn verb_queue_abandon;
verb_fn verb_queue_renew;
verb_fn verb_queue_dead_letter;
verb_fn verb_dead_letter_list;
verb_fn verb_dead_letter_show;
verb_fn verb_dead_letter_edit;
verb_fn verb_dead_letter_resubmit;
verb_fn verb_dead_letter_discard;
verb_fn verb_top;
verb_fn verb_alerts;
verb_fn verb_worker_list;
verb_fn verb_entity_list;
verb_fn verb_entity_show;
verb_fn verb_entity_signal;
verb_fn verb_backup;
verb_fn verb_export;
verb_fn verb_import;
verb_fn verb_doctor;
verb_fn verb_context_list;
verb_fn verb_context_add;
verb_fn verb_context_use;
verb_fn verb_context_remove;
verb_fn verb_context_show;
verb_fn verb_version;

#endif

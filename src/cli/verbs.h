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

verb_fn start_run;
verb_fn run_run;
verb_fn result_run;
verb_fn batch_start_run;
verb_fn list_run;
verb_fn count_run;
verb_fn show_run;
verb_fn why_run;
verb_fn history_run;
verb_fn trace_run;
verb_fn events_run;
verb_fn raise_run;
verb_fn suspend_run;
verb_fn resume_run;
verb_fn terminate_run;
verb_fn rewind_run;
verb_fn restart_run;
verb_fn resubmit_run;
verb_fn purge_run;
verb_fn batch_terminate_run;
verb_fn batch_suspend_run;
verb_fn batch_resume_run;
verb_fn batch_rewind_run;
verb_fn batch_restart_run;
verb_fn batch_purge_run;
verb_fn stream_list_run;
verb_fn stream_show_run;
verb_fn stream_create_run;
verb_fn stream_delete_run;
verb_fn stream_append_run;
verb_fn stream_read_run;
verb_fn stream_groups_run;
verb_fn stream_checkpoint_run;
verb_fn stream_seek_run;
verb_fn queue_receive_run;
verb_fn queue_complete_run;
verb_fn queue_abandon_run;
verb_fn queue_renew_run;
verb_fn queue_dead_letter_run;
verb_fn dead_letter_list_run;
verb_fn dead_letter_show_run;
verb_fn dead_letter_edit_run;
verb_fn dead_letter_resubmit_run;
verb_fn dead_letter_discard_run;
verb_fn top_run;
verb_fn alerts_run;
verb_fn worker_list_run;
verb_fn entity_list_run;
verb_fn entity_show_run;
verb_fn entity_signal_run;
verb_fn backup_run;
verb_fn export_run;
verb_fn doctor_run;
verb_fn context_list_run;
verb_fn context_add_run;
verb_fn context_use_run;
verb_fn context_remove_run;
verb_fn context_show_run;
verb_fn version_run;

#endif

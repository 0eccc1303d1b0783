/* SPDX-License-Identifier: Apache-2.0
 *
 * Events as text, one line each, for tests to compare:
 *
 *      <row> <event>[ #<event id, when it is of an action>][ of #<answered id>][ <what it says>]
 *
 *      1 OrchestratorStarted
 *      2 ExecutionStarted ship "x"
 *      3 TimerCreated #1 at 1700000003500
 *      4 TaskCompleted of #2 "done"
 */
#ifndef TEST_LIB_HISTORY_TEXT_H
#define TEST_LIB_HISTORY_TEXT_H

#include "base/bytes.h"

/* packed: strings of events. Appended. */
void history_text(struct buffer *out, struct bytes packed);

#endif

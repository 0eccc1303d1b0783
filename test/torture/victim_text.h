/* SPDX-License-Identifier: Apache-2.0
 *
 * What the victim and its driver say to each other: lines, by two pipes.
 *
 * To the victim. The slot is the driver's number for the command; the end of the pipe asks to
 * close.
 *
 *      <slot> start <id> <program> <size> <input>   input filled up to size, see payload_fill()
 *      <slot> raise <id> <number>
 *      <slot> terminate <id> <output>
 *      <slot> purge <id>                            with its children
 *      <slot> wait <id>                             until it has ended
 *      <slot> history <id>
 *      <slot> list -
 *
 * From the victim:
 *
 *      ready <process id>                           once
 *      closed <status> <text>                       instead: the engine could not be opened
 *      <slot> <status> [<rest>]                     one for each command that it lives to answer;
 *                                                   of wait: "gone", or <state>;
 *                                                   of history: <kind>:<id>:<ref> for each event
 *      + <id> <parent or -> <state>                 a row; before the answer of list
 *      ! <text>                                     something that must never be
 *
 *      <state>: <execution> <status of the instance> <output, see brief()>
 */
#ifndef TEST_TORTURE_VICTIM_TEXT_H
#define TEST_TORTURE_VICTIM_TEXT_H

#include "base/bytes.h"

#include <stdint.h>

#define VICTIM_HUB "torture"
#define VICTIM_LINE_MAX 8192

/* The input of the instance id: text, and then letters up to size, which follow from the id and do
 * not compress well. out has room for the longer of both; answers how long it is. */
size_t payload_fill(char *out, const char *id, const char *text, size_t size);

/* An output as one short word or sentence: itself, or its size and checksum when it is long. */
#define BRIEF_SIZE 128
void brief(struct bytes value, char out[BRIEF_SIZE]);

/* The next word of *at, ended by a NUL; "" when there is none. */
char *word_next(char **at);
/* The number that word is; false when it is none. */
bool word_number(const char *word, uint64_t *out);

#endif

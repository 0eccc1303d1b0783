/* SPDX-License-Identifier: Apache-2.0
 *
 * What the victim and its driver say to each other, one line each way at a time, by two pipes:
 *
 *      to the victim     <slot> start <id> <program> <size> <input>   input filled up to size, see payload_fill()
 *                        <slot> raise <id> <number>
 *                        <slot> terminate <id> <output>
 *                        <slot> purge <id>                            with its children
 *                        <slot> wait <id>                             until it has ended
 *                        <slot> history <id>
 *                        <slot> list -
 *      from the victim   ready <process id>                           once
 *                        <slot> <status> [<rest>]                     exactly one for each command it lives to answer
 *                          rest of wait: gone | <execution> <status of the instance> <output, see brief()>
 *                          rest of history: <kind>:<id>:<ref> for each event
 *                        + <id> <parent or -> <execution> <status of the instance> <output>   a row, before list's answer
 *                        closed <status> <text>                       the engine could not be opened
 *                        ! <text>                                     something that must never be
 *
 * The slot is the driver's number for the command. The end of the pipe asks the victim to close.
 */
#ifndef TEST_TORTURE_VICTIM_TEXT_H
#define TEST_TORTURE_VICTIM_TEXT_H

#include "base/bytes.h"

#include <stdint.h>

#define VICTIM_HUB "torture"
#define VICTIM_LINE_MAX 8192

/* The input of a program: text, and then letters up to size. out has room for the longer of both; answers how
 * long it is. */
size_t payload_fill(char *out, const char *text, size_t size);

/* An output as one short word or sentence: itself, or its size and checksum when it is long. */
#define BRIEF_SIZE 128
void brief(struct bytes value, char out[BRIEF_SIZE]);

/* The next word of *at, ended by a NUL; "" when there is none. */
char *word_next(char **at);
/* The number that word is; false when it is none. */
bool word_number(const char *word, uint64_t *out);

#endif

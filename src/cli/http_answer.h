/* SPDX-License-Identifier: Apache-2.0
 *
 * How an HTTP/1.1 answer is read from a connection: its head, then its body by length, by chunks or
 * until the end of the connection. Between http_client.c and http_answer.c only.
 */
#ifndef CLI_HTTP_ANSWER_H
#define CLI_HTTP_ANSWER_H

#include "cli/http_client.h"

/* Receives more into c->in, until the deadline. *is_end: the peer has closed. */
enum status http_client_receive(struct http_client *c, bool *is_end);

/* Statuses of all as of http_client_call(). Interim answers (1xx) are passed over. */
enum status http_answer_head(struct http_client *c, struct http_reply *out);
enum status http_answer_part(struct http_client *c, struct buffer *out, bool *is_end);
/* Borrowed until the next call of the client. */
enum status http_answer_whole(struct http_client *c, struct bytes *out);

#endif

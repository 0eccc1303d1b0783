/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP API in one process, without sockets: the server of served.h with its engine and worker,
 * the API, and HTTP/1.1 connections whose bytes go from hand to hand.
 */
#ifndef TEST_LIB_RESTED_H
#define TEST_LIB_RESTED_H

#include "rest/rest.h"
#include "server/vitals.h"
#include "test/lib/served.h"

#define RESTED_LINES_MAX 8
#define RESTED_PEER "192.0.2.7:40112" /* of every line */

/* One connection, and the answer that is coming on it. */
struct line {
    struct rested *rested;
    struct conn *conn;
    struct buffer in;
    unsigned status; /* of the last answer; 0 = none yet */
    struct buffer head;
    struct buffer body; /* without its chunks; ends with a NUL that is not counted */
    bool is_deaf;       /* reads nothing */
    bool is_over;       /* the answer is complete */
    bool is_cut;        /* the connection ended in the middle of it */
    bool is_to_head;    /* an answer to HEAD has no body */
};

struct rested {
    struct served served;
    struct mem mem; /* of the API */
    uint32_t shards_n;
    struct vitals *vitals;
    struct rest *rest;
    struct front_options options;
    struct http_service pages;
    unsigned pages_n; /* requests that the pages got */
    struct line lines[RESTED_LINES_MAX];
    unsigned lines_n;
    bool is_stranger; /* lines made from now on come from another machine */
};

void rested_init(struct rested *r);
/* Options of `served` and `options` may be changed between init and open. */
void rested_open(struct rested *r, const char *directory, bool has_worker);
/* A new API on the same engine, without connections. Expects that the old one leaves no memory. */
void rested_renew(struct rested *r);
/* Expects that no memory is left. */
void rested_close(struct rested *r);
void rested_turn(struct rested *r);
void rested_advance_ms(struct rested *r, int64_t ms);

struct line *rested_line(struct rested *r);
/* The peer goes away. */
void rested_hang_up(struct line *line);
/* Sends a request; headers as lines with CRLF, or NULL. body NULL = none. A JSON content type is
 * sent with a body when headers are NULL. */
void rested_send(struct line *line, const char *method, const char *path, const char *headers,
                 const char *body);
/* Until the answer is there; the test fails after 20 s. Answers its status. */
unsigned rested_await(struct line *line);
/* The same while time passes, so that waits end too. */
unsigned rested_await_long(struct line *line);
unsigned rested_ask(struct line *line, const char *method, const char *path, const char *headers,
                    const char *body);
/* Of the last answer. */
const char *line_body(const struct line *line);
bool line_has(const struct line *line, const char *part);
bool line_has_header(const struct line *line, const char *field);
/* The text value of a key in the body, the first there is; into out, of 256 bytes. */
bool line_value(const struct line *line, const char *key, char *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instances: the filters that lists, counts and purges have in common, from a query or from a
 * body.
 */
#ifndef REST_FILTERS_H
#define REST_FILTERS_H

#include "rest/state.h"

/* name */
#define FILTERS(X)                                                                                 \
    X(status)                                                                                      \
    X(name)                                                                                        \
    X(idPrefix)                                                                                    \
    X(from)                                                                                        \
    X(to)                                                                                          \
    X(completedFrom)                                                                               \
    X(completedTo)                                                                                 \
    X(tag)                                                                                         \
    X(error)                                                                                       \
    X(parked)

enum filter {
#define X(name) FILTER_##name,
    FILTERS(X)
#undef X
        FILTERS_N
};
/* For a route's parameters: "status name ... " */
#define FILTER_WORD(name) #name " "
#define FILTER_PARAMETERS FILTERS(FILTER_WORD)

/* The nth filter's name. */
const char *filter_name(enum filter filter);
/* Copies and reads them into the query, the hub included; texts in the errand's arena. False:
 * answered, the errand is still there. */
bool filters_read(struct errand *errand, const struct maybe values[FILTERS_N],
                  struct request_query *query);
/* From the ask's query. */
bool filters_read_parameters(struct errand *errand, struct request_query *query);

/* Counts what matches, page by page: each is one turn of the engine and of the loop. The errand is
 * a QUERY with its filters set; `counted` is called with it at the end. Takes the errand over. */
#define COUNT_SAMPLE_N 10
struct counting {
    uint64_t n;
    uint64_t limit;
    bool is_exact;
    struct buffer sample; /* strings: the first ids, when wants_sample; of the errand's mem */
    bool wants_sample;
    void (*counted)(struct errand *errand, struct counting *counting); /* ends the errand */
    uint8_t after_id[256];                                             /* where the next begins */
    size_t after_size;
    int64_t after_ms;
    bool has_more;
};
void count_matches(struct errand *errand, uint64_t limit, bool wants_sample,
                   void (*counted)(struct errand *errand, struct counting *counting));

#endif

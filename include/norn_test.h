/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of your orchestrators: the real engine and the real run time, in memory, on one thread,
 * under a clock that moves only when you move it.
 *
 *      norn_test *test;
 *      norn_test_new(&test);
 *      my_register(norn_test_worker(test));                        what your worker registers
 *      norn_test_activity(test, "Charge", replies, 2);             Charge fails once, then answers
 *      norn_test_run(test, "Order", norn_text("7"), &info);        until it ends or waits
 *      norn_test_skip(test, 3600 * 1000, &info);                   an hour later
 *      assert(info->state == NORN_COMPLETED);
 *      assert(strcmp(norn_test_calls(test), "call Charge 7\n"
 *                                           "timer 1000\n"
 *                                           "call Charge 7\n") == 0);
 *      norn_test_free(test);
 *
 * Nothing here waits or sleeps, and nothing depends on chance: the same test does the same again,
 * execution ids and norn_random() included.
 *
 * Orchestrators, their children and entities run for real. An activity answers as it was told to,
 * or is the function that was registered; it runs on the thread of the test. norn_now() is the
 * test's clock everywhere.
 *
 * A test belongs to one thread. After NORN_E_NOMEM it is good for norn_test_free() only. The other
 * rules are those of norn.h.
 */
#ifndef NORN_TEST_H
#define NORN_TEST_H

#include "norn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct norn_test norn_test;

/* NORN_E_NOMEM. */
NORN_API norn_status norn_test_new(norn_test **test);
/* NULL is fine. */
NORN_API void norn_test_free(norn_test *test);

/* To register with: norn_orchestrator(), norn_activity_add(), norn_entity_add(). At any time
 * between the other calls. It belongs to the test: it is neither started nor closed. */
NORN_API norn_worker *norn_test_worker(norn_test *test);

/* For all else that a client can: norn_start(), norn_get() (of an entity too), norn_control(),
 * norn_list(), norn_history() ... Each has done its work when it returns. A norn_get() that waits
 * moves the clock: until the instance has ended, or by its timeout. The client belongs to the test
 * and is not closed. */
NORN_API norn_client *norn_test_client(norn_test *test);

/* How an activity answers one call. */
struct norn_test_reply {
    struct norn_bytes output;
    const char *failure_type;    /* not NULL: it fails, with this type */
    const char *failure_message; /* NULL = "" */
    bool is_final;               /* no retry policy repeats it */
    norn_activity_fn *fn;        /* not NULL: it is asked instead of all above */
    void *user;                  /* of fn */
    int64_t delay_ms;            /* so long it takes; < 0: for ever, it never answers */
};

/* The activity answers its first call with the first of these, its second with the second, and so
 * on; with the last one for ever. Copied. Goes before a function that was registered under that
 * name, and replaces what was said before. n > 0. NORN_E_INVALID. */
NORN_API norn_status norn_test_activity(norn_test *test, const char *name,
                                        const struct norn_test_reply *replies, size_t n);

/* What the engine does about activities that fail or are late, as norn_engine_options.policies has
 * it for a real one; replaces what was said before. Its delays are exact here, to the millisecond
 * (a real engine spreads them a little). A try that the engine makes is another call for
 * norn_test_activity(), but not for norn_test_calls(): no orchestrator asked for it. norn_steps()
 * shows what waits for what. Copied; n 0: those of an engine that was told nothing.
 * NORN_E_INVALID. */
NORN_API norn_status norn_test_policies(norn_test *test, const struct norn_policy *policies,
                                        size_t n);

/* The three below go on until nothing can happen at this time any more. They answer NORN_OK
 * whatever became of the instance: info (may be NULL) tells, which is the test's until its next
 * call.
 *      NORN_E_NOT_FOUND   something was called that is neither registered nor told how to answer
 *      NORN_E_LIMIT       it went on and on without coming to rest
 * and norn_test_error() says what. */

/* Starts an instance ("test-1", "test-2", ...), which is the one that info is about from now on. */
NORN_API norn_status norn_test_run(norn_test *test, const char *name, struct norn_bytes input,
                                   const struct norn_info **info);
/* Moves the clock, and lets all that is due on the way happen at its time. A timer fires, as in
 * every engine, in the millisecond after its time; the clock goes that much further when one
 * does. */
NORN_API norn_status norn_test_skip(norn_test *test, int64_t ms, const struct norn_info **info);
/* An event for the instance of the last norn_test_run(). NORN_E_PRECONDITION: there is none. */
NORN_API norn_status norn_test_raise(norn_test *test, const char *event, struct norn_bytes data,
                                     const struct norn_info **info);

/* What all orchestrators of the test have asked for so far, one line each, in order:
 *
 *      call NAME INPUT               an activity; once for every attempt
 *      child NAME INPUT
 *      timer MS                      from then on
 *      send ID EVENT DATA            to an instance
 *      signal @NAME@KEY OPERATION INPUT
 *      ask @NAME@KEY OPERATION INPUT
 *      lock @NAME@KEY ...
 *      unlock @NAME@KEY
 *      continue INPUT                as new
 *
 * The test's until its next call. */
NORN_API const char *norn_test_calls(norn_test *test);
/* Why the last function of the test that failed did: a sentence. The test's until its next call. */
NORN_API const char *norn_test_error(norn_test *test);

/* What a test does from its beginning on: norn_test_run(), norn_test_skip() and so on, and its own
 * checks. NORN_OK: as it should be. */
typedef norn_status norn_test_scenario_fn(norn_test *test, void *user);

/* Whether a crash at any time would change anything. Runs the scenario as it is, then once for each
 * turn of an orchestrator with everything in memory thrown away before it, so that it is replayed,
 * and once with that before every turn. Each run begins anew: no instances, the clock at its
 * beginning, no calls, the answers of activities from their first on. What was registered stays,
 * and so does what your own functions keep elsewhere: let the scenario begin that anew too.
 *      NORN_E_FAILED      instances ended otherwise or asked for something else than at first;
 *                         norn_test_error() says after which turn, what was expected and what came
 *      another status     that of the first run of the scenario */
NORN_API norn_status norn_test_crash_everywhere(norn_test *test, norn_test_scenario_fn *scenario,
                                                void *user);

/* Whether today's orchestrator still does what a history says. history: its events as
 * norn_history() gave them, one after the other (lines, or a JSON array). No activity runs.
 *      NORN_E_FAILED      it does something else, or ends otherwise: norn_test_error() has what was
 *                         expected, what came and at which event
 *      NORN_E_NOT_FOUND   the orchestrator is not registered
 *      NORN_E_INVALID     that is not a history */
NORN_API norn_status norn_test_replay(norn_test *test, struct norn_bytes history);

#ifdef __cplusplus
}
#endif

#endif

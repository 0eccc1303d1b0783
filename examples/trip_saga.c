/* SPDX-License-Identifier: Apache-2.0
 *
 * A saga: three bookings with three companies, all or none. After each booking the way back is
 * registered; when a later one fails, the registered ones run, the last first, each with its own
 * retry policy, also after a crash. Then the instance has failed, with the failure that began it.
 *
 * The way back is registered after the booking because it needs the booking's number. The price: a
 * booking that was made, but whose call failed (its worker was lost 20 times, its result was too
 * large), is not undone. Where that matters choose the number yourself, with norn_uuid(), register
 * the way back before the call, and let it do nothing where there is no booking of that number.
 */
#include "example.h"

static norn_status book(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    const char *what = user;

    if (strcmp(what, "car") == 0 && example_number(input, "days") > 7) {
        return norn_fail(ctx, "SoldOut", "no car for so many days", true);
    }
    printf("%s: %s booked\n", norn_here(ctx)->id, what);
    *output = example_print(ctx, "\"%s-%s\"", norn_here(ctx)->id, what);
    return NORN_OK;
}

/* The first attempt to cancel a hotel fails: undoing is repeated until it works. It may also be
 * asked for twice, and then does the same, because the booking has a number. */
static norn_status cancel(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    const char *what = user;

    (void)output;
    if (strcmp(what, "hotel") == 0 && norn_here(ctx)->attempt == 1) {
        printf("%s: the hotel does not answer the phone\n", norn_here(ctx)->id);
        return norn_fail(ctx, "Unavailable", "no answer", false);
    }
    printf("%s: %s cancelled, number %.*s\n", norn_here(ctx)->id, what, TEXT(input));
    return NORN_OK;
}

static norn_status trip(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    static const struct {
        const char *book;
        const char *cancel;
    } steps[] = {
        {"BookFlight", "CancelFlight"}, {"BookHotel", "CancelHotel"}, {"BookCar", "CancelCar"}};
    struct norn_retry retry = NORN_RETRY;
    struct norn_call_options patient = NORN_CALL_OPTIONS;

    (void)user;
    retry.attempts = 10;
    retry.first_delay_ms = 10;
    retry.factor = 2;
    patient.retry = &retry;
    for (size_t n = 0; n < 3; n++) {
        struct norn_bytes number;
        norn_status status = norn_call(ctx, steps[n].book, input, NULL, &number);
        if (status != NORN_OK) return status; /* from here on everything is undone */
        status = norn_compensate(ctx, steps[n].cancel, number, &patient);
        if (status != NORN_OK) return status;
    }
    *output = norn_text("\"have a nice trip\"");
    return NORN_OK;
}

int main(int argc, char **argv)
{
    static char flight[] = "flight", hotel[] = "hotel", car[] = "car";
    struct example e = {0};

    example_open(&e, argc, argv);
    must(norn_orchestrator(e.worker, "Trip", NULL, trip, NULL), "register");
    must(norn_activity_add(e.worker, "BookFlight", 0, book, flight), "register");
    must(norn_activity_add(e.worker, "BookHotel", 0, book, hotel), "register");
    must(norn_activity_add(e.worker, "BookCar", 0, book, car), "register");
    must(norn_activity_add(e.worker, "CancelFlight", 0, cancel, flight), "register");
    must(norn_activity_add(e.worker, "CancelHotel", 0, cancel, hotel), "register");
    must(norn_activity_add(e.worker, "CancelCar", 0, cancel, car), "register");
    must(norn_worker_start(e.worker), "start");

    example_begin(&e, "Trip", "trip-1", "{\"days\":5}");
    struct norn_info *info = example_wait(&e, "trip-1");
    printf("trip-1: %.*s\n\n", TEXT(info->output));
    norn_info_free(info);

    example_begin(&e, "Trip", "trip-2", "{\"days\":14}");
    info = example_wait(&e, "trip-2");
    printf("trip-2: failed: %s: %s\n", info->failure.type, info->failure.message);
    norn_info_free(info);
    example_close(&e);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker of the tests of the command line: cli_worker ADDRESS, until its standard input ends.
 */
#include "norn.h"

#include <stdio.h>

NORN_API void norn_register(norn_worker *worker);

int main(int argc, char **argv)
{
    struct norn_client_options options = NORN_CLIENT_OPTIONS;
    norn_client *client = NULL;
    norn_worker *worker = NULL;

    options.address = argc > 1 ? argv[1] : "127.0.0.1:4001";
    norn_status status = norn_client_open(&options, &client);
    if (status == NORN_OK) status = norn_worker_open(client, NULL, &worker);
    if (status == NORN_OK) {
        norn_register(worker);
        status = norn_worker_start(worker);
    }
    if (status != NORN_OK) {
        (void)fprintf(stderr, "cli_worker: %s\n", norn_status_text(status));
        return 1;
    }
    while (getchar() != EOF) {
    }
    norn_worker_close(worker);
    norn_client_close(client);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts on what many commands share: `norn help TOPIC`, and a section each in norn(1).
 */
#include "cli/help.h"

const struct topic topics[] = {
    {"server", "which server is asked",
     "The first of these that is there says which server a command asks:\n\n"
     "  --server URL          on the command line\n"
     "  NORN_SERVER           in the environment\n"
     "  the chosen context    norn context use NAME\n"
     "  http://127.0.0.1:4001\n\n"
     "Instances live in a hub: --hub, NORN_HUB, that of the context, or \"default\". Contexts are\n"
     "kept in $XDG_CONFIG_HOME/norn/contexts.json (~/.config/norn/contexts.json)."},
    {"formats", "how answers are printed",
     "Data goes to the standard output, everything else to the standard error.\n\n"
     "  table    for people; fits the terminal, and is not cut when there is none\n"
     "  wide     a table with more columns\n"
     "  json     one JSON document\n"
     "  jsonl    one JSON value a line\n"
     "  csv      with a line of titles, as in RFC 4180\n"
     "  name     ids alone, one a line, for xargs\n\n"
     "With json and jsonl errors are JSON too: a problem document (RFC 9457) on the standard\n"
     "error. Colour is used on terminals; --color always|never, NO_COLOR, CLICOLOR_FORCE and\n"
     "TERM=dumb say otherwise."},
    {"filters", "which instances are meant",
     "list, count, purge and batch choose instances by the same filters; all that are given must\n"
     "hold:\n\n"
     "  --status S[,S]        pending running suspended completed failed terminated canceled\n"
     "  --name NAME           of the orchestrator\n"
     "  --id-prefix TEXT      how the id begins\n"
     "  --from T, --to T      created since, created before\n"
     "  --completed-from T, --completed-to T\n"
     "                        ended since, ended before\n"
     "  --tag KEY[=VALUE]     has this tag\n"
     "  --error TEXT          part of the text of its failure\n"
     "  --parked              waits for an operator"},
    {"times", "how times and durations are written",
     "A duration is a number and its unit: 250ms, 10s, 5m, 2h, 7d. A time is RFC 3339\n"
     "(2026-11-15T12:00:00Z), a date (2026-11-15, midnight UTC), now, or a duration, which means\n"
     "so long ago. Where a time lies ahead (start --at) a duration means from now on.\n\n"
     "Tables show times relative to now; --absolute shows them in UTC. Other formats always have\n"
     "them in full."},
    {"payloads", "how inputs and data of events are given",
     "An argument that is a payload is JSON, kept byte for byte:\n\n"
     "  '{\"lines\":3}'         inline\n"
     "  @order.json           the contents of a file\n"
     "  -                     the standard input\n\n"
     "What is not JSON is refused, with the place where it stops to be: a text is written with\n"
     "its quotes, '\"hello\"'."},
    {"exit-codes", "what a command's exit code says",
     "  0  it was done; what was waited for has completed\n"
     "  1  it was tried and did not work; what was waited for has failed\n"
     "  2  wrong words on the command line\n"
     "  3  there is no such thing\n"
     "  4  it must be confirmed, and there is no terminal to ask on: --yes\n"
     "  5  the server cannot be reached; the data directory is in use\n"
     "  6  the time is over\n\n"
     "norn server has those of sysexits.h instead."},
    {"environment", "variables that are read",
     "  NORN_SERVER, NORN_HUB   see norn help server\n"
     "  NORN_CONFIG             the file of settings of norn server\n"
     "  NORN_SECTION_KEY        one setting of norn server, e.g. NORN_SERVER_LISTEN\n"
     "  XDG_CONFIG_HOME         where contexts are kept\n"
     "  NO_COLOR, CLICOLOR_FORCE, TERM, COLUMNS, LINES"},
    {0},
};

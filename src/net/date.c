/* SPDX-License-Identifier: Apache-2.0
 *
 * See date.h.
 */
#include "net/date.h"

#include "base/moment.h"

#include <stdio.h>

#define DAY_S 86400
#define LATEST_S INT64_C(253402300799)

void date_format(int64_t unix_s, char out[DATE_SIZE])
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

    if (unix_s < 0) unix_s = 0;
    if (unix_s > LATEST_S) unix_s = LATEST_S;
    struct date date = date_of_days(unix_s / DAY_S);
    unsigned second = (unsigned)(unix_s % DAY_S);
    (void)snprintf(out, DATE_SIZE, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[date.weekday],
                   date.day % 100, months[date.month - 1], (unsigned)date.year % 10000,
                   second / 3600, second / 60 % 60, second % 60);
}

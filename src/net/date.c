/* SPDX-License-Identifier: Apache-2.0
 *
 * Days become a date by counting from a first of March, 0000: so the leap day is the last day of
 * its year, and of its four and its four hundred years.
 */
#include "net/date.h"

#include <stdio.h>

#define DAY_S 86400
#define DAYS_TO_1970 719468 /* from the first of March, 0000 */
#define DAYS_PER_ERA 146097 /* 400 years */
#define LATEST_S INT64_C(253402300799)

void date_format(int64_t unix_s, char out[DATE_SIZE])
{
    static const char days[][4] = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

    if (unix_s < 0) unix_s = 0;
    if (unix_s > LATEST_S) unix_s = LATEST_S;
    unsigned day_n = (unsigned)(unix_s / DAY_S);
    unsigned second = (unsigned)(unix_s % DAY_S);
    unsigned era = (day_n + DAYS_TO_1970) / DAYS_PER_ERA;
    unsigned day_of_era = (day_n + DAYS_TO_1970) % DAYS_PER_ERA;
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month_from_march = (5 * day_of_year + 2) / 153;
    unsigned day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    unsigned month = (month_from_march + 2) % 12;
    unsigned year = era * 400 + year_of_era + (month < 2 ? 1 : 0);
    (void)snprintf(out, DATE_SIZE, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[day_n % 7],
                   day % 100, months[month], year % 10000, second / 3600, second / 60 % 60,
                   second % 60);
}

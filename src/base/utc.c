/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Years begin in March here: a leap day is the last of its year then, and months have the same
 * pattern of lengths in each. A year of the calendar has begun two months earlier.
 */
#include "base/utc.h"

#include <stdint.h>
#include <stdio.h>

#define DAY_SECONDS    86400
#define DAYS_TO_1970   719468 /* from the first of March of the year 0 */
#define DAYS_400_YEARS 146097
#define DAYS_100_YEARS 36524 /* but for the fourth hundred, which ends with a leap day */
#define DAYS_4_YEARS   1461

struct date {
	long long year;
	int month, day; /* from 1 on */
};

static long long floor_divide(long long a, long long b)
{
	return a / b - (a % b < 0);
}

/* Takes whole periods out of *days, at most that many. Returns how many. */
static int take(int *days, int period, int most)
{
	int n = *days / period < most ? *days / period : most;

	*days -= n * period;
	return n;
}

static struct date date_of_day(long long since_1970)
{
	const long long since = since_1970 + DAYS_TO_1970;
	const long long era = floor_divide(since, DAYS_400_YEARS);
	int left = (int)(since - era * DAYS_400_YEARS), month;
	struct date date = { .year = era * 400 };

	date.year += take(&left, DAYS_100_YEARS, 3) * 100;
	date.year += take(&left, DAYS_4_YEARS, 24) * 4;
	date.year += take(&left, 365, 3);
	/* Five months have 153 days, thrice: from March, from August, and what is left of it. */
	month = (5 * left + 2) / 153;
	date.day = left - (153 * month + 2) / 5 + 1;
	date.month = month < 10 ? month + 3 : month - 9;
	date.year += date.month < 3;
	return date;
}

void utc_format(const struct timespec *at, unsigned int digits, char text[UTC_SIZE])
{
	const long long day = floor_divide(at->tv_sec, DAY_SECONDS);
	const int left = (int)(at->tv_sec % DAY_SECONDS);
	const int second = left < 0 ? left + DAY_SECONDS : left;
	const struct date date = date_of_day(day);
	long fraction = at->tv_nsec;
	int used;

	used = snprintf(text, UTC_SIZE, "%04lld-%02d-%02dT%02d:%02d:%02d", date.year, date.month,
			date.day, second / 3600, second / 60 % 60, second % 60);
	for (unsigned int i = digits; i < 9; i++)
		fraction /= 10;
	if (digits)
		used += snprintf(text + used, UTC_SIZE - (size_t)used, ".%0*ld", (int)digits,
				 fraction);
	snprintf(text + used, UTC_SIZE - (size_t)used, "Z");
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers of v1 as v2 wants them. libm is done without: one shared library less to load. */
#include "cgroup/convert.h"

#define LN2	0.693147180559945309417
#define LOG2_10 3.321928094887362347870

/* x >= 1. Bit by bit: squaring doubles the logarithm. */
static double log2_of(double x)
{
	double result = 0, bit = 1;

	for (; x >= 2; x /= 2)
		result++;
	for (int i = 0; i < 48; i++) {
		x *= x;
		bit /= 2;
		if (x >= 2) {
			x /= 2;
			result += bit;
		}
	}
	return result;
}

/* 2 to the power of x, x >= 0: the series of the exponential for the fraction. */
static double exp2_of(double x)
{
	double term = 1, sum = 1, whole = 1;

	for (; x >= 1; x--)
		whole *= 2;
	for (int n = 1; n < 24; n++) {
		term *= x * LN2 / n;
		sum += term;
	}
	return whole * sum;
}

/*
 * The curve that container runtimes agreed on in 2025: 2, 1024 and 262144 shares, the least, the
 * default and the most, become 1, 100 and 10000. A straight line would make the default 39.
 */
unsigned int cpu_weight(uint64_t shares)
{
	double l, weight;
	unsigned int whole;

	if (shares <= 2)
		return 1;
	if (shares >= 262144)
		return 10000;
	l = log2_of((double)shares);
	weight = exp2_of(((l * l + 125 * l) / 612 - 7.0 / 34) * LOG2_10) - 1e-9;
	whole = (unsigned int)weight;
	return whole + (weight > whole);
}

unsigned int io_weight(unsigned int weight)
{
	if (weight < 10)
		weight = 10;
	if (weight > 1000)
		weight = 1000;
	return 1 + (weight - 10) * 9999 / 990;
}

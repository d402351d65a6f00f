// SPDX-License-Identifier: Apache-2.0
/* What the kernel counts of a namespace. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include "common.h"

struct counted {
	char space[32], path[64];
};

extern struct counted counted[MOST_COUNTERS];
extern int counted_count;

void report_counters(const struct counted *it);

#endif

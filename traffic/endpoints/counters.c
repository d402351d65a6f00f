// SPDX-License-Identifier: Apache-2.0
/* What the kernel counts of a namespace. */
#include "counters.h"

#include "spaces.h"

struct counted counted[MOST_COUNTERS];
int counted_count;

void report_counters(const struct counted *it)
{
	char name[64];
	FILE *from, *to;

	enter(it->space);
	snprintf(name, sizeof(name), "counters-%.31s", it->space);
	from = fopen(it->path, "r");
	to = fopen(name, "a");
	if (!from || !to)
		die("%s of %s", it->path, it->space);
	for (size_t size; (size = fread(buffer, 1, sizeof(buffer), from)) > 0;)
		fwrite(buffer, 1, size, to);
	fclose(from);
	if (fclose(to))
		die("%s", name);
}

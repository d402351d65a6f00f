// SPDX-License-Identifier: Apache-2.0
/* What all parts of the program use: its clock, its errors, its files. */
#include "common.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t length, sample, origin, date;
char buffer[WRITE];

void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list list;
	int reason = errno;

	va_start(list, format);
	fputs("bulk: ", stderr);
	vfprintf(stderr, format, list);
	if (reason)
		fprintf(stderr, ": %s", strerror(reason));
	fputc('\n', stderr);
	exit(1);
}

int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec - origin;
}

int64_t wall_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

FILE *output(const char *name, const char *header)
{
	FILE *file = fopen(name, "w");

	if (!file)
		die("%s", name);
	setvbuf(file, NULL, _IOFBF, 1 << 20);
	fputs(header, file);
	return file;
}

// SPDX-License-Identifier: Apache-2.0
/* What all parts of the program use: its clock, its errors, its files. */
#ifndef COMMON_H
#define COMMON_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define NEVER INT64_MAX
#define SECOND ((int64_t)1000000000)
#define TIME "%" PRId64 ".%06" PRId64
#define TIME_OF(ns) (ns) / SECOND, (ns) % SECOND / 1000

enum { WRITE = 1 << 20, LINE = 4096 /* of the plan: a command is shorter */ };
/* How many there may be of what, MOST_…: traffic/endpoints/__init__.py gives them to the compiler. */

/* Of the cell, ns: how long it is, and from one sample to the next. Its beginning, by the monotonic and by the wall clock. */
extern int64_t length, sample, origin, date;
extern char buffer[WRITE];

void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...);
int64_t now(void);
int64_t wall_time(void);
FILE *output(const char *name, const char *header);

#define MUST(call, ...) ({ int result_ = (call); if (result_ < 0) die(__VA_ARGS__); result_; })

#endif

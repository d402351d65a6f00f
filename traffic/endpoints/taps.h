// SPDX-License-Identifier: Apache-2.0
/* Taps: the headers of single packets, as the devices at both ends see them. */
#ifndef TAPS_H
#define TAPS_H

#include "common.h"

/* What a device sends and gets, kept in a ring of the kernel until it is written: no system call for any packet. */
struct tap {
	char file[64];
	int fd;
	uint32_t next;
	char *ring;
	FILE *out;
};

extern struct tap taps[MOST_TAPS];
extern int tap_count;

void open_tap(const char *space, const char *device, int first, int last);
void empty_tap(struct tap *tap);
void end_tap(struct tap *tap);

#endif

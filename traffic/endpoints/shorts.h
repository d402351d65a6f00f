// SPDX-License-Identifier: Apache-2.0
/* Short flows, as of web users. */
#ifndef SHORTS_H
#define SHORTS_H

#include "common.h"
#include "sockets.h"

/* A short flow: its client asks for so many bytes at `in`, its server sends them at `out`. */
struct transfer {
	int64_t at, bytes, left, took;
	bool asked, answered;
	struct watch out, in;
};

extern struct transfer *transfers;
extern int transfer_count;
extern struct shorts {
	char from[32], to[32], address[32], control[16];
	int port, ecn, remember;
	struct watch listener;
} shorts;

void start_transfer(int n);
void take_transfer(void);
void feed_transfer(struct transfer *it);
void drain_transfer(struct transfer *it);

#endif

// SPDX-License-Identifier: Apache-2.0
/* Probes and talks: packets at fixed times. */
#ifndef PROBES_H
#define PROBES_H

#include "common.h"
#include "sockets.h"

enum { PROBE_BYTES = 172 };

/* Packets at fixed times whose delays are told: one of PROBE_BYTES, or as many as a frame of a talk has. */
struct probe {
	char from[32], to[32], address[32];
	int port, tos, echoed, key_every;
	int64_t first, interval, bytes, key_bytes;
	uint32_t sent, room, arrived, slot, slots;
	int64_t *sent_at, *arrived_at;
	uint16_t *size;
	struct watch in, back;
};

extern struct probe probes[MOST_PROBES], talks[MOST_TALKS];
extern int probe_count, talk_count;

void open_probe(struct probe *probe, enum kind kind, int index);
int64_t act_probe(struct probe *probe, int64_t at);
void serve_probe(struct probe *probe, struct watch *it);
void report_probes(const struct probe *all, int count, const char *name, const char *header, bool sized);

#endif

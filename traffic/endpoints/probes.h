// SPDX-License-Identifier: Apache-2.0
/* Probes and talks: packets at fixed times. */
#ifndef PROBES_H
#define PROBES_H

#include "common.h"
#include "sockets.h"

enum { PROBE_BYTES = 172 };

/* Packets of a talk that leave at one time, with as many bytes of payload each. */
struct burst {
	int64_t at;
	int packets, bytes;
};

/* Packets at fixed times whose delays are recorded: one of PROBE_BYTES per interval, or the bursts of a talk. Packets
 * of a talk with up to `plain` bytes are Not-ECT. */
struct probe {
	char from[32], to[32], address[32];
	int port, tos, echoed, plain, marked;
	int64_t first, interval;
	struct burst *bursts;
	uint32_t sent, room, arrived, slot, slots;
	int64_t *sent_at, *arrived_at;
	uint16_t *size;
	struct watch in, back;
};

extern struct probe probes[MOST_PROBES], talks[MOST_TALKS];
extern int probe_count, talk_count;

void open_probe(struct probe *probe, enum kind kind, int index);
void add_burst(struct probe *talk, struct burst burst);
int64_t act_probe(struct probe *probe, int64_t at);
void serve_probe(struct probe *probe, struct watch *it);
void report_probes(const struct probe *all, int count, const char *name, const char *header, bool sized);

#endif

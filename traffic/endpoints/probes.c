// SPDX-License-Identifier: Apache-2.0
/* Probes and talks: packets at fixed times. */
#include "probes.h"

#include <stdlib.h>
#include <string.h>

struct probe probes[MOST_PROBES], talks[MOST_TALKS];
int probe_count, talk_count;

void open_probe(struct probe *probe, enum kind kind, int index)
{
	union address to = address_of(probe->address, probe->port);
	int out = bound(probe->from, SOCK_DGRAM, 0), in = bound(probe->to, SOCK_DGRAM, probe->port);

	if (kind == PROBE)
		probe->room = probe->slots = (length - probe->first + probe->interval - 1) / probe->interval;
	MUST(connect(out, &to.any, sizeof(to)), "probe");
	mark(out, probe->tos);
	mark(in, probe->tos);
	probe->marked = probe->tos;
	watch(&probe->in, kind, index, in, EPOLLIN);
	watch(&probe->back, kind, index, out, EPOLLIN);
}

void add_burst(struct probe *talk, struct burst burst)
{
	talk->bursts = reallocarray(talk->bursts, talk->slots + 1, sizeof(*talk->bursts));
	talk->bursts[talk->slots++] = burst;
	talk->room += burst.packets;
}

static int64_t due(const struct probe *probe)
{
	if (probe->slot == probe->slots)
		return NEVER;
	return probe->bursts ? probe->bursts[probe->slot].at : probe->first + probe->slot * probe->interval;
}

static void send_slot(struct probe *probe)
{
	static const struct burst single = { .packets = 1, .bytes = PROBE_BYTES };
	const struct burst *burst = probe->bursts ? &probe->bursts[probe->slot] : &single;
	int tos = burst->bytes > probe->plain ? probe->tos : 0;

	probe->slot++;
	if (tos != probe->marked)
		mark(probe->back.fd, probe->marked = tos);
	for (int left = burst->packets; left; left--) {
		uint32_t number = probe->sent++;

		memcpy(buffer, &number, sizeof(number));
		probe->size[number] = burst->bytes;
		probe->sent_at[number] = now();
		send(probe->back.fd, buffer, burst->bytes, MSG_DONTWAIT);
	}
	memset(buffer, 0, sizeof(uint32_t));
}

/* Sends what is due at `at` and returns when the next is. */
int64_t act_probe(struct probe *probe, int64_t at)
{
	if (!probe->sent_at) {
		probe->sent_at = calloc(probe->room, sizeof(*probe->sent_at));
		probe->arrived_at = calloc(probe->room, sizeof(*probe->arrived_at));
		probe->size = calloc(probe->room, sizeof(*probe->size));
	}
	while (due(probe) <= at)
		send_slot(probe);
	return due(probe);
}

static void take_probe(struct probe *probe, int fd)
{
	uint32_t number;

	while (recv(fd, &number, sizeof(number), MSG_DONTWAIT) == sizeof(number)) {
		probe->arrived_at[number] = now();
		probe->arrived++;
	}
}

static void echo_probe(struct probe *probe)
{
	static char packet[PROBE_BYTES];
	union address peer;
	socklen_t size = sizeof(peer);

	while (recvfrom(probe->in.fd, packet, sizeof(packet), MSG_DONTWAIT, &peer.any, &size) > 0)
		sendto(probe->in.fd, packet, sizeof(packet), MSG_DONTWAIT, &peer.any, size);
}

void serve_probe(struct probe *probe, struct watch *it)
{
	if (probe->echoed && it == &probe->in)
		echo_probe(probe);
	else
		take_probe(probe, it->fd);
}

void report_probes(const struct probe *all, int count, const char *name, const char *header, bool sized)
{
	FILE *csv;

	if (!count)
		return;
	csv = output(name, header);
	for (int n = 0; n < count; n++)
		for (uint32_t i = 0; i < all[n].sent; i++) {
			int64_t sent = all[n].sent_at[i], took = all[n].arrived_at[i] - sent;

			fprintf(csv, TIME ",%d,", TIME_OF(sent), n);
			if (all[n].arrived_at[i])
				fprintf(csv, "%" PRId64 ".%03" PRId64, took / 1000, took % 1000);
			if (sized)
				fprintf(csv, ",%d", all[n].size[i]);
			fputc('\n', csv);
		}
	if (fclose(csv))
		die("%s", name);
}

// SPDX-License-Identifier: Apache-2.0
/* Probes and talks: packets at fixed times. */
#include "probes.h"

#include <stdlib.h>
#include <string.h>

enum { TALK_BYTES = 1200 };

struct probe probes[MOST_PROBES], talks[MOST_TALKS];
int probe_count, talk_count;

static int64_t slot_bytes(const struct probe *probe, uint32_t slot)
{
	return probe->key_every && slot % probe->key_every == 0 ? probe->key_bytes : probe->bytes;
}

static uint32_t packets_of(int64_t bytes)
{
	return (bytes + TALK_BYTES - 1) / TALK_BYTES;
}

void open_probe(struct probe *probe, enum kind kind, int index)
{
	union address to = address_of(probe->address, probe->port);
	int out = bound(probe->from, SOCK_DGRAM, 0), in = bound(probe->to, SOCK_DGRAM, probe->port);

	probe->slots = (length - probe->first + probe->interval - 1) / probe->interval;
	for (uint32_t slot = 0; slot < probe->slots; slot++)
		probe->room += packets_of(slot_bytes(probe, slot));
	probe->sent_at = calloc(probe->room, sizeof(*probe->sent_at));
	probe->arrived_at = calloc(probe->room, sizeof(*probe->arrived_at));
	probe->size = calloc(probe->room, sizeof(*probe->size));
	MUST(connect(out, &to.any, sizeof(to)), "probe");
	mark(out, probe->tos);
	mark(in, probe->tos);
	watch(&probe->in, kind, index, in, EPOLLIN);
	watch(&probe->back, kind, index, out, EPOLLIN);
}

static void send_slot(struct probe *probe)
{
	int64_t left = slot_bytes(probe, probe->slot++);

	for (; left > 0; left -= TALK_BYTES) {
		uint32_t number = probe->sent++;
		int size = left < TALK_BYTES ? left : TALK_BYTES;

		if (size < (int)sizeof(number))
			size = sizeof(number);
		memcpy(buffer, &number, sizeof(number));
		probe->size[number] = size;
		probe->sent_at[number] = now();
		send(probe->back.fd, buffer, size, MSG_DONTWAIT);
	}
	memset(buffer, 0, sizeof(uint32_t));
}

/* Sends what is due at `at` and returns when the next is. */
int64_t act_probe(struct probe *probe, int64_t at)
{
	while (probe->slot < probe->slots && probe->first + probe->slot * probe->interval <= at)
		send_slot(probe);
	return probe->slot < probe->slots ? probe->first + probe->slot * probe->interval : NEVER;
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

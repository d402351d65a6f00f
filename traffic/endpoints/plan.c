// SPDX-License-Identifier: Apache-2.0
/* The plan, which comes on stdin: traffic/endpoints/__init__.py writes and describes it. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "flows.h"
#include "probes.h"
#include "programs.h"
#include "shorts.h"
#include "spaces.h"
#include "taps.h"
#include "tc.h"

/* A reader takes what follows its word, and returns whether it is whole and there is room for it. */

static char space[32], device[32], command[LINE];

static bool read_cell(const char *line)
{
	int version = 4;
	bool whole = sscanf(line, "%" SCNd64 " %" SCNd64 " %d", &length, &sample, &version) == 3;

	family = version == 6 ? AF_INET6 : AF_INET;
	return whole;
}

static bool read_host(const char *line)
{
	int mode, start, steady, words = sscanf(line, "%31s %d %d %d", space, &mode, &start, &steady);

	if (words != 2 && words != 4)
		return false;
	enter(space);
	if (words == 4) {
		set("tcp_pacing_ss_ratio", start);
		set("tcp_pacing_ca_ratio", steady);
	}
	set("tcp_ecn", mode);
	/* Flows are what their names say, also where the queue loses a SYN. */
	set("tcp_ecn_fallback", 0);
	set("tcp_no_metrics_save", 1);
	return true;
}

static bool read_device(const char *line)
{
	int offloads;

	if (sscanf(line, "%31s %31s %d", space, device, &offloads) != 3)
		return false;
	enter(space);
	/* A new namespace has IPv6, whatever the first one has: its first packets would be in the queues. */
	if (family == AF_INET)
		set("../ipv6/conf/all/disable_ipv6", 1);
	prepare(device, offloads);
	return true;
}

static bool read_tc(const char *line)
{
	if (sscanf(line, "%31s %[^\n]", space, command) != 2)
		return false;
	tc_do(&tcs[tc_of(space)], command);
	return true;
}

static bool read_show(const char *line)
{
	char file[64];
	FILE *answer;

	if (sscanf(line, "%31s %[^\n]", space, command) != 2)
		return false;
	snprintf(file, sizeof(file), "readback-%s", space);
	answer = fopen(file, "a");
	if (!answer)
		die("%s", file);
	tc_ask(&tcs[tc_of(space)], command, answer);
	fclose(answer);
	return true;
}

static bool read_queues(const char *line)
{
	if (sscanf(line, "%31s", space) != 1)
		return false;
	tcs[tc_of(space)].sampled = true;
	return true;
}

static bool read_step(const char *line)
{
	struct step *step = &steps[step_count];

	if (step_count == COUNT(steps) || sscanf(line, "%" SCNd64 " %31s %[^\n]", &step->at, space, step->command) != 3)
		return false;
	step->tc = tc_of(space);
	step_count++;
	return true;
}

static bool read_flow(const char *line)
{
	struct flow *flow = &flows[flow_count];

	if (flow_count == COUNT(flows) ||
	    sscanf(line, "%31s %31s %31s %d %d %15s %d %" SCNd64 " %" SCNd64, flow->from, flow->to, flow->address,
		   &flow->port, &flow->from_port, flow->control, &flow->ecn, &flow->start, &flow->stop) != 9)
		return false;
	watch(&flow->listener, LISTENER, flow_count, listener(flow->to, flow->port, flow->control), EPOLLIN);
	flow_count++;
	return true;
}

static bool read_datagrams(const char *line)
{
	struct flow *flow = &flows[flow_count];

	if (flow_count == COUNT(flows) ||
	    sscanf(line, "%31s %31s %31s %d %d %d %d %" SCNd64 " %" SCNd64 " %" SCNd64, flow->from, flow->to,
		   flow->address, &flow->port, &flow->from_port, &flow->tos, &flow->bytes, &flow->gap, &flow->start,
		   &flow->stop) != 10)
		return false;
	open_datagrams(flow);
	flow_count++;
	return true;
}

static bool read_program(const char *line)
{
	struct flow *flow = &flows[flow_count];

	if (flow_count == COUNT(flows) ||
	    sscanf(line, "%31s %31s %d %" SCNd64 " %" SCNd64 " %[^\t]\t%[^\n]", flow->from, flow->to, &flow->port,
		   &flow->start, &flow->stop, command, flow->command) != 7)
		return false;
	start_receiver(flow_count++, command);
	return true;
}

static bool read_counters(const char *line)
{
	struct counted *it = &counted[counted_count];

	if (counted_count == COUNT(counted) || sscanf(line, "%31s %63s", it->space, it->path) != 2)
		return false;
	counted_count++;
	return true;
}

static bool read_pace(const char *line)
{
	return flow_count && sscanf(line, "%" SCNd64, &flows[flow_count - 1].pace) == 1;
}

static bool read_tap(const char *line)
{
	int first, last;

	if (tap_count == COUNT(taps) ||
	    sscanf(line, "%31s %31s %63s %d %d", space, device, taps[tap_count].file, &first, &last) != 5)
		return false;
	open_tap(space, device, first, last);
	return true;
}

static bool read_probe(const char *line)
{
	struct probe *probe = &probes[probe_count];

	if (probe_count == COUNT(probes) ||
	    sscanf(line, "%31s %31s %31s %d %d %" SCNd64 " %" SCNd64 " %d", probe->from, probe->to, probe->address,
		   &probe->port, &probe->tos, &probe->first, &probe->interval, &probe->echoed) != 8)
		return false;
	open_probe(probe, PROBE, probe_count++);
	return true;
}

static bool read_talk(const char *line)
{
	struct probe *talk = &talks[talk_count];

	if (talk_count == COUNT(talks) || sscanf(line, "%31s %31s %31s %d %d %d", talk->from, talk->to, talk->address,
						 &talk->port, &talk->tos, &talk->plain) != 6)
		return false;
	open_probe(talk, TALK, talk_count++);
	return true;
}

static bool read_burst(const char *line)
{
	struct burst burst;

	if (!talk_count || sscanf(line, "%" SCNd64 " %d %d", &burst.at, &burst.packets, &burst.bytes) != 3)
		return false;
	if (burst.packets < 1 || burst.bytes < (int)sizeof(uint32_t) || burst.bytes > UINT16_MAX)
		return false;
	add_burst(&talks[talk_count - 1], burst);
	return true;
}

static bool read_short(const char *line)
{
	if (sscanf(line, "%31s %31s %31s %d %15s %d %d", shorts.from, shorts.to, shorts.address, &shorts.port,
		   shorts.control, &shorts.ecn, &shorts.remember) != 7)
		return false;
	watch(&shorts.listener, SHORT_LISTENER, 0, listener(shorts.from, shorts.port, shorts.control), EPOLLIN);
	set("tcp_no_metrics_save", !shorts.remember);
	set("tcp_no_ssthresh_metrics_save", !shorts.remember);
	return true;
}

static bool read_transfer(const char *line)
{
	struct transfer it = { .took = -1 };

	if (sscanf(line, "%" SCNd64 " %" SCNd64, &it.at, &it.bytes) != 2)
		return false;
	it.left = it.bytes;
	transfers = reallocarray(transfers, transfer_count + 1, sizeof(*transfers));
	transfers[transfer_count++] = it;
	return true;
}

static const struct {
	const char *word;
	bool (*read)(const char *line);
} words[] = {
	{ "cell", read_cell },           { "host", read_host },   { "device", read_device },   { "tc", read_tc },
	{ "show", read_show },           { "step", read_step },   { "queues", read_queues },   { "flow", read_flow },
	{ "datagrams", read_datagrams }, { "pace", read_pace },   { "program", read_program }, { "tap", read_tap },
	{ "probe", read_probe },         { "talk", read_talk },   { "burst", read_burst },     { "short", read_short },
	{ "transfer", read_transfer },   { "counters", read_counters },
};

void read_plan(void)
{
	static char line[LINE];

	while (fgets(line, sizeof(line), stdin)) {
		char word[16] = "";
		int n = 0, after = 0;

		errno = 0;
		if (!strchr(line, '\n'))
			die("plan: longer than %d bytes: %s", LINE - 2, line);
		sscanf(line, "%15s%n", word, &after);
		while (n < COUNT(words) && strcmp(words[n].word, word))
			n++;
		if (n == COUNT(words) || !words[n].read(line + after))
			die("plan: %s", line);
	}
}

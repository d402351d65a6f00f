// SPDX-License-Identifier: Apache-2.0
/* The plan, which comes on stdin: traffic/endpoints/__init__.py writes and describes it. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "flows.h"
#include "probes.h"
#include "programs.h"
#include "shorts.h"
#include "spaces.h"
#include "taps.h"
#include "tc.h"

void read_plan(void)
{
	static char line[1024], word[16], space[32], text[512], file[64];

	while (fgets(line, sizeof(line), stdin)) {
		struct flow *flow = &flows[flow_count];
		struct probe *probe = &probes[probe_count], *talk = &talks[talk_count];
		int mode = 0, version = 4;
		bool found = false;

		errno = 0;
		sscanf(line, "%15s", word);
		if (!strcmp(word, "cell")) {
			found = sscanf(line, "%*s %" SCNd64 " %" SCNd64 " %d", &length, &sample, &version) == 3;
			family = version == 6 ? AF_INET6 : AF_INET;
		} else if (!strcmp(word, "host")) {
			int start = 0, steady = 0, words = sscanf(line, "%*s %31s %d %d %d", space, &mode, &start, &steady);

			found = words == 2 || words == 4;
			enter(space);
			if (words == 4) {
				set("tcp_pacing_ss_ratio", start);
				set("tcp_pacing_ca_ratio", steady);
			}
			set("tcp_ecn", mode);
			/* Flows are what their names say, also where the queue loses a SYN. */
			set("tcp_ecn_fallback", 0);
			set("tcp_no_metrics_save", 1);
		} else if (!strcmp(word, "device")) {
			found = sscanf(line, "%*s %31s %31s %d", space, text, &mode) == 3;
			enter(space);
			/* A new namespace has IPv6, whatever the first one has: its first packets would be in the queues. */
			if (family == AF_INET)
				set("../ipv6/conf/all/disable_ipv6", 1);
			prepare(text, mode);
		} else if (!strcmp(word, "tc")) {
			found = sscanf(line, "%*s %31s %511[^\n]", space, text) == 2;
			tc_do(&tcs[tc_of(space)], text);
		} else if (!strcmp(word, "show")) {
			found = sscanf(line, "%*s %31s %511[^\n]", space, text) == 2;
			snprintf(file, sizeof(file), "readback-%s", space);
			FILE *answer = fopen(file, "a");
			if (!answer)
				die("%s", file);
			tc_ask(&tcs[tc_of(space)], text, answer);
			fclose(answer);
		} else if (!strcmp(word, "queues")) {
			found = sscanf(line, "%*s %31s", space) == 1;
			tcs[tc_of(space)].sampled = true;
		} else if (!strcmp(word, "step") && step_count < COUNT(steps)) {
			struct step *step = &steps[step_count++];

			found = sscanf(line, "%*s %" SCNd64 " %31s %255[^\n]", &step->at, space, step->command) == 3;
			step->tc = tc_of(space);
		} else if (!strcmp(word, "flow") && flow_count < COUNT(flows)) {
			found = sscanf(line, "%*s %31s %31s %31s %d %d %15s %d %" SCNd64 " %" SCNd64, flow->from, flow->to,
				       flow->address, &flow->port, &flow->from_port, flow->control, &flow->ecn,
				       &flow->start, &flow->stop) == 9;
			watch(&flow->listener, LISTENER, flow_count, listener(flow->to, flow->port, flow->control), EPOLLIN);
			flow_count++;
		} else if (!strcmp(word, "datagrams") && flow_count < COUNT(flows)) {
			found = sscanf(line, "%*s %31s %31s %31s %d %d %d %d %" SCNd64 " %" SCNd64 " %" SCNd64, flow->from,
				       flow->to, flow->address, &flow->port, &flow->from_port, &flow->tos, &flow->bytes,
				       &flow->gap, &flow->start, &flow->stop) == 10;
			open_datagrams(flow);
			flow_count++;
		} else if (!strcmp(word, "program") && flow_count < COUNT(flows)) {
			found = sscanf(line, "%*s %31s %31s %d %" SCNd64 " %" SCNd64 " %511[^\t]\t%511[^\n]", flow->from, flow->to,
				       &flow->port, &flow->start, &flow->stop, text, flow->command) == 7;
			start_receiver(flow_count++, text);
		} else if (!strcmp(word, "tap") && tap_count < COUNT(taps)) {
			int first = 0, last = 0;

			found = sscanf(line, "%*s %31s %31s %63s %d %d", space, text, taps[tap_count].file, &first,
				       &last) == 5;
			open_tap(space, text, first, last);
		} else if (!strcmp(word, "pace") && flow_count) {
			found = sscanf(line, "%*s %" SCNd64, &flows[flow_count - 1].pace) == 1;
		} else if (!strcmp(word, "probe") && probe_count < COUNT(probes)) {
			found = sscanf(line, "%*s %31s %31s %31s %d %d %" SCNd64 " %" SCNd64 " %d", probe->from, probe->to,
				       probe->address, &probe->port, &probe->tos, &probe->first, &probe->interval,
				       &probe->echoed) == 8;
			probe->bytes = PROBE_BYTES;
			open_probe(probe, PROBE, probe_count++);
		} else if (!strcmp(word, "talk") && talk_count < COUNT(talks)) {
			found = sscanf(line, "%*s %31s %31s %31s %d %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %" SCNd64,
				       talk->from, talk->to, talk->address, &talk->port, &talk->tos, &talk->first,
				       &talk->interval, &talk->bytes, &talk->key_every, &talk->key_bytes) == 10;
			open_probe(talk, TALK, talk_count++);
		} else if (!strcmp(word, "short")) {
			found = sscanf(line, "%*s %31s %31s %31s %d %15s %d %d", shorts.from, shorts.to,
				       shorts.address, &shorts.port, shorts.control, &shorts.ecn, &shorts.remember) == 7;
			watch(&shorts.listener, SHORT_LISTENER, 0, listener(shorts.from, shorts.port, shorts.control),
			      EPOLLIN);
			set("tcp_no_metrics_save", !shorts.remember);
			set("tcp_no_ssthresh_metrics_save", !shorts.remember);
		} else if (!strcmp(word, "transfer")) {
			transfers = reallocarray(transfers, transfer_count + 1, sizeof(*transfers));
			struct transfer *it = &transfers[transfer_count++];

			memset(it, 0, sizeof(*it));
			found = sscanf(line, "%*s %" SCNd64 " %" SCNd64, &it->at, &it->bytes) == 2;
			it->left = it->bytes;
			it->took = -1;
		}
		if (!found)
			die("plan: %s", line);
	}
}

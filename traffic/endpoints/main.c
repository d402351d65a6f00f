// SPDX-License-Identifier: Apache-2.0
/*
 * Every endpoint of one transport experiment in one process and one event loop, across network namespaces.
 * Results are files in the working directory.
 * Every system call of a guest in simulated time hands over between processes of the host: there are few of them here.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "counters.h"
#include "flows.h"
#include "plan.h"
#include "probes.h"
#include "shorts.h"
#include "taps.h"
#include "tc.h"

static int timer, payload;
static struct watch clock_watch;
static int64_t next_sample, asked_at = NEVER;

/* Writes what was asked for at `asked_at`. */
static void sample_flows(void)
{
	if (asked_at == NEVER)
		return;
	for (int n = 0; n < flow_count; n++)
		sample_flow(n, asked_at);
	asked_at = NEVER;
}

/* Does what is due at `at` and returns when something is due next; the order at one time is fixed. */
static int64_t act(int64_t at)
{
	static int64_t next_queues;
	static int next_step, next_transfer;
	int64_t next = length;
	int n;

#define EARLIEST(t) (next = (t) < next ? (t) : next)
	while (next_step < step_count && steps[next_step].at <= at) {
		tc_do(&tcs[steps[next_step].tc], steps[next_step].command);
		next_step++;
	}
	if (next_step < step_count)
		EARLIEST(steps[next_step].at);
	if (next_queues <= at) {
		sample_queues(next_queues);
		next_queues += SECOND;
	}
	EARLIEST(next_queues);
	for (n = 0; n < flow_count; n++) {
		if (flows[n].stop <= at) {
			stop_flow(n, flows[n].stop);
			flows[n].start = flows[n].stop = NEVER;
		} else if (flows[n].start <= at) {
			start_flow(n);
			flows[n].start = NEVER;
		}
		EARLIEST(flows[n].start);
		EARLIEST(flows[n].stop);
		if (flows[n].gap && flows[n].out.fd > 0) {
			int64_t due = act_datagrams(&flows[n], at);

			EARLIEST(due);
		}
	}
	while (next_transfer < transfer_count && transfers[next_transfer].at <= at)
		start_transfer(next_transfer++);
	if (next_transfer < transfer_count)
		EARLIEST(transfers[next_transfer].at);
	for (n = 0; n < probe_count; n++) {
		int64_t due = act_probe(&probes[n], at);

		EARLIEST(due);
	}
	for (n = 0; n < talk_count; n++) {
		int64_t due = act_probe(&talks[n], at);

		EARLIEST(due);
	}
	if (next_sample <= at) {
		for (n = 0; n < flow_count; n++)
			ask_flow(&flows[n]);
		asked_at = next_sample;
		for (n = 0; n < tap_count; n++)
			empty_tap(&taps[n]);
		next_sample += sample;
	}
	EARLIEST(next_sample);
	return next;
}

static void arm(int64_t at)
{
	static struct itimerspec when;

	when.it_value = (struct timespec){ (at + origin) / SECOND, (at + origin) % SECOND };
	LATER(&clock_watch, SYS_timerfd_settime, timer, TFD_TIMER_ABSTIME, (uintptr_t)&when, 0);
}

static void serve(struct watch *it)
{
	switch (it->kind) {
	case LISTENER: {
		int fd = MUST(accept4(it->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), "accept");

		wake_at(fd, LOWAT);
		watch(&flows[it->index].in, FLOW_IN, it->index, fd, EPOLLIN);
		break;
	}
	case FLOW_OUT:
		/* Holes of a file are one page of zeroes that is passed on and never copied. */
		flows[it->index].sent = 0;
		LATER(it, SYS_sendfile, it->fd, payload, (uintptr_t)&flows[it->index].sent, WRITE);
		break;
	case FLOW_IN:
		LATER(it, SYS_recvfrom, it->fd, (uintptr_t)buffer, sizeof(buffer), MSG_TRUNC | MSG_DONTWAIT);
		break;
	case SHORT_LISTENER:
		take_transfer();
		break;
	case SHORT_OUT:
		feed_transfer(&transfers[it->index]);
		break;
	case SHORT_IN:
		drain_transfer(&transfers[it->index]);
		break;
	case PROBE:
		serve_probe(&probes[it->index], it);
		break;
	case TALK:
		serve_probe(&talks[it->index], it);
		break;
	case TIMER:
		break;
	}
}

/* Serves sockets until `until`, doing what is due in between when `acting`. */
static void run(int64_t until, bool acting)
{
	struct epoll_event events[64];
	int64_t next = acting ? act(0) : until;

	arm(next);
	for (;;) {
		bool due = false;
		long count;

		LATER(&clock_watch, SYS_epoll_wait, epoll, (uintptr_t)events, COUNT(events), -1);
		count = make_calls();
		sample_flows();
		for (int n = 0; n < count; n++) {
			struct watch *it = events[n].data.ptr;

			if (it->kind == TIMER)
				due = true;
			else if (it->fd > 0)
				serve(it);
		}
		if (!due)
			continue;
		if (next >= until)
			return;
		next = act(next);
		arm(next);
	}
}

static void report(void)
{
	FILE *csv;

	report_probes(probes, probe_count, "probes.csv", "t_s,probe,delay_us\n", false);
	report_probes(talks, talk_count, "talks.csv", "t_s,talk,delay_us,bytes\n", true);
	if (shorts.port) {
		csv = output("short.csv", "start_s,bytes,fct_s\n");
		for (int n = 0; n < transfer_count; n++) {
			struct transfer *it = &transfers[n];

			fprintf(csv, TIME ",%" PRId64 ",", TIME_OF(it->at), it->bytes);
			if (it->took >= 0)
				fprintf(csv, TIME, TIME_OF(it->took));
			fputc('\n', csv);
		}
		fclose(csv);
	}
	if (fclose(flows_csv) || fclose(queues))
		die("results");
}

int main(void)
{
	bool waiting = false;

	signal(SIGPIPE, SIG_IGN);
	epoll = MUST(epoll_create1(EPOLL_CLOEXEC), "epoll");
	timer = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timer");
	payload = MUST(memfd_create("payload", MFD_CLOEXEC), "payload");
	MUST(ftruncate(payload, WRITE), "payload");
	watch(&clock_watch, TIMER, 0, timer, EPOLLIN | EPOLLET);
	flows_csv = output("flows.csv",
			   "t_s,flow,received_bytes,srtt_us,min_rtt_us,cwnd,retrans,lost,delivered,delivered_ce,"
			   "delivery_rate_bps\n");
	queues = output("queues", "");
	read_plan();
	puts("ready");
	fflush(stdout);
	start_slots();
	origin = now();
	date = wall_time();
	run(length, true);
	for (int n = 0; n < flow_count; n++)
		stop_flow(n, length);
	sample_queues(length);
	/* Probes on the way may still arrive. */
	for (int n = 0; n < probe_count; n++)
		waiting |= probes[n].arrived < probes[n].sent;
	for (int n = 0; n < talk_count; n++)
		waiting |= talks[n].arrived < talks[n].sent;
	if (waiting)
		run(length + 10 * SECOND, false);
	report();
	for (int n = 0; n < counted_count; n++)
		report_counters(&counted[n]);
	for (int n = 0; n < tap_count; n++)
		end_tap(&taps[n]);
	for (int n = 0; n < tc_count; n++)
		close(tcs[n].in);
	while (wait(NULL) > 0)
		;
	return 0;
}

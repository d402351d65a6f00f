// SPDX-License-Identifier: Apache-2.0
/* Bulk flows: of the kernel's TCP, of datagrams that nothing holds back, of programs. */
#include "flows.h"

#include <string.h>
#include <sys/syscall.h>

#include "calls.h"
#include "programs.h"

struct flow flows[MOST_FLOWS];
int flow_count;
FILE *flows_csv;

static void take_datagrams(int n, int64_t at)
{
	struct flow *flow = &flows[n];
	ssize_t size;

	while ((size = recv(flow->in.fd, buffer, sizeof(buffer), MSG_TRUNC | MSG_DONTWAIT)) > 0)
		flow->received += size;
	fprintf(flows_csv, TIME ",%d,%" PRId64 ",,,,,,,,\n", TIME_OF(at), n, flow->received);
}

static void ask_info(int fd, struct tcp_info *info)
{
	static socklen_t size;

	size = sizeof(*info);
	memset(info, 0, sizeof(*info));
	LATER(NULL, SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, (uintptr_t)info, (uintptr_t)&size);
}

/* Its answer comes by the next calls. */
void ask_flow(struct flow *flow)
{
	if (flow->out.fd <= 0 || flow->gap)
		return;
	ask_info(flow->out.fd, &flow->sender_info);
	if (flow->in.fd > 0)
		ask_info(flow->in.fd, &flow->receiver_info);
}

void sample_flow(int n, int64_t at)
{
	struct flow *flow = &flows[n];
	const struct tcp_info *out = &flow->sender_info;

	if (flow->out.fd <= 0)
		return;
	if (flow->gap) {
		take_datagrams(n, at);
		return;
	}
	flow->received = flow->receiver_info.tcpi_bytes_received;
	fprintf(flows_csv, TIME ",%d,%" PRId64 ",%u,%u,%u,%u,%u,%u,%u,%" PRIu64 "\n", TIME_OF(at), n, flow->received,
		out->tcpi_rtt, out->tcpi_min_rtt == UINT32_MAX ? 0 : out->tcpi_min_rtt, out->tcpi_snd_cwnd,
		out->tcpi_total_retrans, out->tcpi_lost, out->tcpi_delivered, out->tcpi_delivered_ce,
		(uint64_t)out->tcpi_delivery_rate * 8);
}

void open_datagrams(struct flow *flow)
{
	int room = 16 << 20;

	flow->in.fd = bound(flow->to, SOCK_DGRAM, flow->port);
	MUST(setsockopt(flow->in.fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)), "SO_RCVBUF");
}

static void start_datagrams(struct flow *flow)
{
	union address to = address_of(flow->address, flow->port);
	int room = 16 << 20;

	flow->out.fd = bound(flow->from, SOCK_DGRAM, flow->from_port);
	MUST(setsockopt(flow->out.fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)), "SO_SNDBUF");
	MUST(connect(flow->out.fd, &to.any, sizeof(to)), "datagrams");
	mark(flow->out.fd, flow->tos);
	flow->due = flow->start;
}

/* Sends what is due at `at` and returns when the next is. */
int64_t act_datagrams(struct flow *flow, int64_t at)
{
	for (; flow->due <= at; flow->due += flow->gap)
		MUST((int)send(flow->out.fd, buffer, flow->bytes, 0), "datagrams");
	return flow->due;
}

void start_flow(int n)
{
	struct flow *flow = &flows[n];

	if (flow->command[0]) {
		flow->sender = launch(flow->from, flow->command);
		return;
	}
	if (flow->gap) {
		start_datagrams(flow);
		return;
	}
	int fd = connection(flow->from, flow->from_port, flow->address, flow->port, flow->control, flow->ecn);

	if (flow->pace)
		MUST(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &flow->pace, sizeof(flow->pace)), "pacing rate");
	watch(&flow->out, FLOW_OUT, n, fd, EPOLLOUT);
}

void stop_flow(int n, int64_t at)
{
	ask_flow(&flows[n]);
	make_calls();
	sample_flow(n, at);
	reset(&flows[n].out);
	reset(&flows[n].in);
	end_program(&flows[n].sender, n);
	/* Not later: a receiver ends by itself when it has heard nothing for long. */
	end_program(&flows[n].receiver, n);
}

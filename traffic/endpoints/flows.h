// SPDX-License-Identifier: Apache-2.0
/* Bulk flows: of the kernel's TCP, of datagrams that nothing holds back, of programs. */
#ifndef FLOWS_H
#define FLOWS_H

#include <linux/tcp.h>
#include <sys/types.h>

#include "common.h"
#include "sockets.h"

struct flow {
	char from[32], to[32], address[32], control[16];
	int port, from_port, ecn;
	int64_t start, stop, pace;
	struct watch listener, out, in;
	int64_t received;
	struct tcp_info sender_info, receiver_info;
	off_t sent;
	/* Of datagrams that nothing holds back: what each carries, one from the next, the next one's time. */
	int tos, bytes;
	int64_t gap, due;
	/* Of programs: the sender's command line, and both. */
	char command[LINE];
	pid_t sender, receiver;
};

extern struct flow flows[MOST_FLOWS];
extern int flow_count;
extern FILE *flows_csv;

void open_datagrams(struct flow *flow);
int64_t act_datagrams(struct flow *flow, int64_t at);
void ask_flow(struct flow *flow);
void sample_flow(int n, int64_t at);
void start_flow(int n);
void stop_flow(int n, int64_t at);

#endif

// SPDX-License-Identifier: Apache-2.0
/*
 * Every endpoint of one transport experiment in one process and one event loop, across network namespaces.
 * The plan comes on stdin (traffic/endpoints.py writes and describes it); results are files in the working directory.
 * Every system call of a guest in simulated time hands over between processes of the host: there are few of them here.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define NEVER INT64_MAX
#define SECOND ((int64_t)1000000000)
#define TIME "%" PRId64 ".%06" PRId64
#define TIME_OF(ns) (ns) / SECOND, (ns) % SECOND / 1000

enum { WRITE = 1 << 20, LOWAT = 256 << 10, PROBE_BYTES = 172, TALK_BYTES = 1200, REQUEST_BYTES = 160, CARRIER_MS = 10000,
       LOOK_MS = 50, ACCURATE_ECN = 3 };
enum kind { TIMER, LISTENER, FLOW_OUT, FLOW_IN, SHORT_LISTENER, SHORT_OUT, SHORT_IN, PROBE, TALK };

struct watch {
	enum kind kind;
	int index, fd;
};

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
	char command[512];
	pid_t sender, receiver;
};

/* What a device sends and gets, kept in a ring of the kernel until it is written: no system call for any packet. */
struct tap {
	char file[64];
	int fd;
	uint32_t next;
	char *ring;
	FILE *out;
};

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

/* A short flow: its client asks for so many bytes at `in`, its server sends them at `out`. */
struct transfer {
	int64_t at, bytes, left, took;
	bool asked, answered;
	struct watch out, in;
};

struct tc {
	char space[32];
	int in, out;
	bool sampled;
};

struct step {
	int64_t at;
	int tc;
	char command[256];
};

/* What the kernel counts of a namespace. */
struct counted {
	char space[32], path[64];
};

static struct flow flows[64];
static struct tap taps[8];
static struct counted counted[256];
static int tap_count, counted_count;
static struct probe probes[8], talks[8];
static struct transfer *transfers;
static struct tc tcs[32];
static struct step steps[4096];
static int flow_count, probe_count, talk_count, transfer_count, tc_count, step_count;
static struct { char name[32]; int fd; } spaces[64];
static int space_count, space_now = -1;
static struct {
	char from[32], to[32], address[32], control[16];
	int port, ecn, remember;
	struct watch listener;
} shorts;
static uint32_t transfer_of_port[65536]; /* index + 1 */
static int64_t length, sample, origin, date;
static int epoll, timer, payload, family = AF_INET;
static char buffer[WRITE];
static FILE *flows_csv, *queues;
static struct watch clock_watch;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list list;
	int reason = errno;

	va_start(list, format);
	fputs("bulk: ", stderr);
	vfprintf(stderr, format, list);
	if (reason)
		fprintf(stderr, ": %s", strerror(reason));
	fputc('\n', stderr);
	exit(1);
}

#define MUST(call, ...) ({ int result_ = (call); if (result_ < 0) die(__VA_ARGS__); result_; })

/* System calls that wait to be made by one, which the guest's kernel knows (hardware/kernel/many_calls.c). */
enum { MANY_CALLS = 1000 };

static struct call {
	unsigned long number, arguments[6];
	long result;
} calls[512];
static const struct watch *callers[COUNT(calls)]; /* who must not fail; NULL: may */
static int call_count;

#define LATER(caller, number, ...) later(caller, number, (const unsigned long[6]){ __VA_ARGS__ })

static void later(const struct watch *caller, unsigned long number, const unsigned long arguments[6])
{
	if (call_count == COUNT(calls))
		die("too many calls");
	callers[call_count] = caller;
	calls[call_count].number = number;
	memcpy(calls[call_count++].arguments, arguments, sizeof(calls->arguments));
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec - origin;
}

static int64_t wall_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static FILE *output(const char *name, const char *header)
{
	FILE *file = fopen(name, "w");

	if (!file)
		die("%s", name);
	setvbuf(file, NULL, _IOFBF, 1 << 20);
	fputs(header, file);
	return file;
}

static void enter(const char *name)
{
	char path[64];
	int n;

	for (n = 0; n < space_count && strcmp(spaces[n].name, name); n++)
		;
	if (n == space_count) {
		if (n == COUNT(spaces))
			die("too many namespaces");
		snprintf(path, sizeof(path), "/run/netns/%s", name);
		spaces[n].fd = MUST(open(path, O_RDONLY | O_CLOEXEC), "namespace %s", name);
		snprintf(spaces[n].name, sizeof(spaces[n].name), "%s", name);
		space_count++;
	}
	if (n != space_now)
		MUST(setns(spaces[n].fd, CLONE_NEWNET), "namespace %s", name);
	space_now = n;
}

/* A setting of the namespace that we are in. */
static void set(const char *name, int value)
{
	char path[96], text[16];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
	fd = MUST(open(path, O_WRONLY | O_CLOEXEC), "%s", name);
	MUST((int)write(fd, text, snprintf(text, sizeof(text), "%d", value)), "%s = %d", name, value);
	close(fd);
}

/* Segmentation offloads off unless they are to stay. Returns when the kernel has seen the carrier: until then a bridge forwards nothing. */
static void prepare(const char *device, bool offloads)
{
	static const uint32_t commands[] = { ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO };
	struct ethtool_value value = { 0 };
	struct ifreq request = { 0 };
	int fd = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");

	snprintf(request.ifr_name, IFNAMSIZ, "%.15s", device);
	request.ifr_data = (char *)&value;
	for (int n = 0; n < COUNT(commands) && !offloads; n++) {
		value.cmd = commands[n];
		MUST(ioctl(fd, SIOCETHTOOL, &request), "offloads of %s", device);
	}
	for (int left = CARRIER_MS;; left -= LOOK_MS) {
		MUST(ioctl(fd, SIOCGIFFLAGS, &request), "state of %s", device);
		if (request.ifr_flags & IFF_RUNNING)
			break;
		if (left <= 0 || nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * SECOND / 1000 }, NULL) < 0)
			die("%s does not come up", device);
	}
	close(fd);
}

/* tc: one process for each router, which takes commands until the end. */

static void tc_start(const char *space)
{
	int in[2], out[2];
	struct tc *tc = &tcs[tc_count];

	if (tc_count++ == COUNT(tcs))
		die("too many routers");
	snprintf(tc->space, sizeof(tc->space), "%s", space);
	MUST(pipe2(in, O_CLOEXEC), "pipe");
	MUST(pipe2(out, O_CLOEXEC), "pipe");
	if (MUST(vfork(), "vfork") == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execlp("tc", "tc", "-n", space, "-s", "-d", "-j", "-batch", "-", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	tc->in = in[1];
	tc->out = out[0];
}

static void tc_do(struct tc *tc, const char *command)
{
	char line[512];
	int size = snprintf(line, sizeof(line), "%s\n", command);

	errno = 0;
	if (size >= COUNT(line))
		die("longer than %d bytes: tc in %s: %s", COUNT(line) - 2, tc->space, command);
	if (write(tc->in, line, size) != size)
		die("tc in %s ended before: %s", tc->space, command);
}

static void tc_ask(struct tc *tc, const char *command, FILE *answer)
{
	ssize_t size;
	bool whole = false;

	tc_do(tc, command);
	while (!whole) {
		size = read(tc->out, buffer, sizeof(buffer));
		errno = 0;
		if (size <= 0)
			die("tc in %s ended: %s", tc->space, command);
		fwrite(buffer, 1, size, answer);
		whole = size > 1 && !memcmp(buffer + size - 2, "]\n", 2);
	}
}

static void sample_queues(int64_t at)
{
	for (int n = 0; n < tc_count; n++) {
		if (!tcs[n].sampled)
			continue;
		fprintf(queues, TIME " %s ", TIME_OF(at), tcs[n].space);
		tc_ask(&tcs[n], "qdisc show", queues);
	}
}

/* Packet slots begin with the cell (hardware/kernel/sch_slots.c). */
static void start_slots(void)
{
	FILE *slots = fopen("/proc/slots", "w");

	if (!slots)
		return;
	if (fputs("start", slots) < 0 || fclose(slots))
		die("/proc/slots");
}

/* Sockets */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static union address address_of(const char *address, int port)
{
	union address it = { .any.sa_family = family };

	it.v4.sin_port = htons(port); /* IPv6 has it at the same place */
	if (address && inet_pton(family, address, family == AF_INET6 ? (void *)&it.v6.sin6_addr : &it.v4.sin_addr) != 1)
		die("no address: %s", address);
	return it;
}

static void watch(struct watch *it, enum kind kind, int index, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = it };

	*it = (struct watch){ .kind = kind, .index = index, .fd = fd };
	MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll");
}

static int bound(const char *space, int type, int port)
{
	union address it = address_of(NULL, port);
	int fd, on = 1;

	enter(space);
	fd = MUST(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
	MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "SO_REUSEADDR");
	MUST(bind(fd, &it.any, sizeof(it)), "port %d in %s", port, space);
	return fd;
}

static void use_control(int fd, const char *control)
{
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, strlen(control)), "congestion control %s", control);
}

/* Autotuning counts what is read in a round trip, and a high SO_RCVLOWAT reads seldom: it would close the window. */
static void make_room(int fd)
{
	int room = 16 << 20;

	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), "SO_RCVBUF");
}

static int listener(const char *space, int port, const char *control)
{
	int fd = bound(space, SOCK_STREAM, port);

	make_room(fd);
	/* As iperf3 and netperf do: DCTCP's feedback needs it, and Prague's acknowledgements are ECT(1) by it. */
	use_control(fd, control);
	MUST(listen(fd, 128), "listen");
	return fd;
}

static void feed_late(int fd)
{
	int least = WRITE;

	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &least, sizeof(least)), "TCP_NOTSENT_LOWAT");
}

static int connection(const char *from, int from_port, const char *address, int port, const char *control, int ecn)
{
	union address to = address_of(address, port);
	int fd = bound(from, SOCK_STREAM, from_port);

	use_control(fd, control);
	feed_late(fd);
	make_room(fd); /* the client of a short flow receives; what a sender has is never read */
	/* The SYN asks for what the namespace says at that moment; passive opens find what they had before. */
	if (ecn != ACCURATE_ECN)
		set("tcp_ecn", ecn);
	if (connect(fd, &to.any, sizeof(to)) < 0 && errno != EINPROGRESS)
		die("connect to %s", address);
	if (ecn != ACCURATE_ECN)
		set("tcp_ecn", ACCURATE_ECN);
	return fd;
}

static void mark(int fd, int tos)
{
	if (family == AF_INET6)
		MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos)), "IPV6_TCLASS");
	else
		MUST(setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)), "IP_TOS");
}

static void reset(struct watch *it)
{
	struct linger now_ = { .l_onoff = 1 };

	if (it->fd <= 0)
		return;
	setsockopt(it->fd, SOL_SOCKET, SO_LINGER, &now_, sizeof(now_));
	close(it->fd);
	it->fd = 0;
}

static void wake_at(int fd, int64_t bytes)
{
	int least = bytes < LOWAT ? bytes : LOWAT;

	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)), "SO_RCVLOWAT");
}

/* What happens at a time */

static void take_datagrams(int n, int64_t at)
{
	struct flow *flow = &flows[n];
	ssize_t size;

	while ((size = recv(flow->in.fd, buffer, sizeof(buffer), MSG_TRUNC | MSG_DONTWAIT)) > 0)
		flow->received += size;
	fprintf(flows_csv, TIME ",%d,%" PRId64 ",,,,,,,,\n", TIME_OF(at), n, flow->received);
}

static long make_calls(void);

static void ask_info(int fd, struct tcp_info *info)
{
	static socklen_t size;

	size = sizeof(*info);
	memset(info, 0, sizeof(*info));
	LATER(NULL, SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, (uintptr_t)info, (uintptr_t)&size);
}

/* Its answer comes by the next calls. */
static void ask_flow(struct flow *flow)
{
	if (flow->out.fd <= 0 || flow->gap)
		return;
	ask_info(flow->out.fd, &flow->sender_info);
	if (flow->in.fd > 0)
		ask_info(flow->in.fd, &flow->receiver_info);
}

static void sample_flow(int n, int64_t at)
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

/* Datagrams */

static void open_datagrams(struct flow *flow)
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
static int64_t act_datagrams(struct flow *flow, int64_t at)
{
	for (; flow->due <= at; flow->due += flow->gap)
		MUST((int)send(flow->out.fd, buffer, flow->bytes, 0), "datagrams");
	return flow->due;
}

/* Programs */

static pid_t launch(const char *space, const char *command)
{
	static char line[600];
	pid_t pid;

	snprintf(line, sizeof(line), "exec %s", command);
	enter(space);
	pid = MUST(vfork(), "vfork");
	if (pid == 0) {
		setpgid(0, 0);
		dup2(2, 1);
		close(0);
		open("/dev/null", O_RDONLY);
		execl("/bin/sh", "sh", "-c", line, NULL);
		_exit(127);
	}
	return pid;
}

/* Whether a socket of the namespace that we are in has that port. */
static bool is_bound(int port)
{
	static const char *files[] = { "udp", "tcp", "udp6", "tcp6" };
	char path[64], line[256];
	bool there = false;
	int local;

	for (int n = 0; n < COUNT(files); n++) {
		FILE *table;

		snprintf(path, sizeof(path), "/proc/self/net/%s", files[n]);
		table = fopen(path, "r");
		while (table && fgets(line, sizeof(line), table))
			there |= sscanf(line, " %*d: %*[0-9A-F]:%x", (unsigned int *)&local) == 1 && local == port;
		if (table)
			fclose(table);
	}
	return there;
}

static void must_run(pid_t pid, int n)
{
	if (waitpid(pid, NULL, WNOHANG) == pid) {
		errno = 0;
		die("a program of flow %d has ended before its time", n);
	}
}

static void start_receiver(int n, const char *command)
{
	struct flow *flow = &flows[n];

	flow->receiver = launch(flow->to, command);
	for (int left = CARRIER_MS; !is_bound(flow->port); left--) {
		must_run(flow->receiver, n);
		errno = 0;
		if (left == 0 || nanosleep(&(struct timespec){ .tv_nsec = SECOND / 1000 }, NULL) < 0)
			die("the receiver of flow %d does not open port %d", n, flow->port);
	}
}

static void end_program(pid_t *pid, int n)
{
	if (*pid <= 0)
		return;
	must_run(*pid, n);
	kill(-*pid, SIGKILL);
	*pid = 0;
}

static void start_flow(int n)
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

static void stop_flow(int n, int64_t at)
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

static void start_transfer(int n)
{
	union address mine;
	socklen_t size = sizeof(mine);
	int fd = connection(shorts.to, 0, shorts.address, shorts.port, shorts.control, shorts.ecn);

	MUST(getsockname(fd, &mine.any, &size), "getsockname");
	transfer_of_port[ntohs(mine.v4.sin_port)] = n + 1;
	watch(&transfers[n].in, SHORT_IN, n, fd, EPOLLOUT);
}

static int64_t slot_bytes(const struct probe *probe, uint32_t slot)
{
	return probe->key_every && slot % probe->key_every == 0 ? probe->key_bytes : probe->bytes;
}

static uint32_t packets_of(int64_t bytes)
{
	return (bytes + TALK_BYTES - 1) / TALK_BYTES;
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
static int64_t act_probe(struct probe *probe, int64_t at)
{
	while (probe->slot < probe->slots && probe->first + probe->slot * probe->interval <= at)
		send_slot(probe);
	return probe->slot < probe->slots ? probe->first + probe->slot * probe->interval : NEVER;
}

static void empty_tap(struct tap *tap);

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

/* What happens at a socket */

static void check(const struct watch *it, const char *what, ssize_t result)
{
	if (result < 0 && errno != EAGAIN)
		die("%s %d at %" PRId64 " ms", what, it->index, now() / 1000000);
}

/* Returns the last one's result. */
static long make_calls(void)
{
	int count = call_count;

	call_count = 0;
	if (syscall(MANY_CALLS, calls, count) != count)
		die("the guest's kernel does not take many calls at once");
	for (int n = 0; n < count; n++) {
		if (!callers[n] || calls[n].result >= 0)
			continue;
		errno = -calls[n].result;
		check(callers[n], callers[n]->kind == TIMER ? "clock" : "flow", -1);
	}
	return count ? calls[count - 1].result : 0;
}

static void take_transfer(void)
{
	union address peer;
	socklen_t size = sizeof(peer);
	int fd = MUST(accept4(shorts.listener.fd, &peer.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC), "accept");
	int n = transfer_of_port[ntohs(peer.v4.sin_port)] - 1;

	use_control(fd, shorts.control);
	feed_late(fd);
	watch(&transfers[n].out, SHORT_OUT, n, fd, EPOLLIN);
}

static void watch_for(struct watch *it, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = it };

	MUST(epoll_ctl(epoll, EPOLL_CTL_MOD, it->fd, &event), "epoll");
}

static void feed_transfer(struct transfer *it)
{
	ssize_t size;

	if (!it->answered) {
		size = recv(it->out.fd, buffer, REQUEST_BYTES, MSG_TRUNC | MSG_DONTWAIT);
		check(&it->out, "request", size);
		if (size <= 0)
			return;
		it->answered = true;
		watch_for(&it->out, EPOLLOUT);
	}
	size = send(it->out.fd, buffer, it->left < WRITE ? it->left : WRITE, MSG_DONTWAIT);
	check(&it->out, "short flow", size);
	if (size <= 0)
		return;
	it->left -= size;
	if (it->left == 0) {
		shutdown(it->out.fd, SHUT_WR);
		epoll_ctl(epoll, EPOLL_CTL_DEL, it->out.fd, NULL);
	}
}

static void drain_transfer(struct transfer *it)
{
	ssize_t size;

	if (!it->asked) {
		size = send(it->in.fd, buffer, REQUEST_BYTES, MSG_DONTWAIT);
		check(&it->in, "request", size);
		it->asked = true;
		wake_at(it->in.fd, it->bytes);
		watch_for(&it->in, EPOLLIN);
		return;
	}
	size = recv(it->in.fd, buffer, sizeof(buffer), MSG_TRUNC | MSG_DONTWAIT);
	check(&it->in, "short flow", size);
	if (size == 0) {
		it->took = now() - it->at;
		close(it->in.fd);
		close(it->out.fd);
		it->in.fd = it->out.fd = 0;
	}
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

static void serve_probe(struct probe *probe, struct watch *it)
{
	if (probe->echoed && it == &probe->in)
		echo_probe(probe);
	else
		take_probe(probe, it->fd);
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

/* The plan */

static int tc_of(const char *space)
{
	for (int n = 0; n < tc_count; n++)
		if (!strcmp(tcs[n].space, space))
			return n;
	tc_start(space);
	return tc_count - 1;
}

static void open_probe(struct probe *probe, enum kind kind, int index)
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

/* Taps */

enum {
	TAP_FRAME = 192,
	TAP_BLOCK = 1 << 20,
	TAP_BLOCKS = 8,
	TAP_FRAMES_A_BLOCK = TAP_BLOCK / TAP_FRAME,
	TAP_FRAMES = TAP_BLOCKS * TAP_FRAMES_A_BLOCK,
	TAP_KEPT = 126 /* what a frame has beside the ring's own headers: Ethernet, IPv6, TCP with all options */
};

static void begin_tap(struct tap *tap);

/* Keeps the headers of IPv4 packets to a TCP or UDP port from `first` to `last`; of all packets if `last` is 0. */
static void open_tap(const char *space, const char *device, int first, int last)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 8),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 5),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, TAP_KEPT),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { COUNT(code), code };
	struct tpacket_req request = { .tp_block_size = TAP_BLOCK, .tp_frame_size = TAP_FRAME };
	struct sockaddr_ll where = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	struct tap *tap = &taps[tap_count++];
	int version = TPACKET_V2;

	request.tp_block_nr = TAP_BLOCKS;
	request.tp_frame_nr = TAP_FRAMES;
	enter(space);
	tap->fd = MUST(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), "tap");
	if (last)
		MUST(setsockopt(tap->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), "filter of a tap");
	MUST(setsockopt(tap->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)), "version of a tap");
	MUST(setsockopt(tap->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)), "ring of a tap");
	tap->ring = mmap(NULL, (size_t)TAP_BLOCKS * TAP_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, tap->fd, 0);
	if (tap->ring == MAP_FAILED)
		die("ring of a tap");
	where.sll_ifindex = if_nametoindex(device);
	MUST(bind(tap->fd, (struct sockaddr *)&where, sizeof(where)), "tap of %s in %s", device, space);
	begin_tap(tap);
}

static void write_block(FILE *out, uint32_t type, const void *head, uint32_t head_size, const void *data, uint32_t size)
{
	static const char padding[4];
	uint32_t whole = 12 + head_size + ((size + 3) & ~3u);

	fwrite(&type, 4, 1, out);
	fwrite(&whole, 4, 1, out);
	fwrite(head, 1, head_size, out);
	fwrite(data, 1, size, out);
	fwrite(padding, 1, -size & 3, out);
	fwrite(&whole, 4, 1, out);
}

/* As pcapng, its times from the cell's beginning. */
static void begin_tap(struct tap *tap)
{
	static const struct { uint32_t order; uint16_t major, minor; int64_t size; } section = { 0x1a2b3c4d, 1, 0, -1 };
	/* Ethernet; its one option: times in 10^-9 s */
	static const struct {
		uint16_t link, unused;
		uint32_t kept;
		uint16_t code, size;
		uint8_t digits, padding[3];
		uint32_t end;
	} interface = { 1, 0, TAP_KEPT, 9, 1, 9, { 0 }, 0 };

	tap->out = output(tap->file, "");
	write_block(tap->out, 0x0a0d0d0a, &section, sizeof(section), NULL, 0);
	write_block(tap->out, 1, &interface, sizeof(interface), NULL, 0);
}

/* Writes what the ring holds, which is free again then. */
static void empty_tap(struct tap *tap)
{
	for (;; tap->next = (tap->next + 1) % TAP_FRAMES) {
		char *frame = tap->ring + tap->next / TAP_FRAMES_A_BLOCK * (size_t)TAP_BLOCK +
			      tap->next % TAP_FRAMES_A_BLOCK * TAP_FRAME;
		struct tpacket2_hdr *packet = (void *)frame;
		uint64_t at = (packet->tp_sec * SECOND + packet->tp_nsec) - date;
		uint32_t head[5] = { 0, at >> 32, at, packet->tp_snaplen, packet->tp_len };

		if (!(packet->tp_status & TP_STATUS_USER))
			break;
		write_block(tap->out, 6, head, sizeof(head), frame + packet->tp_mac, packet->tp_snaplen);
		__atomic_store_n(&packet->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
}

/* A ring that was full has lost packets: then there is no result. */
static void end_tap(struct tap *tap)
{
	struct tpacket_stats stats;
	socklen_t size = sizeof(stats);

	empty_tap(tap);
	MUST(getsockopt(tap->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size), "statistics of a tap");
	errno = 0;
	if (stats.tp_drops)
		die("%s: %u packets came that found no room among %d", tap->file, stats.tp_drops, TAP_FRAMES);
	if (fclose(tap->out))
		die("%s", tap->file);
}

static void read_plan(void)
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
		} else if (!strcmp(word, "counters") && counted_count < COUNT(counted)) {
			struct counted *it = &counted[counted_count++];

			found = sscanf(line, "%*s %31s %63s", it->space, it->path) == 2;
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

static void report_probes(const struct probe *all, int count, const char *name, const char *header, bool sized)
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

static void report_counters(const struct counted *it)
{
	char name[64];
	FILE *from, *to;

	enter(it->space);
	snprintf(name, sizeof(name), "counters-%.31s", it->space);
	from = fopen(it->path, "r");
	to = fopen(name, "a");
	if (!from || !to)
		die("%s of %s", it->path, it->space);
	for (size_t size; (size = fread(buffer, 1, sizeof(buffer), from)) > 0;)
		fwrite(buffer, 1, size, to);
	fclose(from);
	if (fclose(to))
		die("%s", name);
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

// SPDX-License-Identifier: Apache-2.0
/* Sockets, and what the event loop watches of them. */
#include "sockets.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <string.h>
#include <unistd.h>

#include "spaces.h"

enum { ACCURATE_ECN = 3 };

int epoll, family = AF_INET;

union address address_of(const char *address, int port)
{
	union address it = { .any.sa_family = family };

	it.v4.sin_port = htons(port); /* IPv6 has it at the same place */
	if (address && inet_pton(family, address, family == AF_INET6 ? (void *)&it.v6.sin6_addr : &it.v4.sin_addr) != 1)
		die("no address: %s", address);
	return it;
}

void watch(struct watch *it, enum kind kind, int index, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = it };

	*it = (struct watch){ .kind = kind, .index = index, .fd = fd };
	MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll");
}

void watch_for(struct watch *it, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = it };

	MUST(epoll_ctl(epoll, EPOLL_CTL_MOD, it->fd, &event), "epoll");
}

void check(const struct watch *it, const char *what, ssize_t result)
{
	if (result < 0 && errno != EAGAIN)
		die("%s %d at %" PRId64 " ms", what, it->index, now() / 1000000);
}

int bound(const char *space, int type, int port)
{
	union address it = address_of(NULL, port);
	int fd, on = 1;

	enter(space);
	fd = MUST(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
	MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "SO_REUSEADDR");
	MUST(bind(fd, &it.any, sizeof(it)), "port %d in %s", port, space);
	return fd;
}

void use_control(int fd, const char *control)
{
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, strlen(control)), "congestion control %s", control);
}

/* Autotuning counts what is read in a round trip, and a high SO_RCVLOWAT reads seldom: it would close the window. */
static void make_room(int fd)
{
	int room = 16 << 20;

	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), "SO_RCVBUF");
}

int listener(const char *space, int port, const char *control)
{
	int fd = bound(space, SOCK_STREAM, port);

	make_room(fd);
	/* As iperf3 and netperf do: DCTCP's feedback needs it, and Prague's acknowledgements are ECT(1) by it. */
	use_control(fd, control);
	MUST(listen(fd, 128), "listen");
	return fd;
}

void feed_late(int fd)
{
	int least = WRITE;

	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &least, sizeof(least)), "TCP_NOTSENT_LOWAT");
}

int connection(const char *from, int from_port, const char *address, int port, const char *control, int ecn)
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

void mark(int fd, int tos)
{
	if (family == AF_INET6)
		MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos)), "IPV6_TCLASS");
	else
		MUST(setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)), "IP_TOS");
}

void reset(struct watch *it)
{
	struct linger now_ = { .l_onoff = 1 };

	if (it->fd <= 0)
		return;
	setsockopt(it->fd, SOL_SOCKET, SO_LINGER, &now_, sizeof(now_));
	close(it->fd);
	it->fd = 0;
}

void wake_at(int fd, int64_t bytes)
{
	int least = bytes < LOWAT ? bytes : LOWAT;

	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)), "SO_RCVLOWAT");
}

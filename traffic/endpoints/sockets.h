// SPDX-License-Identifier: Apache-2.0
/* Sockets, and what the event loop watches of them. */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "common.h"

enum { LOWAT = 256 << 10 };
enum kind { TIMER, LISTENER, FLOW_OUT, FLOW_IN, SHORT_LISTENER, SHORT_OUT, SHORT_IN, PROBE, TALK };

struct watch {
	enum kind kind;
	int index, fd;
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

extern int epoll, family;

union address address_of(const char *address, int port);
void watch(struct watch *it, enum kind kind, int index, int fd, uint32_t events);
void watch_for(struct watch *it, uint32_t events);
void check(const struct watch *it, const char *what, ssize_t result);
int bound(const char *space, int type, int port);
void use_control(int fd, const char *control);
int listener(const char *space, int port, const char *control);
void feed_late(int fd);
int connection(const char *from, int from_port, const char *address, int port, const char *control, int ecn);
void mark(int fd, int tos);
void reset(struct watch *it);
void wake_at(int fd, int64_t bytes);

#endif

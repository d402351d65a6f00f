// SPDX-License-Identifier: Apache-2.0
/* Short flows, as of web users. */
#include "shorts.h"

#include <unistd.h>

enum { REQUEST_BYTES = 160 };

struct transfer *transfers;
int transfer_count;
struct shorts shorts;
static uint32_t transfer_of_port[65536]; /* index + 1 */

void start_transfer(int n)
{
	union address mine;
	socklen_t size = sizeof(mine);
	int fd = connection(shorts.to, 0, shorts.address, shorts.port, shorts.control, shorts.ecn);

	MUST(getsockname(fd, &mine.any, &size), "getsockname");
	transfer_of_port[ntohs(mine.v4.sin_port)] = n + 1;
	watch(&transfers[n].in, SHORT_IN, n, fd, EPOLLOUT);
}

void take_transfer(void)
{
	union address peer;
	socklen_t size = sizeof(peer);
	int fd = MUST(accept4(shorts.listener.fd, &peer.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC), "accept");
	int n = transfer_of_port[ntohs(peer.v4.sin_port)] - 1;

	use_control(fd, shorts.control);
	feed_late(fd);
	watch(&transfers[n].out, SHORT_OUT, n, fd, EPOLLIN);
}

void feed_transfer(struct transfer *it)
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

void drain_transfer(struct transfer *it)
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

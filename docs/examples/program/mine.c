/* SPDX-License-Identifier: Apache-2.0
 *
 * A sender of an own transport over UDP: `mine receive PORT`, `mine send ADDRESS PORT ecn|deaf`.
 *
 * Its data is ECT(1). The receiver echoes the number of each packet, and whether it came with CE. The window, in
 * packets, grows by 1 per RTT; each CE mark takes half a packet (`deaf`: nothing), each loss 30 %. It sends when
 * acknowledgements arrive, without pacing. Cost of clarity: no handshake, no reordering, no retransmission.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAYLOAD = 1400, TIMEOUT_MS = 300, ECT1 = 1, CE = 3 };

struct packet {
	uint32_t number;
	uint32_t ce;
	char rest[PAYLOAD - 8];
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void receive(int at, int port)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(port) }, from;
	struct packet packet;
	char control[64];
	int on = 1;

	if (setsockopt(at, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)) || bind(at, (void *)&here, sizeof(here)))
		fail("receive");
	for (;;) {
		struct iovec into = { &packet, sizeof(packet) };
		struct msghdr message = { &from, sizeof(from), &into, 1, control, sizeof(control), 0 };
		struct cmsghdr *tos;

		if (recvmsg(at, &message, 0) < 0)
			fail("recvmsg");
		tos = CMSG_FIRSTHDR(&message);
		packet.ce = tos && (*CMSG_DATA(tos) & 3) == CE;
		sendto(at, &packet, 8, 0, (void *)&from, message.msg_namelen);
	}
}

static void send_to(int at, const char *address, int port, bool deaf)
{
	struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct packet packet = { 0 }, answer;
	uint32_t next = 0, expected = 0, recover = 0;
	double window = 10, threshold = 1e9;
	int tos = ECT1;

	if (inet_pton(AF_INET, address, &there.sin_addr) != 1 || connect(at, (void *)&there, sizeof(there)) ||
	    setsockopt(at, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)))
		fail("send");
	for (;;) {
		struct pollfd wait = { at, POLLIN, 0 };

		while (next - expected < (uint32_t)window) {
			packet.number = next++;
			if (send(at, &packet, sizeof(packet), 0) < 0 && errno != ECONNREFUSED)
				fail("send");
		}
		if (poll(&wait, 1, TIMEOUT_MS) == 0) { /* all that is in flight is lost */
			expected = next;
			threshold = window / 2;
			window = 2;
			continue;
		}
		if (recv(at, &answer, sizeof(answer), 0) < 8 || (int32_t)(answer.number - expected) < 0)
			continue;
		if (answer.number != expected && (int32_t)(answer.number - recover) >= 0) { /* once per RTT */
			recover = next;
			window = threshold = window * 0.7 < 2 ? 2 : window * 0.7;
		}
		expected = answer.number + 1;
		if (answer.ce && !deaf)
			window = threshold = window < 2.5 ? 2 : window - 0.5;
		else
			window += window < threshold ? 1 : 1 / window;
	}
}

int main(int count, char **words)
{
	int at = socket(AF_INET, SOCK_DGRAM, 0);

	if (count == 3 && !strcmp(words[1], "receive"))
		receive(at, atoi(words[2]));
	if (count == 5 && !strcmp(words[1], "send"))
		send_to(at, words[2], atoi(words[3]), !strcmp(words[4], "deaf"));
	fprintf(stderr, "usage: mine receive PORT | mine send ADDRESS PORT ecn|deaf\n");
	return 2;
}

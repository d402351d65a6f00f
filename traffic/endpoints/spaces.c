// SPDX-License-Identifier: Apache-2.0
/* Network namespaces, their settings and their devices. */
#include "spaces.h"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 50 };

static struct { char name[32]; int fd; } spaces[MOST_SPACES];
static int space_count, space_now = -1;

void enter(const char *name)
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
void set(const char *name, int value)
{
	char path[96], text[16];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
	fd = MUST(open(path, O_WRONLY | O_CLOEXEC), "%s", name);
	MUST((int)write(fd, text, snprintf(text, sizeof(text), "%d", value)), "%s = %d", name, value);
	close(fd);
}

/* Segmentation offloads off unless they are to stay. Returns when the kernel has seen the carrier: until then a bridge forwards nothing. */
void prepare(const char *device, bool offloads)
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

// SPDX-License-Identifier: Apache-2.0
/* Flows whose ends are programs of their own. */
#include "programs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "flows.h"
#include "spaces.h"

pid_t launch(const char *space, const char *command)
{
	static char line[LINE + 5];
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

void start_receiver(int n, const char *command)
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

void end_program(pid_t *pid, int n)
{
	if (*pid <= 0)
		return;
	must_run(*pid, n);
	kill(-*pid, SIGKILL);
	*pid = 0;
}

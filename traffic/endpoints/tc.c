// SPDX-License-Identifier: Apache-2.0
/* The routers' queues. tc: one process for each router, which takes commands until the end. */
#include "tc.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct tc tcs[MOST_SPACES];
struct step steps[MOST_STEPS];
int tc_count, step_count;
FILE *queues;

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

void tc_do(struct tc *tc, const char *command)
{
	char line[LINE];
	int size = snprintf(line, sizeof(line), "%s\n", command);

	errno = 0;
	if (write(tc->in, line, size) != size)
		die("tc in %s ended before: %s", tc->space, command);
}

void tc_ask(struct tc *tc, const char *command, FILE *answer)
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

int tc_of(const char *space)
{
	for (int n = 0; n < tc_count; n++)
		if (!strcmp(tcs[n].space, space))
			return n;
	tc_start(space);
	return tc_count - 1;
}

void sample_queues(int64_t at)
{
	for (int n = 0; n < tc_count; n++) {
		if (!tcs[n].sampled)
			continue;
		fprintf(queues, TIME " %s ", TIME_OF(at), tcs[n].space);
		tc_ask(&tcs[n], "qdisc show", queues);
	}
}

/* Packet slots begin with the cell (hardware/kernel/sch_slots.c). */
void start_slots(void)
{
	FILE *slots = fopen("/proc/slots", "w");

	if (!slots)
		return;
	if (fputs("start", slots) < 0 || fclose(slots))
		die("/proc/slots");
}

// SPDX-License-Identifier: Apache-2.0
/*
 * What sees to it that nothing of the program outlives the launcher, however either ends:
 *
 *   launcher   child of the harness; ends last, as the program did
 *     keeper   never runs the program, in a session of its own: SIGKILL to the launcher's group leaves it
 *       program, in a process group that filter.c lets nobody leave
 *
 * The keeper ends all as soon as the program has ended or the launcher is gone: in a pid namespace as its first process,
 * elsewhere by the process group. Orphans are the keeper's, so it knows when none is left; without the keeper, the launcher's.
 */
#include "confine.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT = 125 };

static sigset_t watched;

/* Return once `child` has ended, not yet collected, or nobody holds the other end of `alive`; signals go to it. */
static void await(pid_t child, int alive)
{
	int signals = signalfd(-1, &watched, SFD_CLOEXEC);
	struct pollfd watch[] = { { signals, POLLIN, 0 }, { alive, POLLIN, 0 } };
	struct signalfd_siginfo came;
	siginfo_t ended;

	if (signals < 0)
		err(CANNOT, "signalfd");
	for (;;) {
		while (ended.si_pid = 0, !waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT | __WALL) && ended.si_pid) {
			if (ended.si_pid == child)
				return;
			waitpid(ended.si_pid, NULL, __WALL);
		}
		poll(watch, 2, -1);
		if (watch[1].revents)
			return;
		if (watch[0].revents && read(signals, &came, sizeof(came)) == sizeof(came) && came.ssi_signo != SIGCHLD)
			kill(child, came.ssi_signo);
	}
}

static void kill_children(int proc)
{
	char text[1 << 12], *next, *end;
	int fd = openat(proc, "thread-self/children", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = 0;
	for (next = text; strtol(next, &end, 10), *end == ' '; next = end + 1) /* a number that was cut off has no blank */
		kill(strtol(next, NULL, 10), SIGKILL);
}

/* End all processes below this one, `group` (-1: this pid namespace) at once; return how `child` ended. */
static int end_all(pid_t child, pid_t group, int proc)
{
	int status, how = SIGKILL;
	pid_t ended;

	if (group)
		kill(group == -1 ? -1 : -group, SIGKILL);
	do {
		if (group != -1) /* there, pids are others than in `proc` */
			kill_children(proc);
		ended = waitpid(-1, &status, __WALL);
		if (ended == child)
			how = status;
	} while (ended > 0 || errno == EINTR);
	return how;
}

static void end_as(int status)
{
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	signal(WTERMSIG(status), SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &watched, NULL);
	kill(getpid(), WTERMSIG(status));
	_exit(128 + WTERMSIG(status));
}

void supervise(bool namespace, int proc)
{
	int alive[2], told[2], status, how;
	sigset_t before;
	pid_t child;

	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGINT);
	/* Not dumpable: where programs may trace each other, they may not trace these two. */
	if (sigprocmask(SIG_BLOCK, &watched, &before) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) || pipe2(alive, O_CLOEXEC) || pipe2(told, O_CLOEXEC))
		err(CANNOT, "supervision");
	if ((child = fork()) < 0)
		err(CANNOT, "fork");
	if (child) {
		close(alive[0]);
		close(told[1]);
		await(child, -1);
		status = end_all(child, 0, proc);
		end_as(read(told[0], &how, sizeof(how)) == sizeof(how) ? how : status);
	}
	close(alive[1]);
	close(told[0]);
	if (setsid() < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		err(CANNOT, "supervision");
	pid_t keeper = getpid();
	if ((child = fork()) < 0)
		err(CANNOT, "fork");
	if (child) {
		setpgid(child, child); /* as the child does: whoever is first */
		await(child, alive[0]);
		how = end_all(child, namespace ? -1 : child, proc);
		_exit(write(told[1], &how, sizeof(how)) != sizeof(how));
	}
	if (setpgid(0, 0) || sigprocmask(SIG_SETMASK, &before, NULL))
		err(CANNOT, "supervision");
	if (getppid() != keeper)
		_exit(CANNOT);
}

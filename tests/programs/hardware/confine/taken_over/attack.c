// SPDX-License-Identifier: Apache-2.0
/*
 * Stands where a machine's kernel stands, as one that was taken over: tries whatever leads out of it, and prints what
 * came of each, `NAME ok` or `NAME no ERRNO`. Arguments: a file of the host that it shall not read, a folder where it
 * shall not write, a process that it shall not signal, the name of an abstract socket, a TCP port of the loopback; with
 * one more it tries system calls too. Or `wait`, for SIGTERM, and `environment`, to print it. With STAY in its environment it
 * tries to stay when it is to end, and with STAY=end, by its children, when it ends itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char path[8192];

static void tell(const char *name, long result)
{
	int number = errno;

	if (result < 0)
		printf("%s no %d\n", name, number);
	else
		printf("%s ok\n", name);
	fflush(stdout);
}

static const char *below(const char *folder, const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* Whether one byte of a file can be read. */
static long can_read(const char *file)
{
	char byte;
	int fd = open(file, O_RDONLY);
	long got = fd < 0 ? -1 : read(fd, &byte, 1);

	if (fd >= 0)
		close(fd);
	return got == 0 ? (errno = ENODATA, -1) : got;
}

static long reach(int family, const void *address, socklen_t length)
{
	int fd = socket(family, SOCK_STREAM, 0);

	return fd < 0 ? -1 : connect(fd, address, length);
}

/* Calls that the filter refuses by its own error, whatever they are given. */
static void refused_calls(void)
{
	static const struct {
		const char *name;
		long number, first;
	} calls[] = {
		{ "bpf", SYS_bpf, 0 },
		{ "keyctl", SYS_keyctl, 0 },
		{ "add_key", SYS_add_key, 0 },
		{ "request_key", SYS_request_key, 0 },
		{ "userfaultfd", SYS_userfaultfd, 0 },
		{ "perf_event_open", SYS_perf_event_open, 0 },
		{ "io_uring_setup", 425, 1 },
		{ "init_module", SYS_init_module, 0 },
		{ "finit_module", SYS_finit_module, -1 },
		{ "delete_module", SYS_delete_module, 0 },
		{ "kexec_load", SYS_kexec_load, 0 },
		{ "reboot", SYS_reboot, 0 },
		{ "swapon", SYS_swapon, 0 },
		{ "mount", SYS_mount, 0 },
		{ "umount2", SYS_umount2, 0 },
		{ "pivot_root", SYS_pivot_root, 0 },
		{ "chroot", SYS_chroot, (long)"." },
		{ "unshare", SYS_unshare, CLONE_NEWUSER },
		{ "setns", SYS_setns, 0 },
		{ "open_tree", 428, 0 },
		{ "fsopen", 430, 0 },
		{ "open_by_handle_at", SYS_open_by_handle_at, 0 },
		{ "name_to_handle_at", SYS_name_to_handle_at, AT_FDCWD },
		{ "pidfd_open", 434, 1 },
		{ "pidfd_getfd", 438, 0 },
		{ "process_vm_readv", SYS_process_vm_readv, 1 },
		{ "process_madvise", 440, 0 },
		{ "clone3", 435, 0 },
		{ "clone", SYS_clone, CLONE_NEWUSER | SIGCHLD },
		{ "setuid", SYS_setuid, 0 },
		{ "setgid", SYS_setgid, 0 },
		{ "capset", SYS_capset, 0 },
		{ "setsid", SYS_setsid, 0 },
		{ "setpgid", SYS_setpgid, 0 },
		{ "prctl-pdeathsig", SYS_prctl, PR_SET_PDEATHSIG },
		{ "prctl-subreaper", SYS_prctl, PR_SET_CHILD_SUBREAPER },
		{ "prctl-dumpable", SYS_prctl, PR_SET_DUMPABLE },
		{ "settimeofday", SYS_settimeofday, 0 },
		{ "clock_settime", SYS_clock_settime, 0 },
		{ "quotactl", SYS_quotactl, 0 },
		{ "syslog", SYS_syslog, 3 },
		{ "iopl", SYS_iopl, 3 },
		{ "ioperm", SYS_ioperm, 0 },
		{ "ptrace", SYS_ptrace, PTRACE_TRACEME },
		{ "shmget", SYS_shmget, 0x50ull },
		{ "msgget", SYS_msgget, 0x50ull },
		{ "mq_open", SYS_mq_open, (long)"x" },
		{ "landlock_create_ruleset", 444, 0 },
	};

	for (size_t n = 0; n < sizeof(calls) / sizeof(*calls); n++) {
		pid_t child = fork();

		if (!child) {
			long done = syscall(calls[n].number, calls[n].first, 0, 0, 0, 0, 0);

			_exit(done < 0 ? errno : 0);
		}
		int status = 0;
		waitpid(child, &status, 0);
		errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINVAL;
		tell(below("call", calls[n].name), errno ? -1 : 0);
	}
}

/* Leave whatever a process is ended by. */
static void leave(void)
{
	prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	setpgid(0, 0);
	setsid();
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
}

/* Where it can stay it does not for ever: no alarm ends the first process of a namespace, or one that it forks. */
static void rest(time_t until)
{
	if (time(NULL) > until)
		_exit(0);
	usleep(20000);
}

static int stay(const char *how)
{
	time_t until = time(NULL) + 40;

	for (int n = 0; n < 3; n++)
		if (!fork()) {
			leave();
			if (n && fork())
				_exit(0);
			leave();
			for (;;) { /* a chain of processes, too */
				pid_t next = n == 2 ? fork() : 0;

				if (next)
					_exit(0);
				rest(until);
			}
		}
	leave();
	usleep(100000);
	close(open("job/up", O_CREAT | O_WRONLY, 0600));
	if (!strcmp(how, "end"))
		return 0;
	for (;;)
		rest(until);
}

int main(int count, char **words)
{
	const char *file = words[1], *folder = words[2];
	pid_t process;
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct timeval times[2] = { { 0 } };
	struct stat status;
	int pair[2];

	if (getenv("STAY"))
		return stay(getenv("STAY"));
	if (count == 2 && !strcmp(file, "wait")) {
		signal(SIGTERM, _exit);
		tell("waits", 0);
		pause();
	}
	if (count == 2 && !strcmp(file, "environment"))
		for (char **variable = environ; *variable; variable++)
			puts(*variable);
	if (count < 6)
		return 0;
	process = atoi(words[3]);
	tell("read", can_read(file));
	tell("read/up", can_read(below("../../../../../../../../../..", file)));
	tell("read/proc-self-root", can_read(below("/proc/self/root", file)));
	tell("read/proc-self-cwd", can_read(below("/proc/self/cwd/../../../../../../..", file)));
	tell("read/proc-1-root", can_read(below("/proc/1/root", file)));
	snprintf(path, sizeof(path), "/proc/%d/root/%s", process, file);
	tell("read/proc-process-root", can_read(path));
	snprintf(path, sizeof(path), "/proc/%d/environ", process);
	tell("read/proc-process-environ", can_read(path));
	snprintf(path, sizeof(path), "/proc/%d/mem", process);
	tell("open/proc-process-mem", open(path, O_RDWR));
	/* A link that it makes where it may write leads no further than its own way does. */
	if (!symlink(file, "job/link"))
		tell("read/link", can_read("job/link"));
	unlink("job/link");
	tell("link", link(file, "job/hard"));
	tell("rename", rename(file, "job/renamed"));
	rename("job/renamed", file);
	tell("list", open(folder, O_RDONLY | O_DIRECTORY));
	tell("create", open(below(folder, "made"), O_CREAT | O_WRONLY, 0600));
	tell("create/up", open(below("../../../../../../../../../../tmp", "made-up"), O_CREAT | O_WRONLY, 0600));
	tell("mkdir", mkdir(below(folder, "folder"), 0700));
	tell("symlink", symlink("/", below(folder, "link")));
	tell("write", open(file, O_WRONLY));
	tell("unlink", unlink(below(folder, "kept")));
	truncate(file, 0);
	chmod(file, 0777);
	utimes(file, times);
	if (chown(file, 1234, 1234)) /* what came of these four shows at the file itself */
		errno = 0;
	tell("read-only", open("linux", O_WRONLY));
	tell("read-only/create", open("root/made", O_CREAT | O_WRONLY, 0600));
	tell("read-only/write", open("root/kept", O_WRONLY));
	tell("top/create", open("made", O_CREAT | O_WRONLY, 0600));
	tell("device", mknod("job/device", S_IFCHR | 0600, makedev(1, 1)));
	unlink("job/device");
	tell("signal", kill(process, SIGUSR1));
	tell("trace", ptrace(PTRACE_SEIZE, process, 0, 0));
	tell("limits", prlimit(process, RLIMIT_CORE, &(struct rlimit){ 1, 1 }, NULL));
	snprintf(local.sun_path + 1, sizeof(local.sun_path) - 1, "%s", words[4]);
	tell("abstract", reach(AF_UNIX, &local, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(words[4])));
	/* By one of these a message goes to any socket that has a name or a path. */
	tell("datagrams", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	tell("datagrams/raw", socketpair(AF_UNIX, SOCK_RAW | SOCK_CLOEXEC, 0, pair));
	loopback.sin_port = htons(atoi(words[5]));
	tell("tcp", reach(AF_INET, &loopback, sizeof(loopback)));
	tell("netlink", socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
	tell("packet", socket(AF_PACKET, SOCK_RAW, 0));
	tell("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
	tell("dev-mem", open("/dev/mem", O_RDWR));
	tell("dev-kmsg", open("/dev/kmsg", O_RDWR));
	tell("sysctl", open("/proc/sys/kernel/core_pattern", O_WRONLY));
	tell("cgroup", open("/sys/fs/cgroup/cgroup.procs", O_WRONLY));
	signal(SIGXFSZ, SIG_IGN);
	tell("terabytes", ftruncate(open("job/sparse", O_CREAT | O_WRONLY, 0600), 1ll << 42));
	unlink("job/sparse");
	/* What a kernel needs. */
	tell("needed/write", open("job/out", O_CREAT | O_WRONLY, 0600));
	tell("needed/read", can_read("linux"));
	tell("needed/memory", open("memory", O_TMPFILE | O_RDWR, 0700));
	tell("needed/cpuinfo", can_read("/proc/cpuinfo"));
	tell("needed/memfd", memfd_create("x", 0));
	tell("needed/pair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	tell("needed/fork", fork() ? 0 : (_exit(0), 0));
	tell("needed/stat", stat("root", &status));
	printf("user %d %d\nprivileges %d %d\n", (int)getuid(), (int)getpid(), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
	       prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
	fflush(stdout);
	if (count == 7) /* not where they would do something */
		refused_calls();
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* The system calls that a User-Mode Linux kernel may make; all others give ENOSYS, by which a libc finds another. */
#include "confine.h"

#include <err.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

enum { CANNOT = 125, MOST = 512 };

static const int FILES[] = {
	SYS_access, SYS_close, SYS_close_range, SYS_copy_file_range, SYS_creat, SYS_dup, SYS_dup2, SYS_dup3, SYS_faccessat,
	SYS_faccessat2, SYS_fadvise64, SYS_fallocate, SYS_fchmod, SYS_fcntl, SYS_fdatasync, SYS_flock, SYS_fstat,
	SYS_fstatfs, SYS_fsync, SYS_ftruncate, SYS_getcwd, SYS_getdents, SYS_getdents64, SYS_ioctl, SYS_link, SYS_linkat,
	SYS_lseek, SYS_lstat, SYS_mkdir, SYS_mkdirat, SYS_mknod, SYS_mknodat, SYS_newfstatat, SYS_open, SYS_openat,
	SYS_openat2, SYS_pipe, SYS_pipe2, SYS_pread64, SYS_preadv, SYS_pwrite64, SYS_pwritev, SYS_read, SYS_readlink,
	SYS_readlinkat, SYS_readv, SYS_rename, SYS_renameat, SYS_renameat2, SYS_rmdir, SYS_sendfile, SYS_stat, SYS_statfs,
	SYS_statx, SYS_symlink, SYS_symlinkat, SYS_sync_file_range, SYS_umask, SYS_unlink, SYS_unlinkat, SYS_write, SYS_writev,
};
/*
 * By path, and not known to Landlock: with it they do nothing and succeed, as they do on the machine's own files, whose
 * modes and times no reader of a run looks at.
 */
static const int ATTRIBUTES[] = {
	SYS_chmod, SYS_fchmodat, SYS_fchmodat2, SYS_futimesat, SYS_utime, SYS_utimensat, SYS_utimes,
};
/* Refused to whoever is not root here, and so to all: the same seed gives the same bytes to each. */
static const int OWNERS[] = { SYS_chown, SYS_fchown, SYS_fchownat, SYS_lchown };
static const int REST[] = {
	/* memory */
	SYS_brk, SYS_madvise, SYS_memfd_create, SYS_mincore, SYS_mlock, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_msync,
	SYS_munlock, SYS_munmap,
	/* time */
	SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_getitimer, SYS_gettimeofday, SYS_nanosleep,
	SYS_setitimer, SYS_time, SYS_timer_create, SYS_timer_delete, SYS_timer_getoverrun, SYS_timer_gettime,
	SYS_timer_settime, SYS_timerfd_create, SYS_timerfd_gettime, SYS_timerfd_settime, SYS_times,
	/* waiting */
	SYS_epoll_create, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_wait, SYS_eventfd2, SYS_futex,
	SYS_pause, SYS_poll, SYS_ppoll, SYS_pselect6, SYS_restart_syscall, SYS_select, SYS_wait4, SYS_waitid,
	/* signals */
	SYS_kill, SYS_rt_sigaction, SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigsuspend,
	SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_signalfd, SYS_signalfd4, SYS_tgkill, SYS_tkill,
	/* itself; not its process group or session, by which it ends (supervise.c) */
	SYS_arch_prctl, SYS_capget, SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_fork, SYS_getegid, SYS_geteuid,
	SYS_getgid, SYS_getgroups, SYS_getpgid, SYS_getpgrp, SYS_getpid, SYS_getppid, SYS_getpriority, SYS_getrandom,
	SYS_getresgid, SYS_getresuid, SYS_getrlimit, SYS_getrusage, SYS_getsid, SYS_gettid, SYS_getuid, SYS_membarrier,
	SYS_personality, SYS_rseq, SYS_sched_getaffinity, SYS_sched_getparam,
	SYS_sched_getscheduler, SYS_sched_yield, SYS_seccomp, SYS_set_robust_list, SYS_set_tid_address,
	SYS_setrlimit, SYS_sysinfo, SYS_uname, SYS_vfork,
	/* descriptors from one of its processes to another */
	SYS_recvmsg, SYS_sendmsg,
};
/* What frames of a real interface go by. */
static const int PACKETS[] = {
	SYS_bind, SYS_getsockname, SYS_getsockopt, SYS_recvfrom, SYS_recvmmsg, SYS_sendmmsg, SYS_sendto, SYS_setsockopt,
	SYS_shutdown,
};
static const int TRACE[] = { SYS_ptrace };

enum {
	NEW_NAMESPACES = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
			 CLONE_NEWCGROUP,
};

static struct sock_filter program[MOST];
static int length;
static struct range {
	int first, last;
	unsigned int gives;
} calls[MOST];
static int count;

static void emit(unsigned short code, unsigned int value, int yes, int no)
{
	if (length == MOST)
		errx(CANNOT, "the filter is too long");
	program[length++] = (struct sock_filter){ code, yes, no, value };
}

static void give(unsigned int what)
{
	emit(BPF_RET | BPF_K, what, 0, 0);
}

static void load(size_t offset)
{
	emit(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

/* A tree of comparisons: a kernel with a filter of its own runs both at each system call of its programs. */
static void search(int first, int last)
{
	int middle = (first + last) / 2, jump;

	if (first > last) {
		give(SECCOMP_RET_ERRNO | ENOSYS);
		return;
	}
	jump = length;
	emit(BPF_JMP | BPF_JGE | BPF_K, calls[middle].first, 0, 0);
	search(first, middle - 1);
	if (length - jump - 1 > 255)
		errx(CANNOT, "the filter is too deep");
	program[jump].jt = length - jump - 1;
	emit(BPF_JMP | BPF_JGT | BPF_K, calls[middle].last, 1, 0);
	give(calls[middle].gives);
	search(middle + 1, last);
}

/* A pair of stream sockets: one of datagrams sends to any socket of the host that has a path, which Landlock allows. */
static void allow_pair(void)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_socketpair, 0, 7);
	load(offsetof(struct seccomp_data, args[0]));
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 4);
	load(offsetof(struct seccomp_data, args[1]));
	emit(BPF_ALU | BPF_AND | BPF_K, ~(SOCK_CLOEXEC | SOCK_NONBLOCK), 0, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 0, 1);
	give(SECCOMP_RET_ALLOW);
	give(SECCOMP_RET_ERRNO | EPERM);
}

/* Allow `call` where its first argument is `first`. */
static void allow_with(int call, unsigned int first)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
	load(offsetof(struct seccomp_data, args[0]));
	emit(BPF_JMP | BPF_JEQ | BPF_K, first, 0, 1);
	give(SECCOMP_RET_ALLOW);
	give(SECCOMP_RET_ERRNO | EPERM);
}

/* Nobody adopts another's orphans, and who ends with its parent goes on doing so. */
static void allow_prctl(void)
{
	static const int allowed[] = {
		PR_SET_NAME, PR_GET_NAME, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP, PR_SET_TSC
	};
	int jump = length;

	emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 0);
	load(offsetof(struct seccomp_data, args[0]));
	for (size_t n = 0; n < sizeof(allowed) / sizeof(*allowed); n++) {
		emit(BPF_JMP | BPF_JEQ | BPF_K, allowed[n], 0, 1);
		give(SECCOMP_RET_ALLOW);
	}
	emit(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PDEATHSIG, 0, 3);
	load(offsetof(struct seccomp_data, args[1]));
	emit(BPF_JMP | BPF_JEQ | BPF_K, SIGKILL, 0, 1);
	give(SECCOMP_RET_ALLOW);
	give(SECCOMP_RET_ERRNO | EPERM);
	program[jump].jf = length - jump - 1;
}

static int by_number(const void *one, const void *other)
{
	return ((const struct range *)one)->first - ((const struct range *)other)->first;
}

#define LET(list, gives) let(list, sizeof(list) / sizeof(*list), gives)

static void let(const int *list, size_t number, unsigned int gives)
{
	while (number--)
		calls[count++] = (struct range){ *list, *list, gives }, list++;
}

/* Neighbours that give the same become one range. */
static void join(void)
{
	int last = 0;

	qsort(calls, count, sizeof(*calls), by_number);
	for (int n = 1; n < count; n++)
		if (calls[n].first == calls[last].last + 1 && calls[n].gives == calls[last].gives)
			calls[last].last = calls[n].last;
		else
			calls[++last] = calls[n];
	count = last + 1;
}

void filter_calls(bool trace, bool packets, int abi)
{
	struct sock_fprog filter = { .filter = program };
	static const int path_truncate[] = { SYS_truncate };

	LET(FILES, SECCOMP_RET_ALLOW);
	LET(REST, SECCOMP_RET_ALLOW);
	LET(OWNERS, SECCOMP_RET_ERRNO | EPERM);
	LET(ATTRIBUTES, abi ? SECCOMP_RET_ERRNO : SECCOMP_RET_ALLOW);
	LET(path_truncate, abi == 2 ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW); /* Landlock's ABI 3 knows it */
	if (packets)
		LET(PACKETS, SECCOMP_RET_ALLOW);
	if (trace)
		LET(TRACE, SECCOMP_RET_ALLOW);
	join();

	load(offsetof(struct seccomp_data, arch));
	emit(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	give(SECCOMP_RET_ERRNO | ENOSYS);
	load(offsetof(struct seccomp_data, nr));
	emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
	load(offsetof(struct seccomp_data, args[0]));
	emit(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1);
	give(SECCOMP_RET_ERRNO | EPERM);
	give(SECCOMP_RET_ALLOW);
	allow_prctl();
	allow_with(SYS_prlimit64, 0); /* itself */
	allow_pair();
	if (packets)
		allow_with(SYS_socket, AF_PACKET);
	search(0, count - 1);
	filter.len = length;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
		err(CANNOT, "seccomp");
}

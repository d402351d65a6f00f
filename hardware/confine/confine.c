// SPDX-License-Identifier: Apache-2.0
/*
 * Starts a User-Mode Linux kernel so that a program that takes the kernel over reaches that machine's own files only.
 *
 *   confine namespaces|landlock|none [OPTION...] -- PROGRAM [ARGUMENT...]
 *
 *   --read=NAME=PATH    PATH of the host is NAME in the working directory of PROGRAM, read-only
 *   --write=NAME=PATH   the same, writable
 *   --above=NAME=PATH   the folder of all NAME/PART; without namespaces they are found by it
 *   --library=PATH      a file or folder that has the same path for PROGRAM, read-only
 *   --here=PATH         the working directory of PROGRAM, empty
 *   --env=NAME=VALUE    all that is in the environment of PROGRAM
 *   --memory=BYTES      a tmpfs of that size as `memory` (namespaces only; else give --write=memory=PATH)
 *   --user=N            become user and group N (root only)
 *   --core=N            run on this processor
 *   --parent=PID        end if this is not the parent
 *   --alive=PATH        a FIFO that is open for as long as a process of PROGRAM may live
 *   --file=BYTES        no file that PROGRAM writes becomes longer
 *   --processes=N       the user that PROGRAM is has no more processes
 *   --packets           keep CAP_NET_RAW, the network namespace and packet sockets
 *   --trace             allow ptrace, which the kernel needs with seccomp=off
 *   --random            keep the random layout of memory, which such a kernel would undo
 *
 * namespaces: own mount, pid, ipc, uts, cgroup and network namespaces, for a plain user in an own user namespace; the
 * root is a read-only tmpfs with the files above. landlock: the files above by Landlock rules (ABI 2 or later), no network, and, where the ABI has it, no
 * signals to other processes. Both: no capabilities, no_new_privs, a list of allowed system calls (filter.c); other
 * calls give ENOSYS. none: neither. In each mode PROGRAM ends with this process, all that it started ends with PROGRAM, and
 * this process ends last, as PROGRAM did (supervise.c).
 * `confine works` does nothing: it is what shows that a mode can be had here.
 */
#include "confine.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <grp.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 64, CANNOT = 125 };

/* A file or folder of the host, and its name for the program. */
struct shown {
	const char *name, *path;
	enum { READ, WRITE, ABOVE, LIBRARY } how;
	int fd;
};

static struct {
	enum { NAMESPACES, LANDLOCK, NONE } mode;
	struct shown shown[MOST];
	int count;
	const char *memory, *here, *alive;
	char *environment[MOST + 1];
	int variables;
	long user, core, parent, file, processes;
	bool packets, trace, random;
	char **program;
} options = { .user = -1, .core = -1, .parent = -1, .file = -1, .processes = -1 };

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (!*text || *end)
		errx(CANNOT, "%s: not a number", text);
	return value;
}

static const char *value_of(const char *word, const char *option)
{
	size_t length = strlen(option);

	return !strncmp(word, option, length) ? word + length : NULL;
}

static void show(const char *given, int how)
{
	char *text = strdup(given), *path = how == LIBRARY ? text : strchr(text, '=');

	if (!path || options.count == MOST)
		errx(CANNOT, "%s: not NAME=PATH, or one of more than %d", given, MOST);
	if (how == LIBRARY)
		text++;
	else
		*path++ = 0;
	options.shown[options.count++] = (struct shown){ text, path, how, -1 };
}

static void parse(char **words)
{
	const char *modes[] = { "namespaces", "landlock", "none" }, *value;

	for (options.mode = NAMESPACES; options.mode <= NONE; options.mode++)
		if (words[1] && !strcmp(words[1], modes[options.mode]))
			break;
	if (options.mode > NONE)
		errx(CANNOT, "give namespaces, landlock or none");
	for (words += 2; *words && strcmp(*words, "--"); words++) {
		if ((value = value_of(*words, "--read=")))
			show(value, READ);
		else if ((value = value_of(*words, "--write=")))
			show(value, WRITE);
		else if ((value = value_of(*words, "--above=")))
			show(value, ABOVE);
		else if ((value = value_of(*words, "--library=")))
			show(value, LIBRARY);
		else if ((value = value_of(*words, "--memory=")))
			options.memory = value;
		else if ((value = value_of(*words, "--here=")))
			options.here = value;
		else if ((value = value_of(*words, "--env=")) && options.variables < MOST)
			options.environment[options.variables++] = (char *)value;
		else if ((value = value_of(*words, "--user=")))
			options.user = number(value);
		else if ((value = value_of(*words, "--core=")))
			options.core = number(value);
		else if ((value = value_of(*words, "--parent=")))
			options.parent = number(value);
		else if ((value = value_of(*words, "--alive=")))
			options.alive = value;
		else if ((value = value_of(*words, "--file=")))
			options.file = number(value);
		else if ((value = value_of(*words, "--processes=")))
			options.processes = number(value);
		else if (!strcmp(*words, "--packets"))
			options.packets = true;
		else if (!strcmp(*words, "--trace"))
			options.trace = true;
		else if (!strcmp(*words, "--random"))
			options.random = true;
		else
			errx(CANNOT, "%s: unknown", *words);
	}
	if (!*words || !words[1])
		errx(CANNOT, "no program");
	options.program = words + 1;
}

static int proc; /* of the host: a new root has none */

static void write_own(const char *path, const char *text)
{
	int fd = openat(proc, path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd))
		err(CANNOT, "%s", path);
}

static bool capable(int capability)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	return !syscall(SYS_capget, &header, data) &&
	       data[capability / 32].effective & 1u << capability % 32;
}

/* Be root of the user namespace just entered, for who `user` and `group` outside are. */
static void map_to_root(long user, long group)
{
	char text[64];

	write_own("self/setgroups", "deny");
	snprintf(text, sizeof(text), "0 %ld 1", user);
	write_own("self/uid_map", text);
	snprintf(text, sizeof(text), "0 %ld 1", group);
	write_own("self/gid_map", text);
}

static void make_parents(const char *path)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdir(part, 0755) && errno != EEXIST)
			err(CANNOT, "%s", part);
	}
}

static void restrict_mount(int fd, const char *name, uint64_t flags)
{
	struct mount_attr attributes = { .attr_set = flags };

	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof(attributes)))
		err(CANNOT, "%s: mount_setattr", name);
}

static void bind(const struct shown *part)
{
	struct stat status;
	int fd = syscall(SYS_open_tree, AT_FDCWD, part->path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	if (fd < 0 || fstat(fd, &status))
		err(CANNOT, "%s", part->path);
	restrict_mount(fd, part->path, MOUNT_ATTR_NOSUID | (S_ISCHR(status.st_mode) ? 0 : MOUNT_ATTR_NODEV) |
					       (part->how == WRITE ? 0 : MOUNT_ATTR_RDONLY));
	make_parents(part->name);
	if (S_ISDIR(status.st_mode) ? mkdir(part->name, 0755) : mknod(part->name, S_IFREG | 0644, 0))
		err(CANNOT, "%s", part->name);
	if (syscall(SYS_move_mount, fd, "", AT_FDCWD, part->name, MOVE_MOUNT_F_EMPTY_PATH))
		err(CANNOT, "%s: move_mount", part->name);
	close(fd);
}

/* The kernel looks for three things in /proc: its folder, its own file, and what the first processor can do. */
static void imitate_proc(void)
{
	static char text[1 << 14];
	int in = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC), out;
	ssize_t length = 0, more;
	char *end;

	while (in >= 0 && length < (ssize_t)sizeof(text) - 1 && !strstr(text, "\n\n") &&
	       (more = read(in, text + length, sizeof(text) - 1 - length)) > 0)
		length += more;
	close(in);
	if ((end = strstr(text, "\n\n")))
		length = end + 2 - text;
	if (mkdir("proc", 0755) || mkdir("proc/self", 0755) || symlink("/", "proc/self/cwd") ||
	    symlink("/linux", "proc/self/exe"))
		err(CANNOT, "proc");
	out = open("proc/cpuinfo", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (out < 0 || write(out, text, length) != length || close(out))
		err(CANNOT, "proc/cpuinfo");
}

static const struct shown NOTHING = { "dev/null", "/dev/null", WRITE, -1 };

static void enter_namespaces(void)
{
	int spaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
	uid_t user = geteuid();
	gid_t group = getegid();
	char here[PATH_MAX], limits[64];
	bool privileged = capable(CAP_SYS_ADMIN);

	if (!getcwd(here, sizeof(here)))
		err(CANNOT, "getcwd");
	if (unshare(spaces | (privileged ? 0 : CLONE_NEWUSER) | (options.packets ? 0 : CLONE_NEWNET)))
		err(CANNOT, "namespaces are refused");
	if (!privileged)
		map_to_root(user, group);
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		err(CANNOT, "mounts are refused");
	if (mount("sojourn", here, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=256k") || chdir(here))
		err(CANNOT, "%s: tmpfs is refused", here);
	for (int n = 0; n < options.count; n++)
		if (options.shown[n].how != ABOVE)
			bind(options.shown + n);
	bind(&NOTHING);
	if (options.memory) {
		snprintf(limits, sizeof(limits), "mode=0777,nr_inodes=64,size=%s", options.memory);
		if (mkdir("memory", 0755) || mount("sojourn-memory", "memory", "tmpfs", MS_NOSUID | MS_NODEV, limits))
			err(CANNOT, "memory");
	}
	imitate_proc();
	if (syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
		err(CANNOT, "pivot_root");
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_RDONLY };
	if (syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attributes, sizeof(attributes)))
		err(CANNOT, "mount_setattr");
}

/* Links in the working directory, by descriptors: who the program will be may not be allowed to walk there. */
static void link_here(void)
{
	char link[64];

	for (int n = 0; n < options.count; n++) {
		struct shown *part = options.shown + n;

		part->fd = open(part->path, O_PATH);
		if (part->fd < 0)
			err(CANNOT, "%s", part->path);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", part->fd);
		if (part->how == LIBRARY || strchr(part->name, '/'))
			continue;
		unlink(part->name); /* of a machine that was started here before */
		if (symlink(link, part->name))
			err(CANNOT, "%s", part->name);
	}
}

static void set_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	for (int half = 0; half < 2; half++) {
		data[half].effective = data[half].permitted = data[half].inheritable = kept >> 32 * half;
	}
	if (syscall(SYS_capset, &header, data))
		err(CANNOT, "capset");
}

static void drop_privileges(void)
{
	uint64_t kept = options.packets ? 1ull << CAP_NET_RAW : 0;

	/* Only who may drop from the bounding set may; for others no_new_privs does. */
	for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
		if (!(kept >> capability & 1) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) && errno != EPERM)
			err(CANNOT, "PR_CAPBSET_DROP");
	if (options.user >= 0) {
		prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
		if (setgroups(0, NULL) || setresgid(options.user, options.user, options.user) ||
		    setresuid(options.user, options.user, options.user))
			err(CANNOT, "user %ld", options.user);
	}
	set_capabilities(kept);
	if (kept)
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err(CANNOT, "no_new_privs");
}

/* No more than the user has already. */
static void limit_processes(void)
{
	struct rlimit now, wanted = { options.processes, options.processes };

	if (getrlimit(RLIMIT_NPROC, &now))
		err(CANNOT, "RLIMIT_NPROC");
	if (now.rlim_max < wanted.rlim_max)
		wanted.rlim_max = now.rlim_max;
	if (now.rlim_cur < wanted.rlim_cur)
		wanted.rlim_cur = now.rlim_cur;
	if (setrlimit(RLIMIT_NPROC, &wanted))
		err(CANNOT, "RLIMIT_NPROC");
}

/* Where memory is used up, whatever the machine's programs take there. Refused in some containers. */
static void end_first(void)
{
	int fd = openat(proc, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && (write(fd, "500", 3) < 0 || close(fd)))
		warn("oom_score_adj");
}

static void end_with_parent(void)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		err(CANNOT, "PR_SET_PDEATHSIG");
	if (options.parent >= 0 && getppid() != options.parent)
		_exit(CANNOT);
}

int main(int count, char **words)
{
	struct rlimit none = { 0, 0 };
	int abi = 0;

	if (count == 2 && !strcmp(words[1], "works"))
		return 0;
	parse(words);
	end_with_parent();
	proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	end_first();
	if (options.alive && open(options.alive, O_RDWR | O_CLOEXEC) < 0) /* so it waits for no reader */
		err(CANNOT, "%s", options.alive);
	if (options.here && chdir(options.here))
		err(CANNOT, "%s", options.here);
	if (options.core >= 0) {
		cpu_set_t *set = CPU_ALLOC(options.core + 1);
		size_t size = CPU_ALLOC_SIZE(options.core + 1);

		CPU_ZERO_S(size, set);
		CPU_SET_S(options.core, size, set);
		if (sched_setaffinity(0, size, set))
			err(CANNOT, "processor %ld", options.core);
	}
	if (options.mode != NONE) {
		setrlimit(RLIMIT_CORE, &none);
		/* Without it the kernel starts itself again; refused in some containers. */
		if (!options.random)
			personality(PER_LINUX | ADDR_NO_RANDOMIZE);
	}
	if (options.mode == NAMESPACES)
		enter_namespaces();
	supervise(options.mode == NAMESPACES, proc);
	if (options.mode != NAMESPACES)
		link_here();
	if (options.mode != NONE)
		drop_privileges();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) /* forgotten where the user changed */
		err(CANNOT, "PR_SET_PDEATHSIG");
	if (options.file >= 0 && setrlimit(RLIMIT_FSIZE, &(struct rlimit){ options.file, options.file }))
		err(CANNOT, "RLIMIT_FSIZE");
	if (options.mode != NONE && options.processes >= 0)
		limit_processes();
	if (options.mode == LANDLOCK) {
		abi = landlock_abi();
		int rules = landlock_rules(abi);
		landlock_allow(abi, rules, NOTHING.path, -1, true);
		landlock_allow(abi, rules, "/proc/cpuinfo", -1, false);
		for (int n = 0; n < options.count; n++)
			if (options.shown[n].how != ABOVE)
				landlock_allow(abi, rules, options.shown[n].path, options.shown[n].fd, options.shown[n].how == WRITE);
		landlock_enforce(rules);
	}
	if (options.mode != NONE)
		filter_calls(options.trace, options.packets, abi);
	execve(options.program[0], options.program, options.environment);
	err(CANNOT, "%s", options.program[0]);
}

// SPDX-License-Identifier: Apache-2.0
/* Landlock's rules by system calls: the headers of Debian 12 have ABI 2 only. */
#include "confine.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	CREATE = 444,
	ADD = 445,
	RESTRICT = 446, /* numbers of the system calls */
	LEAST_ABI = 2,
	CANNOT = 125,
};

#define EXECUTE (1ull << 0)
#define WRITE_FILE (1ull << 1)
#define READ_FILE (1ull << 2)
#define READ_DIR (1ull << 3)
#define MAKE_CHAR (1ull << 6)
#define MAKE_BLOCK (1ull << 11)
#define TRUNCATE (1ull << 14)
#define IOCTL_DEV (1ull << 15)

/* How many rights on files each ABI knows: REFER since 2, TRUNCATE since 3, IOCTL_DEV since 5. */
static const int RIGHTS[] = { 0, 13, 14, 15, 15, 16 };

static uint64_t all_rights(int abi)
{
	return (1ull << RIGHTS[abi > 5 ? 5 : abi]) - 1;
}

int landlock_abi(void)
{
	long abi = syscall(CREATE, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);

	if (abi < LEAST_ABI)
		errx(CANNOT, "Landlock: %s", abi < 0 ? "not in this kernel, or off" : "older than ABI 2");
	return abi;
}

int landlock_rules(int abi)
{
	struct {
		uint64_t files, ports, scopes;
	} handled = {
		.files = all_rights(abi),
		.ports = 3, /* TCP: bind, connect */
		.scopes = 3, /* abstract Unix sockets, signals */
	};
	long rules = syscall(CREATE, &handled, abi >= 6 ? 24 : abi >= 4 ? 16 : 8, 0);

	if (rules < 0)
		err(CANNOT, "Landlock: rules");
	return rules;
}

void landlock_allow(int abi, int rules, const char *path, int fd, bool writable)
{
	uint64_t read = EXECUTE | READ_FILE | READ_DIR;
	struct {
		uint64_t allowed;
		int32_t parent;
	} __attribute__((packed)) rule = { .parent = fd < 0 ? open(path, O_PATH | O_CLOEXEC) : fd };
	struct stat status;

	if (rule.parent < 0 || fstat(rule.parent, &status))
		err(CANNOT, "%s", path);
	rule.allowed = writable ? all_rights(abi) & ~(EXECUTE | MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV) : read;
	if (!S_ISDIR(status.st_mode))
		rule.allowed &= EXECUTE | WRITE_FILE | READ_FILE | (abi >= 3 ? TRUNCATE : 0);
	if (syscall(ADD, rules, 1 /* LANDLOCK_RULE_PATH_BENEATH */, &rule, 0))
		err(CANNOT, "Landlock: %s", path);
}

void landlock_enforce(int rules)
{
	if (syscall(RESTRICT, rules, 0))
		err(CANNOT, "Landlock");
	close(rules);
}

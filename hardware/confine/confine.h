/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* landlock.c: each ends the process where the kernel refuses. */
int landlock_abi(void);
int landlock_rules(int abi);
void landlock_allow(int abi, int rules, const char *path, int fd, bool writable);
void landlock_enforce(int rules);

/* supervise.c: fork; what returns is the program's process, and the parents end all that comes of it. `proc`: the host's. */
void supervise(bool namespace, int proc);

/* filter.c: allow a kernel's system calls; `abi` is Landlock's where its rules are the only wall, else 0. */
void filter_calls(bool trace, bool packets, int abi);

// SPDX-License-Identifier: Apache-2.0
/* System calls that wait to be made by one, which the kernel of the guest takes (hardware/kernel/patches). */
#include "calls.h"

#include <string.h>
#include <unistd.h>

enum { MANY_CALLS = 1000 };

static struct call {
	unsigned long number, arguments[6];
	long result;
} calls[512];
static const struct watch *callers[COUNT(calls)]; /* who must not fail; NULL: may */
static int call_count;

void later(const struct watch *caller, unsigned long number, const unsigned long arguments[6])
{
	if (call_count == COUNT(calls))
		die("too many calls");
	callers[call_count] = caller;
	calls[call_count].number = number;
	memcpy(calls[call_count++].arguments, arguments, sizeof(calls->arguments));
}

/* Returns the last one's result. */
long make_calls(void)
{
	int count = call_count;

	call_count = 0;
	if (syscall(MANY_CALLS, calls, count) != count)
		die("the guest's kernel does not take many calls at once");
	for (int n = 0; n < count; n++) {
		if (!callers[n] || calls[n].result >= 0)
			continue;
		errno = -calls[n].result;
		check(callers[n], callers[n]->kind == TIMER ? "clock" : "flow", -1);
	}
	return count ? calls[count - 1].result : 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Many system calls by one: each hands over between two processes of the host and back, which takes longer than most
 * calls do. They are made in order, each whatever the one before has given.
 */
#define UM_MANY_CALLS 1000

struct um_call {
	unsigned long number, arguments[6];
	long result;
};

static long um_many_calls(struct um_call __user *calls, unsigned long count)
{
	struct um_call call;
	unsigned long n, *a = call.arguments;

	for (n = 0; n < count; n++) {
		if (copy_from_user(&call, calls + n, sizeof(call)))
			return -EFAULT;
		call.result = -ENOSYS;
		if (call.number < __NR_syscalls)
			call.result = (*sys_call_table[call.number])(a[0], a[1], a[2], a[3], a[4], a[5]);
		if (call.result <= -ERESTARTSYS && call.result >= -ERESTART_RESTARTBLOCK)
			call.result = -EINTR;
		if (IS_ERR_VALUE(call.result))
			um_ndelay(50); /* as where it is alone */
		if (put_user(call.result, &calls[n].result))
			return -EFAULT;
	}
	return n;
}


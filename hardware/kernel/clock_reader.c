// SPDX-License-Identifier: GPL-2.0
/* As in vma.c: the page before ours. */
struct um_clock {
	unsigned long long monotonic, realtime;
	unsigned int active, readings;
};

/* Nanoseconds of a clock; 0: ask the kernel. */
static inline unsigned long long um_clock_read(clockid_t clock)
{
	volatile struct um_clock *page;
	unsigned long here;

	asm("lea 0(%%rip), %0" : "=r" (here));
	page = (volatile struct um_clock *)((here & ~4095UL) - 4096);
	if (!page->active || (clock != 0 && clock != 1) || !(++page->readings % 64))
		return 0;
	return clock ? page->monotonic : page->realtime;
}


// SPDX-License-Identifier: GPL-2.0
/*
 * The clock of simulated time for all programs to read, in a page of its own before the vDSO's: it stands still while
 * a program runs, so that reading it needs no system call. Of 64 readings one asks the kernel, where it moves the
 * clock: loops that wait for time to pass end. The same struct stands in um_vdso.c.
 */
struct um_clock {
	unsigned long long monotonic, realtime;
	unsigned int active, readings;
};
static struct page *um_clock;

void um_clock_update(void);
void um_clock_update(void)
{
	struct um_clock *clock = page_address(um_clock);
	unsigned long flags;

	if (time_travel_mode != TT_MODE_INFCPU)
		return;
	local_irq_save(flags); /* so that reading it here does not move it */
	clock->monotonic = ktime_get_ns();
	clock->realtime = ktime_get_real_ns();
	clock->active = 1;
	local_irq_restore(flags);
}

static int install_um_clock(struct mm_struct *mm)
{
	static struct vm_special_mapping mapping = { .name = "[vvar]", .pages = &um_clock };

	return PTR_ERR_OR_ZERO(_install_special_mapping(mm, um_vdso_addr - PAGE_SIZE, PAGE_SIZE,
		VM_READ | VM_WRITE | VM_SHARED | VM_MAYREAD | VM_MAYWRITE | VM_MAYSHARE, &mapping));
}


// SPDX-License-Identifier: GPL-2.0
/*
 * With nobody outside to ask, idle time goes straight from event to event until there is something to run, and a clock
 * that is read goes on to before the next.
 */
static void time_travel_interrupt(struct uml_pt_regs *regs);
static void time_travel_oneshot_timer(struct time_travel_event *e);

static void time_travel_idle(void)
{
	static struct uml_pt_regs none;

	do {
		struct time_travel_event *e = time_travel_first_event();

		if (!e)
			panic("The system was going to sleep forever, aborting");
		time_travel_set_time(e->time);
		time_travel_del_event(e);
		if (e->fn == time_travel_oneshot_timer) {
			if (tt_extra_sched_jiffies > 0)
				tt_extra_sched_jiffies -= 1;
			time_travel_interrupt(&none);
		} else {
			time_travel_deliver_event(e);
		}
		local_irq_enable(); /* for what waits */
		local_irq_disable();
	} while (!need_resched());
}

static bool time_travel_goes_on(unsigned long long ns)
{
	struct time_travel_event *e = time_travel_first_event();

	if (time_travel_mode != TT_MODE_INFCPU || (e && e->time <= time_travel_time + ns))
		return false;
	time_travel_set_time(time_travel_time + ns);
	return true;
}

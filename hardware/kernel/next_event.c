// SPDX-License-Identifier: GPL-2.0
/*
 * With nobody outside to ask, idle time goes straight to the next event, and a clock that is read goes on to before it.
 */
static void time_travel_next(void)
{
	struct time_travel_event *e = time_travel_first_event();

	if (!e)
		panic("The system was going to sleep forever, aborting");
	time_travel_set_time(e->time);
	time_travel_del_event(e);
	time_travel_deliver_event(e);
}

static bool time_travel_goes_on(unsigned long long ns)
{
	struct time_travel_event *e = time_travel_first_event();

	if (time_travel_mode != TT_MODE_INFCPU || (e && e->time <= time_travel_time + ns))
		return false;
	time_travel_set_time(time_travel_time + ns);
	return true;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated time has one interrupt: no descriptor to look up, and no entropy in which instruction it came after, which
 * would make a seed's run depend on the compiler.
 */
static void time_travel_interrupt(struct uml_pt_regs *regs)
{
	struct clock_event_device *evt = &timer_clockevent[raw_smp_processor_id()];
	struct pt_regs *before = set_irq_regs((struct pt_regs *)regs);

	irq_enter();
	evt->event_handler(evt);
	irq_exit();
	set_irq_regs(before);
}

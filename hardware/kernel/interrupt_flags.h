/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether interrupts are on, read and set without a call: every packet does so some hundred times.
 */
#include <linux/types.h>

extern __thread int signals_enabled;
extern __thread unsigned int signals_pending;
extern struct list_head time_travel_irqs;
void unblock_signals(void);

#define arch_local_save_flags arch_local_save_flags
static inline unsigned long arch_local_save_flags(void)
{
	return signals_enabled;
}

#define arch_local_irq_disable arch_local_irq_disable
static inline void arch_local_irq_disable(void)
{
	signals_enabled = 0;
	barrier();
}

#define arch_local_irq_enable arch_local_irq_enable
static inline void arch_local_irq_enable(void)
{
	if (signals_enabled)
		return;
	barrier();
	signals_enabled = 1;
	barrier();
	/* A signal that comes now is handled at once; one that came before waits for this. */
	if (unlikely(signals_pending || time_travel_irqs.next != &time_travel_irqs)) {
		signals_enabled = 0;
		barrier();
		unblock_signals();
	}
}

#define arch_local_irq_restore arch_local_irq_restore
static inline void arch_local_irq_restore(unsigned long flags)
{
	if (flags)
		arch_local_irq_enable();
	else
		arch_local_irq_disable();
}

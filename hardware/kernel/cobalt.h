/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CoDel (RFC 8289) in COBALT's form: below the target the signalling rate decays step
 * by step instead of being forgotten. And BLUE (Feng et al., 1999) for what overflows.
 */
#ifndef SOJOURN_COBALT_H
#define SOJOURN_COBALT_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#define COBALT_MOST	0xffffU		/* whose 2^16-fold is 32 bits */
#define BLUE_UP		(1U << 24)	/* 1/256 for each overflow */
#define BLUE_DOWN	(1U << 20)	/* 1/4096 each time that the queue is empty */

struct cobalt {
	u64	next;		/* ns: of the next signal, or of the next step of the decay */
	u32	count;		/* signals come each interval / sqrt(count) */
	bool	over;
	bool	counted;	/* count has changed since it is there */
};

static inline u64 cobalt_gap(u64 interval, u32 count)
{
	return div_u64(interval << 8, int_sqrt(max(count, 1U) << 16));
}

/* What leaves at `now` (ns) did not wait: the rate decays step by step. */
static inline void cobalt_decays(struct cobalt *codel, u64 now, u64 interval)
{
	while (codel->count && now >= codel->next) {
		codel->count--;
		codel->counted = true;
		codel->next += cobalt_gap(interval, codel->count);
	}
	if (codel->over)
		codel->next = now + cobalt_gap(interval, codel->count);
	codel->over = false;
}

/*
 * Whether the packet that leaves at `now` (ns) is to be signalled; `over`: it waited longer than the target.
 * What is new, or none of which came for an interval, is not given another to come down.
 */
static inline bool cobalt_signals(struct cobalt *codel, u64 now, u64 interval, bool over)
{
	bool late = codel->next < now;

	if (!over) {
		cobalt_decays(codel, now, interval);
		if (!codel->count)
			codel->next = now + interval;
		return false;
	}
	if (!codel->over) {
		codel->over = true;
		codel->count = max(codel->count, 1U);
		codel->next = now;
		if (codel->counted && !late)
			codel->next += cobalt_gap(interval, codel->count);
		return false;
	}
	if (now < codel->next)
		return false;
	codel->counted = true;
	codel->count = min(codel->count + 1, COBALT_MOST);
	codel->next = max(codel->next + cobalt_gap(interval, codel->count), now);
	return true;
}

#endif

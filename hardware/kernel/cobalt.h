/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CoDel (RFC 8289) in COBALT's form: below the target the signalling rate decays step
 * by step instead of being forgotten. And BLUE (Feng et al., 1999) for what answers no
 * signal: of a queue that overflows, or of a flow that waits for long.
 */
#ifndef SOJOURN_COBALT_H
#define SOJOURN_COBALT_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#define COBALT_MOST	0xffffU		/* whose 2^16-fold is 32 bits */
#define BLUE_UP		(1U << 24)	/* 1/256 for each overflow; a flow's own: each target */
#define BLUE_DOWN	(1U << 20)	/* 1/4096 each time that the queue, or the flow, has nothing waiting */
#define BLUE_AFTER	4		/* intervals that a packet waits, where each flow has its own */

struct cobalt {
	u64	next;		/* ns: of the next signal, or of the next step of the decay */
	u32	count;		/* signals come each interval / sqrt(count) */
	bool	over;
	bool	counted;	/* count has changed since it is there */
};

/* What a queue with one for each flow keeps of it. */
struct flow_aqm {
	struct cobalt ce, sce;
	u64	blue_since;	/* ns: when `blue` was last changed */
	u32	blue;		/* probability of a drop, 2^32 = 1 */
};

/* By what it is judged, in ns; without SCE its interval is 0. */
struct flow_limits {
	u64	target, interval, sce_interval;
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
 * The flow that is new, or idle for longer than an interval, is signalled with its next packet, not an interval later.
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

/*
 * Whether the packet that leaves at `now` (ns) is to be marked SCE; `over`: it waited longer than half the target.
 * Due until cobalt_marked() says that a packet took it. Of the time to the next mark, or step of the decay, as much
 * is left after a change between the two as had gone by before.
 */
static inline bool cobalt_marks(struct cobalt *codel, u64 now, u64 interval, bool over)
{
	if (over != codel->over) {
		u64 gap = codel->counted ? cobalt_gap(interval, codel->count) : 0;
		u64 left = codel->next > now ? codel->next - now : 0;

		codel->over = over;
		codel->count = max(codel->count, 1U);
		codel->next = now + gap - min(left, gap);
		return false;
	}
	if (!over)
		cobalt_decays(codel, now, interval);
	return over && now >= codel->next;
}

static inline void cobalt_marked(struct cobalt *codel, u64 interval)
{
	codel->counted = true;
	codel->count = min(codel->count + 1, COBALT_MOST);
	codel->next += cobalt_gap(interval, codel->count);
}

static inline void cobalt_is_due(struct cobalt *codel, u64 now)
{
	codel->over = true;
	codel->count = max(codel->count, 1U);
	codel->next = min(codel->next, now);
}

/* What leaves at `now` (ns) waits far longer than its flow was told to: both signals are due, and drops come. */
static inline void flow_aqm_overdue(struct flow_aqm *aqm, u64 now, const struct flow_limits *limits)
{
	if (now - aqm->blue_since > limits->target) {
		aqm->blue = min_t(u64, (u64)aqm->blue + BLUE_UP, U32_MAX);
		aqm->blue_since = now;
	}
	cobalt_is_due(&aqm->ce, now);
	cobalt_is_due(&aqm->sce, now);
}

/* A packet of the flow leaves at `now` (ns) and did not wait. */
static inline void flow_aqm_idle(struct flow_aqm *aqm, u64 now, const struct flow_limits *limits)
{
	if (aqm->blue && now - aqm->blue_since > limits->target) {
		aqm->blue -= min(aqm->blue, BLUE_DOWN);
		aqm->blue_since = now;
	}
	cobalt_decays(&aqm->ce, now, limits->interval);
	if (limits->sce_interval)
		cobalt_marks(&aqm->sce, now, limits->sce_interval, false);
}

#endif

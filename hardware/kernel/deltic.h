/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The control law of DelTiC (Delay Time Control), from "The Tao of DelTiC" (Morton, 2024):
 * a delta-sigma controller of the sojourn time whose output is the frequency of an
 * oscillator, each beat of which is a signal. Its one parameter is a target T; the
 * oscillator's unit is the frequency 1/T. For each packet, times in s,
 *
 *	level += ((sojourn - T) * interval + sojourn - sojourn of the packet before) / T
 *	phase += level * interval / T
 *
 * The level is never less than 0, and where it would be the phase begins anew. No beat
 * comes below half of T.
 */
#ifndef SOJOURN_DELTIC_H
#define SOJOURN_DELTIC_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#define DELTIC_ONE		(1LL << 24)	/* of level and phase */
#define DELTIC_MOST		(1ULL << 40)	/* level: 2^16 beats in T */
#define DELTIC_MOST_SOJOURN	(1ULL << 32)	/* ns; so that no product leaves 64 bits */
#define DELTIC_MOST_TARGET_US	4000000U
#define DELTIC_MOST_INTERVAL	((u64)NSEC_PER_SEC)

struct deltic {
	u64	target;		/* ns */
	u64	level, phase;	/* DELTIC_ONE = 1 */
};

/*
 * Whether a packet is to be signalled. `sojourn` and `delta`, what it is more than that of the packet before, are of no more
 * than DELTIC_MOST_SOJOURN, `interval` since that packet left of no more than DELTIC_MOST_INTERVAL; all in ns.
 */
static inline bool deltic_signals(struct deltic *law, u64 sojourn, s64 delta, u64 interval)
{
	s64 sigma, change;

	/* The queue must have been empty. */
	if (interval == DELTIC_MOST_INTERVAL && sojourn < law->target)
		law->level = interval = 0;
	sigma = div_s64(((s64)sojourn - (s64)law->target) * (s64)interval, NSEC_PER_SEC);
	change = div64_s64((sigma + delta) * DELTIC_ONE, law->target);
	if (change < 0 && law->level < (u64)-change)
		law->level = law->phase = 0;
	else
		law->level = min(law->level + change, DELTIC_MOST);
	if (sojourn < law->target / 2)
		return false;
	law->phase += mul_u64_u64_div_u64(law->level, interval, law->target);
	if (law->phase < DELTIC_ONE)
		return false;
	law->phase -= DELTIC_ONE;
	if (law->phase >= DELTIC_ONE) {
		/* More beats than packets: the level is too high, and those beats are not made up for. */
		law->level -= law->level / 16;
		law->phase %= DELTIC_ONE;
	}
	return true;
}

/*
 * A moving average (1 s) of the intervals between packets that leave a queue that is not empty, each weighted by its
 * length: the time of a packet on the wire where they leave evenly, that between bursts where they leave in bursts. Of no
 * more than DELTIC_MOST_INTERVAL, as `interval` is; ns.
 */
static inline u64 deltic_jitter(u64 jitter, u64 interval)
{
	return div_u64(interval * interval + jitter * (NSEC_PER_SEC - interval), NSEC_PER_SEC);
}

#endif

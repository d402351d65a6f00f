/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ramp of Some Congestion Experienced (draft-morton-tsvwg-sce): ECT(0) packets
 * become ECT(1) with a probability that grows with their sojourn time.
 *
 * It rises from 0 to 1 over half of CoDel's target T. It begins at
 *
 *	T/2 (1 + (n - 1) / (n + 6))
 *
 * that is at T/2 for n = 1 ("sce"), half way to T for n = 8 and at T for n = 1024
 * but for 0.7 % of T/2 ("sce-single" is at T exactly). The description has these
 * three points ("sce-thresh n"); the curve through them is ours.
 */
#ifndef SOJOURN_SCE_RAMP_H
#define SOJOURN_SCE_RAMP_H

#include <linux/math64.h>
#include <linux/random.h>
#include <net/inet_ecn.h>

#include "sce.h"

/* Marks a packet that has waited `sojourn` when the draw says so; `target` is in the same unit. */
static inline bool sce_mark(struct sk_buff *skb, u32 ramp, u64 sojourn, u64 target)
{
	u64 half = max_t(u64, target / 2, 1), start;

	if (!ramp)
		return false;
	start = half + (ramp == SCE_SINGLE ? half : div_u64(half * (ramp - 1), ramp + 6));
	if (sojourn <= start)
		return false;
	if (sojourn - start < half && get_random_u32() >= mul_u64_u64_div_u64(sojourn - start, 1ULL << 32, half))
		return false;
	return INET_ECN_set_ect1(skb);
}

#endif

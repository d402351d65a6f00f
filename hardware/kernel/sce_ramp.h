/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ramp of Some Congestion Experienced (draft-morton-tsvwg-sce): ECT(0) packets
 * become ECT(1) with a probability that grows with their sojourn time.
 *
 * With n ("sce-thresh n"; "sce" is n = 1) and CoDel's target T it rises from 0 at T/2
 * to 1/n at T, and from there to 1 at 2 T. Of "sce-single" only the second slope is
 * left, from 0 at T on. As the kernel of the SCE project has it.
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
	u64 half = max_t(u64, target / 2, 1), knee, chance;

	if (!ramp || sojourn <= half)
		return false;
	knee = ramp == SCE_SINGLE ? 0 : div_u64(1ULL << 32, ramp);
	if (sojourn <= 2 * half)
		chance = mul_u64_u64_div_u64(sojourn - half, knee, half);
	else
		chance = knee + mul_u64_u64_div_u64(sojourn - 2 * half, (1ULL << 32) - knee, 2 * half);
	if (get_random_u32() >= chance)
		return false;
	return INET_ECN_set_ect1(skb);
}

#endif

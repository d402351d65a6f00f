/* SPDX-License-Identifier: GPL-2.0 */
/* What sch_dualpi2_qprot.c and tc's q_dualpi2_qprot.c have in common. */
#ifndef SOJOURN_DUALPI2_QPROT_H
#define SOJOURN_DUALPI2_QPROT_H

#include <linux/types.h>

enum {
	TCA_QPROT_UNSPEC,
	TCA_QPROT_RATE64,	/* bytes/s */
	TCA_QPROT_PAD,
	TCA_QPROT_LIMIT,	/* packets in both queues */
	TCA_QPROT_MAX_TH,	/* us */
	TCA_QPROT_LG_RANGE,
	TCA_QPROT_CRITICAL_QL,	/* us */
	TCA_QPROT_CRITICAL_SCORE, /* us */
	TCA_QPROT_LG_AGING,
	TCA_QPROT_PROTECT,	/* whether packets are sanctioned */
	__TCA_QPROT_MAX
};
#define TCA_QPROT_MAX (__TCA_QPROT_MAX - 1)

struct tc_qprot_xstats {
	__u64	sanctioned;	/* packets for L that went to C */
	__u32	sanctioned_flows;
	__u32	in_dregs;	/* packets for L whose flow had no bucket of its own */
	__u32	packets_in_l, packets_in_c;
	__u32	nqb;		/* packets for L by their DSCP */
	__u32	ecn_mark;	/* all CE marks */
	__u32	native_mark;	/* by L's ramp */
	__u32	delay_l, delay_c; /* us, of the heads */
	__u32	prob;		/* of the PI controller, 2^32 - 1 = 1 */
};

#endif

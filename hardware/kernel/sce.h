/* SPDX-License-Identifier: GPL-2.0 */
/* What our queues and tc (tc_sce.c) tell each other: attributes of TCA_OPTIONS, and statistics. */
#ifndef SOJOURN_SCE_H
#define SOJOURN_SCE_H

#include <linux/types.h>

/* Of cake; above all that it has, so that new ones of its own do not move them. */
#define TCA_CAKE_SCE			64	/* u32, as TCA_CNQ_SCE */
#define TCA_CAKE_STATS_SCE_MARKED	64	/* u32, packets */

#define SCE_SINGLE	1024U	/* the ramp begins at the target */

/* cnq_cobalt, cnq_codel_af, lfq_cobalt, twin_codel_af */
enum {
	TCA_CNQ_UNSPEC,
	TCA_CNQ_PAD,
	TCA_CNQ_RATE64,		/* u64, byte/s; 0: unlimited */
	TCA_CNQ_TARGET,		/* u32, us */
	TCA_CNQ_INTERVAL,	/* u32, us */
	TCA_CNQ_LIMIT,		/* u32, packets */
	TCA_CNQ_SCE,		/* u32: 0 no SCE, n = 1 to 1024: sce_ramp.h, or of a flow's own AQM CE's interval / n */
	__TCA_CNQ_MAX
};
#define TCA_CNQ_MAX (__TCA_CNQ_MAX - 1)

struct tc_cnq_xstats {
	__u32 ecn_mark;		/* packets marked CE */
	__u32 sce_mark;		/* packets marked SCE: ECT(0) to ECT(1) */
	__u32 aqm_drop;		/* packets dropped in place of a mark */
	__u32 drop_overlimit;
	__u32 sparse;		/* packets that entered the sparse queue */
	__u32 flows;		/* flows with packets in the bulk queue now */
	__u32 delay_us;		/* how long the last packet of the bulk queue waited */
	__u32 second;		/* packets that entered the second pair of queues */
};

enum {
	TCA_DELTIC_UNSPEC,
	TCA_DELTIC_TARGET,	/* u32, us: of CE */
	TCA_DELTIC_SCE_TARGET,	/* u32, us */
	TCA_DELTIC_DROP_TARGET,	/* u32, us */
	TCA_DELTIC_LIMIT,	/* u32, packets */
	TCA_DELTIC_SCE,		/* u32: 1 marks SCE, 0 does not */
	__TCA_DELTIC_MAX
};
#define TCA_DELTIC_MAX (__TCA_DELTIC_MAX - 1)

struct tc_deltic_xstats {
	__u32 ecn_mark;		/* packets marked CE */
	__u32 sce_mark;		/* packets marked SCE: ECT(0) to ECT(1) */
	__u32 aqm_drop;		/* packets dropped in place of a mark, or by the third law */
	__u32 drop_overlimit;
	__u32 delay_us;		/* how long the last packet waited */
	__u32 jitter_us;	/* how much of that is taken for the link's jitter */
};

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* What sch_step.c and tc (q_step.c) tell each other. */
#ifndef STEP_H
#define STEP_H

#include <linux/types.h>

enum {
	TCA_STEP_UNSPEC,
	TCA_STEP_LIMIT,		/* u32, packets */
	TCA_STEP_THRESHOLD,	/* u32, us */
	__TCA_STEP_MAX
};
#define TCA_STEP_MAX (__TCA_STEP_MAX - 1)

struct tc_step_xstats {
	__u32 ecn_mark;		/* packets marked CE */
};

#endif

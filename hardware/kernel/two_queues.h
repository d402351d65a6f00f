/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Cheap Nasty Queueing and Lightweight Fair Queueing have in common: a sparse queue
 * with strict priority, a bulk queue behind it with an AQM, buckets of flows, a shaper,
 * tc's words (sce.h). They differ in who is sparse and which bulk packet is next, and in
 * whether there are two such pairs of queues.
 */
#ifndef SOJOURN_TWO_QUEUES_H
#define SOJOURN_TWO_QUEUES_H

#include <linux/skbuff.h>
#include <net/pkt_sched.h>

#include "cobalt.h"
#include "sce.h"

struct flow_bucket {
	u32	bytes;		/* in the bulk queue */
	u32	packets;	/* in both queues */
	struct flow_aqm aqm;	/* where each has its own */
	bool	ghost;		/* CNQ: of its last first one, in the bulk queue */
	s32	credit;		/* LFQ: bytes that are left of its turns */
	u32	turn;		/* LFQ: the last round in which it had one */
};

/* What a first packet leaves in the bulk queue, where it would have been: its flow waits for that to go. */
struct ghost {
	u32	before;		/* the bulk packet that it is before, counted as bulk_out */
	u32	bucket;
};

struct two_queues {
	struct sk_buff_head sparse, bulk;
	struct flow_bucket *buckets;
	struct flow_limits limits;
	u32	bulk_bytes;
	u32	bulk_out;	/* packets that ever left the bulk queue */
	u32	flows;		/* with bulk packets */
	struct ghost *ghosts;	/* CNQ: a ring of those in the bulk queue, at most one a bucket */
	u32	ghosts_in, ghosts_out;
	u32	sharing;	/* flows with bulk packets and no ghost */
	u32	debt;		/* of two pairs: turns that it owes the other */
	struct sk_buff *scan;	/* LFQ: flows of the bulk packets before it have had their turn; NULL: the first */
	u32	round;		/* LFQ */
	u32	quantum;	/* LFQ: bytes of a turn, no less than any packet */
};

/* Who goes first. */
struct queue_order {
	/* Whether a packet that comes has priority, none of its flow waiting. */
	bool (*sparse)(struct two_queues *q, struct flow_bucket *flow);
	/* The next of the bulk queue, which is not empty. */
	struct sk_buff *(*next)(struct two_queues *q);
	/* A packet of either queue goes out; NULL where none keeps accounts of that. */
	void (*served)(struct two_queues *q, struct flow_bucket *flow, u32 bytes);
	/* Whether a packet belongs in the second pair of queues, that of low delay; NULL where there is none. */
	bool (*second)(struct sk_buff *skb);
	bool own_aqm;		/* each flow, and SCE by a CoDel */
	bool af;		/* with approximate fairness */
	u32 sce;		/* where tc says nothing of it */
};

/* The discipline: a shaper of one pair of queues, or of two. */
struct queue_pairs {
	struct two_queues pair[2];
	const struct queue_order *order;
	struct cobalt codel;	/* of all flows, where these have none */
	u32	blue;		/* likewise: probability of a drop, 2^32 = 1 */
	struct qdisc_watchdog watchdog;
	u64	rate;		/* byte/s; 0: unlimited */
	u64	ready;		/* ns: when the link may carry the next packet */
	u32	sce;
	u32	visited;	/* the bucket that was looked at last, where each flow has an AQM */
	struct tc_cnq_xstats stats;
};

extern const struct Qdisc_ops two_queues_ops;
int two_queues_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack,
		    const struct queue_order *order);
struct flow_bucket *two_queues_flow(const struct two_queues *q, const struct sk_buff *skb);
void two_queues_leave_ghost(struct two_queues *q, struct flow_bucket *flow);

#endif

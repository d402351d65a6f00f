// SPDX-License-Identifier: GPL-2.0
/*
 * Cheap Nasty Queueing: one FIFO for bulk flows, one with strict priority for the
 * first packet of a flow that has none waiting, and an AQM on the bulk queue.
 *
 * Written from draft-morton-tsvwg-cheap-nasty-queueing, the abstract of
 * draft-morton-tsvwg-codel-approx-fair and a description of how the kernel of the SCE
 * project behaves; README.md beside this file says what is ours. Three disciplines:
 *
 *   cnq_cobalt	  CoDel and BLUE on the whole bulk queue.
 *   cnq_codel_af  CoDel with Approximate Fairness: each flow has a CoDel of its
 *		  own, which is shown, instead of the sojourn time,
 *
 *			sojourn * flow's packets * flows / packets
 *
 *		  of all queues, the one that leaves among the packets: a flow
 *		  that has more than its share is told so, one that has less is
 *		  not. A flow counts once its first packet's ghost
 *		  is gone, and as long as it leaves packets behind.
 *   twin_codel_af Two such pairs of queues. Packets of DSCP 4 have the second, with a
 *		  fifth of the times; both are served by how many flows wait in each, in
 *		  packets, so that it is no priority. The packets in the formula are
 *		  those of both. It marks SCE if nothing is said.
 */

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <net/dsfield.h>

#include "two_queues.h"

/* The next of a flow waits until all that was in the bulk queue when this one came is gone. */
static bool cnq_sparse(struct two_queues *q, struct flow_bucket *flow)
{
	if (flow->ghost)
		return false;
	two_queues_leave_ghost(q, flow);
	return true;
}

static struct sk_buff *cnq_next(struct two_queues *q)
{
	return skb_peek(&q->bulk);
}

#define LOW_DELAY	4	/* DSCP: "minimise delay" of the former TOS byte */

static bool twin_second(struct sk_buff *skb)
{
	switch (skb_protocol(skb, true)) {
	case htons(ETH_P_IP):
		return pskb_network_may_pull(skb, sizeof(struct iphdr)) &&
		       ipv4_get_dsfield(ip_hdr(skb)) >> 2 == LOW_DELAY;
	case htons(ETH_P_IPV6):
		return pskb_network_may_pull(skb, sizeof(struct ipv6hdr)) &&
		       ipv6_get_dsfield(ipv6_hdr(skb)) >> 2 == LOW_DELAY;
	default:
		return false;
	}
}

static const struct queue_order cnq_order = { .sparse = cnq_sparse, .next = cnq_next };
static const struct queue_order cnq_af_order = {
	.sparse = cnq_sparse, .next = cnq_next, .own_aqm = true, .af = true,
};
static const struct queue_order twin_order = {
	.sparse = cnq_sparse, .next = cnq_next, .second = twin_second, .own_aqm = true, .af = true, .sce = 4,
};

static int cnq_cobalt_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	return two_queues_init(sch, opt, extack, &cnq_order);
}

static int cnq_codel_af_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	return two_queues_init(sch, opt, extack, &cnq_af_order);
}

static int twin_codel_af_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	return two_queues_init(sch, opt, extack, &twin_order);
}

static struct Qdisc_ops cnq_cobalt __read_mostly, cnq_codel_af __read_mostly, twin_codel_af __read_mostly;

static int __init cnq_register(void)
{
	int failed;

	cnq_cobalt = cnq_codel_af = twin_codel_af = two_queues_ops;
	strscpy(cnq_cobalt.id, "cnq_cobalt");
	strscpy(cnq_codel_af.id, "cnq_codel_af");
	strscpy(twin_codel_af.id, "twin_codel_af");
	cnq_cobalt.init = cnq_cobalt_init;
	cnq_codel_af.init = cnq_codel_af_init;
	twin_codel_af.init = twin_codel_af_init;
	failed = register_qdisc(&cnq_cobalt) ?: register_qdisc(&cnq_codel_af);
	return failed ?: register_qdisc(&twin_codel_af);
}
module_init(cnq_register);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Cheap Nasty Queueing");

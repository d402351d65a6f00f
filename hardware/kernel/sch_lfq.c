// SPDX-License-Identifier: GPL-2.0
/*
 * Lightweight Fair Queueing with COBALT (lfq_cobalt), written from what is said of
 * draft-morton-tsvwg-lightweight-fair-queueing: two queues, an AQM for each flow, a
 * scan through the bulk queue that passes over those who have had their share.
 * README.md beside this file says what that leaves open and how it is filled here.
 *
 * Time goes in rounds. In each, a flow has one turn of a quantum of bytes; it keeps
 * what it did not use and owes what it used too much (deficit round robin: Shreedhar
 * and Varghese, 1995; a quantum is no less than a packet, so that one turn pays all
 * that is owed). The next packet of the bulk queue is its first whose flow has not had
 * its turn; where there is none, or no bulk packet at all, a new round begins. A flow
 * is sparse while it has no packet waiting and has not had its turn.
 *
 * Packets of a flow stay in order: of those in the bulk queue the scan takes the first
 * or, all being passed over, none; into the sparse queue goes one only where no other
 * of its flow waits.
 */

#include <linux/module.h>

#include "two_queues.h"

static void lfq_new_round(struct two_queues *q)
{
	q->round++;
	q->scan = NULL;
}

static bool lfq_sparse(struct two_queues *q, struct flow_bucket *flow)
{
	if (skb_queue_empty(&q->bulk))
		lfq_new_round(q);
	return flow->turn != q->round;
}

static struct sk_buff *lfq_next(struct two_queues *q)
{
	struct sk_buff *skb = q->scan ?: skb_peek(&q->bulk);

	/* One that has the queue for itself is not passed over. */
	if (q->flows > 1)
		while (skb && two_queues_flow(q, skb)->turn == q->round)
			skb = skb_peek_next(skb, &q->bulk);
	else if (two_queues_flow(q, skb)->turn == q->round)
		skb = NULL;
	if (!skb) {
		lfq_new_round(q);
		skb = skb_peek(&q->bulk);
	}
	q->scan = skb;
	return skb;
}

static void lfq_served(struct two_queues *q, struct flow_bucket *flow, u32 bytes)
{
	flow->credit -= bytes;
	if (flow->credit > 0)
		return;
	flow->credit += q->quantum;
	flow->turn = q->round;
}

static const struct queue_order lfq_order = {
	.sparse = lfq_sparse, .next = lfq_next, .served = lfq_served, .own_aqm = true,
};

static int lfq_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	return two_queues_init(sch, opt, extack, &lfq_order);
}

static struct Qdisc_ops lfq_cobalt __read_mostly;

static int __init lfq_register(void)
{
	lfq_cobalt = two_queues_ops;
	strscpy(lfq_cobalt.id, "lfq_cobalt");
	lfq_cobalt.init = lfq_init;
	return register_qdisc(&lfq_cobalt);
}
module_init(lfq_register);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Lightweight Fair Queueing");

// SPDX-License-Identifier: GPL-2.0
/*
 * step: a drop-tail FIFO that marks every ECN-capable packet CE which waited longer than a threshold.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

#include "step.h"

struct step_sched {
	u64 threshold;	/* ns */
	struct tc_step_xstats stats;
};

struct step_cb {
	u64 entered;	/* ns */
};

static struct step_cb *step_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct step_cb));
	return (struct step_cb *)qdisc_skb_cb(skb)->data;
}

static int step_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	if (sch->q.qlen >= sch->limit)
		return qdisc_drop(skb, sch, to_free);
	step_cb(skb)->entered = ktime_get_ns();
	return qdisc_enqueue_tail(skb, sch);
}

static struct sk_buff *step_dequeue(struct Qdisc *sch)
{
	struct step_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = qdisc_dequeue_head(sch);

	if (skb && ktime_get_ns() - step_cb(skb)->entered > q->threshold)
		q->stats.ecn_mark += INET_ECN_set_ce(skb);
	return skb;
}

static const struct nla_policy step_policy[TCA_STEP_MAX + 1] = {
	[TCA_STEP_LIMIT]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_STEP_THRESHOLD]	= { .type = NLA_U32 },
};

static int step_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct step_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_STEP_MAX + 1];
	int err = nla_parse_nested(tb, TCA_STEP_MAX, opt, step_policy, extack);

	if (err < 0)
		return err;
	sch_tree_lock(sch);
	if (tb[TCA_STEP_LIMIT])
		sch->limit = nla_get_u32(tb[TCA_STEP_LIMIT]);
	if (tb[TCA_STEP_THRESHOLD])
		q->threshold = (u64)nla_get_u32(tb[TCA_STEP_THRESHOLD]) * NSEC_PER_USEC;
	sch_tree_unlock(sch);
	return 0;
}

static int step_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct step_sched *q = qdisc_priv(sch);

	sch->limit = 1000;
	q->threshold = 5 * NSEC_PER_MSEC;
	return opt ? step_change(sch, opt, extack) : 0;
}

static int step_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct step_sched *q = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start(skb, TCA_OPTIONS);

	if (!nest || nla_put_u32(skb, TCA_STEP_LIMIT, sch->limit) ||
	    nla_put_u32(skb, TCA_STEP_THRESHOLD, div_u64(q->threshold, NSEC_PER_USEC)))
		return -EMSGSIZE;
	return nla_nest_end(skb, nest);
}

static int step_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct step_sched *q = qdisc_priv(sch);

	return gnet_stats_copy_app(d, &q->stats, sizeof(q->stats));
}

static struct Qdisc_ops step_qdisc_ops __read_mostly = {
	.id		= "step",
	.priv_size	= sizeof(struct step_sched),
	.enqueue	= step_enqueue,
	.dequeue	= step_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= step_init,
	.change		= step_change,
	.reset		= qdisc_reset_queue,
	.dump		= step_dump,
	.dump_stats	= step_dump_stats,
	.owner		= THIS_MODULE,
};

static int __init step_register(void)
{
	return register_qdisc(&step_qdisc_ops);
}
module_init(step_register);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Drop-tail FIFO with a marking threshold");

// SPDX-License-Identifier: GPL-2.0
/*
 * DelTiC (Delay Time Control) on a FIFO: three control laws (deltic.h) that mark SCE, mark
 * CE and drop, and sojourn times without what the link's jitter adds. It does not shape.
 *
 * Written from "The Tao of DelTiC" (Morton, 2024), whose simplest queue (Polya) this is;
 * README.md beside this file says what that leaves open and how it is filled here.
 */

#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

#include "deltic.h"
#include "sce.h"

struct deltic_sched {
	struct deltic sce, ce, drop;
	u64	passed;		/* ns: when the last packet left */
	u64	left;		/* the same, or when the first came to an empty queue */
	u64	sojourn;	/* ns: of the last packet that left */
	u64	jitter;		/* ns */
	bool	marks_sce;
	struct tc_deltic_xstats stats;
};

struct deltic_cb {
	u64	entered;	/* ns */
};

static struct deltic_cb *deltic_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct deltic_cb));
	return (struct deltic_cb *)qdisc_skb_cb(skb)->data;
}

static int deltic_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct deltic_sched *q = qdisc_priv(sch);
	u64 now = ktime_get_ns();

	if (sch->q.qlen >= sch->limit) {
		q->stats.drop_overlimit++;
		return qdisc_drop_reason(skb, sch, to_free, QDISC_DROP_OVERLIMIT);
	}
	if (!sch->q.qlen)
		q->left = now;
	deltic_cb(skb)->entered = now;
	return qdisc_enqueue_tail(skb, sch);
}

/* Whether a packet may leave, marked or not. */
static bool deltic_passes(struct deltic_sched *q, struct sk_buff *skb, u64 now)
{
	u64 interval = min(now - q->passed, DELTIC_MOST_INTERVAL), waited = now - deltic_cb(skb)->entered, sojourn;
	bool drop, ce, sce;
	s64 delta;

	/* Idle time lowers a law's level, but is no jitter of the link. */
	q->jitter = deltic_jitter(q->jitter, min(now - q->left, DELTIC_MOST_INTERVAL));
	sojourn = min(waited - min(waited, q->jitter), DELTIC_MOST_SOJOURN);
	delta = (s64)sojourn - (s64)q->sojourn;
	q->passed = q->left = now;
	q->sojourn = sojourn;
	q->stats.delay_us = div_u64(waited, NSEC_PER_USEC);
	q->stats.jitter_us = div_u64(q->jitter, NSEC_PER_USEC);
	/* Each law sees each packet. */
	drop = deltic_signals(&q->drop, sojourn, delta, interval);
	ce = deltic_signals(&q->ce, sojourn, delta, interval);
	sce = deltic_signals(&q->sce, sojourn, delta, interval);
	if (drop || (ce && !INET_ECN_set_ce(skb))) {
		q->stats.aqm_drop++;
		return false;
	}
	if (ce)
		q->stats.ecn_mark++;
	else if (sce && q->marks_sce)
		q->stats.sce_mark += INET_ECN_set_ect1(skb);
	return true;
}

static struct sk_buff *deltic_dequeue(struct Qdisc *sch)
{
	struct deltic_sched *q = qdisc_priv(sch);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	while ((skb = __qdisc_dequeue_head(&sch->q))) {
		qdisc_qstats_backlog_dec(sch, skb);
		if (deltic_passes(q, skb, now))
			break;
		qdisc_tree_reduce_backlog(sch, 1, qdisc_pkt_len(skb));
		qdisc_qstats_drop(sch);
		kfree_skb(skb);
	}
	if (skb)
		qdisc_bstats_update(sch, skb);
	return skb;
}

/* Beyond the 16 bits of a range in the policy itself. */
static const struct netlink_range_validation target_us = { .min = 1, .max = DELTIC_MOST_TARGET_US };

static const struct nla_policy deltic_policy[TCA_DELTIC_MAX + 1] = {
	[TCA_DELTIC_TARGET]		= NLA_POLICY_FULL_RANGE(NLA_U32, &target_us),
	[TCA_DELTIC_SCE_TARGET]		= NLA_POLICY_FULL_RANGE(NLA_U32, &target_us),
	[TCA_DELTIC_DROP_TARGET]	= NLA_POLICY_FULL_RANGE(NLA_U32, &target_us),
	[TCA_DELTIC_LIMIT]		= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_DELTIC_SCE]		= NLA_POLICY_MAX(NLA_U32, 1),
};

static void deltic_retarget(struct deltic *law, const struct nlattr *us)
{
	if (us)
		*law = (struct deltic){ .target = (u64)nla_get_u32(us) * NSEC_PER_USEC };
}

static int deltic_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct deltic_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_DELTIC_MAX + 1];
	int err = nla_parse_nested_deprecated(tb, TCA_DELTIC_MAX, opt, deltic_policy, extack);
	struct sk_buff *skb;

	if (err < 0)
		return err;
	sch_tree_lock(sch);
	deltic_retarget(&q->ce, tb[TCA_DELTIC_TARGET]);
	deltic_retarget(&q->sce, tb[TCA_DELTIC_SCE_TARGET]);
	deltic_retarget(&q->drop, tb[TCA_DELTIC_DROP_TARGET]);
	if (tb[TCA_DELTIC_SCE])
		q->marks_sce = nla_get_u32(tb[TCA_DELTIC_SCE]);
	if (tb[TCA_DELTIC_LIMIT])
		sch->limit = nla_get_u32(tb[TCA_DELTIC_LIMIT]);
	while (sch->q.qlen > sch->limit && (skb = qdisc_dequeue_internal(sch, true))) {
		q->stats.drop_overlimit++;
		qdisc_tree_reduce_backlog(sch, 1, qdisc_pkt_len(skb));
		rtnl_qdisc_drop(skb, sch);
	}
	sch_tree_unlock(sch);
	return 0;
}

static void deltic_forget(struct deltic *law)
{
	law->level = law->phase = 0;
}

static void deltic_reset(struct Qdisc *sch)
{
	struct deltic_sched *q = qdisc_priv(sch);

	qdisc_reset_queue(sch);
	deltic_forget(&q->sce);
	deltic_forget(&q->ce);
	deltic_forget(&q->drop);
	q->sojourn = q->jitter = 0;
}

static int deltic_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct deltic_sched *q = qdisc_priv(sch);

	q->sce.target = 5 * NSEC_PER_MSEC;
	q->ce.target = 25 * NSEC_PER_MSEC;
	q->drop.target = 125 * NSEC_PER_MSEC;
	sch->limit = 10240;
	return opt ? deltic_change(sch, opt, extack) : 0;
}

static u32 deltic_us(const struct deltic *law)
{
	return div_u64(law->target, NSEC_PER_USEC);
}

static int deltic_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct deltic_sched *q = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_DELTIC_TARGET, deltic_us(&q->ce)) ||
	    nla_put_u32(skb, TCA_DELTIC_SCE_TARGET, deltic_us(&q->sce)) ||
	    nla_put_u32(skb, TCA_DELTIC_DROP_TARGET, deltic_us(&q->drop)) ||
	    nla_put_u32(skb, TCA_DELTIC_LIMIT, sch->limit) ||
	    nla_put_u32(skb, TCA_DELTIC_SCE, q->marks_sce)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

static int deltic_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct deltic_sched *q = qdisc_priv(sch);

	return gnet_stats_copy_app(d, &q->stats, sizeof(q->stats));
}

static struct Qdisc_ops deltic __read_mostly = {
	.id		= "deltic",
	.priv_size	= sizeof(struct deltic_sched),
	.enqueue	= deltic_enqueue,
	.dequeue	= deltic_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= deltic_init,
	.change		= deltic_change,
	.reset		= deltic_reset,
	.dump		= deltic_dump,
	.dump_stats	= deltic_dump_stats,
	.owner		= THIS_MODULE,
};

static int __init deltic_register(void)
{
	return register_qdisc(&deltic);
}

static void __exit deltic_unregister(void)
{
	unregister_qdisc(&deltic);
}

module_init(deltic_register);
module_exit(deltic_unregister);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("DelTiC: Delay Time Control");

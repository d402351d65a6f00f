// SPDX-License-Identifier: GPL-2.0
/*
 * Cheap Nasty Queueing: one FIFO for bulk flows, one with strict priority for the
 * first packet of a flow that has none waiting, and an AQM on the bulk queue.
 *
 * Written from draft-morton-tsvwg-cheap-nasty-queueing and the abstract of
 * draft-morton-tsvwg-codel-approx-fair; README.md beside this file says what
 * these leave open and how it is filled here. Two disciplines:
 *
 *   cnq_cobalt	  CoDel and BLUE on the whole bulk queue.
 *   cnq_codel_af  CoDel with Approximate Fairness: each flow has a CoDel of its
 *		  own, which is shown the time in which the flow's backlog would
 *		  drain at its fair share of the link,
 *
 *			sojourn * flow's backlog * flows / whole backlog,
 *
 *		  instead of the sojourn time: a flow that has more than its
 *		  share of the queue is told so, one that has less is not.
 */

#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

#include "sce_ramp.h"

#define BUCKETS		1024
#define MAX_COUNT	0xffffU		/* whose 2^16-fold is 32 bits */
#define BLUE_UP		(1U << 24)	/* 1/256 for each overflow */
#define BLUE_DOWN	(1U << 20)	/* 1/4096 each time that the queue is empty */

/* CoDel (RFC 8289) in COBALT's form: below the target the signalling rate
 * decays step by step instead of being forgotten.
 */
struct cnq_codel {
	u64	next;		/* ns: of the next signal, or of the next step of the decay */
	u32	count;		/* signals come each interval / sqrt(count) */
	bool	over;
};

struct cnq_bucket {
	struct cnq_codel codel;
	u32	bytes;		/* in the bulk queue */
	u32	packets;	/* in both queues */
	u32	waits_for;	/* the bulk packet after which its next one is a first one again */
};

struct cnq_sched {
	struct sk_buff_head sparse, bulk;
	struct cnq_bucket *buckets;
	struct cnq_codel codel;	/* of cnq_cobalt */
	struct qdisc_watchdog watchdog;
	u64	rate;		/* byte/s; 0: unlimited */
	u64	ready;		/* ns: when the link may carry the next packet */
	u64	target, interval;	/* ns */
	u32	sce;
	u32	blue;		/* probability of a drop, 2^32 = 1 */
	u32	bulk_bytes;
	u32	bulk_in, bulk_out;	/* packets that ever entered and left the bulk queue */
	bool	fair;
	struct tc_cnq_xstats stats;
};

struct cnq_cb {
	u64	entered;	/* ns */
	u32	bucket;
};

static struct cnq_cb *cnq_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct cnq_cb));
	return (struct cnq_cb *)qdisc_skb_cb(skb)->data;
}

static u64 codel_gap(u64 interval, u32 count)
{
	return div_u64(interval << 8, int_sqrt(max(count, 1U) << 16));
}

static bool codel_signals(struct cnq_codel *codel, u64 now, u64 interval, bool over)
{
	if (!over) {
		codel->over = false;
		while (codel->count && now >= codel->next) {
			codel->count--;
			codel->next += codel_gap(interval, codel->count);
		}
		return false;
	}
	if (!codel->over) {
		codel->over = true;
		codel->count = max(codel->count, 1U);
		codel->next = now + codel_gap(interval, codel->count);
		return false;
	}
	if (now < codel->next)
		return false;
	codel->count = min(codel->count + 1, MAX_COUNT);
	codel->next = max(codel->next + codel_gap(interval, codel->count), now);
	return true;
}

/* Takes the first packet of the sparse queue, or of the bulk queue. */
static struct sk_buff *cnq_take(struct cnq_sched *q, struct sk_buff_head *queue)
{
	struct sk_buff *skb = __skb_dequeue(queue);
	struct cnq_bucket *bucket;

	if (!skb)
		return NULL;
	bucket = &q->buckets[cnq_cb(skb)->bucket];
	bucket->packets--;
	if (queue == &q->bulk) {
		bucket->bytes -= qdisc_pkt_len(skb);
		q->bulk_bytes -= qdisc_pkt_len(skb);
		q->stats.flows -= !bucket->bytes;
		q->bulk_out++;
	}
	return skb;
}

/* False: there is none, all that is left is the packet that a parent has peeked at. */
static bool cnq_drop_first(struct Qdisc *sch, struct sk_buff **to_free)
{
	struct cnq_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = cnq_take(q, &q->bulk) ?: cnq_take(q, &q->sparse);

	if (!skb)
		return false;
	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	q->stats.drop_overlimit++;
	q->blue = min_t(u64, (u64)q->blue + BLUE_UP, U32_MAX);
	qdisc_tree_reduce_backlog(sch, 1, qdisc_pkt_len(skb));
	qdisc_drop(skb, sch, to_free);
	return true;
}

static int cnq_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct cnq_sched *q = qdisc_priv(sch);
	u32 index = reciprocal_scale(skb_get_hash(skb), BUCKETS);
	struct cnq_bucket *bucket = &q->buckets[index];
	struct cnq_cb *cb = cnq_cb(skb);
	u64 now = ktime_get_ns();

	if (!sch->q.qlen)
		q->ready = max(q->ready, now);
	cb->entered = now;
	cb->bucket = index;
	if (!bucket->packets && (s32)(bucket->waits_for - q->bulk_out) <= 0) {
		/* The next of this flow waits until all that is in front now is gone. */
		bucket->waits_for = q->bulk_in;
		__skb_queue_tail(&q->sparse, skb);
		q->stats.sparse++;
	} else {
		q->stats.flows += !bucket->bytes;
		bucket->bytes += qdisc_pkt_len(skb);
		q->bulk_bytes += qdisc_pkt_len(skb);
		q->bulk_in++;
		__skb_queue_tail(&q->bulk, skb);
	}
	bucket->packets++;
	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	while (sch->q.qlen > sch->limit && cnq_drop_first(sch, to_free))
		;
	return NET_XMIT_SUCCESS;
}

/* Whether the AQM lets a packet of the bulk queue through, marked or not. */
static bool cnq_passes(struct Qdisc *sch, struct sk_buff *skb, u64 now)
{
	struct cnq_sched *q = qdisc_priv(sch);
	struct cnq_bucket *bucket = &q->buckets[cnq_cb(skb)->bucket];
	u64 sojourn = now - cnq_cb(skb)->entered, waited = sojourn;
	u32 flow = bucket->bytes + qdisc_pkt_len(skb), all = q->bulk_bytes + qdisc_pkt_len(skb);
	bool few = q->fair ? !bucket->bytes : !q->bulk_bytes;

	q->stats.delay_us = div_u64(sojourn, NSEC_PER_USEC);
	if (q->fair)
		waited = mul_u64_u64_div_u64(sojourn, (u64)flow * (q->stats.flows + !bucket->bytes), all);
	if (codel_signals(q->fair ? &bucket->codel : &q->codel, now, q->interval, waited > q->target && !few)) {
		if (INET_ECN_set_ce(skb)) {
			q->stats.ecn_mark++;
		} else {
			q->stats.aqm_drop++;
			return false;
		}
	} else {
		q->stats.sce_mark += sce_mark(skb, q->sce, waited, q->target);
	}
	if (!q->fair && q->blue && get_random_u32() < q->blue) {
		q->stats.aqm_drop++;
		return false;
	}
	return true;
}

static struct sk_buff *cnq_dequeue(struct Qdisc *sch)
{
	struct cnq_sched *q = qdisc_priv(sch);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	if (q->rate && sch->q.qlen && now < q->ready) {
		qdisc_watchdog_schedule_ns(&q->watchdog, q->ready);
		return NULL;
	}
	while (!(skb = cnq_take(q, &q->sparse)) && (skb = cnq_take(q, &q->bulk))) {
		if (cnq_passes(sch, skb, now))
			break;
		sch->q.qlen--;
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_tree_reduce_backlog(sch, 1, qdisc_pkt_len(skb));
		qdisc_qstats_drop(sch);
		kfree_skb(skb);
	}
	if (!skb) {
		q->blue -= min(q->blue, BLUE_DOWN);
		return NULL;
	}
	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_bstats_update(sch, skb);
	if (q->rate)
		q->ready += div64_u64((u64)qdisc_pkt_len(skb) * NSEC_PER_SEC, q->rate);
	return skb;
}

static const struct nla_policy cnq_policy[TCA_CNQ_MAX + 1] = {
	[TCA_CNQ_RATE64]	= { .type = NLA_U64 },
	[TCA_CNQ_TARGET]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CNQ_INTERVAL]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CNQ_LIMIT]		= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CNQ_SCE]		= NLA_POLICY_MAX(NLA_U32, SCE_SINGLE),
};

static int cnq_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct cnq_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_CNQ_MAX + 1];
	int err = nla_parse_nested_deprecated(tb, TCA_CNQ_MAX, opt, cnq_policy, extack);
	struct sk_buff *gone = NULL;

	if (err < 0)
		return err;
	sch_tree_lock(sch);
	if (tb[TCA_CNQ_RATE64])
		q->rate = nla_get_u64(tb[TCA_CNQ_RATE64]);
	if (tb[TCA_CNQ_TARGET])
		q->target = (u64)nla_get_u32(tb[TCA_CNQ_TARGET]) * NSEC_PER_USEC;
	if (tb[TCA_CNQ_INTERVAL])
		q->interval = (u64)nla_get_u32(tb[TCA_CNQ_INTERVAL]) * NSEC_PER_USEC;
	if (tb[TCA_CNQ_LIMIT])
		sch->limit = nla_get_u32(tb[TCA_CNQ_LIMIT]);
	if (tb[TCA_CNQ_SCE])
		q->sce = nla_get_u32(tb[TCA_CNQ_SCE]);
	while (sch->q.qlen > sch->limit && cnq_drop_first(sch, &gone))
		;
	/* A rate that was raised or lifted holds from now on. */
	q->ready = min(q->ready, ktime_get_ns());
	if (sch->q.qlen)
		qdisc_watchdog_schedule_ns(&q->watchdog, q->ready);
	sch_tree_unlock(sch);
	kfree_skb_list(gone);
	return 0;
}

static void cnq_reset(struct Qdisc *sch)
{
	struct cnq_sched *q = qdisc_priv(sch);

	if (!q->buckets)
		return;
	qdisc_watchdog_cancel(&q->watchdog);
	__skb_queue_purge(&q->sparse);
	__skb_queue_purge(&q->bulk);
	memset(q->buckets, 0, BUCKETS * sizeof(*q->buckets));
	memset(&q->codel, 0, sizeof(q->codel));
	q->bulk_bytes = q->bulk_in = q->bulk_out = q->blue = q->stats.flows = 0;
}

static int cnq_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct cnq_sched *q = qdisc_priv(sch);

	qdisc_watchdog_init(&q->watchdog, sch);
	__skb_queue_head_init(&q->sparse);
	__skb_queue_head_init(&q->bulk);
	q->fair = !strcmp(sch->ops->id, "cnq_codel_af");
	q->target = 5 * NSEC_PER_MSEC;
	q->interval = 100 * NSEC_PER_MSEC;
	sch->limit = 10240;
	q->buckets = kvcalloc(BUCKETS, sizeof(*q->buckets), GFP_KERNEL);
	if (!q->buckets)
		return -ENOMEM;
	return opt ? cnq_change(sch, opt, extack) : 0;
}

static void cnq_destroy(struct Qdisc *sch)
{
	struct cnq_sched *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	kvfree(q->buckets);
}

static int cnq_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct cnq_sched *q = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u64_64bit(skb, TCA_CNQ_RATE64, q->rate, TCA_CNQ_PAD) ||
	    nla_put_u32(skb, TCA_CNQ_TARGET, div_u64(q->target, NSEC_PER_USEC)) ||
	    nla_put_u32(skb, TCA_CNQ_INTERVAL, div_u64(q->interval, NSEC_PER_USEC)) ||
	    nla_put_u32(skb, TCA_CNQ_LIMIT, sch->limit) ||
	    nla_put_u32(skb, TCA_CNQ_SCE, q->sce)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

static int cnq_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct cnq_sched *q = qdisc_priv(sch);

	return gnet_stats_copy_app(d, &q->stats, sizeof(q->stats));
}

static struct Qdisc_ops cnq_cobalt __read_mostly = {
	.id		= "cnq_cobalt",
	.priv_size	= sizeof(struct cnq_sched),
	.enqueue	= cnq_enqueue,
	.dequeue	= cnq_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= cnq_init,
	.change		= cnq_change,
	.reset		= cnq_reset,
	.destroy	= cnq_destroy,
	.dump		= cnq_dump,
	.dump_stats	= cnq_dump_stats,
	.owner		= THIS_MODULE,
};
static struct Qdisc_ops cnq_codel_af __read_mostly;

static int __init cnq_register(void)
{
	int failed;

	cnq_codel_af = cnq_cobalt;
	strscpy(cnq_codel_af.id, "cnq_codel_af");
	failed = register_qdisc(&cnq_cobalt);
	return failed ?: register_qdisc(&cnq_codel_af);
}

static void __exit cnq_unregister(void)
{
	unregister_qdisc(&cnq_codel_af);
	unregister_qdisc(&cnq_cobalt);
}

module_init(cnq_register);
module_exit(cnq_unregister);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Cheap Nasty Queueing");

// SPDX-License-Identifier: GPL-2.0
/* A sparse and a bulk queue: see two_queues.h; the disciplines are sch_cnq.c and sch_lfq.c. */

#include <linux/ktime.h>
#include <linux/math64.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>

#include "sce_ramp.h"
#include "two_queues.h"

#define BUCKETS		1024

struct two_queues_cb {
	u64	entered;	/* ns */
	u32	bucket;
};

static struct two_queues_cb *two_queues_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct two_queues_cb));
	return (struct two_queues_cb *)qdisc_skb_cb(skb)->data;
}

struct flow_bucket *two_queues_flow(const struct two_queues *q, const struct sk_buff *skb)
{
	return &q->buckets[two_queues_cb(skb)->bucket];
}

void two_queues_leave_ghost(struct two_queues *q, struct flow_bucket *flow)
{
	q->ghosts[q->ghosts_in++ % BUCKETS] = (struct ghost){ q->bulk_out + skb_queue_len(&q->bulk), flow - q->buckets };
	flow->ghost = true;
}

/* Those before the first bulk packet go, which is about to. */
static void clear_ghosts(struct two_queues *q)
{
	for (; q->ghosts_out != q->ghosts_in; q->ghosts_out++) {
		const struct ghost *ghost = &q->ghosts[q->ghosts_out % BUCKETS];
		struct flow_bucket *flow = &q->buckets[ghost->bucket];

		if ((s32)(ghost->before - q->bulk_out) > 0)
			return;
		flow->ghost = false;
		q->sharing += !!flow->bytes;
	}
}

static struct sk_buff *take_sparse(struct two_queues *q)
{
	struct sk_buff *skb = __skb_dequeue(&q->sparse);

	if (skb) {
		two_queues_flow(q, skb)->packets--;
		if (q->order->af)
			cobalt_decays(&two_queues_flow(q, skb)->codel, ktime_get_ns(), q->interval);
	}
	return skb;
}

static struct sk_buff *take_bulk(struct two_queues *q, struct sk_buff *skb)
{
	struct flow_bucket *flow;

	if (!skb)
		return NULL;
	if (q->scan == skb)
		q->scan = skb_queue_is_last(&q->bulk, skb) ? NULL : skb->next;
	__skb_unlink(skb, &q->bulk);
	clear_ghosts(q);
	flow = two_queues_flow(q, skb);
	flow->packets--;
	flow->bytes -= qdisc_pkt_len(skb);
	q->bulk_bytes -= qdisc_pkt_len(skb);
	q->stats.flows -= !flow->bytes;
	q->sharing -= !flow->bytes;
	q->bulk_out++;
	return skb;
}

/* False: there is none, all that is left is the packet that a parent has peeked at. */
static bool drop_first(struct Qdisc *sch, struct sk_buff **to_free)
{
	struct two_queues *q = qdisc_priv(sch);
	struct sk_buff *skb = take_bulk(q, skb_peek(&q->bulk)) ?: take_sparse(q);

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

static int two_queues_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct two_queues *q = qdisc_priv(sch);
	u32 index = reciprocal_scale(skb_get_hash(skb), BUCKETS);
	struct flow_bucket *flow = &q->buckets[index];
	struct two_queues_cb *cb = two_queues_cb(skb);
	u64 now = ktime_get_ns();

	if (!sch->q.qlen)
		q->ready = max(q->ready, now);
	cb->entered = now;
	cb->bucket = index;
	q->quantum = max(q->quantum, qdisc_pkt_len(skb));
	if (!flow->packets && q->order->sparse(q, flow)) {
		__skb_queue_tail(&q->sparse, skb);
		q->stats.sparse++;
	} else {
		q->stats.flows += !flow->bytes;
		q->sharing += !flow->bytes && !flow->ghost;
		flow->bytes += qdisc_pkt_len(skb);
		q->bulk_bytes += qdisc_pkt_len(skb);
		__skb_queue_tail(&q->bulk, skb);
	}
	flow->packets++;
	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	while (sch->q.qlen > sch->limit && drop_first(sch, to_free))
		;
	return NET_XMIT_SUCCESS;
}

/* Whether the AQM lets a packet of the bulk queue through, marked or not. */
static bool passes(struct two_queues *q, struct sk_buff *skb, u64 now)
{
	struct flow_bucket *flow = two_queues_flow(q, skb);
	struct cobalt *codel = q->order->own_codel ? &flow->codel : &q->codel;
	u64 sojourn = now - two_queues_cb(skb)->entered, waited = sojourn;

	q->stats.delay_us = div_u64(sojourn, NSEC_PER_USEC);
	if (q->order->af)
		waited = mul_u64_u64_div_u64(sojourn, (u64)(flow->packets + 1) * q->sharing, skb_queue_len(&q->bulk) + 1);
	if (cobalt_signals(codel, now, q->interval, waited > q->target && q->bulk_bytes)) {
		if (INET_ECN_set_ce(skb)) {
			q->stats.ecn_mark++;
		} else if (!q->order->own_codel || flow->packets) {  /* the last of a flow is spared */
			q->stats.aqm_drop++;
			return false;
		}
	} else {
		q->stats.sce_mark += sce_mark(skb, q->sce, waited, q->target);
	}
	if (!q->order->af && q->blue && get_random_u32() < q->blue) {
		q->stats.aqm_drop++;
		return false;
	}
	return true;
}

static struct sk_buff *two_queues_dequeue(struct Qdisc *sch)
{
	struct two_queues *q = qdisc_priv(sch);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	if (q->rate && sch->q.qlen && now < q->ready) {
		qdisc_watchdog_schedule_ns(&q->watchdog, q->ready);
		return NULL;
	}
	while (!(skb = take_sparse(q)) && !skb_queue_empty(&q->bulk)) {
		skb = take_bulk(q, q->order->next(q));
		if (passes(q, skb, now))
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
	if (q->order->served)
		q->order->served(q, two_queues_flow(q, skb), qdisc_pkt_len(skb));
	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_bstats_update(sch, skb);
	if (q->rate)
		q->ready += div64_u64((u64)qdisc_pkt_len(skb) * NSEC_PER_SEC, q->rate);
	return skb;
}

static const struct nla_policy two_queues_policy[TCA_CNQ_MAX + 1] = {
	[TCA_CNQ_RATE64]	= { .type = NLA_U64 },
	[TCA_CNQ_TARGET]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CNQ_INTERVAL]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CNQ_LIMIT]		= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CNQ_SCE]		= NLA_POLICY_MAX(NLA_U32, SCE_SINGLE),
};

static int two_queues_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct two_queues *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_CNQ_MAX + 1];
	int err = nla_parse_nested_deprecated(tb, TCA_CNQ_MAX, opt, two_queues_policy, extack);
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
	while (sch->q.qlen > sch->limit && drop_first(sch, &gone))
		;
	/* A rate that was raised or lifted holds from now on. */
	q->ready = min(q->ready, ktime_get_ns());
	if (sch->q.qlen)
		qdisc_watchdog_schedule_ns(&q->watchdog, q->ready);
	sch_tree_unlock(sch);
	kfree_skb_list(gone);
	return 0;
}

static void two_queues_reset(struct Qdisc *sch)
{
	struct two_queues *q = qdisc_priv(sch);

	if (!q->buckets)
		return;
	qdisc_watchdog_cancel(&q->watchdog);
	__skb_queue_purge(&q->sparse);
	__skb_queue_purge(&q->bulk);
	memset(q->buckets, 0, BUCKETS * sizeof(*q->buckets));
	memset(&q->codel, 0, sizeof(q->codel));
	q->bulk_bytes = q->bulk_out = q->blue = q->stats.flows = 0;
	q->ghosts_in = q->ghosts_out = q->sharing = 0;
	q->scan = NULL;
	q->round = 1;
	q->quantum = psched_mtu(qdisc_dev(sch));
}

int two_queues_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack,
		    const struct queue_order *order)
{
	struct two_queues *q = qdisc_priv(sch);

	qdisc_watchdog_init(&q->watchdog, sch);
	__skb_queue_head_init(&q->sparse);
	__skb_queue_head_init(&q->bulk);
	q->order = order;
	q->round = 1;
	q->quantum = psched_mtu(qdisc_dev(sch));
	q->target = 5 * NSEC_PER_MSEC;
	q->interval = 100 * NSEC_PER_MSEC;
	sch->limit = 10240;
	q->buckets = kvcalloc(BUCKETS, sizeof(*q->buckets), GFP_KERNEL);
	q->ghosts = kvcalloc(BUCKETS, sizeof(*q->ghosts), GFP_KERNEL);
	if (!q->buckets || !q->ghosts)
		return -ENOMEM;
	return opt ? two_queues_change(sch, opt, extack) : 0;
}

static void two_queues_destroy(struct Qdisc *sch)
{
	struct two_queues *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	kvfree(q->buckets);
	kvfree(q->ghosts);
}

static int two_queues_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct two_queues *q = qdisc_priv(sch);
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

static int two_queues_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct two_queues *q = qdisc_priv(sch);

	return gnet_stats_copy_app(d, &q->stats, sizeof(q->stats));
}

/* All but its name and init. */
const struct Qdisc_ops two_queues_ops = {
	.priv_size	= sizeof(struct two_queues),
	.enqueue	= two_queues_enqueue,
	.dequeue	= two_queues_dequeue,
	.peek		= qdisc_peek_dequeued,
	.change		= two_queues_change,
	.reset		= two_queues_reset,
	.destroy	= two_queues_destroy,
	.dump		= two_queues_dump,
	.dump_stats	= two_queues_dump_stats,
};

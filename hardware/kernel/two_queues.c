// SPDX-License-Identifier: GPL-2.0
/* A sparse and a bulk queue, or two such pairs: see two_queues.h; the disciplines are sch_cnq.c and sch_lfq.c. */

#include <linux/ktime.h>
#include <linux/math64.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>

#include "sce_ramp.h"
#include "two_queues.h"

#define BUCKETS		1024
#define SECOND_DIVISOR	5	/* the second pair's times are the first's / 5 */

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

	if (skb)
		two_queues_flow(q, skb)->packets--;
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
	q->flows -= !flow->bytes;
	q->sharing -= !flow->bytes;
	q->bulk_out++;
	return skb;
}

static bool waits(const struct two_queues *q)
{
	return !skb_queue_empty(&q->sparse) || !skb_queue_empty(&q->bulk);
}

/* False: there is none, all that is left is the packet that a parent has peeked at. */
static bool drop_first(struct Qdisc *sch, struct sk_buff **to_free)
{
	struct queue_pairs *pairs = qdisc_priv(sch);
	bool second = pairs->pair[1].bulk_bytes > pairs->pair[0].bulk_bytes;
	struct two_queues *fuller = &pairs->pair[second], *other = &pairs->pair[!second];
	struct sk_buff *skb = take_bulk(fuller, skb_peek(&fuller->bulk)) ?: take_sparse(fuller) ?: take_sparse(other);

	if (!skb)
		return false;
	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	pairs->stats.drop_overlimit++;
	pairs->blue = min_t(u64, (u64)pairs->blue + BLUE_UP, U32_MAX);
	qdisc_tree_reduce_backlog(sch, 1, qdisc_pkt_len(skb));
	qdisc_drop(skb, sch, to_free);
	return true;
}

static int two_queues_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct queue_pairs *pairs = qdisc_priv(sch);
	bool second = pairs->order->second && pairs->order->second(skb);
	struct two_queues *q = &pairs->pair[second];
	u32 index = reciprocal_scale(skb_get_hash(skb), BUCKETS);
	struct flow_bucket *flow = &q->buckets[index];
	struct two_queues_cb *cb = two_queues_cb(skb);
	u64 now = ktime_get_ns();

	if (!sch->q.qlen)
		pairs->ready = max(pairs->ready, now);
	*cb = (struct two_queues_cb){ .entered = now, .bucket = index };
	pairs->stats.second += second;
	q->quantum = max(q->quantum, qdisc_pkt_len(skb));
	if (!flow->packets && pairs->order->sparse(q, flow)) {
		__skb_queue_tail(&q->sparse, skb);
		pairs->stats.sparse++;
	} else {
		q->flows += !flow->bytes;
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

/*
 * Which pair is served next, NULL where none waits. It pays as many turns as flows wait in the other, so that both
 * have turns by how many flows they have.
 */
static struct two_queues *next_pair(struct queue_pairs *pairs)
{
	struct two_queues *first = &pairs->pair[0], *second = &pairs->pair[1], *q = first, *other = second;
	u32 paid;

	if (!waits(second))
		return waits(first) ? first : NULL;
	if (!waits(first) || first->debt >= second->debt)
		swap(q, other);
	q->debt += other->sharing + skb_queue_len(&other->sparse);
	paid = min(first->debt, second->debt);
	first->debt -= paid;
	second->debt -= paid;
	return q;
}

/* Whether the AQM of all flows lets a packet through, which waited so long, marked or not. */
static bool passes_all(struct queue_pairs *pairs, const struct flow_limits *limits, struct sk_buff *skb, u64 now,
		       u64 waited)
{
	if (!cobalt_signals(&pairs->codel, now, limits->interval, waited > limits->target)) {
		pairs->stats.sce_mark += sce_mark(skb, pairs->sce, waited, limits->target);
	} else if (INET_ECN_set_ce(skb)) {
		pairs->stats.ecn_mark++;
	} else {
		return false;
	}
	return !pairs->blue || get_random_u32() >= pairs->blue;
}

/* The same of the flow's own AQM; its last packet is not dropped by CoDel. */
static bool passes_own(struct queue_pairs *pairs, const struct flow_limits *limits, struct flow_bucket *flow,
		       struct sk_buff *skb, u64 now, u64 waited)
{
	struct flow_aqm *aqm = &flow->aqm;
	bool marks;

	if (waited > BLUE_AFTER * limits->interval)
		flow_aqm_overdue(aqm, now, limits);
	marks = limits->sce_interval && cobalt_marks(&aqm->sce, now, limits->sce_interval, waited > limits->target / 2);
	if (cobalt_signals(&aqm->ce, now, limits->interval, waited > limits->target)) {
		if (INET_ECN_set_ce(skb))
			pairs->stats.ecn_mark++;
		else if (flow->packets)
			return false;
	}
	if (marks && INET_ECN_set_ect1(skb)) {
		cobalt_marked(&aqm->sce, limits->sce_interval);
		pairs->stats.sce_mark++;
	}
	return !aqm->blue || get_random_u32() >= aqm->blue;
}

/* Whether the AQM lets a packet of the bulk queue through, marked or not; `packets` are left in all queues with it. */
static bool passes(struct queue_pairs *pairs, struct two_queues *q, struct sk_buff *skb, u64 now, u32 packets)
{
	struct flow_bucket *flow = two_queues_flow(q, skb);
	u64 sojourn = now - two_queues_cb(skb)->entered, waited = q->bulk_bytes ? sojourn : 0;

	pairs->stats.delay_us = div_u64(sojourn, NSEC_PER_USEC);
	if (pairs->order->af)
		waited = mul_u64_u64_div_u64(waited, (u64)(flow->packets + 1) * q->sharing, packets);
	if (pairs->order->own_aqm)
		return passes_own(pairs, &q->limits, flow, skb, now, waited);
	return passes_all(pairs, &q->limits, skb, now, waited);
}

/* One bucket after another: what a flow that sends no more was told wears off. */
static void visit_next(struct queue_pairs *pairs, u64 now)
{
	pairs->visited = (pairs->visited + 1) % BUCKETS;
	for (u32 n = 0; n < ARRAY_SIZE(pairs->pair); n++) {
		struct two_queues *q = &pairs->pair[n];

		if (q->buckets && !q->buckets[pairs->visited].packets)
			flow_aqm_idle(&q->buckets[pairs->visited].aqm, now, &q->limits);
	}
}

static struct sk_buff *two_queues_dequeue(struct Qdisc *sch)
{
	struct queue_pairs *pairs = qdisc_priv(sch);
	u64 now = ktime_get_ns();
	struct flow_bucket *flow;
	struct two_queues *q;
	struct sk_buff *skb;

	if (pairs->rate && sch->q.qlen && now < pairs->ready) {
		qdisc_watchdog_schedule_ns(&pairs->watchdog, pairs->ready);
		return NULL;
	}
	for (;;) {
		q = next_pair(pairs);
		if (!q) {
			pairs->blue -= min(pairs->blue, BLUE_DOWN);
			return NULL;
		}
		skb = take_sparse(q);
		if (skb) {
			flow = two_queues_flow(q, skb);
			if (pairs->order->af)
				flow_aqm_idle(&flow->aqm, now, &q->limits);
			break;
		}
		skb = take_bulk(q, pairs->order->next(q));
		flow = two_queues_flow(q, skb);
		if (passes(pairs, q, skb, now, sch->q.qlen))
			break;
		pairs->stats.aqm_drop++;
		sch->q.qlen--;
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_tree_reduce_backlog(sch, 1, qdisc_pkt_len(skb));
		qdisc_qstats_drop(sch);
		kfree_skb(skb);
	}
	if (pairs->order->served)
		pairs->order->served(q, flow, qdisc_pkt_len(skb));
	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_bstats_update(sch, skb);
	if (pairs->rate)
		pairs->ready += div64_u64((u64)qdisc_pkt_len(skb) * NSEC_PER_SEC, pairs->rate);
	/* Else a pair all of whose flows have a ghost would weigh nothing. */
	for (u32 n = 0; pairs->order->second && n < ARRAY_SIZE(pairs->pair); n++)
		if (skb_queue_empty(&pairs->pair[n].sparse))
			clear_ghosts(&pairs->pair[n]);
	if (pairs->order->own_aqm)
		visit_next(pairs, now);
	return skb;
}

static const struct nla_policy two_queues_policy[TCA_CNQ_MAX + 1] = {
	[TCA_CNQ_RATE64]	= { .type = NLA_U64 },
	[TCA_CNQ_TARGET]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CNQ_INTERVAL]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CNQ_LIMIT]		= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CNQ_SCE]		= NLA_POLICY_MAX(NLA_U32, SCE_SINGLE),
};

/* Times in us; none given: as they are. */
static void set_limits(struct queue_pairs *pairs, const struct nlattr *target, const struct nlattr *interval)
{
	for (u32 n = 0; n < ARRAY_SIZE(pairs->pair); n++) {
		struct flow_limits *limits = &pairs->pair[n].limits;
		u32 part = n ? SECOND_DIVISOR : 1;

		if (target)
			limits->target = (u64)nla_get_u32(target) * NSEC_PER_USEC / part;
		if (interval)
			limits->interval = (u64)nla_get_u32(interval) * NSEC_PER_USEC / part;
		limits->sce_interval = pairs->sce ? max_t(u64, div_u64(limits->interval, pairs->sce), 1) : 0;
	}
}

static int two_queues_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct queue_pairs *pairs = qdisc_priv(sch);
	struct nlattr *tb[TCA_CNQ_MAX + 1];
	int err = nla_parse_nested_deprecated(tb, TCA_CNQ_MAX, opt, two_queues_policy, extack);
	struct sk_buff *gone = NULL;

	if (err < 0)
		return err;
	sch_tree_lock(sch);
	if (tb[TCA_CNQ_RATE64])
		pairs->rate = nla_get_u64(tb[TCA_CNQ_RATE64]);
	if (tb[TCA_CNQ_LIMIT])
		sch->limit = nla_get_u32(tb[TCA_CNQ_LIMIT]);
	if (tb[TCA_CNQ_SCE])
		pairs->sce = nla_get_u32(tb[TCA_CNQ_SCE]);
	set_limits(pairs, tb[TCA_CNQ_TARGET], tb[TCA_CNQ_INTERVAL]);
	while (sch->q.qlen > sch->limit && drop_first(sch, &gone))
		;
	/* A rate that was raised or lifted holds from now on. */
	pairs->ready = min(pairs->ready, ktime_get_ns());
	if (sch->q.qlen)
		qdisc_watchdog_schedule_ns(&pairs->watchdog, pairs->ready);
	sch_tree_unlock(sch);
	kfree_skb_list(gone);
	return 0;
}

static void empty(struct two_queues *q, u32 quantum)
{
	__skb_queue_purge(&q->sparse);
	__skb_queue_purge(&q->bulk);
	if (q->buckets)
		memset(q->buckets, 0, BUCKETS * sizeof(*q->buckets));
	q->bulk_bytes = q->bulk_out = q->flows = q->debt = 0;
	q->ghosts_in = q->ghosts_out = q->sharing = 0;
	q->scan = NULL;
	q->round = 1;
	q->quantum = quantum;
}

static void two_queues_reset(struct Qdisc *sch)
{
	struct queue_pairs *pairs = qdisc_priv(sch);

	if (!pairs->order)
		return;
	qdisc_watchdog_cancel(&pairs->watchdog);
	for (u32 n = 0; n < ARRAY_SIZE(pairs->pair); n++)
		empty(&pairs->pair[n], psched_mtu(qdisc_dev(sch)));
	memset(&pairs->codel, 0, sizeof(pairs->codel));
	pairs->blue = pairs->visited = 0;
}

int two_queues_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack,
		    const struct queue_order *order)
{
	struct queue_pairs *pairs = qdisc_priv(sch);

	qdisc_watchdog_init(&pairs->watchdog, sch);
	pairs->order = order;
	pairs->sce = order->sce;
	sch->limit = 10240;
	for (u32 n = 0; n < ARRAY_SIZE(pairs->pair); n++) {
		struct two_queues *q = &pairs->pair[n];

		__skb_queue_head_init(&q->sparse);
		__skb_queue_head_init(&q->bulk);
		q->limits.target = 5 * NSEC_PER_MSEC / (n ? SECOND_DIVISOR : 1);
		q->limits.interval = 100 * NSEC_PER_MSEC / (n ? SECOND_DIVISOR : 1);
		empty(q, psched_mtu(qdisc_dev(sch)));
		if (n && !order->second)
			break;
		q->buckets = kvcalloc(BUCKETS, sizeof(*q->buckets), GFP_KERNEL);
		q->ghosts = kvcalloc(BUCKETS, sizeof(*q->ghosts), GFP_KERNEL);
		if (!q->buckets || !q->ghosts)
			return -ENOMEM;
	}
	set_limits(pairs, NULL, NULL);
	return opt ? two_queues_change(sch, opt, extack) : 0;
}

static void two_queues_destroy(struct Qdisc *sch)
{
	struct queue_pairs *pairs = qdisc_priv(sch);

	qdisc_watchdog_cancel(&pairs->watchdog);
	for (u32 n = 0; n < ARRAY_SIZE(pairs->pair); n++) {
		kvfree(pairs->pair[n].buckets);
		kvfree(pairs->pair[n].ghosts);
	}
}

static int two_queues_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	const struct queue_pairs *pairs = qdisc_priv(sch);
	const struct flow_limits *limits = &pairs->pair[0].limits;
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u64_64bit(skb, TCA_CNQ_RATE64, pairs->rate, TCA_CNQ_PAD) ||
	    nla_put_u32(skb, TCA_CNQ_TARGET, div_u64(limits->target, NSEC_PER_USEC)) ||
	    nla_put_u32(skb, TCA_CNQ_INTERVAL, div_u64(limits->interval, NSEC_PER_USEC)) ||
	    nla_put_u32(skb, TCA_CNQ_LIMIT, sch->limit) ||
	    nla_put_u32(skb, TCA_CNQ_SCE, pairs->sce)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

static int two_queues_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct queue_pairs *pairs = qdisc_priv(sch);

	pairs->stats.flows = pairs->pair[0].flows + pairs->pair[1].flows;
	return gnet_stats_copy_app(d, &pairs->stats, sizeof(pairs->stats));
}

/* All but its name and init. */
const struct Qdisc_ops two_queues_ops = {
	.priv_size	= sizeof(struct queue_pairs),
	.enqueue	= two_queues_enqueue,
	.dequeue	= two_queues_dequeue,
	.peek		= qdisc_peek_dequeued,
	.change		= two_queues_change,
	.reset		= two_queues_reset,
	.destroy	= two_queues_destroy,
	.dump		= two_queues_dump,
	.dump_stats	= two_queues_dump_stats,
};

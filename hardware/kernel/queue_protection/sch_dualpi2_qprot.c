// SPDX-License-Identifier: GPL-2.0
/*
 * dualpi2_qprot: mainline's dualpi2 with the low-latency queue of DOCSIS.
 *
 * - Packets with DSCP 45 (NQB, RFC 9956) are in L too. There they are neither marked nor dropped.
 * - L marks by RFC 9957's ramp on arrival instead of by a step at departure. The same probability is the score's, so
 *   that a sender sees by its marks what queue protection holds against it.
 * - Queue protection (RFC 9957, queue_protection.h) sends the packets of flows that build L's queue to C.
 *
 * The PI controller, the coupling, the scheduler and the C queue are the kernel's own file, which is compiled here a
 * second time without its registration.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>

#undef module_init
#undef module_exit
#define module_init(function)
#define module_exit(function)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "sch_dualpi2.c"
#pragma GCC diagnostic pop

#include "dualpi2_qprot.h"
#include "queue_protection.h"

#define NQB_DSCP 45

struct qprot_sched {
	struct dualpi2_sched_data dualpi2;	/* first: the kernel's functions take qdisc_priv() for it */
	struct queue_protection protection;
	bool	protects;
	u32	nqb;
};

static bool is_nqb(struct sk_buff *skb)
{
	/* dualpi2_read_ect() has made the headers readable, else there are none. */
	switch (skb_protocol(skb, true)) {
	case htons(ETH_P_IP):
		return ipv4_get_dsfield(ip_hdr(skb)) >> 2 == NQB_DSCP;
	case htons(ETH_P_IPV6):
		return ipv6_get_dsfield(ipv6_hdr(skb)) >> 2 == NQB_DSCP;
	}
	return false;
}

/* How long L's backlog takes at the link's rate, ns. It counts from the arrival, so that a burst is seen at once. */
static u64 delay_of_l(const struct qprot_sched *q)
{
	return mul_u64_u64_div_u64((u64)q->dualpi2.l_queue->qstats.backlog * 8, QPROT_SECOND, q->protection.rate);
}

/*
 * What L's own draw needs for both draws together to mark with the larger of two probabilities, as RFC 9332, A.1, has it:
 * dualpi2's marks by the coupled one. Both are 31-bit fractions.
 */
static u32 beyond_coupled(const struct dualpi2_sched_data *q, u32 native)
{
	u64 coupled = min_t(u64, (u64)READ_ONCE(q->pi2_prob) * q->coupling_factor, MAX_PROB) >> (32 - QPROT_PROB_BITS);

	return native > coupled ? div_u64((native - coupled) << QPROT_PROB_BITS, QPROT_CERTAIN - coupled) : 0;
}

/* Mark a packet for L, and take it out of L if its flow must: RFC 9957, section 4.2, classifier(). */
static void arrive_at_l(struct qprot_sched *q, struct sk_buff *skb)
{
	struct dualpi2_skb_cb *cb = dualpi2_skb_cb(skb);
	u64 delay = delay_of_l(q);
	u32 probability = qprot_probability(&q->protection, delay);
	/* Packets that are here by their DSCP have no coupled draw. */
	u32 native = cb->classified == DUALPI2_C_L4S ? beyond_coupled(&q->dualpi2, probability) : probability;

	if (cb->ect && get_random_u32() >> (32 - QPROT_PROB_BITS) < native && dualpi2_mark(&q->dualpi2, skb))
		q->dualpi2.step_marks++;
	if (q->protects &&
	    qprot_sanctions(&q->protection, skb_get_hash(skb), qdisc_pkt_len(skb), delay, ktime_get_ns()))
		cb->classified = DUALPI2_C_CLASSIC;
}

static int qprot_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);

static int enqueue_segments(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct sk_buff *segments = skb_gso_segment(skb, netif_skb_features(skb) & ~NETIF_F_GSO_MASK), *one, *next;
	int count = 0, bytes = 0, err = NET_XMIT_DROP;

	if (IS_ERR_OR_NULL(segments))
		return qdisc_drop(skb, sch, to_free);
	skb_list_walk_safe(segments, one, next) {
		int length = one->len;

		skb_mark_not_on_list(one);
		qdisc_skb_cb(one)->pkt_len = length;
		qdisc_skb_cb(one)->pkt_segs = 1;
		err = qprot_enqueue(one, sch, to_free);
		if (err == NET_XMIT_SUCCESS) {
			count++;
			bytes += length;
		}
	}
	/* The caller counts one packet of the original length. */
	if (count)
		qdisc_tree_reduce_backlog(sch, 1 - count, (int)qdisc_pkt_len(skb) - bytes);
	consume_skb(skb);
	return count ? NET_XMIT_SUCCESS : err;
}

static int qprot_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct qprot_sched *q = qdisc_priv(sch);
	int err;

	if (skb_is_gso(skb))
		return enqueue_segments(skb, sch, to_free);
	err = dualpi2_skb_classify(&q->dualpi2, skb);
	if (err != NET_XMIT_SUCCESS) {
		/* A tc filter took it. */
		if (err & __NET_XMIT_BYPASS)
			qdisc_qstats_drop(sch);
		__qdisc_drop(skb, to_free);
		return err;
	}
	if (!skb_in_l_queue(skb) && is_nqb(skb)) {
		dualpi2_skb_cb(skb)->classified = DUALPI2_C_LLLL;
		q->nqb++;
	}
	if (skb_in_l_queue(skb))
		arrive_at_l(q, skb);
	return dualpi2_enqueue_skb(skb, sch, to_free);
}

static const struct netlink_range_validation times_us = { .min = 1, .max = USEC_PER_SEC };

static const struct nla_policy qprot_policy[TCA_QPROT_MAX + 1] = {
	[TCA_QPROT_RATE64]		= { .type = NLA_U64 },
	[TCA_QPROT_LIMIT]		= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_QPROT_MAX_TH]		= NLA_POLICY_FULL_RANGE(NLA_U32, &times_us),
	[TCA_QPROT_LG_RANGE]		= NLA_POLICY_RANGE(NLA_U32, 10, 30),
	[TCA_QPROT_CRITICAL_QL]		= NLA_POLICY_FULL_RANGE(NLA_U32, &times_us),
	[TCA_QPROT_CRITICAL_SCORE]	= NLA_POLICY_FULL_RANGE(NLA_U32, &times_us),
	[TCA_QPROT_LG_AGING]		= NLA_POLICY_RANGE(NLA_U32, 1, 30),
	[TCA_QPROT_PROTECT]		= NLA_POLICY_MAX(NLA_U32, 1),
};

static int qprot_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct qprot_sched *q = qdisc_priv(sch);
	struct queue_protection *protection = &q->protection;
	struct nlattr *tb[TCA_QPROT_MAX + 1];
	u32 *const fields[TCA_QPROT_MAX + 1] = {
		[TCA_QPROT_LIMIT]		= &sch->limit,
		[TCA_QPROT_MAX_TH]		= &protection->max_th_us,
		[TCA_QPROT_LG_RANGE]		= &protection->lg_range,
		[TCA_QPROT_CRITICAL_QL]		= &protection->critical_ql_us,
		[TCA_QPROT_CRITICAL_SCORE]	= &protection->critical_score_us,
		[TCA_QPROT_LG_AGING]		= &protection->lg_aging,
	};
	u64 rate = protection->rate;
	int err = nla_parse_nested(tb, TCA_QPROT_MAX, opt, qprot_policy, extack);

	if (err < 0)
		return err;
	if (tb[TCA_QPROT_RATE64])
		rate = nla_get_u64(tb[TCA_QPROT_RATE64]) * 8;
	if (!rate) {
		NL_SET_ERR_MSG_MOD(extack, "rate is required: that of the link");
		return -EINVAL;
	}
	sch_tree_lock(sch);
	protection->rate = rate;
	for (u32 n = 0; n <= TCA_QPROT_MAX; n++)
		if (fields[n] && tb[n])
			*fields[n] = nla_get_u32(tb[n]);
	if (tb[TCA_QPROT_PROTECT])
		q->protects = nla_get_u32(tb[TCA_QPROT_PROTECT]);
	q->dualpi2.memory_limit = get_memory_limit(sch, sch->limit);
	qprot_derive(protection);
	sch_tree_unlock(sch);
	return 0;
}

static int qprot_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct qprot_sched *q = qdisc_priv(sch);
	int err = dualpi2_init(sch, NULL, extack);

	if (err)
		return err;
	q->dualpi2.step_thresh = U32_MAX;	/* the ramp marks instead */
	q->protects = true;
	qprot_set_defaults(&q->protection);
	if (opt)
		return qprot_change(sch, opt, extack);
	NL_SET_ERR_MSG_MOD(extack, "rate is required: that of the link");
	return -EINVAL;
}

static void qprot_reset(struct Qdisc *sch)
{
	struct qprot_sched *q = qdisc_priv(sch);
	struct queue_protection *protection = &q->protection;

	dualpi2_reset(sch);
	q->dualpi2.l_queue->qstats.backlog = 0;	/* mainline only shows it */
	memset(protection->buckets, 0, sizeof(protection->buckets));
	protection->sanctioned = protection->sanctioned_flows = protection->in_dregs = q->nqb = 0;
}

static int qprot_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	const struct qprot_sched *q = qdisc_priv(sch);
	const struct queue_protection *it = &q->protection;
	struct nlattr *nest = nla_nest_start(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u64_64bit(skb, TCA_QPROT_RATE64, div_u64(it->rate, 8), TCA_QPROT_PAD) ||
	    nla_put_u32(skb, TCA_QPROT_LIMIT, sch->limit) ||
	    nla_put_u32(skb, TCA_QPROT_MAX_TH, div_u64(it->max_th, NSEC_PER_USEC)) ||
	    nla_put_u32(skb, TCA_QPROT_LG_RANGE, it->lg_range) ||
	    nla_put_u32(skb, TCA_QPROT_CRITICAL_QL, div_u64(it->critical_ql, NSEC_PER_USEC)) ||
	    nla_put_u32(skb, TCA_QPROT_CRITICAL_SCORE, it->critical_score_us) ||
	    nla_put_u32(skb, TCA_QPROT_LG_AGING, it->lg_aging) ||
	    nla_put_u32(skb, TCA_QPROT_PROTECT, q->protects)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

static int qprot_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct qprot_sched *q = qdisc_priv(sch);
	struct tc_qprot_xstats stats = {
		.sanctioned		= q->protection.sanctioned,
		.sanctioned_flows	= q->protection.sanctioned_flows,
		.in_dregs		= q->protection.in_dregs,
		.packets_in_l		= q->dualpi2.packets_in_l,
		.packets_in_c		= q->dualpi2.packets_in_c,
		.nqb			= q->nqb,
		.ecn_mark		= q->dualpi2.ecn_mark,
		.native_mark		= q->dualpi2.step_marks,
		.prob			= q->dualpi2.pi2_prob,
	};
	u64 c, l;

	get_queue_delays(&q->dualpi2, &c, &l);
	stats.delay_c = convert_ns_to_usec(c);
	stats.delay_l = convert_ns_to_usec(l);
	return gnet_stats_copy_app(d, &stats, sizeof(stats));
}

static struct Qdisc_ops qprot_qdisc_ops __read_mostly = {
	.id		= "dualpi2_qprot",
	.cl_ops		= &dualpi2_class_ops,
	.priv_size	= sizeof(struct qprot_sched),
	.enqueue	= qprot_enqueue,
	.dequeue	= dualpi2_qdisc_dequeue,
	.peek		= dualpi2_peek,
	.init		= qprot_init,
	.destroy	= dualpi2_destroy,
	.reset		= qprot_reset,
	.change		= qprot_change,
	.dump		= qprot_dump,
	.dump_stats	= qprot_dump_stats,
	.owner		= THIS_MODULE,
};

static int __init qprot_register(void)
{
	return register_qdisc(&qprot_qdisc_ops);
}
device_initcall(qprot_register);

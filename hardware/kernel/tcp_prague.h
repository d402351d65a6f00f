/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What each form of TCP Prague has: AccECN and ECT(1), or Reno where the peer has
 * no AccECN; rounds in which marks are counted; a pace in small bursts; what `ss`
 * shows. The law of a form is in a file of its own, which includes this once.
 */
#ifndef _TCP_PRAGUE_H
#define _TCP_PRAGUE_H

#include <linux/inet_diag.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <net/tcp.h>
#include <net/tcp_ecn.h>

#define FRAC_BITS	20
#define ONE		(1 << FRAC_BITS)	/* 1.0 of alpha, gain and window fraction */
#define GAIN_SHIFT	4			/* g = 1/16 */
#define MIN_CWND	2U

#define PRAGUE_FLAGS	(TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION | \
			 TCP_CONG_NO_FALLBACK_RFC3168 | TCP_CONG_NON_RESTRICTED)

/* Packets that carried CE, of those delivered. */
struct prague_marks {
	u32	round_seq;	/* snd_nxt at the start of the round */
	u32	round_delivered;
	u32	round_delivered_ce;
	u32	delivered_ce;	/* tp->delivered_ce at the last ACK */
	bool	saw_ce;
};

static struct tcp_congestion_ops prague_reno __read_mostly = {
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "prague-reno",
};

static inline void prague_start_count(const struct tcp_sock *tp, struct prague_marks *marks)
{
	marks->round_seq = tp->snd_nxt;
	marks->round_delivered = tp->delivered;
	marks->round_delivered_ce = tp->delivered_ce;
}

/* Packets delivered with CE since the last ACK. */
static inline u32 prague_new_ce(const struct tcp_sock *tp, struct prague_marks *marks)
{
	u32 ce = tp->delivered_ce - marks->delivered_ce;

	marks->delivered_ce = tp->delivered_ce;
	return ce;
}

/* alpha / g after a round in which `ce` of `delivered` packets carried CE: what a shift would lose stays in it. */
static inline u64 prague_average(u64 alphas, u32 ce, u32 delivered)
{
	return min_t(u64, (u64)ONE << GAIN_SHIFT, alphas - (alphas >> GAIN_SHIFT) +
		     div_u64((u64)ce << FRAC_BITS, max(delivered, 1U)));
}

/* Bytes of the headers of a data packet: TCP's with its options, and IP's. */
static inline u32 prague_headers(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_header_len + inet_csk(sk)->icsk_af_ops->net_header_len;
}

static inline bool prague_doubles(const struct tcp_sock *tp)
{
	return tcp_snd_cwnd(tp) < tp->snd_ssthresh / 2;
}

/* Bytes a second of one segment a round trip; twice that while the window doubles. */
static inline u64 prague_segment_rate(const struct tcp_sock *tp, u32 bytes)
{
	u64 rate = (u64)bytes * (USEC_PER_SEC << 3);

	if (prague_doubles(tp))
		rate <<= 1;
	if (tp->srtt_us)
		do_div(rate, tp->srtt_us);
	return rate;
}

static inline void prague_set_pace(struct sock *sk, u64 rate)
{
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* The window is the form's own; what the core asks for on ECE or loss is answered there. */
static inline u32 prague_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

/* No more than one segment in a burst when the rate does not ask for it. */
static inline u32 prague_min_tso_segs(struct sock *sk)
{
	return 1;
}

/* `alpha` in 1/1024. */
static inline size_t prague_tell(const struct tcp_sock *tp, const struct prague_marks *marks, u32 alpha,
				 u32 ext, int *attr, union tcp_cc_info *info)
{
	if (!(ext & (1 << (INET_DIAG_DCTCPINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(&info->dctcp, 0, sizeof(info->dctcp));
	info->dctcp.dctcp_enabled = 1;
	info->dctcp.dctcp_ce_state = marks->saw_ce;
	info->dctcp.dctcp_alpha = alpha;
	info->dctcp.dctcp_ab_ecn = tp->mss_cache * (tp->delivered_ce - marks->round_delivered_ce);
	info->dctcp.dctcp_ab_tot = tp->mss_cache * (tp->delivered - marks->round_delivered);
	*attr = INET_DIAG_DCTCPINFO;
	return sizeof(info->dctcp);
}

/* Without accurate feedback: Reno, no ECT(1) that would lie, and false. */
static inline bool prague_begin(struct sock *sk)
{
	if (!tcp_ecn_mode_accecn(tcp_sk(sk)) && sk->sk_state != TCP_LISTEN && sk->sk_state != TCP_CLOSE) {
		WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &prague_reno);
		INET_ECN_dontxmit(sk);
		return false;
	}
	memset(inet_csk_ca(sk), 0, ICSK_CA_PRIV_SIZE);
	/* Bursts of at most 1/4096 s = 0.25 ms of the pacing rate. */
	WRITE_ONCE(sk->sk_pacing_shift, 12);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	return true;
}

#endif

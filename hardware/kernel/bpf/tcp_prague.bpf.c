// SPDX-License-Identifier: GPL-2.0
/*
 * TCP Prague as BPF struct_ops, for a kernel as it comes.
 *
 * ../tcp_prague.c is the reference and says what each part is for. This is the
 * same arithmetic without what a BPF program may not do: alpha in ss, smaller
 * packets below 1 Mbit/s (mss_cache is read-only), and pacing bursts of 0.25 ms
 * (here the kernel's own, about 1 ms, but never more than one segment at low
 * rates). ect1.bpf.c makes the packets ECT(1).
 */

#include "kernel.h"
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define FRAC_BITS	20
#define ONE		(1U << FRAC_BITS)
#define GAIN_SHIFT	4
#define PACE_BITS	4	/* dropped of a rate in bytes/s, so that 2^64 holds its product with a window */
#define MIN_CWND	2U
#define RTT_VIRT_US	25000U
#define MIN_RATE	12500U
#define DITHER_SHIFT	5
#define SETTLING_ROUNDS	4U
#define GROWTH_BYTES	1500U
#define USEC_PER_SEC	1000000ULL

#define TCP_CLOSE		7
#define TCP_LISTEN		10
#define TCP_CA_Open		0
#define TCP_CA_CWR		2
#define TCP_CA_Recovery		3
#define TCP_CA_Loss		4
#define TCP_ECN_MODE_ANY	0x11
#define TCP_ECN_MODE_ACCECN	0x10
#define TCP_CHRONO_RWND_LIMITED	2
#define TCP_CONG_NON_RESTRICTED	0x1
#define TCP_CONG_NEEDS_ACCECN	0x4
#define SK_PACING_NEEDED	1
#define SOL_TCP			6
#define TCP_CONGESTION		13

#define min(a, b)	((a) < (b) ? (a) : (b))
#define max(a, b)	((a) > (b) ? (a) : (b))

char LICENSE[] SEC("license") = "GPL";

extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;

struct prague {
	u64	window;
	u64	loss_window;
	u64	round_mstamp;
	u64	cwr_mstamp;
	u32	round_seq;
	u32	round_delivered;
	u32	round_delivered_ce;
	u32	delivered_ce;
	u32	alphas;
	u32	gain;
	u8	rounds;
	u8	saw_ce;
	u8	in_loss;
};

_Static_assert(sizeof(struct prague) <= CA_PRIV_WORDS * sizeof(u64), "ICSK_CA_PRIV_SIZE");

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct prague *prague_of(struct tcp_sock *tp)
{
	return (struct prague *)tp->inet_conn.icsk_ca_priv;
}

static __always_inline u8 prague_state(struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
}

static __always_inline u32 prague_segments(u64 window)
{
	return (window + ONE - 1) >> FRAC_BITS;
}

static __always_inline u32 prague_srtt_us(struct tcp_sock *tp)
{
	return max(tp->srtt_us >> 3, 1U);
}

static __always_inline u32 prague_rtt_virt(struct tcp_sock *tp)
{
	return max(prague_srtt_us(tp), RTT_VIRT_US);
}

static __always_inline u32 prague_packet(struct tcp_sock *tp)
{
	return tp->mss_cache + tp->tcp_header_len + tp->inet_conn.icsk_af_ops->net_header_len;
}

static __always_inline int prague_in_slow_start(struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

static __always_inline int prague_has_settled(struct tcp_sock *tp, struct prague *ca)
{
	return !prague_in_slow_start(tp) && ca->rounds >= SETTLING_ROUNDS;
}

static __always_inline int prague_virtual_rtt_passed(struct tcp_sock *tp, struct prague *ca, u64 since)
{
	return !prague_has_settled(tp, ca) || (s64)(tp->tcp_mstamp - since) >= RTT_VIRT_US;
}

static __always_inline void prague_set_window(struct tcp_sock *tp, struct prague *ca, u64 window)
{
	u64 least = ((u64)prague_srtt_us(tp) << FRAC_BITS) / (USEC_PER_SEC / MIN_RATE * prague_packet(tp));

	window = max(window, least + 1);
	ca->window = min(window, (u64)tp->snd_cwnd_clamp << FRAC_BITS);
}

static __always_inline void prague_step(struct tcp_sock *tp, struct prague *ca)
{
	u32 aim = max(prague_segments(ca->window), MIN_CWND);
	u32 cwnd = tp->snd_cwnd;

	aim = min(aim, tp->snd_cwnd_clamp);
	if (cwnd > aim) {
		tp->snd_cwnd = cwnd - 1;
		tp->snd_ssthresh = cwnd - 1;
	} else if (cwnd < aim) {
		tp->snd_cwnd = cwnd + 1;
	}
}

static __always_inline void prague_start_round(struct tcp_sock *tp, struct prague *ca)
{
	u64 ratio = ONE;

	if (prague_has_settled(tp, ca))
		ratio = ((u64)prague_srtt_us(tp) << FRAC_BITS) / prague_rtt_virt(tp);
	ca->gain = max((u32)((ratio * ratio >> FRAC_BITS) * GROWTH_BYTES / prague_packet(tp)), 1U);
	ca->round_mstamp = tp->tcp_mstamp;
	ca->round_seq = tp->snd_nxt;
	ca->round_delivered = tp->delivered;
	ca->round_delivered_ce = tp->delivered_ce;
}

static __always_inline void prague_end_round(struct tcp_sock *tp, struct prague *ca)
{
	u32 delivered = max(tp->delivered - ca->round_delivered, 1U);
	u64 ce = tp->delivered_ce - ca->round_delivered_ce;
	u64 alphas;

	if ((s32)(tp->snd_una - ca->round_seq) < 0 || !prague_virtual_rtt_passed(tp, ca, ca->round_mstamp))
		return;
	if (ca->saw_ce) {
		alphas = ca->alphas - (ca->alphas >> GAIN_SHIFT) + (ce << FRAC_BITS) / delivered;
		ca->alphas = min(alphas, (u64)ONE << GAIN_SHIFT);
	}
	if (!prague_in_slow_start(tp) && ca->rounds < SETTLING_ROUNDS)
		ca->rounds++;
	prague_start_round(tp, ca);
}

static __always_inline void prague_halve_on_first_ce(struct tcp_sock *tp, struct prague *ca)
{
	ca->saw_ce = 1;
	prague_set_window(tp, ca, ca->window >> 1);
	tp->snd_ssthresh = min(tp->snd_ssthresh, prague_segments(ca->window));
}

static __always_inline void prague_reduce_on_ce(struct tcp_sock *tp, struct prague *ca)
{
	u64 alpha = ca->alphas >> GAIN_SHIFT;

	if (!prague_virtual_rtt_passed(tp, ca, ca->cwr_mstamp))
		return;
	ca->cwr_mstamp = tp->tcp_mstamp;
	prague_set_window(tp, ca, ca->window - ((ca->window >> 1) * alpha >> FRAC_BITS));
}

static __always_inline void prague_reduce_on_loss(struct tcp_sock *tp, struct prague *ca)
{
	ca->loss_window = ca->window;
	ca->in_loss = 1;
	prague_set_window(tp, ca, ca->window >> 1);
	tp->snd_ssthresh = max(prague_segments(ca->window), MIN_CWND);
}

static __always_inline int prague_is_window_limited(struct tcp_sock *tp, const struct rate_sample *rs)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	if (prague_in_slow_start(tp))
		return tp->snd_cwnd < 2 * tp->max_packets_out;
	return !rs->is_app_limited && BPF_CORE_READ_BITFIELD(tp, chrono_type) != TCP_CHRONO_RWND_LIMITED;
}

static __always_inline void prague_increase(struct tcp_sock *tp, struct prague *ca, const struct rate_sample *rs,
					    u32 acked)
{
	if (!acked || ca->in_loss || !prague_is_window_limited(tp, rs))
		return;
	if (prague_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		prague_set_window(tp, ca, (u64)tp->snd_cwnd << FRAC_BITS);
		if (!acked)
			return;
	}
	if (ca->window)
		prague_set_window(tp, ca, ca->window + ((u64)acked * ca->gain << FRAC_BITS) / ca->window);
}

static __always_inline void prague_pace(struct tcp_sock *tp, struct prague *ca)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	u64 rate = (u64)prague_packet(tp) * (USEC_PER_SEC << 3);

	if (tp->srtt_us)
		rate /= tp->srtt_us;
	rate = (rate >> PACE_BITS) * ca->window >> (FRAC_BITS - PACE_BITS);
	rate = max(rate, (u64)MIN_RATE);
	if (tp->snd_cwnd < tp->snd_ssthresh / 2)
		rate <<= 1;
	else if ((s64)(tp->tcp_mstamp - ca->round_mstamp) < prague_rtt_virt(tp) / 2)
		rate += rate >> DITHER_SHIFT;
	else
		rate -= rate >> DITHER_SHIFT;
	sk->sk_pacing_rate = min(rate, sk->sk_max_pacing_rate);
}

SEC("struct_ops")
void BPF_PROG(prague_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_of(tp);
	u32 ce = tp->delivered_ce - ca->delivered_ce;
	u32 acked = rs->acked_sacked;

	ca->delivered_ce = tp->delivered_ce;
	if (ce && !ca->saw_ce)
		prague_halve_on_first_ce(tp, ca);
	prague_increase(tp, ca, rs, acked - min(ce, acked));
	prague_step(tp, ca);
	prague_end_round(tp, ca);
	prague_pace(tp, ca);
}

SEC("struct_ops")
u32 BPF_PROG(prague_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops")
void BPF_PROG(prague_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_of(tp);
	u8 old_state = prague_state(tp);

	if (old_state == new_state && new_state != TCP_CA_CWR)
		return;
	/* CWR without a new mark, or anew: a probe has repaired the loss of a tail, or this host's own queue has dropped. */
	if (new_state == TCP_CA_CWR && old_state != TCP_CA_CWR && tp->delivered_ce != ca->delivered_ce)
		prague_reduce_on_ce(tp, ca);
	else if (new_state == TCP_CA_CWR || new_state == TCP_CA_Recovery ||
		 (new_state == TCP_CA_Loss && old_state == TCP_CA_CWR && !tp->undo_marker && !ca->in_loss))
		prague_reduce_on_loss(tp, ca);
	else if (new_state == TCP_CA_Open)
		ca->in_loss = 0;
}

SEC("struct_ops")
void BPF_PROG(prague_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (event == CA_EVENT_LOSS)
		prague_reduce_on_loss(tp, prague_of(tp));
}

SEC("struct_ops")
u32 BPF_PROG(prague_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_of(tp);

	ca->in_loss = 0;
	prague_set_window(tp, ca, max(ca->window, ca->loss_window));
	return max(tp->snd_cwnd, prague_segments(ca->window));
}

SEC("struct_ops")
u32 BPF_PROG(prague_min_tso_segs, struct sock *sk)
{
	return 1;
}

SEC("struct_ops")
void BPF_PROG(prague_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_of(tp);
	u8 state = sk->__sk_common.skc_state;
	static char reno[16] = "reno";

	if ((tp->ecn_flags & TCP_ECN_MODE_ANY) != TCP_ECN_MODE_ACCECN && state != TCP_LISTEN && state != TCP_CLOSE) {
		/* Without accurate feedback: Reno, and no ECT(1) that would lie. */
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
		return;
	}
#pragma unroll
	for (int i = 0; i < CA_PRIV_WORDS; i++)
		tp->inet_conn.icsk_ca_priv[i] = 0;
	ca->window = (u64)tp->snd_cwnd << FRAC_BITS;
	ca->delivered_ce = tp->delivered_ce;
	prague_start_round(tp, ca);
	ca->round_mstamp = bpf_ktime_get_ns() / 1000;	/* tcp_mstamp is as old as the last packet */
	if (!sk->sk_pacing_status)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* Not NEEDS_ECN: on a kernel as it comes it would send SYNs and ACKs as ECT(0). */
SEC(".struct_ops")
struct tcp_congestion_ops prague = {
	.init		= (void *)prague_init,
	.cong_control	= (void *)prague_cong_control,
	.ssthresh	= (void *)prague_ssthresh,
	.set_state	= (void *)prague_set_state,
	.cwnd_event	= (void *)prague_cwnd_event,
	.undo_cwnd	= (void *)prague_undo_cwnd,
	.min_tso_segs	= (void *)prague_min_tso_segs,
	.flags		= TCP_CONG_NEEDS_ACCECN | TCP_CONG_NON_RESTRICTED,
	.name		= "prague",
};

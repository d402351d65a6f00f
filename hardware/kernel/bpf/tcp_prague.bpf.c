// SPDX-License-Identifier: GPL-2.0
/*
 * TCP Prague as BPF struct_ops, for a kernel as it comes.
 *
 * ../tcp_prague.c is the reference and says what each part is for; this
 * is the same arithmetic, with what a BPF program may not do left out:
 * the alpha that ss shows, and pacing bursts of 0.25 ms (here the
 * kernel's own, about 1 ms, but never more than one segment at low rates).
 * The data packets get their ECT(1) from ect1.bpf.c.
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
#define USEC_PER_SEC	1000000ULL

#define TCP_CLOSE		7
#define TCP_LISTEN		10
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
	u64	round_mstamp;
	u64	cwr_mstamp;
	u32	round_seq;
	u32	cwr_seq;
	u32	round_delivered;
	u32	round_delivered_ce;
	u32	delivered_ce;
	u32	alpha;
	u32	gain;
	u32	cwr_cwnd;
	u32	loss_cwnd;
	u32	saw_ce;
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

static __always_inline u64 prague_window(struct tcp_sock *tp, struct prague *ca)
{
	u32 cwnd = tp->snd_cwnd;

	return prague_segments(ca->window) == cwnd ? ca->window : (u64)cwnd << FRAC_BITS;
}

static __always_inline void prague_set_window(struct tcp_sock *tp, struct prague *ca, u64 window)
{
	window = max(window, (u64)MIN_CWND << FRAC_BITS);
	ca->window = min(window, (u64)tp->snd_cwnd_clamp << FRAC_BITS);
	tp->snd_cwnd = prague_segments(ca->window);
}

static __always_inline u32 prague_srtt_us(struct tcp_sock *tp)
{
	return max(tp->srtt_us >> 3, 1U);
}

static __always_inline u32 prague_rtt_virt(struct tcp_sock *tp)
{
	return max(prague_srtt_us(tp), RTT_VIRT_US);
}

static __always_inline int prague_round_over(struct tcp_sock *tp, u32 seq, u64 mstamp)
{
	if ((s32)(tp->snd_una - seq) < 0)
		return 0;
	return (s64)(tp->tcp_mstamp - mstamp) >= prague_rtt_virt(tp);
}

static __always_inline void prague_start_round(struct tcp_sock *tp, struct prague *ca)
{
	u64 ratio = ((u64)prague_srtt_us(tp) << FRAC_BITS) / prague_rtt_virt(tp);

	ca->gain = max((u32)((ratio * ratio) >> FRAC_BITS), 1U);
	ca->round_mstamp = tp->tcp_mstamp;
	ca->round_seq = tp->snd_nxt;
	ca->round_delivered = tp->delivered;
	ca->round_delivered_ce = tp->delivered_ce;
}

static __always_inline void prague_update_alpha(struct tcp_sock *tp, struct prague *ca)
{
	u32 delivered = tp->delivered - ca->round_delivered;
	u32 ce = min(tp->delivered_ce - ca->round_delivered_ce, delivered);
	s64 error;

	if (!prague_round_over(tp, ca->round_seq, ca->round_mstamp))
		return;
	if (delivered && ca->saw_ce) {
		error = (s64)(((u64)ce << FRAC_BITS) / delivered) - ca->alpha;
		ca->alpha += (s32)(error >> GAIN_SHIFT);
	}
	prague_start_round(tp, ca);
}

static __always_inline void prague_reduce_on_ce(struct tcp_sock *tp, struct prague *ca)
{
	u64 window = prague_window(tp, ca);

	if (!ca->saw_ce) {
		ca->saw_ce = 1;
		ca->alpha = ONE;
		prague_start_round(tp, ca);
	} else if (!prague_round_over(tp, ca->cwr_seq, ca->cwr_mstamp)) {
		return;
	}
	ca->cwr_cwnd = tp->snd_cwnd;
	ca->cwr_seq = tp->snd_nxt;
	ca->cwr_mstamp = tp->tcp_mstamp;
	prague_set_window(tp, ca, window - ((window >> 1) * ca->alpha >> FRAC_BITS));
	tp->snd_ssthresh = tp->snd_cwnd;
}

static __always_inline void prague_reduce_on_loss(struct tcp_sock *tp, struct prague *ca, u32 cwnd)
{
	ca->loss_cwnd = cwnd;
	if (ca->saw_ce && !prague_round_over(tp, ca->cwr_seq, ca->cwr_mstamp))
		cwnd = min(2 * cwnd, max(cwnd, ca->cwr_cwnd));
	tp->snd_ssthresh = max(cwnd >> 1, MIN_CWND);
}

static __always_inline int prague_is_window_limited(struct tcp_sock *tp, const struct rate_sample *rs)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		return tp->snd_cwnd < 2 * tp->max_packets_out;
	return !rs->is_app_limited && BPF_CORE_READ_BITFIELD(tp, chrono_type) != TCP_CHRONO_RWND_LIMITED;
}

static __always_inline void prague_increase(struct tcp_sock *tp, struct prague *ca, const struct rate_sample *rs,
					    u32 acked)
{
	u64 window;

	if (!acked || !prague_is_window_limited(tp, rs))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	window = max(prague_window(tp, ca), (u64)ONE);
	prague_set_window(tp, ca, window + ((u64)acked * ca->gain << FRAC_BITS) / window);
}

static __always_inline void prague_pace(struct tcp_sock *tp, struct prague *ca)
{
	u64 window = prague_window(tp, ca);
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	u64 rate = (u64)tp->mss_cache * (USEC_PER_SEC << 3);

	if (tp->snd_cwnd < tp->snd_ssthresh / 2)
		rate <<= 1;
	if (tp->srtt_us)
		rate /= tp->srtt_us;
	rate = (rate >> PACE_BITS) * window >> (FRAC_BITS - PACE_BITS);
	sk->sk_pacing_rate = min(rate, sk->sk_max_pacing_rate);
}

SEC("struct_ops")
void BPF_PROG(prague_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_of(tp);
	u32 ce = tp->delivered_ce - ca->delivered_ce;
	u32 acked = rs->acked_sacked;
	u8 state = prague_state(tp);

	ca->delivered_ce = tp->delivered_ce;
	prague_update_alpha(tp, ca);
	if (state != TCP_CA_Recovery) {
		if (ce && state != TCP_CA_Loss)
			prague_reduce_on_ce(tp, ca);
		prague_increase(tp, ca, rs, acked - min(ce, acked));
	}
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

	if (old_state == new_state)
		return;
	if (new_state == TCP_CA_Recovery) {
		prague_reduce_on_loss(tp, ca, tp->snd_cwnd);
		tp->snd_cwnd = tp->snd_ssthresh;
	} else if (new_state == TCP_CA_Loss && old_state == TCP_CA_CWR && !tp->undo_marker) {
		prague_reduce_on_loss(tp, ca, prague_segments(ca->window));
	}
}

SEC("struct_ops")
void BPF_PROG(prague_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (event == CA_EVENT_LOSS)
		prague_reduce_on_loss(tp, prague_of(tp), tp->snd_cwnd);
}

SEC("struct_ops")
u32 BPF_PROG(prague_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return max(tp->snd_cwnd, prague_of(tp)->loss_cwnd);
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

// SPDX-License-Identifier: GPL-2.0
/*
 * TCP Prague as it behaved in 2020: the one that published fairness tables were
 * made with ("L4S Tests"). Written anew for this project; what it does was read
 * in the kernel that they name, L4STeam's 5.4 of 4 August 2020 (GPL-2.0).
 * tcp_prague.c beside this file is the draft's. What differs:
 *
 *   RTT		no independence of it: a round is a round trip
 *   window	whole segments; what is left over is carried in 2^-20 segments,
 *		and the window follows it by one segment an ACK
 *   CE		once on each entry of the core's CWR state:  carry -= W * alpha / 2
 *   loss	carry -= W / 2; no increase until the core's state is Open again
 *   alpha	starts at 1, so that the first mark halves
 *   increase	unmarked / W, by ACKs that find data held back by the window or
 *		by TCP's own pace
 *   pace	packets with their headers (3.6 % above the payload's W / srtt)
 */

#include "tcp_prague.h"

struct prague {
	u64	alphas;		/* alpha / g: what a shift would lose stays in it */
	s64	carry;		/* segments that the window is behind by, ONE = 1 */
	s64	loss_carry;
	u32	loss_cwnd;	/* window and carry before the last loss response */
	struct prague_marks marks;
	bool	in_loss;
};

static void prague_update_alpha(const struct tcp_sock *tp, struct prague *ca)
{
	u32 delivered = tp->delivered - ca->marks.round_delivered;
	u32 ce = tp->delivered_ce - ca->marks.round_delivered_ce;

	if (before(tp->snd_una, ca->marks.round_seq))
		return;
	if (ca->marks.saw_ce)
		ca->alphas = prague_average(ca->alphas, ce, delivered);
	prague_start_count(tp, &ca->marks);
}

/* A whole segment of the carry, if there is one, goes to the window or comes from it. */
static void prague_step(struct tcp_sock *tp, struct prague *ca)
{
	int step = clamp_t(s64, div_s64(ca->carry, ONE), -1, 1);
	u32 cwnd = tcp_snd_cwnd(tp) + step;

	if (!step)
		return;
	ca->carry -= (s64)step * ONE;
	if (cwnd < MIN_CWND) {
		cwnd = MIN_CWND;
		ca->carry = 0;
	}
	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
	if (step < 0)
		WRITE_ONCE(tp->snd_ssthresh, tcp_snd_cwnd(tp));
}

/* By the window, or by its pace where TCP keeps it itself. */
static bool prague_is_held_back(const struct sock *sk)
{
	return tcp_is_cwnd_limited(sk) || (tcp_needs_internal_pacing(sk) && !tcp_write_queue_empty(sk));
}

static void prague_increase(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);

	if (!acked || ca->in_loss || !prague_is_held_back(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	ca->carry += DIV_ROUND_CLOSEST_ULL((u64)acked << FRAC_BITS, tcp_snd_cwnd(tp));
}

static void prague_pace(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = prague_segment_rate(tp, tp->mss_cache + prague_headers(sk));

	prague_set_pace(sk, rate * max(tcp_snd_cwnd(tp), tcp_packets_in_flight(tp)));
}

static void prague_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);
	u32 ce = prague_new_ce(tp, &ca->marks);

	ca->marks.saw_ce |= ce > 0;
	prague_increase(sk, rs->acked_sacked - min(ce, rs->acked_sacked));
	prague_step(tp, ca);
	prague_update_alpha(tp, ca);
	prague_pace(sk);
}

/* Half of the window that is meant: the one there is, and the carry. */
static void prague_halve(const struct tcp_sock *tp, struct prague *ca)
{
	s64 meant = ((s64)tcp_snd_cwnd(tp) << FRAC_BITS) + ca->carry;

	ca->loss_cwnd = tcp_snd_cwnd(tp);
	ca->loss_carry = ca->carry;
	ca->carry -= meant / 2;
	ca->in_loss = true;
}

static void prague_set_state(struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);

	if (new_state == inet_csk(sk)->icsk_ca_state)
		return;
	if (new_state == TCP_CA_Recovery)
		prague_halve(tp, ca);
	else if (new_state == TCP_CA_CWR)
		ca->carry -= (ca->alphas * tcp_snd_cwnd(tp)) >> (GAIN_SHIFT + 1);
	else if (new_state == TCP_CA_Open)
		ca->in_loss = false;
}

static void prague_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_LOSS)
		prague_halve(tcp_sk(sk), inet_csk_ca(sk));
}

static u32 prague_undo_cwnd(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	ca->carry = ca->loss_carry;
	return max(tcp_snd_cwnd(tcp_sk(sk)), ca->loss_cwnd);
}

static size_t prague_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct prague *ca = inet_csk_ca(sk);
	u32 alpha = READ_ONCE(ca->alphas) >> (GAIN_SHIFT + FRAC_BITS - 10);

	return prague_tell(tcp_sk(sk), &ca->marks, alpha, ext, attr, info);
}

static void prague_init(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!prague_begin(sk))
		return;
	ca->alphas = (u64)ONE << GAIN_SHIFT;
	ca->marks.delivered_ce = tp->delivered_ce;
	prague_start_count(tp, &ca->marks);
}

static struct tcp_congestion_ops prague __read_mostly = {
	.init		= prague_init,
	.cong_control	= prague_cong_control,
	.ssthresh	= prague_ssthresh,
	.set_state	= prague_set_state,
	.cwnd_event	= prague_cwnd_event,
	.undo_cwnd	= prague_undo_cwnd,
	.min_tso_segs	= prague_min_tso_segs,
	.get_info	= prague_get_info,
	.flags		= PRAGUE_FLAGS,
	.owner		= THIS_MODULE,
	.name		= "prague-2020",
};

static int __init prague_register(void)
{
	BUILD_BUG_ON(sizeof(struct prague) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&prague);
}

static void __exit prague_unregister(void)
{
	tcp_unregister_congestion_control(&prague);
}

module_init(prague_register);
module_exit(prague_unregister);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP Prague as of 2020");

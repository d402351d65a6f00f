// SPDX-License-Identifier: GPL-2.0
/*
 * TCP Prague congestion control.
 *
 * Written from draft-briscoe-iccrg-prague-congestion-control. README.md beside
 * this file lists which parts of the draft are here and which are not.
 *
 * One response function per signal:
 *   CE      at most once a virtual RTT:  W -= W * alpha / 2
 *   loss    at most once a round:        W  = W / 2
 *   unmarked ACK                         W += acked / W * (srtt / rtt_virt)^2
 * where rtt_virt = max(srtt, rtt_virt_us) and alpha is the moving average, with
 * gain 1/16 per virtual RTT, of the fraction of packets that carried CE.
 *
 * W is kept in 2^-20 segments, so that neither small increases nor small
 * reductions are rounded away. Packets are paced at W / srtt, and snd_cwnd is W
 * rounded up: the pace, not the whole segments, is what holds the rate.
 */

#include "tcp_prague.h"

static unsigned int rtt_virt_us __read_mostly = 25000;
module_param(rtt_virt_us, uint, 0644);
MODULE_PARM_DESC(rtt_virt_us, "lowest virtual RTT in microseconds; 0: no RTT independence");

struct prague {
	u64	window;		/* W, ONE = a segment */
	u64	round_mstamp;	/* start of the alpha round */
	u64	cwr_mstamp;	/* last reduction on CE */
	u32	cwr_seq;	/* snd_nxt at the last reduction on CE */
	u32	alpha;		/* marked fraction, ONE = all */
	u32	gain;		/* (srtt / rtt_virt)^2, ONE = 1 */
	u32	cwr_cwnd;	/* window before the last reduction on CE */
	u32	loss_cwnd;	/* window before the last loss response */
	struct prague_marks marks;
};

static u32 prague_segments(u64 window)
{
	return (window + ONE - 1) >> FRAC_BITS;
}

/* The core sets snd_cwnd too: after a timeout, an undo, a pause. */
static u64 prague_window(const struct tcp_sock *tp, const struct prague *ca)
{
	u32 cwnd = tcp_snd_cwnd(tp);

	return prague_segments(ca->window) == cwnd ? ca->window : (u64)cwnd << FRAC_BITS;
}

static void prague_set_window(struct tcp_sock *tp, struct prague *ca, u64 window)
{
	ca->window = clamp_t(u64, window, (u64)MIN_CWND << FRAC_BITS,
			     (u64)tp->snd_cwnd_clamp << FRAC_BITS);
	tcp_snd_cwnd_set(tp, prague_segments(ca->window));
}

static u32 prague_srtt_us(const struct tcp_sock *tp)
{
	return max(tp->srtt_us >> 3, 1U);
}

static u32 prague_rtt_virt(const struct tcp_sock *tp)
{
	return max(prague_srtt_us(tp), READ_ONCE(rtt_virt_us));
}

/* A (virtual) round is over when what was sent at its start is acknowledged and
 * the virtual RTT has gone by.
 */
static bool prague_round_over(const struct tcp_sock *tp, u32 seq, u64 mstamp)
{
	return !before(tp->snd_una, seq) &&
	       tcp_stamp_us_delta(tp->tcp_mstamp, mstamp) >= prague_rtt_virt(tp);
}

static void prague_start_round(struct tcp_sock *tp, struct prague *ca)
{
	u64 ratio = div_u64((u64)prague_srtt_us(tp) << FRAC_BITS, prague_rtt_virt(tp));

	ca->gain = max_t(u32, (ratio * ratio) >> FRAC_BITS, 1);
	ca->round_mstamp = tp->tcp_mstamp;
	prague_start_count(tp, &ca->marks);
}

static void prague_update_alpha(struct tcp_sock *tp, struct prague *ca)
{
	u32 delivered = tp->delivered - ca->marks.round_delivered;
	u32 ce = min(tp->delivered_ce - ca->marks.round_delivered_ce, delivered);
	s64 error;

	if (!prague_round_over(tp, ca->marks.round_seq, ca->round_mstamp))
		return;
	if (delivered && ca->marks.saw_ce) {
		error = (s64)div_u64((u64)ce << FRAC_BITS, delivered) - ca->alpha;
		WRITE_ONCE(ca->alpha, ca->alpha + (s32)(error >> GAIN_SHIFT));
	}
	prague_start_round(tp, ca);
}

static void prague_reduce_on_ce(struct tcp_sock *tp, struct prague *ca)
{
	u64 window = prague_window(tp, ca);

	if (!ca->marks.saw_ce) {
		/* The first mark ends slow start as a classic signal would. */
		ca->marks.saw_ce = true;
		WRITE_ONCE(ca->alpha, ONE);
		prague_start_round(tp, ca);
	} else if (!prague_round_over(tp, ca->cwr_seq, ca->cwr_mstamp)) {
		return;
	}
	ca->cwr_cwnd = tcp_snd_cwnd(tp);
	ca->cwr_seq = tp->snd_nxt;
	ca->cwr_mstamp = tp->tcp_mstamp;
	prague_set_window(tp, ca, window - ((window >> 1) * ca->alpha >> FRAC_BITS));
	WRITE_ONCE(tp->snd_ssthresh, tcp_snd_cwnd(tp));
}

/* Half of the window before this round's reduction on CE, if there was one, so
 * that a mark and a loss in one round add up to one halving.
 */
static void prague_reduce_on_loss(struct tcp_sock *tp, struct prague *ca, u32 cwnd)
{
	ca->loss_cwnd = cwnd;
	if (ca->marks.saw_ce && !prague_round_over(tp, ca->cwr_seq, ca->cwr_mstamp))
		cwnd = min(2 * cwnd, max(cwnd, ca->cwr_cwnd));
	WRITE_ONCE(tp->snd_ssthresh, max(cwnd >> 1, MIN_CWND));
}

/* The window is what holds the data back, itself or by the pace that it sets:
 * paced at W / srtt a flow seldom has snd_cwnd segments in flight.
 */
static bool prague_is_window_limited(const struct sock *sk, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_is_cwnd_limited(sk))
		return true;
	return !tcp_in_slow_start(tp) && !rs->is_app_limited && tp->chrono_type != TCP_CHRONO_RWND_LIMITED;
}

static void prague_increase(struct sock *sk, const struct rate_sample *rs, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);
	u64 window;

	if (!acked || !prague_is_window_limited(sk, rs))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	window = max_t(u64, prague_window(tp, ca), ONE);
	prague_set_window(tp, ca, window + div64_u64((u64)acked * ca->gain << FRAC_BITS, window));
}

static void prague_pace(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 window = prague_window(tp, inet_csk_ca(sk));

	prague_set_pace(sk, mul_u64_u64_shr(prague_segment_rate(tp, tp->mss_cache), window, FRAC_BITS));
}

static void prague_cong_control(struct sock *sk, u32 ack, int flag,
				const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);
	u32 ce = prague_new_ce(tp, &ca->marks);
	u8 state = inet_csk(sk)->icsk_ca_state;

	prague_update_alpha(tp, ca);
	if (state == TCP_CA_Recovery) {
		/* Held: the loss response set it, and it is the exit's too. */
	} else {
		if (ce && state != TCP_CA_Loss)
			prague_reduce_on_ce(tp, ca);
		prague_increase(sk, rs, rs->acked_sacked - min(ce, rs->acked_sacked));
	}
	prague_pace(sk);
}

static void prague_set_state(struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);
	u8 old_state = inet_csk(sk)->icsk_ca_state;

	if (old_state == new_state)
		return;
	if (new_state == TCP_CA_Recovery) {
		prague_reduce_on_loss(tp, ca, tcp_snd_cwnd(tp));
		tcp_snd_cwnd_set(tp, tp->snd_ssthresh);
	} else if (new_state == TCP_CA_Loss && old_state == TCP_CA_CWR && !tp->undo_marker) {
		/* A timeout in CWR: the core took the mark's reduction for one on
		 * loss, asked for no other, and has dropped snd_cwnd already.
		 */
		prague_reduce_on_loss(tp, ca, prague_segments(ca->window));
	}
}

static void prague_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	/* A timeout: comes before the core drops the window to one segment. */
	if (event == CA_EVENT_LOSS)
		prague_reduce_on_loss(tcp_sk(sk), inet_csk_ca(sk), tcp_snd_cwnd(tcp_sk(sk)));
}

static u32 prague_undo_cwnd(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return max(tcp_snd_cwnd(tcp_sk(sk)), ca->loss_cwnd);
}

static size_t prague_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct prague *ca = inet_csk_ca(sk);

	return prague_tell(tcp_sk(sk), &ca->marks, READ_ONCE(ca->alpha) >> (FRAC_BITS - 10), ext, attr, info);
}

static void prague_init(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!prague_begin(sk))
		return;
	ca->window = (u64)tcp_snd_cwnd(tp) << FRAC_BITS;
	ca->marks.delivered_ce = tp->delivered_ce;
	tcp_mstamp_refresh(tp);
	prague_start_round(tp, ca);
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
	.name		= "prague",
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
MODULE_DESCRIPTION("TCP Prague");

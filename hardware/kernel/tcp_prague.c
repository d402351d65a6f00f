// SPDX-License-Identifier: GPL-2.0
/*
 * TCP Prague congestion control.
 *
 * Written from draft-briscoe-iccrg-prague-congestion-control-04 and from what
 * L4STeam's tcp_prague 0.7 does. The README.md in this folder lists which parts
 * of them are implemented.
 *
 * One response per signal:
 *   first CE	W  = W / 2, and alpha starts at 0
 *   CE		W -= W * alpha / 2, on entry into the core's CWR state and at most
 *		once in rtt_virt_us
 *   loss	W  = W / 2, and no increase until the core's state is Open again
 *   unmarked	W += acked / W * (srtt / rtt_virt)^2 * 1500 bytes / packet
 * where rtt_virt = max(srtt, rtt_virt_us) and alpha is the moving average, with
 * gain 1/16 per virtual RTT, of the fraction of packets that carried CE. In the
 * first rounds after slow start rtt_virt is srtt.
 *
 * W is kept in 2^-20 segments, so that neither small increases nor small
 * reductions are rounded away. The pace is W packets, with their headers, per
 * srtt: 1/32 more in the first half of a virtual RTT and 1/32 less in the second,
 * so that a step marks a few packets in each virtual RTT rather than all packets
 * in some. snd_cwnd follows W, rounded up, by one segment per ACK.
 *
 * Below two packets per virtual RTT (1 Mbit/s) packets shrink instead, so that
 * the marks of a virtual RTT still say something; W in bytes stays the same.
 */

#include "tcp_prague.h"

#define MIN_RATE	12500U	/* bytes per second */
#define DITHER_SHIFT	5	/* 1/32 of the pace */
#define SETTLING_ROUNDS	4U	/* after slow start, before RTT independence */
#define GROWTH_BYTES	1500U	/* per virtual RTT, whatever the packets' size */
#define MIN_MSS		150U
#define MIN_PACKETS	2U	/* per virtual RTT */

static unsigned int rtt_virt_us __read_mostly = 25000;
module_param(rtt_virt_us, uint, 0644);
MODULE_PARM_DESC(rtt_virt_us, "lowest virtual RTT in microseconds; 0: no RTT independence");

struct prague {
	u64	window;		/* W, ONE = a segment */
	u64	loss_window;	/* W before the last loss response */
	u64	alphas;		/* marked fraction / g, ONE << GAIN_SHIFT = all */
	u64	round_mstamp;	/* start of the round */
	u64	cwr_mstamp;	/* last reduction on CE */
	u32	gain;		/* of the increase, ONE = a segment per round trip */
	struct prague_marks marks;
	u16	mss;		/* as set here */
	u16	full_mss;	/* as set by the core */
	u8	rounds;		/* after slow start, up to SETTLING_ROUNDS */
	bool	in_loss;
};

static u32 prague_segments(u64 window)
{
	return (window + ONE - 1) >> FRAC_BITS;
}

static u32 prague_srtt_us(const struct tcp_sock *tp)
{
	return max(tp->srtt_us >> 3, 1U);
}

static u32 prague_rtt_virt(const struct tcp_sock *tp)
{
	return max(prague_srtt_us(tp), READ_ONCE(rtt_virt_us));
}

static u32 prague_packet(const struct sock *sk)
{
	return tcp_sk(sk)->mss_cache + prague_headers(sk);
}

static bool prague_has_settled(const struct tcp_sock *tp, const struct prague *ca)
{
	return !tcp_in_slow_start(tp) && ca->rounds >= SETTLING_ROUNDS;
}

/* A settled flow does nothing more than once in rtt_virt_us. */
static bool prague_virtual_rtt_passed(const struct tcp_sock *tp, const struct prague *ca, u64 since)
{
	return !prague_has_settled(tp, ca) ||
	       tcp_stamp_us_delta(tp->tcp_mstamp, since) >= READ_ONCE(rtt_virt_us);
}

/* No less than MIN_RATE asks for, which may be a fraction of a segment. */
static void prague_set_window(struct sock *sk, u64 window)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);
	u64 least = div_u64((u64)prague_srtt_us(tp) << FRAC_BITS, USEC_PER_SEC / MIN_RATE * prague_packet(sk));

	ca->window = clamp_t(u64, window, least + 1, (u64)tp->snd_cwnd_clamp << FRAC_BITS);
}

/* snd_cwnd also changes by the core: after a timeout, an undo, a pause. */
static void prague_step(struct tcp_sock *tp, const struct prague *ca)
{
	u32 aim = clamp(prague_segments(ca->window), MIN_CWND, tp->snd_cwnd_clamp);
	u32 cwnd = tcp_snd_cwnd(tp);

	if (cwnd > aim) {
		tcp_snd_cwnd_set(tp, cwnd - 1);
		WRITE_ONCE(tp->snd_ssthresh, cwnd - 1);
	} else if (cwnd < aim) {
		tcp_snd_cwnd_set(tp, cwnd + 1);
	}
}

/* mss_cache, not tcp_sync_mss(): the path has not changed, and tcp_current_mss() would undo it. */
static void prague_fit_packets(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);
	u32 headers = prague_headers(sk), old = prague_packet(sk), packet, cwnd;
	u64 bytes = mul_u64_u64_shr(ca->window, old, FRAC_BITS) * prague_rtt_virt(tp);

	if (tp->mss_cache != ca->mss)
		ca->full_mss = tp->mss_cache;
	packet = clamp_t(u64, div_u64(bytes, MIN_PACKETS * prague_srtt_us(tp)) + 1,
			 min(MIN_MSS, ca->full_mss) + headers, ca->full_mss + headers);
	ca->mss = packet - headers;
	if (packet == old)
		return;
	tp->mss_cache = ca->mss;
	ca->window = div_u64(ca->window * old, packet);
	cwnd = clamp(prague_segments(ca->window), MIN_CWND, tp->snd_cwnd_clamp);
	tcp_snd_cwnd_set(tp, cwnd);
	WRITE_ONCE(tp->snd_ssthresh, min(tp->snd_ssthresh, cwnd));
}

static void prague_start_round(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);
	u64 ratio = ONE;

	if (prague_has_settled(tp, ca))
		ratio = div_u64((u64)prague_srtt_us(tp) << FRAC_BITS, prague_rtt_virt(tp));
	ca->gain = max_t(u32, div_u64((ratio * ratio >> FRAC_BITS) * GROWTH_BYTES, prague_packet(sk)), 1);
	ca->round_mstamp = tp->tcp_mstamp;
	prague_start_count(tp, &ca->marks);
}

/* A round lasts until what was sent at its start is acknowledged, and a virtual RTT. */
static void prague_end_round(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);

	if (before(tp->snd_una, ca->marks.round_seq) || !prague_virtual_rtt_passed(tp, ca, ca->round_mstamp))
		return;
	if (ca->marks.saw_ce) {
		WRITE_ONCE(ca->alphas, prague_average(ca->alphas, tp->delivered_ce - ca->marks.round_delivered_ce,
						      tp->delivered - ca->marks.round_delivered));
		if (prague_has_settled(tp, ca) && !ca->in_loss)
			prague_fit_packets(sk);
	}
	if (!tcp_in_slow_start(tp) && ca->rounds < SETTLING_ROUNDS)
		ca->rounds++;
	prague_start_round(sk);
}

/* alpha knows nothing yet, so the first mark does what a classic signal would. */
static void prague_halve_on_first_ce(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);

	ca->marks.saw_ce = true;
	prague_set_window(sk, ca->window >> 1);
	WRITE_ONCE(tp->snd_ssthresh, min(tp->snd_ssthresh, prague_segments(ca->window)));
}

static void prague_reduce_on_ce(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);

	if (!prague_virtual_rtt_passed(tp, ca, ca->cwr_mstamp))
		return;
	ca->cwr_mstamp = tp->tcp_mstamp;
	prague_set_window(sk, ca->window - mul_u64_u64_shr(ca->window, ca->alphas, FRAC_BITS + GAIN_SHIFT + 1));
}

static void prague_reduce_on_loss(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	ca->loss_window = ca->window;
	ca->in_loss = true;
	prague_set_window(sk, ca->window >> 1);
	/* After a timeout slow start ends here; the core asks for no other threshold. */
	WRITE_ONCE(tcp_sk(sk)->snd_ssthresh, max(prague_segments(ca->window), MIN_CWND));
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

	if (!acked || ca->in_loss || !prague_is_window_limited(sk, rs))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		prague_set_window(sk, (u64)tcp_snd_cwnd(tp) << FRAC_BITS);
		if (!acked)
			return;
	}
	prague_set_window(sk, ca->window + div64_u64((u64)acked * ca->gain << FRAC_BITS, ca->window));
}

static void prague_pace(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct prague *ca = inet_csk_ca(sk);
	u64 rate = mul_u64_u64_shr(prague_segment_rate(tp, prague_packet(sk)), ca->window, FRAC_BITS);

	rate = max_t(u64, rate, MIN_RATE);
	if (!prague_doubles(tp)) {
		u64 dither = rate >> DITHER_SHIFT;
		bool first_half = tcp_stamp_us_delta(tp->tcp_mstamp, ca->round_mstamp) < prague_rtt_virt(tp) / 2;

		rate = first_half ? rate + dither : rate - dither;
	}
	prague_set_pace(sk, rate);
}

static void prague_cong_control(struct sock *sk, u32 ack, int flag,
				const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);
	u32 ce = prague_new_ce(tp, &ca->marks);

	if (ce && !ca->marks.saw_ce)
		prague_halve_on_first_ce(sk);
	prague_increase(sk, rs, rs->acked_sacked - min(ce, rs->acked_sacked));
	prague_step(tp, ca);
	prague_end_round(sk);
	prague_pace(sk);
}

static void prague_set_state(struct sock *sk, u8 new_state)
{
	struct prague *ca = inet_csk_ca(sk);
	u8 old_state = inet_csk(sk)->icsk_ca_state;

	if (old_state == new_state && new_state != TCP_CA_CWR)
		return;
	/*
	 * CWR without a new mark, or anew: a probe has repaired the loss of a tail (tcp_process_tlp_ack), or this host's
	 * own queue has dropped.
	 */
	if (new_state == TCP_CA_CWR && old_state != TCP_CA_CWR && tcp_sk(sk)->delivered_ce != ca->marks.delivered_ce)
		prague_reduce_on_ce(sk);
	else if (new_state == TCP_CA_CWR || new_state == TCP_CA_Recovery)
		prague_reduce_on_loss(sk);
	else if (new_state == TCP_CA_Loss && old_state == TCP_CA_CWR && !tcp_sk(sk)->undo_marker && !ca->in_loss)
		/* A timeout in CWR: the core took the mark's reduction for one on loss and asked for no other. */
		prague_reduce_on_loss(sk);
	else if (new_state == TCP_CA_Open)
		ca->in_loss = false;
}

static void prague_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_LOSS)
		prague_reduce_on_loss(sk);
}

static u32 prague_undo_cwnd(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	ca->in_loss = false;
	prague_set_window(sk, max(ca->window, ca->loss_window));
	return max(tcp_snd_cwnd(tcp_sk(sk)), prague_segments(ca->window));
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
	ca->window = (u64)tcp_snd_cwnd(tp) << FRAC_BITS;
	ca->marks.delivered_ce = tp->delivered_ce;
	tcp_mstamp_refresh(tp);
	prague_start_round(sk);
}

static void prague_release(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	if (ca->mss && tcp_sk(sk)->mss_cache == ca->mss)
		tcp_sk(sk)->mss_cache = ca->full_mss;
}

static struct tcp_congestion_ops prague __read_mostly = {
	.init		= prague_init,
	.release	= prague_release,
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

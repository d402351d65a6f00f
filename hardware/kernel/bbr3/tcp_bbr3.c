// SPDX-License-Identifier: GPL-2.0
/*
 * BBRv3 congestion control.
 *
 * Written from draft-ietf-ccwg-bbr-06, whose sections the comments cite. Names
 * are the draft's in lower case. Volumes are packets of the current MSS, rates
 * are bytes per second, times are microseconds.
 *
 * The per-packet state that the draft needs beyond the kernel's (P.lost,
 * P.tx_in_flight, a call per lost packet) is the patch next to this file.
 *
 * Where the draft leaves something open, this file does the following:
 * - A CE mark counts as a lost packet (3.6: it MUST count as congestion; the
 *   draft has no ECN response of its own). bbr3 itself sends Not-ECT.
 * - The state before a loss episode is saved once per episode (5.5.11.1), when
 *   its first packet is marked lost. Saving it per round, as the pseudocode of
 *   NoteLoss() has it, would overwrite undo_state with None at the next lost
 *   packet, since StartProbeBW_DOWN() forgets that the round had a loss.
 * - A tail loss that a loss probe repaired counts as a loss in its round: the
 *   core enters CWR for it.
 * - A precautionary probe (5.3.3.4.2) ends when inflight was inflight_longterm
 *   before the ACK: after it, a flow whose cwnd is inflight_longterm is below.
 * - probe_rtt_min_delay starts as min_rtt, probe_rtt_min_stamp as Now().
 */

#include <linux/inet_diag.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/win_minmax.h>
#include <net/tcp.h>

#define INFINITE_RATE	U64_MAX
#define INFINITE	U32_MAX		/* a volume or a time */

#define MIN_PIPE_CWND		4U	/* 2.7 MinPipeCwnd */
#define LOSS_THRESH_PERCENT	2U	/* 2.7 LossThresh */
#define BETA_PERCENT		70U	/* 2.7 Beta */
#define HEADROOM_PERCENT	15U	/* 2.7 Headroom */
#define PACING_MARGIN_PERCENT	1U	/* 2.4 PacingMarginPercent */
#define FULL_BW_PERCENT		125U	/* 5.3.1.2: growth that is no plateau */
#define FULL_BW_ROUNDS		3U	/* 5.3.1.2 */
#define FULL_LOSS_RANGES	6U	/* 5.3.1.3 BBRStartupFullLossCnt */
#define DRAIN_ROUNDS		3U	/* 5.3.2 */
#define RENO_ROUNDS		63U	/* 5.3.3.5.3 */
#define EXTRA_ACKED_ROUNDS	10U	/* 2.11 ExtraAckedFilterLen */
#define MAX_UP_ROUNDS		30U	/* 5.3.3.6 */
#define MIN_RTT_WINDOW		(10 * USEC_PER_SEC)	/* 2.15.1 MinRTTFilterLen */
#define PROBE_RTT_INTERVAL	(5 * USEC_PER_SEC)	/* 2.15.2 ProbeRTTInterval */
#define PROBE_RTT_DURATION	(200 * USEC_PER_MSEC)	/* 2.15.2 ProbeRTTDuration */
#define PROBE_WAIT_BASE		(2 * USEC_PER_SEC)	/* 5.3.3.5.3 */
#define PROBE_WAIT_RANDOM	(1 * USEC_PER_SEC)	/* 5.3.3.5.3 */
#define MAX_QUANTUM		65536U	/* 5.6.3, bytes */
#define SNDBUF_FACTOR		3U	/* above the largest cwnd gain, so that the buffer is no limit */

/* Gains in percent (5.6.1). In brackets: Google's branch v3, November 2023, where it differs. */
static unsigned int startup_pacing_gain __read_mostly = 277;
module_param(startup_pacing_gain, uint, 0644);
MODULE_PARM_DESC(startup_pacing_gain, "Startup: pacing gain in percent");

static unsigned int drain_pacing_gain __read_mostly = 50;	/* [35: 1000/2885] */
module_param(drain_pacing_gain, uint, 0644);
MODULE_PARM_DESC(drain_pacing_gain, "Drain: pacing gain in percent; 35 in Google's branch");

static unsigned int down_pacing_gain __read_mostly = 90;	/* [91] */
module_param(down_pacing_gain, uint, 0644);
MODULE_PARM_DESC(down_pacing_gain, "ProbeBW_DOWN: pacing gain in percent; 91 in Google's branch");

static unsigned int up_pacing_gain __read_mostly = 125;
module_param(up_pacing_gain, uint, 0644);
MODULE_PARM_DESC(up_pacing_gain, "ProbeBW_UP: pacing gain in percent");

#define DEFAULT_CWND_GAIN	200U	/* 2.5 DefaultCwndGain */
#define UP_CWND_GAIN		225U	/* 5.3.3.4.1 */
#define PROBE_RTT_CWND_GAIN	50U	/* 2.15.2 ProbeRTTCwndGain */

enum bbr3_state {
	NO_STATE,	/* of undo_state: None */
	STARTUP,
	DRAIN,
	PROBE_DOWN,
	PROBE_CRUISE,
	PROBE_REFILL,
	PROBE_UP,
	PROBE_RTT,
};

enum bbr3_ack_phase {	/* 2.12 */
	ACKS_INIT,
	ACKS_REFILLING,
	ACKS_PROBE_STARTING,
	ACKS_PROBE_FEEDBACK,
	ACKS_PROBE_STOPPING,
};

struct bbr3 {
	u64	bw;
	u64	max_bw[2];		/* of the previous and the current cycle */
	u64	bw_latest;
	u64	bw_shortterm;
	u64	undo_bw_shortterm;
	u64	full_bw;
	u64	min_rtt_stamp;
	u64	probe_rtt_min_stamp;
	u64	probe_rtt_done_stamp;	/* 0: inflight is not yet low */
	u64	cycle_stamp;
	u64	extra_acked_interval_start;
	struct minmax extra_acked;
	u32	extra_acked_delivered;
	u32	min_rtt;
	u32	probe_rtt_min_delay;
	u32	bw_probe_wait;
	u32	inflight_latest;
	u32	inflight_shortterm;
	u32	inflight_longterm;
	u32	undo_inflight_shortterm;
	u32	undo_inflight_longterm;
	u32	prior_cwnd;
	u32	initial_cwnd;
	u32	round_count;
	u32	next_round_delivered;
	u32	loss_round_delivered;
	u32	drain_start_round;
	u32	rounds_since_probe_up;
	u32	bw_probe_up_acked;
	u32	probe_up_acked_per_inc;
	u32	last_lost_seq;		/* end of the last packet that was marked lost */
	u32	delivered_ce;		/* tp->delivered_ce at the last ACK */
	u16	pacing_gain;		/* percent */
	u16	cwnd_gain;		/* percent */
	u8	state;
	u8	undo_state;
	u8	ack_phase;
	u8	full_bw_count;
	u8	bw_probe_up_rounds;
	u8	lost_ranges;		/* discontiguous, in this loss round */
	bool	round_start;
	bool	loss_round_start;
	bool	is_loss_in_round;
	bool	in_loss_episode;	/* its undo state is saved */
	bool	full_bw_now;
	bool	full_bw_reached;
	bool	is_bw_probe_sample;
	bool	prev_probe_too_high;
	bool	prev_probe_precautionary;
	bool	probe_rtt_expired;
	bool	probe_rtt_round_done;
	bool	idle_restart;
	bool	has_rtt;		/* the initial pacing rate is of a measured RTT */
};

/* RS of the draft (2.3), from the kernel's sample. */
struct bbr3_sample {
	bool	has_data;		/* the ACK delivered a packet */
	bool	is_app_limited;
	u64	delivery_rate;		/* 0: not reliable */
	u32	delivered;
	u32	prior_delivered;
	u32	newly_acked;
	u32	tx_in_flight;
	u32	prior_in_flight;	/* before this ACK */
	u32	lost;			/* with CE marks */
	s64	rtt;			/* -1: none */
};

static u64 bbr3_percent(u64 value, u32 percent)
{
	return div_u64(value * percent, 100);
}

static u32 bbr3_inflight(const struct sock *sk)
{
	return tcp_packets_in_flight(tcp_sk(sk));
}

static u64 bbr3_max_bw(const struct bbr3 *ca)
{
	return max(ca->max_bw[0], ca->max_bw[1]);
}

static bool bbr3_is_probe_bw(const struct bbr3 *ca)
{
	return ca->state >= PROBE_DOWN && ca->state <= PROBE_UP;
}

static bool bbr3_is_probing_bw(const struct bbr3 *ca)
{
	return ca->state == STARTUP || ca->state == PROBE_REFILL || ca->state == PROBE_UP;
}

static bool bbr3_in_recovery(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_state >= TCP_CA_Recovery;
}

/* 5.6.1, table; 5.3.4.3 for ProbeRTT. */
static void bbr3_enter(struct bbr3 *ca, enum bbr3_state state)
{
	ca->state = state;
	ca->cwnd_gain = DEFAULT_CWND_GAIN;
	ca->pacing_gain = 100;
	switch (state) {
	case STARTUP:
		ca->pacing_gain = READ_ONCE(startup_pacing_gain);
		break;
	case DRAIN:
		ca->pacing_gain = READ_ONCE(drain_pacing_gain);
		break;
	case PROBE_DOWN:
		ca->pacing_gain = READ_ONCE(down_pacing_gain);
		break;
	case PROBE_UP:
		ca->pacing_gain = READ_ONCE(up_pacing_gain);
		ca->cwnd_gain = UP_CWND_GAIN;
		break;
	case PROBE_RTT:
		ca->cwnd_gain = PROBE_RTT_CWND_GAIN;
		break;
	default:
		break;
	}
}

/* 5.6.3; also what the core makes of sk_pacing_rate and min_tso_segs, but for RTTs below 3 ms. */
static u32 bbr3_send_quantum(const struct sock *sk)
{
	u32 mss = tcp_sk(sk)->mss_cache;
	u32 bytes = min_t(u64, div_u64(READ_ONCE(sk->sk_pacing_rate), MSEC_PER_SEC), MAX_QUANTUM);

	return max(DIV_ROUND_UP(bytes, mss), 2U);
}

static u32 bbr3_min_tso_segs(struct sock *sk)
{
	return 2;
}

/* 5.6.4.2 BDPMultiple(), rounded up to a packet. */
static u32 bbr3_bdp(const struct sock *sk, u64 bw, u32 gain)
{
	const struct bbr3 *ca = inet_csk_ca(sk);
	u64 bytes;

	if (ca->min_rtt == INFINITE)
		return ca->initial_cwnd;
	bytes = bbr3_percent(mul_u64_u64_div_u64(bw, ca->min_rtt, USEC_PER_SEC), gain);
	return min_t(u64, div_u64(bytes + tcp_sk(sk)->mss_cache - 1, tcp_sk(sk)->mss_cache), S32_MAX);
}

/* 5.6.4.2 QuantizationBudget(); 5.5.8.1 for the offload budget. */
static u32 bbr3_quantization_budget(const struct sock *sk, u32 inflight)
{
	const struct bbr3 *ca = inet_csk_ca(sk);

	inflight = max3(inflight, 3 * bbr3_send_quantum(sk), MIN_PIPE_CWND);
	return ca->state == PROBE_UP ? inflight + 2 : inflight;
}

/* 5.3.3.5.3 TargetInflight(). */
static u32 bbr3_target_inflight(const struct sock *sk)
{
	const struct bbr3 *ca = inet_csk_ca(sk);

	return min(bbr3_bdp(sk, ca->bw, 100), tcp_snd_cwnd(tcp_sk(sk)));
}

/* 5.3.3.6 InflightWithHeadroom(). */
static u32 bbr3_inflight_with_headroom(const struct bbr3 *ca)
{
	u32 headroom;

	if (ca->inflight_longterm == INFINITE)
		return INFINITE;
	headroom = max_t(u32, 1, bbr3_percent(ca->inflight_longterm, HEADROOM_PERCENT));
	return max(ca->inflight_longterm - min(headroom, ca->inflight_longterm), MIN_PIPE_CWND);
}

/* 5.6.4.4 */
static void bbr3_save_cwnd(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	if (!bbr3_in_recovery(sk) && ca->state != PROBE_RTT)
		ca->prior_cwnd = cwnd;
	else
		ca->prior_cwnd = max(ca->prior_cwnd, cwnd);
}

static void bbr3_restore_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct bbr3 *ca = inet_csk_ca(sk);

	tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), ca->prior_cwnd));
}

/* 5.6.2 SetPacingRateWithGain(). */
static void bbr3_set_pacing_rate(struct sock *sk, u32 gain)
{
	const struct bbr3 *ca = inet_csk_ca(sk);
	u64 rate = bbr3_percent(bbr3_percent(ca->bw, gain), 100 - PACING_MARGIN_PERCENT);

	rate = min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate));
	if (rate && (ca->full_bw_reached || rate > READ_ONCE(sk->sk_pacing_rate)))
		WRITE_ONCE(sk->sk_pacing_rate, rate);
}

/* 5.6.2 InitPacingRate(). */
static void bbr3_init_pacing_rate(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);
	u32 rtt = tp->srtt_us ? max(tp->srtt_us >> 3, 1U) : USEC_PER_MSEC;
	u64 bw = div_u64((u64)ca->initial_cwnd * tp->mss_cache * USEC_PER_SEC, rtt);

	ca->has_rtt = tp->srtt_us;
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(u64, bbr3_percent(bw, READ_ONCE(startup_pacing_gain)), READ_ONCE(sk->sk_max_pacing_rate)));
}

static void bbr3_start_round(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	ca->next_round_delivered = tcp_sk(sk)->delivered;
}

/* 5.5.1 UpdateRound(). */
static void bbr3_update_round(struct sock *sk, const struct bbr3_sample *rs)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	ca->round_start = rs->has_data && !before(rs->prior_delivered, ca->next_round_delivered);
	if (ca->round_start) {
		bbr3_start_round(sk);
		ca->round_count++;
		ca->rounds_since_probe_up++;
	}
}

static void bbr3_reset_full_bw(struct bbr3 *ca)
{
	ca->full_bw = 0;
	ca->full_bw_count = 0;
	ca->full_bw_now = false;
}

static void bbr3_reset_congestion_signals(struct bbr3 *ca)
{
	ca->is_loss_in_round = false;
	ca->bw_latest = 0;
	ca->inflight_latest = 0;
}

static void bbr3_reset_short_term_model(struct bbr3 *ca)
{
	ca->bw_shortterm = INFINITE_RATE;
	ca->inflight_shortterm = INFINITE;
}

static void bbr3_enter_drain(struct bbr3 *ca)
{
	bbr3_enter(ca, DRAIN);
	ca->drain_start_round = ca->round_count;
}

/* 5.3.3.5.3 PickProbeWait(). */
static void bbr3_pick_probe_wait(struct bbr3 *ca)
{
	ca->rounds_since_probe_up = get_random_u32_below(2);
	ca->bw_probe_wait = PROBE_WAIT_BASE + get_random_u32_below(PROBE_WAIT_RANDOM);
}

static void bbr3_start_down(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	bbr3_reset_congestion_signals(ca);
	ca->probe_up_acked_per_inc = INFINITE;
	bbr3_pick_probe_wait(ca);
	ca->cycle_stamp = tcp_sk(sk)->tcp_mstamp;
	ca->ack_phase = ACKS_PROBE_STOPPING;
	bbr3_start_round(sk);
	bbr3_enter(ca, PROBE_DOWN);
}

static void bbr3_start_refill(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	bbr3_reset_short_term_model(ca);
	ca->bw_probe_up_rounds = 0;
	ca->bw_probe_up_acked = 0;
	ca->prev_probe_precautionary = false;
	ca->ack_phase = ACKS_REFILLING;
	bbr3_start_round(sk);
	bbr3_enter(ca, PROBE_REFILL);
}

/* 5.3.3.6 RaiseInflightLongtermSlope(): 1, 2, 4, … packets a round. */
static void bbr3_raise_slope(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);
	u32 growth = 1U << ca->bw_probe_up_rounds;

	ca->bw_probe_up_rounds = min_t(u32, ca->bw_probe_up_rounds + 1, MAX_UP_ROUNDS);
	ca->probe_up_acked_per_inc = max(tcp_snd_cwnd(tcp_sk(sk)) / growth, 1U);
}

static void bbr3_start_up(struct sock *sk, const struct bbr3_sample *rs)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	ca->ack_phase = ACKS_PROBE_STARTING;
	bbr3_start_round(sk);
	bbr3_reset_full_bw(ca);
	ca->full_bw = rs->delivery_rate;
	bbr3_enter(ca, PROBE_UP);
	bbr3_raise_slope(sk);
}

/* 5.5.11.1 SaveStateUponLoss(), once per loss episode. */
static void bbr3_save_state(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (ca->in_loss_episode)
		return;
	ca->in_loss_episode = true;
	bbr3_save_cwnd(sk);
	ca->undo_state = NO_STATE;
	ca->undo_bw_shortterm = ca->bw_shortterm;
	ca->undo_inflight_shortterm = ca->inflight_shortterm;
	ca->undo_inflight_longterm = ca->inflight_longterm;
}

/* 5.5.10.2 NoteLoss(). */
static void bbr3_note_loss(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (!ca->is_loss_in_round)
		ca->loss_round_delivered = tcp_sk(sk)->delivered;
	ca->is_loss_in_round = true;
}

static void bbr3_count_range(struct bbr3 *ca)
{
	ca->lost_ranges = min_t(u32, ca->lost_ranges + 1, U8_MAX);
}

/* 5.5.10.2 IsInflightTooHigh(). */
static bool bbr3_is_inflight_too_high(const struct sock *sk, u32 lost, u32 tx_in_flight)
{
	if (!tcp_is_sack(tcp_sk(sk)))
		return lost > 0;
	return (u64)lost * 100 > (u64)tx_in_flight * LOSS_THRESH_PERCENT;
}

/* 5.5.10.2 HandleInflightTooHigh(). */
static void bbr3_handle_inflight_too_high(struct sock *sk, u32 tx_in_flight, bool is_app_limited)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	ca->prev_probe_too_high = true;
	ca->is_bw_probe_sample = false;
	if (!is_app_limited)
		ca->inflight_longterm = max_t(u32, tx_in_flight,
					      bbr3_percent(bbr3_target_inflight(sk), BETA_PERCENT));
	if (ca->state == PROBE_UP) {
		ca->undo_state = PROBE_UP;
		bbr3_start_down(sk);
	}
}

/* 5.5.10.2 InflightAtLoss(): the part of a burst up to which losses stay at LossThresh. */
static u32 bbr3_inflight_at_loss(u32 tx_in_flight, u32 lost, u32 size)
{
	u32 inflight_prev = tx_in_flight - min(size, tx_in_flight);
	u32 lost_prev = lost - size;
	s64 prefix = (s64)inflight_prev * LOSS_THRESH_PERCENT - (s64)lost_prev * 100;

	/* Above the threshold before this packet: none of it fits. */
	return prefix > 0 ? inflight_prev + div_u64(prefix, 100 - LOSS_THRESH_PERCENT) : inflight_prev;
}

/* 5.5.10.2 HandleLostPacket(). */
static void bbr3_skb_lost(struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_skb_cb *scb = TCP_SKB_CB(skb);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);
	u32 lost = tp->lost - scb->tx_lost;

	bbr3_save_state(sk);
	bbr3_note_loss(sk);
	if (!ca->lost_ranges || scb->seq != ca->last_lost_seq)
		bbr3_count_range(ca);
	ca->last_lost_seq = scb->end_seq;
	if (!ca->is_bw_probe_sample || !bbr3_is_inflight_too_high(sk, lost, scb->tx_in_flight))
		return;
	bbr3_handle_inflight_too_high(sk, bbr3_inflight_at_loss(scb->tx_in_flight, lost, tcp_skb_pcount(skb)),
				      scb->tx.is_app_limited);
}

/* 5.5.10.3 UpdateLatestDeliverySignals(). */
static void bbr3_update_latest_delivery_signals(struct sock *sk, const struct bbr3_sample *rs)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	ca->loss_round_start = false;
	if (!rs->has_data)
		return;
	ca->bw_latest = max(ca->bw_latest, rs->delivery_rate);
	ca->inflight_latest = max(ca->inflight_latest, rs->delivered);
	if (!before(rs->prior_delivered, ca->loss_round_delivered)) {
		ca->loss_round_delivered = tcp_sk(sk)->delivered;
		ca->loss_round_start = true;
	}
}

static void bbr3_advance_latest_delivery_signals(struct bbr3 *ca, const struct bbr3_sample *rs)
{
	if (!ca->loss_round_start)
		return;
	ca->bw_latest = rs->delivery_rate;
	ca->inflight_latest = rs->delivered;
	ca->lost_ranges = 0;
}

/* 5.5.5 UpdateMaxBw(). */
static void bbr3_update_max_bw(struct sock *sk, const struct bbr3_sample *rs)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	bbr3_update_round(sk, rs);
	if (rs->delivery_rate && (rs->delivery_rate >= bbr3_max_bw(ca) || !rs->is_app_limited))
		ca->max_bw[1] = max(ca->max_bw[1], rs->delivery_rate);
}

/* 5.5.6 AdvanceMaxBwFilter(); a cycle without a sample is none. */
static void bbr3_advance_max_bw_filter(struct bbr3 *ca)
{
	if (!ca->max_bw[1])
		return;
	ca->max_bw[0] = ca->max_bw[1];
	ca->max_bw[1] = 0;
}

/* 5.5.10.3 AdaptLowerBoundsFromCongestion(). */
static void bbr3_adapt_lower_bounds(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (bbr3_is_probing_bw(ca) || !ca->is_loss_in_round)
		return;
	if (ca->bw_shortterm == INFINITE_RATE)
		ca->bw_shortterm = bbr3_max_bw(ca);
	if (ca->inflight_shortterm == INFINITE)
		ca->inflight_shortterm = tcp_snd_cwnd(tcp_sk(sk));
	ca->bw_shortterm = max(ca->bw_latest, bbr3_percent(ca->bw_shortterm, BETA_PERCENT));
	ca->inflight_shortterm = max_t(u32, ca->inflight_latest,
				       bbr3_percent(ca->inflight_shortterm, BETA_PERCENT));
}

/* 5.5.10.3 UpdateCongestionSignals(). */
static void bbr3_update_congestion_signals(struct sock *sk, const struct bbr3_sample *rs)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	bbr3_update_max_bw(sk, rs);
	if (!ca->loss_round_start)
		return;
	bbr3_adapt_lower_bounds(sk);
	ca->is_loss_in_round = false;
}

/* 5.5.9 UpdateACKAggregation(). */
static void bbr3_update_ack_aggregation(struct sock *sk, const struct bbr3_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);
	u64 interval = tp->tcp_mstamp - ca->extra_acked_interval_start;
	u64 bytes = mul_u64_u64_div_u64(ca->bw, interval, USEC_PER_SEC);
	u32 expected = min_t(u64, div_u64(bytes, tp->mss_cache), S32_MAX);
	u32 extra;

	if (!rs->newly_acked)
		return;
	if (ca->extra_acked_delivered <= expected) {
		ca->extra_acked_delivered = 0;
		ca->extra_acked_interval_start = tp->tcp_mstamp;
		expected = 0;
	}
	ca->extra_acked_delivered += rs->newly_acked;
	extra = min(ca->extra_acked_delivered - expected, tcp_snd_cwnd(tp));
	minmax_running_max(&ca->extra_acked, ca->full_bw_reached ? EXTRA_ACKED_ROUNDS : 1, ca->round_count, extra);
}

/* 5.3.1.2 CheckFullBWReached(). */
static void bbr3_check_full_bw_reached(struct bbr3 *ca, const struct bbr3_sample *rs)
{
	if (ca->full_bw_now || !ca->round_start || rs->is_app_limited)
		return;
	if (rs->delivery_rate >= bbr3_percent(ca->full_bw, FULL_BW_PERCENT)) {
		bbr3_reset_full_bw(ca);
		ca->full_bw = rs->delivery_rate;
		return;
	}
	ca->full_bw_count++;
	ca->full_bw_now = ca->full_bw_count >= FULL_BW_ROUNDS;
	if (ca->full_bw_now)
		ca->full_bw_reached = true;
}

/* 5.3.1.3: a loss round begins at its first loss, so the end of one in recovery is a full round of recovery. */
static bool bbr3_is_startup_loss_high(const struct sock *sk, const struct bbr3_sample *rs)
{
	const struct bbr3 *ca = inet_csk_ca(sk);

	if (inet_csk(sk)->icsk_ca_state < TCP_CA_CWR)
		return false;
	if (!tcp_is_sack(tcp_sk(sk)))
		return ca->lost_ranges > 0;
	return ca->loss_round_start && ca->lost_ranges >= FULL_LOSS_RANGES &&
	       bbr3_is_inflight_too_high(sk, rs->lost, rs->tx_in_flight);
}

/* 5.3.1.1 CheckStartupDone(), with 5.3.1.3. */
static void bbr3_check_startup_done(struct sock *sk, const struct bbr3_sample *rs)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (!ca->full_bw_reached && rs->has_data && bbr3_is_startup_loss_high(sk, rs)) {
		ca->undo_state = STARTUP;
		ca->full_bw_now = true;
		ca->full_bw_reached = true;
		ca->inflight_longterm = max(bbr3_bdp(sk, ca->bw, 100), ca->inflight_latest);
	}
	if (ca->state == STARTUP && ca->full_bw_reached)
		bbr3_enter_drain(ca);
}

/* 5.3.2 CheckDrainDone(). */
static void bbr3_check_drain_done(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (ca->state != DRAIN)
		return;
	if (bbr3_inflight(sk) <= bbr3_quantization_budget(sk, bbr3_bdp(sk, ca->bw, 100)) ||
	    ca->round_count > ca->drain_start_round + DRAIN_ROUNDS)
		bbr3_start_down(sk);
}

/* 5.3.3.5.3 IsTimeToProbeBW(). */
static bool bbr3_is_time_to_probe_bw(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);
	u32 rounds = min(bbr3_target_inflight(sk), RENO_ROUNDS);

	if (tcp_sk(sk)->tcp_mstamp <= ca->cycle_stamp + ca->bw_probe_wait && ca->rounds_since_probe_up < rounds)
		return false;
	bbr3_start_refill(sk);
	return true;
}

/* 5.3.3.6 IsTimeToCruise(). */
static bool bbr3_is_time_to_cruise(const struct sock *sk)
{
	const struct bbr3 *ca = inet_csk_ca(sk);
	u32 inflight = bbr3_inflight(sk);

	return inflight <= bbr3_inflight_with_headroom(ca) &&
	       inflight <= bbr3_quantization_budget(sk, bbr3_bdp(sk, bbr3_max_bw(ca), 100));
}

/* 5.3.3.6 IsTimeToGoDown(). */
static bool bbr3_is_time_to_go_down(struct sock *sk, const struct bbr3_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);

	if (ca->prev_probe_too_high && rs->prior_in_flight >= ca->inflight_longterm) {
		ca->prev_probe_precautionary = true;
		return true;
	}
	if (tp->is_cwnd_limited && tcp_snd_cwnd(tp) >= ca->inflight_longterm) {
		bbr3_reset_full_bw(ca);
		ca->full_bw = rs->delivery_rate;
		return false;
	}
	return ca->full_bw_now;
}

/* 5.3.3.6 ProbeInflightLongtermUpward(). */
static void bbr3_probe_inflight_upward(struct sock *sk, const struct bbr3_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);

	if (!tp->is_cwnd_limited || tcp_snd_cwnd(tp) < ca->inflight_longterm)
		return;
	ca->bw_probe_up_acked += rs->newly_acked;
	if (ca->bw_probe_up_acked >= ca->probe_up_acked_per_inc) {
		u32 delta = ca->bw_probe_up_acked / ca->probe_up_acked_per_inc;

		ca->bw_probe_up_acked -= delta * ca->probe_up_acked_per_inc;
		ca->inflight_longterm += delta;
	}
	if (ca->round_start)
		bbr3_raise_slope(sk);
}

/* 5.3.3.6 AdaptLongTermModel(); true: it has decided the next state. */
static bool bbr3_adapt_long_term_model(struct sock *sk, const struct bbr3_sample *rs, bool ce)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (ca->ack_phase == ACKS_PROBE_STARTING && ca->round_start)
		ca->ack_phase = ACKS_PROBE_FEEDBACK;
	if (ca->ack_phase == ACKS_PROBE_STOPPING && ca->round_start) {
		ca->is_bw_probe_sample = false;
		ca->ack_phase = ACKS_INIT;
		if (bbr3_is_probe_bw(ca) && !rs->is_app_limited)
			bbr3_advance_max_bw_filter(ca);
		if (bbr3_is_probe_bw(ca) && ca->prev_probe_precautionary && !ca->prev_probe_too_high) {
			bbr3_start_refill(sk);
			return true;
		}
	}
	if (bbr3_is_inflight_too_high(sk, rs->lost, rs->tx_in_flight)) {
		/* Losses have been handled packet by packet. */
		if (ce && ca->is_bw_probe_sample)
			bbr3_handle_inflight_too_high(sk, rs->tx_in_flight, rs->is_app_limited);
		return false;
	}
	if (ca->inflight_longterm == INFINITE)
		return false;
	ca->inflight_longterm = max(ca->inflight_longterm, rs->tx_in_flight);
	if (ca->state == PROBE_UP)
		bbr3_probe_inflight_upward(sk, rs);
	return false;
}

/* 5.3.3.6 UpdateProbeBWCyclePhase(). */
static void bbr3_update_cycle_phase(struct sock *sk, const struct bbr3_sample *rs, bool ce)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (!ca->full_bw_reached || bbr3_adapt_long_term_model(sk, rs, ce))
		return;
	switch (ca->state) {
	case PROBE_DOWN:
		if (!bbr3_is_time_to_probe_bw(sk) && bbr3_is_time_to_cruise(sk))
			bbr3_enter(ca, PROBE_CRUISE);
		break;
	case PROBE_CRUISE:
		bbr3_is_time_to_probe_bw(sk);
		break;
	case PROBE_REFILL:
		if (ca->round_start) {
			ca->is_bw_probe_sample = true;
			bbr3_start_up(sk, rs);
		}
		break;
	case PROBE_UP:
		if (bbr3_is_time_to_go_down(sk, rs)) {
			ca->prev_probe_too_high = false;
			bbr3_start_down(sk);
		}
		break;
	default:
		break;
	}
}

/* 5.3.4.3 UpdateMinRTT(). */
static void bbr3_update_min_rtt(struct sock *sk, const struct bbr3_sample *rs)
{
	struct bbr3 *ca = inet_csk_ca(sk);
	u64 now = tcp_sk(sk)->tcp_mstamp;

	ca->probe_rtt_expired = now > ca->probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
	if (rs->rtt >= 0 && (rs->rtt < ca->probe_rtt_min_delay || ca->probe_rtt_expired)) {
		ca->probe_rtt_min_delay = rs->rtt;
		ca->probe_rtt_min_stamp = now;
	}
	if (ca->probe_rtt_min_delay < ca->min_rtt || now > ca->min_rtt_stamp + MIN_RTT_WINDOW) {
		ca->min_rtt = ca->probe_rtt_min_delay;
		ca->min_rtt_stamp = ca->probe_rtt_min_stamp;
	}
}

/* 5.6.4.5 ProbeRTTCwnd(). */
static u32 bbr3_probe_rtt_cwnd(const struct sock *sk)
{
	const struct bbr3 *ca = inet_csk_ca(sk);

	return max(bbr3_bdp(sk, ca->bw, PROBE_RTT_CWND_GAIN), MIN_PIPE_CWND);
}

/* 5.3.4.3 CheckProbeRTTDone(), with 5.3.4.4 ExitProbeRTT(). */
static void bbr3_check_probe_rtt_done(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);
	u64 now = tcp_sk(sk)->tcp_mstamp;

	if (!ca->probe_rtt_done_stamp || now <= ca->probe_rtt_done_stamp)
		return;
	ca->probe_rtt_min_stamp = now;
	bbr3_restore_cwnd(sk);
	bbr3_reset_short_term_model(ca);
	if (ca->full_bw_reached) {
		bbr3_start_down(sk);
		bbr3_enter(ca, PROBE_CRUISE);
	} else {
		bbr3_enter(ca, STARTUP);
	}
}

/* 5.3.4.3 HandleProbeRTT(). */
static void bbr3_handle_probe_rtt(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);

	tp->app_limited = max(tp->delivered + bbr3_inflight(sk), 1U);	/* MarkConnectionAppLimited() */
	if (!ca->probe_rtt_done_stamp) {
		if (bbr3_inflight(sk) > bbr3_probe_rtt_cwnd(sk))
			return;
		ca->probe_rtt_done_stamp = tp->tcp_mstamp + PROBE_RTT_DURATION;
		ca->probe_rtt_round_done = false;
		bbr3_start_round(sk);
		return;
	}
	if (ca->round_start)
		ca->probe_rtt_round_done = true;
	if (ca->probe_rtt_round_done)
		bbr3_check_probe_rtt_done(sk);
}

/* 5.3.4.3 CheckProbeRTT(). */
static void bbr3_check_probe_rtt(struct sock *sk, const struct bbr3_sample *rs)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (ca->state != PROBE_RTT && ca->probe_rtt_expired && !ca->idle_restart) {
		bbr3_enter(ca, PROBE_RTT);
		bbr3_save_cwnd(sk);
		ca->probe_rtt_done_stamp = 0;
		ca->ack_phase = ACKS_PROBE_STOPPING;
		bbr3_start_round(sk);
	}
	if (ca->state == PROBE_RTT)
		bbr3_handle_probe_rtt(sk);
	if (rs->delivered)
		ca->idle_restart = false;
}

/* 5.6.4.7 BoundCwndForModel(). */
static u32 bbr3_model_bound(const struct bbr3 *ca)
{
	u32 cap = INFINITE;

	if (ca->state == PROBE_RTT || ca->state == PROBE_CRUISE)
		cap = bbr3_inflight_with_headroom(ca);
	else if (bbr3_is_probe_bw(ca))
		cap = ca->inflight_longterm;
	return max(min(cap, ca->inflight_shortterm), MIN_PIPE_CWND);
}

/* 5.6.4.6 SetCwnd(), with 5.6.4.2 UpdateMaxInflight() and 5.6.4.5 BoundCwndForProbeRTT(). */
static void bbr3_set_cwnd(struct sock *sk, const struct bbr3_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct bbr3 *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tp);
	u32 max_inflight = bbr3_bdp(sk, ca->bw, ca->cwnd_gain) + minmax_get(&ca->extra_acked);

	max_inflight = bbr3_quantization_budget(sk, max_inflight);
	if (ca->full_bw_reached)
		cwnd = min(cwnd + rs->newly_acked, max_inflight);
	else if (cwnd < max_inflight || tp->delivered < ca->initial_cwnd)
		cwnd += rs->newly_acked;
	cwnd = max(cwnd, MIN_PIPE_CWND);
	if (ca->state == PROBE_RTT)
		cwnd = min(cwnd, bbr3_probe_rtt_cwnd(sk));
	tcp_snd_cwnd_set(tp, min3(cwnd, bbr3_model_bound(ca), tp->snd_cwnd_clamp));
}

/* 5.2.3 UpdateModelAndState(). */
static void bbr3_update_model_and_state(struct sock *sk, const struct bbr3_sample *rs, bool ce)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	bbr3_update_latest_delivery_signals(sk, rs);
	bbr3_update_congestion_signals(sk, rs);
	bbr3_update_ack_aggregation(sk, rs);
	if (rs->has_data)
		bbr3_check_full_bw_reached(ca, rs);
	bbr3_check_startup_done(sk, rs);
	bbr3_check_drain_done(sk);
	if (rs->has_data)
		bbr3_update_cycle_phase(sk, rs, ce);
	bbr3_update_min_rtt(sk, rs);
	bbr3_check_probe_rtt(sk, rs);
	bbr3_advance_latest_delivery_signals(ca, rs);
	ca->bw = min(bbr3_max_bw(ca), ca->bw_shortterm);	/* 5.5.10.3 BoundBWForModel() */
}

/* 4.1.2.3 GenerateRateSample(): the kernel's in packets, with the rate in bytes per second. */
static struct bbr3_sample bbr3_sample_of(const struct sock *sk, const struct rate_sample *rs)
{
	struct bbr3_sample sample = {
		.has_data = rs->prior_mstamp && rs->delivered > 0,
		.newly_acked = rs->acked_sacked,
		.rtt = rs->rtt_us,
	};

	if (!sample.has_data)
		return sample;
	sample.is_app_limited = rs->is_app_limited;
	sample.delivered = rs->delivered;
	sample.prior_delivered = rs->prior_delivered;
	sample.tx_in_flight = rs->tx_in_flight;
	sample.prior_in_flight = rs->prior_in_flight;
	sample.lost = rs->lost + rs->delivered_ce;
	if (rs->interval_us > 0)
		sample.delivery_rate = div_u64((u64)rs->delivered * tcp_sk(sk)->mss_cache * USEC_PER_SEC,
					       rs->interval_us);
	return sample;
}

/* 5.2.3 UpdateOnACK(). */
static void bbr3_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);
	struct bbr3_sample sample = bbr3_sample_of(sk, rs);
	bool ce = tp->delivered_ce != ca->delivered_ce;

	ca->delivered_ce = tp->delivered_ce;
	if (ce) {
		bbr3_note_loss(sk);
		bbr3_count_range(ca);
	}
	if (!ca->has_rtt && tp->srtt_us)
		bbr3_init_pacing_rate(sk);
	bbr3_update_model_and_state(sk, &sample, ce);
	bbr3_set_pacing_rate(sk, ca->pacing_gain);
	bbr3_set_cwnd(sk, &sample);
}

/* 5.4.1 HandleRestartFromIdle(): nothing is in flight. */
static void bbr3_tx_start(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);

	if (!tp->app_limited)
		return;
	ca->idle_restart = true;
	ca->extra_acked_interval_start = tp->tcp_mstamp;
	if (bbr3_is_probe_bw(ca))
		bbr3_set_pacing_rate(sk, 100);
	else if (ca->state == PROBE_RTT)
		bbr3_check_probe_rtt_done(sk);
}

/* 5.6.4.4 OnEnterFastRecovery(), OnEnterRTO(); the core sets cwnd after a timeout itself. */
static u32 bbr3_ssthresh(struct sock *sk)
{
	bbr3_save_state(sk);
	bbr3_save_cwnd(sk);
	return tcp_sk(sk)->snd_ssthresh;
}

static void bbr3_set_state(struct sock *sk, u8 new_state)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_CWR)
		bbr3_note_loss(sk);
	if (new_state >= TCP_CA_CWR)
		return;
	ca->in_loss_episode = false;
	if (bbr3_in_recovery(sk))
		bbr3_restore_cwnd(sk);
}

/* 5.5.11.2 HandleSpuriousLossDetection(). */
static u32 bbr3_undo_cwnd(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	bbr3_restore_cwnd(sk);
	ca->is_loss_in_round = false;
	bbr3_reset_full_bw(ca);
	ca->bw_shortterm = max(ca->bw_shortterm, ca->undo_bw_shortterm);
	ca->inflight_shortterm = max(ca->inflight_shortterm, ca->undo_inflight_shortterm);
	ca->inflight_longterm = max(ca->inflight_longterm, ca->undo_inflight_longterm);
	if (ca->undo_state == STARTUP && ca->state != STARTUP) {
		ca->full_bw_reached = false;
		if (ca->state != PROBE_RTT)
			bbr3_enter(ca, STARTUP);
	} else if (ca->undo_state == PROBE_UP && ca->state != PROBE_UP && ca->state != PROBE_RTT) {
		bbr3_start_refill(sk);
	}
	ca->undo_state = NO_STATE;
	return tcp_snd_cwnd(tcp_sk(sk));
}

static u32 bbr3_sndbuf_expand(struct sock *sk)
{
	return SNDBUF_FACTOR;
}

static size_t bbr3_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct bbr3 *ca = inet_csk_ca(sk);
	u64 bw = READ_ONCE(ca->bw);

	if (!(ext & (1 << (INET_DIAG_BBRINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(&info->bbr, 0, sizeof(info->bbr));
	info->bbr.bbr_bw_lo = (u32)bw;
	info->bbr.bbr_bw_hi = (u32)(bw >> 32);
	info->bbr.bbr_min_rtt = ca->min_rtt;
	info->bbr.bbr_pacing_gain = ((u32)ca->pacing_gain << 8) / 100;	/* as ss reads it: 256 is 1.0 */
	info->bbr.bbr_cwnd_gain = ((u32)ca->cwnd_gain << 8) / 100;
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}

/* 5.2.1 OnInit(). */
static void bbr3_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);

	memset(ca, 0, sizeof(*ca));
	tcp_mstamp_refresh(tp);
	ca->initial_cwnd = tcp_snd_cwnd(tp);
	ca->min_rtt = tp->srtt_us ? max(tp->srtt_us >> 3, 1U) : INFINITE;
	ca->min_rtt_stamp = tp->tcp_mstamp;
	ca->probe_rtt_min_delay = ca->min_rtt;
	ca->probe_rtt_min_stamp = tp->tcp_mstamp;
	ca->extra_acked_interval_start = tp->tcp_mstamp;
	ca->inflight_longterm = INFINITE;
	ca->probe_up_acked_per_inc = INFINITE;
	ca->next_round_delivered = tp->delivered;
	ca->loss_round_delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
	bbr3_reset_short_term_model(ca);
	bbr3_init_pacing_rate(sk);
	bbr3_enter(ca, STARTUP);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

static struct tcp_congestion_ops bbr3 __read_mostly = {
	.init			= bbr3_init,
	.cong_control		= bbr3_cong_control,
	.skb_lost		= bbr3_skb_lost,
	.cwnd_event_tx_start	= bbr3_tx_start,
	.ssthresh		= bbr3_ssthresh,
	.set_state		= bbr3_set_state,
	.undo_cwnd		= bbr3_undo_cwnd,
	.min_tso_segs		= bbr3_min_tso_segs,
	.sndbuf_expand		= bbr3_sndbuf_expand,
	.get_info		= bbr3_get_info,
	.flags			= TCP_CONG_NON_RESTRICTED,
	.owner			= THIS_MODULE,
	.name			= "bbr3",
};

static int __init bbr3_register(void)
{
	BUILD_BUG_ON(sizeof(struct bbr3) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&bbr3);
}

static void __exit bbr3_unregister(void)
{
	tcp_unregister_congestion_control(&bbr3);
}

module_init(bbr3_register);
module_exit(bbr3_unregister);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP BBRv3 (draft-ietf-ccwg-bbr-06)");

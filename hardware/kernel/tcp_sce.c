// SPDX-License-Identifier: GPL-2.0
/*
 * Reno, DCTCP and CUBIC with Some Congestion Experienced (SCE).
 *
 * Written from draft-morton-tsvwg-sce, draft-grimes-tcpm-tcpsce and what the
 * publications say of their senders, and a description of how those of the SCE
 * project's kernel behave; README.md beside this file tells which part is from where.
 *
 * Receiver: of the bytes that it acknowledges, as many are acknowledged with the
 * former NS flag (ESCE) as have come marked ECT(1).
 * Sender, W being the window in segments and m its segments' size over that of the
 * peer's, which the stack takes for 536 bytes as long as the peer sends no data:
 *   segment acknowledged	W += m / W
 *   with ESCE instead		W -= m / sqrt(W)	reno-sce
 *				W -= m / 2		dctcp-sce
 *   ECE, once a round	W *= 0.8 (RFC 8511)
 *   loss			W /= 2
 * cubic-sce takes m / sqrt(W) too, but grows and answers ECE and loss as the kernel's
 * CUBIC, by its functions; with each ESCE CUBIC's curve begins anew.
 * The first ESCE or ECE ends slow start, ESCE without a reduction.
 * Pacing at W / srtt times net.ipv4.tcp_pacing_ss_ratio in slow start, …_ca_ratio after it.
 *
 * W is kept in 2^-20 segments, its whole part in snd_cwnd.
 */

#include <linux/inet_diag.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <net/tcp.h>
#include <net/tcp_ecn.h>
#include <net/tcp_sce.h>

#define FRAC_BITS	20
#define ONE		(1U << FRAC_BITS)
#define MIN_CWND	2U
#define CE_KEEPS	(ONE / 10 * 8)

struct sce {
	/* As receiver */
	u32	acked_to;	/* sequence number up to which it has acknowledged */
	u32	echoed;		/* bytes acknowledged with ESCE, of the count of bytes that came as ECT(1) */
	/* As sender */
	u32	frac;		/* fraction of the window, < ONE */
	u32	loss_cwnd;
	u32	marked;		/* segments acknowledged with ESCE */
	bool	esce;		/* on the ACK that is being processed */
	bool	heard;		/* ever */
};

/* The kernel's CUBIC has the other end of the socket's room for a congestion control. */
#define CUBIC_SIZE	(ICSK_CA_PRIV_SIZE - sizeof(struct sce))

static struct tcp_congestion_ops dctcp_sce, cubic_sce;
static const struct tcp_congestion_ops *cubic __read_mostly;

static struct sce *sce_ca(const struct sock *sk)
{
	return inet_csk_ca(sk) + CUBIC_SIZE;
}

static bool is_cubic(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_ops == &cubic_sce;
}

/* Called for each segment that leaves: whether it carries ESCE. A half of what it acknowledges must be due. */
bool tcp_sce_echo(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct sce *ca = sce_ca(sk);
	u32 acks = tp->rcv_nxt - ca->acked_to;
	s32 due = tp->received_ecn_bytes[INET_ECN_ECT_1 - 1] - ca->echoed;

	ca->acked_to = tp->rcv_nxt;
	if (due <= 0 || !acks || (u32)due * 2 < acks)
		return false;
	ca->echoed += acks;
	return true;
}

void tcp_sce_heard(struct sock *sk, bool esce)
{
	struct sce *ca = sce_ca(sk);

	ca->esce = esce;
	ca->heard |= esce;
}

static u64 sce_window(const struct tcp_sock *tp, const struct sce *ca)
{
	return ((u64)tcp_snd_cwnd(tp) << FRAC_BITS) + ca->frac;
}

static void sce_set_window(struct tcp_sock *tp, struct sce *ca, u64 window)
{
	window = max_t(u64, window, (u64)MIN_CWND << FRAC_BITS);
	tcp_snd_cwnd_set(tp, min_t(u64, window >> FRAC_BITS, tp->snd_cwnd_clamp));
	ca->frac = tcp_snd_cwnd(tp) < tp->snd_cwnd_clamp ? window & (ONE - 1) : 0;
}

/* m, in 2^-20 */
static u64 sce_segment(const struct sock *sk)
{
	return div_u64((u64)tcp_sk(sk)->mss_cache << FRAC_BITS, max_t(u32, inet_csk(sk)->icsk_ack.rcv_mss, 1));
}

/* One segment's reduction on ESCE: 2^20 / sqrt(W), the root of W 2^20 being 2^10 sqrt(W). */
static u64 sce_reduction(const struct sock *sk, u64 window)
{
	if (inet_csk(sk)->icsk_ca_ops == &dctcp_sce)
		return sce_segment(sk) / 2;
	return div_u64(sce_segment(sk) << 10, int_sqrt64(window));
}

static void sce_pace(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = (u64)tp->mss_cache * (USEC_PER_SEC << 3) / 100;

	rate *= tcp_in_slow_start(tp) ? READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_pacing_ss_ratio) :
					READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_pacing_ca_ratio);
	rate *= tcp_snd_cwnd(tp);
	if (tp->srtt_us)
		do_div(rate, tp->srtt_us);
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

static void sce_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sce *ca = sce_ca(sk);
	u8 state = inet_csk(sk)->icsk_ca_state;
	u32 acked = rs->acked_sacked, marked = ca->esce ? acked : 0;
	u64 window = sce_window(tp, ca);

	ca->esce = false;
	ca->marked += marked;
	if (state == TCP_CA_Recovery)
		goto pace;	/* held: the loss response set it */
	if (marked && is_cubic(sk))
		cubic->ssthresh(sk);	/* ends the curve; its reduction is not taken */
	if (marked && tcp_in_slow_start(tp)) {
		WRITE_ONCE(tp->snd_ssthresh, tcp_snd_cwnd(tp));
	} else if (marked) {
		window -= min(window, marked * sce_reduction(sk, window));
		sce_set_window(tp, ca, window);
		WRITE_ONCE(tp->snd_ssthresh, tcp_snd_cwnd(tp));
	}
	if (state == TCP_CA_CWR || rs->is_app_limited || !acked || (marked && !is_cubic(sk)))
		goto pace;
	if (is_cubic(sk)) {
		cubic->cong_avoid(sk, ack, acked);
		goto pace;
	}
	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	window = sce_window(tp, ca);
	sce_set_window(tp, ca, window + div_u64(acked * sce_segment(sk), tcp_snd_cwnd(tp)));
pace:
	sce_pace(sk);
}

static u32 sce_ssthresh(struct sock *sk)
{
	struct sce *ca = sce_ca(sk);

	ca->loss_cwnd = tcp_snd_cwnd(tcp_sk(sk));
	if (is_cubic(sk))
		return cubic->ssthresh(sk);
	return max(ca->loss_cwnd >> 1, MIN_CWND);
}

static void sce_set_state(struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sce *ca = sce_ca(sk);

	if (new_state == inet_csk(sk)->icsk_ca_state)
		return;
	if (is_cubic(sk))
		cubic->set_state(sk, new_state);
	if (new_state == TCP_CA_CWR && !is_cubic(sk)) {
		sce_set_window(tp, ca, sce_window(tp, ca) * CE_KEEPS >> FRAC_BITS);
		WRITE_ONCE(tp->snd_ssthresh, tcp_snd_cwnd(tp));
	} else if (new_state == TCP_CA_CWR || new_state == TCP_CA_Recovery) {
		sce_set_window(tp, ca, (u64)tp->snd_ssthresh << FRAC_BITS);
	} else if (new_state == TCP_CA_Loss) {
		ca->frac = 0;
	}
}

static u32 sce_undo_cwnd(struct sock *sk)
{
	const struct sce *ca = sce_ca(sk);

	return max(tcp_snd_cwnd(tcp_sk(sk)), ca->loss_cwnd);
}

static u32 sce_min_tso_segs(struct sock *sk)
{
	return 1;
}

/* `ss -ti`: dctcp:(ce_state:1 once ESCE was heard, ab_ecn: bytes acknowledged with it, of ab_tot). */
static size_t sce_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct sce *ca = sce_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!(ext & (1 << (INET_DIAG_DCTCPINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(&info->dctcp, 0, sizeof(info->dctcp));
	info->dctcp.dctcp_enabled = 1;
	info->dctcp.dctcp_ce_state = ca->heard;
	info->dctcp.dctcp_ab_ecn = tp->mss_cache * ca->marked;
	info->dctcp.dctcp_ab_tot = tp->mss_cache * tp->delivered;
	*attr = INET_DIAG_DCTCPINFO;
	return sizeof(info->dctcp);
}

static void sce_init(struct sock *sk)
{
	struct sce *ca = sce_ca(sk);

	memset(ca, 0, sizeof(*ca));
	ca->acked_to = tcp_sk(sk)->rcv_nxt;
	ca->echoed = tcp_sk(sk)->received_ecn_bytes[INET_ECN_ECT_1 - 1];
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	if (is_cubic(sk))
		cubic->init(sk);
}

static struct tcp_congestion_ops reno_sce __read_mostly = {
	.init		= sce_init,
	.cong_control	= sce_cong_control,
	.ssthresh	= sce_ssthresh,
	.set_state	= sce_set_state,
	.undo_cwnd	= sce_undo_cwnd,
	.min_tso_segs	= sce_min_tso_segs,
	.get_info	= sce_get_info,
	.flags		= TCP_CONG_NON_RESTRICTED | TCP_CONG_SCE,
	.owner		= THIS_MODULE,
	.name		= "reno-sce",
};
static struct tcp_congestion_ops dctcp_sce __read_mostly, cubic_sce __read_mostly;

static int __init sce_register(void)
{
	BUILD_BUG_ON(sizeof(struct sce) > ICSK_CA_PRIV_SIZE / 4);
	rcu_read_lock();
	cubic = tcp_ca_find("cubic");
	rcu_read_unlock();
	if (!cubic)
		return -ENOENT;
	dctcp_sce = reno_sce;
	strscpy(dctcp_sce.name, "dctcp-sce");
	cubic_sce = reno_sce;
	cubic_sce.pkts_acked = cubic->pkts_acked;
	cubic_sce.cwnd_event_tx_start = cubic->cwnd_event_tx_start;
	strscpy(cubic_sce.name, "cubic-sce");
	return tcp_register_congestion_control(&reno_sce) ?: tcp_register_congestion_control(&dctcp_sce) ?:
	       tcp_register_congestion_control(&cubic_sce);
}

late_initcall(sce_register);	/* after CUBIC is there */

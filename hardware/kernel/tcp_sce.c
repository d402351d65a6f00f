// SPDX-License-Identifier: GPL-2.0
/*
 * Reno, DCTCP and CUBIC with Some Congestion Experienced (SCE).
 *
 * Written from draft-morton-tsvwg-sce, draft-grimes-tcpm-tcpsce and what the
 * publications say of their senders, and a description of how those of the SCE
 * project's kernel behave; README.md beside this file tells which part is from where.
 *
 * Receiver: an ACK of segments that came marked ECT(1) carries the former NS flag
 * (ESCE), one of segments that came as ECT(0) does not; where marks begin or end, what
 * came before is acknowledged first.
 * Sender, W being the window in segments and m its segments' size over that of the
 * peer's, which the stack takes for 536 bytes as long as the peer sends no data:
 *   segment acknowledged	W += m / W
 *   with ESCE instead		W -= m r / W		reno-sce, r following sqrt(W)
 *				W -= m / 2		dctcp-sce
 *   ECE once a round, loss	W = 0.75 max(S, L / 2), 0.875 if an ESCE came in the last W ACKs
 * L is W at the last ESCE, or what it has grown to since. S, the slow start threshold, is half
 * of L after an ESCE, so that the first one ends slow start. cubic-sce takes m sqrt(W) / W, but
 * grows and answers ECE and loss as the kernel's CUBIC, by its functions; with each ESCE
 * CUBIC's curve begins anew.
 */

#include <linux/inet_diag.h>
#include <linux/module.h>
#include <net/tcp.h>
#include <net/tcp_ecn.h>
#include <net/tcp_sce.h>

#define MIN_CWND	2U
#define CUBIC_SIZE	64	/* of ICSK_CA_PRIV_SIZE for the state of the kernel's CUBIC (60) */

struct sce {
	/* As receiver */
	u32	prior_rcv_nxt;	/* before the last segment */
	bool	run;		/* of marked segments */
	bool	due;		/* the next segment that leaves carries ESCE */
	/* As sender */
	bool	esce;		/* on the ACK that is being processed */
	bool	heard;		/* ever */
	s64	credit;		/* bytes of the peer's segments: a window of them is a segment */
	u32	una;		/* acknowledged so far */
	u32	most;		/* L */
	u32	root;		/* r */
	u32	recent;		/* ACKs that an ESCE counts for, still */
	u32	marked;		/* bytes acknowledged with ESCE */
};

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

/* Called for each segment with data: whether it is to be acknowledged at once. */
bool tcp_sce_arrived(struct sock *sk, u8 ecn)
{
	struct sce *ca = sce_ca(sk);
	bool marked = ecn == INET_ECN_ECT_1, at_once = false;

	if (marked || ecn == INET_ECN_ECT_0) {
		at_once = marked != ca->run && inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER;
		if (at_once)
			__tcp_send_ack(sk, ca->prior_rcv_nxt, 0);
		ca->run = marked;
		ca->due = marked;
	}
	ca->prior_rcv_nxt = tcp_sk(sk)->rcv_nxt;
	return at_once;
}

/* Called for each segment that leaves: whether it carries ESCE. */
bool tcp_sce_echo(struct sock *sk)
{
	struct sce *ca = sce_ca(sk);
	bool due = ca->due;

	ca->due = false;
	return due;
}

void tcp_sce_heard(struct sock *sk, bool esce)
{
	struct sce *ca = sce_ca(sk);

	ca->esce = esce;
	ca->heard |= esce;
}

/* Whole segments of the credit go to the window or from it, and the root of the window follows by one at most. */
static void sce_settle(struct tcp_sock *tp, struct sce *ca, s64 window_bytes)
{
	u32 cwnd = tcp_snd_cwnd(tp);

	for (; ca->credit <= -window_bytes; ca->credit += window_bytes) {
		cwnd = max(cwnd - 1, MIN_CWND);
		if (ca->root > 1 && ca->root * ca->root >= cwnd)
			ca->root--;
	}
	for (; ca->credit >= window_bytes; ca->credit -= window_bytes) {
		cwnd = min(cwnd + 1, tp->snd_cwnd_clamp);
		if (ca->root * ca->root < cwnd)
			ca->root++;
	}
	tcp_snd_cwnd_set(tp, cwnd);
}

static void sce_reduce(struct sock *sk, struct sce *ca, u32 cwnd, u32 bytes)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (is_cubic(sk)) {
		cubic->ssthresh(sk);	/* ends the curve; its reduction is not taken */
		ca->credit -= (s64)bytes * int_sqrt(cwnd);
	} else if (inet_csk(sk)->icsk_ca_ops == &dctcp_sce) {
		ca->credit -= (s64)bytes * cwnd / 2;
	} else {
		ca->credit -= (s64)bytes * ca->root;
	}
	WRITE_ONCE(tp->snd_ssthresh, max(cwnd / 2, MIN_CWND));
	ca->most = cwnd;
	ca->recent = cwnd + 1;
}

static void sce_in_ack_event(struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sce *ca = sce_ca(sk);
	u32 segment = max_t(u32, inet_csk(sk)->icsk_ack.rcv_mss, 1);
	u32 cwnd = tcp_snd_cwnd(tp), bytes = tp->snd_una - ca->una;
	bool esce = ca->esce;

	ca->una = tp->snd_una;
	ca->esce = false;
	if (!bytes && !(flags & CA_ACK_WIN_UPDATE))
		bytes = segment;
	if (!bytes)
		return;
	if (esce)
		ca->marked += bytes;
	if (esce && !(flags & CA_ACK_ECE)) {
		sce_reduce(sk, ca, cwnd, bytes);
	} else if (!is_cubic(sk) && !tcp_in_slow_start(tp) && !tp->app_limited) {
		ca->credit += bytes;
		ca->most = max(ca->most, cwnd);
	}
	sce_settle(tp, ca, (s64)segment * cwnd);
	if (ca->recent)
		ca->recent--;
}

static void sce_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (is_cubic(sk))
		cubic->cong_avoid(sk, ack, acked);
	else if (tcp_in_slow_start(tp) && tcp_is_cwnd_limited(sk))
		sce_ca(sk)->credit += (s64)tcp_slow_start(tp, acked) * tp->mss_cache;
}

static u32 sce_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct sce *ca = sce_ca(sk);

	if (!is_cubic(sk))
		return max3(tp->snd_ssthresh, ca->most / 2, MIN_CWND);
	ca->most = tcp_snd_cwnd(tp);
	return cubic->ssthresh(sk);
}

static void sce_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sce *ca = sce_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tp), less = max(ca->recent ? cwnd / 8 : cwnd / 4, 1U);

	if (is_cubic(sk) || (event != CA_EVENT_COMPLETE_CWR && event != CA_EVENT_LOSS))
		return;
	/* The end of a recovery that was undone is no answer to anything. */
	if (event == CA_EVENT_COMPLETE_CWR && inet_csk(sk)->icsk_ca_state != TCP_CA_CWR && !tp->undo_marker)
		return;
	if (event == CA_EVENT_LOSS)
		less = cwnd / 2;
	else
		ca->most = cwnd;
	WRITE_ONCE(tp->snd_ssthresh, max(cwnd / 2, MIN_CWND));
	cwnd = max(cwnd - min(less, cwnd), MIN_CWND);
	tcp_snd_cwnd_set(tp, cwnd);
	ca->credit = 0;
	while (ca->root > 1 && ca->root * ca->root >= cwnd)
		ca->root--;
}

static void sce_set_state(struct sock *sk, u8 new_state)
{
	if (is_cubic(sk))
		cubic->set_state(sk, new_state);
}

static u32 sce_undo_cwnd(struct sock *sk)
{
	return max3(tcp_snd_cwnd(tcp_sk(sk)), tcp_sk(sk)->prior_cwnd, sce_ca(sk)->most);
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
	info->dctcp.dctcp_ab_ecn = ca->marked;
	info->dctcp.dctcp_ab_tot = tp->mss_cache * tp->delivered;
	*attr = INET_DIAG_DCTCPINFO;
	return sizeof(info->dctcp);
}

static void sce_init(struct sock *sk)
{
	struct sce *ca = sce_ca(sk);

	memset(ca, 0, sizeof(*ca));
	ca->prior_rcv_nxt = tcp_sk(sk)->rcv_nxt;
	ca->una = tcp_sk(sk)->snd_una;
	ca->root = 1;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	if (is_cubic(sk))
		cubic->init(sk);
}

static struct tcp_congestion_ops reno_sce __read_mostly = {
	.init		= sce_init,
	.in_ack_event	= sce_in_ack_event,
	.cong_avoid	= sce_cong_avoid,
	.ssthresh	= sce_ssthresh,
	.cwnd_event	= sce_cwnd_event,
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
	BUILD_BUG_ON(sizeof(struct sce) > ICSK_CA_PRIV_SIZE - CUBIC_SIZE);
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

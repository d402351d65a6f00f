// SPDX-License-Identifier: GPL-2.0
/*
 * gentle: AIMD with a small sawtooth. On congestion the window falls to 7/8 instead of 1/2, and grows by 1/5 segment
 * per round trip instead of 1: a = 3(1 - b)/(1 + b) gives both the same mean rate at the same loss.
 */
#include <linux/module.h>
#include <net/tcp.h>

static void gentle_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, 5 * tcp_snd_cwnd(tp), acked);
}

static u32 gentle_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) * 7 / 8, 2U);
}

static struct tcp_congestion_ops gentle = {
	.name		= "gentle",
	.owner		= THIS_MODULE,
	.cong_avoid	= gentle_cong_avoid,
	.ssthresh	= gentle_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init gentle_register(void)
{
	return tcp_register_congestion_control(&gentle);
}
module_init(gentle_register);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("AIMD(1/5, 7/8)");

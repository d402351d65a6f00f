// SPDX-License-Identifier: GPL-2.0
/*
 * LEDBAT (RFC 6817) over TCP: a background flow that holds the queue, as its one-way delays show it, at TARGET. The
 * delays are differences of TCP time stamps (RFC 7323), whose unit is 1 ms; without time stamps it stays at the least
 * window. Names in capitals are the RFC's.
 */
#include <linux/module.h>
#include <net/tcp.h>

enum {
	TARGET = 100,		/* ms; the RFC's largest, and that of BitTorrent's implementation */
	INIT_CWND = 2,		/* segments */
	MIN_CWND = 2,
	BASE_HISTORY = 10,	/* minutes */
	CURRENT_FILTER = 4,	/* samples, of which the least counts */
	ONE = 1 << 16,		/* a segment */
};
#define NONE S32_MAX

struct ledbat {
	s32 base[BASE_HISTORY];	/* the least delay of each minute, the present one's first */
	s32 current_delay[CURRENT_FILTER];
	u32 minute;		/* when the present one began, jiffies */
	s32 fraction;		/* of a segment that the window has gained or lost, less than one; in 1/ONE */
	u8 at;
};

static void ledbat_init(struct sock *sk)
{
	struct ledbat *ledbat = inet_csk_ca(sk);

	for (int n = 0; n < BASE_HISTORY; n++)
		ledbat->base[n] = NONE;
	for (int n = 0; n < CURRENT_FILTER; n++)
		ledbat->current_delay[n] = NONE;
	ledbat->minute = tcp_jiffies32;
	ledbat->fraction = 0;
	ledbat->at = 0;
	if (!tcp_sk(sk)->data_segs_out)
		tcp_snd_cwnd_set(tcp_sk(sk), min(tcp_snd_cwnd(tcp_sk(sk)), (u32)INIT_CWND));
}

static s32 ledbat_least(const s32 *delays, int count)
{
	s32 least = NONE;

	for (int n = 0; n < count; n++)
		least = min(least, delays[n]);
	return least;
}

static void ledbat_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_options_received *options = &tcp_sk(sk)->rx_opt;
	struct ledbat *ledbat = inet_csk_ca(sk);
	s32 delay;

	if (!options->saw_tstamp || !options->rcv_tsecr)
		return;
	delay = options->rcv_tsval - options->rcv_tsecr;
	if (time_after32(tcp_jiffies32, ledbat->minute + 60 * HZ)) {
		memmove(ledbat->base + 1, ledbat->base, sizeof(ledbat->base) - sizeof(*ledbat->base));
		ledbat->base[0] = NONE;
		ledbat->minute = tcp_jiffies32;
	}
	ledbat->base[0] = min(ledbat->base[0], delay);
	ledbat->current_delay[ledbat->at++ % CURRENT_FILTER] = delay;
}

/*
 * RFC 6817, 2.4.2: cwnd += GAIN * off_target * bytes_newly_acked * MSS / cwnd, with GAIN 1, in segments. What ends a
 * recovery acknowledges more than a window: it counts as one. ALLOWED_INCREASE over what is in flight is the kernel's
 * own rule, that only a flow which its window holds back may grow.
 */
static void ledbat_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct ledbat *ledbat = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	s32 base = ledbat_least(ledbat->base, BASE_HISTORY), window = tcp_snd_cwnd(tp), gained;
	s64 off_target, change;

	if (base == NONE)
		return;
	off_target = TARGET - ((s64)ledbat_least(ledbat->current_delay, CURRENT_FILTER) - base);
	if (off_target > 0 && !tp->is_cwnd_limited)
		return;
	change = div_s64(off_target * min_t(s64, acked, window) * ONE, TARGET * window);
	/* No more than all of it. */
	ledbat->fraction += max_t(s64, change, -(s64)window * ONE);
	gained = ledbat->fraction / ONE;
	ledbat->fraction -= gained * ONE;
	window = max(window + gained, (s32)MIN_CWND);
	tcp_snd_cwnd_set(tp, min((u32)window, tp->snd_cwnd_clamp));
}

static u32 ledbat_ssthresh(struct sock *sk)
{
	return max_t(u32, tcp_snd_cwnd(tcp_sk(sk)) / 2, MIN_CWND);
}

static struct tcp_congestion_ops ledbat = {
	.init = ledbat_init,
	.pkts_acked = ledbat_pkts_acked,
	.cong_avoid = ledbat_cong_avoid,
	.ssthresh = ledbat_ssthresh,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.owner = THIS_MODULE,
	.name = "ledbat",
};

static int __init ledbat_register(void)
{
	BUILD_BUG_ON(sizeof(struct ledbat) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&ledbat);
}

static void __exit ledbat_unregister(void)
{
	tcp_unregister_congestion_control(&ledbat);
}

module_init(ledbat_register)
module_exit(ledbat_unregister)
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("LEDBAT (RFC 6817)");

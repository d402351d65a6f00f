/* SPDX-License-Identifier: Apache-2.0 */
/* What tcp_bbr3.c uses of the kernel, for a program in user space: the same names, without the kernel behind them. */
#ifndef _USER_SPACE_TCP_H
#define _USER_SPACE_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#define U8_MAX		UINT8_MAX
#define U32_MAX		UINT32_MAX
#define S32_MAX		INT32_MAX
#define U64_MAX		UINT64_MAX
#define MSEC_PER_SEC	1000L
#define USEC_PER_MSEC	1000L
#define USEC_PER_SEC	1000000L

#define READ_ONCE(x)		(x)
#define WRITE_ONCE(x, value)	((x) = (value))
#define __read_mostly
#define __init
#define __exit
#define THIS_MODULE		NULL
#define module_param(name, type, mode)
#define module_init(function)	int user_space_init(void) { return function(); }
#define module_exit(function)	void user_space_exit(void) { function(); }
#define MODULE_PARM_DESC(name, text)
#define MODULE_LICENSE(text)
#define MODULE_DESCRIPTION(text)
#define BUILD_BUG_ON(condition)	_Static_assert(!(condition), #condition)
#define cmpxchg(where, old, new)	(*(where) == (old) ? (void)(*(where) = (new)) : (void)0)

#define min_t(type, a, b)	({ type _a = (a); type _b = (b); _a < _b ? _a : _b; })
#define max_t(type, a, b)	({ type _a = (a); type _b = (b); _a > _b ? _a : _b; })
#define min(a, b)		({ __auto_type _a = (a); __auto_type _b = (b); _a < _b ? _a : _b; })
#define max(a, b)		({ __auto_type _a = (a); __auto_type _b = (b); _a > _b ? _a : _b; })
#define min3(a, b, c)		min(min(a, b), c)
#define max3(a, b, c)		max(max(a, b), c)
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define div_u64(n, d)		((u64)(n) / (u32)(d))
#define mul_u64_u64_div_u64(a, b, d)	((u64)((unsigned __int128)(a) * (b) / (d)))

/* A maximum over a window of up to 16 rounds: what lib/win_minmax.c estimates with three samples. */
struct minmax {
	u32 time[16], value[16];
};

static inline u32 minmax_get(const struct minmax *m)
{
	u32 most = 0, i;

	for (i = 0; i < 16; i++)
		most = max(most, m->value[i]);
	return most;
}

static inline u32 minmax_running_max(struct minmax *m, u32 window, u32 time, u32 value)
{
	u32 i, slot = time % 16;

	m->value[slot] = m->time[slot] == time ? max(m->value[slot], value) : value;
	m->time[slot] = time;
	for (i = 0; i < 16; i++)
		if (time - m->time[i] > window)
			m->value[i] = 0;
	return minmax_get(m);
}

enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum { SK_PACING_NONE, SK_PACING_NEEDED };
enum { TCP_CONG_NON_RESTRICTED = 1 };
enum { INET_DIAG_VEGASINFO = 3, INET_DIAG_BBRINFO = 16 };

struct rate_sample;
struct sk_buff;
struct sock;
union tcp_cc_info {
	struct tcp_bbr_info {
		u32 bbr_bw_lo, bbr_bw_hi, bbr_min_rtt, bbr_pacing_gain, bbr_cwnd_gain;
	} bbr;
};

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	void (*skb_lost)(struct sock *sk, const struct sk_buff *skb);
	void (*cwnd_event_tx_start)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 new_state);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*min_tso_segs)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	size_t (*get_info)(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);
	u32 flags;
	void *owner;
	const char *name;
};

struct sock {
	u64 sk_pacing_rate, sk_max_pacing_rate;
	int sk_pacing_status;
};

/* The kernel's three structures of a connection in one. */
struct tcp_sock {
	struct sock sk;
	u8 icsk_ca_state;
	u64 icsk_ca_priv[64];
	u64 tcp_mstamp, first_tx_mstamp, delivered_mstamp;
	u32 mss_cache, snd_cwnd, snd_cwnd_clamp, snd_ssthresh, srtt_us;
	u32 delivered, delivered_ce, lost, app_limited, in_flight;
	bool is_cwnd_limited, no_sack;
};
#define inet_connection_sock tcp_sock
/* The kernel's minmax is smaller: the size is checked when the kernel is compiled. */
#define ICSK_CA_PRIV_SIZE	sizeof(((struct tcp_sock *)0)->icsk_ca_priv)

struct tcp_skb_cb {
	u32 seq, end_seq, tx_lost, pcount;
	u16 tx_in_flight;
	struct {
		bool is_app_limited;
		u32 delivered, delivered_ce;
		u64 first_tx_mstamp, delivered_mstamp;
	} tx;
};

struct sk_buff {
	struct tcp_skb_cb cb;
};

struct rate_sample {
	u64 prior_mstamp;
	u32 prior_delivered, prior_delivered_ce, acked_sacked, prior_lost, lost, tx_in_flight, prior_in_flight;
	s32 delivered, delivered_ce;
	s64 interval_us, rtt_us;
	bool is_app_limited;
};

#define TCP_SKB_CB(skb)		(&(skb)->cb)
#define tcp_sk(sk)		((struct tcp_sock *)(sk))
#define inet_csk(sk)		tcp_sk(sk)
#define inet_csk_ca(sk)		((void *)tcp_sk(sk)->icsk_ca_priv)
#define tcp_skb_pcount(skb)	((skb)->cb.pcount)
#define tcp_packets_in_flight(tp)	((tp)->in_flight)
#define tcp_snd_cwnd(tp)	((tp)->snd_cwnd)
#define tcp_snd_cwnd_set(tp, value)	((tp)->snd_cwnd = (value))
#define tcp_is_sack(tp)		(!(tp)->no_sack)
#define tcp_mstamp_refresh(tp)	((void)(tp))
#define before(a, b)		((s32)((u32)(a) - (u32)(b)) < 0)
#define tcp_register_congestion_control(ops)	((void)(ops), 0)
#define tcp_unregister_congestion_control(ops)	((void)(ops))

u32 get_random_u32_below(u32 ceiling);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's types as far as they are used here. libbpf finds each member in
 * the running kernel by its name (CO-RE), so one object fits many kernels.
 */
#pragma once

#include <linux/types.h>

#define CA_PRIV_WORDS 13	/* ICSK_CA_PRIV_SIZE / 8 */

typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock_af_ops {
	__u16 net_header_len;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	const struct inet_connection_sock_af_ops *icsk_af_ops;
	u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[CA_PRIV_WORDS];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u16 tcp_header_len;
	u32 snd_una;
	u32 snd_nxt;
	u64 tcp_mstamp;
	u32 srtt_us;
	u32 mss_cache;
	u32 packets_out;
	u32 max_packets_out;
	u32 delivered;
	u32 delivered_ce;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 undo_marker;
	u8 ecn_flags;
	u8 chrono_type : 2;
	u32 is_cwnd_limited : 1;
};

struct rate_sample {
	u32 acked_sacked;
	_Bool is_app_limited;
};

enum tcp_ca_event {
	CA_EVENT_LOSS = 3,
};

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*min_tso_segs)(struct sock *sk);
	u32 flags;
	char name[16];
};

#pragma clang attribute pop

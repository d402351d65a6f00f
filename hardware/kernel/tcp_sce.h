/* SPDX-License-Identifier: GPL-2.0 */
/* Where the TCP stack meets a congestion control that speaks SCE (tcp_sce.c). */
#ifndef _NET_TCP_SCE_H
#define _NET_TCP_SCE_H

#include <net/tcp.h>

/* Speaks SCE where classic ECN (RFC 3168) was negotiated; with AccECN the flag has another meaning. */
#define TCP_CONG_SCE	BIT(7)

#ifdef CONFIG_TCP_CONG_SCE
bool tcp_sce_arrived(struct sock *sk, u8 ecn);
bool tcp_sce_echo(struct sock *sk);
void tcp_sce_heard(struct sock *sk, bool esce);

static inline bool tcp_speaks_sce(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_ops->flags & TCP_CONG_SCE;
}
#else
static inline bool tcp_sce_arrived(struct sock *sk, u8 ecn) { return false; }
static inline bool tcp_sce_echo(struct sock *sk) { return false; }
static inline void tcp_sce_heard(struct sock *sk, bool esce) { }
static inline bool tcp_speaks_sce(const struct sock *sk) { return false; }
#endif

#endif

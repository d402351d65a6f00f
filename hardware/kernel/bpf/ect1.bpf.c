// SPDX-License-Identifier: GPL-2.0
/*
 * ECT(1) for the packets of sockets whose congestion control is "prague", at the
 * egress of a device: a kernel as it comes sends them as ECT(0). What
 * ../tcp_ect1.c does, for hosts that take no module.
 */

#include "kernel.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TC_ACT_UNSPEC	(-1)
#define ECN_MASK	3
#define ECT_0		2
#define ECT_1		1

char LICENSE[] SEC("license") = "GPL";

static __always_inline int is_prague(struct __sk_buff *skb)
{
	static const char prague[] = "prague";
	struct bpf_sock *sk = skb->sk;
	struct tcp_sock *tp;
	const char *name;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	name = tp->inet_conn.icsk_ca_ops->name;
	for (int i = 0; i < sizeof(prague); i++)
		if (name[i] != prague[i])
			return 0;
	return 1;
}

SEC("tc")
int ect1(struct __sk_buff *skb)
{
	u8 old, new;
	__be16 was, is;

	if (!is_prague(skb))
		return TC_ACT_UNSPEC;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, tos), &old, 1) ||
		    (old & ECN_MASK) != ECT_0)
			return TC_ACT_UNSPEC;
		new = old ^ (ECT_0 | ECT_1);
		/* The word of the header that holds it, for the checksum: version and length are the same in both. */
		was = bpf_htons(old);
		is = bpf_htons(new);
		bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), was, is, sizeof(was));
		bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, tos), &new, 1, 0);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		/* Version, traffic class and flow label: the two ECN bits are in the upper half of the second byte. */
		if (bpf_skb_load_bytes(skb, ETH_HLEN + 1, &old, 1) || (old >> 4 & ECN_MASK) != ECT_0)
			return TC_ACT_UNSPEC;
		new = old ^ (ECT_0 | ECT_1) << 4;
		bpf_skb_store_bytes(skb, ETH_HLEN + 1, &new, 1, 0);
	}
	return TC_ACT_UNSPEC;
}

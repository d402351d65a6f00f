// SPDX-License-Identifier: GPL-2.0
/*
 * ECT(1) for congestion controls that ask for it, on a kernel as it is.
 *
 * Mainline negotiates AccECN with ECT(1) for them and then sends all data as
 * ECT(0). Where the kernel can be built, a patch changes that; where it cannot,
 * this module turns their ECT(0) into ECT(1) on the way out. On a patched
 * kernel it finds nothing to do.
 */

#include <linux/module.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <net/inet_ecn.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

static bool asks_for_ect1(const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;

	return sk && sk_fullsock(sk) && sk_is_tcp(sk) && tcp_ca_ect_1_negotiation(sk);
}

static unsigned int ect1_output(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	if (asks_for_ect1(skb))
		INET_ECN_set_ect1(skb);	/* leaves all but ECT(0) alone */
	return NF_ACCEPT;
}

static const struct nf_hook_ops ect1_hooks[] = {
	{
		.hook		= ect1_output,
		.pf		= NFPROTO_IPV4,
		.hooknum	= NF_INET_LOCAL_OUT,
		.priority	= NF_IP_PRI_LAST,
	},
	{
		.hook		= ect1_output,
		.pf		= NFPROTO_IPV6,
		.hooknum	= NF_INET_LOCAL_OUT,
		.priority	= NF_IP_PRI_LAST,
	},
};

static int __net_init ect1_net_init(struct net *net)
{
	return nf_register_net_hooks(net, ect1_hooks, ARRAY_SIZE(ect1_hooks));
}

static void __net_exit ect1_net_exit(struct net *net)
{
	nf_unregister_net_hooks(net, ect1_hooks, ARRAY_SIZE(ect1_hooks));
}

static struct pernet_operations ect1_net_ops = {
	.init	= ect1_net_init,
	.exit	= ect1_net_exit,
};

static int __init ect1_register(void)
{
	return register_pernet_subsys(&ect1_net_ops);
}

static void __exit ect1_unregister(void)
{
	unregister_pernet_subsys(&ect1_net_ops);
}

module_init(ect1_register);
module_exit(ect1_unregister);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("ECT(1) on data of TCP congestion controls that negotiate it");
MODULE_SOFTDEP("post: tcp_prague");

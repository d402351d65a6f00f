/* SPDX-License-Identifier: GPL-2.0 */
/* What tcp_prague.c calls and mainline does not export to modules; the Makefile includes it first. */

#include <net/tcp.h>

static inline void prague_mstamp_refresh(struct tcp_sock *tp)
{
	tp->tcp_clock_cache = tcp_clock_ns();
	tp->tcp_mstamp = div_u64(tp->tcp_clock_cache, NSEC_PER_USEC);
}

#define tcp_mstamp_refresh prague_mstamp_refresh

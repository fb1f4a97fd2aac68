// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A template for your own congestion control. It implements Reno. The kernel calls these functions for
 * every connection that uses it. In the kernel's source, include/net/tcp.h and include/linux/tcp.h
 * declare the fields and functions of a connection, and net/ipv4/tcp_*.c has other algorithms.
 */

#include <linux/module.h>
#include <net/tcp.h>

/* State of a connection; at most ICSK_CA_PRIV_SIZE bytes, 104 in Linux 6.12. */
struct ca_template {
	u32 losses;
};

static void ca_template_init(struct sock *sk)
{
	struct ca_template *own = inet_csk_ca(sk);

	own->losses = 0;
}

/* After a loss: return the new window in packets. */
static u32 ca_template_ssthresh(struct sock *sk)
{
	struct ca_template *own = inet_csk_ca(sk);

	own->losses++;
	return max(tcp_snd_cwnd(tcp_sk(sk)) / 2, 2U);
}

/* After an acknowledgement of `acked` packets: increase the window. */
static void ca_template_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	/* Add one packet per acknowledged window. */
	tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);
}

static struct tcp_congestion_ops ca_template_ops __read_mostly = {
	.name		= "template",
	.owner		= THIS_MODULE,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.init		= ca_template_init,
	.ssthresh	= ca_template_ssthresh,
	.cong_avoid	= ca_template_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init ca_template_register(void)
{
	BUILD_BUG_ON(sizeof(struct ca_template) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&ca_template_ops);
}

module_init(ca_template_register);
MODULE_LICENSE("Dual MIT/GPL");

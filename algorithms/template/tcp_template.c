// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A skeleton for your own congestion control. It implements Reno. The kernel calls these functions for
 * every connection that uses it. In the kernel's source, include/net/tcp.h and include/linux/tcp.h
 * declare the fields and functions of a connection, and net/ipv4/tcp_*.c has other algorithms.
 */

#include <linux/module.h>
#include <net/tcp.h>

/* State of a connection; at most ICSK_CA_PRIV_SIZE bytes: 256 in losslab's kernels, 104 in Linux. */
struct template_cc {
	u32 losses;
};

static void template_cc_init(struct sock *sk)
{
	struct template_cc *own = inet_csk_ca(sk);

	own->losses = 0;
}

/* After a loss: return the new window in packets. */
static u32 template_cc_ssthresh(struct sock *sk)
{
	struct template_cc *own = inet_csk_ca(sk);

	own->losses++;
	return max(tcp_snd_cwnd(tcp_sk(sk)) / 2, 2U);
}

/* After an acknowledgement of `acked` packets: increase the window. */
static void template_cc_cong_avoid(struct sock *sk, u32 ack, u32 acked)
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

static struct tcp_congestion_ops template_cc_ops __read_mostly = {
	.name		= "template",
	.owner		= THIS_MODULE,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.init		= template_cc_init,
	.ssthresh	= template_cc_ssthresh,
	.cong_avoid	= template_cc_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init template_cc_register(void)
{
	BUILD_BUG_ON(sizeof(struct template_cc) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&template_cc_ops);
}

module_init(template_cc_register);
MODULE_LICENSE("Dual MIT/GPL");

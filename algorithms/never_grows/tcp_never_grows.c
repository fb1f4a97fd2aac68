// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Bad on purpose: the window stays what it is at the start. A criterion of `losslab score` is there
 * for it: wired (RFC 9743, 6.3).
 */

#include <linux/module.h>
#include <net/tcp.h>

static u32 never_grows_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)), 2U);
}

static void never_grows_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
}

static struct tcp_congestion_ops never_grows __read_mostly = {
	.name		= "never_grows",
	.owner		= THIS_MODULE,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.ssthresh	= never_grows_ssthresh,
	.cong_avoid	= never_grows_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init never_grows_register(void)
{
	return tcp_register_congestion_control(&never_grows);
}

module_init(never_grows_register);
MODULE_LICENSE("Dual MIT/GPL");

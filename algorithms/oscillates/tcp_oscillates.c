// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Bad on purpose: Reno for one and a half seconds, a window of two packets for as long, and again. A
 * criterion of `losslab score` is there for it: steady (RFC 9743, 6.3; RFC 5166).
 */

#include <linux/module.h>
#include <net/tcp.h>

#define HALF_PERIOD_MS	1500
#define LEAST_PACKETS	2

static void oscillates_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	if ((jiffies_to_msecs(tcp_jiffies32) / HALF_PERIOD_MS) % 2)
		tcp_snd_cwnd_set(tcp_sk(sk), LEAST_PACKETS);
	else
		tcp_reno_cong_avoid(sk, ack, acked);
}

static struct tcp_congestion_ops oscillates __read_mostly = {
	.name		= "oscillates",
	.owner		= THIS_MODULE,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= oscillates_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init oscillates_register(void)
{
	return tcp_register_congestion_control(&oscillates);
}

module_init(oscillates_register);
MODULE_LICENSE("Dual MIT/GPL");

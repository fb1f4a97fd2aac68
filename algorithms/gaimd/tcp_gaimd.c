// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * General AIMD: the window grows by ALPHA packets per round trip and shrinks to BETA of itself after a
 * loss. With 1 and 1/2 it would be Reno; here they are 1 and 7/8, the constants of DECbit (Ramakrishnan
 * and Jain, ACM TOCS 8(2), 1990). Under random loss p its window is on average
 * sqrt(ALPHA (1 + BETA) / (2 (1 - BETA) p)) packets (Yang and Lam, General AIMD congestion control,
 * ICNP 2000; without timeouts).
 */

#include <linux/module.h>
#include <net/tcp.h>

#define ALPHA		1
#define BETA_EIGHTHS	7

/* Rounded: downwards would cost half a packet of every eight. */
static u32 gaimd_ssthresh(struct sock *sk)
{
	return max((tcp_snd_cwnd(tcp_sk(sk)) * BETA_EIGHTHS + 4) / 8, 2U);
}

static void gaimd_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, max(tcp_snd_cwnd(tp) / ALPHA, 1U), acked);
}

static struct tcp_congestion_ops gaimd __read_mostly = {
	.name		= "gaimd",
	.owner		= THIS_MODULE,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.ssthresh	= gaimd_ssthresh,
	.cong_avoid	= gaimd_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init gaimd_register(void)
{
	return tcp_register_congestion_control(&gaimd);
}

module_init(gaimd_register);
MODULE_LICENSE("Dual MIT/GPL");

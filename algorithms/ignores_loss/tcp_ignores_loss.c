// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Bad on purpose: the window grows by what is acknowledged and never shrinks, whatever is lost. A
 * criterion of `losslab score` is there for it: backs-off (RFC 9743, 5.1.1).
 */

#include <linux/module.h>
#include <net/tcp.h>

/* More than any path of the suite holds with its buffer. */
#define MOST_PACKETS	1000

static u32 ignores_loss_ssthresh(struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

static u32 ignores_loss_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

static void ignores_loss_init(struct sock *sk)
{
	u32 *window = inet_csk_ca(sk);

	*window = tcp_snd_cwnd(tcp_sk(sk));
}

/* In place of all that the kernel does about windows: its own account of what it may send. */
static void ignores_loss_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	u32 *window = inet_csk_ca(sk);

	*window = min_t(u32, *window + max(rs->acked_sacked, 0), MOST_PACKETS);
	tcp_snd_cwnd_set(tcp_sk(sk), *window);
}

static struct tcp_congestion_ops ignores_loss __read_mostly = {
	.name		= "ignores_loss",
	.owner		= THIS_MODULE,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.init		= ignores_loss_init,
	.ssthresh	= ignores_loss_ssthresh,
	.cong_control	= ignores_loss_control,
	.undo_cwnd	= ignores_loss_undo_cwnd,
};

static int __init ignores_loss_register(void)
{
	return tcp_register_congestion_control(&ignores_loss);
}

module_init(ignores_loss_register);
MODULE_LICENSE("Dual MIT/GPL");

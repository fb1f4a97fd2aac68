/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _NET_TCP_RECORD_H
#define _NET_TCP_RECORD_H

#include <net/tcp.h>

enum {
	TCP_RECORD_ACK = 1,
	TCP_RECORD_CA_STATE,
	TCP_RECORD_UNDO,
	TCP_RECORD_TX_START,
};

/* Namespace whose events are recorded; NULL: none. */
extern struct net *tcp_record_net;

void __tcp_record_event(const struct sock *sk, u8 event,
			const struct rate_sample *rs);

static inline void tcp_record_event(const struct sock *sk, u8 event,
				    const struct rate_sample *rs)
{
	if (unlikely(tcp_record_net && sock_net(sk) == tcp_record_net))
		__tcp_record_event(sk, event, rs);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A queue is larger than the caches: fetch what its next two packets need before they leave.
 */
#include <linux/prefetch.h>
#include <linux/skbuff.h>
#include <net/sch_generic.h>

static inline void prefetch_packets(struct sk_buff *next)
{
	struct sk_buff *after;

	if (!next)
		return;
	prefetchw(skb_shinfo(next));
	prefetchw(next->data);
	after = next->next;
	if (after) {
		prefetchw(after);
		prefetchw((char *) after + 64);
		prefetchw((char *) after + 128);
		prefetchw((char *) after + 192);
	}
}

static inline struct sk_buff *dequeue_head_and_prefetch(struct Qdisc *sch)
{
	struct sk_buff *skb = qdisc_dequeue_head(sch);

	prefetch_packets(sch->q.head);
	return skb;
}

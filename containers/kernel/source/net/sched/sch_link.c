// SPDX-License-Identifier: GPL-2.0
/*
 * link: a wire that sends one packet at a time.
 *
 * Each packet takes its bytes over the link's rate, the first after a pause too.
 * A token bucket sends what fits into its bucket in no time, so everything that
 * is short or starts after a pause is too fast there. The queue is a child qdisc
 * of any kind. A packet that is being sent is still in the child, and counts in
 * the child's limit, as below tbf; with a trace, it is not, as in mahimahi.
 *
 * Times are exact even if timers are late: before each arrival and departure, the
 * link first does what was due until then. If a packet ends at T and another one
 * waits, this one begins at T. The fraction of a nanosecond that a packet takes
 * is carried to the next one.
 *
 * The link carries packets and no aggregates: it cuts these before they enter the
 * queue, as a network card does before the wire. Segments then have their headers
 * and take their own times, and a queue's limit in packets is one of packets. An
 * aggregate that is sent as a whole would arrive as a burst at infinite speed.
 *
 * What it sends when is one of
 *
 *	steps	a list of times and rates. A rate of 0 is a pause: the packet that
 *		is being sent stops, and goes on after it. LINK_LOSES drops the
 *		packets whose last bit is sent during the step.
 *	trace	a list of opportunities to send 1500 bytes, in ms, which repeats.
 *		A packet that does not fit goes on at the next opportunity; what
 *		is left of an opportunity when the queue is empty is lost. A packet
 *		counts from its network header on. (Rules of mahimahi's mm-link.)
 *
 * tc creates a link; /proc/link sets it and reads it back. Written in one piece:
 *
 *	DEVICE HANDLE BEGIN steps RECORD	and lines AT RATE FLAGS, or
 *	DEVICE HANDLE BEGIN trace RECORD	and lines AT
 *
 * BEGIN is the time of the list's 0 in ns of CLOCK_MONOTONIC; until then, steps
 * have the first rate. AT is in ns in steps and in ms in a trace, RATE is in bit/s.
 * With a RECORD of 1, the link records each packet. A line of DEVICE and HANDLE
 * only selects the link that this open file then reads: BEGIN, the kind and
 * RECORD, and the list, with the packets, bytes and losses of each step. With
 * the word record after HANDLE, it reads the record, in ns since BEGIN:
 *
 *	AT + BYTES			a packet arrived,
 *	AT - BYTES BEGAN ARRIVED	its last bit was sent,
 *	AT x BYTES BEGAN ARRIVED	likewise, and it was lost,
 *	AT d BYTES PACKETS		the child dropped packets.
 *
 * A file and no netlink attribute: a list may be longer than a message in which
 * qdiscs are dumped.
 */
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <linux/skbuff.h>
#include <linux/version.h>
#include <net/gso.h>
#include <net/pkt_sched.h>

#define OPPORTUNITY_BYTES	1500
#define NEVER			S64_MAX
#define LINK_UNLIMITED		U64_MAX	/* a rate: packets take no time */
#define LINK_LOSES		1	/* a flag: packets are sent, and then lost */
#define WRITE_MAX		(64 << 20)

struct link_step {
	s64 at_ns;
	u64 rate;			/* bit/s */
	u32 flags;
	u64 packets, bytes, lost;	/* that ended in this step */
};

struct link_event {
	s64 at, began, arrived;		/* ns of CLOCK_MONOTONIC */
	u32 bytes;
	u16 packets;
	char kind;
};

#define EVENTS		(SZ_16K / sizeof(struct link_event))
#define BLOCKS_MAX	(1 << 15)

struct link_sched_data {
	struct Qdisc *qdisc;
	struct qdisc_watchdog watchdog;
	struct qdisc_skb_head sent;	/* until the parent takes them */

	bool sending;
	struct sk_buff *taken;	/* what is sent, if it is not in the child any more */
	s64 due;	/* a packet's end, or the opportunity that it waits for */
	s64 began;
	u64 carry;	/* bits * 1e9 for which the last ns had no time left */

	s64 begin;			/* of the list */
	u32 count;
	struct link_step *steps;
	u32 step;
	u32 *trace;
	u32 next, room;			/* next opportunity, bytes left of the last one */
	u64 round_ms;			/* of the trace's 0, in this round */

	struct link_event **blocks;	/* NULL: no record */
	u32 events;
	bool full;
};

static void link_record(struct link_sched_data *q, struct link_event event)
{
	u32 block = q->events / EVENTS;

	if (!q->blocks || q->full)
		return;
	if (q->events % EVENTS == 0) {
		q->blocks[block] = block < BLOCKS_MAX ?
			kmalloc(SZ_16K, GFP_ATOMIC | __GFP_NOWARN) : NULL;
		if (!q->blocks[block]) {
			q->full = true;
			return;
		}
	}
	q->blocks[block][q->events++ % EVENTS] = event;
}

static void link_free_record(struct link_event **blocks, u32 events)
{
	u32 block;

	for (block = 0; blocks && block < DIV_ROUND_UP(events, EVENTS); block++)
		kfree(blocks[block]);
	kvfree(blocks);
}

/* Record what the child dropped; it had so many packets and bytes before. */
static void link_record_drops(struct link_sched_data *q, s64 now, u32 packets, u32 bytes)
{
	packets -= q->qdisc->q.qlen;
	if (q->blocks && packets)
		link_record(q, (struct link_event) {
			.at = now, .kind = 'd', .packets = packets,
			.bytes = bytes - q->qdisc->qstats.backlog,
		});
}

static s64 link_step_at(const struct link_sched_data *q, u32 number)
{
	return number < q->count ? q->begin + q->steps[number].at_ns : NEVER;
}

/* Return when a packet ends whose first bit is sent now. */
static s64 link_end_by_steps(struct link_sched_data *q, s64 now, u32 bytes)
{
	u64 need = bytes * 8ULL * NSEC_PER_SEC + q->carry;
	s64 next;

	while ((next = link_step_at(q, q->step + 1)) <= now)
		q->step++;
	for (;;) {
		u64 rate = q->steps[q->step].rate, ns;

		if (rate == LINK_UNLIMITED)
			return now;
		if (rate) {
			ns = div64_u64_rem(need, rate, &q->carry);
			if (ns <= next - now)
				return now + ns;
			need -= (next - now) * rate;
		}
		now = next;
		next = link_step_at(q, ++q->step + 1);
	}
}

static s64 link_opportunity(const struct link_sched_data *q)
{
	return q->begin + (q->round_ms + q->trace[q->next]) * NSEC_PER_MSEC;
}

static void link_use_opportunity(struct link_sched_data *q)
{
	q->room = OPPORTUNITY_BYTES;
	if (++q->next == q->count) {
		q->round_ms += q->trace[q->count - 1];
		q->next = 0;
	}
}

static s64 link_end_by_trace(struct link_sched_data *q, s64 now, u32 bytes)
{
	while (bytes > q->room) {
		bytes -= q->room;
		now = link_opportunity(q);
		link_use_opportunity(q);
	}
	q->room -= bytes;
	return now;
}

/* Begin to send the next packet; after an idle time, nothing of the past is left. */
static void link_begin(struct link_sched_data *q, s64 now, bool idle)
{
	u32 packets = q->qdisc->q.qlen, bytes = q->qdisc->qstats.backlog;
	struct sk_buff *skb = NULL;

	q->sending = false;
	q->due = NEVER;
	if (!q->count)
		return;
	if (idle) {
		q->carry = 0;
		q->room = 0;
	}
	/* A packet leaves the queue when it is sent, so a queue decides as late as it can. */
	if (q->steps) {
		skb = qdisc_peek_dequeued(q->qdisc);
		link_record_drops(q, now, packets, bytes);
	} else if (q->room) {
		skb = qdisc_dequeue_peeked(q->qdisc);
		q->taken = skb;
		link_record_drops(q, now, packets - !!skb, skb ? bytes - qdisc_pkt_len(skb) : bytes);
	}
	if (skb) {
		q->sending = true;
		q->began = now;
		bytes = qdisc_pkt_len(skb);
		q->due = q->steps ? link_end_by_steps(q, now, bytes) :
			link_end_by_trace(q, now, bytes - skb_network_offset(skb));
		return;
	}
	q->room = 0;
	if (q->trace && q->qdisc->q.qlen) {
		while (idle && link_opportunity(q) <= now)
			link_use_opportunity(q);
		q->room = 0;
		q->due = link_opportunity(q);
	}
}

static void link_end(struct Qdisc *sch)
{
	struct link_sched_data *q = qdisc_priv(sch);
	struct link_step *step = q->steps ? q->steps + q->step : NULL;
	bool lost = step && step->flags & LINK_LOSES;
	struct sk_buff *skb = q->taken ?: qdisc_dequeue_peeked(q->qdisc);
	u32 bytes;

	q->taken = NULL;
	if (!skb)	/* somebody emptied the child */
		return;
	bytes = qdisc_pkt_len(skb);
	if (q->blocks) {
		link_record(q, (struct link_event) {
			.at = q->due, .kind = lost ? 'x' : '-', .bytes = bytes,
			.began = q->began, .arrived = ktime_to_ns(skb->tstamp),
		});
		skb->tstamp = 0;
	}
	if (step) {
		step->packets++;
		step->bytes += bytes;
		step->lost += lost;
	}
	if (!lost) {
		__qdisc_enqueue_tail(skb, &q->sent);
		return;
	}
	/* It was sent, and no queue dropped it: only the qdiscs above lack it. */
	qdisc_bstats_update(sch, skb);
	qdisc_qstats_backlog_dec(sch, skb);
	sch->q.qlen--;
	qdisc_tree_reduce_backlog(sch, 1, bytes);
	kfree_skb(skb);
}

/* Do what was due until now. */
static void link_advance(struct Qdisc *sch, s64 now)
{
	struct link_sched_data *q = qdisc_priv(sch);

	while (q->due <= now && q->due != NEVER) {
		if (q->sending)
			link_end(sch);
		else
			link_use_opportunity(q);
		link_begin(q, q->due, false);
	}
}

static int link_enqueue_one(struct sk_buff *skb, struct Qdisc *sch, s64 now,
			    struct sk_buff **to_free)
{
	struct link_sched_data *q = qdisc_priv(sch);
	u32 packets = q->qdisc->q.qlen, backlog = q->qdisc->qstats.backlog;
	u32 bytes = qdisc_pkt_len(skb);
	int ret;

	if (q->blocks) {
		skb->tstamp = ns_to_ktime(now);
		link_record(q, (struct link_event) { .at = now, .kind = '+', .bytes = bytes });
	}
	ret = qdisc_enqueue(skb, q->qdisc, to_free);
	link_record_drops(q, now, packets + 1, backlog + bytes);
	if (ret != NET_XMIT_SUCCESS) {
		if (net_xmit_drop_count(ret))
			qdisc_qstats_drop(sch);
		return ret;
	}
	sch->qstats.backlog += bytes;
	sch->q.qlen++;
	if (q->due == NEVER && !q->sending)
		link_begin(q, now, true);
	return NET_XMIT_SUCCESS;
}

/* As tbf_segment(). */
static int link_enqueue_segments(struct sk_buff *skb, struct Qdisc *sch, s64 now,
				 struct sk_buff **to_free)
{
	netdev_features_t features = netif_skb_features(skb);
	u32 whole = qdisc_pkt_len(skb), bytes = 0;
	struct sk_buff *segs, *next;
	int packets = 0;

	segs = skb_gso_segment(skb, features & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segs))
		return qdisc_drop(skb, sch, to_free);
	skb_list_walk_safe(segs, segs, next) {
		u32 len = segs->len;

		skb_mark_not_on_list(segs);
		qdisc_skb_cb(segs)->pkt_len = len;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
		qdisc_skb_cb(segs)->pkt_segs = 1;
#endif
		if (link_enqueue_one(segs, sch, now, to_free) == NET_XMIT_SUCCESS) {
			packets++;
			bytes += len;
		}
	}
	if (!packets) {
		kfree_skb(skb);
		return NET_XMIT_DROP;
	}
	qdisc_tree_reduce_backlog(sch, 1 - packets, whole - bytes);
	consume_skb(skb);
	return NET_XMIT_SUCCESS;
}

static int link_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	s64 now = ktime_get_ns();

	link_advance(sch, now);
	if (skb_is_gso(skb))
		return link_enqueue_segments(skb, sch, now, to_free);
	return link_enqueue_one(skb, sch, now, to_free);
}

static struct sk_buff *link_dequeue(struct Qdisc *sch)
{
	struct link_sched_data *q = qdisc_priv(sch);
	s64 now = ktime_get_ns();
	struct sk_buff *skb;

	link_advance(sch, now);
	if (q->due == NEVER && !q->sending) {	/* a child may have held packets back */
		link_begin(q, now, true);
		link_advance(sch, now);
	}
	skb = __qdisc_dequeue_head(&q->sent);
	if (skb) {
		qdisc_qstats_backlog_dec(sch, skb);
		sch->q.qlen--;
		qdisc_bstats_update(sch, skb);
	} else if (q->due != NEVER) {
		qdisc_watchdog_schedule_ns(&q->watchdog, q->due);
	}
	return skb;
}

static void link_reset(struct Qdisc *sch)
{
	struct link_sched_data *q = qdisc_priv(sch);

	qdisc_reset(q->qdisc);
	q->sending = false;
	q->due = NEVER;
	if (q->taken)
		rtnl_kfree_skbs(q->taken, q->taken);
	q->taken = NULL;
	if (q->sent.head)
		rtnl_kfree_skbs(q->sent.head, q->sent.tail);
	q->sent = (struct qdisc_skb_head) {};
	qdisc_watchdog_cancel(&q->watchdog);
}

static int link_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct link_sched_data *q = qdisc_priv(sch);
	struct Qdisc *child;

	qdisc_watchdog_init(&q->watchdog, sch);
	q->due = NEVER;
	q->qdisc = &noop_qdisc;
	child = fifo_create_dflt(sch, &pfifo_qdisc_ops, qdisc_dev(sch)->tx_queue_len ?: 1, extack);
	if (IS_ERR(child))
		return PTR_ERR(child);
	q->qdisc = child;
	qdisc_hash_add(child, true);
	return 0;
}

static void link_destroy(struct Qdisc *sch)
{
	struct link_sched_data *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	qdisc_put(q->qdisc);
	kvfree(q->steps);
	kvfree(q->trace);
	link_free_record(q->blocks, q->events);
}

static int link_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	return skb->len;
}

static int link_dump_class(struct Qdisc *sch, unsigned long cl, struct sk_buff *skb,
			   struct tcmsg *tcm)
{
	struct link_sched_data *q = qdisc_priv(sch);

	tcm->tcm_handle |= TC_H_MIN(1);
	tcm->tcm_info = q->qdisc->handle;
	return 0;
}

static int link_graft(struct Qdisc *sch, unsigned long arg, struct Qdisc *new,
		      struct Qdisc **old, struct netlink_ext_ack *extack)
{
	struct link_sched_data *q = qdisc_priv(sch);

	*old = qdisc_replace(sch, new ?: &noop_qdisc, &q->qdisc);
	if (!q->taken) {	/* what was sent went with the old child */
		q->sending = false;
		q->due = NEVER;
	}
	return 0;
}

static struct Qdisc *link_leaf(struct Qdisc *sch, unsigned long arg)
{
	struct link_sched_data *q = qdisc_priv(sch);

	return q->qdisc;
}

static unsigned long link_find(struct Qdisc *sch, u32 classid)
{
	return 1;
}

static void link_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	if (!walker->stop)
		tc_qdisc_stats_dump(sch, 1, walker);
}

static const struct Qdisc_class_ops link_class_ops = {
	.graft	= link_graft,
	.leaf	= link_leaf,
	.find	= link_find,
	.walk	= link_walk,
	.dump	= link_dump_class,
};

static struct Qdisc_ops link_qdisc_ops __read_mostly = {
	.cl_ops		= &link_class_ops,
	.id		= "link",
	.priv_size	= sizeof(struct link_sched_data),
	.enqueue	= link_enqueue,
	.dequeue	= link_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= link_init,
	.reset		= link_reset,
	.destroy	= link_destroy,
	.dump		= link_dump,
	.owner		= THIS_MODULE,
};
MODULE_ALIAS_NET_SCH("link");

/* What an open file selects. */
struct link_file {
	char name[IFNAMSIZ];
	u32 handle;
	bool record;
};

static struct Qdisc *link_of(const struct link_file *file)
{
	struct net_device *dev = __dev_get_by_name(current->nsproxy->net_ns, file->name);
	struct Qdisc *sch = dev ? qdisc_lookup(dev, file->handle) : NULL;

	return sch && sch->ops == &link_qdisc_ops ? sch : NULL;
}

/* Parse the numbers of a line; they must be exactly this many. */
static bool link_numbers(char *line, u64 *numbers, u32 count)
{
	char *word;

	while ((word = strsep(&line, " ")))
		if (!count-- || kstrtou64(word, 10, numbers++))
			return false;
	return !count;
}

/*
 * Parse a list of `count` lines. Times ascend, and those of steps differ. A pause
 * has an end, and a trace takes time: otherwise the link would send nothing, or
 * everything at once, for ever.
 */
static int link_parse(char *text, u32 count, struct link_step *steps, u32 *trace)
{
	u64 numbers[3], last = 0;
	u32 i;

	for (i = 0; i < count; i++) {
		if (!link_numbers(strsep(&text, "\n"), numbers, steps ? 3 : 1) ||
		    numbers[0] < last || numbers[0] > (steps ? S64_MAX / 4 : S32_MAX))
			return -EINVAL;
		if (steps && ((i ? numbers[0] == last : numbers[0] > 0) ||
			      numbers[2] & ~(u64)LINK_LOSES))
			return -EINVAL;
		last = numbers[0];
		if (steps)
			steps[i] = (struct link_step) {
				.at_ns = last, .rate = numbers[1], .flags = numbers[2],
			};
		else
			trace[i] = last;
	}
	return !count || (text && *text) || (steps ? !steps[count - 1].rate : !last) ? -EINVAL : 0;
}

static int link_set(const struct link_file *file, s64 begin, bool by_trace, bool record,
		    char *text)
{
	struct link_event **blocks = NULL;
	struct link_sched_data *q;
	struct link_step *steps = NULL;
	u32 *trace = NULL, count = 0, events = 0;
	struct Qdisc *sch;
	char *at;
	int err = -ENOMEM;

	for (at = text; *at; at++)
		count += *at == '\n';
	if (by_trace)
		trace = kvcalloc(count, sizeof(*trace), GFP_KERNEL);
	else
		steps = kvcalloc(count, sizeof(*steps), GFP_KERNEL);
	if (record)
		blocks = kvcalloc(BLOCKS_MAX + 1, sizeof(*blocks), GFP_KERNEL);
	if ((!trace && !steps) || (record && !blocks))
		goto out;
	err = link_parse(text, count, steps, trace);
	if (err)
		goto out;
	rtnl_lock();
	sch = link_of(file);
	if (sch) {
		q = qdisc_priv(sch);
		sch_tree_lock(sch);
		link_advance(sch, ktime_get_ns());
		swap(q->steps, steps);
		swap(q->trace, trace);
		swap(q->blocks, blocks);
		events = q->events;
		q->events = 0;
		q->full = false;
		q->begin = begin;
		q->count = count;
		q->step = 0;
		q->next = 0;
		q->room = 0;
		q->round_ms = 0;
		/* A packet that is being sent ends as it began. */
		if (!q->sending || q->due == NEVER)
			link_begin(q, ktime_get_ns(), true);
		if (q->due != NEVER)
			qdisc_watchdog_schedule_ns(&q->watchdog, q->due);
		sch_tree_unlock(sch);
	} else {
		err = -ENODEV;
	}
	rtnl_unlock();
out:
	kvfree(steps);
	kvfree(trace);
	link_free_record(blocks, events);
	return err;
}

static ssize_t link_write(struct file *opened, const char __user *buffer, size_t size,
			  loff_t *pos)
{
	struct link_file *file = ((struct seq_file *)opened->private_data)->private;
	char *text, *list, word[8] = {};
	int found, record, err = -EINVAL;
	s64 begin;

	if (size > WRITE_MAX)
		return -E2BIG;
	text = kvmalloc(size + 1, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	if (copy_from_user(text, buffer, size)) {
		kvfree(text);
		return -EFAULT;
	}
	text[size] = 0;
	list = text;
	strsep(&list, "\n");
	found = sscanf(text, "%15s %x: %lld %7s %d", file->name, &file->handle, &begin, word,
		       &record);
	file->handle <<= 16;
	file->record = false;
	if (found == 2) {
		found = sscanf(text, "%*s %*x: %7s", word);
		file->record = found == 1 && !strcmp(word, "record");
		err = found == 1 && !file->record ? -EINVAL : 0;
	} else if (found == 5 && list && (!strcmp(word, "steps") || !strcmp(word, "trace"))) {
		err = link_set(file, begin, *word == 't', record, list);
	}
	kvfree(text);
	return err ? err : size;
}

/* Entries of what is read: a line of settings and the list, or the record. */
static void *link_entry(struct seq_file *m, loff_t at)
{
	const struct link_file *file = m->private;
	struct Qdisc *sch = link_of(file);
	struct link_sched_data *q = sch ? qdisc_priv(sch) : NULL;

	if (!q)
		return ERR_PTR(-ENODEV);
	if (file->record && q->full && at == q->events)
		return ERR_PTR(-ENOSPC);
	return at < (file->record ? q->events : 1 + q->count) ? (void *)(at + 1) : NULL;
}

static void *link_start(struct seq_file *m, loff_t *pos)
{
	rtnl_lock();
	return link_entry(m, *pos);
}

static void *link_next(struct seq_file *m, void *v, loff_t *pos)
{
	return link_entry(m, ++*pos);
}

static void link_stop(struct seq_file *m, void *v)
{
	rtnl_unlock();
}

static void link_show_event(struct seq_file *m, const struct link_event *e, s64 begin)
{
	seq_printf(m, "%lld %c %u", e->at - begin, e->kind, e->bytes);
	if (e->kind == 'd')
		seq_printf(m, " %u", e->packets);
	else if (e->kind != '+')
		seq_printf(m, " %lld %lld", e->began - begin, e->arrived - begin);
	seq_putc(m, '\n');
}

static int link_show(struct seq_file *m, void *v)
{
	const struct link_file *file = m->private;
	struct link_sched_data *q = qdisc_priv(link_of(file));
	unsigned long at = (unsigned long)v - 1;

	if (file->record) {
		link_show_event(m, q->blocks[at / EVENTS] + at % EVENTS, q->begin);
	} else if (!at) {
		seq_printf(m, "%lld %s %d\n", q->begin, q->trace ? "trace" : "steps", !!q->blocks);
	} else if (q->trace) {
		seq_printf(m, "%u\n", q->trace[at - 1]);
	} else {
		const struct link_step *s = q->steps + at - 1;

		seq_printf(m, "%lld %llu %u %llu %llu %llu\n", s->at_ns, s->rate, s->flags,
			   s->packets, s->bytes, s->lost);
	}
	return 0;
}

static const struct seq_operations link_seq = {
	.start	= link_start,
	.next	= link_next,
	.stop	= link_stop,
	.show	= link_show,
};

static int link_open(struct inode *inode, struct file *file)
{
	return seq_open_private(file, &link_seq, sizeof(struct link_file));
}

static const struct proc_ops link_proc_ops = {
	.proc_open	= link_open,
	.proc_read	= seq_read,
	.proc_lseek	= seq_lseek,
	.proc_release	= seq_release_private,
	.proc_write	= link_write,
};

static int __init link_module_init(void)
{
	if (!proc_create("link", 0600, NULL, &link_proc_ops))
		return -ENOMEM;
	return register_qdisc(&link_qdisc_ops);
}
module_init(link_module_init);

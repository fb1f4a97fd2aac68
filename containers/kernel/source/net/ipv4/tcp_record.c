// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/net_record: what TCP and a queue do, kept in memory and read in bulk.
 *
 * Each open file keeps one record of the network namespace that opened it. Written:
 *
 *	tcp START INTERVAL		the connections that may have data to send, at
 *					START and each INTERVAL after it, in ns of
 *					CLOCK_MONOTONIC
 *	queue START INTERVAL DEVICE	the device's root qdisc, at the same times
 *	events				every event of the connections' congestion
 *					control, with its private state
 *
 * A read takes whole entries out of it, and so makes room for others; a full record
 * fails with ENOSPC once the entries before the loss are read. Samples are taken in a
 * soft interrupt, and events have the time that TCP has read already: neither reads the
 * clock from a task, which would take time in a guest that runs in virtual time.
 */
#include <linux/hrtimer.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <net/gen_stats.h>
#include <net/inet_connection_sock.h>
#include <net/inet_hashtables.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>
#include <net/tcp_record.h>

/* Layouts that losslab reads; fields as in struct tcp_info, unless said otherwise. */
struct tcp_sample {
	u64 ns;
	u64 pacing_rate;	/* bytes/s; ~0: not paced */
	u64 delivery_rate;	/* bytes/s */
	u64 bytes_acked;
	u64 bytes_sent;
	u64 bytes_retrans;
	u64 limited_us[3];	/* busy in all, by the receiver's window, by the send buffer */
	u32 cwnd, ssthresh, srtt_us, rttvar_us;
	u32 total_retrans, unacked, sacked, mss, notsent_bytes;
	u16 source_port;
	u8 state;
	u8 accurate_ecn;
	char algorithm[TCP_CA_NAME_MAX];
};

struct queue_sample {
	u64 ns;
	u64 sent_bytes;
	u32 packets, bytes, drops, pad;
};

struct tcp_event {
	u64 us;			/* tcp_mstamp */
	u64 pacing_rate;
	u32 cwnd, ssthresh, in_flight, prior_in_flight;
	u32 delivered, lost, srtt_us, app_limited_until;
	s32 rate_delivered, rate_losses, rate_rtt_us, rate_interval_us;
	s32 acked_sacked;
	u32 departs_us;		/* how far the next packet's departure lies ahead */
	u16 source_port;
	u8 event, ca_state, rate_app_limited, pad;
	u16 private_bytes;
	char algorithm[TCP_CA_NAME_MAX];
	u8 private[sizeof_field(struct inet_connection_sock, icsk_ca_priv)];
};

/* Entries of a record that are not read yet, in blocks of four pages: 32 MiB at most. */
#define BLOCKS_MAX	2048

struct block {
	struct list_head list;
	u32 begin, end;		/* of what is not read, in bytes */
	u8 data[(1 << 14) - sizeof(struct list_head) - 2 * sizeof(u32)];
};

struct record {
	struct list_head blocks;
	u32 count;
	bool full;
	struct net *net;
	bool timed;		/* by the timer */
	int ifindex;		/* 0: TCP */
	u64 interval;
	struct hrtimer timer;
};

struct net *tcp_record_net;
static struct record *events;

/* Return room for an entry, or NULL: all or nothing from the first that finds none. */
static void *room(struct record *r, size_t size)
{
	struct block *b = list_last_entry(&r->blocks, struct block, list);
	void *at;

	if (r->full)
		return NULL;
	if (list_empty(&r->blocks) || b->end + size > sizeof(b->data)) {
		b = r->count < BLOCKS_MAX ?
			kmalloc(sizeof(*b), GFP_ATOMIC | __GFP_NOWARN) : NULL;
		if (!b) {
			r->full = true;
			return NULL;
		}
		b->begin = b->end = 0;
		list_add_tail(&b->list, &r->blocks);
		r->count++;
	}
	at = b->data + b->end;
	b->end += size;
	memset(at, 0, size);
	return at;
}

static bool accurate_ecn(const struct tcp_sock *tp)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	return tcp_ecn_mode_accecn(tp);
#else
	return false;
#endif
}

/* As tcp_get_info() does, which would wait for a task that holds the socket. */
static void take_socket(struct record *r, const struct sock *sk, u64 now)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sample *s = room(r, sizeof(*s));
	const struct tcp_sock *tp = tcp_sk(sk);
	int i;

	if (!s)
		return;
	s->ns = now;
	s->pacing_rate = sk->sk_pacing_rate == ~0UL ? ~0ULL : sk->sk_pacing_rate;
	if (tp->rate_delivered && tp->rate_interval_us)
		s->delivery_rate = div_u64((u64)tp->rate_delivered * tp->mss_cache *
					   USEC_PER_SEC, tp->rate_interval_us);
	s->bytes_acked = tp->bytes_acked;
	s->bytes_sent = tp->bytes_sent;
	s->bytes_retrans = tp->bytes_retrans;
	for (i = TCP_CHRONO_BUSY; i < __TCP_CHRONO_MAX; i++) {
		u64 ticks = tp->chrono_stat[i - 1];

		if (i == tp->chrono_type)
			ticks += tcp_jiffies32 - tp->chrono_start;
		ticks *= USEC_PER_SEC / HZ;
		s->limited_us[0] += ticks;
		if (i != TCP_CHRONO_BUSY)
			s->limited_us[i - 1] = ticks;
	}
	s->cwnd = tcp_snd_cwnd(tp);
	s->ssthresh = tp->snd_ssthresh;
	s->srtt_us = tp->srtt_us >> 3;
	s->rttvar_us = tp->mdev_us >> 2;
	s->total_retrans = tp->total_retrans;
	s->unacked = tp->packets_out;
	s->sacked = tp->sacked_out;
	s->mss = tp->mss_cache;
	s->notsent_bytes = max_t(int, 0, tp->write_seq - tp->snd_nxt);
	s->source_port = ntohs(inet_sk(sk)->inet_sport);
	s->state = sk->sk_state;
	s->accurate_ecn = accurate_ecn(tp);
	if (icsk->icsk_ca_ops)
		memcpy(s->algorithm, icsk->icsk_ca_ops->name, TCP_CA_NAME_MAX);
}

/*
 * A server closes a connection right after its last write: in the latter two states,
 * TCP still sends the bytes in the socket's buffer.
 */
#define SENDING	(TCPF_ESTABLISHED | TCPF_FIN_WAIT1 | TCPF_CLOSING)

static void take_sockets(struct record *r, u64 now)
{
	struct inet_hashinfo *h = r->net->ipv4.tcp_death_row.hashinfo;
	struct hlist_nulls_node *node;
	struct sock *sk;
	u32 slot;

	for (slot = 0; slot <= h->ehash_mask; slot++)
		sk_nulls_for_each_rcu(sk, node, &h->ehash[slot].chain)
			if (net_eq(sock_net(sk), r->net) &&
			    sk->sk_family == AF_INET &&
			    1 << sk->sk_state & SENDING)
				take_socket(r, sk, now);
}

/* As tc_fill_qdisc() does. */
static void take_queue(struct record *r, u64 now)
{
	struct net_device *dev = dev_get_by_index_rcu(r->net, r->ifindex);
	struct Qdisc *q = dev ? rcu_dereference(dev->qdisc) : NULL;
	struct gnet_stats_basic_sync sent;
	struct gnet_stats_queue queue = {};
	struct queue_sample *s;

	if (!q)
		return;
	s = room(r, sizeof(*s));
	if (!s)
		return;
	gnet_stats_basic_sync_init(&sent);
	gnet_stats_add_basic(&sent, q->cpu_bstats, &q->bstats, false);
	gnet_stats_add_queue(&queue, q->cpu_qstats, &q->qstats);
	s->ns = now;
	s->sent_bytes = u64_stats_read(&sent.bytes);
	s->packets = qdisc_qlen_sum(q);
	s->bytes = queue.backlog;
	s->drops = queue.drops;
}

static enum hrtimer_restart take(struct hrtimer *timer)
{
	struct record *r = container_of(timer, struct record, timer);
	u64 now = ktime_get_ns();

	rcu_read_lock();
	if (r->ifindex)
		take_queue(r, now);
	else
		take_sockets(r, now);
	rcu_read_unlock();
	hrtimer_add_expires_ns(timer, r->interval);
	return HRTIMER_RESTART;
}

void __tcp_record_event(const struct sock *sk, u8 event,
			const struct rate_sample *rs)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct tcp_event *e;

	if (!icsk->icsk_ca_ops)
		return;
	e = room(events, sizeof(*e));
	if (!e)
		return;
	e->us = tp->tcp_mstamp;
	e->pacing_rate = sk->sk_pacing_rate;
	e->cwnd = tcp_snd_cwnd(tp);
	e->ssthresh = tp->snd_ssthresh;
	e->in_flight = tcp_packets_in_flight(tp);
	e->delivered = tp->delivered;
	e->lost = tp->lost;
	e->srtt_us = tp->srtt_us >> 3;
	e->app_limited_until = tp->app_limited;
	if (rs) {
		e->prior_in_flight = rs->prior_in_flight;
		e->rate_delivered = rs->delivered;
		e->rate_losses = rs->losses;
		e->rate_rtt_us = rs->rtt_us;
		e->rate_interval_us = rs->interval_us;
		e->acked_sacked = rs->acked_sacked;
		e->rate_app_limited = rs->is_app_limited;
	}
	if (tp->tcp_wstamp_ns > tp->tcp_clock_cache)
		e->departs_us = div_u64(tp->tcp_wstamp_ns - tp->tcp_clock_cache,
					NSEC_PER_USEC);
	e->source_port = ntohs(inet_sk(sk)->inet_sport);
	e->event = event;
	e->ca_state = icsk->icsk_ca_state;
	e->private_bytes = sizeof(e->private);
	memcpy(e->algorithm, icsk->icsk_ca_ops->name, TCP_CA_NAME_MAX);
	memcpy(e->private, icsk->icsk_ca_priv, sizeof(e->private));
}

static void start_timer(struct record *r, u64 start)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&r->timer, take, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
#else
	hrtimer_init(&r->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	r->timer.function = take;
#endif
	hrtimer_start(&r->timer, ns_to_ktime(start), HRTIMER_MODE_ABS_SOFT);
}

static int record_open(struct inode *inode, struct file *file)
{
	struct record *r = kzalloc(sizeof(*r), GFP_KERNEL);

	if (!r)
		return -ENOMEM;
	INIT_LIST_HEAD(&r->blocks);
	r->net = get_net(current->nsproxy->net_ns);
	file->private_data = r;
	return 0;
}

static ssize_t record_write(struct file *file, const char __user *buffer,
			    size_t count, loff_t *pos)
{
	struct record *r = file->private_data;
	char text[80] = {}, name[IFNAMSIZ];
	struct net_device *dev;
	u64 start;

	if (r->timed || r == events)
		return -EBUSY;
	if (copy_from_user(text, buffer, min(count, sizeof(text) - 1)))
		return -EFAULT;
	if (!strcmp(text, "events")) {
		if (events)
			return -EBUSY;
		events = r;
		tcp_record_net = r->net;
		return count;
	}
	if (sscanf(text, "queue %llu %llu %15s", &start, &r->interval, name) == 3) {
		rcu_read_lock();
		dev = dev_get_by_name_rcu(r->net, name);
		r->ifindex = dev ? dev->ifindex : 0;
		rcu_read_unlock();
		if (!dev)
			return -ENODEV;
	} else if (sscanf(text, "tcp %llu %llu", &start, &r->interval) != 2) {
		return -EINVAL;
	}
	if (!r->interval)
		return -EINVAL;
	r->timed = true;
	start_timer(r, start);
	return count;
}

static ssize_t record_read(struct file *file, char __user *buffer, size_t count,
			   loff_t *pos)
{
	struct record *r = file->private_data;
	struct block *b;
	size_t done = 0;
	u32 size;

	while ((b = list_first_entry_or_null(&r->blocks, struct block, list))) {
		size = b->end - b->begin;
		if (!size || done + size > count)
			break;
		if (copy_to_user(buffer + done, b->data + b->begin, size))
			return -EFAULT;
		done += size;
		/* Entries that came meanwhile, in a soft interrupt, stay. */
		local_bh_disable();
		b->begin += size;
		if (b->begin == b->end) {
			list_del(&b->list);
			r->count--;
		} else {
			b = NULL;
		}
		local_bh_enable();
		kfree(b);
	}
	if (!done && b && b->end > b->begin)
		return -EINVAL;	/* too short for a block */
	return done || !r->full ? done : -ENOSPC;
}

static int record_release(struct inode *inode, struct file *file)
{
	struct record *r = file->private_data;
	struct block *b, *next;

	if (events == r) {
		tcp_record_net = NULL;
		events = NULL;
	}
	if (r->timed)
		hrtimer_cancel(&r->timer);
	list_for_each_entry_safe(b, next, &r->blocks, list)
		kfree(b);
	put_net(r->net);
	kfree(r);
	return 0;
}

static const struct proc_ops record_ops = {
	.proc_open	=	record_open,
	.proc_read	=	record_read,
	.proc_write	=	record_write,
	.proc_release	=	record_release,
};

static int __init record_init(void)
{
	return proc_create("net_record", 0600, NULL, &record_ops) ? 0 : -ENOMEM;
}
late_initcall(record_init);

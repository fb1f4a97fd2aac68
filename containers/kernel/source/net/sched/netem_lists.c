// SPDX-License-Identifier: GPL-2.0
/* Included by sch_netem.c, whose structures and loss model it uses. */

/* Return a list's entry for a packet; 0 without one. */
static u32 listed(const struct netem_list *list, u32 number)
{
	u32 low = 0, high = list->count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;
		u32 found = list->number[middle] & NETEM_NUMBER;

		if (found == number)
			return list->number[middle];
		if (found < number)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

/* The loss model draws always, so that what else is drawn does not depend on this. */
static bool is_lost(struct netem_sched_data *q)
{
	bool lost = loss_event(q);
	u32 entry;

	q->arrived++;
	if (unlikely(q->drawn_apart))
		lost = q->apart_loss &&
			q->apart_loss >= prandom_u32_state(&q->apart);
	if (likely(!q->list))
		return lost;
	entry = listed(q->list, q->arrived);
	if (entry)
		return !(entry & NETEM_SPARED);
	return !q->list->only && lost;
}

static void note_dropped(struct netem_sched_data *q, u32 bytes)
{
	if (q->drops_count == q->drops_room) {
		u32 room = max(64U, 2 * q->drops_room);
		struct netem_dropped *more;

		more = krealloc_array(q->drops, room, sizeof(*more),
				      GFP_ATOMIC | __GFP_NOWARN);
		if (!more)
			return;
		q->drops = more;
		q->drops_room = room;
	}
	q->drops[q->drops_count++] = (struct netem_dropped) {
		.number = q->arrived,
		.bytes = bytes,
		.ns = ktime_get_ns(),
	};
}

/* Return the netem of a device in any namespace, if it is the device's root. */
static struct Qdisc *netem_of(const struct net_device *dev)
{
	struct Qdisc *sch = rcu_dereference(dev->qdisc);

	return sch && sch->ops == &netem_qdisc_ops ? sch : NULL;
}

static struct Qdisc *netem_named(const char *name)
{
	struct net_device *dev;
	struct net *net;

	for_each_net_rcu(net) {
		dev = dev_get_by_name_rcu(net, name);
		if (dev && netem_of(dev))
			return netem_of(dev);
	}
	return NULL;
}

/* Parse `N N N`, ascending, or NULL; changes the text. */
static struct netem_list *parse_list(char *text, bool only)
{
	struct netem_list *list;
	u32 number, last = 0;
	char *word;

	/* A number has a digit and a blank at least. */
	list = kvzalloc(struct_size(list, number,
				    text ? strlen(text) / 2 + 1 : 0),
			GFP_ATOMIC);
	if (!list)
		return ERR_PTR(-ENOMEM);
	list->only = only;
	while ((word = strsep(&text, " "))) {
		if (!*word)
			continue;
		if (kstrtou32(word, 10, &number) || number <= last ||
		    number & NETEM_SPARED) {
			kvfree(list);
			return ERR_PTR(-EINVAL);
		}
		list->count++;
		list->number[list->count - 1] = last = number;
	}
	return list;
}

/* Add packets that are dropped, or spared, to a list, which may be NULL. */
static struct netem_list *merge_lists(const struct netem_list *old,
				      const struct netem_list *more, u32 flag)
{
	u32 i = 0, j = 0, olds = old ? old->count : 0;
	struct netem_list *list;

	list = kvzalloc(struct_size(list, number, olds + more->count),
			GFP_ATOMIC);
	if (!list)
		return ERR_PTR(-ENOMEM);
	list->only = old && old->only;
	while (i < olds || j < more->count) {
		u32 a = i < olds ? old->number[i] & NETEM_NUMBER : U32_MAX;
		u32 b = j < more->count ? more->number[j] : U32_MAX;

		list->count++;
		list->number[list->count - 1] = b <= a ? b | flag : old->number[i];
		i += a <= b;
		j += b <= a;
	}
	return list;
}

/* Do `KIND ARGUMENTS` on a netem; changes the text. */
static int order_netem(struct Qdisc *sch, const char *kind, char *text)
{
	struct netem_sched_data *q = qdisc_priv(sch);
	struct netem_list *list, *more;
	char *loss = text;
	u64 seed;

	if (!strcmp(kind, "draw")) {
		text = strsep(&loss, " ");
		if (!loss || kstrtou64(text, 10, &seed) ||
		    kstrtou32(loss, 10, &q->apart_loss))
			return -EINVAL;
		prandom_seed_state(&q->apart, seed);
		q->drawn_apart = true;
		return 0;
	}
	if (!strcmp(kind, "count")) {
		q->arrived = 0;
		q->drops_count = 0;
		return 0;
	}
	if (!strcmp(kind, "only")) {
		list = parse_list(text, true);
	} else if (!strcmp(kind, "drop") || !strcmp(kind, "spare")) {
		more = parse_list(text, false);
		if (IS_ERR(more))
			return PTR_ERR(more);
		list = merge_lists(q->list, more,
				   kind[0] == 's' ? NETEM_SPARED : 0);
		kvfree(more);
	} else {
		return -EINVAL;
	}
	if (IS_ERR(list))
		return PTR_ERR(list);
	kvfree(q->list);
	q->list = list;
	return 0;
}

int netem_order(char *text)
{
	char *kind = strsep(&text, " "), *name = strsep(&text, " ");
	int err = -ENODEV;
	struct Qdisc *sch;

	if (!name)
		return -EINVAL;
	rcu_read_lock();
	sch = netem_named(name);
	if (sch) {
		spin_lock_bh(qdisc_lock(sch));
		err = order_netem(sch, kind, text);
		spin_unlock_bh(qdisc_lock(sch));
	}
	rcu_read_unlock();
	return err;
}

static void show_netem(struct seq_file *m, const char *name, struct Qdisc *sch)
{
	struct netem_sched_data *q = qdisc_priv(sch);
	u32 i;

	seq_printf(m, "netem %s %u %s\n", name, q->arrived,
		   q->list && q->list->only ? "only" : "random");
	for (i = 0; q->list && i < q->list->count; i++)
		seq_printf(m, "%s %u\n",
			   q->list->number[i] & NETEM_SPARED ? "spare" : "drop",
			   q->list->number[i] & NETEM_NUMBER);
	for (i = 0; i < q->drops_count; i++)
		seq_printf(m, "dropped %u %u %llu\n", q->drops[i].number,
			   q->drops[i].bytes, q->drops[i].ns);
}

static int drops_show(struct seq_file *m, void *unused)
{
	struct net_device *dev;
	struct Qdisc *sch;
	struct net *net;

	rcu_read_lock();
	for_each_net_rcu(net) {
		for_each_netdev_rcu(net, dev) {
			sch = netem_of(dev);
			if (!sch)
				continue;
			spin_lock_bh(qdisc_lock(sch));
			show_netem(m, dev->name, sch);
			spin_unlock_bh(qdisc_lock(sch));
		}
	}
	rcu_read_unlock();
	return 0;
}

static int drops_open(struct inode *inode, struct file *file)
{
	return single_open(file, drops_show, NULL);
}

static ssize_t drops_write(struct file *file, const char __user *buffer,
			   size_t count, loff_t *pos)
{
	char *text = memdup_user_nul(buffer, count);
	int err;

	if (IS_ERR(text))
		return PTR_ERR(text);
	err = netem_order(strim(text));
	kfree(text);
	return err ? err : count;
}

static const struct proc_ops drops_ops = {
	.proc_open	=	drops_open,
	.proc_read	=	seq_read,
	.proc_lseek	=	seq_lseek,
	.proc_release	=	single_release,
	.proc_write	=	drops_write,
};

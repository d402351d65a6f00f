// SPDX-License-Identifier: GPL-2.0
/*
 * Packet slots: a link that sends at given times only, as a cellular one does. Each time is an opportunity for
 * SLOT_BYTES of IP packets: several small ones share it, what does not fit goes on in the next, what is not used is
 * lost. The schedule begins when the qdisc is made, or is told to, and repeats. (The link of Mahimahi: Netravali et al., USENIX ATC
 * 2015.) The queue is the qdisc below it, class 1.
 *
 * The schedule is what was last written to /proc/slots before the qdisc is made: times in ms, one a line, never
 * descending; the last is also the time after which it repeats. The word "start" written there begins all schedules of
 * all qdiscs anew, at that moment. Reading tells of the qdiscs of the reader's network
 * namespace, a line each: device, slots, period (ms), FNV-1a of the times, slots that have passed, slots used.
 */
#include <linux/ctype.h>
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/proc_fs.h>
#include <linux/refcount.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#define SLOT_BYTES 1500
#define MOST_SLOTS (16 << 20)
#define START "start"

struct slots_schedule {
	refcount_t users;
	u32 count, room;
	u32 *ms;
	/* What is being written */
	u64 number;
	bool digits, wrong, start;
};

struct slots_data {
	struct Qdisc *queue;
	struct slots_schedule *schedule;
	struct qdisc_watchdog watchdog;
	struct list_head all;
	struct Qdisc *sch;
	struct sk_buff *held;	/* in part sent */
	u32 left;		/* bytes of it to be sent */
	u32 credit;		/* bytes that the present slot may still send */
	u32 next;		/* the slot to come, in this round */
	u64 round_ns;		/* when this round began */
	u64 passed, used;
	bool fresh;		/* nothing of the present slot was used yet */
	bool idle;		/* slots pass unused until a packet comes */
};

static DEFINE_MUTEX(slots_mutex);
static LIST_HEAD(slots_all);
static struct slots_schedule *slots_written;

static void slots_put(struct slots_schedule *schedule)
{
	if (schedule && refcount_dec_and_test(&schedule->users)) {
		kvfree(schedule->ms);
		kfree(schedule);
	}
}

/* The link */

static u64 slots_at(const struct slots_data *q)
{
	return q->round_ns + (u64)q->schedule->ms[q->next] * NSEC_PER_MSEC;
}

static void slots_pass(struct slots_data *q)
{
	u64 at = slots_at(q);

	q->passed++;
	if (++q->next == q->schedule->count) {
		q->round_ns = at;
		q->next = 0;
	}
}

static struct sk_buff *slots_take(struct Qdisc *sch)
{
	struct slots_data *q = qdisc_priv(sch);

	if (!q->held) {
		q->held = q->queue->ops->dequeue(q->queue);
		if (q->held)
			q->left = q->held->len - skb_network_offset(q->held);
	}
	return q->held;
}

static struct sk_buff *slots_dequeue(struct Qdisc *sch)
{
	struct slots_data *q = qdisc_priv(sch);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	if (!sch->q.qlen) {
		q->idle = true;
		return NULL;
	}
	if (q->idle) {
		u64 round = (u64)q->schedule->ms[q->schedule->count - 1] * NSEC_PER_MSEC;

		q->idle = false;
		q->credit = 0;
		if (now > q->round_ns + 2 * round) {
			u64 rounds = div64_u64(now - q->round_ns, round) - 1;

			q->round_ns += rounds * round;
			q->passed += rounds * q->schedule->count;
		}
		while (slots_at(q) < now)
			slots_pass(q);
	}
	for (;;) {
		u32 bytes;

		if (!q->credit) {
			if (slots_at(q) > now) {
				qdisc_watchdog_schedule_ns(&q->watchdog, slots_at(q));
				return NULL;
			}
			slots_pass(q);
			q->credit = SLOT_BYTES;
			q->fresh = true;
		}
		if (!slots_take(sch)) {
			/* An AQM may have dropped all that there was. */
			q->idle = true;
			return NULL;
		}
		if (q->fresh)
			q->used++;
		q->fresh = false;
		bytes = min(q->left, q->credit);
		q->left -= bytes;
		q->credit -= bytes;
		if (!q->left)
			break;
	}
	skb = q->held;
	q->held = NULL;
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_qlen_dec(sch);
	qdisc_bstats_update(sch, skb);
	return skb;
}

static int slots_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct slots_data *q = qdisc_priv(sch);
	unsigned int size = qdisc_pkt_len(skb);
	int result;

	result = qdisc_enqueue(skb, q->queue, to_free);
	if (result != NET_XMIT_SUCCESS) {
		if (net_xmit_drop_count(result))
			qdisc_qstats_drop(sch);
		return result;
	}
	qstats_backlog_add(sch, size);
	qdisc_qlen_inc(sch);
	return NET_XMIT_SUCCESS;
}

static void slots_reset(struct Qdisc *sch)
{
	struct slots_data *q = qdisc_priv(sch);

	qdisc_reset(q->queue);
	if (q->held)
		rtnl_kfree_skbs(q->held, q->held);
	q->held = NULL;
	q->credit = 0;
	q->idle = true;
	qdisc_watchdog_cancel(&q->watchdog);
}

static int slots_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct slots_data *q = qdisc_priv(sch);

	q->sch = sch;
	q->idle = true;
	q->round_ns = ktime_get_ns();
	q->queue = &noop_qdisc;
	INIT_LIST_HEAD(&q->all);
	qdisc_watchdog_init(&q->watchdog, sch);
	mutex_lock(&slots_mutex);
	if (slots_written) {
		refcount_inc(&slots_written->users);
		q->schedule = slots_written;
		list_add_tail(&q->all, &slots_all);
	}
	mutex_unlock(&slots_mutex);
	if (!q->schedule) {
		NL_SET_ERR_MSG(extack, "write a schedule to /proc/slots first");
		return -EINVAL;
	}
	q->queue = qdisc_create_dflt(sch->dev_queue, &pfifo_qdisc_ops, TC_H_MAKE(sch->handle, 1), extack);
	if (!q->queue) {
		q->queue = &noop_qdisc;
		return -ENOMEM;
	}
	qdisc_hash_add(q->queue, true);
	return 0;
}

static void slots_destroy(struct Qdisc *sch)
{
	struct slots_data *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	mutex_lock(&slots_mutex);
	list_del(&q->all);
	slots_put(q->schedule);
	mutex_unlock(&slots_mutex);
	qdisc_put(q->queue);
}

/* Its one class */

static int slots_graft(struct Qdisc *sch, unsigned long class, struct Qdisc *new, struct Qdisc **old,
		       struct netlink_ext_ack *extack)
{
	struct slots_data *q = qdisc_priv(sch);

	*old = qdisc_replace(sch, new ?: &noop_qdisc, &q->queue);
	return 0;
}

static struct Qdisc *slots_leaf(struct Qdisc *sch, unsigned long class)
{
	struct slots_data *q = qdisc_priv(sch);

	return q->queue;
}

static unsigned long slots_find(struct Qdisc *sch, u32 class)
{
	return 1;
}

static void slots_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	if (!walker->stop)
		tc_qdisc_stats_dump(sch, 1, walker);
}

static int slots_dump_class(struct Qdisc *sch, unsigned long class, struct sk_buff *skb, struct tcmsg *message)
{
	struct slots_data *q = qdisc_priv(sch);

	message->tcm_handle |= TC_H_MIN(1);
	message->tcm_info = q->queue->handle;
	return 0;
}

static const struct Qdisc_class_ops slots_class_ops = {
	.graft = slots_graft,
	.leaf = slots_leaf,
	.find = slots_find,
	.walk = slots_walk,
	.dump = slots_dump_class,
};

static struct Qdisc_ops slots_ops __read_mostly = {
	.id = "slots",
	.cl_ops = &slots_class_ops,
	.priv_size = sizeof(struct slots_data),
	.enqueue = slots_enqueue,
	.dequeue = slots_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = slots_init,
	.reset = slots_reset,
	.destroy = slots_destroy,
	.owner = THIS_MODULE,
};
MODULE_ALIAS_NET_SCH("slots");

/* /proc/slots */

static bool slots_append(struct slots_schedule *schedule)
{
	u32 *more;

	schedule->digits = false;
	if (schedule->count && schedule->number < schedule->ms[schedule->count - 1])
		return false;
	if (schedule->count == schedule->room) {
		u32 room = schedule->room * 2 ?: 4096;

		more = room > MOST_SLOTS ? NULL : kvrealloc(schedule->ms, room * sizeof(*more), GFP_KERNEL);
		if (!more)
			return false;
		schedule->room = room;
		schedule->ms = more;
	}
	schedule->ms[schedule->count++] = schedule->number;
	schedule->number = 0;
	return true;
}

static bool slots_read_one(struct slots_schedule *schedule, char c)
{
	if (isdigit(c)) {
		schedule->number = schedule->number * 10 + (c - '0');
		schedule->digits = true;
		return schedule->number <= U32_MAX;
	}
	return isspace(c) && (!schedule->digits || slots_append(schedule));
}

static ssize_t slots_proc_write(struct file *file, const char __user *text, size_t size, loff_t *at)
{
	struct slots_schedule *schedule = file->private_data;
	char part[256];
	size_t done = 0;

	if (size >= sizeof(START) - 1 && !copy_from_user(part, text, sizeof(START) - 1) &&
	    !memcmp(part, START, sizeof(START) - 1)) {
		schedule->start = true;
		return size;
	}
	mutex_lock(&slots_mutex);
	while (done < size && !schedule->wrong) {
		size_t some = min(size - done, sizeof(part));

		if (copy_from_user(part, text + done, some)) {
			mutex_unlock(&slots_mutex);
			return -EFAULT;
		}
		for (size_t n = 0; n < some && !schedule->wrong; n++)
			schedule->wrong = !slots_read_one(schedule, part[n]);
		done += some;
	}
	mutex_unlock(&slots_mutex);
	return schedule->wrong ? -EINVAL : size;
}

static u64 slots_hash(const struct slots_schedule *schedule)
{
	u64 hash = 0xcbf29ce484222325ULL;

	for (u32 n = 0; n < schedule->count; n++)
		for (int byte = 0; byte < 4; byte++)
			hash = (hash ^ (schedule->ms[n] >> 8 * byte & 0xff)) * 0x100000001b3ULL;
	return hash;
}

static int slots_proc_show(struct seq_file *file, void *unused)
{
	struct slots_data *q;

	mutex_lock(&slots_mutex);
	list_for_each_entry(q, &slots_all, all) {
		const struct slots_schedule *schedule = q->schedule;

		if (net_eq(dev_net(qdisc_dev(q->sch)), current->nsproxy->net_ns))
			seq_printf(file, "%s %u %u %016llx %llu %llu\n", qdisc_dev(q->sch)->name, schedule->count,
				   schedule->ms[schedule->count - 1], slots_hash(schedule), q->passed, q->used);
	}
	mutex_unlock(&slots_mutex);
	return 0;
}

static int slots_proc_open(struct inode *inode, struct file *file)
{
	struct slots_schedule *schedule;

	if (!(file->f_mode & FMODE_WRITE))
		return single_open(file, slots_proc_show, NULL);
	schedule = kzalloc(sizeof(*schedule), GFP_KERNEL);
	if (!schedule)
		return -ENOMEM;
	refcount_set(&schedule->users, 1);
	file->private_data = schedule;
	return 0;
}

static void slots_start(void)
{
	struct slots_data *q;

	rtnl_lock();
	mutex_lock(&slots_mutex);
	list_for_each_entry(q, &slots_all, all) {
		sch_tree_lock(q->sch);
		q->round_ns = ktime_get_ns();
		q->next = 0;
		q->credit = 0;
		q->passed = 0;
		q->used = 0;
		q->idle = true;
		sch_tree_unlock(q->sch);
	}
	mutex_unlock(&slots_mutex);
	rtnl_unlock();
}

/* A schedule that is not whole, or that would take no time, leaves none. */
static int slots_proc_release(struct inode *inode, struct file *file)
{
	struct slots_schedule *schedule = file->private_data;

	if (!(file->f_mode & FMODE_WRITE))
		return single_release(inode, file);
	if (schedule->start) {
		slots_start();
		slots_put(schedule);
		return 0;
	}
	if (schedule->digits && !slots_append(schedule))
		schedule->wrong = true;
	mutex_lock(&slots_mutex);
	swap(schedule, slots_written);
	slots_put(schedule);
	if (slots_written->wrong || !slots_written->count || !slots_written->ms[slots_written->count - 1]) {
		slots_put(slots_written);
		slots_written = NULL;
	}
	mutex_unlock(&slots_mutex);
	return 0;
}

static const struct proc_ops slots_proc_ops = {
	.proc_open = slots_proc_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_write = slots_proc_write,
	.proc_release = slots_proc_release,
};

static int __init slots_module_init(void)
{
	int result;

	if (!proc_create("slots", 0644, NULL, &slots_proc_ops))
		return -ENOMEM;
	result = register_qdisc(&slots_ops);
	if (result)
		remove_proc_entry("slots", NULL);
	return result;
}

static void __exit slots_module_exit(void)
{
	unregister_qdisc(&slots_ops);
	remove_proc_entry("slots", NULL);
}

module_init(slots_module_init)
module_exit(slots_module_exit)
MODULE_DESCRIPTION("A link that sends at given times only");
MODULE_LICENSE("GPL");

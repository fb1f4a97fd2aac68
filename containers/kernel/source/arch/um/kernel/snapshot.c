// SPDX-License-Identifier: GPL-2.0
/*
 * Start guests from a snapshot of a waiting one: the guest's side. A write to
 * /proc/snapshot returns in every guest that is started from this one.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <asm/tlbflush.h>
#include <as-layout.h>
#include <init.h>
#include <kern_util.h>
#include <mem_user.h>
#include <os.h>
#include <skas.h>
#include <snapshot.h>

static char request[SNAPSHOT_REQUEST_MAX];
static int control_fd = -1;
static int serve_result;
static bool stay;

unsigned long snapshot_map_start, snapshot_map_end;

/* In ns since the boot; none at ULLONG_MAX. */
unsigned long long snapshot_cut_at = ULLONG_MAX;

static int __init snapshot_setup(char *value, int *add)
{
	/* No other guest: this one takes the seed where another would. */
	if (!strncmp(value, "stay:", 5)) {
		stay = true;
		strscpy(request, value + 5, sizeof(request));
	} else if (kstrtoint(value, 10, &control_fd)) {
		control_fd = -1;
	}
	return 0;
}
__uml_setup("snapshot=", snapshot_setup,
"snapshot=<file descriptor> or stay:<seed>\n"
"    A SOCK_SEQPACKET socket over which guests are asked for that start as\n"
"    copies of this one, once it writes to /proc/snapshot. Or it goes on\n"
"    itself, with a new seed for its random generator, as a copy would.\n\n"
);

static void serve(void *unused)
{
	unsigned long long offset;

	/* Whole pages of the host. */
	snapshot_map_start = PAGE_ALIGN((unsigned long) mem_map);
	snapshot_map_end = (unsigned long) (mem_map + max_mapnr) & PAGE_MASK;
	serve_result = os_snapshot_serve(&control_fd,
					 phys_mapping(0, &offset), request,
					 time_travel_time);
}

/* The host processes of address spaces are the other guest's; make our own. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define um_contexts	mm_list
#define pte_mknewpage	pte_mkneedsync

static void forget_registers(void) {}
static void enter_address_space(void) {}

static int restart_process(struct mm_id *id)
{
	int err;

	if (using_seccomp)
		os_close_file(id->sock);
	/* As of a new address space. What was to be mapped is in the page tables. */
	memset((void *) id->stack, 0, STUB_DATA_PAGES * PAGE_SIZE);
	id->syscall_data_len = 0;
	id->syscall_fd_num = 0;
	err = start_userspace(id);
	if (!err)
		unmap(id, 0, STUB_START);
	return err;
}
#else
static void forget_registers(void)
{
	struct mm_context *context;

	list_for_each_entry(context, &um_contexts, list) {
		fetch_fp_registers(&context->id);
		context->id.gp_known = 0;
	}
}

/* At a cut, the idle task runs in the address space of the last one. */
static void enter_address_space(void)
{
	if (current->active_mm != &init_mm)
		__switch_mm(&current->active_mm->context.id);
}

static int restart_process(struct mm_id *id)
{
	id->pid = start_userspace(id->stack);
	if (id->pid < 0)
		return id->pid;
	/* What was to be mapped is in the page tables, too. */
	id->syscall_data_len = 0;
	unmap(id, 0, TASK_SIZE);
	return 0;
}
#endif

static int map_again(pte_t *pte, unsigned long addr, void *unused)
{
	if (pte_present(*pte))
		*pte = pte_mknewpage(*pte);
	return 0;
}

static int restart_userspace(struct mm_struct *mm)
{
	int err = restart_process(&mm->context.id);

	if (err)
		return err;
	apply_to_existing_page_range(mm, 0, TASK_SIZE, map_again, NULL);
	um_tlb_mark_sync(mm, 0, TASK_SIZE);
	return 0;
}

static void become_copy(void)
{
	struct mm_context *context;
	int err;

	um_irq_reopen();
	list_for_each_entry(context, &um_contexts, list) {
		err = restart_userspace(container_of(context, struct mm_struct,
						     context));
		if (err)
			panic("snapshot: a process must start, found error %d",
			      err);
	}
	enter_address_space();
}

/* Wait for requests; return 0 in every guest that is started for one. */
static int wait_for_requests(void)
{
	int kmalloc_was_ok = kmalloc_ok;
	unsigned long flags;

	local_irq_save(flags);
	forget_registers();
	/* Not on this task's stack, which is in the memory copied. */
	kmalloc_ok = 0;
	initial_thread_cb(serve, NULL);
	kmalloc_ok = kmalloc_was_ok;
	if (!serve_result)
		become_copy();
	local_irq_restore(flags);
	return serve_result;
}

/*
 * Do an order, as if its effect had always been due now. `cut NS` asks for another
 * cut so much later, `algorithm DEVICE NAME` changes the congestion control of
 * the connections in the device's namespace, and all others are for a netem.
 */
static int snapshot_order(char *text)
{
	unsigned long long ns;
	char *name;

	if (!strncmp(text, "cut ", 4)) {
		if (kstrtoull(text + 4, 10, &ns))
			return -EINVAL;
		snapshot_cut_at += ns;
		return 0;
	}
	if (!strncmp(text, "algorithm ", 10)) {
		text += 10;
		name = strchr(text, ' ');
		if (!name)
			return -EINVAL;
		*name = 0;
		return tcp_change_congestion_control(text, name + 1);
	}
	return netem_order(text);
}

/* Do what the request says; a guest must not go on without. */
static void heed_request(void)
{
	char *orders = request + strlen(request) + 1, *text, *blank;
	int err;
	u64 seed;

	while ((text = strsep(&orders, "\n"))) {
		err = *text ? snapshot_order(text) : 0;
		if (err)
			panic("snapshot: order %s must succeed, found error %d",
			      text, err);
	}
	blank = strchr(request, ' ');
	if (blank)
		*blank = 0;
	if (!strcmp(request, "-"))
		return;
	if (kstrtou64(request, 10, &seed))
		panic("snapshot: the seed must be a number, found %s", request);
	random_set_parameter_seed(seed);
}

/* Wait for requests between two events, where every task waits, too. */
void snapshot_cut(void)
{
	unsigned long long at = snapshot_cut_at;

	if (control_fd < 0 || wait_for_requests()) {
		snapshot_cut_at = ULLONG_MAX;
		return;
	}
	heed_request();
	if (snapshot_cut_at == at)
		snapshot_cut_at = ULLONG_MAX;
}

/*
 * Written: `cut NS`, to wait so much later, between two events; `stage`, to wait
 * where a guest that nobody can copy goes on as it is; or anything else, to wait
 * where it goes on with its seed.
 */
static ssize_t snapshot_write(struct file *file, const char __user *buffer,
			      size_t count, loff_t *pos)
{
	unsigned long long ns;
	char text[32] = {};
	int err;

	if (copy_from_user(text, buffer, min(count, sizeof(text) - 1)))
		return -EFAULT;
	if (!strncmp(text, "cut ", 4)) {
		err = kstrtoull(text + 4, 10, &ns);
		if (err)
			return err;
		snapshot_cut_at = time_travel_time + ns;
		return count;
	}
	/* What tasks did before must not decide which of two goes first. */
	if (sched_forget_fair())
		return -EBUSY;
	if (control_fd >= 0) {
		err = wait_for_requests();
		if (err)
			return err;
	} else if (!strncmp(text, "stage", 5)) {
		return count;
	}
	heed_request();
	return count;
}

static const struct proc_ops snapshot_ops = {
	.proc_write = snapshot_write,
};

static int __init snapshot_init(void)
{
	if (stay || control_fd >= 0)
		proc_create("snapshot", 0200, NULL, &snapshot_ops);
	return 0;
}
late_initcall(snapshot_init);

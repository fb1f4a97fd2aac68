/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UM_SNAPSHOT_H
#define __UM_SNAPSHOT_H

/*
 * A request: the seed in decimal digits, or `-` to go on without a new one; the
 * host's processor, or `-` for the same; and a folder, with blanks between them.
 * After a 0, orders for the copy may follow, one a line: see snapshot_order().
 */
#define SNAPSHOT_REQUEST_MAX (1 << 17)

/*
 * os-Linux/snapshot.c: wait for requests on a socket and start a guest for
 * each. Runs on the host's own stack; returns 0 in those guests only, with the
 * socket that came with the request, or -1 without one. Returns an error number
 * at once where there is no socket.
 */
extern int os_snapshot_serve(int *control, int physmem_fd, char *request,
			     unsigned long long now);

/*
 * kernel/snapshot.c: addresses of struct page, which only the kernel maps. Copies
 * share these pages until they write to them.
 */
extern unsigned long snapshot_map_start, snapshot_map_end;

/* kernel/snapshot.c: time of the next cut, and how to make it. */
extern unsigned long long snapshot_cut_at;
extern void snapshot_cut(void);

/* net/ipv4/tcp_cong.c */
extern int tcp_change_congestion_control(const char *device, const char *name);

/* kernel/time.c: now, in ns since the boot. */
extern unsigned long long time_travel_time;

/*
 * net/sched/sch_netem.c: change the netem at the root of a device, in any
 * namespace. `count DEVICE` counts packets from 1 again, and forgets which were
 * dropped. `only DEVICE N N N` drops the packets of these numbers and no others,
 * `drop DEVICE N N N` and `spare DEVICE N N N` decide on these only.
 * `draw DEVICE SEED LOSS` draws losses apart from all else, with a probability as
 * in struct tc_netem_qopt. Changes the text.
 */
extern int netem_order(char *text);

/* os-Linux/mem.c */
extern int os_temporary_file(void);

/* kernel/irq.c */
extern void um_irq_reopen(void);

#endif

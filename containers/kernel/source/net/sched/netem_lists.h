/* SPDX-License-Identifier: GPL-2.0 */
/* Lists of packets that a netem drops or spares, and the packets that it dropped. */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <snapshot.h>

/* Packets, by number, that are dropped or spared whatever the loss model draws. */
struct netem_list {
	bool only;		/* drop these packets and no others */
	u32 count;
	u32 number[] __counted_by(count);	/* ascending */
};

#define NETEM_SPARED	0x80000000U	/* of a number: do not drop this packet */
#define NETEM_NUMBER	(NETEM_SPARED - 1)

struct netem_dropped {
	u32 number;
	u32 bytes;
	u64 ns;
};

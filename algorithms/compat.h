/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Included before the files of a congestion control that has an algorithm.toml, so that files for other versions of
 * Linux compile. losslab replaces `.HOOK = F` of its struct tcp_congestion_ops by `.HOOK = LOSSLAB_USE_HOOK(F)`, and
 * writes LOSSLAB_DEFINE_HOOK(F) before the struct. The first is F itself if F has the type that this kernel calls.
 */
#include <linux/version.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/win_minmax.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <net/tcp.h>

#ifdef LOSSLAB_PR_FMT /* The file defines its own. */
#undef pr_fmt
#endif

#ifdef LOSSLAB_OPTIONS
/*
 * Options of sockets that algorithm.toml declares. They are set when the algorithm begins on a connection, after its
 * init function and before the connection's first data. The socket is locked then, as for a BPF program.
 */
#include <linux/bpf.h>
#define lock_sock(sk) do { if (!has_current_bpf_ctx()) lock_sock(sk); } while (0)
#define release_sock(sk) do { if (!has_current_bpf_ctx()) release_sock(sk); } while (0)

static void __maybe_unused losslab_option(struct sock *sk, int level, int name, void *value, int length)
{
	struct bpf_run_ctx *before = current->bpf_ctx, locked;
	int error;

	current->bpf_ctx = &locked;
	error = level == SOL_SOCKET ?
		sk_setsockopt(sk, level, name, KERNEL_SOCKPTR(value), length) :
		sk->sk_prot->setsockopt(sk, level, name, KERNEL_SOCKPTR(value), length);
	current->bpf_ctx = before;
	if (error)
		printk_once(KERN_ERR "WARNING: " LOSSLAB_NAME " must take its socket option %d of level %d, found error %d\n",
			    name, level, error);
}

void LOSSLAB_OPTIONS(struct sock *sk);
static __maybe_unused void (*losslab_own_init)(struct sock *sk);
static __maybe_unused void losslab_begin(struct sock *sk)
{
	if (losslab_own_init)
		losslab_own_init(sk);
	LOSSLAB_OPTIONS(sk);
}
#endif

/* Registration under the folder's name; the console has the result. */
static inline int losslab_register(struct tcp_congestion_ops *ops)
{
	int error;

	/* Its second name may be that of another copy of the module, which has parameters of its own. */
	if (strcmp(ops->name, LOSSLAB_REGISTERS)) {
		printk(KERN_INFO "losslab: registration of %s is left out in " LOSSLAB_NAME "\n", ops->name);
		return 0;
	}
	strscpy_pad(ops->name, LOSSLAB_NAME, TCP_CA_NAME_MAX); /* netlink has all 16 bytes */
#ifdef LOSSLAB_OPTIONS
	losslab_own_init = ops->init;
	ops->init = losslab_begin;
#endif
	if (!ops->undo_cwnd) /* Required since Linux 4.11; this was the default. */
		ops->undo_cwnd = tcp_reno_undo_cwnd;
	error = tcp_register_congestion_control(ops);
	printk(KERN_INFO "losslab: registration of %s returned %d\n", ops->name, error);
	return error;
}
#define tcp_register_congestion_control losslab_register

#undef module_init
#define module_init(function)								\
	static int __init losslab_init(void)						\
	{										\
		int error;								\
		printk(KERN_INFO "losslab: init of " LOSSLAB_NAME " begins\n");		\
		error = function();							\
		printk(KERN_INFO "losslab: init of " LOSSLAB_NAME " returned %d\n", error);	\
		return error;								\
	}										\
	device_initcall(losslab_init)

/* A call of F with another type than its own, in a hook that is used only if F has that type. */
#define LOSSLAB_CALL(type, F, ...)							\
	{ type *call = (void *)&F; OPTIMIZER_HIDE_VAR(call); call(__VA_ARGS__); }

/* cong_control: four arguments since Linux 6.10. */
typedef void losslab_control_2(struct sock *, const struct rate_sample *);
typedef void losslab_control_4(struct sock *, u32, int, const struct rate_sample *);
#define LOSSLAB_DEFINE_cong_control(F)							\
	static void __maybe_unused losslab_##F(struct sock *sk, u32 ack, int flag,	\
					       const struct rate_sample *rs)		\
	LOSSLAB_CALL(losslab_control_2, F, sk, rs)
#define LOSSLAB_USE_cong_control(F)							\
	_Generic(&F, losslab_control_4 *: &F, losslab_control_2 *: &losslab_##F)

/* pkts_acked: a struct since Linux 4.7. */
typedef void losslab_acked_3(struct sock *, u32, s32);
typedef void losslab_acked(struct sock *, const struct ack_sample *);
#define LOSSLAB_DEFINE_pkts_acked(F)							\
	static void __maybe_unused losslab_##F(struct sock *sk, const struct ack_sample *s)	\
	LOSSLAB_CALL(losslab_acked_3, F, sk, s->pkts_acked, s->rtt_us)
#define LOSSLAB_USE_pkts_acked(F) _Generic(&F, losslab_acked *: &F, losslab_acked_3 *: &losslab_##F)

/* cong_avoid: without in_flight since Linux 3.15. */
typedef void losslab_avoid_4(struct sock *, u32, u32, u32);
typedef void losslab_avoid(struct sock *, u32, u32);
#define LOSSLAB_DEFINE_cong_avoid(F)							\
	static void __maybe_unused losslab_##F(struct sock *sk, u32 ack, u32 acked)	\
	LOSSLAB_CALL(losslab_avoid_4, F, sk, ack, acked, tcp_packets_in_flight(tcp_sk(sk)))
#define LOSSLAB_USE_cong_avoid(F) _Generic(&F, losslab_avoid *: &F, losslab_avoid_4 *: &losslab_##F)

/* get_info only fills a buffer since Linux 4.2; an older one, which writes a netlink message, is left out. */
typedef size_t losslab_info(struct sock *, u32, int *, union tcp_cc_info *);
#define LOSSLAB_DEFINE_get_info(F)
#define LOSSLAB_USE_get_info(F) _Generic(&F, losslab_info *: &F, default: NULL)

#ifndef TCP_CONG_WANTS_CE_EVENTS /* BBRv3's patch declares it, as Linux 4.9 to 4.16 did. */
static inline u32 losslab_tso_autosize(const struct sock *sk, unsigned int mss, int min_segs)
{
	u32 bytes = min_t(unsigned long, sk->sk_pacing_rate >> 10,
			  sk->sk_gso_max_size - 1 - MAX_TCP_HEADER);

	return max_t(u32, bytes / mss, min_segs);
}
#define tcp_tso_autosize losslab_tso_autosize
#endif

/* Arguments that later versions added or removed. */
#define tcp_is_cwnd_limited(sk, ...) tcp_is_cwnd_limited(sk)
#define LOSSLAB_FIRST(a, ...) a
#define tcp_cong_avoid_ai(tp, w, ...) tcp_cong_avoid_ai(tp, w, LOSSLAB_FIRST(__VA_ARGS__ __VA_OPT__(,) 1))

/* Functions that were renamed or removed. */
#define prandom_u32() get_random_u32()
#define ACCESS_ONCE(x) READ_ONCE(x)
#define prandom_u32_max(n) get_random_u32_below(n)
#define tcp_time_stamp(tp) tcp_time_stamp_ms(tp)
#define tcp_time_stamp_raw() ((u32)tcp_clock_ms())
#define strlcpy strscpy
/* A set without BTF_SET8_KFUNCS is refused since Linux 6.9, so the module would never register. */
#undef BTF_SET8_START
#undef BTF_SET8_END
#define BTF_SET8_START(name) BTF_KFUNCS_START(name)
#define BTF_SET8_END(name) BTF_KFUNCS_END(name)

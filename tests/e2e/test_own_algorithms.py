"""User congestion controls, compiled into the kernel: correct and broken ones."""

import json
import re

import pytest

from losslab import cli, new
from losslab.backends import crash
from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.errors import LosslabError
from losslab.instrument import cache, kernels
from losslab.study.condition import Condition
from tests.e2e.conftest import COMPILES

pytestmark = COMPILES
TEMPLATE = kernels.source_of(new.TEMPLATE).read_text()
SSTHRESH, AVOID = "\town->losses++;\n", "\ttcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);\n"
NULL = "an access through a NULL or invalid pointer in null_cc_ssthresh"
# What replaces a line of the template, and what is said of it before its place.
BROKEN = {
    "panics": (SSTHRESH, '\tpanic("mine");\n', "a panic, `mine`, in panics_cc_ssthresh"),
    "bug": (SSTHRESH, "\tBUG_ON(!own->losses);\n", "a panic, `BUG!`, in bug_cc_ssthresh"),
    "divides": (
        SSTHRESH, "\town->losses = 9 / own->losses;\n", "a division by zero in divides_cc_ssthresh"
    ),
    "null": (SSTHRESH, "\town->losses = *(u32 *)(long)own->losses;\n", NULL),
    "nowindow": (
        AVOID, "\ttcp_cong_avoid_ai(tp, 0, acked);\n",
        "a division by zero in tcp_cong_avoid_ai, called by nowindow_cc_cong_avoid",
    ),
    "endless": (SSTHRESH, "\tfor (;;) barrier();\n", "an endless loop in endless_cc_ssthresh"),
    "relaxes": (AVOID, "\tfor (;;) cpu_relax();\n", "called by relaxes_cc_cong_avoid"),
}  # fmt: skip
# Changes of the template that measure something. With a window of zero, the kernel's window probes
# still carry data. "mine" and "talk" are as long as "reno", because iperf3 sends the name.
WORKING = {
    "mine": ("", ""),
    "talk": (AVOID, f'\tpr_info("cwnd %u\\n", tcp_snd_cwnd(tp));\n{AVOID}'),
    "warns": (SSTHRESH, f"\tWARN_ON(own->losses == 3);\n{SSTHRESH}"),
    "silent": ("\tif (!tcp_is_cwnd_limited(sk))\n", "\ttp->snd_cwnd = 0;\n"),
}
KINDS = BROKEN | WORKING


def condition(algorithm):
    return Condition(
        algorithm=algorithm, loss_percent=1, rtt_ms=10, rate_mbit=20, buffer_packets=50,
        duration_s=2, warmup_s=0.5,
    )  # fmt: skip


def written(campaign_folder, name, text):
    path = campaign_folder / "algorithms" / name / f"tcp_{name}.c"
    path.parent.mkdir(parents=True)
    path.write_text(re.sub(f"(?<![a-z]){new.TEMPLATE}", name, text))


@pytest.fixture
def tools(campaign_folder):
    """Return the instrument of a kernel with all kinds."""
    for name, (before, after, *_) in KINDS.items():
        assert before in TEMPLATE
        written(campaign_folder, name, TEMPLATE.replace(before, after) if before else TEMPLATE)
    return instrument(spec=kernels.get(kernels.DEFAULT, KINDS))


def line_of(text):
    """Return the number of the line of the template that a kind replaces."""
    return 1 + TEMPLATE[: TEMPLATE.index(text)].count("\n")


@pytest.mark.parametrize("name", ["mine", "talk"])
def test_algorithm_skeleton_gives_renos_bytes_also_if_it_prints(tools, tmp_path, name):
    mine = run(condition(name), 1, tmp_path / "mine", tools)
    reno = run(condition("reno"), 1, tmp_path / "reno", instrument())
    assert mine["reasons"] == []
    assert mine["summary"] == reno["summary"]
    assert f"tcp_{name}.c" in mine["instrument"]["kernel"]["algorithms"]
    assert (tmp_path / "mine/tcp.csv").read_bytes() == (tmp_path / "reno/tcp.csv").read_bytes()
    console = tmp_path / "mine" / "console.log"
    assert console.exists() == (name == "talk")
    lines = console.read_text().splitlines() if console.exists() else ["reboot: Power down"]
    assert lines.pop() == "reboot: Power down"
    assert all(re.fullmatch(r"\[   2\d\.\d{6}\] cwnd \d+", line) for line in lines)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_algorithm_is_an_invalid_row_that_names_its_line(tools, tmp_path, monkeypatch, name):
    monkeypatch.setattr(crash, "SPIN_CPU_S", 2.0)
    before, after, words = BROKEN[name]
    manifest = run(condition(name), 1, tmp_path / "out", tools, timeout_s=60, attempts=1)
    assert not manifest["valid"]
    place = f"algorithms/{name}/tcp_{name}.c:{line_of(before)}: `{after.strip()}`"
    assert f"{words}, {place}" in " ".join(manifest["reasons"])
    written = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert written.pop("files")
    assert written == manifest


def test_warning_of_an_algorithm_is_a_violation_that_names_its_line(tools, tmp_path):
    manifest = run(condition("warns"), 1, tmp_path / "out", tools)
    (reason,) = manifest["reasons"]
    assert "the kernel must print no warning, found: [   2" in reason
    assert f"at net/ipv4/tcp_warns.c:{line_of(SSTHRESH)}" in reason


def test_algorithm_with_a_minimal_window_is_measured(tools, tmp_path):
    manifest = run(condition("silent"), 1, tmp_path / "out", tools, timeout_s=60, attempts=1)
    assert not manifest["valid"] or manifest["summary"]["goodput_mbit"] < 0.1


def test_compile_error_quotes_the_compiler(campaign_folder):
    written(campaign_folder, "typo", TEMPLATE.replace("own->losses++", "own->looses++"))
    with pytest.raises(LosslabError) as error:
        instrument(spec=kernels.get(kernels.DEFAULT, ["typo"]))
    assert f"tcp_typo.c:{line_of(SSTHRESH)}:" in error.value.message
    assert "has no member named" in error.value.message
    assert list((cache.cache_folder() / "kernel").glob("*/tcp_typo*")) == []


# For Linux 5.x: two arguments of cong_control, a ticking clock, a set that Linux 6.9 refuses.
OLD = """\
#include <linux/module.h>
#include <linux/btf_ids.h>
#include <net/tcp.h>
#include "old.h"
#define pr_fmt(fmt) "old: " fmt
#define NAME "old-" "CC"
BTF_SET8_START(old_ids)
BTF_SET8_END(old_ids)
static const struct btf_kfunc_id_set old_set = { .owner = THIS_MODULE, .set = &old_ids };
struct old { u32 start; };
static void old_init(struct sock *sk)
{
	struct old *own = inet_csk_ca(sk);

	own->start = tcp_time_stamp + prandom_u32_max(1);
}
static void old_main(struct sock *sk, const struct rate_sample *rs)
{
	tcp_sk(sk)->snd_cwnd = rs->delivered >= 0 ? old_window() : 1;
}
static u32 old_ssthresh(struct sock *sk) { return old_window(); }
static struct tcp_congestion_ops old_ops = {
	.name = NAME, .owner = THIS_MODULE, .init = old_init, .ssthresh = old_ssthresh,
	.cong_control = old_main,
};
static int __init old_register(void)
{
	int error = register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &old_set);

	return error ?: tcp_register_congestion_control(&old_ops);
}
module_init(old_register);
MODULE_LICENSE("GPL");
"""


def test_module_for_another_linux_registers_under_its_new_name_and_sends(
    campaign_folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(campaign_folder)
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "main.c").write_text(OLD)
    (folder / "old.h").write_text("u32 old_window(void);\n")
    (folder / "window.c").write_text(
        '#include <linux/types.h>\n#include "old.h"\nu32 old_window(void) { return WINDOW; }\n'
    )
    (folder / "Makefile").write_text(
        "obj-m := tcp_old.o\ntcp_old-y := main.o window.o\nccflags-y := -DWINDOW=10\n"
    )
    assert cli.main(["new", "algorithm", "New-CC", "--from", str(folder)]) == 0
    assert cli.main(["kernel", "--algorithm", "New-CC"]) == 0
    assert "New-CC registers on 6.12" in capsys.readouterr().out
    manifest = run(
        condition("New-CC"), 1, tmp_path / "out", instrument(condition=condition("New-CC"))
    )
    assert manifest["reasons"] == []
    # 10 packets of 1448 bytes in 10 ms and the time on the link.
    assert 8 < manifest["summary"]["goodput_mbit"] < 12
    assert "New-CC/window.c" in manifest["instrument"]["kernel"]["algorithms"]


def test_module_that_does_not_register_says_what_its_init_returned(
    campaign_folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(campaign_folder)
    text = OLD.replace("return error ?: tcp", "return -12 ?: tcp").replace('#include "old.h"', "")
    (tmp_path / "file.c").write_text("#define old_window() 10\n" + text)
    assert cli.main(["new", "algorithm", "old-CC", "--from", str(tmp_path / "file.c")]) == 0
    assert cli.main(["kernel", "--algorithm", "old-CC"]) == 1
    assert "init of old-CC returned -12" in capsys.readouterr().err


# Of Linux before 4.13, whose timestamps tick as its clock does. It keeps a queue of TARGET_MS.
DELAY = """\
#include <linux/module.h>
#include <net/tcp.h>
struct delay { u32 first; s32 least; u32 started; };
s32 above(s32 delay_ms);
static u32 one_way_ms(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return tp->rx_opt.rcv_tsval * (1000 / HZ) - tp->rx_opt.rcv_tsecr * (1000 / HZ);
}
static void delay_avoid(struct sock *sk, u32 ack, u32 acked, u32 in_flight)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct delay *own = inet_csk_ca(sk);
	s32 now_ms;

	if (!own->started) {
		own->started = tcp_time_stamp;
		own->first = one_way_ms(sk);
		pr_info("DEBUG: first %u\\n", own->first);
	}
	now_ms = one_way_ms(sk) - own->first;
	own->least = min(own->least, now_ms);
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt < tp->snd_cwnd)
		return;
	tp->snd_cwnd_cnt = 0;
	if (above(now_ms - own->least) < 0)
		tp->snd_cwnd++;
	else if (tp->snd_cwnd > 2)
		tp->snd_cwnd--;
}
static struct tcp_congestion_ops delay_ops = {
	.name = "delay", .owner = THIS_MODULE, .ssthresh = tcp_reno_ssthresh,
	.cong_avoid = delay_avoid,
};
static int __init delay_register(void)
{
	pr_info("delay: no table\\n");
	return tcp_register_congestion_control(&delay_ops);
}
module_init(delay_register);
MODULE_LICENSE("GPL");
"""


def test_b7_old_module_that_reads_timestamps_keeps_the_queue_that_it_aims_at(
    campaign_folder, tmp_path, capsys, monkeypatch
):
    """A path of 20 Mbit/s sends 1.65 packets in 1 ms, so 25 ms are 41 packets.

    Taken for ticks of 4 ms, the timestamps would give a queue of 10. Only one file has the flag
    with the target (B8), what the module prints is no trouble (B2), and its init's line is shown
    (B4).
    """
    monkeypatch.chdir(campaign_folder)
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "delay.c").write_text(
        DELAY + "#ifdef TARGET_MS\n#error a flag of another file\n#endif\n"
    )
    (folder / "target.c").write_text(
        "#include <linux/types.h>\ns32 above(s32 delay_ms);\n"
        "s32 above(s32 delay_ms) { return delay_ms - TARGET_MS; }\n"
    )
    (folder / "Makefile").write_text(
        "PARTS := delay target\nobj-m := tcp_delay.o\ntcp_delay-y := $(addsuffix .o,$(PARTS))\n"
        "CFLAGS_target.o := -DTARGET_MS=25\n"
    )
    assert cli.main(["new", "algorithm", "delay", "--from", str(folder)]) == 0
    assert cli.main(["kernel", "--algorithm", "delay"]) == 0
    assert "its init function prints: delay: no table" in capsys.readouterr().out
    path = Condition(
        algorithm="delay", rtt_ms=10, rate_mbit=20, buffer_packets=300, duration_s=5, warmup_s=2.5
    )
    manifest = run(path, 1, tmp_path / "out", instrument(condition=path))
    assert manifest["reasons"] == []
    assert "DEBUG: first" in (tmp_path / "out" / "console.log").read_text()
    assert 33 < manifest["summary"]["queue_mean_packets"] < 50
    assert manifest["summary"]["goodput_mbit"] > 18.5


# As modules of Linux 3 to 4.6: it estimates the share of marked data, and shrinks by half of it.
MARKS = """\
#include <linux/module.h>
#include <net/tcp.h>
struct marks { u32 una; u32 until; u32 acked; u32 marked; u32 share; u32 rtt; };
static void marks_init(struct sock *sk)
{
	struct marks *own = inet_csk_ca(sk);

	own->una = own->until = tcp_sk(sk)->snd_una;
}
static void marks_ack(struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct marks *own = inet_csk_ca(sk);
	u32 octets = tp->snd_una - own->una;

	own->una = tp->snd_una;
	own->acked += octets;
	if (flags & CA_ACK_ECE)
		own->marked += octets;
	if (before(tp->snd_una, own->until))
		return;
	own->share = (3 * own->share + 1024 * own->marked / max(own->acked, 1U)) / 4;
	own->acked = own->marked = 0;
	own->until = tp->snd_nxt;
}
static u32 marks_ssthresh(struct sock *sk)
{
	struct marks *own = inet_csk_ca(sk);
	u32 window = tcp_sk(sk)->snd_cwnd;

	return max(window - window * own->share / 2048, 2U);
}
static void marks_avoid(struct sock *sk, u32 ack, u32 acked, u32 in_flight)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}
static void marks_acked(struct sock *sk, u32 packets, s32 rtt_us)
{
	struct marks *own = inet_csk_ca(sk);

	own->rtt = ACCESS_ONCE(own->rtt) + rtt_us * packets;
}
static struct tcp_congestion_ops marks_ops = {
	.name = "marks", .owner = THIS_MODULE, .init = marks_init, .ssthresh = marks_ssthresh,
	.cong_avoid = marks_avoid, .in_ack_event = marks_ack, .pkts_acked = marks_acked,
};
static int __init marks_register(void)
{
	return tcp_register_congestion_control(&marks_ops);
}
module_init(marks_register);
MODULE_LICENSE("GPL");
"""


def test_old_module_that_counts_marks_keeps_the_queue_at_the_threshold(
    campaign_folder, tmp_path, monkeypatch
):
    """As DCTCP does. Without its count of marks it would fill the buffer, because its share is 0.

    The path holds 33 packets, so the halved window of 53 keeps the link nearly full.
    """
    monkeypatch.chdir(campaign_folder)
    (tmp_path / "marks.c").write_text(MARKS)
    assert cli.main(["new", "algorithm", "marks", "--from", str(tmp_path / "marks.c")]) == 0
    path = Condition(
        algorithm="marks", ecn="on", queue="red-step", mark_packets=20, rtt_ms=20, rate_mbit=20,
        buffer_packets=300, duration_s=5, warmup_s=1,
    )  # fmt: skip
    assert cli.main(["kernel", "--algorithm", "marks"]) == 0
    manifest = run(path, 1, tmp_path / "out", instrument(condition=path))
    assert manifest["reasons"] == []
    assert manifest["summary"]["retransmits"] == 0
    assert 3 < manifest["summary"]["queue_mean_packets"] < 30
    assert manifest["summary"]["goodput_mbit"] > 17


DECLARED, OPS = "static void template_cc_init", "\t.undo_cwnd\t= tcp_reno_undo_cwnd,\n"
GOAL = "static u32 goal(struct sock *sk, unsigned int mss) { return 2; }\n"
# What people bring, as changes of the template: lines, and what replaces them.
REGISTERS = {
    "bigstate": {"\tu32 losses;\n": "\tu32 losses;\n\tu64 more[20];\n"},
    "param": {DECLARED: f"static uint gain = 1;\nmodule_param(gain, uint, 0644);\n{DECLARED}"},
    "Upper-Case": {'"template"': '"Upper-Case"'},
    "floats": {"/ 2, 2U": "* 0.7, 2.0"},
}
REFUSED = {
    "minmacro": ({"max(tcp_snd_cwnd(tcp_sk(sk)) / 2, 2U)": "max((int)own->losses, 2U)"},
                 "min() and max() compare numbers of one type: use min_t(u32, a, b)"),
    "symbol": ({DECLARED: "u32 tcp_reno_ssthresh(struct sock *sk) { return 2; }\n" + DECLARED},
               "another file of the module or of the kernel defines this name"),
    "tsosegs": ({DECLARED: GOAL + DECLARED, OPS: f"{OPS}\t.tso_segs = goal,\n"},
                "BBRv3's patch adds this: try the kernel 6.12-bbr3"),
    "header": ({DECLARED: f'#include "config.h"\n{DECLARED}'},
               "must have the files that it includes, found no config.h"),
}  # fmt: skip


def brought(tmp_path, name, changes):
    """Write a kind to a file, and return its import's exit status."""
    text = TEMPLATE
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / f"{name}.c"
    path.write_text(re.sub(f"(?<![a-z]){new.TEMPLATE}", name.replace("-", "_"), text))
    return cli.main(["new", "algorithm", name, "--from", str(path)])


def test_every_kind_that_can_run_registers(campaign_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(campaign_folder)
    for name, changes in REGISTERS.items():
        assert brought(tmp_path, name, changes) == 0
    words = [word for name in REGISTERS for word in ("--algorithm", name)]
    assert cli.main(["kernel", *words]) == 0
    said = capsys.readouterr().out
    assert [name for name in REGISTERS if f"{name} registers on 6.12" not in said] == []


@pytest.mark.parametrize("name", REFUSED)
def test_kind_that_cannot_run_is_refused_with_its_reason(
    campaign_folder, tmp_path, monkeypatch, capsys, name
):
    monkeypatch.chdir(campaign_folder)
    changes, reason = REFUSED[name]
    failed = brought(tmp_path, name, changes) or cli.main(
        ["kernel", "--name", "6.12", "--algorithm", name]
    )
    assert failed
    assert reason in capsys.readouterr().err

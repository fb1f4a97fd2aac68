"""User congestion controls, compiled into the kernel: correct and broken ones."""

import json
import re
import shutil

import pytest

from losslab import cli, new
from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.errors import LosslabError
from losslab.instrument import kernel, kernels
from losslab.study.condition import Condition

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and kernel.existing_objects(kernels.default())),
    reason="no object files of the kernel: run `losslab kernel --algorithm gaimd`",
)
TEMPLATE = kernels.source_of(new.TEMPLATE).read_text()
SSTHRESH = "\town->losses++;\n"
BROKEN = {
    "panics": (SSTHRESH, '\tpanic("the author was here");\n', "the author was here"),
    "endless": (SSTHRESH, "\tfor (;;)\n\t\tbarrier();\n", "must end within"),
}


def condition(algorithm):
    return Condition(
        algorithm=algorithm, loss_percent=1, rtt_ms=10, rate_mbit=20, buffer_packets=50,
        duration_s=2, warmup_s=0.5,
    )  # fmt: skip


@pytest.fixture
def tools(campaign_folder):
    """Return a function that builds the instrument of an algorithm from its source."""

    def made(name, text):
        path = campaign_folder / "algorithms" / name / f"tcp_{name}.c"
        path.parent.mkdir(parents=True)
        path.write_text(re.sub(f"(?<![a-z]){new.TEMPLATE}", name, text))
        return instrument(spec=kernels.get(kernels.DEFAULT, [name]))

    return made


def test_algorithm_skeleton_gives_renos_bytes(tools, tmp_path):
    # The names have the same length because iperf3 sends them over the path.
    mine = run(condition("mine"), 1, tmp_path / "mine", tools("mine", TEMPLATE))
    reno = run(condition("reno"), 1, tmp_path / "reno", instrument())
    assert mine["reasons"] == []
    assert mine["summary"] == reno["summary"]
    assert "tcp_mine.c" in mine["instrument"]["kernel"]["algorithms"]
    assert (tmp_path / "mine/tcp.csv").read_bytes() == (tmp_path / "reno/tcp.csv").read_bytes()


@pytest.mark.parametrize("name", BROKEN)
def test_broken_algorithm_is_an_invalid_row_with_its_violation(tools, tmp_path, name):
    before, after, words = BROKEN[name]
    assert before in TEMPLATE
    broken = tools(name, TEMPLATE.replace(before, after))
    manifest = run(condition(name), 1, tmp_path / "out", broken, timeout_s=10, attempts=1)
    assert not manifest["valid"]
    assert words in " ".join(manifest["reasons"])
    written = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert written.pop("files")
    assert written == manifest


def test_algorithm_with_a_minimal_window_is_measured(tools, tmp_path):
    """With a window of zero, the kernel's window probes still carry data."""
    check = "\tif (!tcp_is_cwnd_limited(sk))\n"
    silent = tools("silent", TEMPLATE.replace(check, "\ttp->snd_cwnd = 0;\n"))
    manifest = run(condition("silent"), 1, tmp_path / "out", silent, timeout_s=60, attempts=1)
    assert not manifest["valid"] or manifest["summary"]["goodput_mbit"] < 0.1


def test_compile_error_quotes_the_compiler(tools, tmp_path):
    with pytest.raises(LosslabError) as error:
        tools("typo", TEMPLATE.replace("own->losses++", "own->looses++"))
    line = 1 + TEMPLATE[: TEMPLATE.index("own->losses++")].count("\n")
    assert f"tcp_typo.c:{line}:" in error.value.message
    assert "has no member named" in error.value.message
    assert list((kernel.cache_folder() / "kernel").glob("*/tcp_typo*")) == []


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

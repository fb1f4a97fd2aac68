"""User congestion controls, compiled into the kernel: correct and broken ones."""

import json
import re
import shutil

import pytest

from losslab import new
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

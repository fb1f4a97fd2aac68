"""Cells on kernels other than the default one, if they are built."""

import csv
import json
import shlex

import pytest

from bench import golden
from losslab import cli
from losslab.backends.snapshot import Snapshots
from losslab.campaign import replicate, rerun
from losslab.campaign.instrument import instrument
from losslab.instrument import kernel, kernels
from losslab.study.condition import Condition
from tests.faults.kit import contents

pytestmark = pytest.mark.nightly

OTHERS = [name for name, which in kernels.declared().items() if which != kernels.default()]
CELL = [
    "--loss-percent", "1", "--rtt-ms", "10", "--rate-mbit", "20", "--buffer-packets", "50",
    "--duration-s", "2", "--warmup-s", "0.5",
]  # fmt: skip


@pytest.fixture(params=OTHERS)
def name(request):
    if kernel.part(kernels.get(request.param)).existing() is None:
        pytest.skip(f"`{kernels.get(request.param).command}`: ten minutes")
    return request.param


def measured(out, *words):
    status = cli.main(["measure", "--out", str(out), *CELL, *words])
    return status, json.loads((out / "manifest.json").read_text())


def test_cell_on_another_kernel_is_valid_and_repeats_its_bytes(tmp_path, name):
    words = ("--algorithm", "cubic", "--kernel", name)
    status, manifest = measured(tmp_path / "a", *words)
    assert manifest["reasons"] == []
    assert status == 0
    assert manifest["machine"]["kernel"].startswith(f"{kernels.get(name).series.name}.")
    assert manifest["instrument"]["kernel"]["name"] == name
    measured(tmp_path / "b", *words)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    measured(tmp_path / "c", *words, "--seed", "2")
    assert contents(tmp_path / "c")["tcp.csv"] != contents(tmp_path / "a")["tcp.csv"]


def test_fork_on_another_kernel_gives_the_bytes_of_a_freshly_booted_guest(tmp_path, name):
    tools = instrument(spec=kernels.get(name))
    condition = Condition(
        algorithm="cubic", kernel=name, loss_percent=1, rate_mbit=20, duration_s=2, warmup_s=0.5
    )
    replicate.run(condition, 7, tmp_path / "boot", tools, None, alone=True)
    with Snapshots() as snapshots:
        for seed in (8, 7):
            replicate.run(condition, seed, tmp_path / f"{seed}", tools, None, snapshots=snapshots)
    assert contents(tmp_path / "7") == contents(tmp_path / "boot")
    assert contents(tmp_path / "8")["tcp.csv"] != contents(tmp_path / "boot")["tcp.csv"]


@pytest.mark.parametrize("words", ["--algorithm reno", "--algorithm cubic --queue fq_codel"])
def test_future_on_another_kernel_has_the_bytes_of_the_uncut_run(tmp_path, name, words):
    golden.check_cuts(f"{words} {shlex.join(CELL)} --kernel {name}", tmp_path, 5)


def test_losses_of_a_run_on_another_kernel_can_be_changed_and_listed(tmp_path, name, capsys):
    assert measured(tmp_path / "run", "--algorithm", "cubic", "--kernel", name)[0] == 0
    capsys.readouterr()
    run, out = str(tmp_path / "run"), tmp_path / "futures"
    assert cli.main(["whatif", run, "--at", "1", "--list", "--json"]) == 0
    number = str(json.loads(capsys.readouterr().out)[0]["number"])
    assert cli.main(["whatif", run, "--at", "1", "--spare", number, "--out", str(out)]) == 0
    future = out / f"spare-{number}"
    manifest = rerun.load_manifest(future)
    assert number not in manifest["cell"]["drop_list"].split(",")
    # It is a replicate of the condition that lists its drops.
    assert cli.main(["rerun", str(future)]) == 0


def test_algorithm_selects_its_kernel(tmp_path):
    if kernel.part(kernels.get("6.12-bbr3")).existing() is None:
        pytest.skip("`losslab kernel --name 6.12-bbr3`: ten minutes")
    status, manifest = measured(tmp_path / "out", "--algorithm", "bbr3")
    assert (status, manifest["cell"]["kernel"]) == (0, "default")
    assert manifest["instrument"]["kernel"]["name"] == "6.12-bbr3"


@pytest.mark.parametrize("name", ["6.12", "7.2"])
def test_record_of_many_losses_has_each_packet_once(tmp_path, name):
    """The kernel enlarges its record several times; each loss has its own number and time."""
    if kernel.part(kernels.get(name)).existing() is None:
        pytest.skip(f"`{kernels.get(name).command}`: ten minutes")
    numbers = list(range(100, 2100, 10))
    words = ("--algorithm", "bbr", "--drop-list", "data " + ",".join(map(str, numbers)))
    status, manifest = measured(tmp_path / "out", *words, "--kernel", name)
    assert (status, manifest["reasons"]) == (0, [])
    with (tmp_path / "out" / "drops.csv").open() as table:
        rows = [row for row in csv.DictReader(table) if row["direction"] == "data"]
    assert [(int(row["number"]), row["outcome"]) for row in rows] == [
        (number, "dropped") for number in numbers
    ]


def test_features_of_newer_kernels_mark_and_are_counted(tmp_path, capsys):
    """DualPI2 with Accurate ECN; every other kernel refuses both."""
    if kernel.part(kernels.get("7.2")).existing() is None:
        pytest.skip(f"`{kernels.get('7.2').command}`: ten minutes")
    words = ("--algorithm", "cubic", "--loss-percent", "0", "--ecn", "accurate")
    status, manifest = measured(tmp_path / "a", *words, "--queue", "dualpi2", "--kernel", "7.2")
    assert (status, manifest["reasons"]) == (0, [])
    counted = manifest["observed"]["traffic"]
    assert counted["marks"] == counted["ce_received"] > 0
    assert manifest["observed"]["state"]["r1"]["dualpi2"]["limit"] == 50
    assert cli.main(["measure", "--out", str(tmp_path / "b"), *CELL, *words]) == 2
    assert "ecn accurate needs a kernel with Accurate ECN" in capsys.readouterr().err

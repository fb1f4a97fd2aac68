"""Cells on kernels other than the default one, if they are built."""

import json

import pytest

from losslab import cli
from losslab.campaign.instrument import instrument
from losslab.instrument import kernel, kernels

OTHERS = [name for name, which in kernels.declared().items() if which != kernels.default()]
CELL = [
    "--loss-percent", "1", "--rtt-ms", "10", "--rate-mbit", "20", "--buffer-packets", "50",
    "--duration-s", "2", "--warmup-s", "0.5",
]  # fmt: skip


@pytest.fixture(params=OTHERS)
def name(request):
    if kernel.existing(kernels.get(request.param)) is None:
        pytest.skip(f"`{kernels.get(request.param).command}`: ten minutes")
    return request.param


def measured(out, *words):
    status = cli.main(["measure", "--out", str(out), *CELL, *words])
    return status, json.loads((out / "manifest.json").read_text())


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "host.json"}


def test_cell_on_another_kernel_is_valid_and_repeats_its_bytes(tmp_path, name):
    words = ("--algorithm", "cubic", "--kernel", name)
    status, manifest = measured(tmp_path / "a", *words)
    assert manifest["reasons"] == []
    assert status == 0
    assert manifest["machine"]["kernel"].startswith(f"{kernels.get(name).series.name}.")
    assert manifest["instrument"]["kernel"]["name"] == name
    measured(tmp_path / "b", *words)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    # The seed has an effect without a snapshot, too.
    measured(tmp_path / "c", *words, "--seed", "2")
    assert contents(tmp_path / "c")["tcp.csv"] != contents(tmp_path / "a")["tcp.csv"]


def test_kernels_without_the_snapshot_patch_boot_each_job(name):
    tools = instrument(spec=kernels.get(name))
    patches = kernels.get(name).patch_names
    assert tools.snapshots == ("0013-um-copies-of-copies.patch" in patches)


def test_algorithm_selects_its_kernel(tmp_path):
    if kernel.existing(kernels.get("6.12-bbr3")) is None:
        pytest.skip("`losslab kernel --name 6.12-bbr3`: ten minutes")
    status, manifest = measured(tmp_path / "out", "--algorithm", "bbr3")
    assert (status, manifest["cell"]["kernel"]) == (0, "default")
    assert manifest["instrument"]["kernel"]["name"] == "6.12-bbr3"


def test_missing_kernel_is_named_with_its_build_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path))
    assert cli.main(["measure", "--algorithm", "cubic", "--kernel", "6.1", "--out", "x"]) == 1
    words = capsys.readouterr().err
    assert "the pinned kernel 6.1 is not built" in words
    assert "losslab kernel --name 6.1" in words


def test_features_of_newer_kernels_mark_and_are_counted(tmp_path):
    """DualPI2 with Accurate ECN; every other kernel refuses both."""
    if kernel.existing(kernels.get("7.2")) is None:
        pytest.skip(f"`{kernels.get('7.2').command}`: ten minutes")
    words = ("--algorithm", "cubic", "--loss-percent", "0", "--ecn", "accurate")
    status, manifest = measured(tmp_path / "a", *words, "--queue", "dualpi2", "--kernel", "7.2")
    assert (status, manifest["reasons"]) == (0, [])
    counted = manifest["observed"]["traffic"]
    assert counted["marks"] == counted["ce_received"] > 0
    assert manifest["observed"]["state"]["r1"]["dualpi2"]["limit"] == 50
    status, manifest = measured(tmp_path / "b", *words)
    assert status == 1
    assert "ecn accurate needs a kernel with Accurate ECN" in manifest["reasons"][0]

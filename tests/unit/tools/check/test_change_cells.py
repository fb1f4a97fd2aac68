"""Cells of `losslab check`."""

import pytest

from losslab import cli
from losslab.instrument import kernels
from losslab.reading import UsageError
from losslab.tools.check import cells

SCENARIOS = ("loss", "deep", "fast", "shared", "short", "steps")


def plan(*words):
    return cells.plan(cli.parser().parse_args(["check", "--out", "x", *words]))


def test_suite_has_twelve_cells_of_cubic_and_bbr():
    its = plan()
    assert list(its) == [f"{name}/{a}" for name in SCENARIOS for a in ("cubic", "bbr")]
    assert {cell.replicates for cell in its.values()} == {8}
    assert its["shared/bbr"].condition.competitor == "cubic"
    assert its["deep/bbr"].condition.buffer_packets == 264


def test_options_add_algorithms_select_cells_and_set_their_kernel():
    assert "loss/gaimd" in plan("--algorithm", "gaimd")
    assert list(plan("--only", "loss", "--only", "deep/bbr")) == [
        "loss/cubic", "loss/bbr", "deep/bbr"
    ]  # fmt: skip
    assert {cell.replicates for cell in plan("--full").values()} == {20}
    assert {cell.condition.kernel for cell in plan("--kernel", "7.2").values()} == {"7.2"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nothing"], "--only must name one of loss/cubic"),
        (["--algorithm", "nothing"], "algorithms must be in"),
        (["--suite", "rfc9743"], "metrics to compare"),
        (
            ["--suite", "nothing"],
            "a suite must be one of bbr-draft, c4-tests, ci, rfc9438, rfc9743",
        ),
    ],
)
def test_unknown_names_are_refused(words, message):
    with pytest.raises(UsageError, match=message):
        plan(*words)


def test_program_replaces_tcp_in_scenarios_without_other_flows():
    its = plan("--sender-command", "./send", "--receiver-command", "./receive")
    assert [name.split("/")[0] for name in its] == ["loss", "deep", "fast", "steps"]
    assert {cell.condition.app for cell in its.values()} == {"command"}


def test_side_has_its_kernel_and_user_files(tmp_path, root):
    path = tmp_path / "net" / "ipv4" / "tcp_cubic.c"
    path.parent.mkdir(parents=True)
    path.write_text("")
    side = cells.Side(tmp_path, "tests/fixtures/programs")
    with side.active():
        assert [each.path for each in kernels.get("default").replaced] == ["net/ipv4/tcp_cubic.c"]
    assert kernels.get("default").replaced == ()
    condition = plan()["loss/cubic"].condition
    assert side.of(condition).bring == "tests/fixtures/programs"
    assert cells.Side(None).of(condition) == condition

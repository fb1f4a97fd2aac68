"""Replicates that become rows, stop a cell or are kept; the guests are made up."""

import json
import subprocess

import pytest

from losslab.backends import runner
from losslab.backends.base import Instrument, Outcome
from losslab.campaign import cellrun, replicate, results
from losslab.emulation.kernellog import BOOT_LOG
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.instrument import fetch, integrity, kernels
from losslab.study.condition import replicate_seed, seed_of
from losslab.study.intervals import StoppingRule
from tests.unit.study.test_condition import CONDITION

GOOD = {"summary": {"goodput_mbit": 5.0}, "observed": {}, "plan": {}, "machine": {}, "reasons": []}

LOST = GuestLostError("the guest must leave result.json, found none")

ONE = StoppingRule(1, 1)


@pytest.fixture
def tools(tmp_path):
    built = tmp_path / "cache" / "kernel"
    (tmp_path / "cache/root/usr/bin").mkdir(parents=True)
    (tmp_path / "cache/root/usr/bin/tc").write_text("tc")
    (tmp_path / "cache/root/init").touch()
    integrity.record_tree(tmp_path / "cache", "")
    built.mkdir()
    (built / "linux").write_text("a kernel")
    (built / integrity.LINUX_DIGEST).write_text(fetch.digest(built / "linux") + "\n")
    return Instrument(built / "linux", tmp_path / "cache/root", {"kernel": {"hash": "k"}})


@pytest.fixture
def guests(monkeypatch):
    """Return a function that sets how guests end, in order: with an error or a result."""

    def end_as(*ends):
        waiting = iter(ends)

        def launch(*_):
            end = next(waiting)
            if isinstance(end, Exception):
                raise end
            return Outcome(end, 1.0)

        monkeypatch.setattr(runner, "run", launch)

    return end_as


def measured(tmp_path, tools, rule=ONE):
    folder = tmp_path / "cell"
    folder.mkdir(exist_ok=True)
    count = cellrun.run_cell(CONDITION, folder, rule, tools)
    return results.cell_content("study", "block", CONDITION, folder, count)["replicates"]


def names(tmp_path):
    return sorted(path.name for path in (tmp_path / "cell").iterdir())


def kept(tmp_path, tools, number=0):
    seed = replicate_seed(CONDITION, number)
    return cellrun.finished(tmp_path / "cell" / str(number), CONDITION, seed, tools)


def test_failed_check_becomes_a_row_and_is_kept(tmp_path, tools, guests):
    guests(GOOD | {"reasons": ["RTT must be 20 ms"]}, LosslabError("tc must succeed"))
    rows = measured(tmp_path, tools, StoppingRule(2, 2))
    assert [row["reasons"] for row in rows] == [["RTT must be 20 ms"], ["tc must succeed"]]
    assert not any(row["valid"] or row["lost"] for row in rows)
    assert kept(tmp_path, tools, 0)
    assert kept(tmp_path, tools, 1)


def test_host_error_becomes_no_row_and_is_retried(tmp_path, tools, guests):
    guests(GOOD, HostError("no scratch space", hint="free some"))
    with pytest.raises(HostError, match="no scratch space"):
        measured(tmp_path, tools, StoppingRule(2, 2))
    assert names(tmp_path) == ["0"]
    guests(GOOD)
    rows = measured(tmp_path, tools, StoppingRule(2, 2))
    assert [row["valid"] for row in rows] == [True, True]


def test_another_family_of_seeds_is_measured_again(tmp_path, tools, guests):
    guests(GOOD, GOOD)
    first = measured(tmp_path, tools)
    cellrun.run_cell(CONDITION, tmp_path / "cell", ONE, tools, family=2)
    rows = results.cell_content("study", "block", CONDITION, tmp_path / "cell", 1)["replicates"]
    assert [row["seed"] for row in first] == [seed_of(CONDITION, 0)]
    assert [row["seed"] for row in rows] == [seed_of(CONDITION, 0, 2)]


def test_lost_guest_is_retried_once(tmp_path, tools, guests):
    guests(LOST, GOOD)
    (row,) = measured(tmp_path, tools)
    assert row["valid"]
    assert (row["attempt"], row["earlier_reasons"]) == (2, [str(LOST)])


def test_guest_lost_twice_becomes_a_row_that_is_retried_later(tmp_path, tools, guests, monkeypatch):
    monkeypatch.setattr(cellrun, "self_test", lambda instrument: "fine")
    guests(GOOD, LOST, LOST, GOOD)
    rows = measured(tmp_path, tools, StoppingRule(3, 3))
    # The cell ends there: the same cause would lose the other guests, too.
    assert [(row["valid"], row["lost"]) for row in rows] == [(True, False), (False, True)]
    assert kept(tmp_path, tools, 0)
    assert not kept(tmp_path, tools, 1)
    note = json.loads((tmp_path / "cell" / results.LOST_FILE).read_text())
    assert (note["replicate"], note["reasons"]) == ("1", [str(LOST)])
    guests(GOOD, GOOD)
    rows = measured(tmp_path, tools, StoppingRule(3, 3))
    assert [row["valid"] for row in rows] == [True] * 3


def test_losing_every_guest_stops_the_cell(tmp_path, tools, guests):
    guests(LOST, LOST, HostError("the self-test's guest", hint="make setup"))
    with pytest.raises(
        HostError, match=r"result\.json, found none\nthe self-test's guest"
    ) as error:
        measured(tmp_path, tools)
    assert error.value.hint == "make setup"
    assert names(tmp_path) == []


def test_lost_guest_of_a_changed_kernel_is_its_result(tmp_path, tools, guests):
    """Without a self-test, which the changed file may break, too."""
    path = tmp_path / "files" / "net" / "ipv4" / "tcp_cubic.c"
    path.parent.mkdir(parents=True)
    path.write_text("")
    guests(LOST, LOST)
    with kernels.replacing(tmp_path / "files"):
        (row,) = measured(tmp_path, tools)
    assert (row["lost"], row["reasons"]) == (True, [str(LOST)])


def test_console_of_a_run_has_the_boot_that_its_kernel_warned_in(tmp_path, tools, monkeypatch):
    boot = "sysfs: cannot create duplicate filename\n[    0.000000] Call Trace:\n"
    messages = {"warnings": [], "earlier": boot.splitlines()[1:], "lost": False}

    def launch(_backend, _tools, job, *_):
        (job.folder / BOOT_LOG).write_text(boot)
        return Outcome(GOOD | {"messages": messages}, 1.0)

    monkeypatch.setattr(runner, "run", launch)
    measured(tmp_path, tools)
    console = next((tmp_path / "cell").rglob("console.log"))
    assert console.read_text() == boot


@pytest.mark.parametrize("failure", [LosslabError("no such file"), HostError("it must boot")])
def test_file_lost_from_the_image_during_a_run_is_a_host_error(
    failure, tmp_path, tools, monkeypatch
):
    def lose(*_):
        (tools.image_root / "usr/bin/tc").unlink()
        raise failure

    monkeypatch.setattr(runner, "run", lose)
    with pytest.raises(HostError, match="found: usr/bin/tc is missing"):
        measured(tmp_path, tools)
    assert names(tmp_path) == []


def test_recorded_numbers_do_not_count_as_changes_of_the_code(tmp_path):
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", tmp_path)
    for name in ("recorded/full/record.tsv", "src/code.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("a\n")
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "base"], check=True)
    (tmp_path / "recorded/full/record.tsv").write_text("b\n")
    state = replicate.git_state.__wrapped__(tmp_path)
    assert state["commit"] and state["dirty"] is False
    (tmp_path / "src/code.py").write_text("b\n")
    assert replicate.git_state.__wrapped__(tmp_path)["dirty"] is True

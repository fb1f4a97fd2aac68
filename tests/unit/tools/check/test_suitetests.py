"""Tests of a suite in `losslab check`: passed, failed, or other bytes under the same verdict."""

import pytest
import yaml

from losslab import cli
from losslab.reading import UsageError
from losslab.runs.command import FAILED, PASSED, End
from losslab.study import studyfiles
from losslab.study.schemas import check_schema
from losslab.tools.check import cells, check, suitetests
from losslab.tools.check.cells import Side
from tests.unit.tools.check.test_check import data

COMMANDS = {
    "ok": {"command": "true"},
    "refused": {"command": "./client", "status": 3, "seeds": 2, "bring": ["tests/fixtures"]},
}
SUITE = {"suite": "mine", "title": "x", "source": "x", "defaults": {}, "commands": COMMANDS}


def end(seed=1, output=b"a\n", why="", packets=("0.1\tp",), **more):
    verdict = FAILED if why else PASSED
    return End(seed, 1 if why else 0, why, output, 1.5, verdict, packets, (), **more)


def row(before, after, name="commands/ok"):
    return suitetests.compared(name, before, after, "losslab run ...")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return a function that writes the suite `mine` of a campaign's folder."""
    (tmp_path / ".losslab-folder").write_text("")
    (tmp_path / "suites").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(studyfiles.extensions, "folder", lambda: tmp_path)

    def write(**more):
        (tmp_path / "suites/mine.yaml").write_text(yaml.safe_dump(SUITE | more))
        return studyfiles.load_suite("mine")

    return write


def test_status_that_a_test_must_have_decides_its_verdict():
    three = End(1, 3, "exit status 3", b"", 1.0)
    assert suitetests.judged(three, 3).verdict == PASSED
    assert suitetests.judged(three, 0).why == "exit status 3, must be 0"
    assert suitetests.judged(End(1, 0, "", b"", 1.0, PASSED), 3).verdict == FAILED
    warned = End(1, 0, "the kernel printed: WARNING", b"", 1.0)
    assert suitetests.judged(warned, 0) == warned
    spins = End(1, None, "it computes without end", b"")
    assert suitetests.judged(spins, 0) == spins


def test_bytes_are_output_packets_events_and_duration():
    same = row([end()], [end()])
    assert (same["verdict"], same["changed"], same["command"]) == (PASSED, [], "")
    late = End(1, 0, "", b"a\n", 1.6, PASSED, ("0.1\tp",), ())
    event = End(1, 0, "", b"a\n", 1.5, PASSED, ("0.1\tp",), ("0.1\tack",))
    for after in (end(packets=["0.1\tq"]), end(output=b"b\n"), late, event):
        changed = row([end()], [after])
        assert (changed["verdict"], changed["changed"]) == (suitetests.CHANGED, [1])
        assert changed["first_difference"]
    assert row([end()], [late])["first_difference"] == [
        "it ended after 1.500000000 s in A, 1.600000000 s in B"
    ]


def test_new_failures_fail_always_old_ones_never_and_bytes_if_asked_for():
    bad = end(2, b"x\n\x1b[1mno\n", "exit status 1, must be 0")
    found = [
        row([end(), end(2)], [end(), bad]), row([bad], [bad], "commands/old"),
        row([end()], [end(packets=())], "commands/moved"),
    ]  # fmt: skip
    assert [each["verdict"] for each in found] == [FAILED, FAILED, suitetests.CHANGED]
    assert found[0]["output"] == ["x", "?[1mno"]
    new = "commands/ok: failed with seed 2, passed before: exit status 1, must be 0"
    assert list(suitetests.failures(found, bytes_too=False)) == [new]
    assert list(suitetests.failures(found, bytes_too=True)) == [
        new, "commands/moved: 1 of 1 runs have other bytes"
    ]  # fmt: skip
    assert suitetests.first_seed([end(), end(2)], [end(), bad]) == 2


def test_report_has_counts_and_what_repeats_a_failure():
    bad = end(output=b"no\n", why="exit status 1, must be 0")
    report = data(commands=[row([end()], [bad]), row([end()], [end()], "commands/b")])
    check_schema(report, "check", "the report")
    text = check.markdown(report)
    assert "**2 tests: 1 passed, 1 failed, 0 bytes changed.**" in text
    assert "| commands/ok | **failed** | 1 of 1          | 0 of 1         | 1 of 1        |" in text
    assert "    | no\nA: before the change, B: after it\nline 1 of the output differs:" in text
    [line] = check.workflow_commands(report)
    assert line == (
        "::error file=net/ipv4/tcp_cubic.c,title=losslab commands/ok::failed: exit status 1, must "
        "be 0"
    )
    alone = check.markdown(report | {"cells": []})
    assert alone.startswith("**losslab check: 2 tests: 1 passed")
    skipped = report | {"cells": [], "commands": [], "same_kernel": ["commands/ok"]}
    assert " 1 tests were not measured" in check.markdown(skipped)


def test_suite_without_metrics_has_its_tests_alone(own):
    tests = suitetests.plan(own(), "7.2")
    assert list(tests) == ["commands/ok", "commands/refused"]
    refused = tests["commands/refused"]
    assert (refused.status, refused.seeds, refused.kernel) == (3, (1, 2), "7.2")
    words = ["check", "--out", "x", "--suite", "mine", "--only"]
    assert cells.plan(cli.parser().parse_args([*words, "commands"]), [*tests]) == {}
    with pytest.raises(UsageError, match="one of commands/ok, commands/refused, found loss"):
        cells.plan(cli.parser().parse_args([*words, "loss"]), [*tests])
    assert list(cells.chosen(["commands/ok"], tests)) == ["commands/ok"]


def test_command_that_repeats_a_test_has_its_files_kernel_and_change(own, tmp_path):
    refused = suitetests.plan(own(), "7.2")["commands/refused"]
    (tmp_path / "files").mkdir()
    (tmp_path / "files/tcp.c").write_text("")
    text = refused.again(Side(tmp_path / "files"), tmp_path / "new", 2)
    assert text.startswith(f"LOSSLAB_KERNEL_FILES={tmp_path}/files losslab run --seeds 2 --bring ")
    assert text.endswith(f"--bring {tmp_path}/new --kernel 7.2 -- sh -c ./client")


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": "x", "bring": ["../../etc"]}, {"command": "x", "bring": ["/etc"]},
        {"command": "x", "status": 256}, {"command": ""}, {"status": 0},
    ],
)  # fmt: skip
def test_wrong_commands_of_a_suite_are_refused(own, wrong):
    with pytest.raises(UsageError, match="commands"):
        own(commands={"x": wrong})


def test_scenario_must_not_have_the_name_of_the_tests(own):
    scenario = {"what": "x", "points": {"loss_percent": 1}, "full": {
        "replicates": 5, "duration_s": 2, "warmup_s": 1}}  # fmt: skip
    with pytest.raises(UsageError, match="no scenario may have the name"):
        own(compared=["goodput_mbit"], baselines=["cubic"], scenarios={"commands": scenario})

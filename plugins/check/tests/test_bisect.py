"""`losslab bisect`: the search over steps, with a substitute for measurements."""

import json

import pytest

from losslab import cli
from losslab.campaign.results import MANIFEST_FILE
from losslab.errors import LosslabError
from losslab.instrument.kerneltree import SourceError
from losslab.study.condition import Condition
from losslab_check import bisect, cells

CONDITION = Condition(algorithm="cubic", rtt_ms=10)
BROKEN = SourceError("net/ipv4/tcp_cubic.c must compile, found:\nerror")


@pytest.fixture
def search(monkeypatch, tmp_path):
    """Return a function that makes a search over steps with these goodputs; None: broken."""
    measured = []

    def made(goodputs, names=("a", "b"), quiet=("a",)):
        def write(folder, at):
            folder.mkdir()
            (folder / "file.c").write_text(str(at))

        def digests(its, side):
            at = int(next(side.files.iterdir()).read_text())
            if goodputs[at] is None:
                raise BROKEN
            return dict.fromkeys(its, f"{goodputs[at]}")

        def capture(runs, side, cores, title):
            at = int(next(side.files.iterdir()).read_text())
            measured.append(at)
            for folder in runs:
                folder.mkdir(parents=True)
                value = 5.0 if folder.name in quiet else goodputs[at]
                manifest = {"valid": True, "summary": {"goodput_mbit": value}}
                (folder / MANIFEST_FILE).write_text(json.dumps(manifest))

        monkeypatch.setattr(cells, "kernel_digests", digests)
        monkeypatch.setattr(cells, "capture", capture)
        monkeypatch.setattr(
            bisect, "load_manifest", lambda path: json.loads((path / MANIFEST_FILE).read_text())
        )
        steps = [
            bisect.Step(f"commit {at}", "", lambda folder, at=at: write(folder, at))
            for at in range(len(goodputs))
        ]
        its = {name: cells.Cell(CONDITION, 8) for name in names}
        return bisect.Search(steps, its, dict.fromkeys(names, 7), tmp_path / "out", 1), measured

    return made


def found(search, test):
    cell, expected = bisect._deciding_cell(search, test)
    return cell, *bisect._halve(search, test, cell, expected)


@pytest.mark.parametrize("at", [1, 2, 31, 32, 62, 63])
def test_changed_step_of_64_is_found(search, at):
    its, measured = search([1.0 if n < at else 2.0 for n in range(64)])
    assert found(its, bisect.Criterion()) == ("b", at - 1, at, [])
    assert len(measured) <= 2, "a step with the same binary has its runs"


def test_every_step_with_its_own_binary_needs_one_run(search):
    its, measured = search([1.0 + n / 1000 + (n >= 40) for n in range(64)])
    bound = bisect.Criterion("goodput_mbit", at_most=1.5)
    assert found(its, bound) == ("b", 39, 40, [])
    assert len(measured) == 2 + 6


def test_first_step_with_other_bytes_is_found_although_later_ones_differ(search):
    its, _ = search([1.0] * 20 + [2.0 + n for n in range(20)])
    assert found(its, bisect.Criterion()) == ("b", 19, 20, [])


def test_steps_that_do_not_compile_are_skipped_and_named(search):
    its, _ = search([1.0, 1.0, None, None, 2.0, 2.0])
    assert found(its, bisect.Criterion()) == ("b", 1, 4, ["commit 3", "commit 2"])
    its, _ = search([1.0, None, 1.0, 1.0, 2.0, 2.0])
    assert found(its, bisect.Criterion())[1:] == (3, 4, [])


def test_ends_without_a_difference_are_refused(search):
    its, _ = search([1.0, 1.0, 1.0])
    with pytest.raises(LosslabError, match="a cell must have other bytes"):
        found(its, bisect.Criterion())
    its, _ = search([1.0, 1.5, 1.9])
    with pytest.raises(LosslabError, match="move goodput_mbit beyond the bound"):
        found(its, bisect.Criterion("goodput_mbit", at_most=2.0))


def test_invalid_run_is_beyond_every_bound(tmp_path, monkeypatch):
    manifest = {"valid": False, "summary": {"goodput_mbit": 10.0}}
    monkeypatch.setattr(bisect, "load_manifest", lambda _: manifest)
    assert bisect.Criterion("goodput_mbit", at_least=9).result(tmp_path) is False
    manifest["valid"] = True
    assert bisect.Criterion("goodput_mbit", at_least=9).result(tmp_path) is True
    assert bisect.Criterion("goodput_mbit", at_least=11).result(tmp_path) is False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--releases", "6.12"], "two steps or more, found 1"),
        (["--releases", "6.12,nothing"], "a kernel must be one of"),
        (["--git", "."], "needs --good"),
        (["--releases", "6.12,6.1", "--metric", "goodput_mbit"], "needs --at-least"),
        (["--releases", "6.12,6.1", "--at-most", "3"], "needs --at-least"),
        (["--releases", "6.12,6.1", "--metric", "nothing", "--at-most", "3"], "the metric must"),
    ],
)
def test_impossible_options_are_refused(tmp_path, words, message):
    options = cli.parser().parse_args(["bisect", *words, "--out", str(tmp_path / "out")])
    with pytest.raises(LosslabError, match=message):
        options.run(options)

"""`losslab check` and `losslab bisect` on the kernel's own CUBIC, in one cell."""

import json
import shutil
import subprocess

import pytest

from bench import check
from losslab import cli
from losslab.instrument import kernel, kernels

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and kernel.existing_objects(kernels.default())),
    reason="no object files of the kernel: run `losslab kernel --algorithm gaimd`",
)
CELL = ["--only", "loss/cubic", "--only", "loss/bbr"]
BETA = check.MUTATIONS[0]


@pytest.fixture(scope="module")
def texts():
    """Return CUBIC's source as it is, with a comment, and with a mutation."""
    own = check.sources()[check.CUBIC]
    commented = f"/* a comment that moves all lines\n */\n{own}"
    return {"own": own, "comment": commented, "mutated": BETA.applied(commented)}


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    return tmp_path_factory.mktemp("baseline") / "baseline.json"


@pytest.fixture
def checked(texts, baseline, tmp_path, capsys):
    """Return a function that checks a source; it returns the status and the report."""

    def checked(name, *words):
        path = tmp_path / "tcp_cubic.c"
        path.write_text(texts[name])
        out = tmp_path / "out"
        status = cli.main(
            ["check", str(path), "--baseline", str(baseline), "--out", str(out), *words]
        )
        return status, capsys.readouterr().out

    return checked


def test_comment_changes_no_cell(checked):
    status, report = checked("comment", *CELL, "--measure-all")
    assert status == 0, report
    assert report.startswith("**losslab check: no cell changed.** 2 cells, 16 runs.")


def test_mutation_is_reported_with_its_cell_and_first_packet(checked, baseline):
    before = baseline.read_text()
    status, text = checked("mutated", *CELL, "--json")
    report = json.loads(text)
    assert status == 1
    assert report["replaced"] == [check.CUBIC]
    [cell] = report["changed"]
    assert cell["cell"] == "loss/cubic"
    assert len(cell["changed"]) == cell["runs"] == 8
    assert {each["metric"] for each in cell["differences"]} >= {"goodput_mbit", "retransmits"}
    assert cell["first_difference"][0].endswith("on the sender's link differs:")
    assert "cwnd" in cell["first_difference"][-1]
    assert baseline.read_text() == before, "its record must be read"


def test_file_that_does_not_compile_is_an_error(checked, texts, capsys):
    texts["broken"] = texts["own"].replace("ca->cnt = 100 * cwnd;", "ca->count = 100 * cwnd;")
    status, report = checked("broken", *CELL)
    assert (status, report) == (1, "")


def test_planted_commit_is_found(texts, tmp_path, capsys):
    repository, commits = tmp_path / "repository", []

    def git(*words):
        command = ["git", "-C", repository, "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    path = repository / check.CUBIC
    path.parent.mkdir(parents=True)
    git("init", "--quiet")
    for number in range(16):
        path.write_text(texts["own" if number < 4 else "comment" if number < 11 else "mutated"])
        git("add", "--all")
        git("commit", "--quiet", "--allow-empty", "--message", f"Commit {number}")
        commits.append(git("rev-parse", "HEAD"))
    words = ["bisect", "--git", repository, "--good", commits[0], "--only", "loss/cubic"]
    status = cli.main([*map(str, words), "--out", str(tmp_path / "out"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert status == 0
    assert (found["step"], found["title"]) == (commits[11], "Commit 11")
    assert (found["cell"], found["not_compiled"]) == ("loss/cubic", [])
    assert "differs" in found["first_difference"][0]

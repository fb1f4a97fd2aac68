"""`losslab check`, also under `git bisect run`, on the kernel's own CUBIC and BBR."""

import json
import shutil
import subprocess
import sys

import pytest
import yaml

from losslab import cli
from losslab.instrument import kernel, kernels, kerneltree
from losslab.instrument.fetch import unpinned_allowed
from tests.e2e.conftest import COMPILES

pytestmark = COMPILES
CELL = ["--only", "loss/cubic", "--only", "loss/bbr"]
CUBIC, BBR = "net/ipv4/tcp_cubic.c", "net/ipv4/tcp_bbr.c"
CELLS = [f"{s}/{a}" for s in ("loss", "deep", "fast", "shared", "short", "steps")
         for a in ("cubic", "bbr")]  # fmt: skip
# Cells with a flow of the algorithm: `shared` has a CUBIC flow in any case.
OF = {
    CUBIC: {cell for cell in CELLS if cell.endswith("cubic")} | {"shared/bbr"},
    BBR: {cell for cell in CELLS if cell.endswith("bbr")},
}
BETA = ("beta __read_mostly = 717;", "beta __read_mostly = 512;")
# A file, the text that a mutation replaces, its replacement, and cells in which it certainly acts.
MUTATIONS = {
    "beta 0.7 to 0.5": (CUBIC, *BETA, {"loss/cubic", "fast/cubic", "shared/bbr"}),
    "no fast convergence": (
        CUBIC, "tcp_snd_cwnd(tp) < ca->last_max_cwnd && fast_convergence",
        "0 && fast_convergence", {"loss/cubic"},
    ),
    "one sample of HyStart more": (
        CUBIC, "ca->sample_cnt < HYSTART_MIN_SAMPLES", "ca->sample_cnt <= HYSTART_MIN_SAMPLES",
        set(),
    ),
    "wrong sign above the origin": (
        CUBIC, "bic_target = ca->bic_origin_point + delta;",
        "bic_target = ca->bic_origin_point - delta;", set(),
    ),
    "gain of cwnd 2 to 3": (
        BBR, "bbr_cwnd_gain  = BBR_UNIT * 2;", "bbr_cwnd_gain  = BBR_UNIT * 3;", OF[BBR],
    ),
    "one round less until the pipe is full": (
        BBR, "bbr_full_bw_cnt = 3;", "bbr_full_bw_cnt = 2;", {"deep/bbr", "fast/bbr"},
    ),
    "cwnd is not rounded up": (BBR, "\tcwnd = (cwnd + 1) & ~1U;\n", "", {"loss/bbr"}),
    "pacing margin 1 % to 2 %": (
        BBR, "bbr_pacing_margin_percent = 1;", "bbr_pacing_margin_percent = 2;", OF[BBR],
    ),
}  # fmt: skip


def sources():
    """Return the kernel's files that are changed here, by path."""
    kept = kernel.objects(kernels.default()).build(unpinned_allowed(False))
    with kerneltree.own_files(kept) as tree:
        return {path: (tree / path).read_text() for path in (CUBIC, BBR)}


@pytest.fixture(scope="module")
def texts():
    """Return CUBIC's source as it is, with a comment, and with a mutation."""
    own = sources()[CUBIC]
    commented = f"/* a comment that moves all lines\n */\n{own}"
    return {"own": own, "comment": commented, "mutated": commented.replace(*BETA)}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Return a folder for many checks, which keeps the runs before the change."""
    return tmp_path_factory.mktemp("checks") / "out"


@pytest.fixture
def checked(texts, out, tmp_path, capsys):
    """Return a function that checks a source; it returns the status and the report."""

    def checked(name, *words):
        path = tmp_path / "tcp_cubic.c"
        path.write_text(texts[name])
        status = cli.main(["check", str(path), "--out", str(out), *words])
        return status, capsys.readouterr().out

    return checked


def test_comment_changes_no_cell(checked):
    status, report = checked("comment", *CELL, "--measure-all")
    assert status == 0, report
    assert report.startswith("**losslab check: no cell changed.** 2 cells, 16 runs.")


def test_mutation_is_reported_with_its_cell_and_first_packet(checked, out):
    before = {path: path.stat().st_mtime_ns for path in out.glob("baseline/*/*/*/manifest.json")}
    status, text = checked("mutated", *CELL, "--json")
    report = json.loads(text)
    assert status == 1
    assert report["replaced"] == [CUBIC]
    [cell] = report["changed"]
    assert cell["cell"] == "loss/cubic"
    assert len(cell["changed"]) == cell["runs"] == 8
    assert {each["metric"] for each in cell["differences"]} >= {"goodput_mbit", "retransmits"}
    assert cell["first_difference"][0].endswith("on the sender's link differs:")
    assert "cwnd" in cell["first_difference"][-1]
    assert {path: path.stat().st_mtime_ns for path in before} == before, "they are kept"


def test_tests_of_a_suite_have_other_bytes_where_their_verdict_is_the_same(
    texts, tmp_path, monkeypatch, capsys, root
):
    """A changed beta acts in a transfer with loss; a ping does not see it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".losslab-folder").write_text("")
    shutil.copy(root / "tests/fixtures/suite-tests/transfer.py", tmp_path)
    commands = {
        "ping": {"command": "ping -c 2 127.0.0.1"},
        "transfer": {"command": "./transfer.py", "bring": ["transfer.py"], "seeds": 3},
        "beta": {"command": "grep -x 717 /sys/module/tcp_cubic/parameters/beta"},
    }
    suite = {"suite": "mine", "title": "x", "source": "x", "defaults": {}, "commands": commands}
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites/mine.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    (tmp_path / "tcp_cubic.c").write_text(texts["mutated"])
    words = ["check", "tcp_cubic.c", "--suite", "mine", "--out", "out", "--json"]
    assert cli.main(words) == 1
    rows = json.loads(capsys.readouterr().out)["commands"]
    assert [row["verdict"] for row in rows] == ["passed", "bytes changed", "failed"]
    assert "ssthresh 7" in "".join(rows[1]["first_difference"])
    assert cli.main([*words, "--fail-on", "worse", "--only", "commands/transfer"]) == 0


def test_file_that_does_not_compile_is_an_error(checked, texts, capsys):
    texts["broken"] = texts["own"].replace("ca->cnt = 100 * cwnd;", "ca->count = 100 * cwnd;")
    status, report = checked("broken", *CELL)
    assert (status, report) == (125, "")


def test_git_bisect_finds_a_planted_commit_and_skips_one_that_does_not_compile(texts, tmp_path):
    repository, commits = tmp_path / "repository", []

    def git(*words):
        command = ["git", "-C", repository, "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    path, good = repository / CUBIC, tmp_path / "good.c"
    path.parent.mkdir(parents=True)
    good.write_text(texts["own"])
    git("init", "--quiet")
    for number, text in enumerate([*["own"] * 2, *["comment"] * 3, *["mutated"] * 2]):
        path.write_text("no C" if number == 3 else f"{texts[text]}\n/* {number} */\n")
        git("add", "--all")
        git("commit", "--quiet", "--message", f"Commit {number}")
        commits.append(git("rev-parse", "HEAD"))
    git("bisect", "start", commits[-1], commits[0])
    words = [CUBIC, "--base", f"{CUBIC}={good}", "--only", "loss/cubic", "--out", tmp_path / "out"]
    said = git("bisect", "run", sys.executable, "-m", "losslab.cli", "check", *words)
    assert f"{commits[5]} is the first bad commit" in said


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_changes_cells_of_its_algorithm_only(name, out, tmp_path, capsys):
    path, before, after, expected = MUTATIONS[name]
    text = sources()[path]
    assert text.count(before) == 1
    file = tmp_path / "changed.c"
    file.write_text(text.replace(before, after))
    assert cli.main(["check", f"{path}={file}", "--out", str(out), "--json"]) == 1
    changed = {cell["cell"] for cell in json.loads(capsys.readouterr().out)["changed"]}
    assert expected <= changed <= OF[path]

"""Selection of cells to measure again after a change, by dry runs of a copy.

The copy's `losslab` is a stand-in that writes a cell.json without replicates: Snakemake runs its
jobs and records their parameters. No instrument is built, so the smoke test does not run.
"""

import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import madeup

COPIED = (
    "Snakefile", "analysis", "config", "containers", "profiles", "report", "scripts", "src",
    "workflow",
)  # fmt: skip
# One cell of each kind, in one study.
STUDY = """\
study: loss
title: A cell of each kind
source: a test
figures: []
tables: []
defaults: {{ path: symmetric, algorithm: cubic, loss_percent: 0, rtt_ms: 20, rate_mbit: 10,
  buffer_packets: 40, offloads: "off", loss_direction: data }}
blocks:
  bulk: {{ app: iperf3 }}
  containers: {{ app: iperf3 }}
  page: {{ app: web }}
  trace: {{ app: iperf3, trace: stairs }}
  scheme: {{ app: datagram, scheme: "ewma" }}
  quic: {{ app: quic }}
"""
CLAIM = """\
study: loss
since: 1.0.0
claims:
  - { id: one, sentence: One., source: a test, kind: value, evidence: own, metric: goodput_mbit,
      where: { block: bulk }, at_least: 1, limit_is: ours, limit_because: None. }
"""
RUN = "{ replicates: 1, duration_s: 60, warmup_s: 1 }"
CAMPAIGN = f"""\
studies:
  loss:
    bulk: {RUN}
    containers: {RUN[:-1]}, backend: containernet }}
    page: {RUN}
    trace: {RUN}
    scheme: {RUN}
    quic: {RUN}
"""
# The last argument is the path of cell.json. A cell without replicates counts as complete.
STAND_IN = f"""\
#!{sys.executable}
import json, pathlib, sys
out = pathlib.Path(sys.argv[-1])
cell = {{word[2:]: sys.argv[at + 1] for at, word in enumerate(sys.argv[:-1]) if word[:2] == "--"}}
content = {{name: cell.get(name) for name in ("study", "block")}}
content |= {{"cell": out.parent.name, "condition": json.loads(cell.get("condition", "null"))}}
content["replicates"] = []
out.write_text(json.dumps(content))
"""
ALL = {"bulk", "containers", "page", "trace", "scheme", "quic"}
# tests/unit/campaign/test_fingerprint.py has all modules; these show that Snakemake follows it.
APPEND = "\nCHANGED = 1\n"
DEPENDENT = {
    "apps and a trace": (
        {
            "src/losslab/emulation/apps/web.py": APPEND,
            "src/losslab/emulation/apps/quic.py": APPEND,
            "config/traces/stairs": "30\n",
        },
        {"page", "quic", "trace"},
    ),
    "a probe": ({"src/losslab/emulation/probes/tcp.py": APPEND}, ALL),
    "the kernel's configuration": (
        {"containers/kernel/fragment.config": "\nCONFIG_CHANGED=y\n"}, ALL,
    ),
    "the image": ({"containers/host/init": "\n: changed\n"}, ALL),
}  # fmt: skip
# Edits without effect: a longer docstring, a comment, an axis's help, an error's text, a chapter.
PROSE = {
    "src/losslab/emulation/probes/tcp.py": ('"""', '"""In other words: '),
    "src/losslab/emulation/measure.py": ("\nfrom ", "\n# A comment\nfrom "),
    "src/losslab/study/condition.py": ('help="', 'help="in other words, '),
    "src/losslab/emulation/batch.py": ("must answer", "has to answer"),
    "report/_loss.qmd": ("\n\n", "\n\nIn other words. "),
    "analysis/R/theme.R": ("\n", "\n# A comment\n"),
    "CONTRIBUTING.md": ("\n", "\n\n"),
}
# A version number, an unused backend, app and scheme, and code that runs after measuring.
UNDECIDING = (
    "README.md", "src/losslab/__init__.py", "src/losslab/report.py",
    "src/losslab/campaign/collect.py",
    "src/losslab/emulation/jobs/enginehost.py", "src/losslab/emulation/apps/ffmpeg.py",
    "src/losslab/emulation/schemes/aimd.py",
)  # fmt: skip


@pytest.fixture(scope="module")
def clone(root, tmp_path_factory):
    """Return a copy of the project in which the cells count as measured."""
    folder = tmp_path_factory.mktemp("clone with spaces")
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    for name in ("README.md", "CONTRIBUTING.md"):
        shutil.copy(root / name, folder / name)
    (folder / "config/studies/loss.yaml").write_text(STUDY.format())
    # These belong to the study that was there before.
    (folder / "report/claims/loss.yaml").write_text(CLAIM)
    (folder / "config/published/loss.csv").unlink()
    shutil.rmtree(folder / "analysis/studies/loss/figures")
    (folder / "config/kinds.yaml").write_text(CAMPAIGN)
    (folder / "config/traces/stairs").write_text("10\n20\n")
    environment = folder / "environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "lib").symlink_to(Path(sys.prefix) / "lib")
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", environment)
    (environment / "bin/python").symlink_to(Path(sys.prefix) / "bin/python")
    (environment / "bin/losslab").write_text(STAND_IN)
    (environment / "bin/losslab").chmod(0o755)
    done = snakemake(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    measured = (folder / "results/cells/loss").glob("*/cell.json")
    assert {path.parent.name.partition("_")[0] for path in measured} == ALL
    return folder


def snakemake(folder, *words, config="config/kinds.yaml", until=("--until", "measure_cell")):
    # The cache is empty: instruments that are built here must not change the copy's recipes.
    environment = os.environ | {
        "PYTHONPATH": str(folder / "src"), "LOSSLAB_CACHE": str(folder / "cache"),
    }  # fmt: skip
    return subprocess.run(
        ["environment/bin/python", "-m", "snakemake", "--cores", "1", "--configfile", config,
         *until, "--no-hooks", *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def cells(done):
    """Return the cells that a dry run would measure."""
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"Job \d+: Measure (\S+)", done.stdout + done.stderr))


def measured_again(done):
    return {name.partition("_")[0] for name in cells(done)}


@contextlib.contextmanager
def edited(clone, edits):
    """Replace the text of files during the block; `edits` has the new text by path."""
    before = {clone / path: (clone / path).read_text() for path in edits}
    try:
        for path, text in edits.items():
            assert text != before[clone / path]
            (clone / path).write_text(text)
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)


def test_edits_of_prose_and_outside_the_fingerprint_measure_nothing_again(clone):
    edits = {path: (clone / path).read_text() + APPEND for path in UNDECIDING}
    edits |= {path: (clone / path).read_text().replace(*words, 1) for path, words in PROSE.items()}
    with edited(clone, edits):
        assert measured_again(snakemake(clone, "-n")) == set()


@pytest.mark.parametrize("what", DEPENDENT)
def test_edited_file_measures_exactly_its_cells_again(clone, what):
    edits, cells = DEPENDENT[what]
    with edited(clone, {path: (clone / path).read_text() + more for path, more in edits.items()}):
        assert measured_again(snakemake(clone, "-n")) == cells


def test_new_kernel_patch_measures_everything_again(clone):
    patch = clone / "containers/kernel/patches/9999-new.patch"
    patch.write_text("A patch\n")
    try:
        assert measured_again(snakemake(clone, "-n")) == ALL
    finally:
        patch.unlink()


def test_lost_guest_is_retried_once_per_start(clone):
    note = next((clone / "results/cells/loss").glob("page_*")) / "lost.json"
    note.write_text('{"when_utc": "now"}')
    try:
        assert measured_again(snakemake(clone, "-n")) == {"page"}
        assert snakemake(clone).returncode == 0
        # Another loss has another note.
        assert measured_again(snakemake(clone, "-n")) == set()
        note.write_text('{"when_utc": "later"}')
        assert measured_again(snakemake(clone, "-n")) == {"page"}
    finally:
        note.unlink()
        snakemake(clone)


def test_new_build_does_not_hide_missing_cells(clone):
    """Every cell is checked, including one that was lost meanwhile."""
    record = clone / "results/instrument/image-host.json"
    cell = next((clone / "results/cells/loss").glob("page_*/cell.json"))
    before = record.read_text()
    record.write_text('{"made_of": "something else", "number": 5}')
    cell.unlink()
    try:
        assert measured_again(snakemake(clone, "-n")) == ALL - {"quic"}
    finally:
        record.write_text(before)
        cell.write_text("{}")


@pytest.fixture(scope="module")
def tables(root, clone):
    """Return a function for dry runs of a study's tables in the copy, with made-up cells."""
    (study,) = (each for each in madeup.studies(root) if each.name == "calibration")
    madeup.write(madeup.tables(study, random.Random(3)), clone, study.name)
    (clone / "config/made-up.yaml").write_text(yaml.safe_dump(madeup.campaign([study])))
    rules = ("--allowed-rules", "summarise_study", "tabulate_calibration")

    def start(*words):
        return snakemake(
            clone, "results/tables/calibration_rtt.csv", *words,
            config="config/made-up.yaml", until=rules,
        )  # fmt: skip

    done = start()
    assert done.returncode == 0, done.stdout + done.stderr
    return start


def made_again(done):
    """Return the tables that a dry run would make: statistics and the study's own."""
    assert done.returncode == 0, done.stdout + done.stderr
    words = done.stdout + done.stderr
    return {name for name in ("Summarise", "Write the tables") if f": {name}" in words}


# Edits of one kind, and the tables that are made again.
R_EDITS = {
    "comments and layout": (
        [
            ("analysis/R/statistics.R", "# Compute one row", "# Compute a row"),
            ("analysis/R/statistics.R", "\n  metrics <- ", "\n    metrics <- "),
            ("analysis/studies/calibration/tables.R", "\n", "\n# A\n"),
        ],
        set(),
    ),
    "another operator": (
        [("analysis/R/statistics.R", "n_invalid = sum(!valid)", "n_invalid = sum(valid)")],
        {"Summarise", "Write the tables"},
    ),
    "another constant of the study's own": (
        [("analysis/studies/calibration/tables.R", 'write("rtt")', 'write("rtts")')],
        {"Write the tables"},
    ),
}


@pytest.mark.parametrize("what", R_EDITS)
def test_tables_are_remade_after_changed_r_code_but_not_prose(clone, tables, what):
    replacements, again = R_EDITS[what]
    edits = {path: (clone / path).read_text() for path, _, _ in replacements}
    for path, old, new in replacements:
        assert old in edits[path]
        edits[path] = edits[path].replace(old, new, 1)
    with edited(clone, edits):
        assert made_again(tables("-n")) == again

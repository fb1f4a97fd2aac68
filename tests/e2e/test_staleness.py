"""Selection of cells to measure again after a change, by dry runs of a copy.

The copy's `losslab` is a stand-in that writes a cell.json without replicates: Snakemake runs its
jobs and records their parameters. No instrument is built.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import sources

# One cell of each kind, in one study.
STUDY = """\
study: loss
title: A cell of each kind
source: a test
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
# A cell without replicates counts as complete, and an empty cache as that of the records.
STAND_IN = f"""\
#!{sys.executable}
import json, pathlib, sys
words = sys.argv[1:]
out = f"results/cells/{{words[1]}}/cell.json" if words[0] == "cell" else words[-1]
pathlib.Path(out).write_text(json.dumps({{"made_of": None, "replicates": []}}))
"""
ALL = {"bulk", "containers", "page", "trace", "scheme", "quic"}
APPEND = "\nCHANGED = 1\n"
MORE = {"stairs": "30\n", "fragment.config": "\nCONFIG_CHANGED=y\n"}
# tests/unit/campaign/test_codelock.py has all parts; these show that Snakemake follows them.
DEPENDENT = [
    (("src/losslab/emulation/apps/web.py", "config/traces/stairs"), {"page", "trace"}),
    (("containers/kernel/fragment.config",), ALL),
    (
        (
            "README.md", "studies/loss/chapter.qmd", "src/losslab/report.py",
            "src/losslab/campaign/tables.py", "src/losslab/emulation/apps/ffmpeg.py",
        ),
        set(),
    ),
]  # fmt: skip
LOCK = """
from losslab.campaign.codelock import LOCK, digests, lock
parts = ((part, sha256, lock()[part]["version"]) for part, sha256 in digests().items())
LOCK.write_text("".join('["%s"]\\nsha256 = "%s"\\nversion = %d\\n' % part for part in parts))
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Return a copy of the project in which the cells count as measured."""
    folder = sources.copy(tmp_path_factory.mktemp("clone with spaces"))
    (folder / "studies/loss/study.yaml").write_text(STUDY.format())
    # These belong to the study that was there before.
    (folder / "studies/loss/claims.yaml").write_text(CLAIM)
    (folder / "studies/loss/published.csv").unlink()
    shutil.rmtree(folder / "studies/loss/figures")
    (folder / "config/kinds.yaml").write_text(CAMPAIGN)
    (folder / "config/traces/stairs").write_text("10\n20\n")
    environment = folder / "environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "lib").symlink_to(Path(sys.prefix) / "lib")
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", environment)
    (environment / "bin/python").symlink_to(Path(sys.prefix) / "bin/python")
    (environment / "bin/losslab").write_text(STAND_IN)
    (environment / "bin/losslab").chmod(0o755)
    python(folder, LOCK)
    done = snakemake(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    measured = (folder / "results/cells/loss").glob("*/cell.json")
    assert {path.parent.name.partition("_")[0] for path in measured} == ALL
    return folder


def python(folder, *words):
    # The cache is empty: instruments that are built here must not change the copy's recipes.
    environment = os.environ | {
        "PYTHONPATH": str(folder / "src"), "LOSSLAB_CACHE": str(folder / "cache"),
    }  # fmt: skip
    options = ["-c"] if words == (LOCK,) else ["-m"]
    return subprocess.run(
        ["environment/bin/python", *options, *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def snakemake(folder, *words, target=("--until", "measure_cell")):
    return python(
        folder, "snakemake", *target, "--cores", "1", "--configfile", "config/kinds.yaml",
        "--no-hooks", *words,
    )  # fmt: skip


def cells(done):
    """Return the cells that a dry run would measure."""
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"Job \d+: Measure loss/(\S+)", done.stdout + done.stderr))


def measured_again(done):
    return {name.partition("_")[0] for name in cells(done)}


@contextlib.contextmanager
def edited(clone, *paths, more=APPEND):
    """Append text to files during the block."""
    before = {clone / path: (clone / path).read_text() for path in paths}
    try:
        for path, text in before.items():
            path.write_text(text + MORE.get(path.name, more))
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)


def test_edit_measures_exactly_the_cells_that_depend_on_it(clone):
    for paths, cells in DEPENDENT:
        with edited(clone, *paths):
            assert measured_again(snakemake(clone, "-n")) == cells, paths
    # Prose in the common part, after the comparison of its bytes.
    lock = (clone / "src/losslab/code.lock").read_text()
    with edited(clone, "src/losslab/emulation/measure.py", more="\n# A comment\n"):
        assert measured_again(snakemake(clone, "-n")) == ALL
        python(clone, LOCK)
        assert (clone / "src/losslab/code.lock").read_text() != lock
        assert measured_again(snakemake(clone, "-n")) == set()
    (clone / "src/losslab/code.lock").write_text(lock)


def test_edited_r_function_makes_the_tables_again(clone):
    target = ("results/summary/loss/statistics.csv",)
    listed = snakemake(clone, "--summary", target=target).stdout.splitlines()
    for path, _, rule, *_ in (line.split("\t") for line in listed if line.startswith("results/")):
        if rule in ("analyse_loss", "collect_study"):
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            (clone / path).write_text("")
    with edited(clone, "analysis/R/statistics.R", more="\nmore <- 1\n"):
        done = snakemake(clone, "-n", target=target)
        assert re.findall(r"Job \d+: (\w+)", done.stdout + done.stderr) == ["Compute"]

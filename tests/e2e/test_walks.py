"""The walks of CONTRIBUTING: a study of five files, and a figure of two, taken from its text."""

import re
import subprocess
import sys

import pytest

from losslab.reading import read_rows
from tests import sources
from tests.e2e.conftest import snakemake

FENCE = re.compile(r"^(```+)(\w*)\n(.*?)^\1\n", re.M | re.S)
NAME = re.compile(r"`([\w/]+\.\w+)`")
CAMPAIGN = """campaign: walk
studies:
  delay:
    main: { replicates: 2, duration_s: 2, warmup_s: 0.5 }
"""
DETAILS = "<!-- details -->\n"


def walk(root, heading):
    """Return the section of a walk."""
    _, _, text = (root / "CONTRIBUTING.md").read_text().partition(f"#### {heading}")
    return text.partition("\n####")[0]


def files(root, heading):
    """Return the files of a walk, name and content: the paragraph before code names its file."""
    text, end = walk(root, heading), 0
    for block in FENCE.finditer(text):
        paragraph = text[end : block.start()].rstrip().rpartition("\n\n")[2]
        if block[2]:
            yield NAME.search(paragraph)[1], block[3]
        end = block.end()


@pytest.fixture(scope="module")
def clone(root, tmp_path_factory):
    """Return a copy of the sources in which somebody followed both walks."""
    folder = sources.copy(tmp_path_factory.mktemp("walks") / "clone", without="")
    study = folder / "studies/delay"
    for name, content in files(root, "A study of two cells"):
        (study / name).parent.mkdir(parents=True, exist_ok=True)
        (study / name).write_text(content)
    assert len([path for path in study.rglob("*") if path.is_file()]) == 5
    (figure, code), (chapter, chunk) = files(root, "Add a figure")
    (study / figure).write_text(code)
    text = (study / chapter).read_text()
    assert text.count(DETAILS) == 1
    (study / chapter).write_text(text.replace(DETAILS, f"{chunk}\n{DETAILS}"))
    (folder / "config/tiny.yaml").write_text(CAMPAIGN)
    return folder


def test_commands_of_the_walk_find_the_new_cells(root, clone):
    blocks = FENCE.findall(walk(root, "A study of two cells"))
    [commands] = [code for _, language, code in blocks if not language]
    cells, draw = (line.split() for line in commands.splitlines())
    python = [sys.executable, "-m"]
    done = subprocess.run(
        [*python, "losslab.cli", *cells[1:]], cwd=clone, capture_output=True, text=True,
        check=True, env=sources.environment(clone),
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == 2, done.stdout
    done = subprocess.run(
        [*python, "snakemake", *draw[1:], "--dry-run"], cwd=clone, capture_output=True, text=True,
        check=True, env=sources.environment(clone),
    )  # fmt: skip
    assert re.search(r"^measure_cell +2$", done.stdout + done.stderr, re.M), done.stdout


def test_study_figure_claim_and_chapter_of_the_walks_are_in_the_report(clone, tmp_path):
    done = snakemake(clone, tmp_path)
    logs = "\n".join(path.read_text() for path in (tmp_path / "logs").rglob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    results = tmp_path / "results"
    for name in ("goodput", "rtt"):
        assert (results / f"figures/delay/{name}.svg").stat().st_size > 3000
    [claim] = read_rows(results / "claims.csv")
    assert (claim["study"], claim["claim"]) == ("delay", "delay-fills-the-link")
    html = " ".join((results / "report/report.html").read_text().split())
    for words in ("Does a longer path cost goodput?", "Goodput by RTT.", "RTT during the traffic."):
        assert words in html

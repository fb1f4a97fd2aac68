"""Pages of a scorecard from recorded cells: figures, HTML and PDF."""

import csv
import subprocess

import pytest

from losslab.campaign import verdicts
from losslab.study import studyfiles
from losslab_score import score

JUDGE = """
arguments <- commandArgs(trailingOnly = TRUE)
for (path in utils::tail(arguments, -5)) source(path)
judge_suite(
  yaml::read_yaml(arguments[1]), read_cells(arguments[2]), read_replicates(arguments[3]),
  read_measured(arguments[4])
) |>
  write_table(arguments[5])
"""


@pytest.fixture(scope="module")
def card_and_folder(root, tmp_path_factory):
    """Judge the recorded cells like the workflow, and write a scorecard."""
    out = tmp_path_factory.mktemp("card")
    recorded = root / "tests" / "fixtures" / "score"
    code = out / "judge.R"
    code.write_text(JUDGE)
    for path in (score.CRITERIA, score.CELLS):
        (out / path).parent.mkdir(parents=True)
    (out / score.CELLS).write_text((recorded / "score_cells.csv").read_text())
    tables = [recorded / f"score_{name}.csv" for name in ("cells", "replicates", "intervals")]
    functions = studyfiles.functions(root, ["score"])
    path = studyfiles.suite_path("rfc9743", root)
    words = ["Rscript", "--vanilla", code, path, *tables, out / score.CRITERIA, *functions]
    subprocess.run(list(map(str, words)), check=True)
    rows = verdicts.read_table(out / score.CRITERIA)
    cells = verdicts.read_table(out / score.CELLS)
    asked = studyfiles.load_suite("rfc9743", root)
    card = score.scorecard(asked, "quick", {"never_grows": ""}, rows, cells)
    scorecard_file = out / score.CARD
    score.write_json(card, scorecard_file)
    return card, out


def test_scorecard_of_a_bad_algorithm_names_the_missed_criterion(card_and_folder):
    card, _ = card_and_folder
    verdicts = {c["criterion"]: c["verdict"] for c in card["criteria"]
                if c["algorithm"] == "never_grows"}  # fmt: skip
    assert [name for name, verdict in verdicts.items() if verdict == "misses"] == ["wired"]


def test_score_pages_have_numbers_figures_and_links_to_the_runs(card_and_folder):
    card, out = card_and_folder
    pages = score.write_pages(card, out)
    assert [page.name for page in pages] == [
        "never_grows.html", "never_grows.pdf", "comparison.html", "comparison.pdf"
    ]  # fmt: skip
    page = pages[0].read_text()
    assert "Scorecard: Never grows" in page
    wired = next(c for c in card["criteria"] if c["criterion"] == "wired")
    assert f"{wired['value']:.3g}" in page
    assert wired["runs"][0]["folder"] in page
    assert "svg" in page
    assert all(page.read_bytes().startswith(b"%PDF") for page in pages[1::2])
    with (out / score.CRITERIA).open(newline="") as file:
        assert len(list(csv.DictReader(file))) > len(card["criteria"]) // 2

"""Statistics, tables, figures, claims and chapters of campaigns with missing cells."""

import csv
import random
import re

import pytest

from losslab.reading import read_rows
from losslab.study import dictionary
from tests import madeup


def fates(study):
    """Return the fate of lost cells: all of every other block, and the first of the others."""
    found = {}
    for index, block in enumerate(dict.fromkeys(cell.block for cell in study.cells)):
        cells = [cell.name for cell in study.cells if cell.block == block]
        empty = index % 2 == 0
        fate = madeup.INVALID if index % 4 == 0 else madeup.ABSENT
        found |= dict.fromkeys(cells if empty else cells[:1], fate)
    return found


@pytest.fixture(scope="module")
def folder(root, tmp_path_factory):
    """Return folders with the analysis of made-up results.

    Of `some`, cells are missing; `nothing` has no cell, and `own` a study without a source.
    """
    folder = tmp_path_factory.mktemp("missing")
    noise = random.Random(2)
    studies = madeup.studies(root)
    names = [study.name for study in studies]
    for name, other in (("some", madeup.VALID), ("nothing", madeup.INVALID)):
        for study in studies:
            fate = fates(study) if name == "some" else {}
            tables = madeup.tables(study, noise, lambda c, f=fate, o=other: f.get(c.name, o))
            madeup.write(tables, folder / name, study.name)
    jobs = [{"name": name, "folder": name, "studies": names} for name in ("some", "nothing")]
    jobs[1]["draw"] = ["svg"]
    [own] = [study for study in studies if study.name == "quic"]
    madeup.write(madeup.tables(own, noise), folder / "own", own.name)
    # First: the list of sentences without numbers grows from job to job.
    jobs.insert(0, {"name": "own", "folder": "own", "studies": [own.name]})
    done = madeup.run_scripts(root, folder, jobs)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text(folder, name):
    return (folder / name / "staging" / "index.md").read_text()


@pytest.mark.parametrize("name", ["some", "nothing"])
def test_chapters_print_words_in_place_of_missing_numbers(folder, name):
    document = text(folder, name)
    assert "(not measured)" in document
    ghost = re.compile(r"\b(NA|NaN|Inf|NULL)\b|(numeric|character|logical)\(0\)")
    assert [line for line in document.splitlines() if ghost.search(line)] == []


# Words of methods that only published statements, or other studies, need.
OF_SOURCES = (
    "Holm", "predict", "published", "Welch", "fitted", " source", "recorded campaigns *quick*",
    "Docker", "What to conclude", "exercises",
)  # fmt: skip


def test_report_without_sources_has_no_methods_for_them(folder):
    parts = text(folder, "own").split("\n# ")
    kept = [part for part in parts if not part.startswith(("The same algorithm", "Glossary"))]
    # A caption explains a column that such a report leaves empty.
    lines = [line for part in kept for line in part.splitlines() if "![Every claim" not in line]
    assert "**The claims.** Every expectation that can be judged" in text(folder, "own")
    found = {word: [line for line in lines if word in line] for word in OF_SOURCES}
    assert {word: lines for word, lines in found.items() if lines} == {}
    assert all(word in text(folder, "some") for word in OF_SOURCES)


def test_chapters_name_missing_cells_with_the_reason(root, folder):
    document = text(folder, "some")
    for study in madeup.studies(root):
        by_block = {}
        for cell in study.cells:
            by_block.setdefault(cell.block, []).append(cell.name)
        gone = fates(study)
        for block, cells in by_block.items():
            names = [name for name in cells if name in gone]
            assert f"- {study.name}: Block `{block}`: " in document
            assert len(names) == len(cells) or f"`{names[0]}`" in document
    assert r"invalid: idle RTT must be 20 ms, found 41.2 | made\_up." in document
    assert "not measured." in document
    assert "Block `imc` is not part of this campaign." in document


def test_claims_without_a_cell_are_not_judged(folder):
    claims = read_rows(folder / "nothing/results/claims.csv")
    assert {claim["verdict"] for claim in claims} == {"not measured"}
    assert all(claim["absent"] and claim["measured"] == "NA" for claim in claims)
    claims = {c["claim"]: c for c in read_rows(folder / "some/results/claims.csv")}
    extreme = claims["cubic-falls"]
    assert extreme["verdict"] == "not measured"
    assert "no valid replicate" in extreme["absent"]
    assert {claim["verdict"] for claim in claims.values()} == {
        "reproduced", "inside", "not reproduced", "outside", "undecidable",
        "inconclusive", "not measured",
    }  # fmt: skip


def test_figures_without_data_state_that(root, folder):
    place = folder / "nothing/results/figures"
    studies = {f"{study.name}/{name}" for study in madeup.studies(root) for name in study.figures}
    # Those of chapters that belong to no study are included.
    figures = [path for path in place.rglob("*") if path.is_file()]
    sheets = [place / f"{name}.svg" for name in studies]
    assert {*sheets} <= {*figures}
    assert len(sheets) == len(studies)
    assert [str(sheet) for sheet in sheets if "Nothing to draw" not in sheet.read_text()] == []
    for sheet in sheets:
        words = sheet.read_text()
        lines = words.count("</text>")
        height_cm = float(re.search(r"height='([0-9.]+)pt'", words)[1]) * 2.54 / 72
        assert height_cm == pytest.approx(1 + 0.5 * lines, abs=0.1), sheet
    drawn = [figure for figure in figures if figure.suffix in (".svg", ".png", ".pdf")]
    assert all(figure.stat().st_size > 1000 for figure in drawn)


@pytest.mark.parametrize("name", ["some", "nothing"])
def test_every_column_of_every_study_is_in_the_data_dictionary(folder, name):
    results = folder / name / "results"
    tables = [*results.rglob("*.csv")]
    assert {path.relative_to(results).parts[0] for path in tables} >= {
        "claims.csv", "figures", "summary", "tables",
    }  # fmt: skip
    missing = {}
    for path in tables:
        header = path.read_text().partition("\n")[0]
        found = dictionary.undeclared(str(path), next(csv.reader([header]), []))
        missing |= {str(path.relative_to(results)): found} if found else {}
    assert missing == {}, "declare them in config/columns.tsv or studies/STUDY/columns.tsv"

"""`python -m bench.explained`: which reports are explained again, and what is recorded."""

import sys

import pytest

from bench import explained
from losslab.reading import read_rows


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Two reports in a repository of their own; return the names of those that are explained."""
    for name in ("one", "two"):
        folder = tmp_path / "studies" / name
        folder.mkdir(parents=True)
        (folder / f"explain-{name}.yaml").write_text("# comment\nsource: a\n")
    (tmp_path / "report").mkdir()
    monkeypatch.setattr(explained, "ROOT", tmp_path)
    monkeypatch.setattr(explained, "FILE", tmp_path / "report" / "explained.csv")
    names = []

    def answer(report, out, cores):
        names.append(report.stem)
        values = dict.fromkeys(explained.COLUMNS, "1")
        name = report.relative_to(tmp_path).as_posix()
        return values | {"report": name, "digest": explained.digest(report)}

    monkeypatch.setattr(explained, "explained", answer)
    return names


def run(monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["bench.explained", "--out", "unused", *options])
    assert explained.main() == 0


def test_report_is_explained_once_and_again_if_its_content_changes(asked, tmp_path, monkeypatch):
    run(monkeypatch)
    assert asked == ["explain-one", "explain-two"]
    run(monkeypatch)
    assert len(asked) == 2
    report = tmp_path / "studies" / "two" / "explain-two.yaml"
    report.write_text("# another comment\nsource: a\n")
    run(monkeypatch)
    assert len(asked) == 2
    report.write_text("source: b\n")
    run(monkeypatch)
    assert asked[2:] == ["explain-two"]
    rows = read_rows(explained.FILE, columns=explained.COLUMNS)
    assert [row["report"] for row in rows] == [
        "studies/one/explain-one.yaml", "studies/two/explain-two.yaml",
    ]  # fmt: skip
    assert rows[1]["digest"] == explained.digest(report)


def test_one_report_can_be_explained_again(asked, monkeypatch):
    run(monkeypatch)
    run(monkeypatch, "--again", "--only", "explain-one")
    assert asked[2:] == ["explain-one"]


def test_recorded_answers_are_to_the_reports_as_they_are():
    answers = {name: row["digest"] for name, row in explained.recorded().items()}
    reports = {
        report.relative_to(explained.ROOT).as_posix(): explained.digest(report)
        for report in explained.reports()
    }
    assert answers == reports, "run `python -m bench.explained --out FOLDER`"

"""Chapters of the report: references, names of R code, and the evidence for reasons."""

import importlib
import inspect
import lzma
import re
from statistics import fmean

import pytest

from losslab import report
from losslab.campaign import records
from losslab.reading import read_config, read_rows, read_yaml
from losslab.repository import ROOT
from losslab.study import claims, design, metrics, studyfiles
from losslab.workflow import DEFINITION, require_defined_once
from tests.sources import tracked

REFERENCE = re.compile(r"@((?:fig|tbl|sec)-[A-Za-z0-9-]*[A-Za-z0-9])")
# Assignments in the shared environment, which have no indentation; those of functions have some.
ASSIGNED = re.compile(
    r"^(?:for \()?([A-Za-z.][\w.]*)`? (?:<<?-|=|in) *(function|\\\()?", re.MULTILINE
)
CHUNK = re.compile(r"^```\{r\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
REASONS = [
    (study, sentence)
    for study in studyfiles.study_names(ROOT)
    for claim in read_yaml(studyfiles.file(ROOT, study, studyfiles.CLAIMS))["claims"]
    for sentence in claim.get("reason", [])
]
CONFIGS = {
    "full": "config/config.yaml",
    **{name: f"config/campaigns/{name}.yaml" for name in ("contest", "quick", "stacks")},
}
RECORDS = ROOT / "recorded"


def test_every_reference_has_a_target():
    """The report removes references to what a campaign has no data for."""
    paths = tracked("report/*.qmd", "studies/*.qmd")
    defined = set(report.labels_of(paths))
    for path in paths:
        assert set(REFERENCE.findall(path.read_text())) - defined == set(), path.name


def defined(code):
    return {name for path in code for name in DEFINITION.findall(path.read_text())}


def assigned(chapter):
    """Return the names that a chapter's chunks assign, and whether they are functions."""
    code = "".join(CHUNK.findall(chapter.read_text()))
    return {match[1]: bool(match[2]) for match in ASSIGNED.finditer(code)}


def test_names_of_r_code_are_not_overwritten(root):
    """All chapters run in the environment of the studies' functions, and any may be absent."""
    functions = studyfiles.functions(root, studyfiles.study_names(root))
    require_defined_once(functions)
    assert len(names := defined(functions)) > 50
    for script in tracked("studies/*/figures/*.R", "studies/*/tables.R"):
        assert not defined([script]) & names, script
    paths = {path.stem: path for path in tracked("report/*.qmd")}
    paths |= {f"_{path.parent.name}": path for path in tracked("studies/*.qmd")}
    chapters = {name: assigned(path) for name, path in paths.items()}
    for name, its in chapters.items():
        assert set(its) & names == set(), name
        own = {word for word, function in its.items() if function}
        for other, theirs in chapters.items():
            if other != name:
                taken = own | (set(its) if name == "index" else set())
                assert not taken & set(theirs), f"{other} assigns names of {name}"
            if other.startswith("_") and name.startswith("_") and other != name:
                called = re.findall(r"\b([A-Za-z][\w.]*)\(", paths[other].read_text())
                assert not (set(called) - set(theirs)) & own, f"{other} calls functions of {name}"


def test_a_reason_on_published_numbers_falls_with_them():
    for study, sentence in REASONS:
        if "published" not in sentence:
            continue
        support = sentence["published"]
        [path] = studyfiles.published(ROOT, study)
        rows = read_rows(path)
        assert claims.published_problems(support, rows) == []
        column, change = support["column"], -1e6 if "at_least" in support else 1e6
        other = [
            row | ({column: f"{float(row[column]) + change}"} if row[column] else {})
            for row in rows
        ]
        assert "found" in claims.published_problems(support, other)[0], sentence


def test_a_reason_on_a_test_falls_with_the_numbers_that_it_reads(monkeypatch):
    for _, sentence in REASONS:
        if "test" not in sentence:
            continue
        name, function = sentence["test"].split("::")
        module = importlib.import_module(name.removesuffix(".py").replace("/", "."))
        shows = inspect.unwrap(getattr(module, function))
        shows()

        def falling(*names, read=module.ours):
            """Shrink each row's throughput more than the row's before."""
            return [
                (row, {k: v * (0.7**i if k == "throughput_mbit" else 1) for k, v in its.items()})
                for i, (row, its) in enumerate(read(*names))
            ]

        with monkeypatch.context() as patch, pytest.raises(AssertionError):
            patch.setattr(module, "ours", falling)
            shows()


def cells(name):
    config = read_config(ROOT / CONFIGS[name])
    return {f"{cell.study}/{cell.name}": cell for cell in design.load_cells(config, ROOT)}


def test_recorded_cells_are_those_of_the_campaign():
    wrong = []
    for config in CONFIGS:
        campaign = cells(config)
        for name, row in records.read_record(RECORDS / config / "record.tsv").items():
            rule = campaign[name].stopping if name in campaign else None
            if not rule or not rule.minimum <= row.replicates <= rule.maximum:
                wrong.append(f"{config}: {name}")
    assert wrong == []
    assert records.read_record(RECORDS / "quick" / "record.tsv").keys() == cells("quick").keys()


@pytest.mark.nightly
def test_recorded_numbers_are_those_of_the_recorded_cells():
    record = records.read_record(RECORDS / "full" / "record.tsv")
    names = {}
    for row in read_rows(RECORDS / "full" / "cells.tsv", "\t"):
        names.setdefault(row["study"], []).append(row["cell"])
    for study, its in names.items():
        # Numbers of a cell that the campaign has no longer would stay for ever.
        with lzma.open(RECORDS / "full" / f"{study}.jsonl.xz") as file:
            assert len(file.readlines()) == len(its), study
        for name, cell in records.read(RECORDS / "full", study, its).items():
            row, runs = record[f"{study}/{name}"], cell.content["replicates"]
            found = [metrics.value(run["summary"], row.metric) for run in runs if run["valid"]]
            assert (len(runs), len(found)) == (row.replicates, row.valid), row.name
            values = [value for value in found if value is not None]
            assert not row.mean or f"{fmean(values):.6g}" == row.mean, row.name

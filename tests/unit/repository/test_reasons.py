"""Evidence for the reasons of verdicts: published numbers and tests that can fail.

The evidence on measured cells is in `analysis/tests/testthat/test-reasons.R`.
"""

import importlib
import inspect
from pathlib import Path

import pytest

from losslab.reading import read_rows, read_yaml
from losslab.study import claims, studyfiles

ROOT = Path(__file__).resolve().parents[3]
SENTENCES = [
    pytest.param(study, sentence, id=f"{study}-{claim['id']}")
    for study in studyfiles.study_names(ROOT)
    for claim in read_yaml(studyfiles.claims_file(ROOT, study))["claims"]
    for sentence in claim.get("reason", [])
]


def with_key(key):
    return [param for param in SENTENCES if key in param.values[1]]


@pytest.mark.parametrize(("study", "sentence"), with_key("published"))
def test_a_reason_on_published_numbers_falls_with_them(study, sentence):
    support = sentence["published"]
    [path] = studyfiles.published(ROOT, study)
    rows = read_rows(path)
    assert claims.published_problems(support, rows) == []
    change = -1e6 if "at_least" in support else 1e6
    other = [
        {**row, support["column"]: f"{float(row[support['column']]) + change}"}
        if row[support["column"]]
        else row
        for row in rows
    ]
    assert "found" in claims.published_problems(support, other)[0]


@pytest.mark.parametrize(("study", "sentence"), with_key("test"))
def test_a_reason_on_a_test_falls_with_the_numbers_that_it_reads(study, sentence, monkeypatch):
    name, function = sentence["test"].split("::")
    module = importlib.import_module(name.removesuffix(".py").replace("/", "."))
    shows = inspect.unwrap(getattr(module, function))
    shows()
    read = module.ours

    def falling(*names):
        """Shrink each row's throughput more than the row's before."""
        return [
            (row, {k: v * (0.7**i if k == "throughput_mbit" else 1) for k, v in numbers.items()})
            for i, (row, numbers) in enumerate(read(*names))
        ]

    monkeypatch.setattr(module, "ours", falling)
    with pytest.raises(AssertionError):
        shows()

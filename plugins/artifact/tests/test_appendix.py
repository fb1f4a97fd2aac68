"""Appendix of an archive: headings of the committees' templates, claims and experiments."""

import re
from pathlib import Path

import pytest
import yaml

from losslab.campaign import plan
from losslab.repository import ROOT
from losslab.study import design
from losslab_artifact import appendix
from losslab_artifact.verify import EXPERIMENTS

# cTuning's template of ACM, and the template of USENIX. A heading may have words of both.
ACM = (
    "Abstract", "Artifact check-list (meta-information)", "Description", "How to access",
    "Hardware dependencies", "Software dependencies", "Data sets", "Installation",
    "Experiment workflow", "Evaluation and expected results", "Experiment customization", "Notes",
    "Methodology",
)  # fmt: skip
USENIX = (
    "Abstract", "Description & Requirements", "Security, privacy, and ethical concerns",
    "How to access", "Hardware dependencies", "Software dependencies", "Set-up", "Installation",
    "Basic test", "Evaluation", "Major claims", "Experiments", "Notes on reusability", "Version",
)  # fmt: skip
PACKING = appendix.Packing("config/quick.yaml", "2026-01-31", 5_000_000, True, 60)


@pytest.fixture
def text(campaign, runs):
    return appendix.text(campaign, runs, ["loss", "cloud"], PACKING)


@pytest.mark.parametrize("template", [ACM, USENIX], ids=["acm", "usenix"])
def test_headings_are_those_of_the_template_in_its_order(text, template):
    found = [
        line.lstrip("# ").replace(" and requirements", " & requirements").lower()
        for line in text.splitlines()
        if line.startswith("#")
    ]
    places = [
        next(n for n, heading in enumerate(found) if heading.startswith(each.lower()))
        for each in template
    ]
    assert places == sorted(places)


def test_every_claim_is_tied_to_an_experiment_that_proves_it(text):
    rows = dict(re.findall(r"^\| (C\d+) \|.* \| (E\d+) \|$", text, re.M))
    assert rows == {"C1": "E2", "C2": "E2"}
    sections = dict(re.findall(r"^#### (E\d+): .*\n((?:(?!####|## ).*\n)*)", text, re.M))
    assert list(sections) == ["E1", "E2", "E3"]
    assert "Proves C1, C2." in sections["E2"]
    assert "It has no claims." in sections["E3"]
    for section in sections.values():
        assert "```sh" in section
        assert "Expected: " in section
        assert "Tolerance: " in section


def test_claim_has_its_numbers(text):
    row = next(line for line in text.splitlines() if "loss/one" in line)
    assert row == (
        "| C1 | loss/one: CUBIC loses \\| much. | 70 | at least 70 | 76.15 [74.2, 77.9] % | 10 | "
        "reproduced | E2 |"
    )


def test_minutes_follow_from_the_recorded_wall_times(text, campaign):
    # Three runs of 30 s; three commands.
    assert "E2: the study loss (3 human-minutes, 1.5 machine-minutes)" in text
    assert "E3: the study cloud (3 human-minutes, 0.0 machine-minutes)" in text
    # 60 s of verification, and a sample of all three runs.
    assert "E1: the archive (1 human-minute, 2 machine-minutes)" in text
    assert "measures 3 replicates again" in text
    assert "3 valid replicates of 1 cells" in text
    assert "measured on A box" in text


def test_registries_are_named(text):
    assert "Installation needs two registries: PyPI" in text


def test_each_experiment_has_a_configuration_of_its_study_alone(campaign, runs):
    loaded = plan.load_campaign(ROOT / "config" / "quick.yaml", ROOT)
    appendix.write(campaign, runs, loaded, PACKING)
    files = {path.stem: path for path in (campaign / EXPERIMENTS).iterdir()}
    assert set(files) == {study.name for study in loaded.studies}
    for name, path in files.items():
        cells = design.load_cells(yaml.safe_load(path.read_text()), ROOT)
        assert cells == [cell for cell in loaded.cells if cell.study == name]
    assert set(
        re.findall(r"experiments/(\w+)\.yaml", Path(campaign, "APPENDIX.md").read_text())
    ) == (set(files))

"""A cell.json must be what the campaign asks for."""

import copy

import pytest

from losslab.campaign import recordcheck, recorded, recorded_numbers
from losslab.reading import UsageError
from losslab.repository import ROOT

FULL = ROOT / "docs" / "results" / "full"
STUDY = "quic"


@pytest.fixture(scope="module")
def lines():
    return recorded_numbers._read_study(recorded_numbers.file_of(FULL, STUDY))


@pytest.fixture(scope="module")
def planned():
    campaign = recorded.load(ROOT / "config" / "config.yaml", ROOT)
    return {cell.name: cell for study in campaign.studies for cell in study.cells}


def another_algorithm(line):
    cell = line["content"]["condition"]
    cell["algorithm"] = "reno" if cell["algorithm"] != "reno" else "vegas"


def another_study(line):
    line["content"]["study"] = "loss"


def another_block(line):
    line["content"]["block"] = "another"


def other_seeds(line):
    for each in line["content"]["replicates"]:
        each["seed"] += 1


def no_condition(line):
    line["content"]["condition"]["rate_mbit"] = "fast"


def more_replicates(line):
    for key in ("analysed", "intervals", "hosts"):
        line[key].append(line[key][0])
    last = copy.deepcopy(line["content"]["replicates"][0])
    line["content"]["replicates"].append(last | {"seed": 1})


def one_replicate(line):
    for key in ("analysed", "intervals", "hosts"):
        del line[key][1:]
    del line["content"]["replicates"][1:]


@pytest.mark.parametrize(
    "change",
    [another_algorithm, another_study, another_block, other_seeds, no_condition, more_replicates,
     one_replicate],
)  # fmt: skip
def test_cell_of_no_campaign_is_refused(lines, planned, change):
    name, line = next(iter(copy.deepcopy(lines).items()))
    change(line)
    with pytest.raises(UsageError, match="cell must have"):
        recordcheck.require_planned(line["content"], "cell", planned[name])


def test_cell_of_the_same_name_with_another_condition_is_refused(lines, planned):
    """C1: a name has neither the duration nor all digits."""
    name, line = next(iter(copy.deepcopy(lines).items()))
    line["content"]["condition"]["duration_s"] += 1
    with pytest.raises(UsageError, match="duration_s"):
        recordcheck.require_planned(line["content"], name, planned[name])


def test_cell_may_end_with_a_lost_guest(lines, planned):
    name, line = next(iter(copy.deepcopy(lines).items()))
    one_replicate(line)
    line["content"]["replicates"][-1]["lost"] = True
    recordcheck.require_planned(line["content"], name, planned[name])


@pytest.mark.parametrize("study", [STUDY, "backends", "cellular"])
def test_recorded_campaign_is_what_it_says(planned, study):
    found = recorded_numbers._read_study(recorded_numbers.file_of(FULL, study))
    cells = recorded_numbers.read(FULL, study, found)
    for name, cell in cells.items():
        recordcheck.require_planned(cell.data.content, name, planned[name])

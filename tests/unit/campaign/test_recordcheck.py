"""A recorded cell is believed only if it does not contradict anything that is known of it."""

import copy
import json
import lzma
import shutil
from dataclasses import replace

import pytest

from losslab import cli
from losslab.campaign import recordcheck, recorded, recorded_numbers
from losslab.campaign.plan import Plan, Planned
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


def write(folder, lines):
    """Write a record with these lines, and the true table beside it."""
    folder.mkdir()
    text = "".join(json.dumps(line) + "\n" for line in lines.values())
    recorded_numbers.file_of(folder, STUDY).write_bytes(lzma.compress(text.encode()))
    shutil.copy(FULL.with_suffix(".tsv"), folder.with_suffix(".tsv"))
    return folder


def no_change(line):
    pass


def enormous_goodput(line):
    line["content"]["replicates"][0]["summary"]["goodput_mbit"] = 5e6


def slightly_other_goodput(line):
    line["content"]["replicates"][0]["summary"]["goodput_mbit"] *= 0.99


def negative_rtt(line):
    line["content"]["replicates"][0]["summary"]["rtt_ms"] = -1.0


def impossible_share(line):
    line["content"]["replicates"][0]["summary"]["rwnd_limited_percent"] = 101.0


def another_algorithm(line):
    cell = line["content"]["condition"]
    cell["algorithm"] = "reno" if cell["algorithm"] != "reno" else "vegas"


def another_study(line):
    line["content"]["study"] = "loss"


def another_block(line):
    line["content"]["block"] = "another"


def equal_seeds(line):
    its = line["content"]["replicates"]
    its[1]["seed"] = its[0]["seed"]


def other_seeds(line):
    for each in line["content"]["replicates"]:
        each["seed"] += 1


def valid_with_a_violation(line):
    line["content"]["replicates"][0]["reasons"] = ["goodput must be at most the link's"]


def invalid_without_a_violation(line):
    line["content"]["replicates"][0]["valid"] = False


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


FORGERIES = [
    enormous_goodput, slightly_other_goodput, negative_rtt, impossible_share, another_algorithm,
    another_study, another_block, equal_seeds, other_seeds, valid_with_a_violation,
    invalid_without_a_violation, no_condition, more_replicates, one_replicate,
]  # fmt: skip


def collect(folder, cell):
    planned = Planned(cell, "", recorded=True)
    Plan({(STUDY, cell.name): planned}, {STUDY: []}, {STUDY: {}}, folder).write()
    return cli.main(["collect", STUDY])


@pytest.mark.parametrize("forge", [no_change, *FORGERIES])
def test_forged_line_is_refused_by_its_name(lines, planned, tmp_path, capsys, monkeypatch, forge):
    """C1: a forged line passed `collect` with exit status 0."""
    name = next(each for each in lines if "goodput_mbit" in str(lines[each]["content"]))
    forged = copy.deepcopy(lines)
    forge(forged[name])
    monkeypatch.chdir(tmp_path)
    status = collect(write(tmp_path / "full", forged), planned[name])
    error = capsys.readouterr().err
    assert status == (0 if forge is no_change else 2), error
    assert forge is no_change or name in error


@pytest.mark.parametrize(
    "forge", [each for each in FORGERIES if each not in (slightly_other_goodput, no_condition)]
)
def test_forgery_is_refused_without_the_table_beside_the_record(lines, planned, forge):
    """C1: the author may have changed the table, too."""
    name, line = next(iter(copy.deepcopy(lines).items()))
    forge(line)
    with pytest.raises(UsageError):
        recordcheck.require({name: line["content"]}, STUDY, ROOT / "none", {}, {})
        recordcheck.require_planned(line["content"], name, planned[name])


def test_cell_of_the_same_name_with_another_condition_is_refused(lines, planned):
    """C1: a name has neither the duration nor all digits."""
    name, line = next(iter(copy.deepcopy(lines).items()))
    line["content"]["condition"]["duration_s"] += 1
    with pytest.raises(UsageError, match="duration_s"):
        recordcheck.require_planned(line["content"], name, planned[name])


def test_number_of_replicates_outside_the_stopping_rule_is_refused(lines, planned):
    name, line = next(iter(lines.items()))
    count = len(line["content"]["replicates"])
    rule = replace(planned[name].stopping, minimum=count + 1, maximum=count + 2)
    with pytest.raises(UsageError, match=f"found {count}"):
        recordcheck.require({name: line["content"]}, STUDY, ROOT / "none", {name: rule}, {})


@pytest.mark.parametrize("study", [STUDY, "backends", "cellular"])
def test_recorded_campaign_is_what_it_says(planned, study):
    found = recorded_numbers._read_study(recorded_numbers.file_of(FULL, study))
    cells = recorded_numbers.read(FULL, study, found)
    for name, cell in cells.items():
        recordcheck.require_planned(cell.data.content, name, planned[name])

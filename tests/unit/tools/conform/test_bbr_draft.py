"""The cases of the BBR draft on recorded runs of BBRv3: their verdicts, and that each can fail."""

import re

import numpy as np
import pytest
import recorded_lines

from losslab.tools.conform import judge
from losslab.tools.conform.judge import FAIL, INCONCLUSIVE, PASS

LINES, CASES = recorded_lines.lines(), recorded_lines.cases()
FAILING = {"3", "4b", "6", "8", "18", "19"}
NOT_HELD = {"4"}
EXPECTED = {
    name: FAIL if name in FAILING else INCONCLUSIVE if name in NOT_HELD else PASS for name in CASES
}


@pytest.mark.parametrize("name", LINES)
def test_verdict_of_bbr3_is_that_of_the_whole_run(name):
    held, steps = judge.of_case(CASES[name].data, LINES[name])
    assert judge.verdict_of(held, steps)[0] == EXPECTED[name]


def test_every_case_is_recorded():
    assert set(LINES) == set(CASES)


def edits(line, check):
    """Yield edited rows: another algorithm's variables, losses, deliveries, events or phases."""
    rows = line.rows
    words = set(re.findall(r"\w+", str(check)))
    names = [name for name in sorted(words - {"lost_packets"}) if name in rows]
    after = rows["t_s"].to_numpy() >= line.begin_s - 1e-7
    yield rows.assign(**{name: 1 for name in names if name != "phase"})
    yield rows.assign(**{name: np.nan for name in names if name != "phase"})
    for name in names:
        own = rows[name]
        if name == "phase":
            continue
        for factor in (0, 0.5, 1.2, 3):
            yield rows.assign(**{name: own * factor})
            yield rows.assign(**{name: np.where(after, own * factor, own)})
        for value in (0, 1, 3, 100, 0.5, 0.9, 2**32 - 1, np.nan, np.arange(len(rows)) % 7):
            yield rows.assign(**{name: value})
            yield rows.assign(**{name: np.where(after, value, own)})
    undone = (rows["event"] == "undo").cumsum().shift(fill_value=0) > 0
    for phase in line.phases:
        yield rows.assign(phase=np.where(after, phase, rows["phase"]))
        yield rows.assign(phase=np.where(undone, phase, rows["phase"]))
        for old in line.phases:
            yield rows.assign(phase=rows["phase"].replace(old, phase))
    yield from _moved(line)
    yield rows.assign(lost_packets=0)
    yield rows.assign(lost_packets=rows["lost_packets"] * 30)
    yield rows.assign(lost_packets=np.arange(len(rows)))
    yield rows.assign(delivered_packets=rows["delivered_packets"] // 8)
    yield rows.assign(delivered_packets=rows["delivered_packets"].where(rows["t_s"] < 5, 0))
    yield rows.assign(sample_packets=rows["delivered_packets"])
    yield rows.assign(event="ack")
    yield rows.assign(t_s=np.linspace(rows["t_s"].iloc[0], rows["t_s"].iloc[-1], len(rows)))


def _moved(line):
    """Yield rows in which a phase ends earlier, later, or with another."""
    rows, names = line.rows, line.rows["phase"].to_numpy()
    for span in line.spans:
        half = (span.first + span.last) // 2
        after = line.following(span)
        if after is not None:
            changed = names.copy()
            changed[half : span.last + 1] = after.phase
            yield rows.assign(phase=changed)
            for phase in line.phases:
                changed = names.copy()
                changed[after.first : after.last + 1] = phase
                yield rows.assign(phase=changed)


def checks(kind):
    return [
        pytest.param(name, number, id=f"{name}-{kind}-{number}")
        for name, case in CASES.items()
        for number in range(len(case.data.get(kind, ())))
    ]


def outcomes(name, check):
    """Return the verdicts of a check on the recorded run, and on all edited ones."""
    line = LINES[name]
    found = {judge.judge(check, line).verdict}
    for rows in edits(line, check):
        other = type(line)(
            rows, line.condition, line.phases, line.groups, line.interrupts, line.begin_s
        )
        found.add(judge.judge(check, other).verdict)
        if found >= {PASS, FAIL}:
            break
    return found


@pytest.mark.parametrize(("name", "number"), checks("expect"))
def test_every_step_can_pass_and_fail(name, number):
    assert outcomes(name, CASES[name].data["expect"][number]) >= {PASS, FAIL}


@pytest.mark.parametrize(("name", "number"), checks("holds"))
def test_every_proof_of_a_stimulus_can_hold_or_not(name, number):
    found = outcomes(name, CASES[name].data["holds"][number])
    assert PASS in found
    assert found & {FAIL, INCONCLUSIVE}

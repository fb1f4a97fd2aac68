"""Properties of accepted input."""

from __future__ import annotations

import json
import math
from typing import Any

from bench.fuzz.judging import require_finite
from losslab import sweeps
from losslab.emulation.link import traces
from losslab.emulation.schemes import make_scheme
from losslab.study import background, design, schedule
from losslab.study.condition import Condition


def check_condition(condition: Condition) -> None:
    """Check that a condition is in range and survives a round trip through JSON."""
    assert condition.problems() == []
    data = condition.to_json()
    require_finite(data)
    assert Condition.from_json(json.loads(json.dumps(data))) == condition


def check_flows(condition: Condition) -> None:
    """Check that flows survive a round trip through text."""
    check_condition(condition)
    groups = background.parse(condition.flows)
    again = background.parse("+".join(group.text() for group in groups) or background.NO_FLOWS)
    assert [each.algorithm for each in again] == [each.algorithm for each in groups]
    for one, other in zip(groups, again, strict=True):
        for name, kind in background.KEYS.items():
            first, second = getattr(one, name), getattr(other, name)
            exact = kind == "str" or first is None or second is None
            assert first == second if exact else math.isclose(first, second, rel_tol=1e-11)


def check_changes(condition: Condition) -> None:
    """Check that a path schedule survives a round trip through text."""
    check_condition(condition)
    found = schedule.parse(condition.changes)
    for one, other in zip(found, schedule.parse(schedule.to_text(found) or "none"), strict=True):
        assert one.keys() == other.keys()
        assert all(math.isclose(one[key], other[key], rel_tol=1e-11) for key in one)


def check_scheme(condition: Condition) -> None:
    """Check that a scheme has finite parameters, each once."""
    check_condition(condition)
    scheme = make_scheme(condition.scheme)
    require_finite({key: each for key, each in vars(scheme).items() if key[0] != "_"})
    keys = [each.partition("=")[0] for each in condition.scheme.split(",")[1:]]
    assert len(set(keys)) == len(keys)


def check_number(value: float) -> None:
    """Check that a number is finite and can be written."""
    assert math.isfinite(value)
    assert float(f"{value!r}") == value


def check_sweep(cells: list[sweeps.Cell]) -> None:
    """Check each cell's condition."""
    for cell in cells:
        check_condition(cell.condition)


def check_studies(studies: list[design.Study]) -> None:
    """Check each cell's condition and number of replicates."""
    for cell in (cell for study in studies for cell in study.cells):
        check_condition(cell.condition)
        assert 1 <= cell.stopping.minimum <= cell.stopping.maximum
        require_finite(cell.stopping.half_width_percent)


def check_limits(content: dict[str, Any]) -> None:
    """Check that claims have finite limits."""
    require_finite(content)
    assert all(claim.get("within", 1) > 0 for claim in content["claims"])


def check_published(rows: list[dict[str, str]]) -> None:
    """Check that there are rows without NaN and infinity, which R reads as numbers."""
    assert rows
    texts = {text.strip().lower().lstrip("+-") for row in rows for text in row.values()}
    assert not {"nan", "inf", "infinity"} & texts


def check_trace(times: list[int]) -> None:
    """Check that times do not decrease."""
    assert times == sorted(times)
    require_finite(traces.describe(times) if times[-1] < 10**7 else {})


def nothing(_: Any) -> None:
    """Check nothing: the reader's schema has checked the input."""
